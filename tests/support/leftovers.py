"""What a call may leave behind: references, memory, threads, open files, plans."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import cudml

FEW = 1 << 16  # bytes that allocators keep for themselves


class Usage(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = tuple((f"field_{i}", ctypes.c_size_t) for i in range(10))


def handed_out() -> int:
    """Bytes in use by the C library's allocator; 0 where it cannot say."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    ask.restype = Usage
    found = ask()
    return int(found.field_4 + found.field_7)  # hblkhd, mapped on their own, and uordblks


def arrays_in(call: Callable[..., Any]) -> list[np.ndarray]:
    """Those that a function refers to, and those that functions within it do."""
    found: list[np.ndarray] = []
    for cell in call.__closure__ or ():
        held = cell.cell_contents
        if isinstance(held, np.ndarray):
            found.append(held)
        elif callable(held) and hasattr(held, "__closure__"):
            found += arrays_in(held)
    return found


def counts(arrays: list[np.ndarray]) -> dict[str, Any]:
    """What must be the same before a call and after it."""
    gc.collect()
    return {
        "references": [sys.getrefcount(a) for a in arrays],
        "pins": [weakref.getweakrefcount(a) for a in arrays],
        "threads": len(os.listdir("/proc/self/task")),
        "open files": len(os.listdir("/proc/self/fd")),
        "plans": cudml.cache_info().currsize,
    }


def _is_more(now: Any, before: Any) -> bool:
    """Threads of earlier tests may come to their end meanwhile; references are counted exactly."""
    return bool(now != before if isinstance(now, list) else now > before)


def _bytes_more(call: Callable[[], Any], times: int) -> int:
    before = handed_out()
    for _ in range(times):
        call()
    gc.collect()
    return handed_out() - before


def left_behind(call: Callable[[], Any], arrays: list[np.ndarray], times: int) -> str:
    """What so many calls leave that the first one did not, or nothing. Memory counts where it grows
    most of three times: Python's own tables grow now and then, and what earlier tests held goes."""
    call()
    gc.collect()
    before = counts(arrays)
    more = statistics.median(_bytes_more(call, times) for _ in range(3))
    after = counts(arrays)
    found = [f"{k}: {before[k]}, then {v}" for k, v in after.items() if _is_more(v, before[k])]
    return "; ".join(found + [f"{more} bytes each {times} calls"] * (more > FEW))
