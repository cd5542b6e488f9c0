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
from cudml.torch._kernels import KERNELS


def _function(name: str) -> Any:
    kernel, (backward, save) = KERNELS[name], FORMULAS[name]

    def forward(ctx: Any, *arguments: Any) -> Any:
        result = kernel(*arguments)
        save(ctx, arguments, result)
        return result

    methods: dict[str, Callable[..., Any]] = {"forward": forward, "backward": backward}
    body = {method: staticmethod(f) for method, f in methods.items()}
    return type(f"cudml_{name}", (torch.autograd.Function,), body)


def register() -> None:
    """Have calls that autograd alone records go through these functions."""
    for name in FORMULAS:
        recorded[name] = _function(name).apply
