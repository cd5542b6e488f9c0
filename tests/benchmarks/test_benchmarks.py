"""The benchmark suite: its table, its arithmetic, its rule for comparing, and a small run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from folders import ROOT
from harness import dtype_of

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
cases, compare, measure, mixed, plot, problems, report, rows, usual, verify = map(
    importlib.import_module,
    (
        *("cases", "compare", "measure", "mixed", "plot", "problems", "report", "rows"),
        *("usual", "verify"),
    ),
)
arrays_of, cudml_calls, numpy_calls = map(
    importlib.import_module,
    (
        "arrays",
        *("contenders.cudml_calls", "contenders.numpy_calls"),
    ),
)
sys.path.remove(str(BENCHMARKS))
Problem = Any

FULL = problems.problems()
FITTED = problems.problems(full=False)
HAS_BFLOAT16 = importlib.util.find_spec("ml_dtypes") is not None


def only(text: str, *, full: bool = True) -> Problem:
    found = [p for p in (FULL if full else FITTED) if text in p.name]
    assert len(found) == 1, [p.name for p in found]
    return found[0]


def test_every_case_is_there() -> None:
    assert sorted({case.number for case in cases.CASES}) == list(range(1, 90))
    assert {p.family for p in FULL} == set(problems.FAMILIES.values())


def test_names_are_unique() -> None:
    assert len({p.name for p in FULL}) == len(FULL)
    assert len({p.name for p in FITTED}) == len(FITTED)


def test_the_grid_of_usual_calls() -> None:
    """All of its problems have names of their own, in every type; none is the suite's."""
    grid = problems.problems(cases=usual.usual())
    assert len({p.name for p in grid}) == len(grid)
    assert min(p.case.number for p in grid) == 101
    assert {p.dtype for p in grid} == {"float16", "bfloat16", "float32", "float64"}
    single = {p.family for p in FULL if not p.case.step}
    assert {p.family for p in grid} == single
    assert [p.name for p in problems.problems(cases=usual.usual(), only="101*float64 L")] == [
        p.name for p in grid if p.case.number == 101 and p.dtype == "float64" and p.layout == "L"
    ]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("01 max 3x3/2, 1x64x112x112, float32 C", 4 * (64 * 112 * 112 + 64 * 56 * 56)),
        ("02 max+int64 3x3/2, 32x64x112x112, float16 C", 32 * 64 * 56 * 56 * (4 * 2 + 2 + 8)),
        ("05 max 3x3/2 ceil, 64x64x55x55, float16 C", 2 * 64 * 64 * (55 * 55 + 27 * 27)),
        ("08 max 3x3/1 dilated, 8x64x128x128, float32 C", 4 * 2 * 8 * 64 * 128 * 128),
        ("11 average grad 2x2/2, 64x256x56x56, float32 L", 4 * 64 * 256 * (56 * 56 + 28 * 28)),
        ("13 max grad 3x3/2, 32x64x112x112, float32 C", 4 * 32 * 64 * (2 * 112**2 + 56**2)),
        ("14 average global, 256x2048x7x7, float16 L", 2 * 256 * 2048 * 50),
        ("31 constant 1, 32x3x1024x1024, uint8 L", 32 * 3 * (1024**2 + 1026**2)),
        ("33 reflect, folding, 64x1000, float32 C", 4 * 64 * 9000),
        ("34 LayerNorm, 8192x768, float32 C", 4 * (2 * 8192 * 768 + 2 * 768)),
        ("40 GroupNorm+SiLU, 1x512x64x64, float16 L", 2 * (2 * 512 * 64 * 64 + 2 * 512)),
        ("46 RMSNorm, heads, 1x27030x24x128, bfloat16 C", 2 * (2 * 27030 * 24 * 128 + 128)),
        ("49 reflect 3 grad, 8x3x256x256, float16 C", 2 * 24 * (256**2 + 262**2)),
        ("48 max 2x2/2 images, 16x1024x1024x3, uint8 C", 16 * 3 * (1024**2 + 512**2)),
    ],
)
def test_compulsory_bytes(name: str, size: int) -> None:
    assert only(name).bytes == size


