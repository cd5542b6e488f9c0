"""What must not take long, by wide margins: `pytest tests/campaign/costs.py` on an idle machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says


def least_of(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of some calls."""
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def seconds_of(x: np.ndarray, window: tuple[int, ...], strides: tuple[int, ...]) -> float:
    return least_of(lambda: cudml.average_pooling(x, window, strides))


@pytest.mark.parametrize("axis", [2, 3])
def test_a_pooled_dimension_of_one_element_costs_little(axis: int) -> None:
    row = np.ones((1, 9, 32_000), "float32")
    x, window, strides = np.expand_dims(row, axis), [5, 5], [4, 4]
    window[axis - 2] = strides[axis - 2] = 1
    assert seconds_of(x, tuple(window), tuple(strides)) < 20 * seconds_of(row, (5,), (4,))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_norms_of_zeros_cost_little(dtype: str) -> None:
    """As they stand behind a ReLU: the same sum is that of values whose squares underflow."""
    x = np.random.default_rng(0).standard_normal((4, 16, 112, 112)).astype(dtype)

    def seconds(x: np.ndarray) -> float:
        return least_of(lambda: cudml.lp_pooling(x, 3, 2, p=2))

    assert seconds(np.maximum(x - 2, 0)) < 6 * seconds(x) > seconds(np.zeros_like(x)) / 6


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2)], ids=["rows", "pixels"])
@pytest.mark.parametrize("strides", [(128, 128), (1, 1)])
def test_gradients_of_one_large_window_cost_little(
    strides: tuple[int, int], order: tuple[int, ...]
) -> None:
    """An element has one window, however many elements that has: one or two for each plane."""
    shape = tuple(np.array([1, 64, 128, 129])[np.argsort(order)])
    dx = np.empty(shape, "float32").transpose(order)
    plane = np.ones((1, 64, 1, 2 if strides == (1, 1) else 1), "float32")
    copy = np.empty_like(dx)

    took = least_of(lambda: cudml.average_pooling_grad(plane, dx.shape, 128, strides, out=dx))
    assert took < 60 * least_of(lambda: np.copyto(copy, dx))


def test_unpooling_into_one_plane_costs_little() -> None:
    """Beside as many elements in several planes, which are cut for themselves."""

    def seconds(shape: tuple[int, ...], layout: Callable[[np.ndarray], np.ndarray]) -> float:
        x = layout(np.random.default_rng(0).standard_normal(shape).astype("float32"))
        y, indices = cudml.max_pooling(x, 2, 2, return_indices=True)
        return least_of(lambda: cudml.max_unpooling(y, indices, shape))

    several = seconds((4, 1, 512, 512), np.ascontiguousarray)
    assert seconds((1, 1, 1024, 1024), np.ascontiguousarray) < 8 * several
    assert seconds((1, 1, 1024, 1024), np.asfortranarray) < 30 * several


@pytest.mark.parametrize("stride", [3, 5, 7])
def test_gradients_of_averages_apart_cost_little(stride: int) -> None:
    """Beside steps of 9 elements, where no phases are put together."""

    def seconds(window: int) -> float:
        n = 24 * window
        grad = np.ones((4, 16, 24, 24), "float32")
        out = np.empty((4, 16, n, n), "float32")
        call = cudml.average_pooling_grad
        return least_of(lambda: call(grad, out.shape, window, window, out=out)) / out.size

    assert seconds(stride) < 2.5 * seconds(9)


def test_import_is_quick() -> None:
    """0.3 s beyond NumPy, the best of three: a check against accidents, not a measurement."""
    says = (
        "import time, numpy\n"
        "start = time.perf_counter()\n"
        "import cudml\n"
        "print(time.perf_counter() - start)\n"
    )
    assert min(float(child_says(says)) for _ in range(3)) < 0.3
