"""Calls on threads with the smallest stacks: what a call needs is memory of the thread's own."""

from __future__ import annotations

import pytest

from array_support import child_says

CALLS = """
import threading
import numpy as np
import cudml
from array_support import LABELS, in_order, make

SHAPES = [(2, 3, 5, 7), (1, 70, 40, 33), (1, 2, 200, 301), (1, 1, 3, 70001), (70, 2, 16, 16)]
ORDERS = [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)]

def some():
    for label in LABELS:
        for shape in SHAPES:
            p = make(label, shape)
            for order in ORDERS:
                yield p.run, {k: in_order(a, order) for k, a in p.arrays.items()}
            for dtype in ("float16", "float64"):
                yield p.run, {k: a.astype(dtype) for k, a in p.arrays.items()}

def normalized(shape, axes, dtype, **more):
    x = np.ones(shape, dtype)
    return lambda: cudml.mean_variance_normalization(x, axes=axes, **more), {}

def pooled(op, shape, window, dtype, **more):
    x = np.ones(shape, dtype)
    return lambda: getattr(cudml, op)(x, window, **more), {}

def averaged(shape, window):
    grad = np.ones([n - w + 1 for n, w in zip(shape, window)], "float32")
    return lambda: cudml.average_pooling_grad(grad, shape, window[2:]), {}

calls = list(some())
for dtype in ("float16", "float32", "float64"):
    for shape, axes in [((64, 768), 1), ((40, 5000), 1), ((3000, 40), 0), ((9, 200, 3), (0, 2)),
                        ((700, 7), 1), ((2, 300000), 1), ((300000, 2), 0)]:
        scale = np.ones([n if d in np.atleast_1d(axes) else 1 for d, n in enumerate(shape)], dtype)
        calls.append(normalized(shape, axes, dtype))
        calls.append(normalized(shape, axes, dtype, scale=scale, bias=scale, activation="tanh"))
    for op in ("max_pooling", "average_pooling", "lp_pooling"):
        for shape, window in [((1, 1, 300, 300), 3), ((1, 1, 300, 300), 100),
                              ((1, 1, 300, 300), 300), ((2, 64, 60, 60), 60),
                              ((1, 9, 20, 20, 20), 3)]:
            calls.append(pooled(op, shape, window, dtype))
            if op == "max_pooling":
                calls.append(pooled(op, shape, window, dtype, return_indices=True))
                calls.append(pooled(op, shape, 2, dtype, dilations=3, return_indices=True))
calls += [averaged((1, 1, 90, 5000), (1, 1, 5, 70)), averaged((1, 2, 4, 9000), (1, 1, 2, 3000))]

def work():
    for call, arrays in calls:
        call(**arrays)
    print('ok')

cudml.set_num_threads({threads})
threading.stack_size({stack})
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.bug("RUN-17")
@pytest.mark.parametrize("threads", [1, 2])
def test_small_stacks(threads: int) -> None:
    """64 KiB, of which the interpreter takes about half."""
    script = CALLS.replace("{threads}", str(threads)).replace("{stack}", str(64 * 1024))
    assert child_says(script) == "ok"
