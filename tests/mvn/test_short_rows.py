"""Rows of whole lines of memory, a few of which are normalized together, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import check
from mvn_support import rows_of_every_kind
from pool_support import dtype_of
from tests.cpu.test_isa import needs, x86

OP = "mean_variance_normalization"
LENGTHS = (32, 64, 224, 256, 288, 512, 544, 992, 1024, 1056)


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
from mvn_support import same_among_others
from tests.mvn.test_short_rows import LENGTHS
PLACES = [(offset, gap) for offset in (0, 1, 7, 16, 31) for gap in (0, 32, 40)]
for dtype in ("float16", "bfloat16", "float32"):
    for length in LENGTHS:
        same_among_others(dtype, length, (2, 4, 5, 9, 21), PLACES)
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_rows_come_out_the_same_among_others(limit: str) -> None:
    """Nothing else is written, either."""
    assert child_says(ALONE, CUDML_STREAM_BYTES=limit, limit=120) == "done"


# Rows shorter than any vector that they are turned with, and as long as one or longer.
TURNED = """
from mvn_support import same_among_others
for dtype in ("float16", "bfloat16", "float32"):
    for length in (10, 12, 13, 15):
        same_among_others(dtype, length, (8, 19, 40), ((0, 0), (1, 0), (16, 0), (0, 3)), (1, 2))
print("done")
"""


@x86
@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("level", ["", "base"])
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_turned_rows_come_out_the_same_among_others(limit: str, level: str) -> None:
    if level:
        needs(level)
    environment = {"CUDML_CPU_ISA": level} if level else {}
    assert child_says(TURNED, CUDML_STREAM_BYTES=limit, limit=120, **environment) == "done"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_short_groups_of_channels(dtype: str) -> None:
    """A scale and a bias for each of several pieces that make up a row of at most 15 elements."""
    kind = dtype_of(dtype)
    rng = np.random.default_rng(1)
    for shape in ((37, 5, 3, 2, 2), (2, 20, 7, 2, 1), (9, 1, 2, 1, 7), (40, 3, 2, 2, 2)):
        x = rng.standard_normal(shape).astype(kind)
        for wide in (kind, np.dtype("float32")):
            sizes = ((1, *shape[1:3], 1, 1), (1, 1, shape[2], 1, shape[4]))
            scale, bias = (rng.standard_normal(s).astype(wide) for s in sizes)
            for given in ({}, {"use_mean": False, "activation": "relu"}, {"activation": "gelu"}):
                e = cudml.explain(OP, x, scale, bias, axes=(2, 3, 4), **given, device="cpu")
                assert str(e.kernel) == "mvn/short_rows"
                check(OP, x, scale, bias, axes=(2, 3, 4), **given)
