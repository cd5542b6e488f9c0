"""What programs rely on stays: symbols, struct sizes, offsets, numbers; no more is exported."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess

import pytest

import abi
import cudml
from folders import ROOT
from library_support import library


def test_the_abi_is_the_one_that_is_checked_in() -> None:
    if shutil.which("nm") is None or shutil.which("gcc") is None:
        pytest.skip("no nm or gcc")
    now, then = abi.described(library()).splitlines(), abi.CHECKED_IN.read_text().splitlines()
    assert len(then) > 70 and sum(line.startswith("symbol") for line in then) > 10
    changed = [
        line for line in difflib.unified_diff(then, now, lineterm="", n=0) if line[0] in "+-"
    ]
    assert not changed, "\n".join([*changed, f"if it is meant: python {abi.__file__}"])


def test_what_is_exported_is_declared() -> None:
    """Each stable symbol is a function of a header, and each such function is a symbol."""
    names = {line.split("@")[0] for line in abi.symbols(library())}
    declared = set()
    for header in (ROOT / "include" / "cudml").iterdir():
        declared |= set(re.findall(r"^CUDML_API .*?\b(\w+)\(", header.read_text(), re.M))
    assert names == declared


def test_the_library_says_who_it_is() -> None:
    """Its name for the loader, its version, and what it needs: nothing of Python's."""
    text = subprocess.run(
        ["readelf", "-d", str(library())], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"\(SONAME\).*\[(.*)\]", text) == ["libcudml.so.0"]
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    assert needed and not [name for name in needed if "python" in name or "cudart" in name]
    assert "NODELETE" in text  # its threads wait in its code
    header = (ROOT / "include" / "cudml" / "cudml.h").read_text()
    assert re.findall(r'^#define CUDML_VERSION "(.*)"$', header, re.M) == [cudml.__version__]
