"""Descriptors of padding and mean-variance normalization."""

from __future__ import annotations

from dataclasses import dataclass

from ._shared import Borders, Counted, Input, Mapped, OverAxes
from ._types import (
    BufferTensorDesc,
    DataTypeName,
    OperatorDesc,
    PaddingModeName,
    TensorDataType,
)
from ._types import PaddingMode as Mode

# Fields that stand between others: see _shared.py.


@dataclass(frozen=True, kw_only=True)
class _Moded(Mapped):
    PaddingMode: Mode | PaddingModeName


@dataclass(frozen=True, kw_only=True)
class _FloatValue(OperatorDesc):
    PaddingValue: float


@dataclass(frozen=True, kw_only=True)
class _TypedValue(OperatorDesc):
    PaddingValueDataType: TensorDataType | DataTypeName
    PaddingValue: float | bytes


@dataclass(frozen=True, kw_only=True)
class _Affine(Input):
    ScaleTensor: BufferTensorDesc | None = None
    BiasTensor: BufferTensorDesc | None = None
    OutputTensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class _Channels(OperatorDesc):
    CrossChannel: bool | int


@dataclass(frozen=True, kw_only=True)
class _Deviation(OperatorDesc):
    NormalizeVariance: bool | int


@dataclass(frozen=True, kw_only=True)
class _Moments(OperatorDesc):
    UseMean: bool | int
    UseVariance: bool | int


@dataclass(frozen=True, kw_only=True)
class _Ending(OperatorDesc):
    Epsilon: float
    FusedActivation: OperatorDesc | None = None


@dataclass(frozen=True, kw_only=True)
class PaddingOperatorDesc(Borders, Counted, _FloatValue, _Moded):
    """Padding with a FLOAT constant, `DML_PADDING_OPERATOR_DESC`.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        Rank 1 to 8.
    OutputTensor : BufferTensorDesc
        Sizes are InputTensor + StartPadding + EndPadding, in every dimension.
    PaddingMode : PaddingMode or str
        Where padded elements come from, such as ``"REFLECTION"``.
    PaddingValue : float
        The constant; rounded to FLOAT first, truncated for integer tensors.
    DimensionCount : int, optional
        The rank of the tensors, length of the sequences below.
    StartPadding : sequence of int
        Elements added before each dimension, batch and channel included.
    EndPadding : sequence of int
        Elements added after each dimension.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing; a mode or data type is no
        enumerator and no name.
    ValueError
        The name of a mode or data type does not exist.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [2, 4]), BufferTensorDesc("FLOAT32", [2, 7])
    >>> desc = PaddingOperatorDesc(
    ...     InputTensor=x, OutputTensor=y, PaddingMode="EDGE", PaddingValue=0,
    ...     StartPadding=[0, 1], EndPadding=[0, 2],
    ... )
    >>> desc.PaddingMode
    PaddingMode.EDGE
    """

    _dml_name = "PADDING"


@dataclass(frozen=True, kw_only=True)
class Padding1OperatorDesc(Borders, Counted, _TypedValue, _Moded):
    """Padding with a constant of the tensor's type, `DML_PADDING1_OPERATOR_DESC`.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        Rank 1 to 8.
    OutputTensor : BufferTensorDesc
        Sizes are InputTensor + StartPadding + EndPadding, in every dimension.
    PaddingMode : PaddingMode or str
        Where padded elements come from, such as ``"REFLECTION"``.
    PaddingValueDataType : TensorDataType or str
        OutputTensor's data type.
    PaddingValue : number or bytes
        The constant in that type, or the 8 raw bytes of a `DML_SCALAR_UNION`.
    DimensionCount : int, optional
        The rank of the tensors, length of the sequences below.
    StartPadding : sequence of int
        Elements added before each dimension, batch and channel included.
    EndPadding : sequence of int
        Elements added after each dimension.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing; a mode or data type is no
        enumerator and no name.
    ValueError
        The name of a mode or data type does not exist.

    Examples
    --------
    >>> x, y = BufferTensorDesc("INT8", [2, 4]), BufferTensorDesc("INT8", [2, 7])
    >>> desc = Padding1OperatorDesc(
    ...     InputTensor=x, OutputTensor=y, PaddingMode="CONSTANT", PaddingValueDataType="INT8",
    ...     PaddingValue=-7, StartPadding=[0, 1], EndPadding=[0, 2],
    ... )
    >>> desc.PaddingValueDataType
    TensorDataType.INT8
    """

    _dml_name = "PADDING1"


