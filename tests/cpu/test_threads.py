"""Threads: equal results on any number of them, calls from many at once, a free interpreter."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, bits, child, child_says, every_operator, in_order, make, same
from folders import ROOT
from harness import data, named, refused

SAYS = "import cudml; print(cudml.get_num_threads())"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def large(label: str, nhwc: bool) -> Callable[[], list[np.ndarray]]:
    """A call that moves more than 8 MB, with sizes that no thread count divides."""
    p = make(label, (3, 7, 211, 241))
    order = (0, 2, 3, 1) if nhwc else (0, 1, 2, 3)
    arrays = {k: in_order(a, order) for k, a in p.arrays.items()}
    return lambda: p.run(**arrays)


@every_operator
@pytest.mark.parametrize("nhwc", [False, True], ids=["NCHW", "NHWC"])
def test_results_do_not_depend_on_the_number_of_threads(label: str, nhwc: bool) -> None:
    call = large(label, nhwc)
    cudml.set_num_threads(1)
    want = call()
    for n in (2, 3, 7):
        cudml.set_num_threads(n)
        assert same(call(), want), n


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1, 2**21 + 3), 1), ((2**21 + 3, 1), 0), ((5, 400001), 1), ((400001, 5), 0),
     ((70000, 33), 1), ((3, 700000), 0), ((2**21,), 0), ((7, 300, 1001), (0, 2))],
)  # fmt: skip
def test_normalization_of_any_shape_on_any_number_of_threads(shape: Any, axes: Any) -> None:
    """One group over all threads, few long groups, many short ones, and along columns."""
    x = data(shape, "float32", 5)
    cudml.set_num_threads(1)
    want = cudml.mean_variance_normalization(x, axes=axes)
    for n in (2, 3, 7):
        cudml.set_num_threads(n)
        assert same([cudml.mean_variance_normalization(x, axes=axes)], [want]), n
    rows = want.astype(np.float64)
    assert np.abs(rows.mean(axes)).max() < 1e-5


@pytest.mark.parametrize("shape", [(1, 1, 1499, 1601), (1, 2200, 32, 33), (1, 1, 3, 800001)])
def test_pooling_and_padding_of_any_shape_on_any_number_of_threads(shape: Any) -> None:
    for label in [name for name in LABELS if not name.startswith("mean")]:
        p = make(label, shape)
        cudml.set_num_threads(1)
        want = p.run()
        for n in (2, 5):
            cudml.set_num_threads(n)
            assert same(p.run(), want), (label, n)


@pytest.mark.core
@pytest.mark.bug("RUN-01")
def test_eight_threads_of_mixed_calls_equal_serial_ones() -> None:
    """500 calls in each, small and large, all operators at once, some of them refused."""
    calls = [make(label, shape) for label in LABELS for shape in [(2, 3, 5, 7), (1, 2, 9, 33)]]
    calls += [make(label, (1, 4, 90, 131)) for label in LABELS]
    want = [[bits(y) for y in p.run()] for p in calls]
    failures: list[Any] = []
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        barrier.wait()
        for k in rng.integers(0, len(calls), 500):
            if [bits(y) for y in calls[k].run()] != want[k]:
                failures.append(calls[k].op)
            if k % 7 == 0:
                with pytest.raises(TypeError):
                    cudml.max_pooling(None, 2)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.bug("RUN-01")
def test_the_number_of_threads_may_change_during_calls() -> None:
    call = large("max_pooling", False)
    want = call()
    stop = threading.Event()

    def turn() -> None:
        n = 0
        while not stop.is_set():
            n = n % 5 + 1
            cudml.set_num_threads(n)

    turner = threading.Thread(target=turn)
    turner.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(lambda _: call(), range(30)))
    finally:
        stop.set()
        turner.join()
    assert all(same(y, want) for y in results)


@pytest.mark.bug("RUN-02")
@every_operator
def test_other_threads_run_during_a_call(label: str) -> None:
    """A call made about 60 ms long, on one thread; meanwhile this one counts."""
    cudml.set_num_threads(1)
    batch = 1
    while True:
        p = make(label, (2, 3, 64, 65))
        moved = {k: np.repeat(a, batch if len(a) > 1 else 1, 0) for k, a in p.arrays.items()}
        args = p.args
        if label == "average_pooling_grad":
            args = ((2 * batch, 3, 64, 65), *p.args[1:])
        if label == "padding_grad":
            padded = next(iter(moved.values())).shape[0]
            args = ((padded - 1, 3, 64, 65), *p.args[1:])
        if label == "max_unpooling":
            args = ((2 * batch, *p.args[0][1:]), *p.args[1:])
        operator = getattr(cudml, p.op)
        call = lambda m=moved, a=args, f=operator, k=p.kwargs: f(*m.values(), *a, **k)  # noqa: E731
        call()
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        if took > 0.06 or batch > 2000:
            break
        batch = max(batch + 1, min(batch * 8, int(batch * 0.08 / took)))
    assert progress_during(call) > 5, f"{took * 1e3:.0f} ms"


def progress_during(call: Callable[[], Any]) -> int:
    """How many times this thread woke up between the start and the end of the call."""
    for _ in range(5):
        times: list[float] = []

        def work(times: list[float] = times) -> None:
            times.append(time.perf_counter())
            call()
            times.append(time.perf_counter())

        worker = threading.Thread(target=work)
        ticks: list[float] = []
        worker.start()
        while worker.is_alive():
            time.sleep(0.0005)
            ticks.append(time.perf_counter())
        worker.join()
        count = sum(times[0] < t < times[1] for t in ticks)
        if count > 5:
            return count
    return count


@pytest.mark.bug("RUN-11")
@every_operator
def test_floating_point_state_is_left_alone(label: str) -> None:
    """Rounding mode and subnormals, in the caller's thread and in another; MXCSR and x87 word."""
    libm = ctypes.CDLL("libm.so.6")

    def control() -> tuple[int, bytes, bool]:
        environment = ctypes.create_string_buffer(64)
        libm.fegetenv(environment)
        state = environment.raw
        mxcsr = int.from_bytes(state[28:32], "little") & 0xFFC0  # without the sticky flags
        return libm.fegetround(), state[:2] + mxcsr.to_bytes(4, "little"), tiny()

    def tiny() -> bool:
        smallest = np.array([5e-324, 1e-310])
        return bool((smallest > 0).all() and (smallest * 0.5 >= 0).all() and 5e-324 > 0)

    p = make(label, (2, 3, 40, 70))
    before = control()
    assert before[2]
    for n in (1, 3):
        cudml.set_num_threads(n)
        p.run()
        assert control() == before
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(control).result()
        pool.submit(p.run).result()
        assert pool.submit(control).result() == first