def described(problem: Problem) -> Any:
    """Arrays of the right shapes and types whose memory nobody touches."""
    in_order = ("scale", "bias", "dscale", "dbias", "mean", "variance")

    def empty(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        sizes = shape if name in in_order else [shape[a] for a in problem.memory_axes]
        return np.empty(sizes, dtype_of(dtype))

    kept = {**problem.inputs, **problem.outputs}
    return arrays_of.Arrays(problem, {name: empty(name, *of) for name, of in kept.items()})


def test_the_library_counts_the_same_bytes() -> None:
    for problem in FULL:
        if problem.dtype == "bfloat16" and not HAS_BFLOAT16:
            continue
        said = 0
        for call in described(problem).of_each_call():
            inputs, kwargs = cudml_calls.arguments(call)
            out = cudml_calls.outputs(call)
            op = call.problem.case.op
            said += cudml.explain(op, *inputs, **kwargs, out=out, device="cpu").bytes
        assert said == problem.bytes, problem.name


def test_problems_for_the_cpu_fit() -> None:
    for problem in FITTED:
        assert problem.bytes <= problems.MOST_BYTES, problem.name
        assert all(0 < n <= m for n, m in zip(problem.image, problem.full, strict=True))
    assert only("37 LayerNorm, wide, 16x262144, float32", full=False).shape == (16, 262144)
    assert only("45 RMSNorm+SiLU, channels, 1x96x4x480x832, float32 C", full=False).shape[1] == 96


def test_choice_of_problems() -> None:
    assert {p.case.number for p in problems.problems(only="7, 33")} == {7, 33}
    assert {p.case.number for p in problems.problems(only="07-9,83-85")} == {7, 8, 9, 83, 84, 85}
    assert {p.family for p in problems.problems(only="padding")} == {"padding"}
    assert {p.dtype for p in problems.problems(only="34*bfloat16")} == {"bfloat16"}
    assert problems.problems(only="no such case") == []


def test_spread_and_geometric_mean() -> None:
    found = measure.spread(range(1, 12))
    assert (found.median, found.p10, found.p90) == (6, 2, 10)
    assert measure.geometric_mean([1, 10, 100]) == pytest.approx(10)
    assert math.isnan(measure.geometric_mean([]))


def test_each_case_counts_once_in_a_mean() -> None:
    rows = [{"number": 1, "s": 1.0}, {"number": 1, "s": 4.0}, {"number": 2, "s": 8.0}]
    assert report.mean_of(rows, lambda row: row["s"]) == pytest.approx(4)
    assert report.mean_of(rows, lambda row: None) is None


def test_the_fastest_copy_of_all_visits_counts() -> None:
    seen = rows.Seen({}, {})
    for way, seconds in {"a": (1.0, 4.0, 4.0), "b": (3.0, 3.0, 3.0)}.items():
        seen.turns[measure.COPY + way] = measure.Turns(dict(enumerate(seconds)))
    seen.turns["cudml"] = measure.Turns({0: 1.0})
    assert rows.fastest_copy(seen) == measure.COPY + "b"


def test_layouts_are_compared_byte_by_byte() -> None:
    def row(layout: str, gb_s: float, threads: int = 1, size: int = 8) -> dict[str, Any]:
        named = {"name": f"case {layout}", "number": 1, "what": "case", "full": [size, 3]}
        run = {"dtype": "float32", "layout": layout, "threads": threads}
        return {**named, **run, "contenders": {"cudml": {"gb_s": gb_s}}}

    some = [row("C", 30.0), row("L", 20.0), row("C", 10.0, 2), row("L", 40.0, 2)]
    found = report.channels_last([*some, row("L", 1.0, size=9)])
    assert [(r["threads"], times) for r, times in found] == [(1, 1.5), (2, 0.25)]
    said = report.layouts(some)
    assert "0.61 times as long" in said[1] and said[2:] == ["  1.50  case L, 1 threads"]
    assert report.layouts([row("C", 1.0)]) == []


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("22 reflect 3, 8x3x256x256, float32 C", 0.85),
        ("31 constant 1, 32x3x1024x1024, uint8 L", 0.85),
        ("01 max 3x3/2, 32x64x112x112, float16 C", 0.85),
        ("01 max 3x3/2, 32x64x112x112, float16 L", None),
        ("01 max 3x3/2, 1x64x112x112, float16 C", None),  # stays in caches
        ("13 max grad 3x3/2, 32x64x112x112, float32 C", None),
        ("34 LayerNorm, 8192x1024, bfloat16 C", 0.75),
        ("34 LayerNorm, 8192x2048, bfloat16 C", 0.6),
        ("35 LayerNorm, 32x7x7x768, float16 L", 0.75),
        ("46 RMSNorm, heads, 1x27030x24x128, bfloat16 C", None),
    ],
)
def test_goals(name: str, goal: float | None) -> None:
    assert {p.name: p.goal for p in problems.problems(full=False)}[name] == goal


