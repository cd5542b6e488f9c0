"""Pooling where a dimension is degenerate: every pair of such geometries, against the reference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from harness import ALL, check, data

# Size, window, stride, start padding, end padding, dilation: of one element, windows of one, of the
# whole size, strides beyond the window, pads as large as the window and larger.
GEOMETRIES = (
    (1, 1, 2, 1, 0, 1),
    (1, 1, 2, 0, 1, 1),
    (1, 1, 1, 0, 0, 1),
    (1, 1, 3, 2, 2, 1),
    (1, 2, 1, 1, 1, 2),
    (1, 3, 2, 1, 2, 1),
    (4, 4, 1, 0, 0, 1),
    (4, 1, 3, 0, 0, 1),
    (5, 3, 7, 0, 1, 2),
    (9, 9, 2, 1, 0, 1),
    (17, 17, 1, 0, 0, 1),
    (6, 2, 2, 3, 2, 1),
)
OPERATORS: dict[str, dict[str, Any]] = {
    "max_pooling": {},
    "average_pooling": {"include_padding": True},
    "lp_pooling": {"p": 3},
}
NAMES = ("window_size", "strides", "start_padding", "end_padding", "dilations")


def geometry(axes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Sizes and arguments of pooling along these dimensions."""
    sizes, *columns = zip(*axes, strict=True)
    return sizes, dict(zip(NAMES, columns, strict=True))


@pytest.mark.small
@pytest.mark.decision("D-MAX-4", "D-AVG-3", "D-LP-5", "D-POOL-6")
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_degenerate_dimensions(op: str, dtype: str) -> None:
    for i, axes in enumerate(itertools.product(GEOMETRIES, repeat=2)):
        sizes, how = geometry(axes)
        x = data((2, 3, *sizes), dtype, i)
        check(op, x, **how, **OPERATORS[op], layouts=[ALL[i % len(ALL)]], seed=i)


@pytest.mark.small
@pytest.mark.parametrize("op", OPERATORS)
def test_degenerate_dimensions_of_volumes(op: str) -> None:
    draw = np.random.default_rng(5)
    for i in range(120):
        axes = tuple(GEOMETRIES[k] for k in draw.integers(len(GEOMETRIES), size=3))
        sizes, how = geometry(axes)
        x = data((2, 3, *sizes), "float32", i)
        check(op, x, **how, **OPERATORS[op], layouts=[ALL[i % len(ALL)]], seed=i)


@pytest.mark.small
def test_a_window_beside_the_only_element() -> None:
    """The plane's only row is covered whole, and the window stands before it: nothing is real."""
    x = np.ones((1, 1, 1, 4), "float32")
    for op in OPERATORS:
        check(op, x, window_size=(1, 4), strides=(2, 1), start_padding=(1, 0), **OPERATORS[op])
