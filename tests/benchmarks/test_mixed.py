"""Calls between another library's: a small run, buffers that take turns, calls without out=."""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from folders import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
arrays_of, cudml_calls, mixed, problems = map(
    importlib.import_module, ("arrays", "contenders.cudml_calls", "mixed", "problems")
)
sys.path.remove(str(BENCHMARKS))


def suite_problem(name: str) -> Any:
    (found,) = (p for p in problems.problems() if name in p.name)
    return found


@pytest.mark.long
def test_a_small_mixed_run(tmp_path: Path) -> None:
    """Calls after a sleep, alone, and how they compare; on buffers that take turns."""
    path = tmp_path / "mixed.json"
    words = ["--mixed", "sleep", "--only", "38*1x4096", "--peers", "none", "--threads", "2"]
    words += ["--rounds", "2", "--seconds", "0", "--visits", "1", "--json", str(path)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "run.py"), *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(path.read_text())
    (row,) = run["rows"]
    assert run["after"] == "sleep" and list(row["contenders"]) == ["cudml"]
    assert row["contenders"]["cudml"]["turns"] == row["alone"]["turns"] == 2
    times = row["contenders"]["cudml"]["ms"] / row["alone"]["ms"]
    assert row["times_alone"] == pytest.approx(times, rel=1e-3)
    assert f"{row['alone']['ms']:10.3f}{row['times_alone']:7.2f}" in done.stdout
    assert "as long as alone on 2 threads" in done.stdout


@pytest.mark.parametrize("name", [
    "02 max+int64 3x3/2, 32x64x112x112, float32 C", "52 LayerNorm grad, 8192x768, float32 C",
    "22 reflect 3, 8x3x256x256, float16 C",
])  # fmt: skip
def test_calls_that_return_new_arrays(name: str) -> None:
    """What they return is what the calls with out= write, and new each time."""
    whole = suite_problem(name)
    small = (2, 3, *whole.shape[2:]) if len(whole.shape) == 4 else (3, whole.shape[1])
    problem = problems.Problem(whole.case, whole.full, small, whole.dtype, whole.layout)
    arrays = arrays_of.numpy_arrays(problem)
    cudml_calls.ways(arrays)["out="]()
    (call,) = cudml_calls.returning(arrays).values()
    got = cudml_calls.returned(arrays, call())
    assert len(got) == len(arrays.results())
    for mine, want in zip(got, arrays.results(), strict=True):
        np.testing.assert_array_equal(mine, want)
        assert not np.shares_memory(mine, want)


def test_steps_have_no_calls_that_return_new_arrays() -> None:
    step = suite_problem("83 reflect 1 + grad, 8x256x64x64, float32 C")
    problem = problems.Problem(step.case, step.full, (1, 2, 64, 64), step.dtype, step.layout)
    assert cudml_calls.returning(arrays_of.numpy_arrays(problem)) == {}


def test_mixed_calls_go_on_to_the_next_buffers() -> None:
    device = mixed.MixedCpu(1 << 20, [], "sleep")
    problem = suite_problem("38 LayerNorm, decode, 1x4096")
    device.arrays(problem)
    used = [device._next(list(range(3))) for _ in range(4)]
    assert [(b - a) % 3 for a, b in itertools.pairwise(used)] == [1, 1, 1]
    memory = {id(s.base["x"]) for s in device._sets}
    assert len(memory) == len(device._sets) == mixed.MOST_SETS


def test_mixed_calls_that_stay_in_the_caches() -> None:
    device = mixed.MixedCpu(1 << 20, [], "sleep", in_caches=True)
    device.arrays(suite_problem("38 LayerNorm, decode, 1x4096"))
    assert len(device._sets) == len(device._predecessors._pairs) == 1
    x, y = device._predecessors._pairs[0]
    assert x.nbytes + y.nbytes == mixed.LEAST_BYTES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mixed", "PyTorch", "--peers", "NumPy"], "--mixed PyTorch: --peers leaves it out"),
        (["--mixed", "--backend", "cuda"], "--mixed: on a GPU"),
        (["--in-caches"], "--in-caches goes with --mixed"),
    ],
)
def test_modes_that_are_not_there(words: list[str], said: str) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(BENCHMARKS / "run.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr
