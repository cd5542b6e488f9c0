"""Whether there is an NVIDIA GPU here, and the facts that belong to every measurement on it.

    python benchmarks/gpu.py      prints the device; without one a line on standard error, status 2

Asks the driver's library directly, so that neither a toolkit nor a framework is needed.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MULTIPROCESSORS, L2_BYTES, MAJOR, MINOR = 16, 38, 75, 76  # CUdevice_attribute


def driver() -> tuple[Any, str]:
    """The driver's library, initialised, or None and why there is no GPU to use."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "the driver's libcuda.so.1 is not installed"
    status = cuda.cuInit(0)
    count = ctypes.c_int(0)
    if status == 0:
        status = cuda.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return None, f"the driver answers with error {status}"
    return (cuda, "") if count.value else (None, "the driver lists no device")


def problem() -> str:
    """One line that says why nothing can run on a GPU here, or nothing."""
    why = driver()[1]
    return f"no NVIDIA GPU: {why}" if why else ""


def _attribute(cuda: Any, which: int) -> int:
    value = ctypes.c_int(0)
    cuda.cuDeviceGetAttribute(ctypes.byref(value), which, 0)
    return value.value


def _says(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def tool(name: str) -> str:
    """The full path of one of the toolkit's programs, or nothing."""
    found = shutil.which(name)
    if found:
        return found
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    paths = [Path(home) / "bin" / name for home in homes if home]
    return next((str(path) for path in paths if path.exists()), "")


def driver_version() -> str:
    path = Path("/proc/driver/nvidia/version")
    text = path.read_text() if path.exists() else ""
    found = re.search(r"\s(\d{3}\.\d+(\.\d+)?)\s", text)
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return found.group(1) if found else _says(*query).split("\n")[0] or "unknown"


def toolkit_version() -> str:
    nvcc = tool("nvcc")
    found = re.search(r"\bV(\d+\.\d+\.\d+)", _says(nvcc, "--version")) if nvcc else None
    return found.group(1) if found else "unknown"


def commit() -> str:
    """The commit that is checked out; "+changes" where files differ from it."""
    git = ("git", "-c", "safe.directory=*")  # the checkout may be a copy under another owner
    name = _says(*git, "rev-parse", "HEAD")
    if not name:
        return os.environ.get("CUDML_COMMIT", "unknown")
    changed = _says(*git, "status", "--porcelain", "--untracked-files=no")
    return name + ("+changes" if changed else "")


def facts() -> dict[str, Any]:
    """What a measurement is worth nothing without; device 0, as CUDA counts."""
    cuda, why = driver()
    if why:
        raise SystemExit(f"no NVIDIA GPU: {why}")
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, 256, 0)
    total = ctypes.c_size_t(0)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
    return {
        "device": name.value.decode(),
        "compute_capability": f"{_attribute(cuda, MAJOR)}.{_attribute(cuda, MINOR)}",
        "multiprocessors": _attribute(cuda, MULTIPROCESSORS),
        "l2_bytes": _attribute(cuda, L2_BYTES),
        "memory_bytes": total.value,
        "driver": driver_version(),
        "toolkit": toolkit_version(),
        "commit": commit(),
    }


if __name__ == "__main__":
    if why_not := problem():
        print(why_not, file=sys.stderr)
        sys.exit(2)
    print(facts()["device"])
