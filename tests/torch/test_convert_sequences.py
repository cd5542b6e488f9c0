"""Which nn.Sequential counts as called as a whole, by the code of those that hold it."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import convert  # noqa: E402
from tests.torch.converting import assert_converted  # noqa: E402

nn = torch.nn
Tensor = torch.Tensor


def sequence() -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(4, 4, 1), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv1d(4, 4, 1))


class Holder(nn.Module):
    """Sequences, in lists and alone."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.seq = made


class Whole(Holder):
    def forward(self, x: Tensor) -> Tensor:
        return x if self.seq is None else self.seq(x)


class Each(Holder):
    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, part in enumerate(self.seq):
            x = part(x)
            if i % 2 == 0:
                kept.append(x)
        return x + sum(kept)


class Zipped(Holder):
    def forward(self, x: Tensor) -> Tensor:
        for scale, part in zip((1.0, 2.0), self.seq, strict=False):
            x = part(x) * scale
        return x


class ZippedPairs(Holder):
    def forward(self, x: Tensor) -> Tensor:
        for pair in zip((1.0, 2.0), self.seq, strict=False):
            x = pair[1](x) * pair[0]
        return x


class Reversed(Holder):
    def forward(self, x: Tensor) -> Tensor:
        for part in reversed(list(self.seq)):
            x = part(x)
        return x


class Indexed(Holder):
    def forward(self, x: Tensor) -> Tensor:
        first, rest = self.seq[0], self.seq[1:]
        for part in rest:
            first(x)
            x = part(x)
        return x


class Pairs(Holder):
    """Lists in a list, as U-Nets have them."""

    def forward(self, x: Tensor) -> Tensor:
        for first, second in self.seq:
            x = second(first(x))
        return x


class Recomputed(Holder):
    def forward(self, x: Tensor) -> Tensor:
        for part in self.seq:
            x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
        return x


class Handed(Holder):
    """What it gives a sequence to may call a part of it."""

    def forward(self, x: Tensor) -> Tensor:
        return normal(self.seq, x)


def normal(seq: Any, x: Tensor) -> Tensor:
    return seq[1](x)


class Own(nn.Sequential):
    """A class of its own, with code that does not run them."""

    def __init__(self) -> None:
        super().__init__(*sequence())
        for layer in self:
            if isinstance(layer, nn.Conv1d):
                nn.init.ones_(layer.weight)
        nn.init.zeros_(self[-1].weight)


class Parted(nn.Sequential):
    def features(self, x: Tensor) -> Tensor:
        for layer in self[:2]:
            x = layer(x)
        return x


LISTED = {
    "whole": lambda: Whole(sequence()), "each": lambda: Each(nn.ModuleList([sequence()])),
    "nested": lambda: Each(nn.Sequential(nn.Sequential(sequence()))), "own": Own,
    "indexed": lambda: Indexed(nn.ModuleList([nn.Identity(), sequence()])),
    "zipped": lambda: Zipped(nn.ModuleList([sequence()])),
    "pairs": lambda: Pairs(nn.ModuleList([nn.ModuleList([nn.Identity(), sequence()])])),
    "recomputed": lambda: Recomputed(nn.ModuleList([sequence()])),
    "in an own": lambda: Whole(Own()), "reversed": lambda: Reversed(nn.ModuleList([sequence()])),
}  # fmt: skip
APART = {
    "each": lambda: Each(sequence()), "zipped": lambda: Zipped(sequence()),
    "indexed": lambda: Indexed(sequence()), "recomputed": lambda: Recomputed(sequence()),
    "pairs": lambda: Pairs(nn.ModuleList([sequence()[1:3]])), "own": lambda: Parted(*sequence()),
    "handed": lambda: Handed(sequence()), "zipped pairs": lambda: ZippedPairs(sequence()),
    "reversed": lambda: Reversed(sequence()),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_sequences_that_are_called_as_a_whole(name: str) -> None:
    assert_converted(LISTED[name](), fused=1)


@pytest.mark.parametrize("name", APART)
def test_sequences_whose_children_are_called_one_by_one(name: str) -> None:
    net = APART[name]()
    assert_converted(net, fused=0)
    assert any("than to call it" in row.note for row in convert(net).rows)


def reversed_forward(seq: nn.Sequential, x: Tensor) -> Tensor:
    return seq[0](seq[3](x))


def test_a_sequence_whose_forward_was_replaced() -> None:
    net = sequence()
    net.forward = functools.partial(reversed_forward, net)  # type: ignore[method-assign]
    assert_converted(net, fused=0)


def test_wrappers_of_torch_call_the_whole() -> None:
    assert_converted(nn.DataParallel(sequence()), fused=1)
    assert_converted(Each(nn.ModuleList([nn.DataParallel(sequence())])), fused=1)
