"""What the operators return, not yet written: shapes, types and memory formats.

The operators allocate by these functions, and tensors without memory (fake ones) stop there, so
that both have the same strides. A function takes its operator's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cudml import _backend

Ints: TypeAlias = Sequence[Any]  # int or SymInt
Triple: TypeAlias = tuple[Tensor, Tensor, Tensor]

_kept: dict[Any, bool] = {}  # answers of the two below, which take a third as long to find
_MOST_KEPT = 4096
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def format_of(x: Tensor) -> torch.memory_format:
    """channels_last where a tensor is so and not row-major as well."""
    last = _CHANNELS_LAST.get(x.dim())
    if last is not None and not x.is_contiguous() and x.is_contiguous(memory_format=last):
        return last
    return torch.contiguous_format


def is_row_major(x: Tensor) -> bool:
    """Whether it is, or is not strided, which `cudml` refuses."""
    try:
        return x.is_contiguous() or x.layout is not torch.strided
    except RuntimeError:
        return True


def keeps_order(x: Tensor) -> bool:
    """Whether `cudml` gives its results the memory format by itself that they have here.

    A spatial size of 1 does not tell it where a larger one of the result stands in memory. What is
    not strided, as sparse tensors, it refuses: there is no order to keep.
    """
    try:
        if x.is_contiguous() or x.layout is not torch.strided:
            return True
    except RuntimeError:  # of some sparse tensors
        return True
    key = x.shape, x.stride()
    found = _kept.get(key)
    if found is None:
        is_last = format_of(x) is not torch.contiguous_format
        found = _keep(key, is_last and 1 not in x.shape[2:])
    return found


def keeps_strides(x: Tensor) -> bool:
    """Whether `cudml` gives results of x's own shape by itself the strides of `torch.empty_like`.

    A tensor that is row-major may have any stride where a size is 1: that of one channel that is
    last, say, which the next operator goes by.
    """
    try:
        if not x.is_contiguous():
            return keeps_order(x)
    except RuntimeError:
        return True
    if 1 not in x.shape or x.layout is not torch.strided:
        return True
    key = x.shape, x.stride()
    found = _kept.get(key)
    if found is None:
        steps = [1]
        for n in reversed(x.shape[1:]):
            steps.insert(0, steps[0] * max(n, 1))
        found = _keep(key, x.stride() == tuple(steps))
    return found


def _keep(key: Any, answer: bool) -> bool:
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[key] = answer
    return answer


def keep_order(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> bool:
    """Whether `cudml` gives the gradients of these by itself the memory format of `masked`."""
    for t in (scale, bias):
        if t is not None and not (is_row_major(t) and keeps_strides(t)):
            return False
    return keeps_strides(x)


def on_large_pages(new: Tensor) -> Tensor:
    """A new tensor that nothing has been written to, as `cudml` itself makes one that is large."""
    if type(new) is Tensor and new.is_cpu and new.nbytes >= _backend.core.LARGE_BYTES:
        _backend.core.ask_for_large_pages(new.data_ptr(), new.nbytes)
    return new


def new_like(like: Tensor) -> Tensor:
    return on_large_pages(torch.empty_like(like))


def empty(like: Tensor, sizes: Ints, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of another shape in the memory format of the first argument."""
    kept = format_of(like)
    kind = like.dtype if dtype is None else dtype
    return on_large_pages(
        torch.empty(tuple(sizes), dtype=kind, device=like.device, memory_format=kept)
    )


def _is_last(x: Tensor) -> bool:
    """The question of `format_of` by strides, which tensors in a vmap have and formats not."""
    if x.dim() not in _CHANNELS_LAST or x.is_contiguous():
        return False
    step: Any = 1
    for d in (1, *reversed(range(2, x.dim())), 0):
        if x.shape[d] != 1:
            if x.stride(d) != step:
                return False
            step = step * x.shape[d]
    return True


def in_format_of(y: Tensor, like: Tensor) -> Tensor:
    """A result in the memory format that `empty` would give it."""
    return y.movedim(1, -1).contiguous().movedim(-1, 1) if _is_last(like) else y.contiguous()


