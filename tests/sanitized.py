"""Runs pytest with `cudml._simt` built under a sanitizer: python tests/sanitized.py asan|tsan …

The sanitizer's library must be the first that the process loads, so pytest runs in a process of
its own. Reports go to files, because pytest keeps what a test prints; they are shown at the end,
and one alone makes the run fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import simt_build

LIBRARY = {"asan": "libasan.so", "tsan": "libtsan.so"}


def file_of(library: str) -> str:
    """Where the compiler has this library."""
    command = [*simt_build.native_build().compiler(), f"-print-file-name={library}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def options(logs: str = "") -> dict[str, str]:
    """The sanitizers' own variables; reports go to standard error where no folder is given."""
    files = {tool: f":log_path={logs}/{tool}" if logs else "" for tool in ("asan", "ubsan", "tsan")}
    return {
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0" + files["asan"],
        "UBSAN_OPTIONS": "print_stacktrace=1" + files["ubsan"],
        "TSAN_OPTIONS": "suppress_equal_addresses=0" + files["tsan"],
    }


def environment(variant: str, logs: str) -> dict[str, str]:
    """Variables of a process that may import this variant of cudml._simt."""
    # libstdc++ too: the sanitizer looks for its exceptions' functions when it starts.
    libraries = [file_of(LIBRARY[variant]), file_of("libstdc++.so.6")]
    return {
        **os.environ,
        "CUDML_SIMT_VARIANT": variant,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        # Threads of libraries that were not built with the sanitizer would be reported.
        **dict.fromkeys(("CUDML_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        **options(logs),
    }


def main(variant: str, words: list[str]) -> int:
    simt_build.built(variant)
    with tempfile.TemporaryDirectory() as logs:
        command = [sys.executable, "-m", "pytest", *words]
        status = subprocess.run(command, env=environment(variant, logs)).returncode
        reports = sorted(Path(logs).iterdir())
        for report in reports:
            print(report.read_text(errors="replace"))
    if reports:
        print(f"{variant}: {len(reports)} processes with reports, shown above")
    return status or bool(reports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
