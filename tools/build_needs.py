"""What a build needs beside CUDA: a compiler, Python's headers and two packages."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

CACHES = ("ccache", "sccache", "distcc")  # before the compiler's own name


def compiler():
    return os.environ.get("CXX", "c++").split()


def is_found(module):
    """Whether a package that the build needs can be imported."""
    with contextlib.suppress(ImportError, ValueError):  # ValueError: barred by sys.modules
        return importlib.util.find_spec(module) is not None
    return False


def check_tools():
    """Ends the build in one line that says what to install, where something is missing."""
    missing = [name for name in ("pybind11", "ninja") if not is_found(name)]
    if missing:
        raise SystemExit(f"cudml: {' and '.join(missing)} missing: pip install {' '.join(missing)}")
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise SystemExit(
            f"cudml: Python's headers are missing ({headers / 'Python.h'}): "
            "apt install python3-dev, or dnf install python3-devel"
        )
    name = next(word for word in compiler() if Path(word).name not in CACHES)
    install = "apt install g++, or dnf install gcc-c++, or name another one in CXX"
    if shutil.which(name) is None:
        raise SystemExit(
            f'cudml: there is no C++ compiler "{name}"; the build needs one that knows C++20, '
            f"such as GCC 11 or Clang 14: {install}"
        )
    probe = [*compiler(), "-std=c++20", "-fsyntax-only", "-x", "c++", os.devnull]
    if subprocess.run(probe, capture_output=True).returncode:
        raise SystemExit(
            f'cudml: the compiler "{name}" does not know C++20; GCC 11 and Clang 14 do: {install}'
        )
