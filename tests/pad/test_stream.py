"""Padding past the caches: the same bits as through them, and as numpy.pad."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

import cudml
from array_support import child_says


def fenced(values: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy that begins, or ends, at a page that cannot be read."""
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    pages = -(-values.nbytes // page)
    room = mmap.mmap(-1, (pages + 2) * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(room))
    for at in (0, pages + 1):
        assert libc.mprotect(ctypes.c_void_p(first + at * page), page, 0) == 0
    skip = page + (pages * page - values.nbytes if at_end else 0)
    x = np.frombuffer(room, values.dtype, values.size, skip).reshape(values.shape)
    x[...] = values
    return x


PADS = """
import numpy as np, cudml
from harness import data
MODES = {"constant": "constant", "edge": "edge", "reflection": "reflect",
         "symmetric": "symmetric", "wrap": "wrap"}
for dtype in ("uint8", "float16", "float32", "float64"):
    for shape, pads in (
        ((3, 5, 700), ((1, 2), (0, 0), (3, 5))),
        ((2, 3, 5, 257), ((0, 0), (2, 1), (1, 0), (0, 1))),
        ((4, 30001), ((0, 0), (1024, 77))),
        ((2, 700000), ((1, 0), (3, 9))),
        ((2, 9, 11, 600), ((0, 0), (3, 2), (4, 1), (0, 0))),
        ((2, 5, 7, 3), ((0, 0), (1, 1), (150, 90), (0, 0))),
        ((700,), ((699, 650),)),
        ((2, 4, 4096), ((0, 0), (1, 2), (0, 0))),
        ((5, 6, 7), ((0, 0), (1, 1), (1, 2))),
        ((4, 6, 3), ((0, 0), (2, 1), (2, 2))),
        ((3, 4, 5, 6), ((1, 0), (0, 2), (2, 3), (3, 5))),
        ((2, 6, 5, 3), ((0, 0), (1, 1), (2, 3), (0, 0))),
        ((6, 5, 24), ((0, 0), (1, 0), (1, 3))),
        ((6, 5, 193), ((0, 0), (0, 2), (40, 8))),
        ((5, 6, 32), ((2, 0), (1, 1), (0, 1))),
        ((3, 4, 64), ((0, 1), (2, 1), (7, 8))),
        ((3, 4, 600), ((0, 0), (0, 1), (512, 513))),
        ((2, 3, 1100), ((0, 0), (0, 1), (1000, 1048))),
        ((2, 2, 8191), ((0, 0), (0, 1), (0, 1))),
    ):
        x = data(shape, dtype, 1)
        start, end = zip(*pads)
        for mode, name in MODES.items():
            want = None
            if all(max(p) < n for p, n in zip(pads, shape)) or name in ("constant", "edge"):
                want = np.pad(x, pads, mode=name)
            sizes = [n + a + b for n, (a, b) in zip(shape, pads)]
            for skip in range(0, 64 // x.itemsize, 5):
                room = np.full(np.prod(sizes) + 128, 7, x.dtype)
                out = room[skip : skip + np.prod(sizes)].reshape(sizes)
                cudml.padding(x, start, end, mode=mode, out=out)
                if want is not None:
                    assert out.tobytes() == want.tobytes(), (dtype, shape, mode, skip)
                rest = np.concatenate([room[:skip], room[skip + out.size :]])
                assert np.all(rest == 7), (dtype, shape, mode, skip)
                assert skip == 0 or out.tobytes() == first
                first = out.tobytes()
print("done")
"""


# Positions of several elements under wide borders; sources end at pages that cannot be read.
ITEMS = """
import numpy as np, cudml
from harness import data
from tests.pad.test_modes import source
from tests.pad.test_stream import fenced
ROWS, WIDTH, START, END = 3, 41, (1, 180, 0), (2, 167, 0)
for dtype in ("uint8", "float16", "float32", "float64"):
    for run in (2, 3, 4, 5, 7, 8, 9, 16, 17):
        values = data((ROWS, WIDTH, run), dtype, run)
        for mode in ("edge", "reflection", "symmetric", "wrap"):
            rows = [source(mode, i - 1, ROWS) for i in range(ROWS + 3)]
            columns = [source(mode, i - 180, WIDTH) for i in range(WIDTH + 347)]
            want = values[rows][:, columns]
            for at_end in (False, True):
                x = fenced(values, at_end)
                got = cudml.padding(x, START, END, mode=mode)
                assert got.tobytes() == want.tobytes(), (dtype, run, mode, at_end)
                backwards = cudml.padding(x[:, ::-1], START, END, mode=mode)
                assert backwards.tobytes() == values[:, ::-1][rows][:, columns].tobytes()
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_wide_borders_of_several_elements(limit: str) -> None:
    assert child_says(ITEMS, CUDML_STREAM_BYTES=limit, limit=180) == "done"


# Rows of one to four lines of memory, with each mode around constant planes and mirrored ones.
SEAMS = """
import numpy as np, cudml
from harness import data
from tests.pad.test_modes import source
from tests.pad.test_stream import fenced

def lookup(mode, start, n, end):
    return [-1 if mode == "constant" and not 0 <= i < n else source(mode, i, n)
            for i in range(-start, n + end)]

for dtype, width, left, right in (
    ("float16", 32, 3, 5), ("float16", 53, 3, 5), ("float16", 53, 1, 31), ("float16", 53, 32, 0),
    ("float16", 64, 0, 32), ("float32", 16, 3, 5), ("float32", 47, 15, 1), ("float32", 33, 0, 1),
    ("float64", 8, 3, 5), ("uint8", 65, 3, 5),
):
    START, END = (1, 2, left), (2, 1, right)
    values = data((3, 4, width), dtype, width)
    for outer in ("constant", "reflection"):
        for mode in ("constant", "edge", "reflection", "symmetric", "wrap"):
            modes = (outer, outer, mode)
            sizes = [s + n + e for s, n, e in zip(START, values.shape, END)]
            at = [lookup(m, s, n, e) for m, s, n, e in zip(modes, START, values.shape, END)]
            is_constant = np.zeros(sizes, bool)
            for axis, indices in enumerate(at):
                shape = [-1 if axis == d else 1 for d in range(3)]
                is_constant |= (np.array(indices) < 0).reshape(shape)
            want = np.where(is_constant, np.array(3, dtype), values[np.ix_(*at)])
            for at_end in (False, True):
                x = fenced(values, at_end)
                got = cudml.padding(x, START, END, mode=modes, value=3)
                assert got.tobytes() == want.tobytes(), (dtype, width, modes, at_end)
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_rows_of_a_few_lines_between_pages(limit: str) -> None:
    assert child_says(SEAMS, CUDML_STREAM_BYTES=limit, limit=180) == "done"


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_padding_past_the_caches(limit: str) -> None:
    assert child_says(PADS, CUDML_STREAM_BYTES=limit, limit=180) == "done"


@pytest.mark.core
def test_broadcast_and_strided_inputs_of_a_large_result() -> None:
    base = np.arange(70 * 900, dtype=np.float32).reshape(70, 900)
    for x in (base[:, ::3], base[::2].T, np.broadcast_to(base[:1], (200, 900))):
        x = np.broadcast_to(x, (40, *x.shape))
        out = np.zeros((40, x.shape[1] + 3, x.shape[2] + 4), np.float32)
        got = cudml.padding(x, (0, 1, 2), (0, 2, 2), mode="edge", out=out)
        assert np.array_equal(got, np.pad(x, ((0, 0), (1, 2), (2, 2)), mode="edge"))
