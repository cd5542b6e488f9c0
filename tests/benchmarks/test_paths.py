"""Forcing paths in the benchmark suite: which ones run, what is checked, and the arithmetic."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from folders import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
arrays_of, compare, paths, report, problems = map(
    importlib.import_module, ("arrays", "compare", "paths", "paths_report", "problems")
)
sys.path.remove(str(BENCHMARKS))
FORCE = "CUDML_KERNEL"


def small(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """A problem of the suite on another shape, and its arrays."""
    full = next(p for p in problems.problems() if name in p.name)
    problem = problems.Problem(full.case, full.full, shape, dtype, full.layout)
    return arrays_of.numpy_arrays(problem)


@pytest.fixture
def threads() -> Any:
    before = cudml.get_num_threads()
    yield cudml.set_num_threads
    cudml.set_num_threads(before)


SMALL = [
    ("01 max 3x3/2, 1x64x112x112, float32 C", (2, 3, 9, 33)),
    ("02 max+int64 3x3/2, 32x64x112x112, float32 C", (2, 3, 9, 33)),
    ("11 average grad 2x2/2, 64x256x56x56, float32 C", (2, 3, 8, 32)),
    ("13 max grad 3x3/2, 32x64x112x112, float32 C", (2, 3, 9, 33)),
    ("22 reflect 1", (2, 3, 9, 40)),
    ("39 GroupNorm+SiLU, 2x320x64x64, float16 L", (2, 4, 8, 5, 6)),
]


@pytest.mark.parametrize(("name", "shape"), SMALL, ids=lambda v: v if isinstance(v, str) else "")
def test_every_path_that_takes_a_problem_is_found_and_right(
    name: str, shape: tuple[int, ...]
) -> None:
    arrays = small(name, shape)
    chosen, names = paths.paths_of(arrays)
    family = [path.name for path in cudml.kernels(paths.family_of(arrays.problem), device="cpu")]
    assert names == [path for path in family if path in names]
    assert names[-1] == family[-1] and names[0] == chosen
    forced = [paths.Forced(path, paths.cudml_calls.ways(arrays)["out="]) for path in names]
    seconds = paths.first_calls(arrays.problem, forced, arrays)
    assert list(seconds) == names and min(seconds.values()) > 0
    assert FORCE not in os.environ


def test_what_was_forced_before_is_forced_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCE, "pad/plain")
    arrays = small("22 reflect 1", (2, 3, 9, 40))
    chosen, names = paths.paths_of(arrays)
    assert chosen != "pad/plain" and names[-1] == "pad/plain"
    assert os.environ[FORCE] == "pad/plain"


def wrong_call(arrays: Any, by: float, name: str = "y") -> Any:
    right = paths.cudml_calls.ways(arrays)["out="]

    def call() -> None:
        right()
        if os.environ[FORCE].endswith("/plain"):
            arrays.base[name].reshape(-1)[-1] += by

    return call


@pytest.mark.parametrize(
    ("name", "shape", "by", "said"),
    [
        ("22 reflect 1", (2, 3, 9, 40), 1e-6, "other bits of y"),
        ("02 max+int64 3x3/2, 32x64x112x112, float32 C", (2, 3, 9, 33), 1, "other bits of y"),
        ("34 LayerNorm, 8192x768, float32 C", (5, 768), 1e-2, "expected"),
    ],
)
def test_paths_that_differ_are_named(
    name: str, shape: tuple[int, ...], by: float, said: str
) -> None:
    arrays = small(name, shape)
    _, names = paths.paths_of(arrays)
    call = wrong_call(arrays, by)
    with pytest.raises(AssertionError, match=f"{names[-1]}: .*{said}"):
        paths.first_calls(arrays.problem, [paths.Forced(n, call) for n in names], arrays)


def test_indices_count() -> None:
    arrays = small("02 max+int64 3x3/2, 32x64x112x112, float32 C", (2, 3, 9, 33))
    _, names = paths.paths_of(arrays)
    call = wrong_call(arrays, 1, "indices")
    with pytest.raises(AssertionError, match="other bits of indices"):
        paths.first_calls(arrays.problem, [paths.Forced(n, call) for n in names], arrays)


def test_other_bits_within_the_bounds_are_right() -> None:
    """Sums may be rounded in another way; an element that is not written is wrong all the same."""
    arrays = small("34 LayerNorm, 8192x768, float32 C", (5, 768))
    _, names = paths.paths_of(arrays)
    forced = [paths.Forced(n, wrong_call(arrays, 1e-7)) for n in names]
    assert list(paths.first_calls(arrays.problem, forced, arrays)) == names
    forced = [paths.Forced(n, wrong_call(arrays, np.nan)) for n in names]
    with pytest.raises(AssertionError, match="not written"):
        paths.first_calls(arrays.problem, forced, arrays)


# --- the arithmetic, on made-up numbers ---


def rounds(*seconds: float) -> dict[int, float]:
    return dict(enumerate(seconds))


def test_times_are_compared_round_by_round() -> None:
    """The machine slows down in the last two rounds, of which one path has no turn."""
    assert report.times_as_long(rounds(2.0, 2.0, 8.0, 8.0), {0: 1.0, 2: 4.0}) == 2
    assert report.times_as_long({1: 6.0}, {0: 2.0}) == 3


def test_gains_and_regret() -> None:
    seconds = {
        "pool/a": rounds(2.0, 2.0, 4.0),
        "pool/b": rounds(1.0, 1.0, 2.0),
        "pool/plain": {0: 12.0},
    }
    found = report.measured("pool/a", seconds)
    assert (found["chosen"], found["fastest"], found["regret"]) == ("pool/a", "pool/b", 2)
    assert [p["over_plain"] for p in found["paths"].values()] == [6, 12, 1]
    assert [p["next"] for p in found["paths"].values()] == ["pool/b", "pool/plain", ""]
    assert [p["over_next"] for p in found["paths"].values()] == [0.5, 12, None]
    assert [p["turns"] for p in found["paths"].values()] == [3, 3, 1]
    assert found["paths"]["pool/a"]["ms"] == 2000
    level = report.measured("pool/a", {"pool/b": rounds(1.0), "pool/a": rounds(1.0)})
    assert (level["fastest"], level["regret"]) == ("pool/a", 1)


def made_up(number: int, threads: int, chosen: str, **seconds: float) -> dict[str, Any]:
    times = {f"pool/{name}": rounds(s) for name, s in seconds.items()}
    named = {"name": f"{number:02d} case", "number": number, "shape": [number], "full": [1]}
    return {**named, "threads": threads, **report.measured(f"pool/{chosen}", times)}


ROWS = [
    made_up(1, 1, "a", a=1.0, b=4.0, plain=8.0),
    made_up(2, 1, "a", a=1.0, plain=1.0),
    made_up(3, 1, "b", b=2.0, plain=1.0),
    made_up(1, 2, "b", b=1.0, plain=1.08),
]


def test_what_paths_earn() -> None:
    names = ["pool/a", "pool/b", "pool/c", "pool/plain"]
    found = report.earned(ROWS, names)
    assert list(found) == names
    counts = {n[5:]: (f.applicable, f.chosen, f.fastest) for n, f in found.items()}
    assert counts == {"a": (2, 2, 2), "b": (3, 2, 1), "c": (0, 0, 0), "plain": (4, 0, 1)}
    assert found["pool/a"].most == (4, "01 case, 1 threads")
    assert found["pool/b"].gains == [(0.5, "03 case, 1 threads"), (1.08, "01 case, 2 threads")]
    assert report.idle(found) == ["pool/b", "pool/c (never)"]


def test_the_summary() -> None:
    said = "\n".join(report.summary(ROWS))
    words = [line.split() for line in said.splitlines()]
    assert ["pool", "1", "3", "1.260", "2.00", "1"] in words  # the cubic root of 2
    assert ["all", "2", "1", "1.000", "1.00", "0"] in words
    assert ["pool/a", "2", "2", "2", "2.00", "4.00", "01", "case,", "1", "threads"] in words
    assert ["pool/plain", "4", "0", "1"] in words
    above = said.split("Regret above 1.10:\n")[1]
    assert above.startswith("  03 case") and above.count("\n") == 0
    assert above.endswith("b 0.50, plain 1.00")
    assert "Regret above" not in "\n".join(report.summary(ROWS[:1]))


def test_runs_are_joined() -> None:
    """In the order of the cases; of a row that is in both, the later run's."""
    again = made_up(2, 1, "plain", plain=1.0)
    rows = report.joined([{"rows": [ROWS[2], ROWS[1]]}, {"rows": [again]}])
    assert [(row["number"], row["chosen"]) for row in rows] == [(2, "pool/plain"), (3, "pool/b")]


