"""cudml.torch.convert: what it takes, fuses and leaves, that the rest stays, and the way back."""

from __future__ import annotations

import copy
import doctest
import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch  # noqa: E402
from cudml.torch import _fusion, convert  # noqa: E402
from cudml.torch import nn as ours  # noqa: E402
from cudml.torch.nn import _shared  # noqa: E402
from tests.torch.models import MODELS  # noqa: E402

nn = torch.nn


def model(name: str, dtype: Any = torch.float64) -> tuple[Any, torch.Tensor]:
    """A model with parameters and statistics away from their start, and an input."""
    torch.manual_seed(3)
    kind, shape = MODELS[name]
    made = kind().to(dtype)
    with torch.no_grad():
        for key, value in made.state_dict().items():
            if key.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif value.dim() == 1 and value.is_floating_point():
                value.add_(torch.randn_like(value) * 0.2)
    return made, torch.randn(shape).to(dtype)


def outcome(net: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The result, all gradients, and buffers after one step."""
    x = x.detach().clone().requires_grad_()
    y = net(x)
    grad = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view_as(y).to(y.dtype)
    net.zero_grad()
    y.backward(grad)
    found = {"y": y.detach(), "x": x.grad}
    found |= {name: p.grad for name, p in net.named_parameters()}
    found |= {name: b.clone().to(y.dtype) for name, b in net.named_buffers()}
    return found


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_float64_models_compute_the_same(name: str, fuse: bool, is_training: bool) -> None:
    net, x = model(name)
    net.train(is_training)
    report = convert(net, fuse_activation=fuse)
    want, got = outcome(net, x), outcome(report.model, x)
    assert list(got) == list(want) and report.count("taken") + report.count("fused") >= 3
    for key, value in want.items():
        # A bias before a normalization has the gradient 0, of which rounding is left: 1e-12 of
        # the largest gradient there is, too.
        room = 1e-12 * max(float(value.abs().max()), 1.0)
        torch.testing.assert_close(got[key], value, rtol=1e-12, atol=room, msg=f"{key} differs")


@pytest.mark.parametrize("name", MODELS)
def test_float32_models_are_as_exact(name: str) -> None:
    """No further from float64, at the worst tensor, than four times what torch's float32 is."""
    net, x = model(name, torch.float32)
    exact = outcome(copy.deepcopy(net).double(), x.double())
    errors = []
    for found in (outcome(convert(net).model, x), outcome(net, x)):
        distances = ((found[k].double() - v).abs().max() for k, v in exact.items())
        scales = (max(float(v.abs().max()), 1.0) for v in exact.values())
        errors.append(max(float(d) / s for d, s in zip(distances, scales, strict=True)))
    assert 0 < errors[0] <= 4 * errors[1]


def test_what_the_models_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared, "may_share", lambda: True)
    counts = {"resnet50": (21, 33, 1), "unet": (2, 10, 0), "nnunet": (1, 2, 0), "vae": (3, 4, 0)}
    for name, expected in counts.items():
        report = convert(model(name)[0])
        assert tuple(map(report.count, ("taken", "fused", "left"))) == expected, str(report)
    notes = {row.name: row.note for row in convert(model("resnet50")[0]).rows}
    assert notes["bn1"] == "with relu, ReLU"
    assert notes["stages.0.bn1"] == notes["stages.0.bn2"] == "with stages.0.relu, ReLU"
    assert notes["stages.0.bn3"] == notes["stages.0.downsample.1"] == ""  # an addition reads it
    assert notes["avgpool"] == "cudml has no operator for it"
    (norm,) = (row for row in convert(model("vae")[0]).rows if row.name == "norm_out")
    assert norm.action == "taken" and norm.note == f"not fused: {by_function('silu')}"


def test_the_report_is_a_table() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2, divisor_override=3))
    lines = str(report := convert(net)).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["module", "torch.nn", "note"], ["0", "BatchNorm2d", "fused", "with", "1,", "ReLU"],
    ]  # fmt: skip
    assert lines[2].split()[:3] == ["2", "AvgPool2d", "left"] and "divisor_override" in lines[2]
    assert lines[3] == "0 taken, 1 fused, 1 left" and repr(report) == f"<Report: {lines[3]}>"
    assert lines[1].index("fused") == lines[2].index("left")


