"""What `out` must be, and that nothing but its elements is written: D-TEN-1, D-TEN-3, MEM-03."""

from __future__ import annotations

import gc
import math
import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import (
    LABELS,
    Problem,
    cases_of_type,
    every_operator,
    in_order,
    make,
    same,
    steps,
)
from harness import dtype_of, guarded, named, refused

FILL = 0xA5


def replaced(p: Problem, place: int, odd: Any) -> list[Any]:
    """Good outputs, one of them exchanged."""
    outputs: list[Any] = list(p.outputs())
    outputs[place] = odd
    return outputs


def view_in(raw: np.ndarray, dtype: Any, shape: Any, strides: Any, offset: int = 0) -> np.ndarray:
    """An output inside the bytes `raw`; strides and offset in elements."""
    usable = raw[: raw.size - raw.size % dtype.itemsize]
    return steps(usable.view(dtype), shape, strides, offset)


@pytest.mark.core
@every_operator
def test_out_comes_back_itself(label: str) -> None:
    p = make(label)
    outputs = p.outputs()
    back = p.into(outputs)
    assert not p.problem(outputs), p.problem(outputs)
    if len(outputs) == 1:
        assert back is outputs[0]
    else:
        assert isinstance(back, (tuple, list)) and len(back) == 2
        assert back[0] is outputs[0] and back[1] is outputs[1]


def test_a_pair_may_be_a_list_and_comes_back_itself() -> None:
    p = make("max_pooling+indices")
    for kind in (tuple, list):
        pair = kind(p.outputs())
        back = p(out=pair)
        assert back is pair
        assert not p.problem(list(pair))


@every_operator
def test_out_none_allocates(label: str) -> None:
    p = make(label)
    assert same(p.run(out=None), p.run())


@every_operator
def test_reference_counts_of_out_and_inputs(label: str) -> None:
    p = make(label)
    outputs = p.outputs()
    for _ in range(3):
        p.into(outputs)
    gc.collect()
    before = [sys.getrefcount(a) for a in [*p.arrays.values(), *outputs]]
    for _ in range(100):
        p.into(outputs)
        p.run()
    assert before == [sys.getrefcount(a) for a in [*p.arrays.values(), *outputs]]


@pytest.mark.decision("D-TEN-1")
@pytest.mark.bug("MEM-03")
@every_operator
def test_stride_zero_is_refused(label: str) -> None:
    p = make(label)
    for place, (shape, dtype) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
        for axis in range(4):
            raw = np.full(math.prod(shape) * dtype.itemsize, FILL, np.uint8)
            strides = [math.prod(shape[a + 1 :]) for a in range(4)]
            strides[axis] = 0
            bad = view_in(raw, dtype, shape, strides)
            with refused(ValueError, p.op, "tride"):
                p.into(replaced(p, place, bad))
            assert (raw == FILL).all()


@pytest.mark.decision("D-TEN-1")
@pytest.mark.bug("MEM-03")
@every_operator
def test_interleaved_strides_are_refused(label: str) -> None:
    """Strides (1, 2), and (2, 3) where no two elements meet but the rule still says no."""
    p = make(label)
    for place, (shape, dtype) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
        last, size = shape[3], shape[2]
        outer = [1000 * size, 1000]
        for inner in [(1, 2), (2, 1), (1, 1), (last - 1, 1), (3, 2), (1, size - 1)]:
            raw = np.full(shape[0] * shape[1] * 8000 * size, FILL, np.uint8)
            bad = view_in(raw, dtype, shape, (outer[0] * 2, outer[1], *inner))
            if inner[0] > (last - 1) * inner[1] or inner[1] > (size - 1) * inner[0]:
                continue
            with refused(ValueError, p.op, "tride"):
                p.into(replaced(p, place, bad))
            assert (raw == FILL).all()


