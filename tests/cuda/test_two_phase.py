"""Statistics and normalization with given ones on a GPU: which kernel, and only just not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backends
import cudml
import harness
from layouts import channels_last_order, ordered
from mvn_support import bits

GPU = "sm_90"
APART = "rows apart"


def placed(shape: tuple[int, ...], dtype: str, order: str) -> np.ndarray:
    """An array whose pages are never touched."""
    if order == APART:
        return np.empty((*shape[:-1], shape[-1] + 1), dtype)[..., :-1]
    if order == "L":
        axes = channels_last_order(len(shape))
        return np.empty([shape[a] for a in axes], dtype).transpose(np.argsort(axes))
    return np.empty(shape, dtype)


# dtype, shape, order, axes: kernel
STATISTICS: tuple[tuple[str, tuple[int, ...], str, Any, str], ...] = (
    ("float16", (9, 2055), "C", 1, "statistics_rows"),
    ("float16", (9, 2056), "C", 1, "statistics_split"),
    ("float32", (9, 1027), "C", 1, "statistics_rows"),
    ("float32", (9, 1028), "C", 1, "statistics_split"),
    ("float64", (9, 100), "C", 1, "statistics_split"),
    ("float16", (32, 64, 112, 112), "C", (0, 2, 3), "statistics_split"),
    ("float16", (32, 64, 112, 112), "L", (0, 2, 3), "statistics_columns"),
    ("float32", (9, 3, 8, 8), "C", (0, 2, 3), "statistics_rows"),  # pieces of two lines
    ("float32", (40, 3, 8, 8), "C", (0, 2, 3), "statistics_columns"),
    ("float32", (40, 3, 5, 13), "C", (0, 2, 3), "statistics_split"),
    ("float64", (40, 3), "C", 0, "statistics_split"),
    ("float32", (9, 0), "C", 1, "statistics_generic"),
)


@pytest.mark.parametrize("case", STATISTICS, ids=str)
def test_the_kernel_of_statistics(case: tuple[Any, ...]) -> None:
    dtype, shape, order, axes, kernel = case
    x = placed(shape, dtype, order)
    assert cudml.explain("normalization_statistics", x, axes=axes, device=GPU).kernel == kernel


# dtype, shape, order, sizes of mean, of scale: kernel
GIVEN: tuple[tuple[str, tuple[int, ...], str, tuple[int, ...], Any, str], ...] = (
    ("float16", (32, 64, 112, 112), "C", (1, 64, 1, 1), (1, 64, 1, 1), "normalize_runs"),
    ("float16", (32, 64, 112, 112), "L", (1, 64, 1, 1), (1, 64, 1, 1), "normalize_columns"),
    ("float64", (32, 64, 112, 112), "C", (1, 64, 1, 1), None, "normalize_split"),
    ("float16", (4, 3, 4, 4), "C", (1, 3, 1, 1), None, "normalize_runs"),
    ("float16", (4, 3, 3, 5), "C", (1, 3, 1, 1), None, "normalize_columns"),  # 15 neighbours
    ("float16", (5, 1024), APART, (1, 1), None, "normalize_runs"),
    ("float16", (5, 1023), APART, (1, 1), None, "normalize_split"),
    ("float16", (5, 1024), "C", (5, 1), (1, 1024), "normalize_split"),
    ("float16", (5, 1023), "C", (5, 1), (1, 1023), "normalize_generic"),
    ("float16", (40, 3), "C", (40, 3), None, "normalize_generic"),
    ("float64", (40, 3), "C", (1, 3), None, "normalize_generic"),
)


@pytest.mark.parametrize("case", GIVEN, ids=str)
def test_the_kernel_that_normalizes(case: tuple[Any, ...]) -> None:
    dtype, shape, order, group, parameter, kernel = case
    x, mean = placed(shape, dtype, order), np.zeros(group)
    scale = None if parameter is None else np.ones(parameter, dtype)
    found = cudml.explain(
        "normalize", x, mean, mean, scale, out=placed(shape, dtype, order), device=GPU
    )
    assert found.kernel == kernel


@pytest.mark.small
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_runs_begin_anywhere(dtype: str) -> None:
    """x and the result at any distance from an aligned address, the same one or not."""
    shape, group = (3, 7, 5, 9), (1, 7, 1, 1)
    x = harness.data(shape, dtype, 1)
    mean, variance = harness.data(group, "float64", 2), np.abs(harness.data(group, "float64", 3))
    scale = harness.data(group, dtype, 4)
    device = backends.current()
    given = [device.to(a) for a in (mean, variance, scale)]
    found = []
    for first, behind in ((0, 0), (1, 1), (3, 3), (7, 7), (0, 1), (5, 2)):
        places = [ordered(x, [0, 1, 2, 3], at * x.itemsize) for at in (first, behind)]
        sent, out = (device.to(place) for place in places)
        device.call("normalize", sent, *given, out=out, activation="relu")
        found.append(bits(device.back(out)))
    assert all((y == found[0]).all() for y in found)