def test_runs_are_compared() -> None:
    new = [made_up(1, 1, "b", a=1.0, b=4.0, plain=8.0), made_up(3, 1, "b", b=1.0, plain=1.0)]
    assert report.changes(ROWS, [ROWS[1], *new]) == [
        "01 case, 1 threads: pool/a -> pool/b, regret 1.00 -> 4.00",
        "03 case, 1 threads: pool/b, regret 2.00 -> 1.00",
        "3 rows: mean regret 1.260 -> 1.587",
    ]


# --- runs ---


def run(script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **variables},
    )


def test_gains_that_are_stated_are_measured() -> None:
    """Each that names a problem stands in the tables of single calls, as that of its path in its
    row, and every path that gains there what it must says so."""
    tables = [BENCHMARKS / "results" / f"cpu_zen5_{name}.json" for name in ("paths", "usual_paths")]
    rows = [row for table in tables for row in json.loads(table.read_text())["rows"]]
    single = [row for row in rows if row["threads"] == 1]
    families = dict.fromkeys(map(paths.family_of, problems.problems()))
    listed = {k.name: k.gain for f in families for k in cudml.kernels(f, device="cpu")}
    stated = {name: gain for name, gain in listed.items() if gain}
    for name, gain in stated.items():
        times, where = gain.split(" in ", 1)
        if not where[0].isdigit():
            continue  # a call of its own
        found = [row["paths"][name]["over_next"] for row in single
                 if row["name"] == where and row["chosen"] == name]  # fmt: skip
        assert times in [f"{one:.3g}" for one in found], (name, gain, found)
    earned = report.earned(single)
    most = {name: one.most[0] for name, one in earned.items()}
    gains = {name for name, gain in most.items() if gain >= report.LEAST_GAIN}
    assert gains & {*listed} <= {*stated}


