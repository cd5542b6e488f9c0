"""Large inputs are fetched from memory before they are read: never more than there is to read."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import cudml

pytestmark = pytest.mark.core
MANY = 1 << 12  # planes: more bytes than caches are thought to hold
FAR = 1 << 28


def is_quick(call: Callable[[], Any]) -> bool:
    """Whether it takes less than seconds: what there is to do takes milliseconds."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin < 5


@pytest.fixture(autouse=True)
def thread() -> Any:
    before = cudml.get_num_threads()
    cudml.set_num_threads(1)
    yield
    cudml.set_num_threads(before)


def expanded(plane: np.ndarray, order: str) -> np.ndarray:
    """Very many planes that are one, or 32 side by side as channels of many images."""
    if order == "C":
        return np.broadcast_to(plane, (MANY, 1, *plane.shape))
    images = np.repeat(plane[..., None], 32, axis=-1)
    return np.moveaxis(np.broadcast_to(images, (MANY // 32, *images.shape)), -1, 1)


@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("order", ["C", "L"])
def test_windows_that_are_mostly_padding(order: str, step: int, indices: bool) -> None:
    """Of three rows of windows two see a row of x, however far these are from each other."""
    plane = np.arange(64 * 64, dtype="float32").reshape(64, 64)
    x = expanded(plane, order)
    results = []

    def call() -> None:
        results.append(
            cudml.max_pooling(
                x,
                (2, 3),
                strides=(FAR, step),
                dilations=(FAR, 1),
                start_padding=(FAR, 0),
                end_padding=(2 * FAR, 0),
                return_indices=indices,
                index_dtype="int64",
            )
        )

    assert is_quick(call)
    y = results[0][0] if indices else results[0]
    for row in (0, 1):
        np.testing.assert_array_equal(y[-1, -1, row], plane[0, 2::step])
    assert np.isneginf(y[-1, -1, 2]).all()


@pytest.mark.parametrize(
    "window",
    [{"window_size": 3}, {"window_size": 2, "strides": 2}, {"window_size": 5, "strides": 3}],
)
def test_rows_that_stand_far_apart(window: dict[str, Any]) -> None:
    """What stands between them is as large as a memory is."""
    wide = np.zeros((64, 1 << 22), "float32")
    rows = wide[:, :64]
    rows[...] = np.arange(64)
    x = np.broadcast_to(rows, (MANY, 1, 64, 64))
    for pool in (cudml.max_pooling, cudml.average_pooling):
        small = pool(np.ascontiguousarray(x[:1]), **window)
        out = np.empty((MANY, *small.shape[1:]), "float32")
        assert is_quick(partial(pool, x, out=out, **window))
        assert (out == small).all()


def test_pixels_that_stand_far_apart() -> None:
    wide = np.zeros((64, 64, 1 << 16), "float32")
    pixels = wide[..., :32]
    pixels[...] = np.arange(64)[:, None]
    images = np.moveaxis(np.broadcast_to(pixels, (MANY // 32, *pixels.shape)), -1, 1)
    for window in (2, 3):
        y = cudml.max_pooling(np.ascontiguousarray(images[:1]), window, strides=2)
        out = np.empty((MANY // 32, *y.shape[1:]), "float32")
        assert is_quick(partial(cudml.max_pooling, images, window, strides=2, out=out))
        assert (out == y).all()
