"""What commands say in cases that need no command of their own to be run."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import io
import json
import platform
import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from cudml.__main__ import main
from cudml._cli import config, info, selfcheck, streams
from cudml._cli.call import Call, Measured, holds_arrays, measure
from cudml._cli.numbers import is_number
from cudml._cli.progress import Progress
from cudml.bounds import Comparison


def outcome(cases: int, mismatches: int) -> selfcheck.Outcome:
    found = [{"case": f"padding/int8/{n}", "call": "c", "message": "m"} for n in range(mismatches)]
    return selfcheck.Outcome("cpu", "padding", ["int8"], cases=cases, mismatches=found)


@pytest.mark.parametrize(("wrong", "more"), [(0, 0), (3, 0), (4, 1), (9, 6)])
def test_three_mismatches_of_a_family_are_shown(wrong: int, more: int) -> None:
    line, *shown = selfcheck._lines(outcome(20, wrong), 7)
    assert ("MISMATCH" in line) is bool(wrong)
    again = [text for text in shown if "selfcheck --seed 7 --case padding/int8/" in text]
    assert len(again) == min(wrong, 3)
    rest = [f"  and {more} more; --json lists all"] if more else []
    assert shown[len(again) :] == rest


def test_summaries_of_selfcheck() -> None:
    for cases, wrong, said in (
        (1, 0, "the one case agrees with the reference, 0.0 s"),
        (2, 0, "all 2 cases agree with the reference, 0.0 s"),
        (2, 1, "1 of 2 cases differ from the reference, 0.0 s"),
    ):
        assert selfcheck._summary([outcome(cases, wrong)]) == said


def test_quick_is_a_part_of_everything() -> None:
    quick, every = (selfcheck._plan(is_quick, None) for is_quick in (True, False))
    assert quick.keys() == every.keys() == set(selfcheck.families())
    for family, (types, numbers) in quick.items():
        assert types == every[family][0] and set(numbers) < set(every[family][1])
        assert len(numbers) == 40


def test_the_seed_is_0_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selfcheck", "--json", "--case", "padding/uint8/1"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--shape 1,1,4,99999999999999999999 window_size=2",
            "has a description whose shape is 999",
        ),
        ("--shape 1,1,4,4 window_size=2 --device cuda:99", 'device is "cuda:99"'),
        ("--shape 1,1,4,4 colour=3", "NAME one of window_size, strides, start_padding,"),
    ],
)
def test_every_kind_of_refusal_is_a_line(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "max_pooling", *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and said in printed.err


def test_what_the_page_says_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = info.collect() | {"cpu_features": [], "libraries": {"numpy": "1"}}
    page = info._page(facts)
    assert "CPU features      none known" in page and "not found         nothing" in page
    assert f"version           {cudml.__version__}" in page


# --- calls as they are written ---


def test_calls_as_python_writes_them() -> None:
    """Arrays by their names, tuples of them too; the rest as literals, or as it is asked to be."""
    x, none = np.zeros((2, 3), np.float32), ()
    call = Call("f", {"x": x, "y": x}, (1, "edge"), {"axes": none, "scale": x, "sums": (x, x)})
    assert call.text() == 'f(x, y, 1, "edge", axes=(), scale=scale, sums=sums)'
    named = dataclasses.replace(call, shown={1: "mode"})
    assert named.text() == "f(x, y, 1, mode, axes=(), scale=scale, sums=sums)"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (22, ["padding(photo, 10, 20)"]),
        (21, ["padding(photo, 10,", "    20)"]),
        (18, ["padding(photo, 10,", "    20)"]),
        (17, ["padding(photo,", "    10, 20)"]),
        (1, ["padding(photo,", "    10,", "    20)"]),
    ],
)
def test_calls_are_broken_before_a_width(width: int, lines: list[str]) -> None:
    """The last column is used, and the first argument stays beside its bracket."""
    assert Call("padding", {"photo": np.zeros(1)}, (10, 20)).text(width).split("\n") == lines


def measured(**facts: Any) -> Measured:
    x, y = np.zeros((2, 3), np.float16), np.zeros((4, 5), np.float16)
    plain = {"ok": True, "largest_error": 0.0, "largest_bound_share": 0.0, "message": ""}
    verdict = Comparison(**{**plain, **facts})
    return Measured(Call("f", {"x": x}), (y,), 0.5, 10**9, verdict)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "exact"),
        ({"ok": False}, "MISMATCH"),
        ({"largest_error": 1.25e-7, "largest_bound_share": 0.005}, "error 1.2e-07, 0.01 of its"),
        ({"largest_error": 1.25e-7, "largest_bound_share": 0.004}, "error 1.2e-07, < 0.01 of its"),
    ],
)
def test_verdicts_of_measured_calls(facts: dict[str, Any], said: str) -> None:
    of = measured(**facts)
    assert of.verdict.removesuffix(" bound") == said
    assert of.shapes == "float16 2x3 -> 4x5" and of.rate == 2.0


@pytest.mark.parametrize(("budget", "runs"), [(0.0, 5), (12.0, 6), (1e9, 25)])
def test_how_often_a_call_is_measured(
    budget: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 5 times, at most 25 times, and within the seconds given; the median counts."""
    clock, times = [0.0], []

    def now() -> float:
        clock[0] += 1.0 if len(times) % 2 == 0 else 0.5 + len(times) % 4
        times.append(clock[0])
        return clock[0]

    monkeypatch.setattr(time, "perf_counter", now)
    of = measure(Call("padding", {"x": np.zeros(3)}, (1, 1)), budget)
    took = [end - begin for begin, end in zip(times[::2], times[1::2], strict=True)]
    assert len(took) == runs and of.seconds == np.median(took) < max(took)


