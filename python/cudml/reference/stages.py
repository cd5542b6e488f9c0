"""The steps that all normalizations share: statistics of groups, and what is done with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .wide import Wide

Array = NDArray[Any]


@dataclass(frozen=True)
class Normalized:
    """Every stage of a normalization; statistics have size 1 where elements share them.

    mean is 0 where none is taken off, variance 0 and deviation 1 where none is divided by.
    """

    mean: Wide
    variance: Wide
    centered: Wide
    deviation: Wide
    normal: Wide
    affine: Wide


def group_sum(values: Wide, over: Sequence[int]) -> Wide:
    """The sum over some axes, which keep the size 1."""
    shape = list(values.hi.shape)
    for axis in over:
        shape[axis] = 1
        values = values.sum(axis).reshape(*shape)
    return values


def statistics(x: Array, over: Sequence[int], use_mean: bool) -> tuple[int, Wide, Wide]:
    """The count, the mean (0 without use_mean) and the sum of squares about it, of each group.

    An empty group has (0, 0, 0).
    """
    count = math.prod(x.shape[a] for a in over)
    values = Wide.of(x)
    shape = [1 if a in over else n for a, n in enumerate(x.shape)]
    if count == 0:
        return 0, Wide.of(np.zeros(shape)), Wide.of(np.zeros(shape))
    mean = Wide.of(np.zeros(shape))
    if use_mean:
        mean = group_sum(values, over) / float(count)
    centered = values - mean
    return count, mean, group_sum(centered * centered, over)


def normalized(
    x: Array,
    mean: Wide | None,
    variance: Wide | None,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
) -> Normalized:
    """scale * ((x - mean) / sqrt(variance + epsilon)) + bias; None leaves its step out."""
    centered = Wide.of(x)
    if mean is not None:
        centered = centered - mean
    deviation, normal = Wide.of(np.ones([1] * x.ndim)), centered
    if variance is not None:
        deviation = (variance + epsilon).sqrt()
        normal = centered / deviation
    affine = normal
    if scale is not None:
        affine = affine * scale.astype(np.float64)
    if bias is not None:
        affine = affine + bias.astype(np.float64)
    none = Wide.of(np.zeros([1] * x.ndim))
    return Normalized(
        none if mean is None else mean,
        none if variance is None else variance,
        centered,
        deviation,
        normal,
        affine,
    )
