"""A row's bits depend on the row alone: not on its address, nor on the rows beside it."""

from __future__ import annotations

import pytest

from array_support import child_says
from tests.cpu.test_isa import LEVELS, needs, x86

PLACES = """
import sys
import numpy as np, cudml
from layouts import dtype_of
rng = np.random.default_rng(11)
kind = dtype_of(sys.argv[1])
def placed(values, offset):
    room = np.zeros(values.size + 64, kind)
    first = (-room.ctypes.data % 64) // room.itemsize + offset
    row = room[first : first + values.size].reshape(values.shape)
    row[...] = values
    return row
def normalize(x, given, **more):
    return cudml.mean_variance_normalization(x, *given[0], axes=1, **given[1], **more)
def bits(y):
    return np.ascontiguousarray(y).view(np.uint8)
for n in (3, 16, 17, 61, 64, 200, 768, 1000, 3072, 5003):
    count = 40 if n < 3072 else 20
    x = rng.standard_normal((count, n))
    x[::3] += 30
    x = x.astype(kind)
    affine = [rng.standard_normal((1, n)).astype(kind) for _ in range(2)]
    for given in (
        (affine, {}), (affine, {"activation": "swish"}), ([], {"activation": "gelu"}),
        ([affine[0], None], {"use_mean": False}), ([], {}),
    ):
        want = bits(normalize(x, given))
        case = (n, given[1], len(given[0]))
        for offset in range(17):
            y = placed(x[:3], 16 - offset)
            normalize(placed(x[:3], offset), given, out=y)
            assert (bits(y) == want[:3]).all(), (*case, "from", offset)
        for size in (1, 2, 3, 5, 8, 17):
            for first in (0, 1, count - size):
                y = normalize(x[first : first + size], given)
                assert (bits(y) == want[first : first + size]).all(), (*case, size, first)
print("done")
"""


@x86
@pytest.mark.parametrize("stream_bytes", [None, "0"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("level", LEVELS)
def test_rows_have_their_own_bits(level: str, dtype: str, stream_bytes: str | None) -> None:
    """At 17 addresses of x and of y, in batches of seven sizes, through the caches and past."""
    needs(level)
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    said = child_says(
        PLACES, dtype, limit=120, CUDML_CPU_ISA=level, CUDML_STREAM_BYTES=stream_bytes
    )
    assert said == "done"
