"""The time that the model predicts for a case of the suite, and its table beside measurements."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import cudml
from folders import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
arrays_of, predictions, problems, report = map(
    importlib.import_module, ("arrays", "predictions", "problems", "report")
)
sys.path.remove(str(BENCHMARKS))
SUITE = sorted(
    (p for p in problems.problems(full=False) if p.dtype != "bfloat16"), key=lambda p: p.bytes
)


@pytest.mark.parametrize("op", sorted({p.case.op for p in SUITE}))
def test_each_operator_has_a_prediction(op: str) -> None:
    """No shorter than its launch and its bytes at the speed of a copy."""
    problem = next(p for p in SUITE if p.case.op == op)
    found = predictions.of(arrays_of.numpy_arrays(problem))
    assert found["ms"] > 2e-3 and found["bound"] in ("memory", "issue", "latency", "launch")
    assert found["ms"] > problem.bytes / 3.1e12 * 1e3


def test_a_row_by_hand() -> None:
    """LayerNorm: its explanation, its output's bytes and its element's size."""
    problem = next(p for p in SUITE if p.case.op == "mean_variance_normalization")
    arrays = arrays_of.numpy_arrays(problem)
    inputs, kwargs = predictions.cudml_calls.arguments(arrays)
    said = cudml.explain(problem.case.op, *inputs, device="sm_90", **kwargs)
    written = sum(arrays.base[name].nbytes for name in problem.outputs)
    want = predictions.predicted.predicted(said, arrays.base["x"].itemsize, written)
    assert predictions.of(arrays)["ms"] == pytest.approx(want.seconds * 1e3)


def row(name: str, measured: float, ms: float | None) -> dict[str, Any]:
    model = {} if ms is None else {"predicted": {"gpu": "H100", "ms": ms, "bound": "memory"}}
    return {"name": name, "contenders": {"cudml": {"ms": measured}}, **model}


def test_the_table_names_the_largest_distance_first() -> None:
    """Rows of a processor have no prediction and are left out."""
    said = predictions.lines([row("near", 1.1, 1.0), row("far", 3.0, 1.5), row("cpu", 1.0, None)])
    assert "no measurement" in said[1]
    assert [line.split()[0] for line in said[3:]] == ["far", "near"]
    assert said[3].split() == ["far", "3.0000", "1.5000", "2.00", "memory"]
    assert predictions.lines([row("cpu", 1.0, None)]) == []
