"""Signals during long calls: their handlers run, and what they raise ends the call."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml.directml import BufferTensorDesc
from directml_support import desc_of
from leftovers import arrays_in, left_behind

POISON = 77
Call = Callable[[np.ndarray], Any]


class Ended(Exception):
    pass


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = cudml.get_num_threads()
    cudml.set_num_threads(request.param)
    yield
    cudml.set_num_threads(before)


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Pages of which all are one until they are written."""
    return np.zeros(shape, dtype)


def grad_in_rows(n: int) -> tuple[tuple[int, ...], Call]:
    """Every element lies in very many windows."""
    x, grad = zeros(1, 1, 1, 600_000), zeros(1, 1, 1, 600_001 - n * 100_000)
    window = (1, n * 100_000)
    return x.shape, lambda out: cudml.max_pooling_grad(x, grad, window, out=out)


def average_grad(n: int) -> tuple[tuple[int, ...], Call]:
    grad, shape = zeros(1, 1, 1, n * 900_000 + 1), (1, 1, 1, n * 1_000_000)
    window = (1, n * 100_000)
    return shape, lambda out: cudml.average_pooling_grad(grad, shape, window, out=out)


def norm(n: int) -> tuple[tuple[int, ...], Call]:
    """A few windows of very many taps."""
    x = zeros(1, 1, n * 12_000, 12_001)
    return (1, 1, 1, 2), lambda out: cudml.lp_pooling(x, (n * 12_000, 12_000), p=3, out=out)


def winners(n: int) -> tuple[tuple[int, ...], Call]:
    x, indices = zeros(1, 1, n * 20_000, 20_001), np.zeros((1, 1, 1, 2), "uint32")
    return indices.shape, lambda out: cudml.max_pooling(
        x, (n * 20_000, 20_000), return_indices=True, out=(out, indices)
    )


def average(n: int) -> tuple[tuple[int, ...], Call]:
    x = zeros(1, 1, n * 4, 2_000_000)
    return (1, 1, 1, 1_000_001), lambda out: cudml.average_pooling(x, (n * 4, 10**6), out=out)


def padded(n: int) -> tuple[tuple[int, ...], Call]:
    x = zeros(n * 3, 150_000_000, dtype="int8")
    return (n * 3, 250_000_000), lambda out: cudml.padding(
        x, (0, 10**8), (0, 0), mode="reflection", out=out
    )


def normalized(n: int) -> tuple[tuple[int, ...], Call]:
    x = zeros(2, n * 20_000_000)
    return x.shape, lambda out: cudml.mean_variance_normalization(
        x, axes=1, activation="tanh", out=out
    )


def repeated(*shape: int) -> np.ndarray:
    """One element, as the gradient of a sum is."""
    return np.broadcast_to(np.ones((), np.float32), shape)


def repeated_rows(n: int) -> tuple[tuple[int, ...], Call]:
    """A few megabytes, for each of whose elements a thousand terms are added up."""
    grad, shape = repeated(n * 500, 256, 4096), (n * 500, 1, 1024)
    pads = (0, 255, 1536), (0, 0, 1536)
    return shape, lambda out: cudml.padding_grad(grad, shape, *pads, mode="symmetric", out=out)


def one_sum(n: int) -> tuple[tuple[int, ...], Call]:
    """More pieces of it than threads share."""
    size = 100_000
    grad = repeated(size, size)
    pads = (size - 1, size - 1), (0, 0)
    return (1, 1), lambda out: cudml.padding_grad(grad, (1, 1), *pads, mode="edge", out=out)


def few_rows(n: int) -> tuple[tuple[int, ...], Call]:
    """As few rows as a vector has lanes, whose columns are packed."""
    x = np.broadcast_to(np.ones(16, np.float32), (n * 2_500_000, 16)).T
    return x.shape, lambda out: cudml.padding(x, (0, 0), (0, 0), out=out)


CASES: dict[str, Callable[[int], tuple[tuple[int, ...], Call]]] = {
    "lp_pooling": norm,
    "max_pooling+indices": winners,
    "average_pooling": average,
    "max_pooling_grad": grad_in_rows,
    "average_pooling_grad": average_grad,
    "padding": padded,
    "padding of few rows": few_rows,
    "padding_grad": repeated_rows,
    "padding_grad of one sum": one_sum,
    "mean_variance_normalization": normalized,
}


def with_alarm(seconds: float, handle: Callable[[], None], body: Callable[[], Any]) -> None:
    before = signal.signal(signal.SIGALRM, lambda number, frame: handle())
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        body()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def end(call: Call, out: np.ndarray) -> None:
    """Runs a call, during which a handler raises."""

    def handle() -> None:
        raise Ended

    with pytest.raises(Ended):
        with_alarm(0.02, handle, lambda: (call(out), time.sleep(1)))


