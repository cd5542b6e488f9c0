"""Reads cmake/recipe.cmake, the one list of flags and sources that CMake and this build share."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"


def read(text):
    """The words of each set(NAME words...), by name; there is nothing else but comments."""
    bare = re.sub(r"#.*", "", text)
    found = dict(re.findall(r"set\((\w+)\b([^()]*)\)", bare))
    rest = re.sub(r"set\(\w+\b[^()]*\)", "", bare).strip()
    if rest:
        raise SystemExit(
            f"cudml: cmake/recipe.cmake holds more than set(…): {rest.splitlines()[0]}"
        )
    return {name: words.split() for name, words in found.items()}


RECIPE = read((ROOT / "cmake" / "recipe.cmake").read_text())
LEVELS = {level: RECIPE[f"X86_{level}"] for level in RECIPE["X86_LEVELS"]}
CPU_ONCE = [*RECIPE["CPU_SMALL"], *RECIPE["CPU_PLAIN"]]


def version():
    text = (ROOT / "pyproject.toml").read_text()
    return re.search(r'^version = "(.+)"$', text, re.M).group(1)


def sources(folder, pattern="*.cpp", without=()):
    """The sources of a room, but for those named from csrc on."""
    found = sorted((CSRC / folder).glob(pattern))
    return [path for path in found if path.relative_to(CSRC).as_posix() not in without]


def cpu_sources():
    """What is compiled once for each instruction set."""
    return sources("cpu", "**/*.cpp", without=CPU_ONCE)
