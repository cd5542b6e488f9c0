"""Decisions D-MAX-1 to D-MAX-11: which element wins, what its index is, what no element gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds
from harness import FLOATS, INTEGERS, check, data, dtype_of, refused
from pool_support import INDICES, bits, line, plane, same_bits, sentinel

NAN, INF = float("nan"), float("inf")


@pytest.mark.small
@pytest.mark.decision("D-MAX-1")
@pytest.mark.parametrize("index_dtype", INDICES)
def test_index_counts_batches_and_channels(index_dtype: str) -> None:
    x = np.zeros((3, 4, 5, 6), np.float32)
    spots = np.random.default_rng(1).integers(0, 30, 12)
    x.reshape(12, 30)[np.arange(12), spots] = 1
    y, index = cudml.max_pooling(x, (5, 6), return_indices=True, index_dtype=index_dtype)
    assert index.dtype == np.dtype(index_dtype) and np.all(y == 1)
    assert index.ravel().tolist() == (np.arange(12) * 30 + spots).tolist()


@pytest.mark.small
@pytest.mark.decision("D-MAX-1")
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_index_does_not_depend_on_the_layout(rank: int) -> None:
    x = data((2, 3, 4, 5, 6)[:rank], "float32", seed=rank)
    check("max_pooling", x, 2, 2, return_indices=True)
    y, index = cudml.max_pooling(x, 2, 2, return_indices=True)
    assert np.array_equal(x.ravel()[index], y)


@pytest.mark.small
@pytest.mark.decision("D-MAX-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("window", [(2, 2), (3, 2), (3, 3)])
def test_zeros_of_both_signs_are_equals(window: tuple[int, int], dtype: str) -> None:
    """Every element of the first of two rows is a negative zero."""
    x = np.zeros((2, 3, 8, 66), dtype_of(dtype))
    x[:, :, ::2] = -0.0
    check("max_pooling", x, window, 2, return_indices=True)


# Window and strides, and the columns that it takes, so that rows begin at even and at odd places.
TILES = {
    "2x2/2": ((2, 2), (2, 2)),
    "3x3/2": ((3, 3), (2, 2)),
    "3x3/1": ((3, 3), (1, 1)),
    "1x2/2": ((1, 2), (1, 2)),
    "1x3/2": ((1, 3), (1, 2)),
}


@pytest.mark.small
@pytest.mark.decision("D-MAX-3", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    ("width", "before", "after"), [(16, 0, 0), (17, 1, 0), (18, 0, 1), (34, 1, 1)]
)
def test_one_number_among_others_at_every_tap(
    width: int, before: int, after: int, tile: str, dtype: str
) -> None:
    """NaN, infinities, zeros, subnormals and ends of the type, alone in a window at each place."""
    (height, columns), strides = TILES[tile]
    kind = dtype_of(dtype)
    tiny, most = bounds.FORMATS[kind.name].tiny, bounds.FORMATS[kind.name].largest
    rare = [NAN, -NAN, INF, -INF, 0.0, -0.0, tiny, -3 * tiny, most, -most]
    x = np.full((2, len(rare), 7, width), -1.5)
    for c, value in enumerate(rare):
        for row in range(7):
            x[0, c, row, (3 * c + 5 * row) % width] = value
            x[1, c, row, (c + 2 * row) % width :: 5] = value
    pads = {"start_padding": (0, before), "end_padding": (height - 1, after)}
    check("max_pooling", x.astype(kind), (height, columns), strides, **pads)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MAX-2")
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_first_of_equal_elements_wins(dtype: str) -> None:
    x = np.full((2, 2, 5, 7), 3, dtype_of(dtype))
    for geometry in ({"window_size": (3, 2)}, {"window_size": 2, "strides": 2, "dilations": 2}):
        _, index = cudml.max_pooling(x, return_indices=True, **geometry)
        step = geometry.get("strides", 1)
        rows, columns = index.shape[2:]
        first = (np.arange(rows)[:, None] * 7 + np.arange(columns)) * step
        expected = np.arange(4)[:, None, None] * 35 + first
        np.testing.assert_array_equal(index.reshape(expected.shape), expected)
        check("max_pooling", x, return_indices=True, **geometry)


@pytest.mark.small
@pytest.mark.decision("D-MAX-2")
def test_first_means_rows_before_columns() -> None:
    x = plane([[0, 5, 1], [5, 5, 0]])
    assert cudml.max_pooling(x, (2, 2), return_indices=True)[1].ravel().tolist() == [1, 1]
    x = plane([[0, 0, 7], [7, 0, 0]])
    assert cudml.max_pooling(x, (2, 3), return_indices=True)[1].item() == 2
    x = np.zeros((1, 1, 2, 2, 2), np.float32)
    x[0, 0, 0, 1, 1] = x[0, 0, 1, 0, 0] = 9
    assert cudml.max_pooling(x, 2, return_indices=True)[1].item() == 3


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MAX-3")
@pytest.mark.parametrize("dtype", FLOATS)
def test_first_nan_wins(dtype: str) -> None:
    x = line([INF, NAN, 3, NAN, INF, 1, 2], dtype)
    y, index = cudml.max_pooling(x, 4, return_indices=True)
    assert np.isnan(y.astype(np.float64)).all() and index.ravel().tolist() == [1, 1, 3, 3]
    y = cudml.max_pooling(x, 3, 2)
    assert np.isnan(y[..., :2].astype(np.float64)).all() and y[..., 2].item() == INF
    check("max_pooling", data((2, 3, 6, 9), dtype, 3, "special"), (2, 3), 1, 1, 1)
    check(
        "max_pooling",
        data((2, 3, 6, 9), dtype, 4, "special"),
        (3, 2),
        (1, 2),
        (0, 1),
        (2, 0),
        return_indices=True,
    )


@pytest.mark.small
@pytest.mark.decision("D-MAX-3", "D-MAX-6")
def test_indexed_nan_keeps_its_payload() -> None:
    payloads = np.array([0x7FC00001, 0xFFC0BEEF, 0x7FC12345], np.uint32).view(np.float32)
    y, index = cudml.max_pooling(payloads.reshape(1, 1, 3), 2, return_indices=True)
    assert index.ravel().tolist() == [0, 1]
    assert bits(y) == bits(payloads[:2])


@pytest.mark.small
@pytest.mark.decision("D-MAX-4")
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("index_dtype", INDICES)
def test_empty_window(dtype: str, index_dtype: str) -> None:
    x = np.ones((2, 1, 2, 3), dtype_of(dtype))
    geometry: dict[str, Any] = {"window_size": 2, "start_padding": (2, 0), "end_padding": (0, 3)}
    y, index = cudml.max_pooling(x, return_indices=True, index_dtype=index_dtype, **geometry)
    lowest = -INF if dtype in FLOATS else np.iinfo(dtype).min
    empty = np.zeros((3, 5), bool)
    empty[0], empty[:, 3:] = True, True
    for image in range(2):
        assert np.all(y[image, 0][empty] == lowest) and np.all(y[image, 0][~empty] == 1)
        assert np.all(index[image, 0][empty] == sentinel(index_dtype))
        assert index[image, 0][~empty].tolist() == [k + 6 * image for k in (0, 1, 2, 0, 1, 2)]
    assert same_bits(cudml.max_pooling(x, **geometry), y)


@pytest.mark.small
@pytest.mark.decision("D-MAX-4")
def test_gradient_of_an_empty_window_is_dropped() -> None:
    x, grad = line([1, 2]), line([10, 20, 30, NAN, INF])
    result = cudml.max_pooling_grad(x, grad, 2, start_padding=1, end_padding=3)
    assert result.ravel().tolist() == [10, 50]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MAX-5")
@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_infinity_has_an_index(dtype: str) -> None:
    x = np.full((2, 3, 4, 4), -INF, dtype_of(dtype))
    y, index = cudml.max_pooling(x, 3, 2, 1, 1, return_indices=True)
    assert np.all(y == -INF)
    first = np.arange(6)[:, None, None] * 16 + np.array([[0, 1], [4, 5]])
    np.testing.assert_array_equal(index.reshape(6, 2, 2), first)
    grad = cudml.max_pooling_grad(x, np.ones(y.shape, x.dtype), 3, 2, 1, 1)
    assert grad.reshape(6, 16).sum(1).tolist() == [4] * 6 and np.all(grad[:, :, :2, :2] == 1)


@pytest.mark.small
@pytest.mark.decision("D-MAX-5")
def test_smallest_integers_have_an_index() -> None:
    for dtype in INTEGERS:
        x = np.full((1, 1, 40), np.iinfo(dtype).min, dtype)
        y, index = cudml.max_pooling(x, 3, 1, 1, 1, return_indices=True)
        assert np.all(y == np.iinfo(dtype).min)
        assert index.ravel().tolist() == [0, *range(39)]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_of_both_signs_are_equal(dtype: str) -> None:
    values = [-0.0, 0.0, -0.0, -1.0, 0.0, -0.0, -0.0]
    y, index = cudml.max_pooling(line(values, dtype), 2, return_indices=True)
    assert index.ravel().tolist() == [0, 1, 2, 4, 4, 5]
    assert np.signbit(y.astype(np.float64)).ravel().tolist() == [1, 0, 1, 0, 0, 1]
    assert np.all(cudml.max_pooling(line(values, dtype), 2) == 0)
    negative = cudml.max_pooling(line([-0.0] * 4, dtype), 3)
    assert np.signbit(negative.astype(np.float64)).all()


@pytest.mark.small
@pytest.mark.decision("D-MAX-7")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_compared_in_their_own_type(dtype: str) -> None:
    limits = np.iinfo(dtype)
    top = [limits.max - 1, limits.max, limits.max - 2]
    low = [limits.min + 1, limits.min, limits.min + 2]
    y, index = cudml.max_pooling(line(top + low, dtype), 3, 3, return_indices=True)
    assert y.ravel().tolist() == [limits.max, limits.min + 2]
    assert index.ravel().tolist() == [1, 5]
    middle = [limits.max // 2 + k for k in (0, 1, 3, 2)]
    assert cudml.max_pooling(line(middle, dtype), 2).ravel().tolist() == [
        middle[1], middle[2], middle[2]
    ]  # fmt: skip
    check("max_pooling", data((2, 2, 5, 19), dtype, 7, "special"), (2, 3), 1, 1, 2)
    check("max_pooling", data((2, 2, 5, 19), dtype, 8), 2, 2, (0, 1), return_indices=True)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MAX-7")
def test_64_bit_integers_beyond_53_bits() -> None:
    base = 2**53
    y, index = cudml.max_pooling(line([base, base + 1, base], "int64"), 3, return_indices=True)
    assert (y.item(), index.item()) == (base + 1, 1)
    low = [-(2**63), -(2**63) + 1, -(2**63)]
    y, index = cudml.max_pooling(line(low, "int64"), 3, return_indices=True)
    assert (y.item(), index.item()) == (-(2**63) + 1, 1)
    high = [2**64 - 3, 2**64 - 1, 2**64 - 2, 2**63]
    y, index = cudml.max_pooling(line(high, "uint64"), 4, return_indices=True)
    assert (y.item(), index.item()) == (2**64 - 1, 1)


@pytest.mark.small
@pytest.mark.decision("D-MAX-9")
def test_index_types() -> None:
    x = line([1, 3, 2])
    spellings: list[tuple[Any, Any]] = [
        ("uint32", np.uint32), ("uint64", np.uint64), ("int64", np.int64),
        (np.uint32, np.uint32), (np.dtype("uint64"), np.uint64), (np.int64, np.int64),
    ]  # fmt: skip
    for spelling, expected in spellings:
        _, index = cudml.max_pooling(x, 2, 3, 2, 4, return_indices=True, index_dtype=spelling)
        assert index.dtype == expected
        assert index.ravel().tolist() == [sentinel(expected), 1, sentinel(expected)]
    _, index = cudml.max_pooling(x, 2, return_indices=True)
    assert index.dtype == np.uint32


@pytest.mark.decision("D-MAX-9")
@pytest.mark.parametrize("wrong", ["int32", np.int32, "float32", "bool", np.dtype("uint8")])
@pytest.mark.parametrize("return_indices", [True, False])
def test_refused_index_types(wrong: Any, return_indices: bool) -> None:
    x = line([1, 3, 2])
    with refused((TypeError, ValueError), "max_pooling:", "index_dtype", "uint32", "int64"):
        cudml.max_pooling(x, 2, return_indices=return_indices, index_dtype=wrong)


@pytest.mark.small
@pytest.mark.decision("D-MAX-10")
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient_follows_the_forward_indices(dtype: str) -> None:
    for seed, geometry in enumerate(
        (
            {
                "window_size": (2, 3),
                "strides": (1, 2),
                "start_padding": (1, 0),
                "end_padding": (0, 2),
            },
            {"window_size": (3, 2), "strides": (2, 1), "dilations": (1, 3), "end_padding": (1, 1)},
            {"window_size": (2, 2), "strides": (3, 4), "start_padding": (2, 2)},
        )
    ):
        x = data((2, 3, 7, 8), dtype, seed, "special")
        y, index = cudml.max_pooling(x, return_indices=True, **geometry)
        grad = data(y.shape, dtype, seed + 10, "exact")
        expected = np.zeros(x.size)
        real = index != sentinel("uint32")
        np.add.at(expected, index[real].astype(np.int64), grad[real].astype(np.float64))
        result = cudml.max_pooling_grad(x, grad, **geometry)
        np.testing.assert_array_equal(result.astype(np.float64).ravel(), expected)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MAX-11")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradient_sums_in_single_precision(dtype: str) -> None:
    x = np.zeros((1, 1, 1, 41), dtype_of(dtype))
    x[..., 20] = 1
    grad = np.ones((1, 1, 1, 21), x.dtype)
    grad[..., 0] = 2048
    result = cudml.max_pooling_grad(x, grad, (1, 21))
    expected = np.zeros(41)
    expected[20] = np.float32(2068).astype(x.dtype)
    assert result.astype(np.float64).ravel().tolist() == expected.tolist()


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("special", [None, np.nan, -np.nan, -0.0, np.inf])
def test_indices_of_halves_are_those_of_floats(window: int, special: float | None) -> None:
    x = np.random.default_rng(3).integers(-4, 5, (2, 64, 41, 57)).astype(np.float16)
    if special is not None:
        x[0, 5, ::7, ::5] = special
        x[1, 60, 3, 1:] = special
    geometry = {"window_size": window, "strides": 2, "return_indices": True}
    y, index = cudml.max_pooling(x, start_padding=window - 2, **geometry)
    wide, same = cudml.max_pooling(x.astype(np.float32), start_padding=window - 2, **geometry)
    assert np.array_equal(index, same)
    assert np.array_equal(y, wide.astype(np.float16), equal_nan=True)
    assert np.array_equal(np.signbit(y), np.signbit(x.ravel()[index]))
