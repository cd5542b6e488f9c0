"""Calls on threads with the smallest stacks: what a call needs is memory of the thread's own."""

from __future__ import annotations

import pytest

from array_support import child_says
from folders import ROOT
from tests.cpu.test_isa import LEVELS, needs

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
                yield p.run, {k: a.astype(dtype) if a.dtype.kind == "f" else a
                              for k, a in p.arrays.items()}

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


# Every path of the register, with every element type that takes it.
PATHS = """
import dataclasses, sys, threading
import numpy as np
import cudml
sys.path.append(sys.argv[1])
from array_support import in_order
from harness import with_arrays
from tests.cpu.test_paths import CASES

def made(call):
    given = {k: np.zeros(shape, call.dtypes.get(k, call.dtype)) for k, shape in call.shapes.items()}
    return {k: in_order(a, call.order) if call.order else a for k, a in given.items()}

runs, paths = [], set()
for case in CASES:
    own, size = case.meets.dtype, max(map(np.prod, case.meets.shapes.values()))
    others = ("float32", "float16", "float64", "int32") if size < 10**6 else ()
    for dtype in dict.fromkeys((own, *others)):
        call = dataclasses.replace(case.meets, dtype=dtype)
        try:
            path = call.explained().kernel
        except TypeError:
            continue  # the operator takes no such type
        paths.add(path)
        runs.append((getattr(cudml, call.op), call))

def work():
    for op, call in runs:
        print(call, flush=True)  # the last line where the stack ends the process
        op(**with_arrays(call.arguments, made(call)))
    print('ok', len(paths), len(runs))

cudml.set_num_threads(1)  # the thread with the small stack does it all
threading.stack_size(64 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.long
@pytest.mark.bug("RUN-17")
@pytest.mark.parametrize("level", LEVELS)
def test_every_path_on_a_small_stack(level: str) -> None:
    needs(level)
    said = child_says(PATHS, str(ROOT), limit=180, CUDML_CPU_ISA=level).splitlines()[-1].split()
    assert said[0] == "ok" and int(said[1]) >= 10 and int(said[2]) >= 40, said


APART = """
import threading
import numpy as np
import cudml

def work():
    for dtype in ("float16", "float32", "float64"):
        x = np.ones((1, 2, 60, 140), dtype)[..., ::2]
        for window, strides in (((3, 3), 5), ((50, 3), 5), ((1, 70), 1)):
            cudml.average_pooling(x, window, strides)
            for p in (2, 3):
                cudml.lp_pooling(x, window, strides, p=p)
    print('ok')

cudml.set_num_threads(1)
threading.stack_size(56 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.bug("RUN-17")
@pytest.mark.parametrize("level", LEVELS)
def test_columns_apart_on_a_small_stack(level: str) -> None:
    """Their taps are put together first, in memory of the thread's own."""
    needs(level)
    assert child_says(APART, CUDML_CPU_ISA=level) == "ok"
