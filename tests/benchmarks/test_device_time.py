"""How calls on a GPU are timed: the device and not the host, on the stand-in of CUDA's runtime.

Launches of a captured graph cost no time of the host there, as on a GPU; each call has some.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cudml import _backend
from folders import ROOT
from streams_support import CALLS, LAUNCH, Lent, logged, stream

pytest.importorskip("torch")
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
device_time = importlib.import_module("device_time")
sys.path.remove(str(BENCHMARKS))

HOST = 2e-3  # seconds of the host in each call
MANY = device_time.SHORT_CALLS
NAME = next(iter(CALLS))


class Graph:
    """What `torch.cuda.CUDAGraph` is: launches of a stream that are made again."""

    def __init__(self) -> None:
        self.number, self.stream, self.replays = 0, 0, 0

    def replay(self) -> None:
        self.replays += 1
        _backend.core.simt_launch_graph(self.number, self.stream)


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        _backend.core.simt_synchronize()

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


@pytest.fixture
def graphs(simulated: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Graph]]:
    """The graphs that the clock has captured, by torch's names on the stand-in runtime."""
    made: list[Graph] = []
    with stream() as on:

        @contextlib.contextmanager
        def capturing(graph: Graph) -> Iterator[None]:
            graph.stream = on
            made.append(graph)
            simulated.streams.append(on)
            _backend.core.simt_begin_capture(on)
            try:
                yield
            finally:
                simulated.streams.pop()
                graph.number = _backend.core.simt_end_capture(on)

        cuda = SimpleNamespace(
            _sleep=lambda cycles: None, Event=Event, CUDAGraph=Graph, graph=capturing
        )
        monkeypatch.setattr(device_time, "torch", SimpleNamespace(cuda=cuda))
        yield made


def slow_to_enqueue(call: Lent) -> Callable[[], Any]:
    def enqueued() -> None:
        time.sleep(HOST)
        call()

    return enqueued


def test_short_calls_are_timed_without_the_host(graphs: list[Graph]) -> None:
    """Events around the calls themselves find the host's time in each."""
    clock, call = device_time.DeviceClock(), slow_to_enqueue(CALLS[NAME]())
    assert device_time.event_clock(call, MANY) > HOST
    assert clock(call, MANY) < HOST / 2
    assert clock.used(call) == device_time.GRAPH
    assert clock(call, MANY) < HOST / 2
    assert len(graphs) == 1 and graphs[0].replays == 3  # one of them untimed


def test_a_replay_makes_all_calls(graphs: list[Graph]) -> None:
    call, clock = CALLS[NAME](), device_time.DeviceClock()
    call()
    want = call.results()
    call.poison()
    with logged() as log:
        clock(call, MANY)
    assert call.results() == want
    with logged() as one:
        call()
    assert len(log.of(LAUNCH)) == MANY * len(one.of(LAUNCH))


def test_long_calls_are_timed_by_events(graphs: list[Graph]) -> None:
    clock, call = device_time.DeviceClock(), slow_to_enqueue(CALLS[NAME]())
    assert clock(call, 2) > HOST
    assert clock.used(call) == device_time.EVENTS and not graphs


def test_what_cannot_be_captured_is_timed_by_events(graphs: list[Graph]) -> None:
    """A library may wait for the device, which no capture allows."""
    clock, lent = device_time.DeviceClock(), CALLS[NAME]()

    def waiting() -> None:
        lent()
        _backend.core.simt_synchronize()

    assert clock(waiting, MANY) > 0
    assert clock.used(waiting) == device_time.EVENTS and len(graphs) == 1
    clock(waiting, MANY)
    assert len(graphs) == 1  # it is not tried again
    call = CALLS[NAME]()
    clock(call, MANY)  # the refused capture leaves the next one alone
    assert clock.used(call) == device_time.GRAPH


def test_graphs_end_with_their_buffers(graphs: list[Graph]) -> None:
    clock, call = device_time.DeviceClock(), CALLS[NAME]()
    clock(call, MANY)
    clock.forget()
    assert clock.used(call) == device_time.EVENTS
    clock(call, MANY)
    assert len(graphs) == 2 and np.isfinite(clock(call, MANY))
