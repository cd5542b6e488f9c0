"""Activations with several calls, some on normalizations: fused there, and kept elsewhere."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from cudml.torch import convert  # noqa: E402
from cudml.torch.nn import _shared  # noqa: E402
from cudml.torch.nn._shared import SharedActivation  # noqa: E402
from tests.torch.models import Bottleneck  # noqa: E402

nn = torch.nn
ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "leaky": lambda: nn.LeakyReLU(0.3)}

may_share = _shared.may_share


@pytest.fixture(autouse=True)
def _with_any_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not compiled works with older releases, too."""
    monkeypatch.setattr(_shared, "may_share", lambda: True)


def block(activation: str = "silu") -> Any:
    """A bottleneck in float64, whose activation is applied to sums, too, and shows when twice."""
    torch.manual_seed(5)
    made = Bottleneck(6, 3, 2).double()
    made.relu = ACTIVATIONS[activation]()
    for norm in (made.bn1, made.bn2, made.bn3):
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.uniform_(norm.bias, -1, 1)
    return made


def inputs() -> torch.Tensor:
    return torch.randn(2, 6, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(6))


def outcome(net: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The result, all gradients, and buffers after one step."""
    x = x.detach().clone().requires_grad_()
    y = net(x)
    net.zero_grad()
    y.backward(torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y))
    return [y.detach(), x.grad, *(p.grad for p in net.parameters()), *net.buffers()]


def assert_same(got: Any, want: Any, x: torch.Tensor | None = None) -> None:
    x = inputs() if x is None else x
    for g, w in zip(outcome(got, x), outcome(want, x), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_bottleneck(activation: str, is_training: bool) -> None:
    net = block(activation).train(is_training)
    report = convert(net)
    notes = {r.name: (r.action, r.note) for r in report.rows}
    fused = ("fused", f"with relu, {type(net.relu).__name__}")
    assert notes == {"bn1": fused, "bn2": fused, "bn3": ("taken", ""),
                     "downsample.1": ("taken", "")}  # fmt: skip
    assert isinstance(report.model.relu, SharedActivation)
    assert_same(report.model, net)


class Counting(nn.SiLU):
    """Notes the sizes that it is called with."""

    sizes: ClassVar[list[int]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sizes.append(x.numel())
        return super().forward(x)


def test_what_is_computed_and_kept() -> None:
    """Of three calls of the activation one is left; each of the others keeps one tensor less."""
    kept: list[set[int]] = []
    for net in (block(), convert(block()).model):
        getattr(net.relu, "activation", net.relu).__class__ = Counting
        Counting.sizes.clear()
        found: dict[int, torch.Tensor] = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, f=found: f.setdefault(t.data_ptr(), t), id
        ):
            y = net(inputs())
        kept.append({p for p, t in found.items() if t.shape[:2] == (2, 3)})
        expected = [2 * 3 * 5 * 7, 2 * 3 * 3 * 4, y.numel()]
        assert Counting.sizes == (expected if type(net.relu) is Counting else expected[2:])
    assert [len(pointers) for pointers in kept] == [6, 4]


def test_the_way_back() -> None:
    net = block()
    before, modules, text = outcome(net, inputs()), list(net.modules()), repr(net)
    state = list(net.state_dict())
    report = convert(net, inplace=True)
    assert list(net.state_dict()) == state and net.relu is not modules[-1]
    net.load_state_dict(block().state_dict(), strict=True)
    assert report.revert() is net and repr(net) == text
    assert all(a is b for a, b in zip(net.modules(), modules, strict=True))
    assert "shared" not in vars(net.bn1) and "activation" not in vars(net.bn1)
    assert all(torch.equal(*pair) for pair in zip(outcome(net, inputs()), before, strict=False))


def loaded(net: Any) -> Any:
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, loaded, nn.Sequential])
def test_copies_are_fused_as_well(copied: Callable[[Any], Any]) -> None:
    net = convert(block()).model
    assert_same(copied(net), block())
    assert convert(net).rows == []


def full_backward(module: Any) -> None:
    module.register_full_backward_hook(lambda m, before, after: None)


def forward(module: Any) -> None:
    module.register_forward_hook(lambda m, given, y: y + 1)


def before(module: Any) -> None:
    module.register_forward_pre_hook(lambda m, given: (given[0] * 2,))


@pytest.mark.parametrize("name", ["bn1", "relu"])
@pytest.mark.parametrize("hook", [full_backward, forward, before])
def test_hooks_that_come_later_see_and_do_what_they_would(hook: Any, name: str) -> None:
    """They exchange tensors, and no activation is applied twice or not at all."""
    net, other = block(), convert(block()).model
    for each in (net, other):
        hook(getattr(each, name))
    assert_same(other, net)


def test_a_function_in_the_place_of_forward() -> None:
    """As libraries put it there that move tensors between devices."""
    other = convert(block()).model
    own = other.bn1.forward
    other.bn1.forward = lambda x: own(x) * 1
    assert_same(other, block())


class Elsewhere(nn.Module):
    """Its own activation is the one that the model calls on a normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x) + 1


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.GroupNorm(2, 6), Elsewhere()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.inner.act(self.norm(x)))


