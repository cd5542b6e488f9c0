"""benchmarks/models.py: what it puts in the place of convolutions, its ratios, and a small run."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml  # noqa: E402
from folders import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "benchmarks"))
models, blocks, measure = map(importlib.import_module, ("models", "model_blocks", "measure"))
sys.path.remove(str(ROOT / "benchmarks"))

SHAPES = {"U-Net": (2, 32, 8, 6), "VAE decoder": (2, 64, 4, 3), "ResNet-50": (2, 3, 24, 16),
          "nnU-Net": (2, 1, 3, 4, 5)}  # fmt: skip


@pytest.mark.parametrize("model", blocks.MODELS, ids=lambda m: m.name)
def test_layers_alone_compute_what_they_do_in_the_block(model: Any) -> None:
    """Every convolution's result again, its gradient known, and both models converted alike."""
    torch.manual_seed(2)
    block, x = model.make(), torch.randn(SHAPES[model.name])
    alone = blocks.layers_alone(block, x)
    assert not [m for m in alone.modules() if isinstance(m, blocks.OTHERS)]
    assert torch.equal(alone(x), copy.deepcopy(block)(x))
    fused = [models.contenders(each, x, False)[1] for each in (block, alone)]
    assert fused[0] == fused[1] == {"VAE decoder": 5, "ResNet-50": 3}.get(model.name, 2)
    grads = models.training(alone, x)()
    assert all(g is not None for g in grads[1:]) and all(g.shape == p.shape for g, p in zip(
        grads[1:], alone.parameters(), strict=True))  # fmt: skip


def turns(*seconds: float) -> Any:
    return measure.Turns(dict(enumerate(seconds)))


def row(part: str, ratio: float, **more: Any) -> Any:
    ours = turns(*[1.0 / ratio] * 3)
    facts = {"model": "U-Net", "part": part, "passes": "forward", "threads": 1, "fused": 2}
    return models.row_of({"torch": turns(1, 1, 1), "cudml": ours}, **facts, **more)


def test_ratios_are_those_of_the_rounds() -> None:
    given = {"torch": turns(2, 6, 30), "cudml": turns(1, 2, 5), "cudml compiled": turns(1, 1, 3)}
    facts = {"model": "U-Net", "part": "whole", "passes": "forward", "threads": 2, "fused": 2}
    made = models.row_of(given, **facts)
    assert made.ratio == 3 and made.ms == {"torch": 6e3, "cudml": 2e3, "cudml compiled": 1e3}
    assert made.others == {"cudml compiled": 6} and 2 < made.p10 < 3 < made.p90 < 6


def test_the_summary_counts_what_is_below_its_goal() -> None:
    rows = [row("whole", 2.0, goal=1.3), row("whole", 0.97), row("layers", 2.4, goal=2.5)]
    lines = models.summary(rows)
    assert lines[0].startswith("whole, forward: 1.39 times")
    assert lines[2] == "1 of 3 rows more than 2 % slower than PyTorch"
    assert lines[3] == "1 of 2 rows reach their goals"


def test_a_small_run(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    small = blocks.Model("small", lambda: blocks.UNetBlock(8, 8), (2, 8, 6, 4), 1.3)
    monkeypatch.setattr(models, "MODELS", (small,))
    words = ["--threads", "1", "--rounds", "2", "--seconds", "0", "--save", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["models.py", *words])
    before = torch.get_num_threads(), cudml.get_num_threads()
    try:
        assert models.main() == 0
    finally:
        torch.set_num_threads(before[0])
        cudml.set_num_threads(before[1])
    content = json.loads((tmp_path / "models.json").read_text())
    kinds = [(r["part"], r["passes"]) for r in content["rows"]]
    assert kinds == [(part, p) for part in ("layers", "whole") for p in ("forward", "training")]
    assert all(r["fused"] == 2 and set(r["ms"]) == {"torch", "cudml"} for r in content["rows"])
    assert all(r["share"] > 0 for r in content["rows"][2:]) and "commit" in content
    assert (tmp_path / "models.txt").read_text() == capsys.readouterr().out


def test_a_name_that_is_none(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["models.py", "--only", "gpt"])
    assert models.main() == 2
    assert "--only is 'gpt'; it must be in one of U-Net, VAE" in capsys.readouterr().err
