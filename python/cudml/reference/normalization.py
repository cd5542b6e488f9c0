"""Mean-variance normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations import Fused, activate, resolve
from .arguments import axes_of, flag, floating, real, require, same_type
from .numbers import parameter
from .wide import Wide

OP = "mean_variance_normalization"
Array = NDArray[Any]
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Normalized:
    """Every stage of a normalization, each in x's shape; `count` is the size of a group."""

    count: int
    mean: F64
    centered: F64
    deviation: F64
    normal: F64
    affine: F64
    output: F64


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
) -> F64:
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

    Returns
    -------
    ndarray of float64, x's shape

    Raises
    ------
    TypeError, ValueError
        Where `cudml.mean_variance_normalization` raises them.

    Notes
    -----
    States DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.
    """
    return normalize(x, scale, bias, axes, use_mean, use_variance, epsilon, activation).output


def normalize(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    axes: int | Sequence[int],
    use_mean: bool,
    use_variance: bool,
    epsilon: float,
    activation: Fused,
) -> Normalized:
    """The stages of mean_variance_normalization."""
    over = checked(x, scale, bias, axes, use_mean, use_variance)
    epsilon = checked_epsilon(epsilon, x.dtype)
    name, parameters = resolve(activation, x.dtype)
    order = [a for a in range(x.ndim) if a not in over] + over
    count = math.prod(x.shape[a] for a in over)
    groups = x.astype(np.float64).transpose(order).reshape(-1 if x.size else 0, count)

    def restored(values: F64) -> F64:
        full = np.broadcast_to(values, groups.shape).reshape([x.shape[a] for a in order])
        return np.transpose(full, np.argsort(order))

    with np.errstate(all="ignore"):
        mean = _row_mean(Wide.of(groups)) if use_mean else Wide.of(np.zeros((len(groups), 1)))
        centered = Wide.of(groups) - mean
        variance = _row_mean(centered * centered)
        deviation = (variance + epsilon).sqrt()
        normal = centered / deviation if use_variance else centered
        affine = Wide(restored(normal.hi), restored(normal.lo))
        if scale is not None:
            affine = affine * scale.astype(np.float64)
        if bias is not None:
            affine = affine + bias.astype(np.float64)
    output = activate(affine.hi, name, parameters)
    return Normalized(
        count,
        mean=restored(mean.hi),
        centered=restored(centered.hi),
        deviation=restored(deviation.hi),
        normal=restored(normal.hi),
        affine=affine.hi,
        output=output,
    )


def _row_mean(groups: Wide) -> Wide:
    """The mean of each row, as a column."""
    rows, count = groups.hi.shape
    return groups.sum(axis=1).reshape(rows, 1) / float(count)


def group_axes(rank: int, axes: int | Sequence[int]) -> list[int]:
    """The axes of the statistics, ascending and counted from 0; an int is one axis."""
    result = sorted(axes_of(OP, axes, rank))
    require(len(set(result)) == len(result), f"{OP}: Axes is {axes}; each may be named once only")
    return result


def checked(
    x: Array, scale: Array | None, bias: Array | None, axes: Any, use_mean: Any, use_variance: Any
) -> list[int]:
    """The axes of the statistics, once arrays, axes and flags are known to be permitted."""
    floating(OP, "InputTensor", x)
    for field, values in (("ScaleTensor", scale), ("BiasTensor", bias)):
        if values is not None:
            floating(OP, field, values)
            same_type(OP, field, values, x, *(["float32"] if x.dtype.itemsize == 2 else []))
            fits = values.ndim == x.ndim and all(
                n in (1, m) for n, m in zip(values.shape, x.shape, strict=True)
            )
            text = f"{OP}: {field}.Sizes are {values.shape}; each must be 1 or that of {x.shape}"
            require(fits, text)
    over = group_axes(x.ndim, axes)
    for axis in over:
        require(x.shape[axis] > 0, f"{OP}: InputTensor.Sizes[{axis}] is 0; it is one of Axes")
    flag(OP, "UseMean", use_mean)
    flag(OP, "UseVariance", use_variance)
    return over


def checked_epsilon(epsilon: Any, dtype: np.dtype[Any]) -> float:
    """Epsilon as the operator sees it, finite and not negative once rounded (D-MVN-8, D-MVN-9)."""
    number = parameter(real(OP, "Epsilon", epsilon), dtype)
    text = f"{OP}: Epsilon is {epsilon}; it must be finite and not negative"
    require(math.isfinite(number) and number >= 0, text)
    return number
