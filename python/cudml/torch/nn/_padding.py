"""torch.nn's padding modules on cudml's operator, and symmetric ones, which torch has not.

Each derives from torch.nn's module of its name: constructor, attributes and `extra_repr` are
torch's own, and `isinstance` holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cudml.torch import functional as F


class _Constant(torch.nn.Module):
    """The forward pass of padding with a value."""

    padding: Any
    value: float

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class _Reflection(torch.nn.Module):
    """The forward pass of reflection, which leaves the edge out."""

    padding: Any

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class _Replication(torch.nn.Module):
    """The forward pass of repeating the edge."""

    padding: Any

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class _Circular(torch.nn.Module):
    """The forward pass of padding from the other side."""

    padding: Any

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "circular")


class ConstantPad1d(_Constant, torch.nn.ConstantPad1d):
    """torch.nn.ConstantPad1d."""


class ConstantPad2d(_Constant, torch.nn.ConstantPad2d):
    """torch.nn.ConstantPad2d."""


class ConstantPad3d(_Constant, torch.nn.ConstantPad3d):
    """torch.nn.ConstantPad3d."""


class ZeroPad1d(_Constant, torch.nn.ZeroPad1d):
    """torch.nn.ZeroPad1d."""


class ZeroPad2d(_Constant, torch.nn.ZeroPad2d):
    """torch.nn.ZeroPad2d."""


class ZeroPad3d(_Constant, torch.nn.ZeroPad3d):
    """torch.nn.ZeroPad3d."""


class ReflectionPad1d(_Reflection, torch.nn.ReflectionPad1d):
    """torch.nn.ReflectionPad1d."""


class ReflectionPad2d(_Reflection, torch.nn.ReflectionPad2d):
    """torch.nn.ReflectionPad2d."""


class ReflectionPad3d(_Reflection, torch.nn.ReflectionPad3d):
    """torch.nn.ReflectionPad3d."""


class ReplicationPad1d(_Replication, torch.nn.ReplicationPad1d):
    """torch.nn.ReplicationPad1d."""


class ReplicationPad2d(_Replication, torch.nn.ReplicationPad2d):
    """torch.nn.ReplicationPad2d."""


class ReplicationPad3d(_Replication, torch.nn.ReplicationPad3d):
    """torch.nn.ReplicationPad3d."""


class CircularPad1d(_Circular, torch.nn.CircularPad1d):
    """torch.nn.CircularPad1d."""


class CircularPad2d(_Circular, torch.nn.CircularPad2d):
    """torch.nn.CircularPad2d."""


class CircularPad3d(_Circular, torch.nn.CircularPad3d):
    """torch.nn.CircularPad3d."""


class _Symmetric(torch.nn.Module):
    """Reflection that repeats the edge; an int pads both sides of each dimension alike."""

    COUNT = 0  # of padded dimensions

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * self.COUNT
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != count:
            text = f"{type(self).__name__}: padding is {padding!r}; it must be an int or have"
            raise ValueError(f"{text} {count} entries")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "symmetric")

    def extra_repr(self) -> str:
        return f"{self.padding}"


class SymmetricPad1d(_Symmetric):
    """torch.nn.ReflectionPad1d with the edge repeated."""

    COUNT = 1


class SymmetricPad2d(_Symmetric):
    """torch.nn.ReflectionPad2d with the edge repeated."""

    COUNT = 2


class SymmetricPad3d(_Symmetric):
    """torch.nn.ReflectionPad3d with the edge repeated."""

    COUNT = 3
