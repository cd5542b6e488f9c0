"""benchmarks/call_overhead.py runs and reports every contender, with and without PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from array_support import child
from folders import ROOT

SCRIPT = ROOT / "benchmarks" / "call_overhead.py"
RUN = (
    "import runpy, sys; {}sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.parametrize("has_torch", [True, False])
def test_the_script(has_torch: bool, tmp_path: Path) -> None:
    hidden = "" if has_torch else "sys.modules['torch'] = None; "
    made = tmp_path / "rows.json"
    words = [str(SCRIPT), "--rounds", "2", "--calls", "3", "--json", str(made)]
    done = child(RUN.format(hidden), *words)
    assert done.returncode == 0, done.stderr
    content = json.loads(made.read_text())
    rows = {(row["arrays"], row["call"]): row for row in content["rows"]}
    assert rows["NumPy", "numpy.add(a, b, out)"]["to_numpy_add"] == pytest.approx(1)
    assert ("NumPy", "compiled max pooling, out=") in rows
    assert ("NumPy", "cudml.max_pooling(x, 2)") in rows
    assert (("torch", "cudml.torch.max_pooling(x, 2)") in rows) == has_torch
    shown = [line for line in done.stdout.splitlines() if line.startswith(("NumPy ", "torch "))]
    assert len(shown) == len(rows)
    if not has_torch:
        assert "not there" in content["versions"] and not [r for r in rows if r[0] == "torch"]
