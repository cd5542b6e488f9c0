"""The operators where autograd records them and nothing else watches.

`torch.library.register_autograd` makes a function of the same formula, but goes through PyTorch's
dispatcher on the way into it and again on the way to the kernel, which takes longer than small
tensors do. What is no tensor is one argument of a function here: each costs PyTorch a question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cudml.torch import _recorded_normalization as normalization
from cudml.torch._autograd import FORMULAS
from cudml.torch._dispatch import recorded
from cudml.torch._kernels import KERNELS, detached
from cudml.torch._recorded_normalization import OWN, Statistics, Views
from cudml.torch._schemas import TENSORS

_own: Callable[[Tensor], Tensor] = torch._C._functorch.unwrap_if_dead


def _applied(name: str, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """The `apply` of a function outside of transformations of torch.func.

    That of `torch.autograd.Function` asks for them, and looks at every argument for a tensor that
    one has left behind: `_alive` looks at those that may be one.
    """
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function: Any = type(f"cudml_{name}", (torch.autograd.Function,), body)
    return super(torch.autograd.Function, function).apply


def _alive(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [t if t is None else _own(t) for t in tensors]


def _function(name: str) -> Callable[[Sequence[Tensor | None], Sequence[Any]], Any]:
    kernel, (backward, save) = KERNELS[name], FORMULAS[name]
    count = TENSORS[name]

    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, rest = arguments
        result = kernel(*detached(tensors), *rest)
        save(ctx, (*tensors, *rest), result)
        return result

    def trimmed(ctx: Any, *grads: Any) -> Any:
        return (*backward(ctx, *grads)[:count], None)

    apply = _applied(name, forward, trimmed)
    return lambda tensors, rest: apply(*_alive(tensors), rest)


_normalize = _applied(normalization.OP, normalization.forward, normalization.backward)


def normalized(
    tensors: Sequence[Tensor | None],
    rest: Sequence[Any],
    views: Views = OWN,
    statistics: Statistics = None,
) -> Any:
    """Mean-variance normalization of x, scale and bias, seen by `views`."""
    return _normalize(*_alive(tensors), views, statistics, rest)


def register() -> None:
    """Have calls that autograd alone records go through these functions."""
    for name in FORMULAS:
        recorded[name] = _function(name)
    recorded[normalization.OP] = normalized
