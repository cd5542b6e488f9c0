"""Activation descriptors that can be fused into a normalization."""

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

    Examples
    --------
    >>> issubclass(ActivationReluOperatorDesc, ActivationDesc)
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

    Examples
    --------
    >>> ActivationGeluOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_GELU"


@dataclass(frozen=True, kw_only=True)
class ActivationHardSigmoidOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC`: Alpha * x + Beta, clamped to 0 and 1.

    Parameters
    ----------
    Alpha, Beta : float
        As in the formula.

    Examples
    --------
    >>> ActivationHardSigmoidOperatorDesc().Beta
    0.5
    """

    _dml_name = "ACTIVATION_HARD_SIGMOID"

    Alpha: float = 0.2
    Beta: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationIdentityOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_IDENTITY_OPERATOR_DESC`: x.

    Examples
    --------
    >>> ActivationIdentityOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_IDENTITY"


@dataclass(frozen=True, kw_only=True)
class ActivationLeakyReluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC`: x where x >= 0, else Alpha * x.

    Parameters
    ----------
    Alpha : float
        As in the formula.

    Examples
    --------
    >>> ActivationLeakyReluOperatorDesc().Alpha
    0.01
    """

    _dml_name = "ACTIVATION_LEAKY_RELU"

    Alpha: float = 0.01


@dataclass(frozen=True, kw_only=True)
class ActivationLinearOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_LINEAR_OPERATOR_DESC`: Alpha * x + Beta; neither has a default.

    Parameters
    ----------
    Alpha, Beta : float
        As in the formula.

    Examples
    --------
    >>> ActivationLinearOperatorDesc(Alpha=2.0, Beta=1.0).Beta
    1.0
    """

    _dml_name = "ACTIVATION_LINEAR"

    Alpha: float
    Beta: float


@dataclass(frozen=True, kw_only=True)
class ActivationParametricSoftplusOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC`: Alpha * ln(1 + e^(Beta * x)).

    Parameters
    ----------
    Alpha, Beta : float
        As in the formula.

    Examples
    --------
    >>> ActivationParametricSoftplusOperatorDesc().Beta
    1.0
    """

    _dml_name = "ACTIVATION_PARAMETRIC_SOFTPLUS"

    Alpha: float = 1.0
    Beta: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ActivationReluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_RELU_OPERATOR_DESC`: max(0, x).

    Examples
    --------
    >>> ActivationReluOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_RELU"


@dataclass(frozen=True, kw_only=True)
class ActivationScaledEluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC`: Gamma times ELU.

    Parameters
    ----------
    Alpha, Gamma : float
        As in the formula.

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

    Examples
    --------
    >>> ActivationScaledTanhOperatorDesc().Beta
    0.5
    """

    _dml_name = "ACTIVATION_SCALED_TANH"

    Alpha: float = 1.0
    Beta: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationShrinkOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SHRINK_OPERATOR_DESC`: pulls x towards 0 by Bias, to 0 within Threshold.

    Parameters
    ----------
    Bias, Threshold : float
        As in the formula.

    Examples
    --------
    >>> ActivationShrinkOperatorDesc().Threshold
    0.5
    """

    _dml_name = "ACTIVATION_SHRINK"

    Bias: float = 0.0
    Threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationSigmoidOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SIGMOID_OPERATOR_DESC`: 1 / (1 + e^-x).

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

    Examples
    --------
    >>> ActivationSoftsignOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_SOFTSIGN"


@dataclass(frozen=True, kw_only=True)
class ActivationTanhOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_TANH_OPERATOR_DESC`: tanh x.

    Examples
    --------
    >>> ActivationTanhOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_TANH"


@dataclass(frozen=True, kw_only=True)
class ActivationThresholdedReluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC`: x where x > Alpha, else 0.

    Parameters
    ----------
    Alpha : float
        As in the formula.

    Examples
    --------
    >>> ActivationThresholdedReluOperatorDesc().Alpha
    1.0
    """

    _dml_name = "ACTIVATION_THRESHOLDED_RELU"

    Alpha: float = 1.0
