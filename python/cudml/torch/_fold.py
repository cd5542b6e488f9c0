"""Tensors that are pooled over any of their dimensions, as the {N,C,spatial} that operators take.

In which order an operator adds depends on how dimensions follow each other in memory, and so do the
last bits of a sum: a fold is a view wherever two dimensions can hold the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fold:
    """Which dimensions of a tensor become N, C and the spatial ones, in this order."""

    outer: list[int]
    inner: list[int]
    axes: list[int]

    @property
    def order(self) -> list[int]:
        return self.outer + self.inner + self.axes

    @property
    def is_canonical(self) -> bool:
        """Whether a tensor is {N,C,spatial} already."""
        order = self.order
        return len(self.outer) == len(self.inner) == 1 and order == sorted(order)

    def sizes(self, sizes: Sequence[Any]) -> list[Any]:
        """What `of` makes of a shape."""
        batch = [_product(sizes, dims) for dims in (self.outer, self.inner)]
        return [*batch, *(sizes[a] for a in self.axes)]

    def of(self, x: Tensor) -> Tensor:
        """The tensor as {N,C,spatial}."""
        return x if self.is_canonical else x.permute(self.order).reshape(self.sizes(x.shape))

    def undo(self, y: Tensor, sizes: Sequence[Any]) -> Tensor:
        """A result as the tensor had its dimensions; `sizes` has those of the batch."""
        if self.is_canonical:
            return y
        batch = [sizes[d] for d in self.outer + self.inner]
        order = self.order
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return y.reshape(*batch, *y.shape[2:]).permute(inverse)

    def positions(self, indices: Tensor, sizes: Sequence[Any]) -> Tensor:
        """Flat positions in {N,C,spatial} as those in the tensor itself; -1 stays."""
        order = self.order
        if order == sorted(order):
            return indices
        steps = [1] * len(sizes)
        for d in reversed(range(len(sizes) - 1)):
            steps[d] = steps[d + 1] * sizes[d + 1]
        rest, flat = indices, torch.zeros_like(indices)
        for d in reversed(order):
            flat = flat + rest % sizes[d] * steps[d]
            rest = rest // sizes[d]
        return torch.where(indices >= 0, flat, indices)


def _product(sizes: Sequence[Any], dims: Sequence[int]) -> Any:
    product: Any = 1
    for d in dims:
        product = product * sizes[d]
    return product


def _outermost_first(dims: list[int], x: Tensor, steps: Sequence[Any]) -> list[int]:
    """Dimensions as they follow each other in memory; `sorted` takes no symbols."""
    single = [d for d in dims if x.shape[d] == 1]
    placed: list[int] = []
    for d in dims:
        if d not in single:
            place = len(placed)
            while place and steps[placed[place - 1]] < steps[d]:
                place -= 1
            placed.insert(place, d)
    return single + placed


def _follows(x: Tensor, steps: Sequence[Any], outer: int, inner: int) -> bool:
    """Whether one dimension goes on where the other ends."""
    is_single = x.shape[outer] == 1 or x.shape[inner] == 1
    return is_single or steps[outer] == steps[inner] * x.shape[inner]


def fold(x: Tensor, axes: list[int]) -> tuple[Fold, Tensor]:
    """How a tensor is folded that is pooled over `axes`, and the tensor so.

    A batch that lies in three pieces or more is copied, with its elements in the same order.
    """
    batch, steps = [d for d in range(x.dim()) if d not in axes], x.stride()
    if batch == [0, 1]:
        return Fold([0], [1], axes), x
    pieces: list[list[int]] = [[]]
    for d in _outermost_first(batch, x, steps):
        if not pieces[-1] or _follows(x, steps, pieces[-1][-1], d):
            pieces[-1].append(d)
        else:
            pieces.append([d])
    inner = pieces.pop()
    outer = [d for piece in pieces for d in piece]
    is_innermost = all(x.shape[a] == 1 or steps[d] < steps[a] for d in inner[-1:] for a in axes)
    if len(pieces) != 1 and not is_innermost:
        outer, inner = outer + inner, []
    found = Fold(outer, inner, axes)
    return found, found.of(x) if len(pieces) < 2 else _packed(x, found, steps)


def _packed(x: Tensor, found: Fold, steps: Sequence[Any]) -> Tensor:
    """A copy as {N,C,spatial}, spatial dimensions in the order that they have in memory."""
    spatial = _outermost_first(found.axes, x, steps)
    sizes = found.sizes(x.shape)
    copy = x.permute(found.outer + spatial + found.inner).contiguous()
    copy = copy.reshape(sizes[0], *(x.shape[a] for a in spatial), sizes[1])
    return copy.permute(0, -1, *(1 + spatial.index(a) for a in found.axes))