def test_rows_below_their_goal_are_counted() -> None:
    def row(share: float, goal: float | None, threads: int = 1) -> dict[str, Any]:
        shares = {"contenders": {"cudml": {"share": share}}}
        return {"family": "padding", "threads": threads, "goal": goal, **shares}

    some = [row(0.846, 0.85), row(0.844, 0.85), row(0.1, None), row(0.7, 0.85, 2)]
    assert [report.is_below_goal(r) for r in some] == [False, True, False, True]
    said = [line.split() for line in report.goals(some)[2:]]
    assert said == [["padding", "1", "2", "0.85", "1"], ["padding", "2", "1", "0.85", "1"]]
    assert report.goals([row(0.1, None)]) == []


def test_each_follows_every_other_and_turns_end() -> None:
    order: list[str] = []
    players = {name: (lambda n=name: order.append(n), 1.0) for name in "abc"}
    found = measure.interleaved(players, 30, 1e9, lambda call, count: call() or 1.0)
    assert all(sorted(order[k : k + 3]) == ["a", "b", "c"] for k in range(0, 90, 3))
    assert {a + b for a, b in pairwise(order) if a != b} == {"ab", "ac", "ba", "bc", "ca", "cb"}
    assert [len(turns.seconds) for turns in found.values()] == [30, 30, 30]


def test_slow_ones_take_fewer_turns() -> None:
    seconds = {"quick": 0.01, "slow": 0.05, "hopeless": 0.5}
    players = {name: (lambda: None, s) for name, s in seconds.items()}
    found = measure.interleaved(players, 15, 0.6, lambda call, count: 0.0, steady=("quick",))
    turns = {name: len(f.seconds) for name, f in found.items()}
    assert turns == {"quick": 15, "slow": 4, "hopeless": 1}


def test_visits_are_joined_round_by_round() -> None:
    """A contender that pauses in some rounds keeps meeting the copy of its own rounds."""
    copy, slow = measure.Turns({0: 1.0, 1: 2.0}), measure.Turns({0: 4.0})
    copy.add(measure.Turns({0: 3.0, 1: 5.0}), 2)
    slow.add(measure.Turns({0: 6.0}), 2)
    assert slow.seconds == {0: 4.0, 2: 6.0}
    assert measure.of_copy(slow, copy) == [1 / 4, 3 / 6]


def test_wrong_outputs_are_found() -> None:
    problem = only("33 reflect, folding")
    arrays = arrays_of.numpy_arrays(problem)
    call = cudml_calls.ways(arrays)["out="]
    call()
    assert verify.against_reference(arrays, np.asarray) == ""
    arrays.base["y"][-1, 17] += 1
    assert "expected" in verify.against_reference(arrays, np.asarray)
    arrays_of.poison(arrays.base["y"])
    assert verify.against_reference(arrays, np.asarray) == "elements were not written"


@pytest.mark.parametrize("text", ["07 max 5x5/1, 8x256x20x20, float16 L", "22 reflect 1, 8x256x64"])
def test_numpy_agrees(text: str) -> None:
    full = next(p for p in FULL if text in p.name)
    problem = problems.Problem(full.case, full.full, (2, 3, 9, 10), "float32", full.layout)
    arrays = arrays_of.numpy_arrays(problem)
    cudml_calls.ways(arrays)["out="]()
    own = arrays.logical("y").copy()
    for call in numpy_calls.ways(arrays).values():
        assert np.array_equal(arrays.from_memory(call()), own)