def in_strides_of(y: Tensor, like: Tensor) -> Tensor:
    """A result of the same shape with the strides of `torch.empty_like`."""
    if like.is_contiguous() or _is_last(like):
        return in_format_of(y, like)
    return torch.empty_like(like).copy_(y)


def _pooled(x: Tensor, *arguments: Any) -> Tensor:
    return empty(x, (*x.shape[:2], *arguments[-1]))


def _pooled_with_indices(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    sizes = (*x.shape[:2], *arguments[-1])
    return empty(x, sizes), empty(x, sizes, torch.int64)


def _like(x: Tensor, *arguments: Any) -> Tensor:
    return new_like(x)


def _sized(grad: Tensor, input_sizes: Ints, *arguments: Any) -> Tensor:
    return empty(grad, input_sizes)


def _padded(x: Tensor, start_padding: Ints, end_padding: Ints, *arguments: Any) -> Tensor:
    pairs = zip(x.shape, start_padding, end_padding, strict=True)
    return empty(x, [n + start + end for n, start, end in pairs])


def _unpooled(x: Tensor, indices: Tensor, output_sizes: Ints) -> Tensor:
    return empty(x, output_sizes)


def masked(tensors: Sequence[Tensor | None], mask: Sequence[bool], like: Tensor) -> Triple:
    """A tensor like each one that is there and asked for; else one of shape (0,)."""
    first, second, third = (
        new_like(t) if wanted and t is not None else like.new_empty(0)
        for t, wanted in zip(tensors, mask, strict=True)
    )
    return first, second, third


def _normalization_grad(
    x: Tensor, grad: Tensor, scale: Tensor | None, bias: Tensor | None, *rest: Any
) -> Triple:
    return masked((x, scale, bias), rest[-1], x)


def _normalize_grad(
    x: Tensor,
    grad: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None,
    bias: Tensor | None,
    *rest: Any,
) -> Triple:
    return masked((x, scale, bias), rest[-1], x)


def groups(x: Tensor, axes: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A number for each group: x's shape with size 1 in `axes`, row-major."""
    reduced = {axis % x.dim() for axis in axes}
    sizes = [1 if d in reduced else n for d, n in enumerate(x.shape)]
    return torch.empty(sizes, dtype=dtype, device=x.device)


def row_major(y: Tensor, *statistics: Tensor | None) -> tuple[Tensor | None, ...]:
    """A result as it is and what `groups` would make of its statistics, whose sizes of 1 leave
    their strides open."""
    return y, *(None if t is None else t.contiguous() for t in statistics)


def count_of(x: Tensor, axes: Sequence[int]) -> Any:
    """The elements of a group."""
    count: Any = 1
    for axis in axes:
        count = count * x.shape[axis]
    return count


def _statistics(x: Tensor, axes: Sequence[int], use_mean: bool, dtype: torch.dtype) -> Triple:
    return groups(x, axes, dtype), groups(x, axes, dtype), groups(x, axes, dtype)


def _sums(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    axes = arguments[5]
    return groups(x, axes, torch.float64), groups(x, axes, torch.float64)


RESULTS: dict[str, Callable[..., Any]] = {
    "max_pooling": _pooled,
    "max_pooling_with_indices": _pooled_with_indices,
    "max_pooling_grad": _like,
    "average_pooling": _pooled,
    "average_pooling_grad": _sized,
    "lp_pooling": _pooled,
    "lp_pooling_grad": _like,
    "padding": _padded,
    "padding_grad": _sized,
    "mean_variance_normalization": _like,
    "mean_variance_normalization_grad": _normalization_grad,
    "normalization_statistics": _statistics,
    "normalize": _like,
    "normalize_grad_sums": _sums,
    "normalize_grad": _normalize_grad,
    "max_unpooling": _unpooled,
}


def keeps(name: str, x: Tensor) -> bool:
    """Whether `cudml` gives an operator's result by itself the strides that it has here."""
    return keeps_strides(x) if RESULTS[name] is _like else keeps_order(x)
