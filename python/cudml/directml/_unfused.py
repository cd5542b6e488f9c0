"""Activations that DirectML does not fuse into a normalization; `Operator` refuses them."""

from __future__ import annotations

from dataclasses import dataclass

from ._activations import ActivationDesc
from ._shared import OverAxes
from ._types import BufferTensorDesc, OperatorDesc


@dataclass(frozen=True, kw_only=True)
class ActivationHardmaxOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_HARDMAX_OPERATOR_DESC`: 1 at the first largest element of a row, else 0.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationHardmaxOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_HARDMAX"


@dataclass(frozen=True, kw_only=True)
class ActivationHardmax1OperatorDesc(OverAxes, ActivationDesc):
    """`DML_ACTIVATION_HARDMAX1_OPERATOR_DESC`: Hardmax over Axes.

    Parameters
    ----------
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int
        Dimensions of a row.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationHardmax1OperatorDesc(Axes=[1]).AxisCount
    1
    """

    _dml_name = "ACTIVATION_HARDMAX1"


@dataclass(frozen=True, kw_only=True)
class ActivationHardSwishOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC`: x * (Alpha * x + Beta, clamped to 0 and 1).

    Parameters
    ----------
    Alpha, Beta : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationHardSwishOperatorDesc().Beta
    0.5
    """

    _dml_name = "ACTIVATION_HARD_SWISH"

    Alpha: float = 1 / 6
    Beta: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationLogSoftmaxOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC`: The logarithm of softmax over a row.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationLogSoftmaxOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_LOG_SOFTMAX"


@dataclass(frozen=True, kw_only=True)
class ActivationLogSoftmax1OperatorDesc(OverAxes, ActivationDesc):
    """`DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC`: The logarithm of softmax over Axes.

    Parameters
    ----------
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int
        Dimensions of a row.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationLogSoftmax1OperatorDesc(Axes=[1]).AxisCount
    1
    """

    _dml_name = "ACTIVATION_LOG_SOFTMAX1"


@dataclass(frozen=True, kw_only=True)
class ActivationParameterizedReluOperatorDesc(OperatorDesc):
    """`DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC`: x where x >= 0, else slope * x.

    Parameters
    ----------
    InputTensor, OutputTensor : BufferTensorDesc, optional
        As in `ActivationDesc`.
    SlopeTensor : BufferTensorDesc, optional
        The slope of negative x.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationParameterizedReluOperatorDesc().SlopeTensor is None
    True
    """

    _dml_name = "ACTIVATION_PARAMETERIZED_RELU"

    InputTensor: BufferTensorDesc | None = None
    SlopeTensor: BufferTensorDesc | None = None
    OutputTensor: BufferTensorDesc | None = None


@dataclass(frozen=True, kw_only=True)
class ActivationSoftmaxOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SOFTMAX_OPERATOR_DESC`: Softmax over a row.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationSoftmaxOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_SOFTMAX"


@dataclass(frozen=True, kw_only=True)
class ActivationSoftmax1OperatorDesc(OverAxes, ActivationDesc):
    """`DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC`: Softmax over Axes.

    Parameters
    ----------
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int
        Dimensions of a row.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationSoftmax1OperatorDesc(Axes=[1]).AxisCount
    1
    """

    _dml_name = "ACTIVATION_SOFTMAX1"


@dataclass(frozen=True, kw_only=True)
class ActivationSwishOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SWISH_OPERATOR_DESC`: x * sigmoid(SigmoidInputScale * x).

    Parameters
    ----------
    SigmoidInputScale : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationSwishOperatorDesc().SigmoidInputScale
    1.0
    """

    _dml_name = "ACTIVATION_SWISH"

    SigmoidInputScale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ElementWiseClipOperatorDesc(ActivationDesc):
    """`DML_ELEMENT_WISE_CLIP_OPERATOR_DESC`: x clamped to Min and Max.

    Parameters
    ----------
    ScaleBias : (float, float), optional
        Applied to x first.
    Min, Max : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ElementWiseClipOperatorDesc(Min=0.0, Max=6.0).Max
    6.0
    """

    _dml_name = "ELEMENT_WISE_CLIP"

    ScaleBias: tuple[float, float] | None = None
    Min: float
    Max: float
