"""What commands say in cases that need no command of their own to be run."""

from __future__ import annotations

import json

import pytest

import cudml
from cudml.__main__ import main
from cudml._cli import info, selfcheck


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
        (2, 1, "1 of 2 cases differ with the reference, 0.0 s"),
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
