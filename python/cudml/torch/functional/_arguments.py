"""Checks of the arguments of torch's functions: texts name function, argument, value and range."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cudml.torch._dispatch import check_dense

LARGEST = 2**32 - 1  # of a window, a stride, a dilation and a pad
NAMES = {"silu": "swish"}  # torch's names of activations whose own is another


def tensor(function: str, name: str, value: Any) -> torch.Tensor:
    """`value`, which must be a tensor, and one alone."""
    if not isinstance(value, torch.Tensor):
        kind = type(value).__name__
        raise TypeError(f"{function}: {name} is a {kind}; it must be a torch.Tensor")
    check_dense(function, name, value)
    return value


def rank(function: str, sizes: Sequence[Any], least: int, most: int) -> int:
    """The number of dimensions of an input of these sizes, which must be in this range."""
    if not least <= len(sizes) <= most:
        text = f"{function}: input has {len(sizes)} dimensions; it must have {least}"
        raise ValueError(text + (f" to {most}" if most > least else ""))
    return len(sizes)


def whole(function: str, name: str, value: Any, least: int, most: int = LARGEST) -> Any:
    """An int of this range; a symbolic one, of a shape being traced, is taken as it is."""
    if (type(value) is int and least <= value <= most) or isinstance(value, torch.SymInt):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        kind = f"{value!r} ({type(value).__name__})"
        raise TypeError(f"{function}: {name} is {kind}; it must be an int") from None
    if not least <= number <= most:
        text = f"{function}: {name} is {number}; it must be between {least} and {most}"
        raise ValueError(text)
    return number


def is_sequence(value: Any) -> bool:
    """Whether an argument has an entry for each dimension."""
    return isinstance(value, (list, tuple))


def wholes(function: str, name: str, value: Any, count: int, least: int) -> list[Any]:
    """An int for each of `count` dimensions; a single one stands for all of them."""
    if not is_sequence(value):
        return [whole(function, name, value, least)] * count
    if len(value) not in (1, count):
        text = f"{function}: {name} has {len(value)} entries; it must be an int or have {count}"
        raise ValueError(text)
    listed = [whole(function, f"{name}[{i}]", v, least) for i, v in enumerate(value)]
    return listed * (count if len(value) == 1 else 1)


def sides(function: str, value: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Pads before and after each dimension: an entry is one int for both or a pair of them."""
    if not is_sequence(value):
        both = [whole(function, "padding", value, 0)] * count
        return both, both
    if len(value) == 1:
        value = list(value) * count
    if len(value) != count:
        text = f"{function}: padding has {len(value)} entries; it must be an int or have {count}"
        raise ValueError(text)
    starts, ends = [], []
    for i, entry in enumerate(value):
        if not is_sequence(entry):
            entry = (entry, entry)
        if len(entry) != 2:
            text = f"{function}: padding[{i}] has {len(entry)} entries; it must be an int or a pair"
            raise ValueError(text + " (start, end)")
        starts.append(whole(function, f"padding[{i}]", entry[0], 0))
        ends.append(whole(function, f"padding[{i}]", entry[1], 0))
    return starts, ends


def flag(function: str, name: str, value: Any) -> bool:
    """True or False; nothing else counts as either."""
    if not isinstance(value, (bool, np.bool_)):
        kind = f"{value!r} ({type(value).__name__})"
        raise TypeError(f"{function}: {name} is {kind}; it must be True or False")
    return bool(value)


def activation(value: Any) -> Any:
    """An activation by cudml's name of it: torch's "silu" is "swish"."""
    if isinstance(value, str):
        return NAMES.get(value, value)
    if is_sequence(value) and len(value) == 2 and isinstance(value[0], str):
        return (NAMES.get(value[0], value[0]), value[1])
    return value


def shaped(function: str, shape: tuple[Any, ...], **given: Any) -> None:
    """Refuse a weight, a bias or statistics that are not of this shape."""
    for name, value in given.items():
        if value is None:
            continue
        found = tensor(function, name, value).shape
        if found != shape:
            text = f"{function}: {name} has shape {tuple(found)}; it must be {shape}"
            raise ValueError(text)
