"""The operators inside of torch.func's transformations in older releases of PyTorch.

Where they take no kernel of autograd or no rule for vmap from Python, torch.func.grad and its kin
go through an `autograd.Function` with the same formula and the same rule instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cudml.torch._autograd import FORMULAS
from cudml.torch._autograd_kernels import IS_OWN
from cudml.torch._dispatch import registered, transformed
from cudml.torch._vmap import rule_of


def _function(name: str) -> Any:
    backward, save = FORMULAS[name]

    def forward(*arguments: Any) -> Any:
        return registered(name)(*arguments)

    def jvp(ctx: Any, *tangents: Any) -> NoReturn:
        raise RuntimeError(f"cudml::{name}: forward-mode differentiation is not supported")

    methods: dict[str, Callable[..., Any]] = {
        "forward": forward,
        "jvp": jvp,  # of a function within torch.func.grad, whose tensors hide their tangents
        "setup_context": save,
        "backward": backward,
        "vmap": rule_of(name),
    }
    body = {method: staticmethod(f) for method, f in methods.items()}
    return type(name, (torch.autograd.Function,), body)


def register() -> None:
    """Have calls inside of a transformation go through these functions, where it has to be."""
    if not (IS_OWN and hasattr(torch.library, "register_vmap")):
        for name in FORMULAS:
            transformed[name] = _function(name).apply