class Chained(nn.Module):
    """The activation of an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act = nn.InstanceNorm2d(6, affine=True), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.act(self.norm(x)))


class ByMode(nn.Module):
    """In training there is another call."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act = nn.LayerNorm(7), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.norm(x))
        return self.act(y + x) if self.training else y


@pytest.mark.parametrize("kind", [Nested, Chained, ByMode])
def test_other_shapes_of_sharing(kind: type) -> None:
    net = kind().double()
    report = convert(net)
    assert report.count("fused") == 1
    for is_training in (True, False):
        assert_same(report.model.train(is_training), net.train(is_training))


@pytest.mark.parametrize("hook", [
    "full_backward_hook", "full_backward_pre_hook", "forward_hook", "forward_pre_hook",
])  # fmt: skip
def test_hooks_on_all_modules(hook: str) -> None:
    """They see what they would; those on the way forward double what they see of a norm."""
    net = Chained().double()
    other = convert(net).model

    def doubled(module: Any, *given: Any) -> Any:
        is_seen = isinstance(module, nn.InstanceNorm2d) and hook.startswith("forward")
        return 2 * given[-1] if is_seen and hook == "forward_hook" else None

    handle = getattr(nn.modules.module, f"register_module_{hook}")(doubled)
    try:
        assert_same(other, net)
    finally:
        handle.remove()


def test_without_marks_in_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared, "may_share", lambda: False)
    report = convert(Chained())
    assert (report.count("fused"), report.count("taken")) == (0, 1)
    words = "not fused: act has other calls, and programs compiled by this PyTorch lose its marks"
    assert report.rows[0].note == words


@pytest.mark.decision("D-GRAD-40")
def test_marks_in_programs_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """By compiling one, whatever the release calls itself; one without a compiler keeps none."""
    release = torch.__version__
    monkeypatch.setattr(torch, "__version__", "2.0")
    may_share.cache_clear()
    assert may_share() == (not release.startswith("2.4."))  # of the releases that are tested

    def fail(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("there is no compiler")

    may_share.cache_clear()
    monkeypatch.setattr(torch, "compile", fail)
    assert not may_share()
    may_share.cache_clear()


def test_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared, "may_share", may_share)
    net, x = convert(Chained().double()).model, inputs()
    torch.compiler.reset()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    for got, want in zip(outcome(compiled, x), outcome(net, x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    program = torch.export.export(net, (x,))
    assert torch.equal(program.module()(x), net(x))
    calls = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [c.split(".")[1] for c in calls if "silu" in c or "cudml" in c] == [
        "mean_variance_normalization", *["silu"] * (1 if may_share() else 2),
    ]  # fmt: skip


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputed_in_the_backward_pass(use_reentrant: bool) -> None:
    """With the activation of an activation, which a lost mark would apply once more."""
    net = Chained().double()
    other = convert(net).model
    again = nn.Module()
    again.forward = lambda x: checkpoint(other, x, use_reentrant=use_reentrant)  # type: ignore[method-assign]
    x = inputs()
    for got, want in zip(outcome(again, x), outcome(net, x)[:2], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    for own, through in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(through.grad, own.grad, rtol=1e-12, atol=1e-12)


def test_transformations_of_torch_func() -> None:
    net, x = Chained().double(), inputs()
    other = convert(net).model
    for way in (torch.func.grad(lambda f, v: f(v).square().sum(), 1), lambda f, v: torch.vmap(f)(
            torch.stack([v, v * 2]))):  # fmt: skip
        torch.testing.assert_close(way(other, x), way(net, x), rtol=1e-12, atol=1e-12)
