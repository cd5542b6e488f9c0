"""Rare floats among usual ones: windows they are in, and those beside, have the right winner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from cudml import reference
from pool_support import dtype_of

FLOATS = ("float32", "float16", "bfloat16")
RARE = (np.nan, -0.0, np.inf, -np.inf)
COLUMNS = 71  # outputs fill vectors and a part of one
WINDOWS: tuple[dict[str, Any], ...] = (
    {"window_size": 2, "strides": 2},
    {"window_size": 3, "strides": 2},
    {"window_size": 3, "strides": 2, "start_padding": (1, 1), "end_padding": (0, 1)},
    {"window_size": (2, 3), "strides": (1, 2), "start_padding": (0, 1)},
    {"window_size": (3, 2), "strides": (4, 2), "dilations": (2, 1), "end_padding": (2, 0)},
)


def same_winners(x: np.ndarray, what: dict[str, Any]) -> None:
    want, at = reference.max_pooling(x, **what, return_indices=True)
    unsigned = np.dtype(f"u{x.itemsize}")
    bits, numbers = want.astype(x.dtype).view(unsigned), ~np.isnan(want.astype(np.float64))
    for index_dtype in ("int64", "uint32"):
        y, index = cudml.max_pooling(x, **what, return_indices=True, index_dtype=index_dtype)
        assert np.array_equal(index, at), (what, index_dtype)
        assert np.array_equal(~np.isnan(y.astype(np.float64)), numbers), what
        assert np.array_equal(y.view(unsigned)[numbers], bits[numbers]), what


@pytest.mark.core
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rare", RARE, ids=str)
@pytest.mark.parametrize("usual", ["any", "few", "negative", "zero"])
def test_one_at_every_edge_of_a_plane(usual: str, rare: float, dtype: str) -> None:
    rng = np.random.default_rng(FLOATS.index(dtype))
    shape = (2, 3, 9, COLUMNS)
    any_number, few = rng.standard_normal(shape), rng.integers(-2, 3, shape).astype(float)
    plain = {"any": any_number, "few": few, "negative": -1 - abs(few), "zero": 0 * few}[usual] + 0.0
    for row in (0, 2, 4, 7, 8):
        for column in (0, 1, 34, 63, 64, COLUMNS - 1):
            x = plain.astype(dtype_of(dtype))
            x[1, 1, row, column] = rare
            same_winners(x, WINDOWS[(row + column) % len(WINDOWS)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("what", WINDOWS, ids=str)
def test_many_of_every_kind(what: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(1 + FLOATS.index(dtype))
    for count in (1, 40, 4000):
        x = rng.integers(-1, 2, (3, 4, 23, COLUMNS)).astype(dtype_of(dtype))
        x.reshape(-1)[rng.integers(0, x.size, count)] = rng.choice(RARE, count).astype(x.dtype)
        same_winners(x, what)


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("plane", [(1, 8), (4, 4), (3, 7), (7, 7), (11, 17), (1, 255), (16, 16)])
def test_averages_of_planes_do_not_know_their_neighbours(
    plane: tuple[int, int], dtype: str
) -> None:
    rng = np.random.default_rng(plane[0])
    x = rng.standard_normal((5, 13, *plane)).astype(dtype_of(dtype))
    x[1, 2, 0, 0], x[3, 4, -1, -1] = np.nan, np.inf
    y = cudml.average_pooling(x, plane)
    flat = x.reshape(-1, 1, *plane)
    for i in (0, 1, 14, 15, 16, 17, 43, 63, 64):
        alone = cudml.average_pooling(flat[i : i + 1], plane)
        assert y.reshape(-1)[i].tobytes() == alone.tobytes(), i
    exact = flat.astype(np.float64).mean((1, 2, 3))
    good = np.isfinite(exact)
    wrong = y.reshape(-1)[good].astype(np.float64) - exact[good]
    step = float(np.finfo(np.float16).eps) if dtype == "float16" else 2.0**-7
    assert good.sum() == 63 and np.isnan(y.reshape(-1)[15]) and np.isposinf(y.reshape(-1)[43])
    assert (abs(wrong) <= step / 2 * abs(exact[good]) + 2.0**-15).all()
