"""Every public header compiles alone, in C and in C++, with two compilers."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from folders import ROOT
from library_support import HEADERS, INCLUDES, STRICT

COMPILERS = {"c": ("gcc", "clang-16"), "c++": ("g++", "clang++-16")}
STANDARDS = {"c": ("c11", "c17"), "c++": ("c++17", "c++20")}


def test_the_headers_are_all_there() -> None:
    assert sorted(path.name for path in (ROOT / "include" / "cudml").iterdir()) == sorted(HEADERS)


CASES = [
    (header, language)
    for header in HEADERS
    for language in (("c++",) if header.endswith(".hpp") else ("c", "c++"))
]


@pytest.mark.parametrize("compiler", [0, 1], ids=["gcc", "clang"])
@pytest.mark.parametrize(("header", "language"), CASES)
def test_a_header_compiles_alone(header: str, compiler: int, language: str) -> None:
    """Twice in one file, without a warning, and without a macro that is meant for itself."""
    command = COMPILERS[language][compiler]
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    source = f"#include <cudml/{header}>\n#include <cudml/{header}>\n"
    source += "#ifdef CUDML_INT_ENUM\n#error\n#endif\n"
    for standard in STANDARDS[language]:
        words = [command, "-x", language, f"-std={standard}", *STRICT, "-Wconversion", *INCLUDES]
        done = subprocess.run(
            [*words, "-fsyntax-only", "-"], input=source, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{standard}: {done.stderr}"
