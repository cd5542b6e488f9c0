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
from cudml.torch._results import keep_order

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


def forward(
    ctx: Any, x: Tensor, scale: Any, bias: Any, views: Views, statistics: Statistics, rest: Any
) -> Any:
    """The result, and its statistics where they are a part of it; these have no gradient."""
    own, *parameters = detached((x, scale, bias))
    seen = [_as(t, views.parameters) for t in parameters]
    save_normalization(ctx, (x, scale, bias, *rest))
    ctx.views, ctx.seen = views, seen
    ctx.shapes = [None if t is None else t.shape for t in (x, scale, bias)]
    if statistics is None:
        return _back(_normalized(_as(own, views.x), *seen, *rest), x.shape)
    y, *found = normalized_with_statistics(_as(own, views.x), *seen, *rest)
    if statistics is not as_results:
        statistics(*found)
        return _back(y, x.shape)
    ctx.set_materialize_grads(False)
    return _back(y, x.shape), *found


def backward(ctx: Any, grad: Tensor, *of_statistics: Any) -> Any:
    """Gradients of x, scale and bias."""
    if any(g is not None for g in of_statistics):
        _refuse(ctx)
    saved = ctx.saved_tensors  # which PyTorch refuses where they have changed
    found = _own_gradients(ctx, saved, grad)
    if found is None:
        found = _recorded_gradients(ctx, saved, grad)
    dx, dscale, dbias = map(_back, found, ctx.shapes)
    return dx, dscale, dbias, None, None, None


def _own_gradients(ctx: Any, saved: Any, grad: Tensor) -> Any:
    """By `cudml` itself where nothing watches the backward pass; None elsewhere."""
    if is_batched(grad) or not is_own(saved[0], grad, *saved[1:]):
        return None
    views = ctx.views
    x = _as(saved[0].detach(), views.x)
    if not keep_order(x, *ctx.seen):
        return None
    axes, use_mean, use_variance, epsilon, activation, parameters = ctx.rest
    try:
        return cudml.mean_variance_normalization_grad(
            x,
            _as(grad, views.x),
            *ctx.seen,
            axes=axes,
            use_mean=use_mean,
            use_variance=use_variance,
            epsilon=epsilon,
            activation=decode(activation, parameters),
            outputs=names_of(ctx.needs_input_grad[:3]),
        )
    except BufferError:  # memory that it cannot read
        return None


def _recorded_gradients(ctx: Any, saved: Any, grad: Tensor) -> Any:
    """By the operator, which may be recorded itself."""
    x, scale, bias = saved
    if bias is None:
        bias = placeholder(grad, ctx.bias)
    views, mask = ctx.views, list(ctx.needs_input_grad[:3])
    parameters = (_as(scale, views.parameters), _as(bias, views.parameters))
    tensors = (_as(x, views.x), _as(grad, views.x), *parameters)
    return given(call(f"{OP}_grad", *tensors, *ctx.rest, mask), mask)
