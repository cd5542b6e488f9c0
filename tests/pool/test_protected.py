"""Pooling of views whose rows overlap or repeat, beside pages that may not be touched."""

from __future__ import annotations

import pytest

from array_support import child_says

PRELUDE = """
import ctypes, mmap, sys
import numpy as np
import cudml
from cudml import bounds

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
memory = mmap.mmap(-1, 34 * PAGE)
whole = np.frombuffer(memory, np.uint8)
for at in (0, 33 * PAGE):
    assert libc.mprotect(whole.ctypes.data + at, PAGE, 0) == 0
room = whole[PAGE:-PAGE]
room[:] = np.random.default_rng(1).integers(0, 60, room.size)  # floats that are numbers

op, dtype = sys.argv[1], np.dtype(sys.argv[2])
more = {'lp_pooling': {'p': 2}, 'max_indices': {'return_indices': True}}.get(op, {})
name = 'max_pooling' if op == 'max_indices' else op

def compare(x, how):
    got = getattr(cudml, name)(x, **how, **more)
    want = getattr(cudml, name)(np.array(x, order='C'), **how, **more)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want))):
        if op in ('max_pooling', 'max_indices'):
            assert a.tobytes() == b.tobytes()
        else:
            kind = np.finfo(dtype)
            np.testing.assert_allclose(
                a.astype(float), b.astype(float), rtol=16 * float(kind.eps),
                atol=4 * float(kind.smallest_subnormal))
"""

# Strides are drawn as multiples, zero included, of small steps, so that the last of a window's rows
# is often not the one that stands highest in memory. A read beyond the last element ends the child.
VIEWS = """
draw = np.random.default_rng(7)
for case in range(400):
    n = int(draw.choice([1, 2, 3]))
    sizes = [n, *draw.integers(1, 6, 2), int(draw.choice([1, 2, 3, 5, 8, 9, 17, 33]))]
    apart = [0, 1, sizes[3], sizes[3] + 1, sizes[2] * sizes[3]]
    steps = [int(draw.choice(apart)) for _ in range(3)]
    steps.append(int(draw.choice([1, 1, 1, 0, 2])))
    span = sum((k - 1) * s for k, s in zip(sizes, steps)) + 1
    if span * dtype.itemsize > room.size:
        continue
    window = [int(draw.integers(1, k + 1)) for k in sizes[1:]]
    if case % 3 == 0:
        window = sizes[1:]
    how = dict(window_size=window, strides=[int(s) for s in draw.integers(1, 3, 3)], axes=(1, 2, 3))
    expected = None
    for at_end in (True, False):
        start = room.size - span * dtype.itemsize if at_end else 0
        base = room[start:start + span * dtype.itemsize].view(dtype)
        x = np.lib.stride_tricks.as_strided(
            base, sizes, [s * dtype.itemsize for s in steps], writeable=False)
        print(case, sizes, steps, how, at_end, flush=True)
        compare(x, how)
print('done')
"""

# Pairs and thirds of columns, in rows that are several vectors long and end with part of one.
ROWS = """
for outputs in range(1, 90):
    for window, start in ((2, 0), (3, 0), (3, 1)):
        width = 2 * outputs + window - 2 - start
        base = room[room.size - 3 * width * dtype.itemsize:].view(dtype)
        print(outputs, window, start, flush=True)
        how = {'window_size': (2, window), 'strides': (1, 2), 'start_padding': (0, start)}
        compare(base.reshape(1, 1, 3, width), how)
print('done')
"""


@pytest.mark.core
@pytest.mark.bug("MEM-08")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("op", ["max_pooling", "max_indices", "average_pooling", "lp_pooling"])
def test_views_that_overlap_beside_protected_pages(op: str, dtype: str) -> None:
    """No load touches a byte outside the span of the view's own elements."""
    assert child_says(PRELUDE + VIEWS, op, dtype).splitlines()[-1] == "done"


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("op", ["max_pooling", "max_indices", "average_pooling", "lp_pooling"])
def test_long_rows_before_a_protected_page(op: str, dtype: str) -> None:
    assert child_says(PRELUDE + ROWS, op, dtype).splitlines()[-1] == "done"
