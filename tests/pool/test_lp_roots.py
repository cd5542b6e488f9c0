"""Roots beyond the square root (D-LP-6): their digits, exact ones, and those of windows that need
their taps again beside those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, dtype_of
from pool_support import FLOATS, channels_last, same_bits

# What a power may lose, as reliability's bound counts it: two for each doubling, and one.
ORDERS = {3: 5, 4: 5, 5: 7, 7: 7, 8: 7, 17: 11, 100: 15, 1000: 21, 2**32 - 1: 65}


def spread(shape: tuple[int, ...], dtype: str, decades: float) -> np.ndarray:
    """Magnitudes of many powers of two, of both signs."""
    rng = np.random.default_rng([*shape, int(decades)])
    x = np.exp2(rng.uniform(-decades, decades, shape)) * rng.choice([-1.0, 1.0], shape)
    return x.astype(dtype_of(dtype))


def exact(x: np.ndarray, p: int) -> Any:
    """Norms along the last dimension."""
    magnitude = np.abs(x.astype(np.longdouble))
    largest = magnitude.max(-1, keepdims=True)
    powers = np.exp2(np.log2(magnitude / largest) * p) if p > 1000 else (magnitude / largest) ** p
    return largest[..., 0] * powers.sum(-1) ** (np.longdouble(1) / p)


@pytest.mark.small
@pytest.mark.decision("D-LP-6", "D-LP-9")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", ORDERS)
def test_roots_to_two_units(p: int, dtype: str) -> None:
    """Sums through the whole range in which they are taken as they are, and beyond it."""
    unit = np.longdouble(2.0) ** (-53 if dtype == "float64" else -24)
    for decades in (1, 60 / p, (300 if dtype == "float64" else 40), 90):
        x = spread((3, 5, 7, 60), dtype, decades)
        want = exact(x.reshape(3, 5, 7, 30, 2), p)
        for given in (x, channels_last(x)):
            y = cudml.lp_pooling(given, (1, 2), (1, 2), p=p).astype(np.longdouble)
            lost = (2 + (1 + ORDERS[p]) / p) * unit + unit  # sums and powers, and the last rounding
            assert (np.abs(y - want) <= want * (2 * unit + lost)).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-LP-6")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_roots_of_powers_are_their_numbers(dtype: str) -> None:
    """n times 3, 4 and 5 have the cubic norm 6n; up to here nothing of the sums is rounded."""
    most = 2**14 if dtype == "float64" else 43
    n = np.arange(1, most, max(1, most // 500)).astype(dtype_of(dtype)).astype("f8")
    x = (np.stack([3 * n, -4 * n, 5 * n], -1).reshape(1, 1, -1)).astype(dtype_of(dtype))
    held = (x.astype("f8").reshape(-1, 3) == np.stack([3 * n, -4 * n, 5 * n], -1)).all(-1)
    y = cudml.lp_pooling(x, 3, 3, p=3).ravel()
    assert held.sum() > 30
    np.testing.assert_array_max_ulp(
        y[held].astype("f8"), (6 * n[held]).astype(x.dtype).astype("f8"), int(dtype == "float64")
    )
    one = np.full((1, 2, 5, 40), 1, dtype_of(dtype))
    for p in (3, 6, 2**32 - 1):
        assert (cudml.lp_pooling(one, 1, p=p) == 1).all()


@pytest.mark.small
@pytest.mark.decision("D-LP-6", "D-LP-7", "D-LP-8", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [3, 5])
def test_windows_that_need_their_taps_again_stand_anywhere(p: int, dtype: str) -> None:
    """Tiny, huge, infinite, zero and NaN windows among hundreds: each has the bits that it has by
    itself, and changes no neighbour's."""
    small, large = (2.0**-20, 3e4) if dtype == "float16" else (1e-25, 1e25)
    plain = spread((2, 3, 9, 300), dtype, 2)
    x = plain.copy()
    rng = np.random.default_rng(p)
    for value in (small, large, np.inf, np.nan, 0.0, -0.0):
        for i in rng.integers(0, x.size // 2, 9):
            x.reshape(-1, 2)[i] = value
    touched = (x.reshape(-1, 2) != plain.reshape(-1, 2)).any(-1)
    assert 30 < touched.sum() < 60
    for given, whole in ((x, plain), (channels_last(x), channels_last(plain))):
        y = cudml.lp_pooling(given, (1, 2), (1, 2), p=p)
        before = cudml.lp_pooling(whole, (1, 2), (1, 2), p=p)
        flat = y.reshape(-1)
        assert same_bits(flat[~touched], before.reshape(-1)[~touched])
        for i in np.flatnonzero(touched):
            own = x.reshape(-1, 2)[i]
            alone = cudml.lp_pooling(np.ascontiguousarray(own).reshape(1, 1, 1, 2), (1, 2), p=p)
            assert same_bits(flat[i : i + 1], alone.reshape(-1)) or np.isnan(own.astype("f4")).any()
    check("lp_pooling", x[:1, :2, :3, :40].copy(), (1, 2), (1, 2), p=p)
