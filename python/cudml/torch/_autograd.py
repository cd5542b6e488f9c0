"""Gradients of the operators: what each saves, and which operator its backward is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from cudml.torch import _autograd_kernels
from cudml.torch._activations import needs_value
from cudml.torch._dispatch import call, is_traced
from cudml.torch._places import are_within, at, taken

_NONE = (None,)


def _save_max_pooling(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.windows = inputs[1:6]
    if isinstance(output, tuple):
        ctx.mark_non_differentiable(output[1])


def _max_pooling(ctx: Any, grad: Tensor, *of_indices: Any) -> Any:
    (x,) = ctx.saved_tensors
    return (call("max_pooling_grad", x, grad, *ctx.windows), *_NONE * 6)


def _save_max_pooling_grad(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.windows, ctx.output_sizes = inputs[2:7], inputs[1].shape[2:]


def _max_pooling_grad(ctx: Any, tangent: Tensor) -> Any:
    """The winners are where they were: linear in grad, constant in x."""
    (x,) = ctx.saved_tensors
    grad = None
    if ctx.needs_input_grad[1]:
        _, indices = call("max_pooling_with_indices", x.detach(), *ctx.windows, ctx.output_sizes)
        grad = at(tangent, indices)
    return (torch.zeros_like(x) if ctx.needs_input_grad[0] else None, grad, *_NONE * 5)


def _save_average_pooling(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.sizes, ctx.windows, ctx.include_padding = inputs[0].shape, inputs[1:6], inputs[6]


def _average_pooling(ctx: Any, grad: Tensor) -> Any:
    dx = call("average_pooling_grad", grad, ctx.sizes, *ctx.windows, ctx.include_padding)
    return (dx, *_NONE * 7)


def _save_average_pooling_grad(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.sizes, ctx.windows, ctx.include_padding = inputs[0].shape[2:], inputs[2:7], inputs[7]


def _average_pooling_grad(ctx: Any, tangent: Tensor) -> Any:
    grad = call("average_pooling", tangent, *ctx.windows, ctx.include_padding, ctx.sizes)
    return (grad, *_NONE * 7)


def _save_lp_pooling(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)
    ctx.windows, ctx.p = inputs[1:6], inputs[6]


def _lp_pooling(ctx: Any, grad: Tensor) -> Any:
    x, y = ctx.saved_tensors
    return (call("lp_pooling_grad", x, y, grad, *ctx.windows, ctx.p), *_NONE * 7)


def _save_padding(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.sizes, ctx.pads = inputs[0].shape, inputs[1:4]


def _padding(ctx: Any, grad: Tensor) -> Any:
    return (call("padding_grad", grad, ctx.sizes, *ctx.pads), *_NONE * 4)


def _save_padding_grad(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.pads = inputs[2:5]


def _padding_grad(ctx: Any, tangent: Tensor) -> Any:
    return (call("padding", tangent, *ctx.pads, 0), *_NONE * 4)


def save_normalization(ctx: Any, inputs: Any, output: Tensor | None = None) -> None:
    """Of a bias whose values no slope needs, shape and type alone are kept."""
    x, scale, bias, *rest = inputs
    has_value = bias is None or needs_value(rest[4])
    ctx.save_for_backward(x, scale, bias if has_value else None)
    ctx.bias = None if has_value else (bias.shape, bias.dtype)
    ctx.rest = rest


def placeholder(grad: Tensor, bias: tuple[Any, torch.dtype] | None) -> Tensor | None:
    return None if bias is None else grad.new_empty(bias[0], dtype=bias[1])


def given(grads: Sequence[Tensor], mask: Sequence[bool]) -> list[Tensor | None]:
    return [grad if wanted else None for grad, wanted in zip(grads, mask, strict=True)]


def _normalization(ctx: Any, grad: Tensor) -> Any:
    x, scale, bias = ctx.saved_tensors
    mask = list(ctx.needs_input_grad[:3])
    bias = placeholder(grad, ctx.bias) if bias is None else bias
    name = "mean_variance_normalization_grad"
    return (*given(call(name, x, grad, scale, bias, *ctx.rest, mask), mask), *_NONE * 6)


def _save_normalize(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.rest = inputs[5:]


def _normalize(ctx: Any, grad: Tensor) -> Any:
    for field, needed in zip(("mean", "variance"), ctx.needs_input_grad[1:3], strict=True):
        if needed:
            raise RuntimeError(
                f"cudml::normalize: {field} requires a gradient; there is none with respect to it, "
                "pass its detach()"
            )
    x, mean, variance, scale, bias = ctx.saved_tensors
    needed = ctx.needs_input_grad
    mask = [needed[0], needed[3], needed[4]]
    sums = (None, None, None)
    grads = call("normalize_grad", x, grad, mean, variance, scale, bias, *sums, *ctx.rest, mask)
    dx, dscale, dbias = given(grads, mask)
    return (dx, None, None, dscale, dbias, None, None, None)


def _save_max_unpooling(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.sizes = inputs[2]


def _are_apart(indices: Tensor, sizes: Any) -> bool:
    """Whether no two of them, which are within the result and on the CPU, have one place."""
    marks = torch.ones_like(indices, dtype=torch.uint8)
    marked = call("max_unpooling", marks, indices, sizes).view(torch.bool)
    return bool(np.count_nonzero(marked.numpy().ravel("K")) == indices.numel())


def _max_unpooling(ctx: Any, grad: Tensor) -> Any:
    """Where an element won its place, unpooling the positions gives its own one back."""
    (indices,) = ctx.saved_tensors
    flat = indices.to(torch.int64)  # what is beyond int64 turns negative, and neither is in range
    are_inside = are_within(flat, grad.numel())
    if are_inside and _are_apart(indices, ctx.sizes):  # all have won
        return (taken(grad, flat), None, None)
    narrow = torch.int32 if indices.numel() < 2**31 else torch.int64
    own = torch.arange(indices.numel(), dtype=narrow, device=indices.device).reshape(indices.shape)
    winners = call("max_unpooling", own, indices, ctx.sizes)
    if are_inside:
        has_won = taken(winners, flat) == own
    else:
        is_inside = (flat >= 0) & (flat < grad.numel())
        flat = torch.where(is_inside, flat, 0)
        has_won = is_inside & (taken(winners, flat) == own)
    return (torch.where(has_won, taken(grad, flat), 0), None, None)


def _saves_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _refusal(name: str, why: str) -> Callable[..., NoReturn]:
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        raise RuntimeError(f"cudml::{name}: {why}")

    return backward


def _no_gradient_of_statistics(ctx: Any, *grads: Any) -> NoReturn:
    """A program that is compiled goes back through whatever it returns, asked for or not."""
    text = "cudml::normalization_statistics: not differentiable; use mean_variance_normalization"
    if is_traced():
        text += "; a compiled program that returns statistics must return their detach()"
    raise RuntimeError(text)


_FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "max_pooling": (_max_pooling, _save_max_pooling),
    "max_pooling_with_indices": (_max_pooling, _save_max_pooling),
    "max_pooling_grad": (_max_pooling_grad, _save_max_pooling_grad),
    "average_pooling": (_average_pooling, _save_average_pooling),
    "average_pooling_grad": (_average_pooling_grad, _save_average_pooling_grad),
    "lp_pooling": (_lp_pooling, _save_lp_pooling),
    "padding": (_padding, _save_padding),
    "padding_grad": (_padding_grad, _save_padding_grad),
    "mean_variance_normalization": (_normalization, save_normalization),
    "normalize": (_normalize, _save_normalize),
    "max_unpooling": (_max_unpooling, _save_max_unpooling),
    "normalization_statistics": (_no_gradient_of_statistics, _saves_nothing),
}
_ONCE = (
    "lp_pooling_grad",
    "mean_variance_normalization_grad",
    "normalize_grad",
    "normalize_grad_sums",
)


def _every_formula() -> dict[str, tuple[Callable[..., Any], Callable[..., None]]]:
    """Every operator has one, be it one that refuses: without any, gradients go missing."""
    once = {name: (_refusal(name, "differentiable once only"), _saves_nothing) for name in _ONCE}
    return _FORMULAS | once


FORMULAS = _every_formula()


def register() -> None:
    """Give the operators their formulas."""
    for name, (backward, save) in FORMULAS.items():
        _autograd_kernels.register(name, backward, save)
