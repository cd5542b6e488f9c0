"""torch.vmap: the mapped dimension becomes part of N, or one more dimension that is kept.

A rule takes the size of the mapped dimension, each argument's place of it, and the arguments; it
gives the results and their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cudml.torch._dispatch import call
from cudml.torch._schemas import library

Places = Sequence[int | None]
_MOST_DIMENSIONS = 8


def _mapped(t: Tensor, place: int | None, size: int) -> Tensor:
    """The tensor with the mapped dimension first, repeated where it has none."""
    return t.expand(size, *t.shape) if place is None else t.movedim(place, 0)


def _leading(t: Tensor | None, place: int | None) -> Tensor | None:
    """The tensor with the mapped dimension first, of size 1 where it has none."""
    if t is None:
        return None
    return t.unsqueeze(0) if place is None else t.movedim(place, 0)


def _folded(t: Tensor) -> Tensor:
    return t.reshape(t.shape[0] * t.shape[1], *t.shape[2:])


def _unfolded(t: Tensor, size: int) -> Tensor:
    return t.reshape(size, t.shape[0] // max(size, 1), *t.shape[1:])


def _pooling(name: str, tensors: int) -> Callable[..., Any]:
    """The rule of an operator whose first arguments are tensors {N,C,spatial}, as its result is."""

    def rule(size: int, places: Places, *arguments: Any) -> Any:
        given = zip(arguments[:tensors], places, strict=False)
        parts = [_folded(_mapped(t, place, size)) for t, place in given]
        return _unfolded(call(name, *parts, *arguments[tensors:]), size), 0

    return rule


def _max_pooling_with_indices(size: int, places: Places, x: Tensor, *arguments: Any) -> Any:
    mapped = _mapped(x, places[0], size)
    y, indices = call("max_pooling_with_indices", _folded(mapped), *arguments)
    indices = _unfolded(indices, size)
    start = _starts(mapped, indices)
    return (_unfolded(y, size), torch.where(indices >= 0, indices - start, indices)), (0, 0)


def _starts(mapped: Tensor, indices: Tensor) -> Tensor:
    """Where each part begins in the flat positions of the whole, shaped to be added to indices."""
    each = mapped.numel() // max(mapped.shape[0], 1)
    steps = torch.arange(mapped.shape[0], device=mapped.device) * each
    return steps.reshape(-1, *[1] * (indices.dim() - 1))


def _average_pooling_grad(
    size: int, places: Places, grad: Tensor, input_sizes: Sequence[Any], *arguments: Any
) -> Any:
    sizes = [input_sizes[0] * size, *input_sizes[1:]]
    part = _folded(_mapped(grad, places[0], size))
    return _unfolded(call("average_pooling_grad", part, sizes, *arguments), size), 0


def _max_unpooling(
    size: int, places: Places, x: Tensor, indices: Tensor, output_sizes: Sequence[Any]
) -> Any:
    """An index that is out of range in its part must not become one into the next."""
    each = 1
    for n in output_sizes:
        each = each * n
    flat = _mapped(indices, places[1], size).to(torch.int64)
    start = (torch.arange(size, device=x.device) * each).reshape(-1, *[1] * (flat.dim() - 1))
    flat = torch.where((flat >= 0) & (flat < each), flat + start, -1)
    sizes = [output_sizes[0] * size, *output_sizes[1:]]
    y = call("max_unpooling", _folded(_mapped(x, places[0], size)), _folded(flat), sizes)
    return _unfolded(y, size), 0


def _padding(
    size: int, places: Places, x: Tensor, start: Sequence[Any], end: Sequence[Any], *rest: Any
) -> Any:
    return call("padding", _mapped(x, places[0], size), [0, *start], [0, *end], *rest), 0


def _padding_grad(
    size: int,
    places: Places,
    grad: Tensor,
    sizes: Sequence[Any],
    start: Sequence[Any],
    end: Sequence[Any],
    mode: str,
) -> Any:
    part = _mapped(grad, places[0], size)
    return call("padding_grad", part, [size, *sizes], [0, *start], [0, *end], mode), 0


def _shifted(axes: Sequence[int], rank: int) -> list[int]:
    return [axis % rank + 1 for axis in axes]


def _normalization(
    size: int, places: Places, x: Tensor, scale: Any, bias: Any, axes: Sequence[int], *rest: Any
) -> Any:
    over = _shifted(axes, x.dim() - (places[0] is not None))
    x = _mapped(x, places[0], size)
    parameters = (_leading(scale, places[1]), _leading(bias, places[2]))
    return call("mean_variance_normalization", x, *parameters, over, *rest), 0


def _separate(t: Tensor | None, place: int | None, size: int, wanted: bool) -> Tensor | None:
    """A parameter of which every part gets a gradient of its own, if it gets one at all."""
    return _mapped(t, place, size) if t is not None and wanted else _leading(t, place)


def _gradient_places(gradients: Sequence[Tensor]) -> Any:
    """Gradients that were not asked for are empty, and the same for every part."""
    return tuple(None if g.dim() == 1 and g.shape[0] == 0 else 0 for g in gradients)


def _normalization_grad(
    size: int,
    places: Places,
    x: Tensor,
    grad: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    axes: Sequence[int],
    *rest: Any,
) -> Any:
    mask = rest[-1]
    over = _shifted(axes, x.dim() - (places[0] is not None))
    tensors = (_mapped(x, places[0], size), _mapped(grad, places[1], size))
    own = (
        _separate(scale, places[2], size, mask[1]),
        _separate(bias, places[3], size, mask[2]),
    )
    result = call("mean_variance_normalization_grad", *tensors, *own, over, *rest)
    return result, _gradient_places(result)


def _statistics(size: int, places: Places, x: Tensor, axes: Sequence[int], *rest: Any) -> Any:
    over = _shifted(axes, x.dim() - 1)
    return call("normalization_statistics", _mapped(x, places[0], size), over, *rest), (0, 0, 0)


def _normalize(size: int, places: Places, x: Tensor, *arguments: Any) -> Any:
    given = zip(arguments[:4], places[1:5], strict=True)
    parts = [_leading(t, place) for t, place in given]
    return call("normalize", _mapped(x, places[0], size), *parts, *arguments[4:]), 0


def _normalize_grad_sums(
    size: int, places: Places, x: Tensor, grad: Tensor, *arguments: Any
) -> Any:
    over = _shifted(arguments[4], x.dim() - (places[0] is not None))
    tensors = (_mapped(x, places[0], size), _mapped(grad, places[1], size))
    parts = [_leading(t, place) for t, place in zip(arguments[:4], places[2:6], strict=True)]
    return call("normalize_grad_sums", *tensors, *parts, over, *arguments[5:]), (0, 0)


def _normalize_grad(size: int, places: Places, x: Tensor, grad: Tensor, *arguments: Any) -> Any:
    mask = arguments[-1]
    tensors = (_mapped(x, places[0], size), _mapped(grad, places[1], size))
    mean, variance, scale, bias, *sums = arguments[:7]
    parts = [
        _leading(mean, places[2]),
        _leading(variance, places[3]),
        _separate(scale, places[4], size, mask[1]),
        _separate(bias, places[5], size, mask[2]),
        *(_leading(t, place) for t, place in zip(sums, places[6:9], strict=True)),
    ]
    result = call("normalize_grad", *tensors, *parts, *arguments[7:])
    return result, _gradient_places(result)


_RULES: dict[str, Callable[..., Any]] = {
    "max_pooling": _pooling("max_pooling", 1),
    "max_pooling_with_indices": _max_pooling_with_indices,
    "max_pooling_grad": _pooling("max_pooling_grad", 2),
    "average_pooling": _pooling("average_pooling", 1),
    "average_pooling_grad": _average_pooling_grad,
    "lp_pooling": _pooling("lp_pooling", 1),
    "lp_pooling_grad": _pooling("lp_pooling_grad", 3),
    "padding": _padding,
    "padding_grad": _padding_grad,
    "mean_variance_normalization": _normalization,
    "mean_variance_normalization_grad": _normalization_grad,
    "normalization_statistics": _statistics,
    "normalize": _normalize,
    "normalize_grad_sums": _normalize_grad_sums,
    "normalize_grad": _normalize_grad,
    "max_unpooling": _max_unpooling,
}


def _looped(name: str, size: int, places: Places, *arguments: Any) -> Any:
    """The results of the parts one by one: one more dimension would be one too many."""
    given = list(zip(arguments, places, strict=True))
    parts = [
        call(name, *(a.select(p, i) if isinstance(p, int) else a for a, p in given))
        for i in range(size)
    ]
    if isinstance(parts[0], Tensor):
        return torch.stack(parts), 0
    results = tuple(torch.stack(each) for each in zip(*parts, strict=True))
    return results, (0,) * len(results)


def rule_of(name: str) -> Callable[..., Any]:
    """The rule as PyTorch calls it."""

    def rule(info: Any, places: Places, *arguments: Any) -> Any:
        x = arguments[0]
        rank = x.dim() - (places[0] is not None)
        if rank == _MOST_DIMENSIONS:
            return _looped(name, info.batch_size, places, *arguments)
        return _RULES[name](info.batch_size, places, *arguments)

    return rule


def register() -> None:
    """Give each operator its rule; a PyTorch that takes none loops over the mapped dimension."""
    if hasattr(torch.library, "register_vmap"):
        for name in _RULES:
            torch.library.register_vmap(f"cudml::{name}", rule_of(name), lib=library)