def state(net: Any) -> dict[str, Any]:
    """All that a conversion must keep: the objects of the state, classes, modes and hooks."""
    return {
        "state": list(net.state_dict()),
        "objects": [id(t) for t in (*net.parameters(), *net.buffers())],
        "modules": [
            (n, type(m), m.training, len(m._forward_hooks)) for n, m in net.named_modules()
        ],
        "text": repr(net),
    }


@pytest.mark.parametrize("name", MODELS)
def test_the_way_back(name: str) -> None:
    net, x = model(name)
    net.eval()
    before, want = state(net), outcome(net, x)
    report = convert(net, inplace=True)
    assert report.model is net and state(net)["text"] != before["text"]
    assert [state(net)[k] for k in ("state", "objects")] == [
        before[k] for k in ("state", "objects")
    ]
    assert report.revert() is net and state(net) == before
    assert all(torch.equal(v, want[k]) for k, v in outcome(net, x).items())
    assert report.revert() is net and state(net) == before


def test_a_copy_leaves_the_model() -> None:
    net, _ = model("unet")
    before = state(net)
    other = convert(net).model
    assert state(net) == before and other is not net
    assert not set(state(other)["objects"]) & set(before["objects"])
    assert list(other.state_dict()) == before["state"]


def test_checkpoints_load_both_ways() -> None:
    net, x = model("resnet50")
    other = convert(model("resnet50")[0]).model
    other.load_state_dict(net.state_dict(), strict=True)
    net.load_state_dict(other.state_dict(), strict=True)
    again = copy.deepcopy(other)
    saved = io.BytesIO()
    torch.save(other, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    want = outcome(other.eval(), x)["y"]
    assert torch.equal(outcome(again.eval(), x)["y"], want)
    assert torch.equal(outcome(loaded.eval(), x)["y"], want)


class Twice(nn.Module):
    """One norm at two calls, and activations that other readers see."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act = nn.GroupNorm(2, 4), nn.SiLU()
        self.other, self.act2 = nn.GroupNorm(2, 4), nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.norm(x)) + self.norm(x)
        z = self.other(y)
        return self.act2(z) * z


class Branching(nn.Module):
    """What it does depends on values, or on the mode."""

    def __init__(self, on_values: bool) -> None:
        super().__init__()
        self.on_values = on_values
        self.norm, self.act = nn.LayerNorm(4), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        if self.on_values:
            return self.act(y) if x.sum() > 0 else y
        return self.act(y) if self.training else y


class Functional(nn.Module):
    """An activation that is a function, or none that a normalization has."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.norm, self.function = nn.LayerNorm(4), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.norm(x))


def by_function(name: str) -> str:
    return f"forward calls the function {name}; a module in its place would be"


@pytest.mark.parametrize("net, note", [
    (Functional(nn.functional.silu), by_function("silu")),
    (Functional(nn.functional.leaky_relu), by_function("leaky_relu")),
    (Functional(torch.relu_), by_function("relu_")),
    (Functional(torch.tanh), by_function("tanh")),
    (Functional(lambda y: y.sigmoid()), by_function("sigmoid")),
    (Twice(), "forward calls it 2 times"),
    (Branching(True), "forward of Branching does not trace (TraceError)"),
    (Branching(False), "training and evaluation differ"),
    (nn.Sequential(nn.LayerNorm(4), nn.GELU("tanh")), "GELU(approximate='tanh') has no"),
    (nn.Sequential(nn.LayerNorm(4), nn.PReLU()), "PReLU has no counterpart"),
    (nn.Sequential(nn.LayerNorm(4), nn.Threshold(0.1, 2)), "Threshold(threshold=0.1, value=2) has"),
])  # fmt: skip
def test_what_is_not_fused(net: Any, note: str) -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    report = convert(net.double())
    assert report.count("fused") == 0 and f"not fused: {note}" in report.rows[0].note
    for is_training in (True, False):
        net.train(is_training)
        report.model.train(is_training)
        torch.testing.assert_close(report.model(x), net(x), rtol=1e-12, atol=1e-12)


def test_every_activation_is_known_as_a_function() -> None:
    """By the name that it has in torch.nn.functional."""
    assert all(hasattr(nn.functional, name) for name in _fusion.FUNCTIONS)
    assert len(_fusion.FUNCTIONS) == len(_fusion.ACTIVATIONS)
    assert convert(Functional(lambda y: y.exp())).rows[0].note == ""


def test_readers_of_both_are_kept() -> None:
    report = convert(Twice())
    assert "2 operations read it" in report.rows[1].note


def test_hooks_see_what_they_saw() -> None:
    seen: list[torch.Tensor] = []
    net = nn.Sequential(nn.LayerNorm(4), nn.ReLU(), nn.LayerNorm(4), nn.ReLU()).double()
    net[0].register_forward_hook(lambda m, a, y: seen.append(y))
    x = torch.randn(3, 4, dtype=torch.float64)
    report = convert(net, inplace=True)
    assert [row.action for row in report.rows] == ["taken", "fused"]
    assert "hook" in report.rows[0].note
    net(x)
    torch.testing.assert_close(seen[0], nn.functional.layer_norm(x, (4,)), rtol=1e-12, atol=1e-12)


def test_shared_modules_stay_shared() -> None:
    norm, act = nn.LayerNorm(4).double(), nn.ReLU()
    net = nn.Sequential(
        norm, act, nn.Linear(4, 4).double(), norm, act, nn.LayerNorm(4).double(), act
    )
    x = torch.randn(3, 4, dtype=torch.float64)
    want = net(x)
    report = convert(net)
    assert report.model[0] is report.model[3] and type(report.model[0]) is ours.LayerNorm
    assert [r.action for r in report.rows] == ["taken", "fused"]
    assert "several places" in report.rows[0].note
    assert type(report.model[1]) is nn.ReLU and type(report.model[6]) is _shared.SharedActivation
    torch.testing.assert_close(report.model(x), want, rtol=1e-12, atol=1e-12)


class Loud(nn.MaxPool2d):
    """A subclass with code of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def patched() -> nn.Module:
    pool = nn.MaxPool2d(2)
    pool.forward = lambda x: x  # type: ignore[method-assign]
    return pool


@pytest.mark.parametrize("module, why", [
    (Loud(2), "a class of its own"), (patched(), "its forward was replaced"),
    (nn.AvgPool2d(2, divisor_override=3), "divisor_override"),
    (nn.AdaptiveAvgPool2d(1), "no operator"), (nn.AdaptiveMaxPool3d(2), "no operator"),
    (nn.FractionalMaxPool2d(2, output_size=3), "no operator"),
    (nn.LocalResponseNorm(2), "no operator"), (nn.SyncBatchNorm(3), "no operator"),
    (nn.LPPool2d(1.5, 2), "norm_type is 1.5"), (nn.LPPool1d(float("inf"), 2), "norm_type is inf"),
    (nn.LPPool2d(3, 2), "odd"), (nn.LPPool1d(1, 2), "odd"),
    (nn.LPPool3d(2, 2, ceil_mode=True), "ceil_mode"), (nn.LazyBatchNorm2d(), "its first call"),
    (nn.LayerNorm(3, dtype=torch.complex64), "complex64"),
])  # fmt: skip
def test_what_is_left(module: Any, why: str) -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 1), module)
    report = convert(net, inplace=True)
    assert [(r.name, r.action) for r in report.rows] == [("1", "left")]
    assert why in report.rows[0].note and net[1] is module
    assert type(module).__module__.split(".")[0] != "cudml"


TAKEN = [
    nn.MaxPool1d(2), nn.MaxPool2d(2), nn.MaxPool3d(2), nn.AvgPool1d(2), nn.AvgPool2d(2),
    nn.AvgPool3d(2), nn.LPPool1d(2, 2), nn.LPPool2d(2.0, 2), nn.LPPool3d(4, 2), nn.MaxUnpool1d(2),
    nn.MaxUnpool2d(2), nn.MaxUnpool3d(2), nn.LayerNorm(4), nn.RMSNorm(4), nn.GroupNorm(2, 4),
    nn.InstanceNorm1d(4), nn.InstanceNorm2d(4), nn.InstanceNorm3d(4), nn.BatchNorm1d(4),
    nn.BatchNorm2d(4), nn.BatchNorm3d(4), nn.ConstantPad1d(1, 2.0), nn.ConstantPad2d(1, 2.0),
    nn.ConstantPad3d(1, 2.0), nn.ZeroPad1d(1), nn.ZeroPad2d(1), nn.ZeroPad3d(1),
    nn.ReflectionPad1d(1), nn.ReflectionPad2d(1), nn.ReflectionPad3d(1), nn.ReplicationPad1d(1),
    nn.ReplicationPad2d(1), nn.ReplicationPad3d(1), nn.CircularPad1d(1), nn.CircularPad2d(1),
    nn.CircularPad3d(1),
]  # fmt: skip


@pytest.mark.parametrize("module", TAKEN, ids=lambda m: type(m).__name__)
def test_a_module_alone_is_taken(module: Any) -> None:
    report = convert(module)
    assert [(r.name, r.action) for r in report.rows] == [("(model)", "taken")]
    assert type(report.model) is getattr(ours, type(module).__name__)
    assert isinstance(report.model, type(module)) and repr(report.model) == repr(module)
    assert type(report.revert()) is type(module)


ACTIVATIONS = [
    nn.ReLU(), nn.ReLU(inplace=True), nn.LeakyReLU(0.3), nn.Threshold(0.4, 0.0), nn.ELU(0.7),
    nn.CELU(0.5), nn.SELU(), nn.Sigmoid(), nn.Hardsigmoid(), nn.Tanh(), nn.Softsign(),
    nn.Softshrink(0.3), nn.Hardshrink(0.6), nn.GELU(), nn.SiLU(), nn.Hardswish(),
]  # fmt: skip


class HardSigmoid(nn.Module):
    """In float64; torch's own gradient takes 1/6 in float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu6(x + 3) / 6


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_fused_activations_are_torchs(activation: Any) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.InstanceNorm1d(3, affine=True), activation).double()
    x = torch.randn(2, 3, 40, dtype=torch.float64) * 4
    report = convert(net)
    assert report.count("fused") == 1
    if type(activation) is nn.Hardsigmoid:
        net[1] = HardSigmoid()
    want, got = outcome(net, x), outcome(report.model, x)
    for key, value in want.items():
        torch.testing.assert_close(got[key], value, rtol=1e-12, atol=1e-12)