@pytest.mark.decision("D-TEN-1")
def test_two_by_two_with_strides_one_and_two_is_dense() -> None:
    """Each stride exceeds the span of the smaller one, so these are accepted."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    for strides in [(1, 2), (2, 1), (2, 3), (5, 2)]:
        raw = np.full(16, -1, np.float32)
        out = steps(raw, (1, 1, 2, 2), (7, 7, *strides))
        assert cudml.max_pooling(x, 1, out=out) is out
        assert np.array_equal(out, x) and (raw == -1).sum() == 12


@pytest.mark.core
@pytest.mark.decision("D-TEN-1")
@every_operator
def test_dense_permutations_are_accepted(label: str) -> None:
    p = make(label)
    for order in permutations(range(4)):
        outputs = [in_order(y, order) for y in p.outputs()]
        p.into(outputs)
        assert not p.problem(outputs), (order, p.problem(outputs))


@pytest.mark.decision("D-TEN-1", "D-TEN-3")
@pytest.mark.bug("MEM-08")
@every_operator
def test_slices_of_larger_arrays_are_accepted(label: str) -> None:
    """Every second element, inner parts, permuted: the elements are written, the gaps are not."""
    p = make(label)
    for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)]:
        for step in (1, 2, 3):
            raws, outputs, owned = [], [], []
            for shape, dtype in zip(p.shapes, p.dtypes, strict=True):
                big = [shape[a] * step + 3 for a in order]
                raw = np.full((*big, dtype.itemsize), FILL, np.uint8)
                cut = tuple(slice(2, 2 + shape[a] * step, step) for a in order)
                mask = np.ones(raw.shape, bool)
                mask[cut] = False
                view = raw.reshape(-1).view(dtype).reshape(big)[cut]
                outputs.append(view.transpose(np.argsort(order)))
                raws.append(raw)
                owned.append(mask)
            p.into(outputs)
            assert not p.problem(outputs), (order, step, p.problem(outputs))
            for raw, gaps in zip(raws, owned, strict=True):
                assert (raw[gaps] == FILL).all(), (order, step)


@pytest.mark.core
@pytest.mark.decision("D-TEN-3", "D-TEN-5")
@pytest.mark.bug("MEM-08")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_guard_bytes_of_every_type(label: str, dtype: str) -> None:
    p = make(label, (1, 2, 3, 9), dtype)
    for order in ("C", "F", "S"):
        guards = [guarded(s, d, order) for s, d in zip(p.shapes, p.expected.dtypes, strict=True)]
        views = [g.view for g in guards]
        p.into(views)
        assert not p.problem(views), (order, p.problem(views))
        assert not any(g.damage() for g in guards), [g.damage() for g in guards]


@pytest.mark.decision("D-TEN-3")
@every_operator
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_guard_bytes_of_every_width_and_start(label: str, dtype: str) -> None:
    """Rows of 1 to 40 elements that begin at every place within 16 bytes, then 64."""
    kind = dtype_of(dtype)
    for width in range(1, 41):
        p = make(label, (1, 1, 2, width), dtype)
        sizes = [(*s[:3], s[3] + 1) for s in p.shapes]
        for start in {0, 1, width % (16 // kind.itemsize), 7}:
            raws, outputs = [], []
            for big, shape, kind_of in zip(sizes, p.shapes, p.dtypes, strict=True):
                raw = np.full((math.prod(big) + start + 8) * kind_of.itemsize, FILL, np.uint8)
                flat = raw.view(kind_of)[start : start + math.prod(big)]
                raws.append(raw)
                outputs.append(flat.reshape(big)[..., : shape[3]])
            p.into(outputs)
            assert not p.problem(outputs), (width, start, p.problem(outputs))
            for raw, y in zip(raws, outputs, strict=True):
                gaps = np.ones(raw.size, bool)
                lead = y.ctypes.data - raw.ctypes.data
                tall = gaps[lead : lead + (math.prod(y.shape[:3])) * y.strides[2]]
                tall.reshape(-1, y.strides[2])[:, : y.shape[3] * y.itemsize] = False
                assert (raw[gaps] == FILL).all(), (width, start)


@every_operator
def test_wrong_type_of_out(label: str) -> None:
    p = make(label)
    names = "float16 float32 float64 int8 uint8 int32 uint32 int64 uint64 bool complex64 >f4"
    for place, right in enumerate(p.dtypes):
        for name in names.split():
            bad = np.zeros(p.shapes[place], name)
            if bad.dtype == right:
                continue
            with refused(TypeError, p.op + ": ", str(bad.dtype)):
                p.into(replaced(p, place, bad))
            assert not bad.any()


@every_operator
def test_wrong_shape_of_out(label: str) -> None:
    p = make(label)
    for place, (shape, dtype) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
        wrong = [(*shape[:a], shape[a] + d, *shape[a + 1 :]) for a in range(4) for d in (-1, 1)]
        wrong += [shape[1:], (1, *shape), (*shape, 1), (), (math.prod(shape),), (0,) * 4]
        for other in wrong:
            bad = np.full(other, 7, dtype)
            with refused(ValueError, p.op + ": "):
                p.into(replaced(p, place, bad))
            assert (bad == 7).all()


@every_operator
def test_out_that_is_no_array(label: str) -> None:
    p = make(label)
    objects: list[Any] = [1, 1.5, "out", [], {}, object(), np.float32(1), [[1.0]], bytearray(480)]
    for odd in objects:
        with refused(TypeError, p.op + ": "):
            p.into(replaced(p, 0, odd))


@pytest.mark.parametrize("label", [name for name in LABELS if "+" not in name])
def test_a_pair_where_one_array_is_due(label: str) -> None:
    p = make(label)
    for out in [tuple(p.outputs()), p.outputs(), (*p.outputs(), *p.outputs()), ()]:
        with refused(TypeError, p.op + ": "):
            p(out=out)


def test_one_array_where_a_pair_is_due() -> None:
    p = make("max_pooling+indices")
    y, index = p.outputs()
    outs: list[Any] = [y, (y,), [y], (y, index, index), (), (y, None), (None, index), {0: y}]
    for out in outs:
        with pytest.raises((TypeError, ValueError), match="max_pooling: ") as caught:
            p(out=out)
        assert "pybind11" not in str(caught.value)
    assert (y.view(np.uint8) == 255).all() and (index.view(np.uint8) == 255).all()


def test_indices_of_out_have_the_type_asked_for() -> None:
    p = make("max_pooling+indices")
    y, _ = p.outputs()
    for asked in ("uint32", "uint64", "int64"):
        for given in ("uint32", "uint64", "int64", "int32", "float32"):
            index = np.zeros(y.shape, given)
            if asked == given:
                assert p(out=(y, index), index_dtype=asked)[1] is index
                continue
            with refused(TypeError, "max_pooling: ", given):
                p(out=(y, index), index_dtype=asked)
            assert not index.any()


@pytest.mark.bug("MEM-07")
@every_operator
def test_read_only_out(label: str) -> None:
    p = make(label)
    for place in range(len(p.shapes)):
        bad = p.outputs()[place]
        before = bad.tobytes()
        bad.flags.writeable = False
        with refused(ValueError, p.op + ": ", "read-only"):
            p.into(replaced(p, place, bad))
        assert bad.tobytes() == before


@every_operator
@pytest.mark.parametrize("stream", [0, 1, 2, -1, 2**64, 1.5, "0", True, object()], ids=named)
def test_stream_on_the_cpu_is_refused(label: str, stream: Any) -> None:
    p = make(label)
    outputs = p.outputs()
    with refused(ValueError, p.op + ": ", "stream"):
        p.into(outputs, stream=stream)
    assert all((y.view(np.uint8) == 255).all() for y in outputs)
    assert same(p.run(stream=None), p.run())
