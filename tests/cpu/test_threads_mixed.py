"""Mixed calls of eight threads with shared operators and plans, and the interpreter lock."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, bits, in_order, make
from directml_support import operator, tensor
from exporters import Exporter
from harness import data

THREADS, CALLS = 8, 500
SHAPES = [(2, 3, 5, 7), (1, 2, 9, 33), (3, 1, 6, 4), (1, 4, 40, 61)]
Call = Callable[[np.random.Generator], list[Any]]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def convenience(label: str, shape: tuple[int, ...]) -> list[Call]:
    """The same plan with fresh results, with outputs of the thread's own, and of another order."""
    p = make(label, shape)
    nhwc = {k: in_order(a, (0, 2, 3, 1)) for k, a in p.arrays.items()}

    def into(rng: np.random.Generator) -> list[Any]:
        outputs = p.outputs()
        p.into(outputs)
        return outputs

    def lent(rng: np.random.Generator) -> list[Any]:
        first = Exporter(p.arrays[p.first])
        outputs = p.outputs()
        p.into(outputs, **{p.first: first})
        assert first.is_settled()
        return outputs

    return [lambda rng: p.run(), into, lambda rng: p.run(**nhwc), lent]


def compiled() -> list[Call]:
    """One operator each for all threads, with its own workspace and with the thread's."""
    sizes, pooled = [2, 3, 20, 31], [2, 3, 19, 30]
    changes: dict[str, dict[str, Any]] = {
        "MaxPooling2": {"OutputIndicesTensor": tensor(pooled, "UINT64")},
        "AveragePooling1": {},
        "LpPooling1": {},
        "MaxPoolingGrad": {},
        "AveragePoolingGrad": {},
        "MeanVarianceNormalization2": {"Axes": [1, 3]},
    }
    calls: list[Call] = []
    for name, fields in changes.items():
        x, y = tensor(sizes), tensor(pooled)
        if name.endswith("Grad"):
            fields |= {"InputGradientTensor": y, "OutputGradientTensor": x}
        else:
            is_pooling = "Pooling" in name
            fields |= {"InputTensor": x, "OutputTensor": y if is_pooling else x}
        if name == "MaxPoolingGrad":
            fields["InputTensor"] = x
        run = operator(name, **fields).compile("cpu")
        arrays = [data(sizes, "float32", 1)] if name != "AveragePoolingGrad" else []
        arrays += [data(pooled, "float32", 2)] if name.endswith("Grad") else []
        calls += compiled_calls(run, arrays)
    return calls


def compiled_calls(run: Any, arrays: list[np.ndarray]) -> list[Call]:
    def fresh(rng: np.random.Generator) -> list[Any]:
        result = run(*arrays)
        return list(result) if isinstance(result, tuple) else [result]

    def into(rng: np.random.Generator) -> list[Any]:
        outputs = [np.full_like(y, 7) for y in fresh(rng)]
        memory = bytearray(run.workspace_bytes) if rng.integers(2) else None
        run(*arrays, out=outputs[0] if len(outputs) == 1 else outputs, workspace=memory)
        return outputs

    return [fresh, into]


def all_calls() -> list[Call]:
    found = [c for label in LABELS for shape in SHAPES for c in convenience(label, shape)]
    return found + compiled()


def refused(rng: np.random.Generator) -> None:
    """Calls that fail in between, before and after a plan was looked up."""
    x = data((1, 1, 4, 4), "float32")
    kind = int(rng.integers(3))
    with pytest.raises((ValueError, TypeError)):
        if kind == 0:
            cudml.max_pooling(x, 9)
        elif kind == 1:
            cudml.max_pooling(x, 2, out=np.zeros((1, 1, 2, 2), "f4"))
        else:
            cudml.max_pooling(x, 2, out=np.zeros((1, 1, 3, 3), "f8"))


def run_threads(work: Callable[[int], None], others: list[Callable[[], None]]) -> None:
    """`work` in each thread, and what goes on beside it until the last one is done."""
    failures: list[BaseException] = []
    stop = threading.Event()
    barrier = threading.Barrier(THREADS)

    def guarded(seed: int) -> None:
        try:
            barrier.wait()
            work(seed)
        except BaseException as error:
            failures.append(error)

    def repeated(act: Callable[[], None]) -> None:
        while not stop.is_set():
            act()
            stop.wait(0.0005)

    beside = [threading.Thread(target=repeated, args=(act,)) for act in others]
    threads = [threading.Thread(target=guarded, args=(s,)) for s in range(THREADS)]
    for t in [*beside, *threads]:
        t.start()
    for t in threads:
        t.join()
    stop.set()
    for t in beside:
        t.join()
    if failures:
        raise failures[0]


def mixed_calls(others: list[Callable[[], None]]) -> None:
    calls = all_calls()
    serial = np.random.default_rng(0)
    want = [[bits(y) for y in call(serial)] for call in calls]

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for n, k in enumerate(rng.integers(0, len(calls), CALLS)):
            assert [bits(y) for y in calls[k](rng)] == want[k], k
            if n % 9 == 0:
                refused(rng)

    run_threads(work, others)


@pytest.mark.bug("RUN-01")
def test_mixed_calls() -> None:
    mixed_calls([])


@pytest.mark.bug("RUN-01")
def test_mixed_calls_while_the_plans_are_forgotten() -> None:
    """Plans in use outlive their place in the cache; counts and threads change meanwhile."""
    turns = iter(range(10**9))
    mixed_calls(
        [
            cudml.clear_cache,
            lambda: cudml.set_num_threads(1 + next(turns) % 3),
            lambda: check_info(cudml.cache_info()),
        ]
    )
    assert cudml.cache_info().currsize <= cudml.cache_info().maxsize


def check_info(info: Any) -> None:
    assert info.hits >= 0 and info.misses >= 0 and 0 <= info.currsize <= info.maxsize


def test_one_plan_for_all_threads_at_first_sight() -> None:
    """Every thread asks for the same new plan at once."""
    cudml.clear_cache()
    for n in range(40):
        x = data((1, 2, 5 + n % 7, 6 + n), "float32", n)
        seen: list[bytes] = []

        def work(seed: int, x: np.ndarray = x, seen: list[bytes] = seen) -> None:
            seen.append(bits(cudml.max_pooling(x, 2)))

        run_threads(work, [])
        assert seen == [bits(cudml.max_pooling(x, 2))] * THREADS


def test_short_calls_keep_the_interpreter_lock_and_long_ones_release_it() -> None:
    """While nobody is made to yield, another thread moves on only where a call lets it."""
    moves, stop = [0], threading.Event()

    def move() -> None:
        while not stop.is_set():
            moves[0] += 1
            time.sleep(0)  # offers the lock and asks for it again

    short, long = np.ones((1, 2, 4, 4), np.float32), np.ones((4, 8, 512, 512), np.float32)
    calls = {
        "pool": lambda x: cudml.max_pooling(x, 2),
        "pad": lambda x: cudml.padding(x, 1, 1),
        "normalize": lambda x: cudml.mean_variance_normalization(x, axes=3),
    }
    thread, interval = threading.Thread(target=move), sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000)
        for name, call in calls.items():
            before = moves[0]
            for _ in range(200):
                call(short)
            assert moves[0] - before <= 1, f"{name}: short calls release the lock"
            before, until = moves[0], time.monotonic() + 5
            while moves[0] == before and time.monotonic() < until:
                call(long)  # the other thread may wait for a busy core
            assert moves[0] > before, f"{name}: a long call keeps the lock"
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()
