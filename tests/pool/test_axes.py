"""Pooling over chosen axes of arrays of rank 1 to 8: decision D-POOL-10."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, refused
from pool_support import channels_last, dtype_of, same_bits

pytestmark = pytest.mark.decision("D-POOL-10")
FORWARD = ("max_pooling", "average_pooling", "lp_pooling")


def numbers(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Different small integers, so that float16 holds them and maxima are unique nearby."""
    return (np.arange(np.prod(shape)) * 37 % 101).reshape(shape).astype(dtype_of(dtype))


def moved(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`x` as {batch, 1, pooled axes}; inner dimensions of the batch are the last kept ones."""
    kept = [d for d in range(x.ndim) if d not in axes]
    sizes = [x.shape[d] for d in axes]
    return np.ascontiguousarray(np.transpose(x, [*kept, *axes])).reshape(-1, 1, *sizes)


def back(y: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """Undo `moved` for a result whose pooled sizes differ from those of `shape`."""
    kept = [d for d in range(len(shape)) if d not in axes]
    tall = y.reshape([shape[d] for d in kept] + list(y.shape[2:]))
    return np.transpose(tall, np.argsort([*kept, *axes]))


EVERY_PLACE = [
    (rank, axes)
    for rank in range(1, 9)
    for count in (1, 2, 3)
    for axes in combinations(range(rank), count)
]


@pytest.mark.small
@pytest.mark.parametrize(("rank", "axes"), EVERY_PLACE, ids=str)
def test_axes_in_every_position(rank: int, axes: tuple[int, ...]) -> None:
    sizes = [2, 1, 3, 2, 1, 2, 3, 2][:rank]
    for place, axis in enumerate(axes):
        sizes[axis] = (4, 5, 3)[place]
    x = numbers(tuple(sizes))
    m = len(axes)
    geometry: dict[str, Any] = {
        "window_size": (2, 3, 2)[:m],
        "strides": (1, 2, 1)[:m],
        "start_padding": (1, 0, 2)[:m],
        "end_padding": (0, 1, 0)[:m],
        "dilations": (2, 1, 2)[:m],
    }
    dense = moved(x, axes)
    y, index = cudml.max_pooling(x, **geometry, axes=axes, return_indices=True)
    assert same_bits(y, back(cudml.max_pooling(dense, **geometry), x.shape, axes))
    real = index != 2**32 - 1
    assert np.array_equal(x.ravel()[index[real]], y[real]) and np.all(y[~real] == -np.inf)
    for name in ("average_pooling", "lp_pooling"):
        expected = back(getattr(cudml, name)(dense, **geometry), x.shape, axes)
        result = getattr(cudml, name)(x, **geometry, axes=axes)
        np.testing.assert_allclose(result, expected, rtol=2e-6)
    grad = np.where(real, np.arange(1.0, y.size + 1).reshape(y.shape), 0).astype(np.float32)
    spread = cudml.max_pooling_grad(x, grad, **geometry, axes=axes)
    expected = np.zeros(x.size, np.float32)
    np.add.at(expected, index[real].astype(np.int64), grad[real])
    np.testing.assert_array_equal(spread, expected.reshape(x.shape))
    shares = cudml.average_pooling_grad(grad, x.shape, **geometry, axes=axes)
    dense_shares = cudml.average_pooling_grad(moved(grad, axes), dense.shape, **geometry)
    np.testing.assert_allclose(shares, back(dense_shares, x.shape, axes), rtol=2e-6)


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "image of height and width": (
        (7, 9),
        {"window_size": (2, 3), "strides": (2, 1), "end_padding": (1, 0), "axes": (0, 1)},
    ),
    "image with channels last": (
        (7, 9, 3),
        {"window_size": (3, 2), "strides": (1, 2), "start_padding": (1, 0), "axes": (0, 1)},
    ),
    "stack of images with channels last": (
        (2, 5, 6, 3),
        {"window_size": (2, 3), "dilations": (2, 1), "end_padding": (0, 2), "axes": (1, 2)},
    ),
    "volume with a kept dimension between": (
        (3, 4, 5, 2, 6),
        {
            "window_size": (2, 3, 2),
            "strides": (1, 2, 3),
            "start_padding": (0, 1, 0),
            "axes": (0, 2, 4),
        },
    ),
    "one axis in the middle, written as a number": (
        (3, 7, 4),
        {"window_size": 3, "strides": 2, "start_padding": 2, "end_padding": 1, "axes": 1},
    ),
    "vector": ((11,), {"window_size": 3, "strides": 2, "dilations": 2, "axes": 0}),
    "negative axes": ((2, 7, 3, 8), {"window_size": (3, 2), "strides": (2, 1), "axes": (-3, -1)}),
    "rank 8 with scattered axes": (
        (2, 4, 1, 3, 2, 1, 5, 2),
        {
            "window_size": (2, 2, 3),
            "strides": (2, 1, 1),
            "end_padding": (0, 1, 2),
            "axes": (1, 3, 6),
        },
    ),
    "ceil size over the first axes": (
        (8, 6, 2),
        {"window_size": (3, 3), "strides": (2, 2), "output_sizes": "ceil", "axes": (0, 1)},
    ),
    "explicit size over the first axes": (
        (8, 6, 2),
        {"window_size": (3, 3), "strides": (2, 2), "output_sizes": (4, 1), "axes": (0, 1)},
    ),
}


@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("case", CASES)
def test_axes_cases(name: str, case: str, dtype: str) -> None:
    shape, arguments = CASES[case]
    check(name, numbers(shape, dtype), **arguments)
    if name == "max_pooling":
        check(name, numbers(shape, dtype), **arguments, return_indices=True)


@pytest.mark.core
@pytest.mark.small
def test_indices_are_flat_over_the_array_as_it_stands() -> None:
    image = np.array([[[1, 9], [7, 2]], [[3, 4], [5, 6]]], np.float32)  # {H, W, C}
    y, index = cudml.max_pooling(image, 2, axes=(0, 1), return_indices=True)
    assert y.tolist() == [[[7, 9]]]
    assert index.tolist() == [[[2, 1]]]
    ties = np.ones((2, 2, 2), np.float32)
    _, index = cudml.max_pooling(ties, 2, axes=(0, 2), return_indices=True)
    assert index.tolist() == [[[0], [2]]]


@pytest.mark.core
@pytest.mark.small
def test_view_not_a_copy_of_a_huge_array() -> None:
    # 2**46 logical elements on one byte: any copy would fail.
    x = np.broadcast_to(np.int8(7), (2**15, 1, 2**31 - 1))
    y = cudml.max_pooling(x, (2, 2), (2**14, 2**30), axes=(0, 2))
    assert y.shape == (2, 1, 2) and np.all(y == 7)


@pytest.mark.core
@pytest.mark.small
def test_results_keep_the_memory_order_of_the_image() -> None:
    image = channels_last(numbers((2, 3, 8, 9)))
    y, index = cudml.max_pooling(image, 2, 2, return_indices=True)
    assert y.strides[1] == y.itemsize and index.strides[1] == index.itemsize
    same = np.moveaxis(image, 1, -1)
    y2 = cudml.max_pooling(same, 2, 2, axes=(1, 2))
    assert same_bits(np.moveaxis(y2, -1, 1), y) and y2.flags.c_contiguous


@pytest.mark.small
@pytest.mark.parametrize("name", FORWARD)
def test_default_axes_need_rank_three_to_five(name: str) -> None:
    operator = getattr(cudml, name)
    for rank in (3, 4, 5):
        x = numbers((2, 2, 3, 4, 5)[:rank])
        assert same_bits(operator(x, 2), operator(x, 2, axes=tuple(range(2, rank))))
    for rank in (1, 2, 6, 7, 8):
        with refused(ValueError, f"{name}:", "axes=", f"{rank}"):
            operator(np.ones((3,) * rank, np.float32), 2)
    for rank in (0, 9):
        with refused(ValueError, f"{name}:", f"{rank}"):
            operator(np.ones((1,) * rank, np.float32), 1, axes=0)


@pytest.mark.small
@pytest.mark.parametrize("rank", [1, 2, 6, 7, 8])
def test_gradients_need_axes_for_other_ranks(rank: int) -> None:
    x = np.ones((3,) * rank, np.float32)
    with refused(ValueError, "max_pooling_grad:", "axes="):
        cudml.max_pooling_grad(x, x, 1)
    with refused(ValueError, "average_pooling_grad:", "axes="):
        cudml.average_pooling_grad(x, x.shape, 1)
    assert same_bits(cudml.max_pooling_grad(x, x, 1, axes=-1), x)
    assert same_bits(cudml.average_pooling_grad(x, x.shape, 1, axes=[-1]), x)


@pytest.mark.parametrize(
    ("axes", "error", "fragments"),
    [
        ((1, 0), ValueError, ("Axes[1] is 0", "axes must ascend strictly, and Axes[0] is 1")),
        ((1, 1), ValueError, ("Axes",)),
        ((-1, 1), ValueError, ("Axes",)),
        ((1, -3), ValueError, ("Axes",)),
        ((), ValueError, ("Axes",)),
        ((0, 1, 2, 3), ValueError, ("Axes", "3")),
        ((0, 4), ValueError, ("Axes[1] is 4", "3")),
        (-5, ValueError, ("Axes", "-5", "-4")),
        (2**70, ValueError, ("Axes",)),
        (True, TypeError, ("Axes", "bool")),
        ((0, 1.0), TypeError, ("Axes[1]", "float")),
        ("01", TypeError, ("Axes", "str")),
    ],
    ids=str,
)
def test_refused_axes(axes: Any, error: type[Exception], fragments: tuple[str, ...]) -> None:
    x = np.ones((3, 3, 3, 3), np.float32)
    for name in FORWARD:
        with refused(error, f"{name}:", *fragments):
            getattr(cudml, name)(x, 1, axes=axes)
    with refused(error, "max_pooling_grad:", *fragments):
        cudml.max_pooling_grad(x, x, 1, axes=axes)
    with refused(error, "average_pooling_grad:", *fragments):
        cudml.average_pooling_grad(x, x.shape, 1, axes=axes)


@pytest.mark.parametrize("layout", [np.ascontiguousarray, channels_last])
@pytest.mark.parametrize("window", [2, 3, 9])
@pytest.mark.parametrize("sizes", [(40, 1), (40, 1, 1), (1, 40, 1)], ids=str)
def test_an_axis_of_one_element_takes_no_path_away(
    sizes: tuple[int, ...], window: int, layout: Any
) -> None:
    """Winners along an axis before it are found as those along the last one are."""
    row = layout(np.random.default_rng(window).integers(-3, 4, (2, 17, 1, 40)).astype("float32"))
    x = row.reshape(2, 17, *sizes)
    assert np.shares_memory(x, row)
    windows = tuple(window if n > 1 else 1 for n in sizes)
    for strides in (1, 2):
        wanted = cudml.max_pooling(row, (1, window), strides, return_indices=True)
        got = cudml.max_pooling(x, windows, strides, return_indices=True)
        for one, other in zip(got, wanted, strict=True):
            assert same_bits(one, other.reshape(one.shape))
        grad = cudml.max_pooling_grad(x, got[0], windows, strides)
        wanted_grad = cudml.max_pooling_grad(row, wanted[0], (1, window), strides)
        assert same_bits(grad, wanted_grad.reshape(x.shape))
        for family, one, other in (
            ("max_pooling", (x,), (row,)),
            ("max_pooling_grad", (x, got[0]), (row, wanted[0])),
        ):
            more = {"return_indices": True} if family == "max_pooling" else {}
            said = cudml.explain(family, *one, windows, strides, **more)
            assert said.kernel == cudml.explain(family, *other, (1, window), strides, **more).kernel
