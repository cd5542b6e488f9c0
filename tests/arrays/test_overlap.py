"""Outputs that share elements with inputs, parameters or each other: D-TEN-2, MEM-04."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import Problem, every_operator, in_order, make, packed_strides, same, steps
from harness import DTYPES, data, dtype_of, refused

pytestmark = [pytest.mark.decision("D-TEN-2"), pytest.mark.bug("MEM-04")]
MVN = "mean_variance_normalization"


def bytes_of(size: int, seed: int = 5) -> np.ndarray:
    """Bytes that are no NaN in any type, with room to put arrays anywhere among them."""
    return np.random.default_rng(seed).integers(1, 0x3C, size, np.uint8)


def at(raw: np.ndarray, offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A packed array that begins `offset` bytes into `raw`."""
    size = math.prod(shape) * dtype.itemsize
    return raw[offset : offset + size].view(dtype).reshape(shape)


def refuse(p: Problem, outputs: list[np.ndarray], raw: np.ndarray, **arrays: Any) -> None:
    """The call is refused, says why, and changes no byte of `raw`."""
    before = raw.tobytes()
    with refused(ValueError, p.op + ": ", "overlap"):
        p.into(outputs, **arrays)
    assert raw.tobytes() == before


@pytest.mark.core
@every_operator
def test_shifted_overlap_is_refused(label: str) -> None:
    """Each output against each array, from one element before its end to one after its start."""
    p = make(label)
    for place, (shape, kind) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
        out_size = math.prod(shape) * kind.itemsize
        for name, a in p.arrays.items():
            raw = bytes_of(a.nbytes + 2 * out_size + 64)
            middle = -(-out_size // 8) * 8
            moved = at(raw, middle, a.shape, a.dtype)
            low, high = middle - out_size + kind.itemsize, middle + a.nbytes - kind.itemsize
            for offset in {low, middle - 8, middle + 8, high}:
                if not low <= offset <= high:
                    continue
                outputs = p.outputs()
                outputs[place] = at(raw, offset, shape, kind)
                refuse(p, outputs, raw, **{name: moved})


@every_operator
def test_disjoint_parts_of_one_buffer_pass(label: str) -> None:
    """Directly before and directly behind each array."""
    p = make(label)
    want = p.run()
    for place, (shape, kind) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
        out_size = math.prod(shape) * kind.itemsize
        for name, a in p.arrays.items():
            raw = bytes_of(a.nbytes + 2 * out_size + 64)
            middle = -(-out_size // 8) * 8
            moved = at(raw, middle, a.shape, a.dtype)
            moved[...] = a
            for offset in (middle - out_size, middle + a.nbytes):
                outputs = p.outputs()
                outputs[place] = at(raw, offset, shape, kind)
                p.into(outputs, **{name: moved})
                assert same(outputs, want), (place, name, offset)
                assert same([moved], [a])


@every_operator
def test_the_same_memory_is_refused(label: str) -> None:
    """out is x, or the values' memory seen as another array; normalization alone may."""
    p = make(label)
    for name, a in p.arrays.items():
        if p.op == MVN and name == "x":
            continue
        for place, (shape, kind) in enumerate(zip(p.shapes, p.dtypes, strict=True)):
            raw = bytes_of(max(a.nbytes, math.prod(shape) * kind.itemsize))
            outputs = p.outputs()
            outputs[place] = at(raw, 0, shape, kind)
            refuse(p, outputs, raw, **{name: at(raw, 0, a.shape, a.dtype)})


def test_values_and_indices_may_not_share() -> None:
    p = make("max_pooling+indices")
    shape, size = p.shapes[0], math.prod(p.shapes[0])
    for index_dtype in ("uint32", "uint64", "int64"):
        raw = bytes_of(size * 16 + 64)
        index = at(raw, 0, shape, np.dtype(index_dtype))
        for offset in (0, 4, 32, index.nbytes - 4):
            y = at(raw, offset, shape, np.dtype("float32"))
            before = raw.tobytes()
            with refused(ValueError, "max_pooling: ", "overlap"):
                p(out=(y, index), index_dtype=index_dtype)
            assert raw.tobytes() == before
        y = at(raw, index.nbytes, shape, np.dtype("float32"))
        p(out=(y, index), index_dtype=index_dtype)
        assert not p.problem([y, index.astype("uint32")])


def interleaved(p: Problem, name: str, place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A buffer of pairs: the array lies in the even columns, the output in the odd ones."""
    a, shape = p.arrays[name], p.shapes[place]
    big = [max(m, n) for m, n in zip(a.shape, shape, strict=True)]
    raw = np.full((*big[:3], 2 * big[3]), 7, a.dtype)
    even = raw[tuple(slice(n) for n in a.shape[:3])][..., : 2 * a.shape[3] : 2]
    odd = raw[tuple(slice(n) for n in shape[:3])][..., 1 : 2 * shape[3] : 2]
    even[...] = a
    return raw, even, odd


@pytest.mark.core
@every_operator
def test_interleaved_columns_pass(label: str) -> None:
    """Equal strides, so the offset decides: no element is shared."""
    p = make(label)
    want = p.run()
    for name, a in p.arrays.items():
        if p.dtypes[0] != a.dtype:
            continue
        raw, even, odd = interleaved(p, name, 0)
        outputs = p.outputs()
        outputs[0] = odd
        p.into(outputs, **{name: even})
        assert not p.problem(outputs), (name, p.problem(outputs))
        assert same([even], [a])
        if name != p.first:
            assert same(outputs, want), name
        assert raw.size - (raw == 7).sum() <= even.size + odd.size


@every_operator
def test_halves_along_every_axis_pass(label: str) -> None:
    """Two blocks of one array side by side: equal strides, interleaved addresses."""
    p = make(label)
    a = p.arrays[p.first]
    for axis in range(4):
        big = [max(m, n) for m, n in zip(a.shape, p.shapes[0], strict=True)]
        big[axis] = a.shape[axis] + p.shapes[0][axis]
        for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)]:
            raw = in_order(np.zeros(big, a.dtype), order)
            first = raw[tuple(slice(n) for n in a.shape)]
            cut = [slice(n) for n in p.shapes[0]]
            cut[axis] = slice(a.shape[axis], None)
            outputs = p.outputs()
            outputs[0] = raw[tuple(cut)]
            first[...] = a
            p.into(outputs, **{p.first: first})
            assert not p.problem(outputs), (axis, order, p.problem(outputs))
            assert same([first], [a])


@every_operator
def test_blocks_that_share_one_element_are_refused(label: str) -> None:
    """The same halves, moved together by one along every axis: one corner is common."""
    p = make(label)
    a, shape = p.arrays[p.first], p.shapes[0]
    for order in [(0, 1, 2, 3), (0, 2, 3, 1)]:
        sizes = list(zip(a.shape, shape, strict=True))
        raw = in_order(np.ones([m + n for m, n in sizes], a.dtype), order)
        outputs = p.outputs()
        outputs[0] = raw[tuple(slice(m - 1, m - 1 + n) for m, n in sizes)]
        refuse(p, outputs, raw, **{p.first: raw[tuple(slice(n) for n in a.shape)]})


@every_operator
def test_what_cannot_be_decided_is_refused_and_says_so(label: str) -> None:
    """Different strides over the same addresses; elements of either kind may or may not meet."""
    p = make(label)
    a, shape = p.arrays[p.first], p.shapes[0]
    raw = np.ones(8000, a.dtype)
    x = steps(raw, a.shape, [3 * s for s in packed_strides(a.shape)])
    outputs = p.outputs()
    outputs[0] = steps(raw, shape, [5 * s for s in packed_strides(shape)], 1)
    before = raw.tobytes()
    with refused(ValueError, p.op + ": ", "overlap", "cannot"):
        p.into(outputs, **{p.first: x})
    assert raw.tobytes() == before


@every_operator
def test_memory_of_a_copied_input_counts_too(label: str) -> None:
    """Reversed and misaligned inputs are copied first; `out` in their memory is refused still."""
    p = make(label)
    a, shape, kind = p.arrays[p.first], p.shapes[0], p.dtypes[0]
    back = (slice(None, None, -1),) * 4
    raw = bytes_of(2 * (a.nbytes + math.prod(shape) * kind.itemsize) + 64)
    for x in (at(raw, 0, a.shape, a.dtype)[back], at(raw, 1, a.shape, a.dtype)):
        outputs = p.outputs()
        outputs[0] = at(raw, 0, shape, kind)
        refuse(p, outputs, raw, **{p.first: x})
        outputs[0] = at(raw, (a.nbytes - 1) // 8 * 8, shape, kind)
        refuse(p, outputs, raw, **{p.first: x})
        outputs[0] = at(raw, (a.nbytes + 8) // 8 * 8, shape, kind)
        p.into(outputs, **{p.first: x})
        q = p.with_arrays(**{p.first: np.array(x)})
        assert not q.problem(outputs), q.problem(outputs)


def test_broadcast_inputs_share_one_element() -> None:
    """A stride of 0 spans no memory: the element next to it is free, the element itself is not."""
    for label in ("max_pooling", "padding", MVN):
        p = make(label)
        size = math.prod(p.shapes[0])
        raw = np.ones(size + 1, np.float32)
        y = raw[1:].reshape(p.shapes[0])
        p.into([y], x=np.broadcast_to(raw[:1], p.arrays["x"].shape))
        refuse(p, [y], raw, x=np.broadcast_to(raw[size:], p.arrays["x"].shape))


@pytest.mark.core
@pytest.mark.decision("D-MVN-19")
@pytest.mark.parametrize("dtype", DTYPES[MVN])
def test_normalization_in_place(dtype: str) -> None:
    """Equal, bit for bit, to the call with memory of its own, for every subset of the axes."""
    scale, bias = data((1, 3, 1, 1), dtype, 1), data((2, 1, 1, 7), dtype, 2)
    for axes in [c for n in range(5) for c in combinations(range(4), n)]:
        x = data((2, 3, 5, 7), dtype, 3)
        want = cudml.mean_variance_normalization(x, scale, bias, axes=axes, activation="relu")
        back = cudml.mean_variance_normalization(
            x, scale, bias, axes=axes, activation="relu", out=x
        )
        assert back is x and same([x], [want]), axes


@pytest.mark.decision("D-MVN-19")
def test_normalization_in_place_in_every_layout_and_size() -> None:
    for shape in [(1, 1, 1, 1), (1, 1, 1, 9), (4, 3, 16, 17), (2, 2, 1, 4099), (3, 70, 2, 33)]:
        for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (2, 0, 3, 1)]:
            for axes in [(1,), (2, 3), (1, 2, 3), (0, 2), (3,), (0, 1, 2, 3)]:
                x = in_order(data(shape, "float32", 4), order)
                want = cudml.mean_variance_normalization(x, axes=axes)
                view = x[...]  # another array object over the same elements
                cudml.mean_variance_normalization(x, axes=axes, out=view)
                assert same([x], [want]), (shape, order, axes)


@pytest.mark.decision("D-MVN-19")
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_normalization_in_place_over_all_threads(axes: tuple[int, ...]) -> None:
    """16 MB, more than fits a cache, split among the threads along either axis."""
    x = data((1024, 4096), "float32", 6)
    want = cudml.mean_variance_normalization(x, axes=axes)
    cudml.mean_variance_normalization(x, axes=axes, out=x)
    assert same([x], [want])


@pytest.mark.decision("D-MVN-19")
def test_normalization_in_place_in_a_slice() -> None:
    raw = np.full((3, 4, 12, 20), 7, np.float32)
    x = raw[1:, 1:, 1:11:2, 1:15:2]
    x[...] = data((2, 3, 5, 7), "float32")
    want = cudml.mean_variance_normalization(x, axes=(2, 3))
    cudml.mean_variance_normalization(x, axes=(2, 3), out=x)
    assert same([x], [want])
    assert (raw == 7).sum() == raw.size - x.size


@pytest.mark.decision("D-MVN-19")
def test_normalization_in_place_ignores_strides_of_single_elements() -> None:
    x = data((1, 1, 5, 7), "float32")
    want = cudml.mean_variance_normalization(x, axes=(2, 3))
    alias = np.lib.stride_tricks.as_strided(x, x.shape, (4, 400, *x.strides[2:]))
    assert cudml.mean_variance_normalization(x, axes=(2, 3), out=alias) is alias
    assert same([x], [want])


def test_normalization_refuses_partial_overlap() -> None:
    """Shifted, transposed, reversed or of another type over the same memory."""
    p = make(MVN, (2, 3, 5, 5))
    raw = bytes_of(4096)
    x = at(raw, 256, (2, 3, 5, 5), np.dtype("float32"))
    back = (slice(None, None, -1),)
    outs = [at(raw, 256 + d, x.shape, x.dtype) for d in (-20, -4, 4, 20, 100)]
    outs += [x.transpose(0, 1, 3, 2)]
    for out in outs:
        refuse(p, [out], raw, x=x)
    refuse(p, [x], raw, x=x[back])
    refuse(p, [x], raw, x=x.transpose(0, 1, 3, 2))
    broad = np.broadcast_to(x[:1], x.shape)
    refuse(p, [x], raw, x=broad)
    half = at(raw, 256, x.shape, np.dtype("float16"))
    refuse(make(MVN, (2, 3, 5, 5), "float16"), [half], raw, x=x.view("float16")[..., ::2])


@pytest.mark.parametrize("op", ["mean_variance_normalization", "normalize"])
def test_a_reversed_input_is_no_alias_of_what_begins_where_it_does(op: str) -> None:
    """It is copied, and the copy's strides are those of `out`; its memory is other memory."""
    memory = np.arange(12, dtype="float32")
    x, before = memory[6::-1][:5], memory.tobytes()
    given = {"axes": 0} if op == MVN else {"mean": None, "variance": None}
    for out in (memory[6:11], memory[5:10], memory[2:7]):
        with refused(ValueError, f"{op}: ", "overlap"):
            getattr(cudml, op)(x, **given, out=out)
        assert memory.tobytes() == before
    assert getattr(cudml, op)(x, **given, out=memory[7:12]) is not None


def test_normalization_refuses_its_parameters_as_out() -> None:
    """Even an exact alias: scale and bias are read again for other groups."""
    x = data((2, 3, 5, 7), "float32", 8)
    other = data((2, 3, 5, 7), "float32", 9)
    cases = [(other, None, other), (None, other, other), (x, None, x), (None, x, x)]
    for scale, bias, out in cases:
        before = out.tobytes()
        with refused(ValueError, f"{MVN}: ", "overlap"):
            cudml.mean_variance_normalization(x, scale, bias, axes=(2, 3), out=out)
        assert out.tobytes() == before
    row = x[:1, :, :1, :1]
    with refused(ValueError, f"{MVN}: ", "overlap"):
        cudml.mean_variance_normalization(x, row, axes=(2, 3), out=x)


def test_overlap_among_inputs_is_fine() -> None:
    x = data((2, 3, 5, 7), "float32", 10)
    want = cudml.mean_variance_normalization(x, x.copy(), x.copy(), axes=(2, 3))
    assert same([cudml.mean_variance_normalization(x, x, x, axes=(2, 3))], [want])
    grad = x[:, :, :4, :5]
    want = cudml.max_pooling_grad(x, grad.copy(), (2, 3))
    assert same([cudml.max_pooling_grad(x, grad, (2, 3))], [want])


def test_nothing_overlaps_an_empty_array() -> None:
    x = np.zeros((0, 3, 5, 7), dtype_of("float32"))
    out = np.zeros((0, 3, 4, 5), np.float32)
    assert cudml.max_pooling(x, (2, 3), out=out) is out
    assert cudml.mean_variance_normalization(x, axes=(2, 3), out=x) is x