def test_arrays_by_keywords_are_moved_too() -> None:
    x, scale = np.ones(6, np.float32), np.ones(1, np.float32)
    call = Call("mean_variance_normalization", {"x": x}, (), {"axes": 0, "scale": scale})
    assert measure(call, 0).moved == 4 * (6 + 1 + 6)


# --- what selfcheck says ---


def test_a_mismatch_names_the_call_and_what_it_was_given() -> None:
    """As it can be made again: arrays that have names keep them, and no numbers are printed."""
    x, b = np.zeros((2, 3), np.float32)[:, ::2], np.zeros((1, 2), np.float64)
    call = Call("normalize_grad", {"x": x}, (), {"bias": b, "mean": None, "sums": (b, b)})
    assert selfcheck._described(call) == (
        "normalize_grad(x, bias=bias, mean=None, sums=sums); x = float32[2, 2] strides [12, 8]; "
        "bias = float64[1, 2] strides [16, 8]; "
        "sums = float64[1, 2] strides [16, 8], float64[1, 2] strides [16, 8]"
    )


@pytest.mark.parametrize("family", selfcheck.families())
def test_cases_are_described_in_one_line(family: str) -> None:
    for number in range(20):
        call = selfcheck.case(family, "float32", number, 0)
        line = selfcheck._described(call)
        assert "\n" not in line and "array" not in line
        for name, value in call.kwargs.items():
            assert (f"{name}={name}" in line) is (f"{name} = " in line) is holds_arrays(value)


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (["float16", "int8", "uint8"], "float16 int8 uint8"),
        (["float32", *selfcheck.families()["padding"][-8:]], "float32 int8-uint64"),
    ],
)
def test_types_in_short(types: list[str], said: str) -> None:
    assert selfcheck._types(types) == said


def test_lines_and_sums_of_families() -> None:
    exact, rounded = outcome(20, 0), outcome(30, 0)
    rounded.largest_share, exact.seconds, rounded.seconds = 0.25, 1.5, 2.25
    assert " exact " in selfcheck._lines(exact, 0)[0]
    assert " 0.25 of bound " in selfcheck._lines(rounded, 0)[0]
    agreed = "all 50 cases agree with the reference, 3.8 s"
    assert selfcheck._summary([exact, rounded]) == agreed
    differ = "4 of 10 cases differ from the reference, 0.0 s"
    assert selfcheck._summary([outcome(5, 3), outcome(5, 1)]) == differ


