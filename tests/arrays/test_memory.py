"""Exact bytes read and written, no copies, offsets beyond 32 bits: D-TEN-5, D-TEN-6, IDX, MEM."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import (
    LABELS,
    cases_of_type,
    child_says,
    every_operator,
    in_order,
    make,
    packed_strides,
    same,
    sparse,
    steps,
)
from harness import data, dtype_of

GUARDED = """
import ctypes, mmap, sys
import numpy as np
from array_support import make
from harness import DTYPES

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
keep = []

class Fence:
    '''Pages between two that may not be touched.'''
    def __init__(self, pages):
        memory = mmap.mmap(-1, (pages + 2) * PAGE)
        keep.append(memory)
        self.base = np.frombuffer(memory, np.uint8).ctypes.data
        self.size = pages * PAGE
        for at in (self.base, self.base + self.size + PAGE):
            assert libc.mprotect(at, PAGE, 0) == 0
        self.bytes = np.frombuffer(memory, np.uint8)[PAGE:-PAGE]
    def put(self, shape, dtype, at_end):
        size = int(np.prod(shape)) * dtype.itemsize
        start = self.size - size if at_end else 0
        return self.bytes[start:start + size].view(dtype).reshape(shape)

label = sys.argv[1]
fences = [Fence(4) for _ in range(6)]
for dtype in DTYPES[label.partition('+')[0]]:
    for width in (1, 2, 3, 7, 8, 9, 17, 33):
        for rows in (1, 2, 3):
            p = make(label, (1, 2, rows, width), dtype)
            for at_end in (True, False):
                turned = [False] + ([True] if width in (3, 9) else [])
                for channels_last in turned:
                    arrays, free = {}, iter(fences)
                    for name, a in p.arrays.items():
                        if channels_last:
                            shape = [a.shape[d] for d in (0, 2, 3, 1)]
                            arrays[name] = next(free).put(shape, a.dtype, at_end)
                            arrays[name] = arrays[name].transpose(0, 3, 1, 2)
                        else:
                            arrays[name] = next(free).put(a.shape, a.dtype, at_end)
                        arrays[name][...] = a
                    outputs = [next(free).put(s, d, at_end)
                               for s, d in zip(p.shapes, p.dtypes)]
                    case = f'{label} {dtype} {rows}x{width} {at_end} {channels_last}'
                    print(case, flush=True)
                    p.into(outputs, **arrays)
                    problem = p.problem(outputs)
                    assert not problem, case + ': ' + problem
print('done')
"""


@pytest.mark.decision("D-TEN-5")
@pytest.mark.bug("MEM-08")
@every_operator
def test_arrays_that_touch_protected_pages(label: str) -> None:
    """Arrays that end with the last byte of a page, or begin with the first: not one byte more.

    3 halves are 6 bytes and 75 int8 are 75: no rounding up to 4, in reading or in writing.
    """
    assert child_says(GUARDED, label).splitlines()[-1] == "done"


@pytest.mark.core
@pytest.mark.decision("D-TEN-5")
@pytest.mark.parametrize(
    ("label", "dtype"), [case for case in cases_of_type() if case[1] in ("float16", "int8")]
)
def test_sizes_in_bytes_that_are_no_multiple_of_four(label: str, dtype: str) -> None:
    for shape in [(1, 1, 3, 5), (1, 3, 5, 5), (1, 1, 1, 1), (1, 1, 1, 3)]:
        p = make(label, shape, dtype)
        outputs = p.outputs()
        p.into(outputs)
        assert not p.problem(outputs), (shape, p.problem(outputs))


@pytest.mark.decision("D-TEN-8")
@every_operator
def test_numpy_allocates_the_result_and_nothing_else(label: str) -> None:
    """With `out` nothing is allocated that NumPy knows of; without, the outputs alone."""
    p = make(label, (2, 4, 61, 67))
    for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)]:
        arrays = {k: in_order(a, order) for k, a in p.arrays.items()}
        outputs = p.run(**arrays)
        size = sum(y.nbytes for y in outputs)
        assert peak(lambda: p.into(outputs, **arrays)) < 4096  # noqa: B023
        assert peak(lambda: p.run(**arrays)) < size + 4096  # noqa: B023


def peak(call: Any) -> int:
    """The most bytes that Python and NumPy held during the call, beyond those before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


