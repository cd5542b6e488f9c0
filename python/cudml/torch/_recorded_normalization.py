"""Mean-variance normalization where autograd records it and nothing else watches.

torch's functions have weights of fewer dimensions than x, and groups of its channels. Views that
autograd recorded of each would take as long as small tensors do; here they are taken on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

import cudml
from cudml.torch._activations import decode
from cudml.torch._autograd import FORMULAS, given, placeholder, save_normalization
from cudml.torch._dispatch import call, is_batched, is_own
from cudml.torch._kernels import KERNELS, detached, names_of, normalized_with_statistics
from cudml.torch._results import keep_order, new_like

OP = "mean_variance_normalization"
_normalized = KERNELS[OP]
_refuse, _ = FORMULAS["normalization_statistics"]


class Views(NamedTuple):
    """Shapes in which the operator takes tensors; None: their own."""

    x: Sequence[int] | None = None
    parameters: Sequence[int] | None = None  # of scale and bias


OWN = Views()
# What becomes of mean and variance: nothing, results, or what is called with them meanwhile.
Statistics: TypeAlias = Callable[[Any, Any], None] | None


def as_results(mean: Any, variance: Any) -> None:
    """Stands for statistics that are results."""


def _as(t: Any, sizes: Sequence[int] | None) -> Any:
    return t if t is None or sizes is None else t.view(*sizes)


def _back(t: Tensor | None, sizes: Any) -> Tensor | None:
    """In the shape of the tensor that it belongs to."""
    return t if t is None or t.shape == sizes else t.reshape(*sizes)


def _seen(views: Views, x: Any, grad: Any, *parameters: Any) -> list[Any]:
    """The operator's arguments."""
    return [_as(x, views.x), _as(grad, views.x), *(_as(t, views.parameters) for t in parameters)]


def forward(
    ctx: Any, x: Tensor, scale: Any, bias: Any, views: Views, statistics: Statistics, rest: Any
) -> Any:
    """The result, and its statistics where they are a part of it; these have no gradient.

    Of a view of x the result is written through the same view of a tensor of x's own shape: what a
    function returns as a view itself, PyTorch lets nobody write to.
    """
    own: list[Any] = detached((x, scale, bias))
    tensors = (_as(own[0], views.x), *(_as(t, views.parameters) for t in own[1:]))
    save_normalization(ctx, (x, scale, bias, *rest))
    ctx.views, ctx.shapes = views, [None if t is None else t.shape for t in (x, scale, bias)]
    y = None if views.x is None else new_like(own[0])
    out = _as(y, views.x)
    if statistics is None:
        result = _normalized(*tensors, *rest, out=out)
        return result if y is None else y
    result, *found = normalized_with_statistics(*tensors, *rest, out=out)
    result = result if y is None else y
    if statistics is not as_results:
        statistics(*found)
        return result
    ctx.set_materialize_grads(False)
    return result, *found


def backward(ctx: Any, grad: Tensor, *of_statistics: Any) -> Any:
    """Gradients of x, scale and bias."""
    if any(g is not None for g in of_statistics):
        _refuse(ctx)
    x, scale, bias = ctx.saved_tensors  # which PyTorch refuses where they have changed
    if bias is None:
        bias = placeholder(grad, ctx.bias)
    found = _own_gradients(ctx, x, grad, scale, bias)
    if found is None:
        found = _recorded_gradients(ctx, x, grad, scale, bias)
    dx, dscale, dbias = map(_back, found, ctx.shapes)
    return dx, dscale, dbias, None, None, None


def _own_gradients(ctx: Any, *tensors: Any) -> Any:
    """By `cudml` itself where nothing watches the backward pass; None elsewhere."""
    if is_batched(tensors[1]) or not is_own(*tensors):
        return None
    x, grad, scale, bias = _seen(ctx.views, *detached(tensors))
    if not keep_order(x, scale, bias):
        return None
    axes, use_mean, use_variance, epsilon, activation, parameters = ctx.rest
    try:
        return cudml.mean_variance_normalization_grad(
            x,
            grad,
            scale,
            bias,
            axes=axes,
            use_mean=use_mean,
            use_variance=use_variance,
            epsilon=epsilon,
            activation=decode(activation, parameters),
            outputs=names_of(ctx.needs_input_grad[:3]),
        )
    except BufferError:  # memory that it cannot read
        return None


def _recorded_gradients(ctx: Any, *tensors: Any) -> Any:
    """By the operator, which may be recorded itself."""
    mask = list(ctx.needs_input_grad[:3])
    return given(call(f"{OP}_grad", *_seen(ctx.views, *tensors), *ctx.rest, mask), mask)
