"""Mean-variance normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations import Fused, activate, resolve
from .arguments import axes_of, broadcasts, flag, floating, real, require, same_type
from .numbers import parameter
from .stages import Normalized, normalized, statistics
from .wide import Wide

OP = "mean_variance_normalization"
Array = NDArray[Any]
F64 = NDArray[np.float64]


def mean_variance_normalization(
    x: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: int | Sequence[int],
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: float = 1e-5,
    activation: Fused = None,
    return_statistics: bool = False,
) -> F64 | tuple[F64, F64 | None, F64 | None]:
    """activation(scale * y + bias), unrounded, in x's shape, from statistics over `axes`.

    ::

        mean     = use_mean ? sum(x)/N : 0
        variance = sum((x - mean)^2) / N
        y        = use_variance ? (x - mean) / sqrt(variance + epsilon) : x - mean

    N is the number of elements that share all coordinates outside `axes`; no axes means N = 1.
    scale and bias broadcast to x. Epsilon is a FLOAT unless x is float64 (D-MVN-9).

    Parameters
    ----------
    x : ndarray of rank 1 to 8
        float16, bfloat16, float32 or float64.
    scale, bias : ndarray or None
        x's rank; each size is 1 or x's.
    axes : int or ints
        The dimensions that the statistics run over.
    use_mean, use_variance : bool
        Whether the mean is taken off, whether the deviation is divided by.
    epsilon : float
        Added to the variance inside of the root.
    activation : None, str, or (str, dict)
        As in `cudml.mean_variance_normalization`.
    return_statistics : bool
        Return the mean and the variance before epsilon is added as well (D-GRAD-48).

    Returns
    -------
    ndarray of float64, x's shape, or a tuple of three
        The result; mean and variance with size 1 in `axes`, None where they are not used.

    Raises
    ------
    TypeError, ValueError
        Where `cudml.mean_variance_normalization` raises them.

    Notes
    -----
    States DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.
    """
    with_statistics = flag(OP, "return_statistics", return_statistics)
    stages, y = stages_of(x, scale, bias, axes, use_mean, use_variance, epsilon, activation)
    if not with_statistics:
        return y
    return y, stages.mean.hi if use_mean else None, stages.variance.hi if use_variance else None


def stages_of(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    axes: int | Sequence[int],
    use_mean: bool,
    use_variance: bool,
    epsilon: float,
    activation: Fused,
) -> tuple[Normalized, F64]:
    """The stages of mean_variance_normalization and its result."""
    over = checked(OP, x, scale, bias, axes, use_mean, use_variance)
    epsilon = checked_epsilon(OP, epsilon, x.dtype)
    name, parameters = resolve(activation, x.dtype)
    mean, variance = own_statistics(x, over, use_mean, use_variance)
    with np.errstate(all="ignore"):
        stages = normalized(x, mean, variance, scale, bias, epsilon)
    return stages, activate(stages.affine.hi, name, parameters)


def own_statistics(
    x: Array, over: Sequence[int], use_mean: bool, use_variance: bool
) -> tuple[Wide | None, Wide | None]:
    """The mean and the variance of each group, None where they are not asked for."""
    with np.errstate(all="ignore"):
        count, mean, squares = statistics(x, over, use_mean)
        variance = squares / float(count)
    return mean if use_mean else None, variance if use_variance else None


def group_axes(op: str, rank: int, axes: int | Sequence[int]) -> list[int]:
    """The axes of the statistics, ascending and counted from 0; an int is one axis."""
    result = sorted(axes_of(op, axes, rank))
    require(len(set(result)) == len(result), f"{op}: Axes is {axes}; each may be named once only")
    return result


def checked(
    op: str,
    x: Array,
    scale: Array | None,
    bias: Array | None,
    axes: Any,
    use_mean: Any,
    use_variance: Any,
) -> list[int]:
    """The axes of the statistics, once arrays, axes and flags are known to be permitted."""
    checked_arrays(op, x, scale, bias)
    over = group_axes(op, x.ndim, axes)
    for axis in over:
        require(x.shape[axis] > 0, f"{op}: InputTensor.Sizes[{axis}] is 0; it is one of Axes")
    flag(op, "UseMean", use_mean)
    flag(op, "UseVariance", use_variance)
    return over


def checked_arrays(op: str, x: Array, scale: Array | None, bias: Array | None) -> None:
    """Refuse x that is not floating, and parameters of another type or shape (D-MVN-15)."""
    floating(op, "InputTensor", x)
    for field, values in (("ScaleTensor", scale), ("BiasTensor", bias)):
        if values is not None:
            floating(op, field, values)
            same_type(op, field, values, x, *(["float32"] if x.dtype.itemsize == 2 else []))
            broadcasts(op, field, values, x.shape)


def checked_epsilon(op: str, epsilon: Any, dtype: np.dtype[Any]) -> float:
    """Epsilon as the operator sees it, finite and not negative once rounded (D-MVN-8, D-MVN-9)."""
    number = parameter(real(op, "Epsilon", epsilon), dtype)
    text = f"{op}: Epsilon is {epsilon}; it must be finite and not negative"
    require(math.isfinite(number) and number >= 0, text)
    return number
