"""Descriptions of normalization with given statistics and of the gradients of normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cudml._typing import ActivationLike
from cudml.directml import BufferTensorDesc, OperatorDesc


@dataclass(frozen=True, kw_only=True)
class MeanVarianceNormalizationGradDesc(OperatorDesc):
    """`cudml.mean_variance_normalization_grad`: the gradients of x, scale and bias.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What was normalized, of rank 1 to 8; a float type.
    InputGradientTensor : BufferTensorDesc
        The gradient of the result; InputTensor's sizes and type.
    ScaleTensor, BiasTensor : BufferTensorDesc, optional
        Each size is 1 or InputTensor's; InputTensor's type, or FLOAT32 beside 16-bit data.
    Mean, Variance : BufferTensorDesc, optional
        The groups' statistics where they are at hand: both None, or each given exactly where it is
        used. InputTensor's sizes with 1 in Axes; its type, FLOAT32 or FLOAT64.
    OutputGradientTensor, ScaleGradientTensor, BiasGradientTensor : BufferTensorDesc, optional
        The results that are wanted, one at least: sizes and types of InputTensor, ScaleTensor and
        BiasTensor.
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int, or None
        The dimensions that were normalized over.
    UseMean, UseVariance : bool or int, default True
        Whether the mean was subtracted, and whether the deviation divided by.
    Epsilon : float, default 1e-5
        Added to the variance; finite, not negative.
    FusedActivation : str, or (str, {parameter: number}), optional
        As in `cudml.mean_variance_normalization`.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, scale = BufferTensorDesc("FLOAT32", [4, 6]), BufferTensorDesc("FLOAT32", [1, 6])
    >>> desc = MeanVarianceNormalizationGradDesc(
    ...     InputTensor=x, InputGradientTensor=x, ScaleTensor=scale,
    ...     OutputGradientTensor=x, ScaleGradientTensor=scale, Axes=[1],
    ... )
    >>> desc.Epsilon
    1e-05
    """

    _dml_name = "mean_variance_normalization_grad"

    InputTensor: BufferTensorDesc
    InputGradientTensor: BufferTensorDesc
    ScaleTensor: BufferTensorDesc | None = None
    BiasTensor: BufferTensorDesc | None = None
    Mean: BufferTensorDesc | None = None
    Variance: BufferTensorDesc | None = None
    OutputGradientTensor: BufferTensorDesc | None = None
    ScaleGradientTensor: BufferTensorDesc | None = None
    BiasGradientTensor: BufferTensorDesc | None = None
    AxisCount: int | None = None
    Axes: Sequence[int] | None
    UseMean: bool | int = True
    UseVariance: bool | int = True
    Epsilon: float = 1e-5
    FusedActivation: ActivationLike | None = None


@dataclass(frozen=True, kw_only=True)
class NormalizeDesc(OperatorDesc):
    """`cudml.normalize`: normalization with given statistics.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is normalized, of rank 1 to 8; a float type.
    Mean, Variance : BufferTensorDesc, optional
        Each size is 1 or InputTensor's; InputTensor's type, FLOAT32 or FLOAT64. None: not shifted,
        or not divided.
    ScaleTensor, BiasTensor : BufferTensorDesc, optional
        Each size is 1 or InputTensor's; InputTensor's type, or FLOAT32 beside 16-bit data.
    OutputTensor : BufferTensorDesc
        The result, of InputTensor's sizes and type; may be the same memory.
    Epsilon : float, default 1e-5
        Added to the variance; finite, not negative.
    FusedActivation : str, or (str, {parameter: number}), optional
        As in `cudml.mean_variance_normalization`.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, one = BufferTensorDesc("FLOAT32", [2, 3, 4]), BufferTensorDesc("FLOAT64", [1, 3, 1])
    >>> desc = NormalizeDesc(
    ...     InputTensor=x, Mean=one, Variance=one, OutputTensor=x, FusedActivation="relu"
    ... )
    >>> desc.ScaleTensor is None
    True
    """

    _dml_name = "normalize"

    InputTensor: BufferTensorDesc
    Mean: BufferTensorDesc | None = None
    Variance: BufferTensorDesc | None = None
    ScaleTensor: BufferTensorDesc | None = None
    BiasTensor: BufferTensorDesc | None = None
    OutputTensor: BufferTensorDesc
    Epsilon: float = 1e-5
    FusedActivation: ActivationLike | None = None


@dataclass(frozen=True, kw_only=True)
class NormalizeGradSumsDesc(OperatorDesc):
    """`cudml.normalize_grad_sums`: a part's share of the sums that its gradient needs.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        The part that was normalized, of rank 1 to 8; a float type.
    InputGradientTensor : BufferTensorDesc
        The gradient of the result; InputTensor's sizes and type.
    Mean, Variance : BufferTensorDesc, optional
        As in `NormalizeDesc`.
    ScaleTensor, BiasTensor : BufferTensorDesc, optional
        As in `NormalizeDesc`.
    GradientSum, ProductSum : BufferTensorDesc
        The results: InputTensor's sizes with 1 in Axes, both FLOAT64 or both FLOAT32.
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int, or None
        The dimensions that are summed over.
    Epsilon : float, default 1e-5
        Added to the variance; finite, not negative.
    FusedActivation : str, or (str, {parameter: number}), optional
        As in `cudml.mean_variance_normalization`.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, one = BufferTensorDesc("FLOAT32", [4, 6]), BufferTensorDesc("FLOAT64", [4, 1])
    >>> desc = NormalizeGradSumsDesc(
    ...     InputTensor=x, InputGradientTensor=x, Mean=one, Variance=one,
    ...     GradientSum=one, ProductSum=one, Axes=[1],
    ... )
    >>> desc.AxisCount
    1
    """

    _dml_name = "normalize_grad_sums"

    InputTensor: BufferTensorDesc
    InputGradientTensor: BufferTensorDesc
    Mean: BufferTensorDesc | None = None
    Variance: BufferTensorDesc | None = None
    ScaleTensor: BufferTensorDesc | None = None
    BiasTensor: BufferTensorDesc | None = None
    GradientSum: BufferTensorDesc
    ProductSum: BufferTensorDesc
    AxisCount: int | None = None
    Axes: Sequence[int] | None
    Epsilon: float = 1e-5
    FusedActivation: ActivationLike | None = None


@dataclass(frozen=True, kw_only=True)
class NormalizeGradDesc(OperatorDesc):
    """`cudml.normalize_grad`: the gradients of `NormalizeDesc`, or of a part of a whole.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What was normalized, of rank 1 to 8; a float type.
    InputGradientTensor : BufferTensorDesc
        The gradient of the result; InputTensor's sizes and type.
    Mean, Variance : BufferTensorDesc, optional
        As in `NormalizeDesc`.
    ScaleTensor, BiasTensor : BufferTensorDesc, optional
        As in `NormalizeDesc`.
    Count, GradientSum, ProductSum : BufferTensorDesc, optional
        Elements of a group and the sums over it, all three or none: each size is 1 or
        InputTensor's; its type, FLOAT32 or FLOAT64. None: statistics are constants.
    OutputGradientTensor, ScaleGradientTensor, BiasGradientTensor : BufferTensorDesc, optional
        The results that are wanted, one at least: sizes and types of InputTensor, ScaleTensor and
        BiasTensor.
    Epsilon : float, default 1e-5
        Added to the variance; finite, not negative.
    FusedActivation : str, or (str, {parameter: number}), optional
        As in `cudml.mean_variance_normalization`.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, one = BufferTensorDesc("FLOAT32", [4, 6]), BufferTensorDesc("FLOAT64", [4, 1])
    >>> desc = NormalizeGradDesc(
    ...     InputTensor=x, InputGradientTensor=x, Variance=one, OutputGradientTensor=x
    ... )
    >>> desc.Mean is None
    True
    """

    _dml_name = "normalize_grad"

    InputTensor: BufferTensorDesc
    InputGradientTensor: BufferTensorDesc
    Mean: BufferTensorDesc | None = None
    Variance: BufferTensorDesc | None = None
    ScaleTensor: BufferTensorDesc | None = None
    BiasTensor: BufferTensorDesc | None = None
    Count: BufferTensorDesc | None = None
    GradientSum: BufferTensorDesc | None = None
    ProductSum: BufferTensorDesc | None = None
    OutputGradientTensor: BufferTensorDesc | None = None
    ScaleGradientTensor: BufferTensorDesc | None = None
    BiasGradientTensor: BufferTensorDesc | None = None
    Epsilon: float = 1e-5
    FusedActivation: ActivationLike | None = None
