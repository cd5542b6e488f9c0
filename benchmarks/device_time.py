"""Device time of calls on a GPU, by events; what every script that times one there shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

HEAD_START = 1_000_000  # cycles that the device waits while calls are enqueued
MOST_SETS = 64


def event_clock(call: Callable[[], Any], count: int) -> float:
    """Seconds of device time for one call, over `count` calls in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(HEAD_START)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / count


def sets_for(size: int) -> int:
    """How many sets of buffers of that size exceed the L2 three times."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return min(MOST_SETS, max(2, math.ceil(3 * l2 / size)))
