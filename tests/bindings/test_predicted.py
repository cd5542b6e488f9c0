"""The time that `python -m cudml explain` predicts for an H100, and what it says bounds it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
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


def test_elements_of_no_kernel_s_size_go_through_the_nearest(code: Any) -> None:
    """As many of its own elements as have their bytes: four of one byte are one of four."""
    p = predicted.predicted(explained(), 1, 4000)
    assert p is not None and p.issue == pytest.approx(1000 * 10 / 29.6e12)


@pytest.mark.parametrize(
    ("kernel", "made", "instructions"),
    [
        ("mvn_split", {"mvn_split_moments": 64, "mvn_join": 1, "mvn_split_apply": 128}, 4),
        ("normalize_columns", {"normalize_cell": 1, "mvn_column_apply": 64}, 2),
        ("statistics_rows", {"mvn_warp": 64, "statistics_store": 1}, 1),
        ("pool_separable", {"pool_separable": 64}, 0),
        ("unpool_generic", {"unpool_clear": 96, "unpool_claim": 64, "unpool_fetch": 128}, 7),
        ("mvn_rows", {"mvn_warp": 1}, 1),
    ],
)  # fmt: skip
def test_which_launches_count(
    kernel: str, made: dict[str, int], instructions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those of a few numbers wait for the memory, the worst of them; what stores few has
    few instructions. A kernel has 32 bytes on their way at the least."""
    code = {f"{n}_kernel": {"4": [b, 2.0**i]} for i, (n, b) in enumerate(made.items())}
    monkeypatch.setattr(predicted, "codes", lambda: code)
    p = predicted.predicted(explained(kernel=kernel), 4, 4000)
    least = 32 if kernel == "mvn_rows" else 64
    assert p is not None and p.latency == pytest.approx(p.memory * predicted.NEEDED / least)
    assert p.issue == pytest.approx(1000 * instructions / 29.6e12)
    assert p.launch == pytest.approx(2e-6 * len(made))
    longest = max(p.memory, p.latency, p.issue)
    assert p.seconds == pytest.approx(longest + p.launch)


def test_the_longest_and_the_launches_are_the_whole(code: Any) -> None:
    """Launches are not among what is hidden behind another."""
    for in_flight, instructions in ((2.0, 10.0), (0.25, 10.0), (2.0, 1e5)):
        code["mvn_warp_kernel"]["4"] = [predicted.NEEDED * in_flight, instructions]
        p = predicted.predicted(explained(bytes=80_000_000), 4, 40_000_000)
        assert p is not None and p.launch < p.memory != p.latency
        assert p.seconds == p.launch + max(p.memory, p.latency, p.issue)


def test_times_are_shown_in_microseconds() -> None:
    shown = str(predicted.Prediction(5.25e-6, "memory", 3.25e-6, 1e-6, 2e-6, 2e-6))
    time = "5.25 us on an H100, bound by memory (memory 3.25, issue 1, latency 2, launch 2)"
    assert shown.splitlines()[0] == f"  predicted  {time}"


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_command_takes_its_own_elements_and_outputs(
    dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of their size, and as many bytes as are written."""
    found = of(capsys, f"mean_variance_normalization axes=1 --shape 64,4096 --dtype {dtype}")
    item = np.dtype(dtype).itemsize
    e = cudml.explain(
        "mean_variance_normalization", Bare((64, 4096), dtype), axes=1, device="sm_90"
    )
    assert found == dataclasses.asdict(predicted.predicted(e, item, 64 * 4096 * item))  # type: ignore[call-overload]


class Bare:
    """An array without memory; strides in bytes, of dimensions in this order, outermost first."""

    def __init__(self, shape: tuple[int, ...], dtype: str, order: tuple[int, ...] = ()) -> None:
        self.shape, self.dtype = shape, dtype
        strides, step = {}, 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
        for axis in reversed(order or range(len(shape))):
            strides[axis], step = step, step * shape[axis]
        self.strides = tuple(strides[axis] for axis in range(len(shape)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)])
def test_the_order_is_that_of_every_array(
    order: tuple[int, ...], dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x, grad = (Bare((2, 64, n, n), dtype, order) for n in (16, 8))
    words = "max_pooling_grad --shape 2,64,16,16 grad=2,64,8,8 window_size=2 strides=2 --json"
    words += f" --dtype {dtype} --order {','.join(map(str, order))}"
    for device in ("sm_80", "cpu"):
        e = cudml.explain("max_pooling_grad", x, grad, 2, 2, device=device)
        wanted = json.loads(json.dumps(dataclasses.asdict(e)))
        assert json.loads(said(capsys, words, device)) == wanted


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
