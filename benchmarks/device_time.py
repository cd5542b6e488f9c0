"""Device time of calls on a GPU, by events; what every script that times one there shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

HEAD_START = 1_000_000  # cycles that the device waits while calls are enqueued
MOST_SETS = 64
# From so many calls on in a turn of 3 ms a host hardly enqueues them as fast as they run.
SHORT_CALLS = 100
GRAPH, EVENTS = "graph replay", "events"

Call = Callable[[], Any]


def event_clock(call: Call, count: int) -> float:
    """Seconds of device time for one call, over `count` calls in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(HEAD_START)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / count


class DeviceClock:
    """Seconds of device time for one call: of short ones by replays of a graph of many, because
    the host takes as long to enqueue one as the device to run it; of others by events around them.

    A call that cannot be captured is timed by events. `used` says what a call was timed by.
    """

    def __init__(self) -> None:
        self._graphs: dict[Call, tuple[int, Any]] = {}  # calls in the graph; None where refused

    def __call__(self, call: Call, count: int) -> float:
        if count < SHORT_CALLS:
            return event_clock(call, count)
        captured, graph = self._graphs.get(call, (0, None))
        if captured != count:
            graph = _graph(call, count)
            self._graphs[call] = count, graph
        return event_clock(call, count) if graph is None else event_clock(graph.replay, 1) / count

    def used(self, call: Call) -> str:
        return GRAPH if self._graphs.get(call, (0, None))[1] is not None else EVENTS

    def forget(self) -> None:
        """Gives back what graphs keep of memory."""
        self._graphs.clear()


def _graph(call: Call, count: int) -> Any:
    """`count` calls as a graph that was replayed once, or None."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        graph.replay()
    except Exception:  # whatever its library raises where it waits for the device or allocates
        return None
    return graph


def sets_for(size: int) -> int:
    """How many sets of buffers of that size exceed the L2 three times."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return min(MOST_SETS, max(2, math.ceil(3 * l2 / size)))
