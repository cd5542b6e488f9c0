"""The operators where autograd records them and nothing else watches.

`torch.library.register_autograd` makes a function of the same formula, but goes through PyTorch's
dispatcher on the way into it and again on the way to the kernel, which takes longer than small
tensors do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cudml.torch._autograd import FORMULAS
from cudml.torch._dispatch import recorded
from cudml.torch._kernels import KERNELS, detached, normalized_with_statistics

WITH_STATISTICS = "mean_variance_normalization with its statistics"


def _function(name: str) -> Any:
    kernel, (backward, save) = KERNELS[name], FORMULAS[name]

    def forward(ctx: Any, *arguments: Any) -> Any:
        result = kernel(*detached(arguments))
        save(ctx, arguments, result)
        return result

    methods: dict[str, Callable[..., Any]] = {"forward": forward, "backward": backward}
    body = {method: staticmethod(f) for method, f in methods.items()}
    return type(f"cudml_{name}", (torch.autograd.Function,), body)


def _with_statistics() -> Any:
    """Normalization that gives the statistics that it has found; these have no gradient."""
    backward, save = FORMULAS["mean_variance_normalization"]
    refuse, _ = FORMULAS["normalization_statistics"]

    def forward(ctx: Any, *arguments: Any) -> Any:
        results = normalized_with_statistics(*detached(arguments))
        save(ctx, arguments, results[0])
        ctx.set_materialize_grads(False)
        return results

    def checked(ctx: Any, grad: Any, *of_statistics: Any) -> Any:
        if any(g is not None for g in of_statistics):
            refuse(ctx)
        return backward(ctx, grad)

    body = {"forward": staticmethod(forward), "backward": staticmethod(checked)}
    return type("cudml_mean_variance_normalization", (torch.autograd.Function,), body)


def register() -> None:
    """Have calls that autograd alone records go through these functions."""
    for name in FORMULAS:
        recorded[name] = _function(name).apply
    recorded[WITH_STATISTICS] = _with_statistics().apply
