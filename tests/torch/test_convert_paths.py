"""What convert may fuse by the code of a model: on every path of it, not on one that was traced."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import convert  # noqa: E402
from cudml.torch.nn._shared import SharedActivation, may_share  # noqa: E402
from tests.torch.converting import Block, assert_converted, inputs  # noqa: E402

nn = torch.nn
Tensor = torch.Tensor


class Nested(Block):
    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.act(self.norm(x)))


class Statements(Block):
    """As torchvision writes them."""

    def forward(self, x: Tensor) -> Tensor:
        out = self.proj(x)
        out = self.norm(out)
        out = self.act(out)

        out += x
        return out


class Returned(Block):
    def forward(self, x: Tensor, more: Any = None) -> Tensor:
        h = x
        if more is not None:
            h = h + more
        h = self.norm(h)
        return self.act(h) * 2


class Renamed(Block):
    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        y = self.act(h) + x
        return y


class Branches(Block):
    """Two paths, on each of which the result goes where it should."""

    def forward(self, x: Tensor, more: Any = None) -> Tensor:
        if more is None:
            return self.act(self.norm(x))
        h = self.norm(x + more)
        h = self.act(h)
        return h


class Inherited(Nested):
    def __init__(self) -> None:
        super().__init__()
        nn.init.ones_(self.norm.weight)
        for m in self.modules():
            if isinstance(m, nn.Conv1d):
                nn.init.zeros_(m.bias)

    def extra(self) -> int:
        return 0 if self.norm is None else self.norm.num_groups


class Helper(Block):
    """By a method, and within a function."""

    def body(self, x: Tensor) -> Tensor:
        def run(x: Tensor) -> Tensor:
            return self.act(self.norm(x))

        return run(x)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Decorated(Block):
    """What the class holds as forward is the decorator's; the code that calls is within that."""

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.act(self.norm(x)))


@pytest.mark.parametrize("kind", [Nested, Statements, Returned, Renamed, Branches, Inherited,
                                  Helper, Decorated])  # fmt: skip
def test_every_path_gives_it_to_the_activation(kind: Any) -> None:
    """Of several calls of an activation where programs of this release keep marks."""
    assert_converted(kind(), fused=int(kind is not Branches or may_share()))


@pytest.mark.parametrize("kind", [Nested, Statements, Renamed, Branches])
def test_an_activation_is_alone_where_one_expression_reads_it(kind: Any) -> None:
    """Programs without marks rely on that; that a constructor writes it is no use of it."""
    if kind is Branches and not may_share():
        pytest.skip("this release's programs lose marks, without which it is not fused")
    (shared,) = (m for m in convert(kind()).model.modules() if isinstance(m, SharedActivation))
    assert shared.is_alone == (kind is not Branches)


class Conditional(Block):
    """fx traces it with a Proxy, which is never None."""

    def forward(self, x: Tensor, more: Any = None) -> Tensor:
        h = self.norm(x)
        if more is None:
            h = h + 1
        return self.act(h)


class Features(Block):
    def forward(self, x: Tensor, more: Any = None) -> Any:
        h = self.norm(x)
        y = self.act(h)
        return y if more is not True else (y, h)


class Instance(Block):
    def forward(self, x: Tensor, more: Any = 1.0) -> Tensor:
        h = self.norm(x)
        return self.act(h * more if isinstance(more, float) else h)


class Flag(Block):
    """A flag that is set after the conversion."""

    is_early = False

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if self.is_early:
            return h
        return self.act(h)


class Another(Flag):
    """The activation of another module, which has the same name."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Block()

    def forward(self, x: Tensor) -> Tensor:
        block = self.other
        return block.act(self.norm(x)) if self.is_early else self.act(self.norm(x))


class Chance(Block):
    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if random.random() < -1:
            h = h + 1
        return self.act(h)


class TwoMethods(Nested):
    def features(self, x: Tensor) -> Tensor:
        return self.norm(x)


class ByName(Nested):
    def features(self, name: str, x: Tensor) -> Tensor:
        return getattr(self, name)(x)


class ByChildren(Nested):
    def features(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return x


class Loop(Block):
    """The last result is read after the loop."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(1):
            h = self.norm(x)
            y = self.act(h)
        return y + h


