"""Long rows of 16 bits, whose shared scale and bias are converted once, or by each thread."""

from __future__ import annotations

import numpy as np
import pytest

from array_support import child_says
from harness import check
from mvn_support import rows_of_every_kind
from pool_support import dtype_of

OP = "mean_variance_normalization"
LENGTHS = (3008, 3072, 4096, 4128, 8256)


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
from mvn_support import same_among_others
from tests.mvn.test_long_rows import LENGTHS
PLACES = [(0, 0), (1, 0), (16, 0), (0, 32), (0, 40)]
for dtype in ("float16", "bfloat16"):
    for length in LENGTHS:
        same_among_others(dtype, length, (2, 4, 5, 9, 33, 65), PLACES, threads=(1, 2))
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_rows_come_out_the_same_among_others(limit: str) -> None:
    """Nothing else is written, either."""
    assert child_says(ALONE, CUDML_STREAM_BYTES=limit, limit=120) == "done"