def test_other_places_put_every_array_and_get_every_result() -> None:
    x = np.arange(4, dtype=np.float32)
    place = selfcheck.Backend("there", lambda a: a + 1, lambda a: a.tolist())
    given = {"scale": np.ones(1, np.float32), "use_mean": False, "use_variance": False}
    of = Call("mean_variance_normalization", {"x": x}, (), {"axes": 0, **given})
    assert place.run(of) == [2.0, 4.0, 6.0, 8.0]
    pairs = place.run(Call("max_pooling", {"x": x}, (2,), {"axes": 0, "return_indices": True}))
    assert pairs == ([2.0, 3.0, 4.0], [1, 2, 3])


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cases, two of one family."""
    families = {"padding": ["int8", "uint8"], "padding_grad": ["float32"]}
    monkeypatch.setattr(selfcheck, "families", lambda: families)
    monkeypatch.setattr(selfcheck, "_QUICK_CASES", 1)
    monkeypatch.setattr(selfcheck, "_CASES", 2)


def test_json_of_a_mismatch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few(monkeypatch)
    monkeypatch.setattr(cudml, "padding", lambda *args, **kwargs: 1 / 0)
    monkeypatch.setattr(selfcheck, "left_out", lambda: {"int2": "it is too small"})
    seeds = []
    right = selfcheck.case
    monkeypatch.setattr(selfcheck, "case", lambda *a: (seeds.append(a[3]), right(*a))[1])
    for words, quick, cases in (([], False, (4, 2)), (["--quick"], True, (2, 1))):
        assert main(["selfcheck", "--json", "--seed", "6", *words]) == 1
        facts = json.loads(capsys.readouterr().out)
        assert (facts["ok"], facts["quick"], facts["seed"]) == (False, quick, 6)
        assert facts["left_out"] == {"int2": "it is too small"}
        padding, gradient = facts["results"]
        assert (padding["cases"], gradient["cases"]) == cases
        assert len(padding["mismatches"]) == cases[0] and not gradient["mismatches"]
        assert padding["mismatches"][-1]["case"] == f"padding/uint8/{cases[0] // 2 - 1}"
        assert 0 < gradient["seconds"] < 60
    assert set(seeds) == {6}


def test_the_largest_share_of_a_family_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(0, 0)
    shares = iter((0.25, 0.75, 0.5))
    monkeypatch.setattr(
        selfcheck.bounds, "compare", lambda *given: Comparison(True, 0.0, next(shares), "")
    )
    for number in range(3):
        call = selfcheck.case("padding", "int8", number, 0)
        selfcheck._check(selfcheck.Backend("cpu"), found, call, "int8", number)
    assert (found.cases, found.largest_share) == (3, 0.75)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CLEAR = "\r\x1b[K"


def test_the_bar_counts_and_makes_room_for_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    assert selfcheck.run(True, True, 0, None) == 0 and screen.getvalue()  # lines are elsewhere
    monkeypatch.setattr("sys.stdout", screen)
    assert selfcheck.run(True, False, 0, None) == 0
    drawn = screen.getvalue()
    for n, what in enumerate(("padding int8", "padding uint8", "padding_grad float32")):
        bar = "#" * (8 * n) + "-" * (24 - 8 * n)  # a StringIO has no encoding
        assert f"{CLEAR}{bar} {n}/3 cpu {what}" in drawn
    for line in ("cpu  padding ", "cpu  padding_grad ", "all 3 cases agree"):
        assert f"{CLEAR}{line}" in drawn


@pytest.mark.parametrize(("encoding", "bar"), [("utf-8", "━·"), ("ascii", "#-")])
def test_the_bar_is_of_what_the_terminal_can_show(encoding: str, bar: str) -> None:
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding)
    screen.isatty = lambda: True  # type: ignore[method-assign]
    with Progress(2, screen) as progress:
        progress.step("one")
        progress.step("two")
    drawn = raw.getvalue().decode(encoding)
    whole, none = bar[0] * 12 + bar[1] * 12, bar[1] * 24
    assert drawn == f"{CLEAR}{none} 0/2 one{CLEAR}{whole} 1/2 two{CLEAR}"


# --- the rest ---


def test_where_a_distribution_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's are named after the toolkit; the first that is there tells."""

    def version(name: str) -> str:
        if name in there:
            return there[name]
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    for name in ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x"):
        there = {name: "14.0", "numpy": "2.0"}
        facts = info.collect()
        assert facts["libraries"]["cupy"] == "14.0" and facts["libraries"]["jax"] is None
        rows = {line[:18].strip(): line[18:] for line in info._page(facts)}
        assert rows["libraries"] == "numpy 2.0, cupy 14.0"
        assert rows["not found"] == "ml_dtypes, matplotlib, torch, jax, numba"
        assert rows["Python"].split()[0] == platform.python_version()


