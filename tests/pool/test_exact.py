"""Exact fill: data for which every order of summation gives the same bits, so no tolerance."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import cudml
from harness import FLOATS, data, dtype_of
from pool_support import channels_last

GEOMETRY: dict[str, dict[str, Any]] = {
    "dense": {"window_size": (2, 4)},
    "strided": {"window_size": (4, 2), "strides": (3, 2)},
    "dilated": {"window_size": (2, 4), "dilations": (3, 2)},
    "padded": {"window_size": (4, 4), "start_padding": (1, 3), "end_padding": (2, 0)},
    "everything": {
        "window_size": (4, 2),
        "strides": (2, 3),
        "start_padding": (3, 1),
        "end_padding": (0, 2),
        "dilations": (2, 3),
    },
}


def windows(shape: tuple[int, ...], geometry: dict[str, Any]) -> list[tuple[Any, list[Any]]]:
    """For each output position of a plane: the position and its real taps, counted one by one."""
    n, w = shape[-2:], geometry["window_size"]
    s, d = geometry.get("strides", (1, 1)), geometry.get("dilations", (1, 1))
    p0, p1 = geometry.get("start_padding", (0, 0)), geometry.get("end_padding", (0, 0))
    sizes = [(n[a] + p0[a] + p1[a] - (w[a] - 1) * d[a] - 1) // s[a] + 1 for a in (0, 1)]
    found = []
    for o in product(range(sizes[0]), range(sizes[1])):
        taps = [
            tuple(o[a] * s[a] - p0[a] + k[a] * d[a] for a in (0, 1))
            for k in product(range(w[0]), range(w[1]))
        ]
        found.append((o, [t for t in taps if 0 <= t[0] < n[0] and 0 <= t[1] < n[1]]))
    return found


def filled(shape: tuple[int, ...], geometry: dict[str, Any], dtype: str) -> np.ndarray:
    return data(shape, dtype, seed=sum(map(sum, geometry.values())), kind="exact")


@pytest.mark.small
@pytest.mark.parametrize("case", GEOMETRY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_average_of_integers(case: str, dtype: str) -> None:
    geometry = GEOMETRY[case]
    x = filled((2, 3, 9, 11), geometry, dtype)
    numbers = x.astype(np.int64)
    compute = np.float64 if dtype == "float64" else np.float32
    included = cudml.average_pooling(x, **geometry, include_padding=True)
    excluded = cudml.average_pooling(x, **geometry)
    count = int(np.prod(geometry["window_size"]))
    for (h, w), taps in windows(x.shape, geometry):
        total = sum((numbers[:, :, r, c] for r, c in taps), np.zeros((2, 3), np.int64))
        exact = (total.astype(compute) / compute(count)).astype(x.dtype)
        np.testing.assert_array_equal(included[:, :, h, w], exact)
        exact = (total.astype(compute) / compute(max(len(taps), 1))).astype(x.dtype)
        np.testing.assert_array_equal(excluded[:, :, h, w], exact)


@pytest.mark.small
@pytest.mark.parametrize("case", GEOMETRY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sum_of_absolute_integers(case: str, dtype: str) -> None:
    geometry = GEOMETRY[case]
    x = filled((2, 3, 9, 11), geometry, dtype)
    numbers = np.abs(x.astype(np.int64))
    for layout in (np.ascontiguousarray, channels_last, np.asfortranarray):
        y = cudml.lp_pooling(layout(x), **geometry, p=1)
        for (h, w), taps in windows(x.shape, geometry):
            total = sum((numbers[:, :, r, c] for r, c in taps), np.zeros((2, 3), np.int64))
            np.testing.assert_array_equal(y[:, :, h, w].astype(np.int64), total)


TUPLES = {
    (3, 4): 5,
    (2, 3, 6): 7,
    (1, 4, 8): 9,
    (4, 4, 7): 9,
    (2, 6, 9): 11,
    (8, 15): 17,
    (1, 2, 2): 3,
    (1, 1, 1, 1): 2,
    (1, 3, 3, 9): 10,
    (20, 21): 29,
    (240, 161): 289,
}


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("numbers", TUPLES, ids=str)
def test_pythagorean_tuples(numbers: tuple[int, ...], dtype: str) -> None:
    x = np.zeros((2, 2, 6, 6), dtype_of(dtype))
    signs = np.array([1, -1, 1, -1])[: len(numbers)]
    places = [(0, 0), (1, 2), (2, 1), (2, 2)][: len(numbers)]
    for (row, column), value in zip(places, signs * np.array(numbers), strict=True):
        x[:, :, row, column] = value
        x[1, 1, row + 3, column + 3] = value
    for layout in (np.ascontiguousarray, channels_last):
        y = cudml.lp_pooling(layout(x), 3, 3, p=2)
        root = np.float32(TUPLES[numbers]).astype(x.dtype)
        assert np.all(y[:, :, 0, 0] == root) and y[1, 1, 1, 1] == root
        assert np.count_nonzero(y.astype(np.float64)) == 5


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_pythagorean_rows(dtype: str) -> None:
    row = [3, -4, 0, 0, 0, 5, 0, 0, -12, 0, 0, 0, 8, 15]
    y = cudml.lp_pooling(np.array(row, dtype_of(dtype)).reshape(1, 2, 7), 2, p=2)
    assert y.astype(np.int64).tolist() == [[[5, 4, 0, 0, 5, 5], [12, 12, 0, 0, 8, 17]]]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cubes_round_to_the_exact_root(dtype: str) -> None:
    x = np.array([[3, 4, 5], [1, 6, 8], [-6, 8, -10], [0, 0, 7]], dtype_of(dtype))
    y = cudml.lp_pooling(x[None], 3, p=3)
    assert y.astype(np.float64).ravel().tolist() == [6, 9, 12, 7]


@pytest.mark.small
@pytest.mark.parametrize("case", GEOMETRY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_gradient_of_integers(case: str, dtype: str) -> None:
    geometry = GEOMETRY[case]
    x = filled((2, 3, 9, 11), geometry, dtype)
    taps = windows(x.shape, geometry)
    sizes = tuple(np.array(taps[-1][0]) + 1)
    grad = data((2, 3, *sizes), dtype, seed=3, kind="exact")
    expected = np.zeros(x.shape)
    for n, c in product(range(2), range(3)):
        for (h, w), real in taps:
            if real:
                values = [float(x[n, c, r, k]) for r, k in real]
                row, column = real[values.index(max(values))]
                expected[n, c, row, column] += float(grad[n, c, h, w])
    result = cudml.max_pooling_grad(x, grad, **geometry)
    np.testing.assert_array_equal(result.astype(np.float64), expected)


@pytest.mark.small
@pytest.mark.parametrize("case", GEOMETRY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_average_gradient_of_integers(case: str, dtype: str) -> None:
    geometry = GEOMETRY[case]
    shape = (2, 3, 9, 11)
    taps = windows(shape, geometry)
    sizes = tuple(np.array(taps[-1][0]) + 1)
    # Multiples of 24: their shares of 8 and 16 taps are exact.
    grad = (data((2, 3, *sizes), dtype, seed=4, kind="exact") * 24).astype(dtype_of(dtype))
    count = int(np.prod(geometry["window_size"]))
    for include in (False, True):
        expected = np.zeros(shape)
        for (h, w), real in taps:
            for row, column in real:
                divisor = count if include else len(real)
                expected[:, :, row, column] += grad[:, :, h, w].astype(np.float64) / divisor
        result = cudml.average_pooling_grad(grad, shape, **geometry, include_padding=include)
        if include or case in ("dense", "strided", "dilated"):
            exact = expected.astype(np.float32).astype(grad.dtype)
            np.testing.assert_array_equal(result, exact)
        else:
            scale = np.abs(expected).max()
            rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 2.0**-22)
            np.testing.assert_allclose(
                result.astype(np.float64), expected, rtol=rounding, atol=scale * 2.0**-20
            )
