"""Max unpooling with the signatures of torch.nn.functional: indices count within a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import cudml.torch as canonical
from cudml.torch._places import are_within, plane_bases

from ._arguments import is_sequence, rank, sides, tensor, whole, wholes
from ._pooling import Pads, Sizes


def _spatial(function: str, count: int, given: Any) -> list[Any]:
    """The spatial part of `output_size`, which may be the full shape as well."""
    if not is_sequence(given) or len(given) not in (count, count + 2):
        text = f"{function}: output_size is {given!r}; it must have {count} or {count + 2} entries"
        raise ValueError(text)
    return [whole(function, f"output_size[{i}]", n, 1) for i, n in enumerate(given[-count:])]


def _sizes(
    function: str, count: int, x: Tensor, window: list[Any], strides: list[Any], padding: Any,
    output_size: Any,
) -> list[Any]:  # fmt: skip
    """Spatial sizes of the result; given ones may differ by less than a stride from the rule's."""
    starts, ends = sides(function, padding, count)
    rule = [
        (n - 1) * s + w - a - b
        for n, s, w, a, b in zip(x.shape[2:], strides, window, starts, ends, strict=True)
    ]
    chosen = rule if output_size is None else _spatial(function, count, output_size)
    for i, (size, n, stride) in enumerate(zip(chosen, rule, strides, strict=True)):
        low, high = max(n - stride + 1, 1), n + stride - 1
        if not low <= size <= high:
            text = f"{function}: output_size[{i}] is {size}; it must be between"
            raise ValueError(f"{text} {low} and {high}")
    return chosen


def _whole_places(places: Tensor, plane: int) -> Tensor:
    """Indices in the whole result of those that count within a plane; -1 where one is in none."""
    base = plane_bases(places, plane)
    if are_within(places, plane):
        return places + base
    is_inside = (places >= 0) & (places < plane)
    return torch.where(is_inside, places + base, -1)


def _max_unpool(
    function: str, count: int, input: Any, indices: Any, kernel_size: Any, stride: Any,
    padding: Any, output_size: Any,
) -> Tensor:  # fmt: skip
    x, places = tensor(function, "input", input), tensor(function, "indices", indices)
    is_single = rank(function, x.shape, count + 1, count + 2) == count + 1
    if places.shape != x.shape:
        text = f"{function}: indices have shape {tuple(places.shape)}; it must be {tuple(x.shape)}"
        raise ValueError(text)
    if places.dtype not in (torch.int32, torch.int64):
        text = f"{function}: indices have the dtype {places.dtype}; it must be int32 or int64"
        raise TypeError(text)
    if is_single:
        x, places = x.unsqueeze(0), places.unsqueeze(0)
    window = wholes(function, "kernel_size", kernel_size, count, 1)
    strides = window if stride is None else wholes(function, "stride", stride, count, 1)
    spatial = _sizes(function, count, x, window, strides, padding, output_size)
    n, c = x.shape[:2]
    y = canonical.max_unpooling(x, _whole_places(places, math.prod(spatial)), [n, c, *spatial])
    return y.squeeze(0) if is_single else y


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros, and the elements of {N,C,L} or {C,L} at `indices`; see `max_unpool2d`."""
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros, and the elements of {N,C,H,W} or {C,H,W} at `indices` of their plane.

    An index out of range is ignored, where torch raises; of several elements with one index the
    last in row-major order stays.
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros, and the elements of {N,C,D,H,W} or {C,D,H,W} at `indices`; see `max_unpool2d`."""
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)
