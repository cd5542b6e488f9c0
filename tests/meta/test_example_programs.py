"""The programs of examples/: short, and they run to their end."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from folders import ROOT

PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
LINES = {"torch_segmentation": 90, "torch_convert": 50}  # others have 40 at most


def test_there_are_some() -> None:
    assert len(PROGRAMS) >= 9


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_they_run_and_say_something(program: Path, tmp_path: Path) -> None:
    assert len(program.read_text().splitlines()) <= LINES.get(program.stem, 40)
    if program.stem.startswith("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2 and done.stderr == ""
    if program.stem == "torch_segmentation":
        found = float(done.stdout.rpartition("IoU on unseen images ")[2].split()[0])
        assert found >= 0.95
        has_picture = (tmp_path / "torch_segmentation.png").is_file()
        assert has_picture or importlib.util.find_spec("matplotlib") is None
