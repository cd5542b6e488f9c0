"""Builds `cudml._simt`, the CUDA kernels for the host, and imports it from build/.

`python tests/support/simt_build.py VARIANT` builds one by hand. CUDML_SIMT_VARIANT chooses what
module() imports: plain, asan (with UndefinedBehaviorSanitizer) or tsan, the last two in a process
that tests/sanitized.py has started.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = {"plain": "", "asan": "address,undefined", "tsan": "thread"}
VARIANT = os.environ.get("CUDML_SIMT_VARIANT", "plain")


def native_build() -> Any:
    """The module tools/native_build.py."""
    if str(ROOT / "tools") not in sys.path:
        sys.path.append(str(ROOT / "tools"))
    import native_build as module

    return module


def ordinary_environment() -> dict[str, str]:
    """The environment without a sanitizer's libraries, which compilers had better not load."""
    return {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


@functools.cache
def built(variant: str) -> Path:
    """The module's file, up to date; what the compiler says is shown where it fails."""
    command = [sys.executable, __file__, variant]
    done = subprocess.run(command, env=ordinary_environment(), capture_output=True, text=True)
    assert done.returncode == 0, f"building cudml._simt failed:\n{done.stdout}{done.stderr}"
    return Path(done.stdout.splitlines()[-1])


@functools.cache
def module() -> Any:
    """`cudml._simt`, built where it is not up to date."""
    path = str(built(VARIANT))
    loader = importlib.machinery.ExtensionFileLoader("cudml._simt", path)
    spec = importlib.util.spec_from_file_location("cudml._simt", path, loader=loader)
    assert spec
    made = importlib.util.module_from_spec(spec)
    sys.modules["cudml._simt"] = made
    loader.exec_module(made)
    return made


if __name__ == "__main__":
    print(native_build().build("_simt", VARIANTS[sys.argv[1]]))
