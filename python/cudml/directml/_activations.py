"""Descriptors of the smooth activations that can be fused into a normalization."""

from __future__ import annotations

from dataclasses import dataclass

from ._types import BufferTensorDesc, OperatorDesc


@dataclass(frozen=True, kw_only=True)
class ActivationDesc(OperatorDesc):
    """What all activations have: tensors, which are None where the activation is fused.

    Parameters
    ----------
    InputTensor, OutputTensor : BufferTensorDesc, optional
        Must be None in `FusedActivation`, the only place where activations are taken.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> issubclass(ActivationTanhOperatorDesc, ActivationDesc)
    True
    """

    InputTensor: BufferTensorDesc | None = None
    OutputTensor: BufferTensorDesc | None = None


@dataclass(frozen=True, kw_only=True)
class ActivationCeluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_CELU_OPERATOR_DESC`: max(0, x) + min(0, Alpha * (e^(x / Alpha) - 1)).

    Parameters
    ----------
    Alpha : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationCeluOperatorDesc().Alpha
    1.0
    """

    _dml_name = "ACTIVATION_CELU"

    Alpha: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ActivationEluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_ELU_OPERATOR_DESC`: x where x >= 0, else Alpha * (e^x - 1).

    Parameters
    ----------
    Alpha : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationEluOperatorDesc().Alpha
    1.0
    """

    _dml_name = "ACTIVATION_ELU"

    Alpha: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ActivationGeluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_GELU_OPERATOR_DESC`: 0.5 * x * (1 + erf(x / sqrt 2)).

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationGeluOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_GELU"


@dataclass(frozen=True, kw_only=True)
class ActivationParametricSoftplusOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC`: Alpha * ln(1 + e^(Beta * x)).

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
    >>> ActivationParametricSoftplusOperatorDesc().Beta
    1.0
    """

    _dml_name = "ACTIVATION_PARAMETRIC_SOFTPLUS"

    Alpha: float = 1.0
    Beta: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ActivationScaledEluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC`: Gamma times ELU.

    Parameters
    ----------
    Alpha, Gamma : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationScaledEluOperatorDesc().Gamma
    1.0507010221481323
    """

    _dml_name = "ACTIVATION_SCALED_ELU"

    Alpha: float = 1.67326319217681884765625
    Gamma: float = 1.05070102214813232421875


@dataclass(frozen=True, kw_only=True)
class ActivationScaledTanhOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC`: Alpha * tanh(Beta * x).

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
    >>> ActivationScaledTanhOperatorDesc().Beta
    0.5
    """

    _dml_name = "ACTIVATION_SCALED_TANH"

    Alpha: float = 1.0
    Beta: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationSigmoidOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SIGMOID_OPERATOR_DESC`: 1 / (1 + e^-x).

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationSigmoidOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_SIGMOID"


@dataclass(frozen=True, kw_only=True)
class ActivationSoftplusOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC`: ln(1 + e^(Steepness * x)) / Steepness.

    Parameters
    ----------
    Steepness : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationSoftplusOperatorDesc().Steepness
    1.0
    """

    _dml_name = "ACTIVATION_SOFTPLUS"

    Steepness: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ActivationSoftsignOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC`: x / (1 + |x|).

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationSoftsignOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_SOFTSIGN"


@dataclass(frozen=True, kw_only=True)
class ActivationTanhOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_TANH_OPERATOR_DESC`: tanh x.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationTanhOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_TANH"
