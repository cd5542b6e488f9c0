"""torch.fx.symbolic_trace records a function as one call, as it does torch's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch  # noqa: E402
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
    "group_norm": lambda: ours.GroupNorm(2, 4), "max_pooling": lambda: ours.MaxPooling((2, 3)),
    "average_pooling": lambda: ours.AveragePooling(2, start_padding=(1, 0), include_padding=True),
    "lp_pooling": lambda: ours.LpPooling(3, p=3),
    "padding": lambda: ours.Padding((0, 0, 1, 2), (0, 0, 2, 0), mode="symmetric"),
    "mean_variance_normalization": lambda: ours.MeanVarianceNormalization(axes=(1, 3)),
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


def with_statistics(kind: str, training: bool, **options: Any) -> Any:
    net = nn.Sequential(nn.Conv2d(4, 4, 1), getattr(ours, kind)(4, affine=True, **options))
    torch.nn.init.uniform_(net[1].weight)
    return net.train(training)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["BatchNorm2d", "InstanceNorm2d"])
def test_modules_with_statistics_are_one_call(kind: str, training: bool) -> None:
    """As torch's own: what they count and move, they do when the program runs; and it may go on
    from training to evaluation."""
    net, same = (with_statistics(kind, training, track_running_stats=True) for _ in range(2))
    same.load_state_dict(net.state_dict())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    program = torch.fx.symbolic_trace(net)
    assert [n.target for n in program.graph.nodes if n.op == "call_module"] == ["0", "1"]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    for mode in (training, not training, training):
        program.train(mode), same.train(mode)
        assert torch.equal(program(inputs()), same(inputs()))
    counted = 1 + training if kind.startswith("Batch") else 0  # torch's others do not count
    assert net[1].num_batches_tracked == counted
    for name, value in same.state_dict().items():
        assert torch.equal(net.state_dict()[name], value), name


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["BatchNorm2d", "InstanceNorm2d"])
def test_an_activation_is_applied_once(kind: str, training: bool) -> None:
    """The activation that two normalizations share is a call, too, and asks what comes to it."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act = getattr(nn, kind)(4, affine=True), nn.Hardswish()
            self.second = getattr(nn, kind)(4, affine=True)

        def forward(self, x: Any) -> Any:
            return self.act(self.act(self.second(self.act(self.first(x)))) - 0.5)

    net = Twice().train(training)
    expected = copy.deepcopy(net)(inputs())
    model = convert(net).model
    program = torch.fx.symbolic_trace(copy.deepcopy(model))
    for run in (copy.deepcopy(program), program, model):
        torch.testing.assert_close(run(inputs()), expected)


def test_a_module_by_itself_cannot_be_asked() -> None:
    """Where torch's own cannot, either; a trace of it in training moves no statistics."""
    net = ours.BatchNorm2d(4)
    with pytest.raises(torch.fx.proxy.TraceError):
        torch.fx.symbolic_trace(net)
    assert net.num_batches_tracked == 0
    assert torch.equal(torch.fx.symbolic_trace(net.eval())(inputs()), net(inputs()))


def test_results_of_several_tensors() -> None:
    """They are taken apart where the program runs."""

    def both(x: Any) -> Any:
        y, indices = cudml.torch.max_pooling(x, 2, 2, return_indices=True)
        return cudml.torch.max_unpooling(y, indices, (2, 4, 8, 8))

    program = torch.fx.symbolic_trace(both)
    assert called(program)[::3] == ["max_pooling", "max_unpooling"]
    assert torch.equal(program(inputs()), both(inputs()))
