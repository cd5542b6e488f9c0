"""Fields that several descriptors have, stated once.

A dataclass takes the fields of its last base first: bases are named from the last field to the
first, so that fields come in DirectML's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._types import BufferTensorDesc, OperatorDesc


@dataclass(frozen=True, kw_only=True)
class Input(OperatorDesc):
    InputTensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class Mapped(Input):
    """One tensor becomes one other."""

    OutputTensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class Indexed(Mapped):
    OutputIndicesTensor: BufferTensorDesc | None = None


@dataclass(frozen=True, kw_only=True)
class Gradients(OperatorDesc):
    InputGradientTensor: BufferTensorDesc
    OutputGradientTensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class Counted(OperatorDesc):
    DimensionCount: int | None = None


@dataclass(frozen=True, kw_only=True)
class Taps(OperatorDesc):
    Strides: Sequence[int]
    WindowSize: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Borders(OperatorDesc):
    StartPadding: Sequence[int]
    EndPadding: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Windows(Borders, Taps, Counted):
    """Where the windows of pooling lie."""


@dataclass(frozen=True, kw_only=True)
class DilatedWindows(Windows):
    Dilations: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class OverAxes(OperatorDesc):
    AxisCount: int | None = None
    Axes: Sequence[int] | None
