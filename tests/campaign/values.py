"""What arrays hold: slices of long arrays of every element type and kind, the same in all runs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

try:
    import ml_dtypes

    BFLOAT16: np.dtype[Any] | None = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BFLOAT16 = None

FLOATS = ["float32", "float16", "float64"] + (["bfloat16"] if BFLOAT16 is not None else [])
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
# exact: integers whose sums are exact; special: NaN, infinities, zeros of both signs, subnormals
# and the extremes among others; ties: few different values; extreme: no NaN, no infinity, but
# zeros, subnormals and the largest.
KINDS = ("exact", "random", "special", "ties", "extreme")
_LENGTH = 1 << 20


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type's name."""
    if name == "bfloat16":
        assert BFLOAT16 is not None
        return BFLOAT16
    return np.dtype(name)


def _specials(kind: np.dtype[Any], with_nan: bool) -> np.ndarray:
    info = ml_dtypes.finfo(kind) if kind.name == "bfloat16" else np.finfo(kind)
    tiny, largest = float(info.smallest_subnormal), float(info.max)
    found = [0.0, -0.0, tiny, -tiny, 3 * tiny, largest, -largest, 1.0, -1.0]
    return np.array(found + ([np.nan, np.inf, -np.inf] if with_nan else [])).astype(kind)


@functools.cache
def _pool(dtype: str, kind: str) -> np.ndarray:
    rng = np.random.default_rng([KINDS.index(kind), (FLOATS + INTEGERS).index(dtype)])
    number = dtype_of(dtype)
    if dtype in INTEGERS:
        return _integers(rng, number, kind)
    if kind == "exact":
        return rng.integers(-8, 9, _LENGTH).astype(float).astype(number)
    if kind == "ties":
        return rng.choice(np.array([-1.0, -0.0, 0.0, 1.0, 1.0, 2.0]), _LENGTH).astype(number)
    random = rng.standard_normal(_LENGTH) * 2.0 ** rng.integers(-3, 4, _LENGTH)
    found = random.astype(number)
    if kind in ("special", "extreme"):
        chosen = rng.random(_LENGTH) < np.repeat(rng.choice([0.02, 0.4], _LENGTH // 64), 64)
        found[chosen] = rng.choice(_specials(number, kind == "special"), int(chosen.sum()))
    return found


def _integers(rng: np.random.Generator, number: np.dtype[Any], kind: str) -> np.ndarray:
    limits = np.iinfo(number)
    if kind in ("exact", "ties"):
        low, high = (max(-8, limits.min), 8) if kind == "exact" else (0, 2)
        return rng.integers(low, high, _LENGTH, number, endpoint=True)
    found = rng.integers(limits.min, limits.max, _LENGTH, number, endpoint=True)
    if kind in ("special", "extreme"):
        chosen = rng.random(_LENGTH) < 0.4
        ends = np.array([limits.min, limits.max, 0, limits.max - 1], number)
        found[chosen] = rng.choice(ends, int(chosen.sum()))
    return found


def fill(view: np.ndarray, dtype: str, kind: str, first: int) -> None:
    """Writes values into a view, from the `first`-th on of those of this type and kind."""
    count = view.size
    if count > _LENGTH:
        pool = np.resize(_pool(dtype, kind), count)
    else:
        first %= _LENGTH - count + 1
        pool = _pool(dtype, kind)[first : first + count]
    view[...] = pool.reshape(view.shape)


def make_sense(name: str, view: np.ndarray, first: int, size: int) -> None:
    """Values that an argument of this name may have: counts are whole, squares not negative, and
    most indices of an output of `size` elements lie inside it."""
    if name == "indices":
        r = np.random.default_rng(first)
        low = 0 if view.dtype.kind == "u" else -3
        view[...] = r.integers(low, max(1, size) + r.choice((0, 0, 3)), view.shape)
    elif name in ("count", "a0", "b0"):
        view[...] = np.floor(np.where(np.isfinite(view), np.abs(view), 1)) % 1024
    elif name in ("variance", "a2", "b2", "y"):
        view[...] = np.abs(view)


def without_ends(view: np.ndarray) -> None:
    """Finite numbers near the ends of the types made ordinary; NaN and infinities stay.

    Products of a few of the others leave float32, where no bound claims anything.
    """
    size = np.abs(view.astype(np.float64))
    far = np.isfinite(size) & ((size > 1e4) | ((size < 1e-4) & (size > 0)))
    view[...] = np.where(far, np.copysign(np.ones((), view.dtype), view), view)
