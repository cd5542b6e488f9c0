"""Rows of whole lines of memory, a few of which are normalized together, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from array_support import child_says
from harness import check
from pool_support import dtype_of

OP = "mean_variance_normalization"
LENGTHS = (32, 64, 224, 256, 288, 512, 544, 992, 1024, 1056)


def rows_of_every_kind(count: int, length: int, dtype: str) -> np.ndarray:
    """Near 0, far from 0 by 3 and by 50 deviations, constant, zero, tiny, one element apart."""
    rng = np.random.default_rng([count, length])
    x = rng.standard_normal((count, length))
    x[1::8] += 3
    x[2::8] -= 50
    x[3::8] = 0.1
    x[4::8] = 0
    x[5::8] *= 2.0**-20
    x[6::8, 1:] = 1234
    return x.astype(dtype_of(dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_kind(length: int, dtype: str) -> None:
    rng = np.random.default_rng(length)
    scale, bias = rng.standard_normal((2, 1, length)).astype(dtype_of(dtype))
    for count in (1, 3, 4, 5, 8, 11, 17):
        x = rows_of_every_kind(count, length, dtype)
        for given in ({}, {"use_mean": False}, {"use_variance": False}, {"epsilon": 0.0}):
            check(OP, x, scale, bias, axes=1, **given, layouts=("contiguous", "sliced"))


# What surrounds a row, where it is written and whether past the caches do not reach its bits.
ALONE = """
import numpy as np, cudml
from layouts import dtype_of
from test_mvn_short_rows import LENGTHS, rows_of_every_kind
def bits(y):
    return np.ascontiguousarray(y).view(np.uint8)
for dtype in ("float16", "bfloat16", "float32"):
    try:
        kind = dtype_of(dtype)
    except TypeError:
        continue
    for length in LENGTHS:
        x = rows_of_every_kind(21, length, dtype)
        x[17, 5], x[18, 9] = np.inf, np.nan
        scale, bias = np.random.default_rng(7).standard_normal((2, 1, length)).astype(kind)
        def normalized(rows, **kwargs):
            return cudml.mean_variance_normalization(rows, scale, bias, axes=1, **kwargs)
        want = bits(np.concatenate([normalized(x[i : i + 1]) for i in range(21)]))
        assert np.isnan(want.view(kind).astype("f4")).any(axis=1).tolist() == (
            [False] * 17 + [True, True] + [False] * 2)
        for count in (2, 4, 5, 9, 21):
            for offset in (0, 1, 7, 16, 31):
                for gap in (0, 32, 40):
                    case = (dtype, length, count, offset, gap)
                    room = np.full(count * (length + gap) + 128, 7, kind)
                    at = (-room.ctypes.data % 64) // x.itemsize + offset
                    y = room[at : at + count * (length + gap)].reshape(count, -1)[:, :length]
                    normalized(x[:count], out=y)
                    assert (bits(y) == want[:count]).all(), case
                    y[...] = x[:count]
                    normalized(y, out=y)
                    assert (bits(y) == want[:count]).all(), ("in place", *case)
                    y[...] = 7
                    assert (room == 7).all(), case
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_rows_come_out_the_same_among_others(limit: str) -> None:
    """Nothing else is written, either."""
    assert child_says(ALONE, CUDML_STREAM_BYTES=limit, limit=120) == "done"