def run_of(*rows: tuple[str, float, float, float, float]) -> dict[str, Any]:
    """A made-up run: name, milliseconds, p10, median and p90 of the share."""
    names = ("ms", "share_p10", "share", "share_p90")
    return {
        "device": "some",
        "rows": [
            {
                "name": name,
                "number": k + 1,
                "threads": 1,
                "contenders": {"cudml": dict(zip(names, numbers, strict=True))},
            }
            for k, (name, *numbers) in enumerate(rows)
        ],
    }


OLD = run_of(
    ("same", 1.0, 0.78, 0.80, 0.82),
    ("slower", 1.0, 0.78, 0.80, 0.82),
    ("faster", 1.0, 0.48, 0.50, 0.52),
    ("little", 1.0, 0.799, 0.80, 0.801),
    ("noisy", 1.0, 0.60, 0.80, 0.90),
    ("unclear", 1.0, 0.78, 0.80, 0.82),
    ("gone", 1.0, 0.78, 0.80, 0.82),
)
NEW = run_of(
    ("same", 1.3, 0.77, 0.80, 0.83),  # the machine is slower, and the copy with it
    ("slower", 1.2, 0.65, 0.67, 0.69),
    ("faster", 0.6, 0.78, 0.80, 0.82),
    ("little", 1.04, 0.76, 0.77, 0.78),
    ("noisy", 1.2, 0.55, 0.66, 0.75),
    ("unclear", 0.9, 0.65, 0.67, 0.69),  # quicker, but the copy much more so
)


def test_comparison_of_runs() -> None:
    found = compare.changes(OLD, NEW)
    assert [c.name for c in found] == ["slower", "unclear", "faster"]
    assert [c.verdict for c in found] == ["SLOWER", "unclear", "faster"]
    assert "SLOWER   slower, 1 threads: time x 1.20" in found[0].line()
    assert compare.changes(OLD, OLD) == []
    assert any("only before: 1 rows, gone (1)" in line for line in compare.differences(OLD, NEW))


@pytest.mark.parametrize(
    ("new", "status"), [(NEW, 1), (OLD, 0), (run_of(), 2), ({**OLD, "after": "PyTorch"}, 2)]
)
def test_status_of_a_comparison(new: dict[str, Any], status: int, tmp_path: Path) -> None:
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, run in zip(paths, (OLD, new), strict=True):
        path.write_text(json.dumps(run))
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "compare.py"), *map(str, paths)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("run") / "run.json"
    words = [
        "--only",
        "33,39 *1280x8x8*float16 C",
        "--rounds",
        "2",
        "--seconds",
        "0",
        "--visits",
        "2",
        "--peers",
        "NumPy",
    ]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "run.py"), *words, "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(path.read_text())


@pytest.mark.long
def test_a_small_run(small_run: tuple[str, dict[str, Any]]) -> None:
    text, run = small_run
    measured = [(row["number"], row["threads"]) for row in run["rows"]]
    assert measured == [(33, 1), (33, 2), (39, 1), (39, 2)]
    for row in run["rows"]:
        own = row["contenders"]["cudml"]
        assert own["p10"] <= own["ms"] <= own["p90"] and own["turns"] == 2
        assert own["gb_s"] == pytest.approx(row["bytes"] / own["ms"] / 1e6, rel=1e-3)
        assert row["ceiling"]["ms"] > 0 and own["share"] > 0
        assert row["name"] in text
    for fact in ("device", "versions", "commit", "rounds", "others_cpus", "means"):
        assert fact in run
    assert run["rows"][0]["best_peer"] in run["rows"][0]["contenders"]


def test_a_plot_is_drawn(small_run: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("chart.svg", "chart.png"):
        plot.draw(small_run[1], 2, tmp_path / "new" / name)
        assert (tmp_path / "new" / name).stat().st_size > 5000
