"""Calls that move 8 MB or more keep every thread busy, whatever the shape.

This measures processor time, so it is a command of its own and wants an idle machine:
`pytest tests/campaign/both_threads.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import cudml

MEGABYTES_8 = 8_000_000
pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one CPU has nothing to share",
)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    cudml.set_num_threads(2)
    yield
    cudml.set_num_threads(before)


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


def channels_last(*shape: int) -> np.ndarray:
    return np.moveaxis(ones(shape[0], *shape[2:], shape[1]), -1, 1)


def pool(op: str, *args: Any, **kwargs: Any) -> Callable[[np.ndarray], Any]:
    return lambda x: getattr(cudml, op)(x, *args, **kwargs)


def normalize(axes: Any, **kwargs: Any) -> Callable[[np.ndarray], Any]:
    return lambda x: cudml.mean_variance_normalization(x, axes=axes, out=x, **kwargs)


CASES: dict[str, tuple[Callable[[], np.ndarray], Callable[[np.ndarray], Any]]] = {
    "maximum, one plane": (lambda: ones(1, 1, 1500, 1500), pool("max_pooling", 3, 2)),
    "maximum with indices, one plane": (
        lambda: ones(1, 1, 1500, 1500),
        pool("max_pooling", 3, 2, return_indices=True),
    ),
    "maximum of everything": (
        lambda: ones(1, 1, 3000, 3000, dtype="uint8"),
        pool("max_pooling", 3000),
    ),
    "average, one row": (lambda: ones(1, 1, 1_200_000), pool("average_pooling", 3)),
    "average of everything": (lambda: ones(1, 1, 1500, 1500), pool("average_pooling", 1500)),
    "average of planes of 2": (lambda: ones(1_100_000, 1, 1, 2), pool("average_pooling", (1, 2))),
    "average, channels last": (
        lambda: channels_last(1, 40, 240, 250),
        pool("average_pooling", (2, 3), 2),
    ),
    "L3 of a volume": (lambda: ones(1, 1, 130, 130, 140), pool("lp_pooling", 2, 2, p=3)),
    "maximum's gradient, one plane": (
        lambda: ones(1, 1, 1100, 1100),
        lambda x: cudml.max_pooling_grad(x, x[:, :, 1:-1, 1:-1], 3),
    ),
    "average's gradient, one plane": (
        lambda: ones(1, 1, 1200, 1200),
        lambda x: cudml.average_pooling_grad(x[:, :, 1:-1, 1:-1], x.shape, 3),
    ),
    "padding, one row": (
        lambda: ones(1_100_000),
        lambda x: cudml.padding(x, 9, 5, mode="wrap"),
    ),
    "padding of one element": (lambda: ones(1), lambda x: cudml.padding(x, 2**21, 2**20)),
    "padding, short rows": (
        lambda: ones(200_000, 5),
        lambda x: cudml.padding(x, (1, 1), (0, 2), mode="reflection"),
    ),
    "normalization, one group": (lambda: ones(1_100_000), normalize(0)),
    "normalization, three groups": (lambda: ones(3, 400_000), normalize(1)),
    "normalization, groups of 11": (lambda: ones(100_000, 11), normalize(1)),
    "normalization, two columns": (lambda: ones(550_000, 2), normalize(0)),
    "normalization, batch and rows": (lambda: ones(5, 3, 270, 280), normalize((0, 2, 3))),
    "activation alone": (
        lambda: ones(1_100_000),
        normalize(0, use_mean=False, use_variance=False, activation="gelu"),
    ),
}


def moved(x: np.ndarray, result: Any) -> int:
    """Bytes of input and results."""
    return x.nbytes + sum(y.nbytes for y in (result if isinstance(result, tuple) else (result,)))


def seconds_of_threads() -> dict[int, float]:
    """Processor seconds of every thread of this process, by thread identifier."""
    seconds = {}
    for thread in map(int, os.listdir("/proc/self/task")):
        clock = (~thread << 3) | 6  # Linux's name for the processor clock of one thread
        with contextlib.suppress(OSError):  # a thread may just have ended
            seconds[thread] = time.clock_gettime(clock)
    return seconds


def share_of_the_second(call: Callable[[], Any], seconds: float) -> float:
    """Processor time of the second busiest thread relative to the busiest one."""
    before, until = seconds_of_threads(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        call()
    worked = (now - before.get(t, 0) for t, now in seconds_of_threads().items())
    first, second = sorted(worked, reverse=True)[:2]
    return second / first


def work_alone(seconds: float) -> float:
    """Processor seconds that a thread gets of so many; hashing lets others run meanwhile."""
    data, begin, until = bytes(1 << 20), time.thread_time(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        hashlib.sha256(data)
    return time.thread_time() - begin


def has_two_processors() -> bool:
    """Whether two threads that share nothing get most of a processor each."""
    with ThreadPoolExecutor(2) as threads:
        return min(threads.map(work_alone, (0.5, 0.5))) >= 0.75 * 0.5


@pytest.mark.parametrize("case", CASES)
def test_both_threads_work(case: str) -> None:
    """In the best of some runs; one thread has half of the other's time at least. Where other
    processes leave this one no second processor there is nothing to see."""
    make, call = CASES[case]
    x = make()
    assert moved(x, call(x)) >= MEGABYTES_8
    best, until = 0.0, time.perf_counter() + 5
    while best < 0.5 and time.perf_counter() < until:
        best = max(best, share_of_the_second(lambda: call(x), 0.15))
    if best < 0.5 and not has_two_processors():
        pytest.skip("other processes leave no second processor")
    assert best >= 0.5


def test_the_measure_sees_one_thread() -> None:
    cudml.set_num_threads(1)
    make, call = CASES["maximum, one plane"]
    x = make()
    assert share_of_the_second(lambda: call(x), 0.15) < 0.1
