"""Flat positions in row-major tensors, and positions within the planes of {N,C,spatial}."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from cudml.torch._dispatch import is_plain


def plane_bases(places: Tensor, plane: Any) -> Tensor:
    """Where the planes of places {N,C,spatial}, of `plane` elements, begin: {N,C,1,...}."""
    n, c = places.shape[:2]
    bases = torch.arange(n * c, device=places.device).mul(plane)
    return bases.view(n, c, *[1] * (places.dim() - 2))


def are_within(places: Tensor, count: int) -> bool:
    """Whether positions are seen to be in [0, count). On the CPU one look at all of them takes less
    than what follows where they may not be; elsewhere none is taken."""
    if not places.is_cpu or not is_plain(places) or places.numel() == 0:
        return False
    if places.data_ptr() == 0:  # freed: PyTorch's own operators would end the process
        raise BufferError("max_unpooling: IndicesTensor (indices) has no memory")
    in_memory = places.numpy().ravel("K")
    return bool(in_memory.min() >= 0) and bool(in_memory.max() < count)


def taken(values: Tensor, places: Tensor) -> Tensor:
    """The elements at flat positions of the row-major tensor."""
    if _are_pixels(values) and _are_pixels(places):
        found = _taken_of_pixels(values, places)
        if found is not None:
            return found
    return values.reshape(-1).index_select(0, places.reshape(-1)).reshape(places.shape)


def at(values: Tensor, indices: Tensor) -> Tensor:
    """The elements at flat positions of the row-major tensor; 0 for negative positions."""
    found = taken(values, indices.clamp(min=0))
    return torch.where(indices >= 0, found, torch.zeros_like(found))


def _are_pixels(x: Tensor) -> bool:
    """Whether several channels lie side by side, where a look at positions costs little."""
    if not x.is_cpu or not is_plain(x) or not 4 <= x.dim() <= 5 or x.is_contiguous():
        return False
    order = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    return x.is_contiguous(memory_format=order)


def _taken_of_pixels(values: Tensor, places: Tensor) -> Tensor | None:
    """The same where both have channels last and positions lead into their own planes; None where
    one does not. A row-major copy of the values would take longer than all of this."""
    n, c = values.shape[:2]
    if places.shape[:2] != values.shape[:2]:
        return None
    plane = math.prod(values.shape[2:])
    within = places - plane_bases(places, plane)
    if not are_within(within, plane):
        return None
    first, step = (torch.arange(count, device="cpu") for count in (c, n))  # whatever the default
    firsts = step.mul(plane * c).view(n, 1) + first
    in_memory = within.mul_(c).add_(firsts.view(n, c, *[1] * (places.dim() - 2)))
    order = (0, *range(2, places.dim()), 1)
    pixels = in_memory.permute(order)
    found = values.permute(order).reshape(-1).index_select(0, pixels.reshape(-1))
    return found.view(pixels.shape).movedim(-1, 1)
