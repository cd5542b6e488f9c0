"""What the bounds of all operators share: lengths of chains, magnitudes, ranges, results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reference.numbers import FloatFormat
from .comparison import Expected

Array = NDArray[Any]
F64 = NDArray[np.float64]


def chain(count: Any) -> F64:
    """m, the longest chain of additions in a sum of `count` terms."""
    n = np.maximum(np.asarray(count, np.float64), 1.0)
    return np.minimum(n, 4096.0 + np.ceil(np.log2(n)))


def merges(count: Any, form: FloatFormat) -> F64:
    """How many merges of parts may round what is subnormal: those of floats are made in float64."""
    return chain(count) if form.precision == 53 else np.ones(())


def sizes(x: Array) -> F64:
    """|x| in float64, 0 for NaN and infinities, whose effect on a result is exact."""
    size = np.abs(x.astype(np.float64))
    return np.where(np.isfinite(size), size, 0.0)


def unless_overflow(error: F64, magnitude: F64, form: FloatFormat) -> F64:
    """No claim where a sum of this magnitude may leave the compute type's range."""
    return np.where(magnitude * (1 + 2.0**-10) >= form.largest, np.inf, error)


def sum_over(values: F64, over: tuple[int, ...]) -> F64:
    """The sum over some axes, which keep the size 1."""
    return np.asarray(np.sum(values, axis=over, keepdims=True)) if over else values


def exact(op: str, values: list[Array], rules: list[str]) -> Expected:
    """Results compared without a tolerance."""
    bounds = [np.zeros(v.shape) if i == 0 else None for i, v in enumerate(values)]
    return Expected(op, [v.dtype for v in values], list(values), bounds, rules, [])


def bounded(op: str, *outputs: tuple[np.dtype[Any], F64 | None, F64]) -> Expected:
    """Results judged by their bounds: type, value and E of each; a value of None is no output."""
    return Expected(
        op,
        [dtype for dtype, _, _ in outputs],
        [value for _, value, _ in outputs],
        [None if value is None else _settled(value, error) for _, value, error in outputs],
        ["absent" if value is None else "bound" for _, value, _ in outputs],
        [],
    )


def _settled(value: F64, error: F64) -> F64:
    """E, 0 where the value is infinite or NaN, which a result must be too; inf where no claim."""
    settled = np.isnan(error) | ~(np.isfinite(value) | np.isposinf(error))
    return np.broadcast_to(np.where(settled, 0.0, error), value.shape)
