"""Every long call ends within 0.2 s of Ctrl-C, whatever its shape, and leaves nothing behind.

This measures time, so it is a command of its own and wants an idle machine with 6 GB of memory:
`pytest tests/campaign/interrupts.py`.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from long_arrays import Call, channels_last, larger, times_larger, zeros
from long_training import TRAINING

import cudml
from leftovers import arrays_in, left_behind

MOMENTS = (0.06, 0.15, 0.4)  # seconds after the call's begin
MOST = 0.2
TIMES = (1, 4, 16)  # as large as said: until a call outlasts the first moment


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = cudml.get_num_threads()
    cudml.set_num_threads(request.param)
    yield request.param
    cudml.set_num_threads(before)


def pool(op: str, x: np.ndarray, window: Any, *args: Any, **kwargs: Any) -> Call:
    return lambda: getattr(cudml, op)(x, window, *args, **kwargs)


def normalize(x: np.ndarray, axes: Any, **kwargs: Any) -> Call:
    out = np.empty_like(x)
    return lambda: cudml.mean_variance_normalization(x, axes=axes, out=out, **kwargs)


def max_grad(shape: tuple[int, ...], window: Any, stride: int, dtype: str = "float32") -> Call:
    x = zeros(*shape, dtype=dtype)
    sizes = np.broadcast_to(window, len(shape) - 2)
    pooled = [(n - w) // stride + 1 for n, w in zip(shape[2:], sizes, strict=True)]
    grad = zeros(*shape[:2], *pooled, dtype=dtype)
    return lambda: cudml.max_pooling_grad(x, grad, window, stride)


def average_grad(shape: tuple[int, ...], window: Any, stride: int, dtype: str = "float32") -> Call:
    sizes = np.broadcast_to(window, len(shape) - 2)
    pooled = [(n - w) // stride + 1 for n, w in zip(shape[2:], sizes, strict=True)]
    grad = zeros(*shape[:2], *pooled, dtype=dtype)
    whole = larger(shape)
    return lambda: cudml.average_pooling_grad(grad, whole, window, stride)


PLANE, ROW = (1, 1, 24_000, 24_000), 400_000_000
WHOLE = (1, 1, 40_000, 40_000)
CASES: dict[str, Callable[[], Call]] = {
    "maximum of a plane": lambda: pool("max_pooling", zeros(*WHOLE), WHOLE[2:]),
    "maximum of bytes": lambda: pool("max_pooling", zeros(1, 1, 1, 4 * ROW, dtype="i1"), (1, ROW)),
    "average of a plane": lambda: pool("average_pooling", zeros(*WHOLE), WHOLE[2:]),
    "norm of a plane": lambda: pool("lp_pooling", zeros(*WHOLE), WHOLE[2:], p=3),
    "norm of overlapping rows": lambda: pool("lp_pooling", zeros(1, 1, 4, 10**6), (4, 10**5)),
    "norm in doubles": lambda: pool("lp_pooling", zeros(1, 1, 9000, 9000, dtype="f8"), 900, p=5),
    "winners of a plane": lambda: pool("max_pooling", zeros(*WHOLE), 40_000, return_indices=True),
    "winners of dilated windows": lambda: pool(
        "max_pooling", zeros(*PLANE), 6000, dilations=3, return_indices=True
    ),
    "maximum of channels": lambda: pool("max_pooling", channels_last(1, 64, 4000, 4000), 4000),
    "average of channels": lambda: pool("average_pooling", channels_last(1, 64, 4000, 4000), 4000),
    "winners of channels": lambda: pool(
        "max_pooling", channels_last(1, 64, 3000, 3000), 3000, return_indices=True
    ),
    "maximum 3x3": lambda: pool("max_pooling", zeros(*PLANE), 3, 2),
    "maximum 31x31": lambda: pool("max_pooling", zeros(*PLANE), 31),
    "volumes": lambda: pool("average_pooling", zeros(1, 1, 1000, 1000, 500), 9, 4),
    "norm 7x7": lambda: pool("lp_pooling", zeros(1, 1, 5000, 5000), 7, p=3),
    "short planes": lambda: pool("max_pooling", zeros(64, 60_000, 14, 14), 3, 2),
    "gradient of short planes": lambda: max_grad((64, 40_000, 7, 7), 3, 2),
    "average gradient of short planes": lambda: average_grad((64, 40_000, 7, 7), 3, 2),
    "gradient of 3x3, one apart": lambda: max_grad((4, 8, 4000, 4000), 3, 1),
    "gradient of few windows": lambda: max_grad((1, 1, 16000, 16000), 8000, 8000),
    "gradient of one row": lambda: max_grad((1, 1, 1, ROW // 2), (1, 2), 2),
    "gradient of long windows": lambda: max_grad((1, 1, 1, 2 * 10**6), (1, 10**6), 1),
    "gradient of 3x3": lambda: max_grad((1, 1, 16000, 16000), 3, 2),
    "average gradient of few windows": lambda: average_grad((1, 1, 20000, 20000), 10000, 10000),
    "average gradient of long windows": lambda: average_grad((1, 1, 1, 10**6), (1, 10**5), 1),
    "average gradient of one row": lambda: average_grad((1, 1, 1, ROW), (1, 2), 2),
    "average gradient of 9x9": lambda: average_grad((1, 1, 9000, 9000), 9, 1, "float64"),
    "one row": lambda: normalize(zeros(ROW), 0),
    "one row of halves": lambda: normalize(zeros(ROW, dtype="float16"), 0),
    "one row of doubles": lambda: normalize(zeros(ROW // 4, dtype="float64"), 0),
    "one row, activated": lambda: normalize(zeros(ROW // 4), 0, activation="tanh"),
    "one column": lambda: normalize(np.zeros((ROW // 16, 16), "float32")[:, ::2], 0),
    "columns": lambda: normalize(zeros(ROW // 8, 8), 0),
    "columns of doubles": lambda: normalize(zeros(ROW // 32, 8, dtype="float64"), 0),
    "a plane": lambda: normalize(zeros(*PLANE, dtype="float16"), (2, 3)),
    "long rows": lambda: normalize(zeros(8, ROW // 8), 1),
    "short rows": lambda: normalize(zeros(ROW // 8, 8), 1),
    "a padded row": lambda: lambda: cudml.padding(zeros(1, 4 * ROW, dtype="int8"), (0, 9), (0, 9)),
    "a turned row": lambda: lambda: cudml.padding(
        zeros(4, ROW, dtype="int8"), (0, ROW - 1), (0, 9), mode="reflection"
    ),
    "a reversed row": lambda: pool(
        "max_pooling", zeros(1, 1, 1, 4 * ROW, dtype="int8")[..., ::-1], (1, ROW)
    ),
    "reversed lines": lambda: normalize(zeros(ROW // 64, 64)[:, ::-1], 1),
    "padded lines": lambda: lambda: cudml.padding(
        zeros(ROW // 64, 64, dtype="int16"), (0, 1), (0, 1), mode="edge"
    ),
    **TRAINING,
}  # fmt: skip


class Interrupted(Exception):
    pass


def delay(call: Call, moment: float) -> float | None:
    """Seconds from the signal to the call's end; None where the call ended before the signal."""
    came: list[float] = []

    def handle(number: int, frame: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    begin = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, moment)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        came.append(time.perf_counter() - begin - moment)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return came[0] if came else None


def long_call(name: str) -> tuple[Call, float]:
    """A call that is at work when the first signal comes, and its delay."""
    for times in TIMES:
        times_larger(times)
        call = CASES[name]()
        if (first := delay(call, MOMENTS[0])) is not None:
            return call, first
    raise AssertionError("too short a call")


@pytest.mark.parametrize("name", CASES)
def test_a_call_ends_soon_after_a_signal(name: str, threads: int) -> None:
    call, first = long_call(name)
    late = [first, *(d for moment in MOMENTS[1:] if (d := delay(call, moment)) is not None)]
    print(name, *(f"{d:.3f}" for d in late))
    assert max(late) < MOST
    small = np.arange(96, dtype="float32").reshape(1, 2, 6, 8)
    assert cudml.max_pooling(small, 2, 2)[0, 1, 2, 3] == 95
    assert not left_behind(lambda: delay(call, MOMENTS[0]), arrays_in(call), 3)