def output(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, "int8" if name == "padding" else "float32")


def is_ended_early(name: str, n: int) -> bool:
    """Ends a call that grows with n. Whether the call was still at work then: a fast processor may
    have come to the end of a small one."""
    shape, call = CASES[name](n)
    out = output(name, shape)
    some = out.reshape(-1)[:: max(1, (out.size - 1) // 6)]
    some[...] = POISON
    end(call, out)
    return POISON in some


@pytest.mark.bug("RUN-16")
@pytest.mark.parametrize("name", CASES)
def test_a_long_call_ends_where_a_handler_raises(name: str) -> None:
    """Not all is written then, and the same threads serve the next call."""
    assert any(is_ended_early(name, n) for n in (1, 2, 4))
    x = np.arange(2**20, dtype="float32").reshape(1, 1, 1024, 1024)
    assert np.array_equal(cudml.max_pooling(x, 2, 2), x[:, :, 1::2, 1::2])


@pytest.mark.bug("RUN-08", "RUN-16")
@pytest.mark.parametrize("name", CASES)
def test_an_ended_call_leaves_nothing_behind(name: str) -> None:
    """References of arrays, weak ones that hold them in place, memory, threads, files, plans."""
    shape, call = CASES[name](2)
    out = output(name, shape)
    assert not left_behind(lambda: end(call, out), [*arrays_in(call), out], 3)


def row_of_sources() -> tuple[tuple[int, ...], Call]:
    """A row that would take minutes, of two planes."""
    shape = (1, 2, 1, 1 << 36)
    x, nowhere = (np.broadcast_to(np.array(-1, kind), shape) for kind in ("float32", "int64"))
    return (1, 2, 1, 4), lambda out: cudml.max_unpooling(x, nowhere, (1, 2, 1, 4), out=out)


def columns() -> tuple[tuple[int, ...], Call]:
    x = np.broadcast_to(np.float16(1), (1 << 16, 1 << 20))
    out = tuple(np.empty((1, 1 << 20)) for _ in range(3))
    return (1,), lambda _: cudml.normalization_statistics(x, axes=0, out=out)


@pytest.mark.bug("RUN-16")
@pytest.mark.parametrize("case", [row_of_sources, columns])
def test_a_long_call_over_few_bytes_ends(case: Callable[[], tuple[tuple[int, ...], Call]]) -> None:
    """Expanded arrays: how much there is to do does not show in the memory they take."""
    shape, call = case()
    begin = time.perf_counter()
    end(call, output("", shape))
    assert time.perf_counter() - begin < 2


def test_memory_that_grows_with_every_call_is_seen() -> None:
    """And memory that Python takes once is not."""
    kept = [bytearray(400_000)]
    assert left_behind(lambda: kept.append(bytearray(1_000_000)), [], 3)
    once = iter([kept.clear, lambda: kept.append(bytearray(400_000))])
    assert not left_behind(lambda: next(once, lambda: None)(), [], 3)


@pytest.mark.bug("RUN-16")
def test_an_ended_copy() -> None:
    """What D-TEN-7 copies may be large: a call ends while it copies, before it writes anything."""
    out = np.empty((1, 1, 1, 1), "int8")

    def is_ended_early(n: int) -> bool:
        x = zeros(1, 1, n, 1 << 30, dtype="int8")[..., ::-1]
        out[...] = POISON
        call = lambda y: cudml.max_pooling(x, x.shape[2:], out=y)  # noqa: E731
        assert not left_behind(lambda: end(call, out), [x, x.base, out], 1)
        begin = time.perf_counter()
        end(call, out)
        return out.item() == POISON and time.perf_counter() - begin < 1

    assert any(is_ended_early(n) for n in (1, 2, 4))


def test_memory_that_handlers_move_is_not_copied_from() -> None:
    base = np.zeros(1 << 30, "int8")
    x, out = base.reshape(1, 1, 1, -1)[..., ::-1], np.full((1, 1, 1, 1), POISON, "int8")
    said: list[BaseException] = []

    def handle() -> None:
        try:
            base.__setstate__((1, (1,), base.dtype, False, b"1"))
        except BaseException as error:
            said.append(error)

    with pytest.raises(ValueError, match="has been changed by Python code"):
        with_alarm(0.02, handle, lambda: cudml.max_pooling(x, (1, x.size), out=out))
    assert not said and out.item() == POISON


@pytest.mark.bug("RUN-16")
def test_an_ended_call_of_a_compiled_operator() -> None:
    """Its own workspace serves the next call."""
    sizes = [1, 8, 700, 700]
    last = BufferTensorDesc("FLOAT32", sizes, [8 * 700 * 700, 1, 8 * 700, 8])
    window, pooled = 41, [1, 8, 660, 660]
    desc = desc_of(
        "MaxPoolingGrad", InputTensor=BufferTensorDesc("FLOAT32", sizes), OutputGradientTensor=last,
        InputGradientTensor=BufferTensorDesc("FLOAT32", pooled), WindowSize=[window, window],
        Strides=[1, 1], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1],
    )  # fmt: skip
    run = cudml.Operator(desc).compile("cpu")
    x, grad = np.random.default_rng(0).random(sizes, "f4"), np.ones(pooled, "f4")
    out = np.moveaxis(np.empty((1, 700, 700, 8), "f4"), 3, 1)
    assert run.workspace_bytes > 0
    assert not left_behind(lambda: end(lambda y: run(x, grad, out=y), out), [x, grad, out], 3)
    want = cudml.max_pooling_grad(x, grad, window)
    assert np.array_equal(run(x, grad, out=out), want)


def test_a_handler_may_call_and_the_call_goes_on() -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 2000, 2000)).astype("float32")
    want = cudml.lp_pooling(x, 9, p=3)
    inside: list[bool] = []
    out = np.full_like(want, POISON)

    def handle() -> None:
        inside.append(out[0, 0, -1, -1] == POISON)
        assert np.array_equal(cudml.max_pooling(x, 1), x)

    with_alarm(0.001, handle, lambda: cudml.lp_pooling(x, 9, p=3, out=out))
    assert len(inside) == 1 and np.array_equal(out, want)


