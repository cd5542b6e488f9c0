"""Decisions of the specification on geometry, defaults and empty arrays in pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, refused
from pool_support import LIMIT, line, plane, same_bits, sentinel

FORWARD = ("max_pooling", "average_pooling", "lp_pooling")


@pytest.mark.small
@pytest.mark.decision("D-POOL-1")
@pytest.mark.parametrize(
    ("n", "w", "s", "p0", "p1", "d", "floor", "ceil"),
    [
        (5, 2, 2, 0, 0, 1, 2, 3),
        (5, 3, 2, 1, 1, 1, 3, 3),
        (4, 3, 2, 1, 1, 1, 2, 3),
        (7, 3, 1, 0, 0, 2, 3, 3),
        (7, 3, 2, 0, 0, 2, 2, 2),
        (8, 3, 2, 1, 1, 3, 2, 3),
        (1, 2, 1, 1, 1, 2, 1, 1),
        (7, 3, 3, 0, 0, 1, 2, 3),
    ],
)
def test_table_of_output_sizes(
    n: int, w: int, s: int, p0: int, p1: int, d: int, floor: int, ceil: int
) -> None:
    x = np.ones((2, 1, n, n), np.float32)
    for name in FORWARD:
        operator = getattr(cudml, name)
        assert operator(x, w, s, p0, p1, d).shape == (2, 1, floor, floor)
        largest = operator(x, w, s, p0, p1, d, output_sizes=(ceil, ceil))
        assert largest.shape == (2, 1, ceil, ceil)
        with refused(ValueError, f"{name}: OutputTensor.Sizes[", f"{ceil + 1}"):
            operator(x, w, s, p0, p1, d, output_sizes=(floor, ceil + 1))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-POOL-2")
@pytest.mark.parametrize("name", FORWARD)
def test_smaller_output_skips_trailing_windows(name: str) -> None:
    x = (np.arange(2 * 3 * 7 * 8) * 37 % 101).reshape(2, 3, 7, 8).astype(np.float32)
    geometry: dict[str, Any] = {"window_size": (2, 3), "strides": (1, 2), "start_padding": (1, 0)}
    whole = getattr(cudml, name)(x, **geometry)
    assert whole.shape == (2, 3, 7, 3)
    part = getattr(cudml, name)(x, **geometry, output_sizes=(4, 2))
    assert same_bits(part, whole[:, :, :4, :2])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-POOL-2")
@pytest.mark.parametrize("name", FORWARD)
def test_larger_output_adds_overhanging_windows(name: str) -> None:
    x = (np.arange(2 * 2 * 6 * 9) * 37 % 101).reshape(2, 2, 6, 9).astype(np.float32)
    geometry: dict[str, Any] = {"window_size": (3, 2), "strides": (4, 3), "end_padding": (0, 1)}
    check(name, x, **geometry, output_sizes=(2, 4))
    whole = getattr(cudml, name)(x, **geometry, output_sizes=(2, 4))
    assert same_bits(whole[:, :, :1, :3], getattr(cudml, name)(x, **geometry))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-POOL-5")
def test_padding_has_no_limit_but_the_extent() -> None:
    x = line([4, 2])
    geometry = {
        "window_size": 2,
        "strides": 500_000_000,
        "start_padding": 10**9,
        "end_padding": 10**9,
    }
    y, index = cudml.max_pooling(x, **geometry, return_indices=True)
    assert y.ravel().tolist() == [-np.inf, -np.inf, 4, -np.inf, -np.inf]
    assert index.ravel().tolist() == [LIMIT, LIMIT, 0, LIMIT, LIMIT]
    assert cudml.average_pooling(x, **geometry).ravel().tolist() == [0, 0, 3, 0, 0]
    assert cudml.lp_pooling(x, **geometry, p=1).ravel().tolist() == [0, 0, 6, 0, 0]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-POOL-6", "D-MAX-4", "D-AVG-3", "D-LP-5")
def test_dilation_can_step_over_the_whole_input() -> None:
    x = plane([[4]])
    geometry = {"window_size": 2, "start_padding": 1, "end_padding": 1, "dilations": 2}
    y, index = cudml.max_pooling(x, **geometry, return_indices=True)
    assert (y.item(), index.item()) == (-np.inf, LIMIT)
    for include in (False, True):
        assert cudml.average_pooling(x, **geometry, include_padding=include).item() == 0
        grad = cudml.average_pooling_grad(
            np.ones_like(x), x.shape, **geometry, include_padding=include
        )
        assert grad.item() == 0
    assert cudml.lp_pooling(x, **geometry).item() == 0
    assert cudml.max_pooling_grad(x, np.ones_like(x), **geometry).item() == 0


@pytest.mark.decision("D-POOL-8")
@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("wrong", [(2,), (1, 2, 2), ()], ids=["one", "three", "none"])
def test_one_number_per_spatial_dimension(name: str, wrong: tuple[int, ...]) -> None:
    x = np.ones((1, 2, 6, 6), np.float32)
    fields = {
        "window_size": "WindowSize",
        "strides": "Strides",
        "start_padding": "StartPadding",
        "end_padding": "EndPadding",
        "dilations": "Dilations",
        "output_sizes": "OutputTensor.Sizes",
    }
    for argument, field in fields.items():
        with refused(ValueError, f"{name}:", field, f"{len(wrong)}", "2"):
            getattr(cudml, name)(x, **{"window_size": (2, 2), argument: wrong})


@pytest.mark.small
@pytest.mark.decision("D-POOL-9")
@pytest.mark.parametrize("index_dtype", ["uint32", "uint64", "int64"])
def test_one_spatial_dimension_is_a_plane_of_height_one(index_dtype: str) -> None:
    x = (np.arange(2 * 3 * 9) * 37 % 101).reshape(2, 3, 9).astype(np.float32)
    flat: dict[str, Any] = {
        "window_size": 3,
        "strides": 2,
        "start_padding": 1,
        "end_padding": 2,
        "dilations": 2,
    }
    tall = {key: (0 if "padding" in key else 1, v) for key, v in flat.items()}
    options = {"return_indices": True, "index_dtype": index_dtype}
    y, index = cudml.max_pooling(x, **flat, **options)
    y2, index2 = cudml.max_pooling(x[:, :, None], **tall, **options)
    assert same_bits(y, y2[:, :, 0]) and same_bits(index, index2[:, :, 0])
    mean = cudml.average_pooling(x, **flat, include_padding=True)
    mean2 = cudml.average_pooling(x[:, :, None], **tall, include_padding=True)
    np.testing.assert_allclose(mean, mean2[:, :, 0], rtol=1e-6)
    grad = cudml.max_pooling_grad(x, y, **flat)
    np.testing.assert_allclose(
        grad, cudml.max_pooling_grad(x[:, :, None], y2, **tall)[:, :, 0], rtol=1e-6
    )


@pytest.mark.small
@pytest.mark.decision("D-VER-1")
def test_one_number_means_every_spatial_dimension() -> None:
    x = (np.arange(1080) * 37 % 101).reshape(2, 1, 6, 9, 10).astype(np.float32)
    one: dict[str, Any] = {
        "window_size": 2,
        "strides": 3,
        "start_padding": 1,
        "end_padding": 2,
        "dilations": 2,
    }
    three = {key: (value,) * 3 for key, value in one.items()}
    listed = {key: [np.int16(value)] * 3 for key, value in one.items()}
    for name in FORWARD:
        operator = getattr(cudml, name)
        assert same_bits(operator(x, **one), operator(x, **three))
        assert same_bits(operator(x, **one), operator(x, **listed))


@pytest.mark.small
@pytest.mark.decision("D-VER-2")
def test_strides_default_to_one() -> None:
    x = np.ones((1, 1, 6, 7), np.float32)
    for name in FORWARD:
        assert getattr(cudml, name)(x, 3).shape == (1, 1, 4, 5)
    grad = np.ones((1, 1, 4, 5), np.float32)
    assert cudml.max_pooling_grad(x, grad, 3).shape == x.shape
    assert cudml.average_pooling_grad(grad, x.shape, 3).shape == x.shape


@pytest.mark.small
@pytest.mark.decision("D-VER-3")
def test_include_padding_defaults_to_false() -> None:
    x = line([6, 2])
    assert cudml.average_pooling(x, 2, 2, 1, 1).ravel().tolist() == [6, 2]
    grad = cudml.average_pooling_grad(line([1, 1]), (1, 1, 2), 2, 2, 1, 1)
    assert grad.ravel().tolist() == [1, 1]


@pytest.mark.small
@pytest.mark.decision("D-VER-6")
def test_ceil_rule_starts_the_last_window_inside_start_and_input() -> None:
    x = line([1, 2, 3, 4, 5])
    assert cudml.max_pooling(x, 2, 2, output_sizes="ceil").ravel().tolist() == [2, 4, 5]
    # OutCeil is 4, but the fourth window would start at the end padding.
    assert cudml.max_pooling(x, 2, 2, 0, 2, output_sizes="ceil").ravel().tolist() == [2, 4, 5]
    # It can be below the floor rule, which is 4 here.
    assert cudml.max_pooling(x, 2, 2, 0, 3).shape[2] == 4
    assert cudml.max_pooling(x, 2, 2, 0, 3, output_sizes="ceil").shape[2] == 3
    for wrong in ("floor", "CEIL", ""):
        with refused(ValueError, "max_pooling:", "ceil"):
            cudml.max_pooling(x, 2, output_sizes=wrong)


@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (0, 0, 4, 5)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_empty_batches_give_empty_results(shape: tuple[int, ...], dtype: str) -> None:
    x = np.empty(shape, dtype)
    wanted = (*shape[:2], 3, 2)
    y, index = cudml.max_pooling(x, 2, (1, 2), return_indices=True)
    assert y.shape == index.shape == wanted and y.dtype == x.dtype and index.dtype == np.uint32
    out = np.empty(wanted, dtype)
    for name in FORWARD:
        assert getattr(cudml, name)(x, 2, (1, 2)).shape == wanted
        assert getattr(cudml, name)(x, 2, (1, 2), out=out) is out
        with refused(ValueError, "WindowSize[1] is 0"):
            getattr(cudml, name)(x, (2, 0))
    assert cudml.max_pooling_grad(x, y, 2, (1, 2)).shape == shape
    assert cudml.average_pooling_grad(y, shape, 2, (1, 2)).shape == shape


@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("name", FORWARD)
def test_empty_pooled_dimensions_are_refused(name: str) -> None:
    for shape in [(1, 1, 0), (1, 1, 3, 0), (2, 0, 0, 3), (1, 1, 2, 0, 2)]:
        with refused(ValueError, f"{name}: InputTensor.Sizes["):
            getattr(cudml, name)(np.empty(shape, np.float32), 1, end_padding=2)
    image = np.empty((0, 5, 3), np.float32)
    with refused(ValueError, f"{name}:"):
        getattr(cudml, name)(image, 1, axes=(0, 1), end_padding=2)
    empty = getattr(cudml, name)(np.empty((4, 5, 0), np.float32), 2, axes=(0, 1))
    assert empty.shape == (3, 4, 0)


@pytest.mark.decision("D-TEN-4")
def test_empty_pooled_dimensions_are_refused_in_gradients() -> None:
    x, grad = np.empty((1, 1, 0), np.float32), np.empty((1, 1, 1), np.float32)
    with refused(ValueError, "max_pooling_grad:"):
        cudml.max_pooling_grad(x, grad, 1, end_padding=1)
    with refused(ValueError, "average_pooling_grad:"):
        cudml.average_pooling_grad(grad, (1, 1, 0), 1, end_padding=1)


@pytest.mark.small
def test_largest_arguments_are_accepted() -> None:
    x = line([3])
    assert cudml.max_pooling(x, 1, LIMIT, dilations=LIMIT).item() == 3
    assert cudml.lp_pooling(x, 1, LIMIT, dilations=LIMIT, p=LIMIT).item() == 3
    assert sentinel("int64") == -1 and sentinel("uint32") == LIMIT
