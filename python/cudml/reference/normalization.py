"""Mean-variance normalization."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations import Fused, activate, resolve
from .numbers import parameter
from .wide import Wide

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
    Exception
        What NumPy makes of bad arguments; they are checked in
        `cudml.mean_variance_normalization`.

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
    over = group_axes(x.ndim, axes)
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
        deviation = (variance + parameter(epsilon, x.dtype)).sqrt()
        normal = centered / deviation if use_variance else centered
        affine = Wide(restored(normal.hi), restored(normal.lo))
        if scale is not None:
            affine = affine * scale.astype(np.float64)
        if bias is not None:
            affine = affine + bias.astype(np.float64)
    output = activate(affine.hi, *resolve(activation, x.dtype))
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
    listed: list[Any] = [axes] if np.ndim(axes) == 0 else list(axes)  # type: ignore[arg-type]
    return sorted(operator.index(a) % rank for a in listed)