RESIDENT = """
import numpy as np
from array_support import in_order, make
import cudml

def peak_mb():
    with open('/proc/self/status') as f:
        return next(int(l.split()[1]) for l in f if l.startswith('VmHWM')) / 1024

def reset_peak():
    with open('/proc/self/clear_refs', 'w') as f:
        f.write('5')

x = np.random.default_rng(0).standard_normal((4, 16, 256, 512), dtype=np.float32)  # 32 MiB
g = np.ones((4, 16, 128, 256), np.float32)
nhwc = (0, 2, 3, 1)
places = np.arange(x.size).reshape(x.shape)
x, g, places = (in_order(a, nhwc) for a in (x, g, places))
cases = {
    'max_pooling': lambda out: cudml.max_pooling(x, 2, 2, out=out),
    'max_pooling+indices': lambda out: cudml.max_pooling(x, 2, 2, return_indices=True, out=out),
    'max_pooling_grad': lambda out: cudml.max_pooling_grad(x, g, 2, 2, out=out),
    'average_pooling': lambda out: cudml.average_pooling(x, 2, 2, out=out),
    'average_pooling_grad': lambda out: cudml.average_pooling_grad(g, x.shape, 2, 2, out=out),
    'lp_pooling': lambda out: cudml.lp_pooling(x, 2, 2, p=2, out=out),
    'lp_pooling_grad': lambda out: cudml.lp_pooling_grad(x, g, g, 2, 2, out=out),
    'max_unpooling': lambda out: cudml.max_unpooling(x, places, x.shape, out=out),
    'padding': lambda out: cudml.padding(x, 1, 1, mode='edge', out=out),
    'padding_grad':
        lambda out: cudml.padding_grad(x, (3, 15, 255, 511), 1, 0, mode='edge', out=out),
    'mean_variance_normalization':
        lambda out: cudml.mean_variance_normalization(x, axes=(2, 3), out=out),
}
for name, call in cases.items():
    out = call(None)
    reset_peak()
    before = peak_mb()
    call(out)
    print(name, peak_mb() - before)
    del out
"""