@pytest.mark.bug("RUN-16")
def test_a_handler_may_call_for_a_moment() -> None:
    """A call too short to be interrupted, in the middle of one that looks for signals."""
    script = (
        "import faulthandler, signal\n"
        "import numpy as np\n"
        "import cudml\n"
        "faulthandler.dump_traceback_later(50, exit=True)\n"
        "x, called = np.ones((1, 1, 3000, 2400), 'f4'), []\n"
        "def handle(*_):\n"
        "    called.append(cudml.lp_pooling(x[..., :4, :4], 4, p=1).item())\n"
        "signal.signal(signal.SIGALRM, handle)\n"
        f"cudml.set_num_threads({cudml.get_num_threads()})\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.02)\n"
        "y = cudml.lp_pooling(x, (3000, 2000), p=3)  # longer than signals wait\n"
        "print(called, np.unique((y.astype('f8') ** 3 / 6e6).round(3)).tolist())\n"
    )
    assert child_says(script) == "[16.0] [1.0]"


@pytest.mark.bug("RUN-16")
def test_a_call_ends_after_handlers_that_call() -> None:
    """Two of them call and return before one raises: the call then ends at once all the same."""
    small = np.random.default_rng(0).standard_normal((1, 1, 700, 700)).astype("float32")

    def is_ended_early(n: int) -> bool:
        shape, call = winners(n)
        out, inside = np.full(shape, POISON, "float32"), iter(range(2))

        def handle() -> None:
            if next(inside, None) is None:
                raise Ended
            assert np.array_equal(cudml.max_pooling(small, 1), small)
            signal.setitimer(signal.ITIMER_REAL, 0.02)

        with pytest.raises(Ended):
            with_alarm(0.02, handle, lambda: (call(out), time.sleep(1)))
        return POISON in out

    assert any(is_ended_early(n) for n in (2, 4, 8))


FORKED = """
import os, signal, threading, time
import numpy as np
import cudml
small, x = np.zeros((1, 1, 300, 300), 'f4'), np.zeros((1, 1, 24_000, 12_001), 'f4')

class Ended(Exception):
    pass

def end(*_):
    raise Ended

def work():
    cudml.lp_pooling(small, 3, p=3)  # as a thread that is not the first
    if pid := os.fork():
        return print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    signal.signal(signal.SIGALRM, end)
    out = np.full((1, 1, 1, 2), 77, 'f4')
    status = 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        cudml.lp_pooling(x, (24_000, 12_000), p=3, out=out)
        time.sleep(1)
    except Ended:
        status = 0 if 77 in out else 2
    os._exit(status)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.bug("RUN-16")
def test_a_child_that_another_thread_forked() -> None:
    """The thread is the first one there, which signals come to."""
    assert child_says(FORKED, PYTHONWARNINGS="ignore") == "0"


def test_calls_of_other_threads_go_on() -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 1500, 1500)).astype("float32")
    want = cudml.lp_pooling(x, 9, p=3)
    results: list[Any] = []
    enough = threading.Event()

    def work() -> None:
        while not enough.is_set():
            results.append(cudml.lp_pooling(x, 9, p=3))

    other = threading.Thread(target=work)

    def handle() -> None:
        raise Ended

    other.start()
    with pytest.raises(Ended):
        with_alarm(0.02, handle, lambda: time.sleep(60))
    enough.set()
    other.join(60)
    assert not other.is_alive() and results
    assert all(np.array_equal(y, want) for y in results)
