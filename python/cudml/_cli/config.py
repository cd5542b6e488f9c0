"""``python -m cudml config``: where the library for C and C++ programs lies, for build systems."""

from __future__ import annotations

import shlex
from pathlib import Path

from cudml._cli.failure import Failure

PREFIX = Path(__file__).resolve().parent.parent  # laid out as an installed prefix: include, lib
OPTIONS = ("cmake_dir", "includes", "libs")


def run(options: list[str]) -> int:
    """Print what was asked for, a line each."""
    if not options:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in OPTIONS)
        raise Failure(f"nothing is asked for; give one of {names}")
    include, lib = PREFIX / "include", PREFIX / "lib"
    for file in (include / "cudml" / "cudml.h", lib / "libcudml.so.0"):
        if not file.exists():
            raise Failure(f"{file} is missing; the package is not built or not whole")
    words = {
        "cmake_dir": [str(lib / "cmake" / "cudml")],
        "includes": [f"-I{include}", f"-I{include / 'cudml'}"],
        "libs": [f"-L{lib}", "-l:libcudml.so.0", f"-Wl,-rpath,{lib}"],
    }
    for option in options:
        print(shlex.join(words[option]))
    return 0
