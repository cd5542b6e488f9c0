"""Gradients of max and average pooling: cases against the reference, bugs GRAD-01 to GRAD-09."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import cudml
from harness import FLOATS, check, data, dtype_of, refused
from pool_support import line, plane, same_bits
from tests.pool.test_forward import CASES

NAN = float("nan")


def sizes_of(shape: tuple[int, ...], geometry: dict[str, Any]) -> tuple[int, ...]:
    """Sizes of the forward result, which are those of the incoming gradient."""
    return cudml.max_pooling(np.zeros(shape, np.int8), **geometry).shape


def backward(geometry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in geometry.items() if key != "output_sizes"}


@pytest.mark.small
@pytest.mark.decision("D-MAX-10", "D-MAX-11")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["random", "exact", "special"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_gradient(case: str, dtype: str, kind: str) -> None:
    shape, geometry = CASES[case]
    x = data(shape, dtype, seed=1, kind=kind)
    grad = data(sizes_of(shape, geometry), dtype, seed=2, kind="exact")
    check("max_pooling_grad", x, grad, **backward(geometry))


@pytest.mark.small
@pytest.mark.decision("D-AVG-9")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("include_padding", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_average_gradient(case: str, dtype: str, include_padding: bool) -> None:
    shape, geometry = CASES[case]
    grad = data(sizes_of(shape, geometry), dtype, seed=2)
    check(
        "average_pooling_grad",
        grad,
        shape,
        **backward(geometry),
        include_padding=include_padding,
    )


AXES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "image with channels last": (
        (6, 7, 3),
        {"window_size": (3, 2), "strides": (1, 2), "start_padding": (1, 0), "axes": (0, 1)},
    ),
    "scattered axes of rank 6": (
        (2, 4, 1, 5, 2, 3),
        {
            "window_size": (2, 3, 2),
            "strides": (2, 1, 1),
            "end_padding": (0, 2, 1),
            "axes": (1, 3, -1),
        },
    ),
    "vector": ((9,), {"window_size": 3, "strides": 2, "dilations": 2, "axes": 0}),
    "rank 8": (
        (2, 1, 3, 1, 2, 4, 2, 2),
        {"window_size": (2, 3), "dilations": (2, 1), "start_padding": (1, 0), "axes": (2, 5)},
    ),
}


@pytest.mark.small
@pytest.mark.decision("D-POOL-10")
@pytest.mark.parametrize("case", AXES)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_over_axes(case: str, dtype: str) -> None:
    shape, geometry = AXES[case]
    x = data(shape, dtype, seed=5, kind="exact")
    grad = data(sizes_of(shape, geometry), dtype, seed=6)
    check("max_pooling_grad", x, grad, **geometry)
    for include in (False, True):
        check("average_pooling_grad", grad, shape, **geometry, include_padding=include)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("name", ["max_pooling_grad", "average_pooling_grad"])
def test_gradient_of_every_width(name: str) -> None:
    for width in [*range(1, 36), 63, 64, 65]:
        x = data((1, 2, 3, width), "float32", seed=width)
        for geometry in (
            {"window_size": (2, 3), "start_padding": (0, 1), "end_padding": (1, 1)},
            {"window_size": (3, 2), "strides": 2, "end_padding": (0, 1)},
        ):
            grad = data(sizes_of(x.shape, geometry), "float32", seed=9)
            first = (x, grad) if name == "max_pooling_grad" else (grad, x.shape)
            check(name, *first, **geometry, layouts=["contiguous", "misaligned", "permuted"])


@pytest.mark.small
@pytest.mark.bug("GRAD-01")
@pytest.mark.decision("D-MAX-11")
def test_a_hundred_runs_give_the_same_bits() -> None:
    x, grad = data((2, 3, 20, 33), "float32", 1, "exact"), data((2, 3, 16, 31), "float32", 2)
    first = cudml.max_pooling_grad(x, grad, (5, 3))
    average = cudml.average_pooling_grad(grad, x.shape, (5, 3))
    for _ in range(100):
        assert same_bits(cudml.max_pooling_grad(x, grad, (5, 3)), first)
        assert same_bits(cudml.average_pooling_grad(grad, x.shape, (5, 3)), average)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("GRAD-02")
@pytest.mark.decision("D-MAX-2")
def test_ties_give_everything_to_the_first() -> None:
    result = cudml.max_pooling_grad(line([1, 1, 1, 1]), line([1, 2, 4]), 2)
    assert result.ravel().tolist() == [1, 2, 4, 0]
    square = np.ones((2, 1, 3, 3), np.float32)
    result = cudml.max_pooling_grad(square, np.ones((2, 1, 1, 1), np.float32), 3)
    assert result.reshape(2, 9).tolist() == [[1, *[0] * 8]] * 2


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("GRAD-03")
@pytest.mark.decision("D-MAX-11")
def test_half_precision_gradient_is_rounded_once() -> None:
    x, grad = line([0, 0, 9, 0, 0], "float16"), line([2048, 1, 1], "float16")
    assert cudml.max_pooling_grad(x, grad, 3).ravel().tolist() == [0, 0, 2050, 0, 0]
    wide = line([2048, 1, 1, 1, 1, 1, 1, 1, 1], "float16")
    result = cudml.average_pooling_grad(wide, (1, 1, 9), 1)
    assert same_bits(result, wide)
    result = cudml.average_pooling_grad(line([4096, 4, 4, 4], "float16"), (1, 1, 7), 4)
    assert result.ravel().tolist() == [1024, 1025, 1026, 1027, 3, 2, 1]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("GRAD-04")
@pytest.mark.decision("D-MAX-10")
def test_nan_is_the_chosen_element() -> None:
    result = cudml.max_pooling_grad(line([1, NAN, 2, 0]), line([1, 1, 1]), 2)
    assert result.ravel().tolist() == [0, 2, 1, 0]
    result = cudml.max_pooling_grad(line([NAN, 5, NAN]), line([3]), 3)
    assert result.ravel().tolist() == [3, 0, 0]


@pytest.mark.bug("GRAD-05")
@pytest.mark.parametrize("sizes", sorted(set(permutations((32, 32, 256)))), ids=str)
def test_every_element_of_a_long_axis_gets_its_gradient(sizes: tuple[int, ...]) -> None:
    shape = (1, 1, *sizes)
    x = data(shape, "float32", seed=5)
    ones = np.ones(shape, np.float32)
    assert np.all(cudml.max_pooling_grad(x, ones, 1) == 1)
    assert np.all(cudml.average_pooling_grad(ones, shape, 1) == 1)


@pytest.mark.small
@pytest.mark.bug("GRAD-05")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_tail_of_a_padded_long_axis(place: int) -> None:
    sizes = [3, 4, 3]
    sizes[place] = 257
    x = data((1, 2, *sizes), "float32", seed=place)
    geometry = {"window_size": 3, "strides": 2, "end_padding": (2, 1, 1)}
    grad = data(sizes_of(x.shape, geometry), "float32", seed=8)
    layouts = ["contiguous", "permuted"]
    check("max_pooling_grad", x, grad, **geometry, layouts=layouts)
    check("average_pooling_grad", grad, x.shape, **geometry, layouts=layouts)


@pytest.mark.bug("GRAD-06")
@pytest.mark.decision("D-AVG-10")
@pytest.mark.parametrize(
    ("shape", "place", "size"),
    [((2, 6, 4, 4), 1, 6), ((4, 3, 4, 4), 0, 4), ((2, 3, 5, 4), 2, 5), ((2, 3, 4, 6), 3, 6)],
    ids=["channels", "batch", "rows", "columns"],
)
def test_gradient_that_does_not_fit(shape: tuple[int, ...], place: int, size: int) -> None:
    x, grad = np.ones((2, 3, 5, 5), np.float32), np.ones(shape, np.float32)
    out = np.full(x.shape, 7, np.float32)
    field = f"InputGradientTensor.Sizes[{place}] is {size}"
    with refused(ValueError, f"max_pooling_grad: {field}"):
        cudml.max_pooling_grad(x, grad, 2, out=out)
    with refused(ValueError, f"average_pooling_grad: {field}"):
        cudml.average_pooling_grad(grad, x.shape, 2, out=out)
    assert np.all(out == 7)


@pytest.mark.bug("GRAD-06")
@pytest.mark.decision("D-AVG-10")
def test_gradient_of_another_rank() -> None:
    x, out = np.ones((2, 3, 5, 5), np.float32), np.full((2, 3, 5, 5), 7, np.float32)
    for shape in [(2, 3, 16), (2, 3, 1, 4, 4), (16,)]:
        grad = np.ones(shape, np.float32)
        with refused(ValueError, "max_pooling_grad: InputGradientTensor"):
            cudml.max_pooling_grad(x, grad, 2, out=out)
        with refused(ValueError, "average_pooling_grad:"):
            cudml.average_pooling_grad(grad, x.shape, 2, out=out)
    assert np.all(out == 7)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("GRAD-07")
def test_published_examples() -> None:
    x = plane([[1, 2, 3], [2, 4, 2], [5, 6, 7]])
    result = cudml.max_pooling_grad(x, plane([[1, 2], [4, 5]]), 2)
    assert result.ravel().tolist() == [0, 0, 0, 0, 3, 0, 0, 4, 5]
    result = cudml.average_pooling_grad(plane([[1, 2], [3, 4]]), (1, 1, 3, 3), 2)
    assert result.ravel().tolist() == [0.25, 0.75, 0.5, 1, 2.5, 1.5, 0.75, 1.75, 1]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("GRAD-08")
@pytest.mark.decision("D-AVG-11")
def test_gradient_uses_the_divisor_of_the_forward_pass() -> None:
    geometry = {"window_size": 2, "strides": 2, "start_padding": 1}
    result = cudml.average_pooling_grad(line([3, 4]), (1, 1, 3), **geometry)
    assert result.ravel().tolist() == [3, 2, 2]
    result = cudml.average_pooling_grad(line([3, 4]), (1, 1, 3), **geometry, include_padding=True)
    assert result.ravel().tolist() == [1.5, 2, 2]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("GRAD-09")
@pytest.mark.parametrize("dtype", FLOATS)
def test_elements_in_no_window_get_zero(dtype: str) -> None:
    out = np.full((1, 1, 10), NAN, dtype_of(dtype))
    x, grad = line(range(10), dtype), line([1, 2, 3], dtype)
    assert cudml.max_pooling_grad(x, grad, 2, 4, out=out) is out
    assert out.astype(np.float64).ravel().tolist() == [0, 1, 0, 0, 0, 2, 0, 0, 0, 3]
    out[...] = NAN
    assert cudml.average_pooling_grad(grad, (1, 1, 10), 2, 4, out=out) is out
    assert out.astype(np.float64).ravel().tolist() == [0.5, 0.5, 0, 0, 1, 1, 0, 0, 1.5, 1.5]


@pytest.mark.small
@pytest.mark.decision("D-AVG-10")
def test_gradient_of_every_accepted_size() -> None:
    x = line([5, 1, 4, 2, 3])
    for count in (1, 2, 3):
        grad = np.arange(1, count + 1, dtype=np.float32).reshape(1, 1, count)
        result = cudml.max_pooling_grad(x, grad, 2, 2)
        assert (
            result.ravel().tolist()
            == [[1, 0, 0, 0, 0], [1, 0, 2, 0, 0], [1, 0, 2, 0, 3]][count - 1]
        )
        shares = cudml.average_pooling_grad(grad, x.shape, 2, 2, include_padding=True)
        assert shares.sum() == grad.sum()
    with refused(ValueError, "InputGradientTensor.Sizes[2] is 4", "3"):
        cudml.max_pooling_grad(x, line([1, 2, 3, 4]), 2, 2)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-9")
def test_dilated_average_gradient() -> None:
    result = cudml.average_pooling_grad(line([2, 4, 6]), (1, 1, 5), 2, dilations=2)
    assert result.ravel().tolist() == [1, 2, 4, 2, 3]


@pytest.mark.decision("D-MAX-11")
def test_gradient_cost_does_not_grow_with_the_product_of_windows() -> None:
    # 2**20 elements under a window of 2**19: one search per element would be 2**39 steps.
    x = np.arange(2**20, dtype=np.float32).reshape(1, 1, -1)
    grad = np.ones((1, 1, 2), np.float32)
    result = cudml.max_pooling_grad(x, grad, 2**19, 2**19)
    assert np.flatnonzero(result).tolist() == [2**19 - 1, 2**20 - 1]
    shares = cudml.average_pooling_grad(grad, x.shape, 2**19, 2**19)
    assert np.all(shares == 2.0**-19)


@pytest.mark.small
@pytest.mark.decision("D-AVG-11")
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d != "float64"])
@pytest.mark.parametrize("window", [(3, 1), (3, 3), (4, 2), (2, 5)])
def test_average_gradients_overflow_only_where_their_quotients_do(
    dtype: str, window: tuple[int, int]
) -> None:
    """The gradient is a sum of quotients: gradients added before they are divided would overflow
    in the middle rows."""
    largest = 65504.0 if dtype == "float16" else 3e38
    rows, columns = 6 - window[0] + 1, 9 - window[1] + 1
    for sign in (1, -1):
        grad = np.full((2, 3, rows, columns), sign * largest, dtype_of(dtype))
        expected = check("average_pooling_grad", grad, (2, 3, 6, 9), window)
        assert np.isfinite(np.asarray(expected.values[0], float)).all()
