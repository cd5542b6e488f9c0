"""torch.fx.symbolic_trace records a function as one call, as it does torch's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch.nn.functional as named_as_torchs  # noqa: E402
from cudml.torch import convert, functional  # noqa: E402
from cudml.torch import nn as ours  # noqa: E402

nn = torch.nn


def inputs() -> torch.Tensor:
    return torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(1))


def called(program: Any) -> list[str]:
    """The functions that a program calls."""
    return [n.target.__name__ for n in program.graph.nodes if n.op == "call_function"]


MODULES = {
    "max_pool2d": lambda: ours.MaxPool2d(2), "avg_pool2d": lambda: ours.AvgPool2d(2),
    "lp_pool2d": lambda: ours.LPPool2d(2, 2), "pad": lambda: ours.ReflectionPad2d(1),
    "layer_norm": lambda: ours.LayerNorm(8), "rms_norm": lambda: ours.RMSNorm(8),
    "group_norm": lambda: ours.GroupNorm(2, 4), "batch_norm": lambda: ours.BatchNorm2d(4).eval(),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    net, x = nn.Sequential(MODULES[name]()), inputs()
    program = torch.fx.symbolic_trace(net)
    assert called(program) == [name]
    for copied in (program, copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert torch.equal(copied(x), net(x))


@pytest.mark.parametrize("library", [functional, named_as_torchs])
def test_functions(library: Any) -> None:
    program = torch.fx.symbolic_trace(lambda x: library.max_pool2d(library.pad(x, (1, 1)), 2))
    assert called(program) == ["pad", "max_pool2d"]
    assert torch.equal(program(inputs()), library.max_pool2d(library.pad(inputs(), (1, 1)), 2))


def test_a_converted_model() -> None:
    """With its fused activation, and no question to the input left."""
    net = nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool2d(2))
    model = convert(net).model
    program = torch.fx.symbolic_trace(model)
    assert called(program) == ["group_norm", "max_pool2d"]
    assert torch.equal(program(inputs()), model(inputs()))


def test_batches_are_counted_by_calls_alone() -> None:
    """A trace of a module in training would count one and move its statistics."""
    net = ours.BatchNorm2d(4)
    with pytest.raises(torch.fx.proxy.TraceError):
        torch.fx.symbolic_trace(nn.Sequential(net))
    assert net.num_batches_tracked == 0
