"""NVIDIA's compute-sanitizer over the small cases, its four tools side by side.

python sanitizer.py --cases     the calls themselves, as each tool runs them
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import gpu

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SECONDS = 42  # for all of them
FOUND = 77  # exit status where a tool reports an error
SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: .*")


def run_cases() -> int:
    """Every small case on every kernel that takes it; each array is an allocation of its own."""
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import every_kernel

    import backends

    calls, gpu_arrays = 0, backends.CUDA
    for case in every_kernel.cases():
        for dtype in every_kernel.SHORT[case.op] if case.small else ():
            calls += sum(
                1 for _ in every_kernel.on_each_kernel(case, gpu_arrays, case.arrays(dtype))
            )
    print(f"{calls} calls")
    return 0 if calls else 1


def command(sanitizer: str, tool: str) -> list[str]:
    own = [sys.executable, str(Path(__file__).resolve()), "--cases"]
    return [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), *own]


def verdict(status: int | None, text: str) -> str:
    summaries = [m.group(0).strip() for m in SUMMARY.finditer(text)]
    calls = re.search(r"^\d+ calls$", text, re.M)
    said = (calls.group(0) + "; " if calls else "") + "; ".join(summaries)
    if status is None:
        return f"stopped after {SECONDS} s; {said}"
    if status:
        return f"failed with status {status}; {said}"
    return said if calls else "failed: the cases did not run"


def main() -> int:
    sanitizer = gpu.tool("compute-sanitizer")
    if not sanitizer:
        print("compute-sanitizer is neither on PATH nor in the toolkit")
        return 1
    end = time.monotonic() + SECONDS
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as work:
        logs = {tool: Path(work) / tool for tool in TOOLS}
        running = {
            tool: subprocess.Popen(
                command(sanitizer, tool), stdout=log.open("wb"), stderr=subprocess.STDOUT
            )
            for tool, log in logs.items()
        }
        for tool, process in running.items():
            status: int | None
            try:
                status = process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                status = None
            text = logs[tool].read_text(errors="replace")
            found[tool] = verdict(status, text)
            if status != 0:
                print(text[-3000:])
            print(f"{tool}: {found[tool]}", flush=True)
    Path(os.environ["CUDML_STEP_JSON"]).write_text(json.dumps(found))
    return 1 if any("failed" in said or "stopped" in said for said in found.values()) else 0


if __name__ == "__main__":
    sys.exit(run_cases() if "--cases" in sys.argv[1:] else main())
