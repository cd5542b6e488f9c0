"""The max gradient of 3 x 3 windows that advance by 1."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import FLOATS, data
from layouts import dtype_of
from tests.pool.test_grad_blocks import lanes_last, of_max

PATHS = ("pool_grad/max_steps", "pool_grad/turned")  # the latter by way of the former
VALUES = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)

# Rows shorter and longer than a vector; planes that one line holds, and more; rows and columns in
# more blocks than one; so many planes side by side that a pixel is cut.
SHAPES = (
    (2, 3, 9, 17), (1, 2, 3, 1), (1, 1, 5, 131), (3, 7, 40, 33), (1, 2, 300, 9), (1, 3, 4, 1501),
    (2, 40, 11, 12), (1, 7, 150, 63), (1, 700, 6, 19), (1, 9000, 2, 11), (2, 35, 64, 70),
)  # fmt: skip
PADS = ((1, 1), (0, 0), ((2, 1), (0, 2)), ((0, 2), (1, 0)))


def with_gaps(shape: tuple[int, ...], dtype: np.dtype, is_last: bool) -> np.ndarray:
    """An array whose rows, or pixels, have others' elements between them."""
    n, c, h, w = shape
    if is_last:
        return lanes_last(np.full((n, c + 3, h, w), 7, dtype))[:, 1:-2]
    return np.full((n, c, h, w + 3), 7, dtype)[..., 1:-2]


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_last", [False, True])
def test_winners(dtype: str, is_last: bool) -> None:
    chosen = np.random.default_rng(is_last)
    ordered = lanes_last if is_last else np.copy
    for shape, (start, end) in product(SHAPES, PADS):
        geometry = {"window_size": 3, "start_padding": start, "end_padding": end}
        if min(np.array(shape[2:]) + start + end) < 3:
            continue
        x = chosen.choice(VALUES, shape).astype(dtype_of(dtype))
        x[:, ::2] = -np.inf  # which every tap ties for
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
        want = of_max(x, grad, geometry)
        e = cudml.explain("max_pooling_grad", ordered(x), ordered(grad), **geometry, device="cpu")
        is_lacking = "needs that the processor has AVX" in e.reason
        # The step along an axis of one element is anything.
        assert is_lacking or e.kernel in PATHS or min(*shape[2:], *grad.shape[2:]) == 1, e
        apart, out = (with_gaps(shape, x.dtype, is_last) for _ in range(2))
        apart[...] = x
        for array, to in ((ordered(x), None), (apart, out)):
            got = cudml.max_pooling_grad(array, ordered(grad), **geometry, out=to)
            assert np.array_equal(got.astype(np.float64), want), (shape, start, end)
        whole = out.base
        while whole.base is not None:
            whole = whole.base
        assert np.count_nonzero(whole == 7) >= whole.size - out.size, shape


MANY = """
from tests.pool import test_grad_steps
test_grad_steps.run_many()
print("done")
"""


def run_many() -> None:
    """Several threads, which share rows and planes."""
    geometry = {"window_size": 3, "start_padding": 1, "end_padding": 1}
    for shape, ordered in product(((1, 3, 400, 70), (4, 40, 33, 64)), (np.copy, lanes_last)):
        x = data(shape, "float32", 1, "exact")
        grad = data(shape, "float32", 2, "exact")
        got = cudml.max_pooling_grad(ordered(x), ordered(grad), **geometry)
        assert np.array_equal(got, of_max(x, grad, geometry)), shape


@pytest.mark.core
def test_many_threads() -> None:
    assert child_says(MANY, CUDML_NUM_THREADS="3") == "done"
