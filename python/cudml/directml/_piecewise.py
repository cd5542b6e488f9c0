"""Descriptors of the activations made of straight pieces, which can be fused as well."""

from __future__ import annotations

from dataclasses import dataclass

from ._activations import ActivationDesc


@dataclass(frozen=True, kw_only=True)
class ActivationHardSigmoidOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC`: Alpha * x + Beta, clamped to 0 and 1.

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
    >>> ActivationHardSigmoidOperatorDesc().Beta
    0.5
    """

    _dml_name = "ACTIVATION_HARD_SIGMOID"

    Alpha: float = 0.2
    Beta: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationIdentityOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_IDENTITY_OPERATOR_DESC`: x.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

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

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

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

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationLinearOperatorDesc(Alpha=2.0, Beta=1.0).Beta
    1.0
    """

    _dml_name = "ACTIVATION_LINEAR"

    Alpha: float
    Beta: float


@dataclass(frozen=True, kw_only=True)
class ActivationReluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_RELU_OPERATOR_DESC`: max(0, x).

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationReluOperatorDesc().InputTensor is None
    True
    """

    _dml_name = "ACTIVATION_RELU"


@dataclass(frozen=True, kw_only=True)
class ActivationShrinkOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_SHRINK_OPERATOR_DESC`: pulls x towards 0 by Bias, to 0 within Threshold.

    Parameters
    ----------
    Bias, Threshold : float
        As in the formula.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> ActivationShrinkOperatorDesc().Threshold
    0.5
    """

    _dml_name = "ACTIVATION_SHRINK"

    Bias: float = 0.0
    Threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ActivationThresholdedReluOperatorDesc(ActivationDesc):
    """`DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC`: x where x > Alpha, else 0.

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
    >>> ActivationThresholdedReluOperatorDesc().Alpha
    1.0
    """

    _dml_name = "ACTIVATION_THRESHOLDED_RELU"

    Alpha: float = 1.0
