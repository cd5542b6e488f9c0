"""Empty batches and kept dimensions give empty results; other empty dimensions are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from backends import current

# Operator, its arguments from arrays of these sizes, and the sizes of the result.
Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]


def zeros(*sizes: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(sizes, dtype)


def cases(n: int, c: int, dtype: str) -> list[Case]:
    x, g = zeros(n, c, 6, 7, dtype=dtype), zeros(n, c, 3, 3, dtype=dtype)
    pooled = (n, c, 3, 3)
    return [
        ("max_pooling", (x, 2, 2), {}, pooled),
        ("max_pooling", (x, (6, 7)), {}, (n, c, 1, 1)),
        ("average_pooling", (x, 2, 2), {}, pooled),
        ("lp_pooling", (x, 2, 2), {}, pooled),
        ("max_pooling_grad", (x, g, 2, 2), {}, x.shape),
        ("max_pooling_grad", (x, zeros(n, c, 4, 5, dtype=dtype), 3), {}, x.shape),
        ("average_pooling_grad", (g, x.shape, 2, 2), {}, x.shape),
        ("average_pooling_grad", (zeros(n, c, 4, 5, dtype=dtype), x.shape, 3), {}, x.shape),
        ("padding", (x, (0, 0, 1, 2), (0, 0, 3, 0)), {"mode": "edge"}, (n, c, 10, 9)),
        ("mean_variance_normalization", (x,), {"axes": (2, 3)}, x.shape),
        ("mean_variance_normalization", (x,), {"axes": (3,), "activation": "relu"}, x.shape),
    ]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (0, 0)])
def test_empty_batches(sizes: tuple[int, int], dtype: str) -> None:
    backend = current()
    for op, args, how, shape in cases(*sizes, dtype):
        moved = [backend.to(a) if isinstance(a, np.ndarray) else a for a in args]
        y = backend.call(op, *moved, **how)
        assert tuple(y.shape) == shape, op


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("op", ["max_pooling", "average_pooling", "lp_pooling"])
@pytest.mark.parametrize("sizes", [(2, 3, 0, 5), (2, 3, 5, 0)])
def test_empty_spatial_dimensions_are_refused(op: str, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=op):
        getattr(cudml, op)(zeros(*sizes), 1, start_padding=1)


@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
def test_other_empty_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="padding"):
        cudml.padding(zeros(2, 0), (0, 1), (0, 0), mode="edge")
    with pytest.raises(ValueError, match="mean_variance_normalization"):
        cudml.mean_variance_normalization(zeros(2, 0, 3), axes=(1,))
    with pytest.raises(ValueError, match="average_pooling_grad"):
        cudml.average_pooling_grad(zeros(1, 2, 1), (1, 2, 0), 1)
