"""Arguments of the public functions as the operators take them, sizes of outputs among them.

Sizes may be symbolic while a program is traced; checks that would fix one are left to the call.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cudml.torch._kept import kept

_LARGEST = 2**32 - 1
_FIELDS = ("WindowSize", "Strides", "StartPadding", "EndPadding", "Dilations")


def whole(op: str, field: str, value: Any, least: int, most: int = _LARGEST) -> Any:
    """An int between `least` and `most`, or a symbolic one."""
    if isinstance(value, torch.SymInt):
        return value
    if isinstance(value, bool):
        raise TypeError(f"{op}: {field} is {value!r} (bool); it must be an int")
    if not isinstance(value, int):
        try:
            value = operator.index(value)
        except TypeError:
            kind = type(value).__name__
            raise TypeError(f"{op}: {field} is {value!r} ({kind}); it must be an int") from None
    if not least <= value <= most:
        raise ValueError(f"{op}: {field} is {value}; it must be between {least} and {most}")
    return value


def is_list(value: Any) -> bool:
    """Whether an argument has an entry for each dimension."""
    is_single = isinstance(value, (int, str, bytes))
    return not is_single and hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0


def wholes(
    op: str, field: str, values: Any, count: int, least: int, most: int = _LARGEST
) -> list[Any]:
    """An int for each of `count` dimensions; one alone stands for all of them."""
    if type(values) is int and least <= values <= most:
        return [values] * count
    if not is_list(values):
        return [whole(op, f"{field}[0]", values, least, most)] * count
    if len(values) != count:
        raise ValueError(
            f"{op}: {field} has {len(values)} entries; it must be an int or have {count}"
        )
    return [whole(op, f"{field}[{i}]", v, least, most) for i, v in enumerate(values)]


def shape(op: str, field: str, values: Any, rank: int) -> list[Any]:
    """The sizes of a whole tensor of a known rank."""
    if not is_list(values):
        kind = type(values).__name__
        raise TypeError(f"{op}: {field} is {values!r} ({kind}); it must be a sequence of sizes")
    return wholes(op, field, values, rank, 0, 2**63 - 1)


def real(op: str, field: str, value: Any) -> float:
    """A real number."""
    if isinstance(value, (bool, str, bytes, complex)):
        raise TypeError(f"{op}: {field} is {value!r}; it must be a real number")
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise TypeError(f"{op}: {field} is a {kind}; it must be a real number") from None


def axes_of(op: str, axes: Any, rank: int) -> list[int]:
    """Axes counted from 0, in the order given; no program holds symbolic ones."""
    listed = list(axes) if is_list(axes) else [axes]
    given = [whole(op, f"Axes[{i}]", a, -rank, rank - 1) for i, a in enumerate(listed)]
    found = [operator.index(a) % rank for a in given]
    for i, axis in enumerate(found):
        if axis in found[:i]:
            raise ValueError(f"{op}: Axes names dimension {axis} twice; each may stand there once")
    return found


def flag(op: str, field: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{op}: {field} is {value!r}; it must be True or False")
    return bool(value)


@dataclass
class Windows:
    """Windows over the dimensions of a tensor that are pooled; all others are batch.

    ``fields`` are window size, strides, start and end padding and dilations, one per dimension.
    """

    op: str
    axes: list[int]
    fields: tuple[list[int], ...]

    def output_sizes(self, sizes: Sequence[Any], asked: Any) -> list[Any]:
        """The output's pooled sizes: by the floor rule, by the ceil rule, or as asked for."""
        inputs = [sizes[a] for a in self.axes]
        if asked is not None and not isinstance(asked, str):
            return wholes(self.op, "OutputTensor.Sizes", asked, len(inputs), 1, 2**63 - 1)
        if asked not in (None, "ceil"):
            raise ValueError(
                f'{self.op}: output_sizes is {asked!r}; it must be None, "ceil" or one int per '
                "pooled dimension"
            )
        return [self._size(i, n, asked == "ceil") for i, n in enumerate(inputs)]

    def _size(self, i: int, n: Any, is_ceil: bool) -> Any:
        window, stride, start, end, dilation = (field[i] for field in self.fields)
        extent, padded = 1 + (window - 1) * dilation, n + start + end
        if isinstance(n, int) and not (n >= 1 and extent <= padded):
            raise ValueError(
                f"{self.op}: WindowSize[{i}] is {window} with Dilations[{i}] {dilation}, an extent "
                f"of {extent}; it must not exceed the padded size {padded} of at least 1 element"
            )
        if not is_ceil:
            return (padded - extent) // stride + 1
        every, inside = (padded - extent + stride - 1) // stride + 1, (n + start - 1) // stride + 1
        # dynamo of PyTorch 2.4 refuses torch.sym_min of ints; what else traces, min of symbols
        least = min if torch.compiler.is_dynamo_compiling() else torch.sym_min
        return least(every, inside)


@kept
def windows_of(op: str, rank: int, axes: Any, *values: Any) -> Windows:
    """Windows with these geometry arguments, over `axes` or the dimensions from 2 on."""
    if axes is None:
        if not 3 <= rank <= 5:
            raise ValueError(
                f"{op}: InputTensor.DimensionCount is {rank}; without axes it must be 3, 4 or 5"
            )
        pooled_axes = list(range(2, rank))
    else:
        pooled_axes = axes_of(op, axes, rank)
        if not 1 <= len(pooled_axes) <= 3:
            raise ValueError(f"{op}: Axes has {len(pooled_axes)} entries; it must have 1 to 3")
        if pooled_axes != sorted(pooled_axes):
            raise ValueError(f"{op}: Axes is {axes!r}; axes must ascend strictly")
    least = (1, 1, 0, 0, 1)
    fields = [
        wholes(op, field, value, len(pooled_axes), low)
        for field, value, low in zip(_FIELDS, values, least, strict=True)
    ]
    return Windows(op, pooled_axes, tuple(fields))


@kept
def pooled(
    op: str, sizes: Sequence[Any], axes: Any, asked: Any, *values: Any
) -> tuple[Windows, list[Any]]:
    """The windows of a tensor of these sizes, and the output's pooled sizes."""
    windows = windows_of(op, len(sizes), axes, *values)
    return windows, windows.output_sizes(sizes, asked)
