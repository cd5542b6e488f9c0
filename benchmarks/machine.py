"""The facts that belong to every measurement: machine, versions, commit, other load."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

import gpu

import cudml

_PACKAGES = ("numpy", "torch", "onnxruntime", "cupy-cuda13x", "cupy-cuda12x", "ml_dtypes")
_CACHE = 32 << 20  # bytes, where the system does not say
_MOST_CACHE = 48 << 20  # what is larger is shared with other machines


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cache_bytes() -> int:
    """Of the largest cache, as far as a program may count on it."""
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = [int(s[:-1]) * units[s[-1]] for s in (path.read_text().strip() for path in caches)]
    return min(max(sizes, default=_CACHE), _MOST_CACHE)


def versions() -> dict[str, str]:
    found = {"cudml": cudml.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def facts(backend: str) -> dict[str, Any]:
    cpus = len(os.sched_getaffinity(0))
    said: dict[str, Any] = {
        "device": f"{processor()}, {cpus} CPUs",
        "system": f"{platform.system()} {platform.machine()}",
        "instruction_set": cudml._core.build_info()["instruction_set"],
        "versions": versions(),
        "commit": gpu.commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    return {**said, **gpu.facts()} if backend == "cuda" else said


def _busy() -> float:
    """Seconds of CPU time, idle time aside, that the whole machine has spent."""
    stat = Path("/proc/stat")
    fields = stat.read_text().split("\n", 1)[0].split()[1:8] if stat.exists() else []
    ticks = sum(int(f) for i, f in enumerate(fields) if i not in (3, 4))
    return ticks / os.sysconf("SC_CLK_TCK")


class OthersLoad:
    """CPUs' worth of work that others have done since it was made: neither this process nor those
    that it has started and that have ended."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        return _busy(), sum(os.times()[:4]), time.perf_counter()

    def cpus(self) -> float:
        busy, own, wall = (n - b for n, b in zip(self._now(), self._before, strict=True))
        return max(0.0, (busy - own) / max(wall, 1e-9))
