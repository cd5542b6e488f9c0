"""The programs of examples/: short, and they run to their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from folders import ROOT

PROGRAMS = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_some() -> None:
    assert len(PROGRAMS) >= 6


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_they_run_and_say_something(program: Path) -> None:
    assert len(program.read_text().splitlines()) <= 40
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2 and done.stderr == ""
