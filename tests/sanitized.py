"""Runs pytest with a module built under a sanitizer: python tests/sanitized.py asan|tsan|core …

asan and tsan are builds of `cudml._simt`, core is `cudml._core` under AddressSanitizer. asan and
core have UndefinedBehaviorSanitizer with them.
The sanitizer's library must be the first that the process loads, so pytest runs in a process of
its own. Reports go to files, because pytest keeps what a test prints; they are shown at the end,
and one alone makes the run fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "support"))
import simt_build

LIBRARY = {"asan": "libasan.so", "tsan": "libtsan.so", "core": "libasan.so"}
BUILD_CORE = (
    "import sys; sys.path.append('tools'); import native_build\n"
    "print(native_build.build('_core', 'address,undefined'))"
)


def file_of(library: str) -> str:
    """Where the compiler has this library."""
    command = [*simt_build.native_build().compiler(), f"-print-file-name={library}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def core_folder() -> str:
    """A folder with the package as it is, but `_core` under the sanitizer, which is built."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD_CORE],
        cwd=simt_build.ROOT,
        env=simt_build.ordinary_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    module = Path(done.stdout.splitlines()[-1])
    package = module.parent / "python" / "cudml"
    shutil.rmtree(package, ignore_errors=True)  # links, and what Python has compiled
    package.mkdir(parents=True)
    for part in (simt_build.ROOT / "python" / "cudml").iterdir():
        if part.suffix != ".so":
            (package / part.name).symlink_to(part)
    (package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").symlink_to(module)
    return str(package.parent)


def options(logs: str = "") -> dict[str, str]:
    """The sanitizers' own variables; reports go to standard error where no folder is given."""
    files = {tool: f":log_path={logs}/{tool}" if logs else "" for tool in ("asan", "ubsan", "tsan")}
    return {
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0" + files["asan"],
        "UBSAN_OPTIONS": "print_stacktrace=1" + files["ubsan"],
        "TSAN_OPTIONS": "suppress_equal_addresses=0" + files["tsan"],
    }


def environment(variant: str, logs: str) -> dict[str, str]:
    """Variables of a process that may import this variant."""
    # libstdc++ too: the sanitizer looks for its exceptions' functions when it starts.
    libraries = [file_of(LIBRARY[variant]), file_of("libstdc++.so.6")]
    paths = [core_folder()] if variant == "core" else []
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    return {
        **os.environ,
        **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}),
        "CUDML_SIMT_VARIANT": "plain" if variant == "core" else variant,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        # Threads of libraries that were not built with the sanitizer would be reported.
        **dict.fromkeys(("CUDML_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        **options(logs),
    }


def main(variant: str, words: list[str]) -> int:
    if variant != "core":
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