def saved(net: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Tensors as large as x that the forward pass keeps, other than x."""
    kept: dict[int, torch.Tensor] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        if t.numel() == x.numel():
            kept[t.data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        net(x)
    return list(kept.values())


def test_a_fused_activation_keeps_one_tensor() -> None:
    """The input of the normalization; apart, the activation keeps its own input as well."""
    net = nn.Sequential(nn.GroupNorm(2, 6), nn.SiLU())
    x = torch.randn(3, 6, 8, 8).requires_grad_()
    assert len(saved(net, x)) == 2
    assert len(saved(convert(net, fuse_activation=False).model, x)) == 2
    (kept,) = saved(convert(net).model, x)
    assert kept.data_ptr() == x.data_ptr()


def test_types_modes_and_frozen_parameters_stay() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.GroupNorm(1, 3)).to(torch.bfloat16)
    net[0].eval()
    net[2].weight.requires_grad_(False)
    other = convert(net).model
    assert [m.training for m in other] == [False, True, True]
    assert all(p.dtype == torch.bfloat16 for p in other.parameters())
    assert [p.requires_grad for p in other.parameters()] == [True, True, False, True]
    assert other(torch.randn(2, 3, 4, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_converting_twice_takes_nothing_more() -> None:
    first = convert(model("vae")[0])
    second = convert(first.model)
    assert second.rows == [] and repr(second.model) == repr(first.model)


def test_fusing_comes_later_too() -> None:
    net = nn.Sequential(nn.LayerNorm(4), nn.ReLU())
    apart = convert(net, fuse_activation=False).model
    report = convert(apart)
    assert report.count("fused") == 1 and "activation='relu'" in repr(report.model)


def test_the_example_of_the_text() -> None:
    (example,) = doctest.DocTestFinder().find(convert, "convert", globs={})
    assert doctest.DocTestRunner().run(example).attempted == 3
    assert doctest.DocTestRunner().run(example).failed == 0


def test_a_model_must_be_a_module() -> None:
    with pytest.raises(TypeError, match="model is a function; it must be a torch"):
        convert(cudml.torch.functional.pad)