@pytest.mark.decision("D-TEN-8")
def test_no_layout_copy_on_the_way() -> None:
    """A channels-last input of 32 MiB with `out`: resident memory grows by a fraction of it."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the system does not tell the peak of resident memory")
    grown = dict(line.split() for line in child_says(RESIDENT).splitlines())
    assert set(grown) == set(LABELS)
    assert all(float(megabytes) < 8 for megabytes in grown.values()), grown


@pytest.mark.decision("D-TEN-6")
@pytest.mark.bug("IDX-07", "IDX-04")
@every_operator
@pytest.mark.parametrize("far", [2**31 + 8, 2**32 + 16])
def test_elements_far_apart(label: str, far: int) -> None:
    """Few elements whose offsets pass 2^31 and 2^32, in each input and in each output."""
    shape = (2, 2, 3, 5)
    p = make(label, shape, "float16")
    want = p.run()
    for axis in (0, 1, 2):
        for name, a in p.arrays.items():
            far_view = spread(a.shape, a.dtype, axis, far)
            if far_view is None:
                continue
            far_view[...] = a
            assert not p.problem(p.run(**{name: far_view})), (name, axis)
        for place, (size, kind) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
            outputs = p.outputs()
            outputs[place] = spread(size, kind, axis, far)
            p.into(outputs)
            assert same(outputs, want), (place, axis)


def spread(shape: tuple[int, ...], dtype: Any, axis: int, far: int) -> np.ndarray | None:
    """Untouched memory seen with this shape, the elements `far` in all apart along `axis`."""
    if shape[axis] == 1:
        return None
    strides = packed_strides(shape)
    strides[axis] = -(-far // (shape[axis] - 1))
    return steps(sparse(far + math.prod(shape) + shape[axis] + 64, dtype), shape, strides)


@pytest.mark.decision("D-TEN-6")
@pytest.mark.bug("IDX-01")
def test_windows_at_the_far_end_of_a_large_input() -> None:
    """2^32 bytes of zeros with a few values set; only every 2^15th row is looked at."""
    x = sparse(2**32 + 2**16, np.int8).reshape(1, 1, 2**16 + 1, 2**16)
    for row, column in [(0, 0), (2**15, 2**15), (2**16, 2**16 - 1)]:
        x[0, 0, row, column] = 1 + row // 2**15
    y = cudml.max_pooling(x, (1, 2**15), (2**15, 2**15))
    assert y.reshape(-1).tolist() == [1, 0, 0, 2, 0, 3]
    y, index = cudml.max_pooling(
        x, (1, 2**15), (2**15, 2**15), return_indices=True, index_dtype="uint64"
    )
    assert index.reshape(-1).tolist()[3::2] == [2**31 + 2**15, 2**32 + 2**16 - 1]
    y = cudml.padding(x[:, :, 2**16 :, -3:], (0, 0, 1, 0), (0, 0, 0, 2), mode="edge")
    assert y[0, 0].tolist() == [[0, 0, 3, 3, 3]] * 2


@pytest.mark.bug("IDX-08")
@pytest.mark.parametrize("planes", [65535, 65536, 65537, 2**20 + 1])
def test_many_tiny_planes(planes: int) -> None:
    """No count of planes is special; N and C take turns to be the large one."""
    x = data((planes, 1, 2, 2), "float32", 11)
    flat = x.reshape(planes, 4)
    top = flat.max(1)
    for shape in [(planes, 1, 2, 2), (1, planes, 2, 2)]:
        y = cudml.max_pooling(x.reshape(shape), 2)
        assert np.array_equal(y.reshape(-1), top)
    index = cudml.max_pooling(x, 2, return_indices=True)[1]
    assert np.array_equal(index.reshape(-1), flat.argmax(1) + 4 * np.arange(planes))
    grad = cudml.max_pooling_grad(x, top.reshape(-1, 1, 1, 1), 2).reshape(planes, 4)
    assert np.array_equal(grad.max(1), np.maximum(top, 0)) and ((grad != 0).sum(1) <= 1).all()
    exact = np.rint(4 * x)
    mean = cudml.average_pooling(exact, 2).reshape(-1)
    assert np.array_equal(mean, exact.reshape(planes, 4).sum(1) / 4)
    back = cudml.average_pooling_grad(exact[:, :, :1, :1], x.shape, 2)
    assert np.array_equal(back, np.broadcast_to(exact[:, :, :1, :1] / 4, x.shape))
    total = cudml.lp_pooling(exact, 2, p=1).reshape(-1)
    assert np.array_equal(total, np.abs(exact).reshape(planes, 4).sum(1))
    wide = cudml.padding(x, (0, 0, 1, 0), (0, 0, 0, 1), mode="edge")
    assert np.array_equal(wide, np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)], mode="edge"))
    z = cudml.mean_variance_normalization(exact, axes=(2, 3), use_variance=False)
    assert np.array_equal(z, exact - exact.mean((2, 3), keepdims=True))


@pytest.mark.bug("IDX-08")
@pytest.mark.parametrize("shape", [(1, 1, 65537, 3), (1, 1, 3, 65537), (1, 2, 65536, 2)])
def test_long_planes(shape: tuple[int, ...]) -> None:
    for label in LABELS:
        p = make(label, shape)
        y = p.run()
        if label.startswith(("max", "padding")):
            assert not p.problem(y), (label, p.problem(y))
            assert all(np.isfinite(a).all() for a in y)


def test_wide_rows_of_every_type() -> None:
    """Element offsets are scaled by the item size in 64 bits: 1, 2, 4 and 8 bytes."""
    for dtype in ("int8", "float16", "float32", "float64"):
        kind = dtype_of(dtype)
        far = 2**32 // kind.itemsize + 3
        x = steps(sparse(far + 64, kind), (1, 1, 2, 4), (0, 0, far, 1))
        x[...] = np.arange(8).reshape(1, 1, 2, 4)
        assert cudml.max_pooling(x, (2, 2)).reshape(-1).tolist() == [5, 6, 7]
        assert cudml.padding(x, 0, 0).reshape(-1).tolist() == list(range(8))
