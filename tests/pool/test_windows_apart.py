"""Windows that cover some axes whole and tile the others: planes that one window covers each,
forward and backward, whatever tells the planes apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import check, data
from pool_support import FLOATS, dtype_of, same_bits

pytestmark = pytest.mark.core
Windows = tuple[tuple[int, ...], tuple[int, ...]]
# Shapes and windows, which stand as far apart as they are long.
WINDOWS: dict[str, Windows] = {
    "rows": ((2, 3, 5, 21), (1, 21)),
    "columns": ((2, 3, 21, 5), (21, 1)),
    "columns of many": ((1, 2, 9, 40), (9, 1)),
    "planes": ((3, 9, 7, 11), (7, 11)),
    "pairs of rows": ((2, 3, 6, 17), (2, 17)),
    "pairs of columns": ((2, 3, 17, 6), (17, 2)),
    "short rows": ((5, 9, 4, 3), (1, 3)),
    "one of each": ((2, 3, 1, 1), (1, 1)),
    "rows of a channel": ((2, 1, 4, 70), (1, 70)),
    "long rows": ((2, 2, 3, 3001), (1, 3001)),
    "slices": ((2, 3, 4, 5, 6), (2, 5, 6)),
    "rows of volumes": ((2, 3, 3, 4, 9), (1, 1, 9)),
    "frames": ((2, 3, 5, 4, 3), (5, 1, 1)),
    "all but rows": ((2, 3, 5, 4, 9), (5, 1, 9)),
}
# That cover nearly so much, or stand nearly so: none is a plane of its own.
OTHERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "a row too many": ((2, 3, 5, 17), {"window_size": (2, 17), "strides": (2, 1)}),
    "a gap": ((2, 3, 6, 17), {"window_size": (1, 17), "strides": (2, 1)}),
    "overlap": ((2, 3, 6, 17), {"window_size": (2, 17), "strides": (1, 1)}),
    "a pad before": (
        (2, 3, 6, 17),
        {"window_size": (2, 17), "strides": (2, 1), "start_padding": (1, 0), "end_padding": (1, 0)},
    ),
    "a pad behind": ((2, 3, 6, 17), {"window_size": (2, 18), "strides": 2, "end_padding": (0, 1)}),
    "no whole axis": ((2, 3, 6, 16), {"window_size": (2, 4), "strides": (2, 4)}),
    "dilated": ((2, 3, 6, 17), {"window_size": (3, 17), "strides": (3, 1), "dilations": (2, 1)}),
}
each_float = pytest.mark.parametrize("dtype", FLOATS)


def arguments(name: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    if name in OTHERS:
        return OTHERS[name]
    shape, window = WINDOWS[name]
    return shape, {"window_size": window, "strides": window}


@pytest.mark.small
@pytest.mark.parametrize("name", [*WINDOWS, *OTHERS])
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint16", "int32", "uint64"])
def test_maxima(name: str, dtype: str) -> None:
    """Of elements among which are NaNs, infinities and both zeros, and of many equal ones."""
    shape, windows = arguments(name)
    for kind in ("special", "exact"):
        x = data(shape, dtype, 3, kind)
        check("max_pooling", x, **windows)
        check("max_pooling", x, return_indices=True, **windows)


@pytest.mark.small
@pytest.mark.parametrize("name", [*WINDOWS, *OTHERS])
@each_float
def test_sums(name: str, dtype: str) -> None:
    shape, windows = arguments(name)
    x = data(shape, dtype, 4)
    for include in (False, True):
        check("average_pooling", x, include_padding=include, **windows)
    check("lp_pooling", x, p=3, **windows)


@pytest.mark.small
@pytest.mark.parametrize("name", [*WINDOWS, *OTHERS])
@each_float
def test_gradients(name: str, dtype: str) -> None:
    shape, windows = arguments(name)
    y = cudml.reference.max_pooling(np.zeros(shape, dtype_of(dtype)), **windows)
    for kind in ("random", "special"):
        x, grad = data(shape, dtype, 5, kind), data(y.shape, dtype, 6, kind)
        check("max_pooling_grad", x, grad, **windows)
    grad = data(y.shape, dtype, 7)
    for include in (False, True):
        check("average_pooling_grad", grad, shape, include_padding=include, **windows)
    x = data(shape, dtype, 8)
    norms = cudml.lp_pooling(x, p=3, **windows)
    check("lp_pooling_grad", x, norms, grad, p=3, **windows)


@pytest.mark.parametrize("n", [1, 2, 7, 15, 16, 17, 31, 33, 64, 127, 128, 129, 500, 2049])
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint8", "int16", "uint32", "int64"])
def test_the_first_of_equals_wins_wherever_it_stands(n: int, dtype: str) -> None:
    """A row for each place of the winner; equals follow it, and smaller elements stand before."""
    places = range(n) if n < 200 else [0, 1, n // 2, n - 2, n - 1]
    x = np.ones((len(places), 1, 1, n), dtype_of(dtype))
    for row, place in enumerate(places):
        x[row, 0, 0, place] = 3
        x[row, 0, 0, place + 1 :: 2] = 3
    y, indices = cudml.max_pooling(x, (1, n), return_indices=True, index_dtype="int64")
    assert (y == 3).all()
    assert (indices.ravel() - np.arange(len(places)) * n == list(places)).all()
    if dtype not in FLOATS:
        return
    grad = np.arange(1, len(places) + 1).astype(x.dtype).reshape(-1, 1, 1, 1)
    dx = cudml.max_pooling_grad(x, grad, (1, n))
    want = np.zeros_like(x)
    want[range(len(places)), 0, 0, list(places)] = grad.ravel()
    assert same_bits(dx, want)


@each_float
def test_nan_and_zeros(dtype: str) -> None:
    """The first NaN wins, of any sign and payload; of zeros, which are equal, the first (D-MAX-3,
    D-MAX-6); and a gradient of -0 that is added to 0 is 0."""
    for n in (5, 40, 300):
        x = -np.ones((4, 1, 1, n), dtype_of(dtype))
        bits = x.view(f"u{x.itemsize}")
        sign = bits.dtype.type(1) << bits.dtype.type(8 * x.itemsize - 1)
        nan = np.array(np.nan, x.dtype).view(bits.dtype)
        bits[0, ..., 3], bits[0, ..., 4] = (nan | sign) + 1, nan
        bits[1, ..., 2], bits[1, ..., 3:] = nan, (nan | sign) + 1
        x[2, ..., 2], x[2, ..., 4] = -0.0, 0.0
        x[3, ..., 1], x[3, ..., 3] = 0.0, -0.0
        y, indices = cudml.max_pooling(x, (1, n), return_indices=True)
        assert (indices.ravel() % n).tolist() == [3, 2, 2, 1]
        assert same_bits(y.ravel(), x[range(4), 0, 0, [3, 2, 2, 1]])
        grad = np.full((4, 1, 1, 1), -0.0, x.dtype)
        assert same_bits(cudml.max_pooling_grad(x, grad, (1, n)), np.zeros_like(x))
        assert same_bits(cudml.average_pooling_grad(grad, x.shape, (1, n)), np.zeros_like(x))


DIGEST = """
import hashlib, sys
import cudml, harness
from harness import data
from tests.pool.test_windows_apart import FLOATS, arguments, dtype_of, np
found = hashlib.sha256()
for name in ("rows", "planes", "long rows", "columns of many", "frames"):
    shape, windows = arguments(name)
    y = cudml.reference.max_pooling(np.zeros(shape, "f4"), **windows)
    for dtype in FLOATS:
        x, grad = data(shape, dtype, 9), data(y.shape, dtype, 10)
        for layout in ("contiguous", "permuted", "misaligned", "sliced"):
            x_, grad_ = (harness.LAYOUTS[layout](a) for a in (x, grad))
            for dx in (cudml.max_pooling_grad(x_, grad_, **windows),
                       cudml.average_pooling_grad(grad_, shape, **windows)):
                found.update(np.ascontiguousarray(dx).tobytes())
print(found.hexdigest())
"""


def test_neither_threads_nor_caches_reach_the_bits() -> None:
    found = {
        child_says(DIGEST, CUDML_STREAM_BYTES=limit, CUDML_NUM_THREADS=threads)
        for limit, threads in (("1", "1"), ("1", "3"), ("1000000000000", "2"))
    }
    assert len(found) == 1
