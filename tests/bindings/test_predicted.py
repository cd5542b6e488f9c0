"""The time that `python -m cudml explain` predicts for an H100, and what it says bounds it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import cudml
from cudml.__main__ import main
from cudml._cli import predicted

TOOLS = Path(__file__).resolve().parents[2] / "tools"
NORM = "mean_variance_normalization --dtype float32 axes=1 --shape"
FAMILIES = ("pool", "winners", "max_pool_grad", "average_pool_grad", "lp_pool_grad", "unpool",
            "pad", "pad_grad", "mvn", "mvn_grad", "statistics", "merge", "normalize")  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], words: str, device: str = "sm_90") -> str:
    assert main(["explain", *words.split(), "--device", device]) == 0
    return capsys.readouterr().out


def of(capsys: pytest.CaptureFixture[str], words: str) -> Any:
    return json.loads(said(capsys, f"{words} --json"))["predicted"]


def explained(**changes: Any) -> cudml.Explanation:
    """A row kernel of 32-bit elements that has a block for each multiprocessor."""
    facts = {"operator": "o", "device": "sm_90", "kernel": "mvn_warp", "reason": "", "bytes": 8000,
             "workspace_bytes": 0, "grid": (132, 1, 1), "block": (64, 1, 1)}  # fmt: skip
    return cudml.Explanation(**{**facts, **changes})


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, list[float]]]:
    """Enough on their way, and ten instructions an element."""
    made = {"mvn_warp_kernel": {"4": [predicted.NEEDED, 10.0], "8": [predicted.NEEDED / 2, 20.0]}}
    monkeypatch.setattr(predicted, "codes", lambda: made)
    return made


def test_the_bounds_by_hand(code: Any) -> None:
    """3 TB/s for all bytes; 29.6 T instructions a second for 1000 elements; one launch."""
    p = predicted.predicted(explained(), 4, 4000)
    assert p is not None
    assert p.memory == p.latency == pytest.approx(8000 / 3e12)
    assert p.issue == pytest.approx(1000 * 10 / 29.6e12)
    assert p.launch == 2e-6 and p.bound == "launch"
    assert p.seconds == pytest.approx(2e-6 + 8000 / 3e12)


def test_what_bounds_is_the_longest(code: Any) -> None:
    def bound(size: int = 80_000_000, **changes: Any) -> str:
        p = predicted.predicted(explained(bytes=size, **changes), 4, size // 2)
        assert p is not None
        return p.bound

    assert bound() == "memory"
    assert bound(8000) == "launch"
    code["mvn_warp_kernel"]["4"] = [predicted.NEEDED / 2, 10.0]
    assert bound() == "latency"
    code["mvn_warp_kernel"]["4"] = [predicted.NEEDED, 1000.0]
    assert bound() == "issue"


def test_few_blocks_leave_multiprocessors_idle(code: Any) -> None:
    p, few = (predicted.predicted(explained(grid=(n, 1, 1)), 4, 4000) for n in (132, 33))
    assert p is not None and few is not None
    assert few.latency == pytest.approx(4 * p.latency)
    assert few.issue == pytest.approx(4 * p.issue) and few.memory == p.memory


def test_elements_of_another_size_take_their_own_kernel(code: Any) -> None:
    p = predicted.predicted(explained(), 8, 4000)
    assert p is not None
    assert p.latency == pytest.approx(2 * p.memory)
    assert p.issue == pytest.approx(500 * 20 / 29.6e12)


def test_each_launch_counts() -> None:
    split = predicted.predicted(explained(kernel="mvn_split"), 4, 4000)
    assert split is not None and split.launch == pytest.approx(3 * 2e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_choice_has_a_model(family: str) -> None:
    code = predicted.codes()
    for kernel in cudml.kernels(family):
        assert set(predicted.functions_of(kernel.name)) <= set(code), kernel.name


def test_the_model_is_of_the_budget() -> None:
    sys.path.insert(0, str(TOOLS))
    import code_budget

    codes = code_budget.load(code_budget.BUDGET.read_text())
    assert code_budget.MODEL.read_text() == code_budget.model(codes)


def test_the_command_says_it_is_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, f"{NORM} 8192,4096")
    first, second = text.splitlines()[-2:]
    assert first.startswith("  predicted  ") and f" us on an {predicted.NAME}, bound by " in first
    assert second.endswith("by a model of the machine code: nothing was measured")
    for bound in ("memory", "issue", "latency", "launch"):
        assert f"{bound} " in first


def test_more_rows_take_longer(capsys: pytest.CaptureFixture[str]) -> None:
    """All bytes of four times as many rows, and of rows alone: the output is as long as they."""
    few, many = (of(capsys, f"{NORM} {n},4096") for n in (8192, 32768))
    assert many["memory"] == pytest.approx(4 * few["memory"])
    assert few["memory"] == pytest.approx(2 * 8192 * 4096 * 4 / 3e12)
    assert many["issue"] == pytest.approx(4 * few["issue"])
    assert few.keys() == {f.name for f in dataclasses.fields(predicted.Prediction)}


@pytest.mark.parametrize("device", ["cpu", "sm_80", "sm_120"])
def test_other_devices_have_no_model(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "predicted" not in said(capsys, f"{NORM} 64,64", device)
    assert "predicted" not in said(capsys, f"{NORM} 64,64 --json", device)


def test_nothing_to_do_has_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert "predicted" not in said(capsys, f"{NORM} 0,64")