@pytest.mark.long
def test_a_small_run(tmp_path: Path) -> None:
    """Each path of the table has run under its own name, says the library's log."""
    path, only = tmp_path / "run.json", "38*8x8192,33"
    words = ["--paths", "--only", only, "--rounds", "2", "--seconds", "0", "--visits", "2"]
    done = run("run.py", *words, "--json", str(path), CUDML_LOG="debug")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    found = json.loads(path.read_text())
    rows = {(row["number"], row["threads"]): row for row in found["rows"]}
    expected = [33, 38] if importlib.util.find_spec("ml_dtypes") else [33]
    assert list(rows) == [(n, t) for n in expected for t in (1, 2)]
    ran = set(re.findall(r" kernel=(\S+) ", done.stderr))
    for row in rows.values():
        assert {row["chosen"], row["fastest"]} <= set(row["paths"]) <= ran & {*found["listed"]}
        assert row["name"] in done.stdout and row["regret"] >= 1
        for one in row["paths"].values():
            assert one["p10"] <= one["ms"] <= one["p90"]
            assert one["next"] in (*row["paths"], "")
    assert len(rows[33, 1]["paths"]) == 1 or rows[33, 1]["paths"]["pad/plain"]["turns"] == 2
    again = run("paths_report.py", str(path))
    assert again.returncode == 0 and "path" in again.stdout
    for row in rows.values():
        assert report.line(row)[:76] in again.stdout
    other = run("compare.py", str(path), str(path))
    assert other.returncode == 2 and "paths_report.py" in other.stderr


def test_a_mode_that_is_not_there() -> None:
    done = run("run.py", "--paths", "--mixed", "sleep")
    assert done.returncode == 2 and "--paths: not between" in done.stderr