@pytest.mark.parametrize(
    ("places", "built", "rows"),
    [
        (["sm_80"], True, [("CUDA", "built in, toolkit 12.8, for sm_80")]),
        ([], True, [("CUDA", "built in, toolkit 12.8")]),
        ([], False, [("CUDA", "not built in: w"), ("devices", "cpu")]),
    ],
)
def test_what_the_page_says_of_cuda(places: list[str], built: bool, rows: list[Any]) -> None:
    cuda = {"built": built, "toolkit": "12.8", "architectures": places, "why": "w", "devices": []}
    assert info._cuda(cuda) == [*rows, ("devices", "cpu; no GPU: w")][:2]


def test_the_instruction_set_in_use() -> None:
    facts = {"instruction_sets": ["base", "v3", "v4"], "instruction_set": "v3"}
    assert info._sets(facts) == "base, v3, v4 built; v3 in use"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        *(("0", True), ("007", True), ("9" * 640, True)),
        *(("9" * 641, False), ("", False), ("-1", False), ("1.0", False), ("1_0", False)),
        *(("\u0663", False), ("\u00bd", False), ("\u00b2", False)),
    ],
    ids=ascii,
)
def test_whole_numbers(text: str, is_one: bool) -> None:
    """Digits alone, and no more of them than int() reads under its lowest limit."""
    assert is_number(text) is is_one


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (FileNotFoundError(2, "No such file", "a.png"), "a.png: No such file"),
        (FileNotFoundError(2, "No such file", b"a\xe9"), "a\udce9: No such file"),
        (OSError("in words"), "in words"),
        (OSError(), "OSError"),
    ],
)
def test_what_the_system_said(error: OSError, said: str) -> None:
    assert streams.reason(error) == said


@pytest.mark.parametrize("missing", ["include/cudml/cudml.h", "lib/libcudml.so.0", ""])
def test_config_of_a_folder(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its name is quoted for the shell, and what is not whole is refused."""
    root = tmp_path / "a folder"
    monkeypatch.setattr(config, "PREFIX", root)
    for name in ("include/cudml/cudml.h", "lib/libcudml.so.0"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if name != missing:
            (root / name).touch()
    status = main(["config", "--libs", "--includes"])
    said = capsys.readouterr()
    if missing:
        assert (status, said.out) == (2, "") and f"{root / missing} is missing" in said.err
        return
    flags = [shlex.split(line) for line in said.out.splitlines()]
    assert status == 0 and flags == [
        [f"-I{root}/include", f"-I{root}/include/cudml"],
        [f"-L{root}/lib", "-l:libcudml.so.0", f"-Wl,-rpath,{root}/lib"],
    ]


def test_config_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 2
    assert "give one of --cmake-dir, --includes, --libs\n" in capsys.readouterr().err