@dataclass(frozen=True, kw_only=True)
class MeanVarianceNormalizationOperatorDesc(_Ending, _Deviation, _Channels, _Affine):
    """`DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC`, for {N,C,H,W}.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is normalized.
    ScaleTensor : BufferTensorDesc, optional
        Multiplied after normalization; each size is 1 or InputTensor's.
    BiasTensor : BufferTensorDesc, optional
        Added after scaling; each size is 1 or InputTensor's.
    OutputTensor : BufferTensorDesc
        The result, of InputTensor's sizes.
    CrossChannel : bool or int
        Statistics over {1,2,3} rather than {2,3}.
    NormalizeVariance : bool or int
        Whether to divide by the deviation.
    Epsilon : float
        Added to the variance; 1e-5 is usual.
    FusedActivation : OperatorDesc, optional
        An activation for the result, its own tensors None.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x = BufferTensorDesc("FLOAT32", [1, 2, 4, 4])
    >>> desc = MeanVarianceNormalizationOperatorDesc(
    ...     InputTensor=x, OutputTensor=x, CrossChannel=False, NormalizeVariance=True, Epsilon=1e-5,
    ... )
    >>> desc.ScaleTensor is None
    True
    """

    _dml_name = "MEAN_VARIANCE_NORMALIZATION"


@dataclass(frozen=True, kw_only=True)
class MeanVarianceNormalization1OperatorDesc(_Ending, _Deviation, OverAxes, _Affine):
    """`DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC`: any axes.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is normalized.
    ScaleTensor : BufferTensorDesc, optional
        Multiplied after normalization; each size is 1 or InputTensor's.
    BiasTensor : BufferTensorDesc, optional
        Added after scaling; each size is 1 or InputTensor's.
    OutputTensor : BufferTensorDesc
        The result, of InputTensor's sizes.
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int
        Dimensions over which statistics are taken, in any order.
    NormalizeVariance : bool or int
        Whether to divide by the deviation.
    Epsilon : float
        Added to the variance; 1e-5 is usual.
    FusedActivation : OperatorDesc, optional
        An activation for the result, its own tensors None.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x = BufferTensorDesc("FLOAT32", [1, 2, 4, 4])
    >>> desc = MeanVarianceNormalization1OperatorDesc(
    ...     InputTensor=x, OutputTensor=x, Axes=[2, 3], NormalizeVariance=True, Epsilon=1e-5,
    ... )
    >>> desc.ScaleTensor is None
    True
    """

    _dml_name = "MEAN_VARIANCE_NORMALIZATION1"


@dataclass(frozen=True, kw_only=True)
class MeanVarianceNormalization2OperatorDesc(_Ending, _Moments, OverAxes, _Affine):
    """`DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC`: mean and variance one by one.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is normalized.
    ScaleTensor : BufferTensorDesc, optional
        Multiplied after normalization; each size is 1 or InputTensor's.
    BiasTensor : BufferTensorDesc, optional
        Added after scaling; each size is 1 or InputTensor's.
    OutputTensor : BufferTensorDesc
        The result, of InputTensor's sizes.
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int
        Dimensions over which statistics are taken, in any order.
    UseMean : bool or int
        Whether to subtract the mean.
    UseVariance : bool or int
        Whether to divide by the deviation, about the mean or about 0.
    Epsilon : float
        Added to the variance; 1e-5 is usual.
    FusedActivation : OperatorDesc, optional
        An activation for the result, its own tensors None.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x = BufferTensorDesc("FLOAT32", [1, 2, 4, 4])
    >>> desc = MeanVarianceNormalization2OperatorDesc(
    ...     InputTensor=x, OutputTensor=x, Axes=[1], UseMean=False, UseVariance=True, Epsilon=1e-5,
    ... )
    >>> desc.ScaleTensor is None
    True
    """

    _dml_name = "MEAN_VARIANCE_NORMALIZATION2"
