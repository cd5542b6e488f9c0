"""The max gradient of 3 x 3 windows that advance by 2, for planes that lie side by side."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import data
from layouts import dtype_of
from tests.pool.test_grad_blocks import lanes_last, of_max

PATH = "pool_grad/max_lane_rows"
VALUES = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
NUMBERS = VALUES[4:]


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("planes", [32, 35, 64, 700])
def test_winners(dtype: str, planes: int) -> None:
    """Values that tie or are in no order, all of them and only where a few NaNs are; rows and
    columns that windows do not reach, and windows without any; planes with gaps between elements,
    and in more blocks of rows than one."""
    chosen = np.random.default_rng(planes)
    sizes = [(1, 1), (2, 5), (7, 8), (12, 13), (41, 6)]
    for (height, width), start, end in product(sizes, [(1, 1), (0, 0), (0, 1)], [0, 1]):
        geometry = {"window_size": 3, "strides": 2, "start_padding": start, "end_padding": end}
        if height + start[0] + end < 3 or width + start[1] + end < 3:
            continue
        shape = (2, planes, height, width)
        few = chosen.choice(NUMBERS, shape)
        few[chosen.random(shape) < 1e-3] = np.nan
        for values in (chosen.choice(VALUES, shape), few, np.full(shape, -np.inf)):
            x = lanes_last(np.repeat(values.astype(dtype_of(dtype)), 2, 1))[:, :planes]
            x[...] = values
            grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
            want = of_max(np.ascontiguousarray(x), grad, geometry)
            wide = lanes_last(np.full((2, planes + 3, height, width), 7, x.dtype))
            e = cudml.explain("max_pooling_grad", x, lanes_last(grad), **geometry, device="cpu")
            is_lacking = f"not {PATH}, which needs that the processor has" in e.reason
            is_lacking |= dtype == "bfloat16"  # which other loops take, as fast
            # Along an axis with one window, taps that are not there are left out.
            assert is_lacking or min(grad.shape[2:]) == 1 or e.kernel == PATH, e
            for out in (None, wide[:, 1:-2]):
                got = cudml.max_pooling_grad(x, lanes_last(grad), **geometry, out=out)
                assert np.array_equal(got.astype(np.float64), want), (shape, geometry)
            assert (wide[:, [0, -2, -1]] == 7).all()


MANY = """
from tests.pool import test_grad_thirds
test_grad_thirds.run_many()
print("done")
"""


def run_many() -> None:
    """Lines of memory that rows share, each with a NaN in it somewhere, on one and two threads."""
    chosen = np.random.default_rng(1)
    geometry = {"window_size": 3, "strides": 2, "start_padding": 1}
    for planes, threads in product((30, 64, 200), (1, 2)):
        cudml.set_num_threads(threads)
        x = chosen.choice(NUMBERS, (2, planes, 40, 14))
        x[chosen.random(x.shape) < 5e-3] = np.nan
        grad = data(cudml.max_pooling(x, **geometry).shape, "float32", 2, "exact")
        want = of_max(x, grad, geometry)
        got = cudml.max_pooling_grad(lanes_last(x), lanes_last(grad), **geometry)
        assert np.array_equal(got, want), planes


@pytest.mark.core
def test_what_is_done_again_is_written_last() -> None:
    assert child_says(MANY, CUDML_STREAM_BYTES="0") == "done"
