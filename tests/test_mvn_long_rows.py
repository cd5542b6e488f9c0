"""Long rows, of which pairs are written while the next ones are summed, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from array_support import child_says
from harness import check
from pool_support import dtype_of
from test_mvn_short_rows import rows_of_every_kind

OP = "mean_variance_normalization"
LENGTHS = (3008, 3072, 4096, 4128, 8256)  # of which the first and the fourth take no pairs


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_kind(length: int, dtype: str) -> None:
    rng = np.random.default_rng(length)
    scale, bias = rng.standard_normal((2, 1, length)).astype(dtype_of(dtype))
    for given in ({}, {"use_mean": False}, {"use_variance": False}, {"epsilon": 0.0}):
        x = rows_of_every_kind(17, length, dtype)
        check(OP, x, scale, bias, axes=1, **given, layouts=("contiguous", "sliced"))


# What surrounds a row, where it is written, in place or past the caches, and how many threads there
# are do not reach its bits.
ALONE = """
import numpy as np, cudml
from layouts import dtype_of
from test_mvn_long_rows import LENGTHS, rows_of_every_kind
def bits(y):
    return np.ascontiguousarray(y).view(np.uint8)
for dtype in ("float16", "bfloat16"):
    try:
        kind = dtype_of(dtype)
    except TypeError:
        continue
    for length in LENGTHS:
        x = rows_of_every_kind(33, length, dtype)
        x[17, 5], x[18, 9] = np.inf, np.nan
        scale, bias = np.random.default_rng(7).standard_normal((2, 1, length)).astype(kind)
        def normalized(rows, **kwargs):
            return cudml.mean_variance_normalization(rows, scale, bias, axes=1, **kwargs)
        cudml.set_num_threads(1)
        want = bits(np.concatenate([normalized(x[i : i + 1]) for i in range(33)]))
        for threads in (1, 2):
            cudml.set_num_threads(threads)
            for count in (2, 4, 5, 9, 33):
                for offset, gap in ((0, 0), (1, 0), (16, 0), (0, 32), (0, 40)):
                    case = (dtype, length, threads, count, offset, gap)
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
