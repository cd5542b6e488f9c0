"""What convert reads beside forward's plain statements, and code that reads its activations."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import convert  # noqa: E402
from cudml.torch.nn._shared import SharedActivation, may_share  # noqa: E402
from tests.torch.converting import Block, assert_converted  # noqa: E402

nn = torch.nn
Tensor = torch.Tensor


class Listed(Block):
    """The activation's call is the first one of a tuple."""

    def forward(self, x: Tensor) -> Any:
        h = self.norm(x)
        return self.act(h), self.proj(x)


class ListedLast(Block):
    """Another call comes before it, which might change the result in place."""

    def forward(self, x: Tensor) -> Any:
        h = self.norm(x)
        return self.proj(x), self.act(h)


class Property(Block):
    """Another way to the normalization, which is no method."""

    @property
    def normal(self) -> Any:
        return self.norm

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(x))


def doubled(function: Any) -> Any:
    """A decorator that does not say what it holds."""

    def twice(self: Any, x: Tensor) -> Tensor:
        return 2 * function(self, x)

    return twice


class Held(Block):
    @doubled
    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(x))


class HeldElsewhere(Block):
    """That method is within a decorator, too."""

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(x))

    @doubled
    def normal(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Loop(Block):
    """Whose body runs once."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(1):
            h = self.norm(x)
            y = self.act(h)
        return y


class Asking(Block):
    """What parameters are is what they were, while convert looks at forward."""

    def forward(self, x: Tensor) -> Tensor:
        found = [isinstance(p, nn.Parameter) and p.requires_grad for p in self.parameters()]
        if found != [True, True, True, False]:
            raise AssertionError
        return self.act(self.norm(x))


class Given(Block):
    """A function gets the normalization, to do with it what it likes."""

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(x))

    def features(self, x: Tensor) -> Tensor:
        return called(self.norm, x)


def called(function: Any, x: Tensor) -> Any:
    return function(x)


class TwoNames(Block):
    """One name is the end of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.post_norm, self.gate = nn.LayerNorm(6), nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(x)) * self.gate(self.post_norm(x))


def asking() -> Any:
    net = Asking()
    net.proj.bias.requires_grad_(False)
    return net


@pytest.mark.parametrize("kind, fused", [
    (Listed, 1), (ListedLast, 0), (Property, 0), (Held, 1), (HeldElsewhere, 0), (Loop, 1),
    (asking, 1), (TwoNames, 2), (Given, 0),
])  # fmt: skip
def test_ways_to_write_code(kind: Any, fused: int) -> None:
    assert_converted(kind(), fused)


class ByMode(Block):
    """A module that only evaluation calls."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return h if self.training else self.act(h)


def test_an_activation_of_evaluation_alone_is_named() -> None:
    assert_converted(ByMode(), fused=0)
    assert convert(ByMode()).rows[0].note == "not fused: training and evaluation differ"


class Plain(Block):
    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(x))


def test_a_forward_that_was_replaced() -> None:
    """By what is no function with code of its own."""
    net = Plain()
    net.forward = functools.partial(Plain.forward, net)  # type: ignore[method-assign]
    assert_converted(net, fused=0)
    assert convert(net).rows[0].note == "not fused: forward was replaced"


class Reading(nn.Module):
    """It calls the activation of its child."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Plain()

    def forward(self, x: Tensor) -> Tensor:
        return self.block.act(x) + self.block(x)


class Calling(Reading):
    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


def unread() -> Any:
    """A class whose code is not at hand; it reads an attribute of the activation's name."""
    names: dict[str, Any] = {"Calling": Calling}
    exec("class Made(Calling):\n def spare(self, x):\n  return self.other.act(x)", names)
    return names["Made"]()


@pytest.mark.parametrize("make, is_alone", [(Reading, False), (unread, False), (Calling, True)])
def test_an_activation_that_others_may_read_is_not_alone(make: Any, is_alone: bool) -> None:
    """Programs without marks take what comes to one that is alone for a normalization's result."""
    if not is_alone and not may_share():
        pytest.skip("this release's programs lose marks, without which it is not fused")
    assert_converted(make(), fused=1)
    (shared,) = (m for m in convert(make()).model.modules() if isinstance(m, SharedActivation))
    assert shared.is_alone == is_alone