@pytest.mark.parametrize("n", [1, 2, 5, 64, 1024])
def test_setting_the_number_of_threads(n: int) -> None:
    cudml.set_num_threads(n)
    assert cudml.get_num_threads() == n
    assert not make("max_pooling").problem(make("max_pooling").run())
    cudml.set_num_threads(np.int8(min(n, 100)))
    assert cudml.get_num_threads() == min(n, 100)


@pytest.mark.parametrize("n", [0, -1, -(2**31), -(2**63), 2**31, 2**32, 2**64, 10**30])
def test_numbers_of_threads_out_of_range(n: int) -> None:
    before = cudml.get_num_threads()
    with refused(ValueError, "set_num_threads", str(n)):
        cudml.set_num_threads(n)
    assert cudml.get_num_threads() == before


@pytest.mark.parametrize(
    "n", [True, False, 1.0, "2", None, [2], np.float32(2), object()], ids=named
)
def test_numbers_of_threads_of_the_wrong_kind(n: Any) -> None:
    before = cudml.get_num_threads()
    with refused(TypeError, "set_num_threads"):
        cudml.set_num_threads(n)
    assert cudml.get_num_threads() == before


def test_more_threads_than_processors_work() -> None:
    call = large("padding", False)
    want = call()
    cudml.set_num_threads(64)
    assert same(call(), want)


@pytest.mark.parametrize(
    ("ours", "theirs", "want"),
    [("3", None, "3"), (None, "5", "5"), ("3", "5", "3"), ("1", "5", "1"), ("1024", "1", "1024")],
)
def test_environment(ours: str | None, theirs: str | None, want: str) -> None:
    assert child_says(SAYS, CUDML_NUM_THREADS=ours, OMP_NUM_THREADS=theirs) == want


@pytest.mark.parametrize("wrong", ["0", "2x", "99999999999999999999", " "])
def test_a_wrong_number_in_the_environment(wrong: str) -> None:
    done = child(SAYS, CUDML_NUM_THREADS=wrong, OMP_NUM_THREADS="7")
    assert done.returncode == 1
    assert f'ValueError: get_num_threads: CUDML_NUM_THREADS is "{wrong}"' in done.stderr


def test_nested_numbers_of_openmp_and_wrong_ones_do_no_harm() -> None:
    """OMP_NUM_THREADS may hold one number per nesting level; others' mistakes are not ours."""
    assert child_says(SAYS, OMP_NUM_THREADS="4,2") == "4"
    for wrong in ("", "-3", "many"):
        assert 1 <= int(child_says(SAYS, OMP_NUM_THREADS=wrong)) <= 1024


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_affinity_limits_the_threads() -> None:
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + SAYS
    assert child_says(script) == "1"
    here = len(os.sched_getaffinity(0))
    assert 1 <= int(child_says(SAYS)) <= here


WIDENED = """
import ctypes, os
import numpy as np
import cudml
cpu = ctypes.CDLL(None).sched_getcpu
before, all_of_them = set(os.listdir('/proc/self/task')), os.sched_getaffinity(0)
x, first = np.zeros((8, 8, 256, 256), np.float32), min(all_of_them)
cudml.set_num_threads(2)
os.sched_setaffinity(0, {first})
cudml.max_pooling(x, 3)
(worker,) = set(os.listdir('/proc/self/task')) - before
os.sched_setaffinity(0, all_of_them)
for _ in range(100):
    is_there = cpu() == first
    cudml.max_pooling(x, 3)
    if is_there and cpu() == first:
        break
print(first in os.sched_getaffinity(int(worker)) and is_there)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="the system has no affinity, or one processor",
)
def test_workers_leave_a_processor_that_their_caller_was_confined_to() -> None:
    """While it is still on that one it does not keep them there."""
    assert child_says(WIDENED) == "False"


@pytest.mark.bug("RUN-09")
def test_a_thread_that_has_left_its_team_stays_where_it_is(tmp_path: Path) -> None:
    """It may be gone, and its number another process's."""
    source, program = Path(__file__).parent / "openmp_members.cpp", tmp_path / "members"
    words = ["-std=c++20", "-O1", f"-I{ROOT / 'csrc'}", str(source), "-pthread", "-o", str(program)]
    subprocess.run([*os.environ.get("CXX", "c++").split(), *words], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.stdout in ("good\n", "one processor\n")
