"""The programs that measure a GPU, from end to end, on the simulated one with small cases."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from folders import ROOT

BENCHMARKS = ROOT / "benchmarks"

# Runs a program as if there were a GPU; the suite's problems are the given ones on small shapes.
CHILD = """
import json, runpy, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/validate_gpu", sys.argv[2]]
shapes, sys.argv = json.loads(sys.argv[3]), sys.argv[4:]
import gpu, problems, simulated_torch

gpu.problem = lambda: ""
gpu.facts = lambda: {"device": "simulated device", "compute_capability": "9.0",
                     "multiprocessors": 4, "l2_bytes": 1, "memory_bytes": 2**30, "driver": "none",
                     "toolkit": "none", "commit": "0123456789"}
known = problems.problems(full=True)

def small(full=False, only="", cases=()):
    found = []
    for name, shape in shapes.items():
        one = next(p for p in known if name in p.name)
        found.append(problems.Problem(one.case, tuple(shape), tuple(shape), one.dtype, one.layout))
    return found

problems.problems = small
with simulated_torch.on_device():
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
SHAPES = {
    "01 max 3x3/2, 1x64x112x112, float32 C": (1, 3, 9, 32),
    "13 max grad 3x3/2, 32x64x112x112, float32 C": (1, 2, 9, 32),
    "22 reflect 1": (1, 2, 9, 40),
    "34 LayerNorm, 8192x768, float32 C": (4, 768),
}


def run(program: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    support = str(ROOT / "tests" / "support")
    given = [str(BENCHMARKS), support, json.dumps(SHAPES), str(BENCHMARKS / program), *words]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *given],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done


@pytest.fixture(autouse=True)
def device() -> None:
    """The stand-in, built, and PyTorch with an exchange table."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    from simulated_torch import has_table

    if not has_table():
        pytest.skip("this PyTorch has no exchange table")
    import backends

    backends.simt()


def rows_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    assert [row["number"] for row in found["rows"]] == [1, 13, 22, 34]
    return found


@pytest.mark.long
def test_cudml_beside_its_peers(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    words = ["--backend", "cuda", "--peers", "PyTorch,CuPy", "--rounds", "2", "--seconds", "0.1"]
    done = run("run.py", *words, "--json", str(path))
    found = rows_of(path)
    assert found["quack"] in done.stdout and found["backend"] == "cuda"
    for row in found["rows"]:
        assert row["name"] in done.stdout and row["ceiling"]["gb_s"] > 0
        assert {"cudml", "PyTorch"} <= set(row["contenders"])
        assert row["predicted"]["ms"] > 0


@pytest.mark.long
def test_the_regret_of_every_choice(tmp_path: Path) -> None:
    """Each kernel that takes a problem runs under its own name; the goals stand in the summary."""
    path = tmp_path / "run.json"
    words = ["--backend", "cuda", "--paths", "--rounds", "2", "--seconds", "0"]
    done = run("run.py", *words, "--json", str(path), CUDML_LOG="debug")
    for row in rows_of(path)["rows"]:
        assert len(row["paths"]) > 1 and row["regret"] >= 1
        for kernel in row["paths"]:
            assert f" kernel={kernel} " in done.stderr
    assert "mean (1.03)" in done.stdout and "worst (1.15)" in done.stdout


@pytest.mark.long
def test_the_step_of_the_validation(tmp_path: Path) -> None:
    path = tmp_path / "regret.json"
    done = run("validate_gpu/regret.py", CUDML_STEP_JSON=str(path))
    found = rows_of(path)
    assert not found["failures"] and not found["left"] and "13 max grad" in done.stdout
    assert "worst (1.15)" in found["summary"][0]
