"""Normalization by given statistics on the CPU, of rows and of columns that follow each other: the
same bits wherever the result begins, past the caches or through them, and nothing else written."""

from __future__ import annotations

import pytest

from array_support import child_says

# A row at a time has the plain answer: nothing follows it. Rows and columns end anywhere in a line,
# and each has statistics of its own.
PLACED = """
import sys
import numpy as np, cudml
from layouts import dtype_of
name = sys.argv[1]
kind = dtype_of(name)
rng = np.random.default_rng(5)
GUARD = 7
def bits(y):
    return np.ascontiguousarray(y).view(np.uint8)
def place(shape, first):
    size = int(np.prod(shape))
    room = np.full(size + 160, GUARD, kind)
    at = (-room.ctypes.data % 64) // room.itemsize + first
    return room, at, room[at : at + size].reshape(shape)
def vector(shape, along, dtype, least):
    sizes = [n if i == along else 1 for i, n in enumerate(shape)]
    return (rng.standard_normal(sizes) ** 2 + least).astype(dtype)
def alone(x, given, along, activation):
    y = np.empty_like(x)
    for c in range(x.shape[along]):
        at = tuple(slice(c, c + 1) if i == along else slice(None) for i in range(x.ndim))
        parts = [t[at] for t in given]
        y[at] = cudml.normalize(x[at].copy(), *parts, epsilon=1e-3, activation=activation)
    return y
ROWS = [((2, 5, n), 1) for n in (16, 17, 31, 33, 47, 49, 63, 64, 65, 196, 1000)] + [((3, 1, 49), 1)]
COLUMNS = [((7, n), 1) for n in (17, 40, 1024, 1025, 1057, 1100, 2048, 2049, 2100)]
COLUMNS += [((2, 3, n), 2) for n in (33, 1030)]
for shape, along in ROWS + COLUMNS:
    x = (rng.standard_normal(shape) * 2 + 3).astype(kind)
    for wide in (np.float32, np.float64):
        given = (vector(shape, along, wide, -1), vector(shape, along, wide, 0.1),
                 vector(shape, along, kind, -1), vector(shape, along, kind, -1))
        for activation in (None, "relu", "swish", "tanh"):
            if activation == "tanh" and shape[-1] not in (49, 1030):
                continue
            wanted = bits(alone(x, given, along, activation))
            for first in (0, 1, 8, 9, 31):
                room, at, y = place(shape, first)
                cudml.normalize(x, *given, epsilon=1e-3, activation=activation, out=y)
                case = (shape, wide.__name__, activation, first)
                assert (bits(y) == wanted).all(), case
                assert (room[:at] == GUARD).all() and (room[at + x.size :] == GUARD).all(), case
                y[...] = x
                cudml.normalize(y, *given, epsilon=1e-3, activation=activation, out=y)
                assert (bits(y) == wanted).all(), ("in place", *case)
                assert (room[:at] == GUARD).all() and (room[at + x.size :] == GUARD).all(), case
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_rows_and_columns_that_follow_each_other(name: str, limit: str) -> None:
    """CUDML_STREAM_BYTES moves the size from which results are written past the caches."""
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    said = child_says(PLACED, name, CUDML_STREAM_BYTES=limit, CUDML_NUM_THREADS="2", limit=180)
    assert said == "done"
