"""Memory order of results and layouts of inputs, the same for every operator: D-TEN-8, MEM-01."""

from __future__ import annotations

import gc
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import every_operator, in_order, make, same, steps
from harness import data

pytestmark = pytest.mark.decision("D-TEN-8")


def dense_strides(shape: tuple[int, ...], order: Any, itemsize: int) -> tuple[int, ...]:
    """Strides of a dense array whose dimensions lie in memory in this order."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(order):
        strides[axis], step = step, step * shape[axis]
    return tuple(strides)


def assert_order(outputs: list[np.ndarray], order: Any) -> None:
    """Every output, indices too, is dense in this order; sizes of 1 may have any stride."""
    for y in outputs:
        want = dense_strides(y.shape, order, y.itemsize)
        pairs = zip(y.shape, y.strides, want, strict=True)
        assert all(n == 1 or got == s for n, got, s in pairs), (y.shape, y.strides, want)


@pytest.mark.core
@pytest.mark.small
@every_operator
def test_row_major_gives_row_major_and_column_major_likewise(label: str) -> None:
    p = make(label)
    for order in ("C", "F"):
        y = p.run(**{p.first: np.asarray(p.arrays[p.first], order=order)})
        assert all(a.flags[f"{order}_CONTIGUOUS"] for a in y)
        assert not p.problem(y), p.problem(y)


@pytest.mark.small
@every_operator
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_every_permutation(label: str, rank: int) -> None:
    p = make(label, (2, 3, 4, 5, 6)[:rank])
    for order in permutations(range(rank)):
        y = p.run(**{p.first: in_order(p.arrays[p.first], order)})
        assert_order(y, order)
        assert not p.problem(y), (order, p.problem(y))


@pytest.mark.small
@pytest.mark.parametrize("rank", [1, 2, 6, 8])
def test_permutations_of_other_ranks(rank: int) -> None:
    """Padding and normalization take ranks 1 to 8; a few orders stand for all."""
    rng = np.random.default_rng(rank)
    for label in ("padding", "mean_variance_normalization"):
        p = make(label, (3, 2, 2, 3, 2, 2, 3, 2)[:rank])
        for order in [list(range(rank)), *(list(rng.permutation(rank)) for _ in range(4))]:
            y = p.run(x=in_order(p.arrays["x"], order))
            assert_order(y, order)
            assert not p.problem(y), (order, p.problem(y))


@pytest.mark.small
@every_operator
def test_the_first_array_decides(label: str) -> None:
    """Not the gradient of max_pooling_grad, not scale and bias; some have grad alone."""
    p = make(label)
    nhwc, other = (0, 2, 3, 1), (3, 1, 0, 2)
    turned = {k: in_order(a, nhwc if k == p.first else other) for k, a in p.arrays.items()}
    y = p.run(**turned)
    assert_order(y, nhwc)
    assert not p.problem(y), p.problem(y)
    assert p.first == ("grad" if p.op in ("average_pooling_grad", "padding_grad") else "x")


@pytest.mark.small
@every_operator
def test_rows_with_gaps_give_dense_results(label: str) -> None:
    p = make(label)
    a = p.arrays[p.first]
    for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (2, 0, 3, 1)]:
        big = np.zeros([2 * n + 1 for n in np.array(a.shape)[list(order)]], a.dtype)
        view = big[(slice(1, None, 2),) * 4].transpose(np.argsort(order))
        view[...] = a
        y = p.run(**{p.first: view})
        assert_order(y, order)
        assert not p.problem(y), (order, p.problem(y))


@pytest.mark.small
@pytest.mark.bug("MEM-05")
@every_operator
@pytest.mark.parametrize("odd", [0, 1234, 2**57, 2**60 - 4])
def test_strides_of_single_elements_are_ignored(label: str, odd: int) -> None:
    """Dimensions 0 and 1 have one element: whatever their strides say, x is row-major."""
    p = make(label, (1, 1, 5, 7))
    odd -= odd % p.arrays[p.first].itemsize
    changed = {}
    for name, a in p.arrays.items():
        strides = [odd if n == 1 else s for n, s in zip(a.shape, a.strides, strict=True)]
        changed[name] = np.lib.stride_tricks.as_strided(a, a.shape, strides)
    y = p.run(**changed)
    assert all(a.flags.c_contiguous for a in y)
    assert not p.problem(y), p.problem(y)


@pytest.mark.small
def test_a_single_element_that_padding_widens_keeps_its_place() -> None:
    """Row-major and column-major inputs stay so when a size of 1 grows, whatever its stride."""
    for order in ("C", "F"):
        a = data((3, 1, 4), "float32").copy(order)
        for odd in (0, 4, 2**40):
            x = np.lib.stride_tricks.as_strided(a, a.shape, (a.strides[0], odd, a.strides[2]))
            y = cudml.padding(x, (1, 2, 0), (0, 1, 2))
            assert y.shape == (4, 4, 6) and y.flags[f"{order}_CONTIGUOUS"], (order, odd, y.strides)


@pytest.mark.small
def test_both_row_major_and_column_major_is_row_major() -> None:
    for shape in [(1, 1, 6), (1, 6, 1), (6, 1, 1)]:
        y = cudml.padding(np.zeros(shape, np.float32), 1, 2)
        assert y.flags.c_contiguous and not y.flags.f_contiguous


@pytest.mark.small
def test_equal_strides_keep_their_order() -> None:
    """Overlapping windows of a signal: the sort is stable, so the view counts as row-major."""
    signal = data((12,), "float32")
    x = steps(signal, (3, 4, 5), (1, 1, 1))
    y = cudml.padding(x, 1, 0, mode="edge")
    assert y.flags.c_contiguous
    assert np.array_equal(y, np.pad(x, [(1, 0)] * 3, mode="edge"))


@pytest.mark.small
@pytest.mark.bug("MEM-01")
@every_operator
def test_broadcast_dimensions_go_anywhere(label: str) -> None:
    """Strides of 0 leave their place open; the other dimensions keep their order."""
    p = make(label)
    a = p.arrays[p.first]
    for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)]:
        for axis in range(4):
            small = in_order(a, order)[(slice(None),) * axis + (slice(1, 2),)]
            view = np.broadcast_to(small, a.shape)
            q = p.with_arrays(**{p.first: view})
            y = q.run()
            assert not q.problem(y), (order, axis, q.problem(y))
            for one in y:
                left = [d for d in order if d != axis]
                strides = [one.strides[d] for d in left]
                assert strides == sorted(strides, reverse=True), (order, axis, one.strides)
                everywhere = sorted(range(4), key=lambda d: -one.strides[d])
                assert_order([one], everywhere)


@pytest.mark.small
@every_operator
def test_one_element_everywhere(label: str) -> None:
    """All strides 0: the result is dense and right."""
    p = make(label)
    a = p.arrays[p.first]
    q = p.with_arrays(**{p.first: np.broadcast_to(a[1, 2, 1, 1], a.shape)})
    y = q.run()
    assert not q.problem(y), q.problem(y)
    for one in y:
        assert_order([one], sorted(range(4), key=lambda d: -one.strides[d]))


@pytest.mark.small
@every_operator
def test_scale_bias_and_gradient_in_any_layout(label: str) -> None:
    p = make(label)
    want = p.run()
    for name, a in p.arrays.items():
        for order in permutations(range(4)):
            y = p.run(**{name: in_order(a, order)})
            assert not p.problem(y), (name, order, p.problem(y))
            if name != p.first:
                assert same(y, want), (name, order)


@pytest.mark.small
def test_new_axis_views() -> None:
    """np.newaxis gives strides of 0 to sizes of 1; transposing them changes nothing."""
    a = data((5, 7), "float32")
    want = cudml.max_pooling(a.reshape(1, 1, 5, 7), (2, 3))
    for x in (a[None, None], a[..., None, None].transpose(2, 3, 0, 1)):
        y = cudml.max_pooling(x, (2, 3))
        assert y.flags.c_contiguous and np.array_equal(y, want)


@pytest.mark.small
@every_operator
def test_inputs_stay_as_they_are(label: str) -> None:
    p = make(label)
    before = {k: a.tobytes() for k, a in p.arrays.items()}
    p.run()
    assert before == {k: a.tobytes() for k, a in p.arrays.items()}


def test_memory_of_tensors_in_any_order() -> None:
    """It holds a result's elements, no more, and lives as long as the last view of it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    shape = (4, 5, 7, 9)
    for order in permutations(range(4)):
        x = torch.from_numpy(in_order(data((3, 4, 5, 6), "float32"), order))
        y = cudml.padding(x, (1, 0, 2, 0), (0, 1, 0, 3))
        assert y.shape == shape and y.stride() == dense_strides(shape, order, 1)
        assert y.storage_offset() == 0 and y.untyped_storage().nbytes() == 4 * y.numel()
        row, want = y[1, 2, 3], y[1, 2, 3].tolist()
        del x, y
        gc.collect()
        torch.full(shape, 7.0)  # may take the place of what is free
        assert row.tolist() == want
