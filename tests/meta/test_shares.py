"""Shares of the suite: together they are all of it, and each has something of every test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import shares

ROOT = Path(__file__).resolve().parents[2]
CODE = r"""
import pytest

@pytest.mark.parametrize("b", range(4))
@pytest.mark.parametrize("a", range(5))
@pytest.mark.parametrize("backend", ["cpu", "simt"], indirect=True)
def test_many(a, b, backend): pass

@pytest.mark.parametrize("a", range(2))
def test_two(a): pass

for i in range(40):
    exec(f"@pytest.mark.parametrize('a', 'xyz')\ndef test_like_{i}(a): pass")

def test_one(): pass

for i in range(10):
    exec(f"@pytest.mark.long\ndef test_long_{i}(): pass")

@pytest.mark.whole
@pytest.mark.parametrize("a", range(7))
def test_whole(a): pass

@pytest.mark.parametrize("a", [
    pytest.param(i, marks=pytest.mark.decision(f"D-{i}")) for i in range(6)
])
def test_rules(a): pass

@pytest.mark.parametrize("a", [
    pytest.param((r, c), id=f"{r}{c}", marks=pytest.mark.cell(r, c)) for r in "xyz" for c in "uvw"
])
def test_cells(a): pass

@pytest.mark.device("cuda")
@pytest.mark.cell("x", "u")
def test_skipped_without_a_gpu(): pass

@pytest.fixture
def backend(request): return request.param
"""


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[pytest.Item]:
    """Those of CODE, as pytest collects them."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    found: list[pytest.Item] = []

    class Keeper:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            found.extend(items)

    file, settings = tmp_path / "test_code.py", tmp_path / "pytest.ini"
    file.write_text(CODE)
    settings.write_text("[pytest]\n")
    words = ["-q", "--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist", "--noconftest"]
    words += ["--import-mode=importlib"]
    pytest.main([*words, "-c", str(settings), str(file)], plugins=[Keeper()])
    assert len(found) == 40 + 2 + 3 * 40 + 1 + 10 + 7 + 6 + 9 + 1
    return found


def names(items: list[pytest.Item]) -> list[str]:
    return [item.name for item in items]


def test_shares_are_all_of_it(items: list[pytest.Item]) -> None:
    parts = [names(shares.chosen(items, shares.Share(k, 3))) for k in (1, 2, 3)]
    assert set().union(*parts) == set(names(items))
    for part in parts:
        of_many = [name for name in part if name.startswith("test_many")]
        assert 2 * (20 // 3) <= len(of_many) <= 2 * (20 // 3 + 1)
        assert part == [name for name in names(items) if name in part], "in their order"


def test_each_share_has_something_of_each_test(items: list[pytest.Item]) -> None:
    for k in (1, 2, 3, 4, 5):
        part = names(shares.chosen(items, shares.Share(k, 5)))
        tests = {n.partition("[")[0] for n in names(items) if not n.startswith("test_long")}
        assert {n.partition("[")[0] for n in part if not n.startswith("test_long")} == tests
        assert sum(name.startswith("test_long") for name in part) == 2
        assert sum(name.startswith("test_whole") for name in part) == 7
        assert sum(name.startswith("test_rules") for name in part) == 6, "each holds a rule alone"
        assert sum(name.startswith("test_cells") for name in part) == 9, "and each a cell"


def test_back_ends_stay_together(items: list[pytest.Item]) -> None:
    """The reference answers once for all of them."""
    part = names(shares.chosen(items, shares.Share(2, 3)))
    on = {b: {n.replace(b, "") for n in part if b in n} for b in ("cpu", "simt")}
    assert on["cpu"] == on["simt"] != set()


def test_a_share_follows_no_parameter(items: list[pytest.Item]) -> None:
    """A step through their product would meet the same values of one again and again."""
    for k in (1, 2, 3):
        part = names(shares.chosen(items, shares.Share(k, 3)))
        found = [n.removesuffix("]").split("-")[1:] for n in part if n.startswith("test_many")]
        assert len({a for a, _ in found}) >= 3
        assert len({b for _, b in found}) >= 3


def test_tests_with_the_same_variants_take_different_ones(items: list[pytest.Item]) -> None:
    part = names(shares.chosen(items, shares.Share(1, 3)))
    taken = Counter(n[-2] for n in part if n.startswith("test_like"))
    assert set(taken) == set("xyz") and min(taken.values()) >= 5


def test_everything(items: list[pytest.Item]) -> None:
    assert shares.chosen(items, shares.ALL) == items
    assert shares.ALL.part("abc") == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "1/3/2", "1/100", "a/b", "1/0", "-1/3"])
def test_no_share(text: str) -> None:
    with pytest.raises(pytest.UsageError, match=r"--share: .* is not K/N with 1 <= K <= N <= 99"):
        shares.parsed(text)


READER = """
import sys, pytest, shares

class Reader:
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session):
        pytest.exit(str(shares.of(session.config)), 0)

pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Reader()])
"""


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["tests"], "1/5"),
        ([], "1/5"),
        (["tests/pad"], "1/1"),
        (["-k", "pool"], "1/1"),
        (["-x", "--ignore=tests/pad"], "1/5"),
        (["tests", "--share", "2/5"], "2/5"),
        (["tests/pad", "--share", "3/3"], "3/3"),
    ],
)
def test_what_a_run_takes(words: list[str], want: str) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    before = [p for p in (os.environ.get("PYTHONPATH"),) if p]
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests" / "support"), *before])
    command = [sys.executable, "-c", READER, *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert f"Exit: {want}\n" in done.stdout + done.stderr, done.stdout + done.stderr