class First(Block):
    """Another call of the activation comes in between."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return self.proj(self.act(x)) + self.act(h)


class Finally(Block):
    def forward(self, x: Tensor) -> Tensor:
        try:
            h = self.norm(x)
            return self.act(h)
        finally:
            self.last = h.mean()


@pytest.mark.parametrize("kind", [Conditional, Features, Instance, Flag, Another, Chance,
                                  TwoMethods, ByName, ByChildren, Loop, First,
                                  Finally])  # fmt: skip
def test_a_path_that_does_not_is_enough(kind: Any) -> None:
    assert_converted(kind(), fused=0)
    assert "not fused: " in convert(kind()).rows[0].note


class Evaluated(Block):
    """In training there is no activation."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return h if self.training else nn.functional.silu(h)


def test_functions_of_one_mode_are_named() -> None:
    assert_converted(Evaluated(), fused=0)
    assert "forward calls the function silu" in convert(Evaluated()).rows[0].note


def test_flags_and_methods_after_the_conversion() -> None:
    x, made = inputs(), (Flag(), TwoMethods())
    flag, methods = (convert(net).model for net in made)
    flag.is_early = made[0].is_early = True
    torch.testing.assert_close(flag(x), made[0](x))
    torch.testing.assert_close(methods.features(x), made[1].features(x))


class Reaching(nn.Module):
    """It calls what is its child's."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Nested()

    def forward(self, x: Tensor) -> Tensor:
        return self.block.norm(x) if self.block.training else self.block(x)


class ReachingForTheActivation(nn.Module):
    """A call of its own, which goes on computing what it did."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.norm = Nested(), 3

    def forward(self, x: Tensor) -> Tensor:
        return self.block.act(x) + self.block(x) * self.norm


def test_code_of_other_modules() -> None:
    assert_converted(Reaching(), fused=0)
    assert "Reaching.forward reaches for norm" in convert(Reaching()).rows[0].note
    assert_converted(ReachingForTheActivation(), fused=int(may_share()))


class Stepping(nn.Module):
    """It calls what is its children's one by one, which their own code does not."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.body = made

    def forward(self, x: Tensor) -> Tensor:
        for name, part in self.body.named_children():
            x = part(x)
            if name == "norm":
                kept = x
        return x + kept


class SteppingDeeper(Stepping):
    def forward(self, x: Tensor) -> Tensor:
        for block in self.body:
            x = block._modules["norm"](x)
        return x


class Passing(Stepping):
    """What it gives others is called as a whole."""

    def __init__(self, made: Any) -> None:
        super().__init__(made)
        self.made = [self.body]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.body.__call__, x) + run(self.body, x)


def run(function: Any, x: Tensor) -> Tensor:
    return function(x)


def test_code_that_takes_a_module_apart() -> None:
    assert_converted(Stepping(Nested()), fused=0)
    assert_converted(SteppingDeeper(nn.ModuleList([Nested()])), fused=0)
    assert_converted(Passing(Nested()), fused=1)


def test_code_that_cannot_be_read() -> None:
    names: dict[str, Any] = {"Block": Block}
    exec("class Made(Block):\n def forward(self, x):\n  return self.act(self.norm(x))", names)
    assert_converted(names["Made"](), fused=0)
    note = convert(names["Made"]()).rows[0].note
    assert note == "not fused: the source of Made.forward is not at hand"


class Changing(Nested):
    """What forward leaves behind, and asks of generators."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.kept: dict[str, Tensor] = {}
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.5)
        self.calls += 1
        self.kept.setdefault("x", x * torch.rand(1) * random.random() * np.random.rand())
        self.seen.append(x)
        return super().forward(x) + self.kept["x"]


@pytest.mark.parametrize("inplace", [True, False])
def test_a_conversion_leaves_the_state_of_the_model(inplace: bool) -> None:
    net = Changing()
    states = (torch.get_rng_state(), random.getstate(), np.random.get_state()[2])
    report = convert(net, inplace=inplace)
    assert report.count("fused") == 1
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[2]) == states[1:]
    for model in (net, report.model, report.revert()):
        assert model.mean.tolist() == [1.0] * 4 and model.calls == 0
        assert (model.kept, model.seen) == ({}, [])


def test_parameters_that_are_made_later() -> None:
    net = Nested()
    net.proj = nn.LazyConv1d(4, 1)
    assert convert(net, inplace=True).count("fused") == 1
    assert net(inputs()).shape == (2, 4, 6) and type(net.proj) is nn.Conv1d
