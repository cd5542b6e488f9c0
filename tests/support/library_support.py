"""Programs that use the library from C and C++: where it lies as a prefix, and building them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import cudml
from folders import ROOT

PREFIX = Path(cudml.__file__).resolve().parent
HEADERS = (
    *("DirectML.h", "DirectMLActivations.h", "DirectMLInterfaces.h", "DirectMLTypes.h"),
    *("cudml.h", "cudml.hpp"),
)
BARE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}  # no Python of the tests
INCLUDES = [f"-I{ROOT / 'include'}"]
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror"]


def library() -> Path:
    """libcudml.so.0 of the package that is tested."""
    found = PREFIX / "lib" / "libcudml.so.0"
    if not found.exists():
        pytest.skip("the package has no libcudml.so.0: cudml._core is built in one piece")
    return found


def links() -> list[str]:
    return [f"-L{library().parent}", "-l:libcudml.so.0", f"-Wl,-rpath,{library().parent}"]


def built(source: Path, folder: Path, *flags: str) -> Path:
    """A program of one source of this suite, C or C++, linked with the library."""
    language = ["gcc", "-std=c11"] if source.suffix == ".c" else ["g++", "-std=c++17"]
    program = folder / source.stem
    words = [*language, *STRICT, *INCLUDES, str(source), *flags, *links(), "-o", str(program)]
    run(words)
    return program


def run(words: list[str], timeout: int = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a command prints; its errors are shown where it fails."""
    environment = {**os.environ, **variables}
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done
