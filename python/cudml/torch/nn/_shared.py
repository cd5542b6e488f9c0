"""Activations that several calls share, of which normalizations compute theirs themselves.

A normalization marks such a result, and the activation lets what is marked pass. Other calls of the
activation stay what they were, wherever they come from.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as _module

_MARK = "_cudml_is_activated"
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_observed(module: torch.nn.Module) -> bool:
    """Whether somebody reads, and so may exchange, what goes into a module or comes out."""
    return any(getattr(module, name, None) for name in _HOOKS) or "forward" in module.__dict__


def is_every_module_observed() -> bool:
    """Whether hooks are set on all modules there are."""
    return any(getattr(_module, f"_global{name}", None) for name in _HOOKS)


class SharedActivation(torch.nn.Module):
    """Stands in an activation's place; what a normalization has applied it to passes."""

    def __init__(self, activation: torch.nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.training = activation.training

    def forward(self, input: Tensor) -> Any:
        if getattr(input, _MARK, False):
            setattr(input, _MARK, False)  # a second call on the same tensor is one of its own
            return input
        return self.activation(input)


def mark(y: Tensor) -> Tensor:
    """Has the next shared activation let a tensor pass."""
    setattr(y, _MARK, True)
    return y


def may_mark(norm: torch.nn.Module, activation: SharedActivation) -> bool:
    """Whether the result of one surely is the argument of the other, mark and all."""
    return not (is_observed(norm) or is_observed(activation) or is_every_module_observed())


class _Twice(torch.nn.Module):
    """One call that a mark lets pass, and one that is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = SharedActivation(torch.nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        once: Tensor = self.shared(mark(x + 1))
        return self.shared(once)


@functools.cache
def may_share() -> bool:
    """Whether compiled programs keep marks, which no attribute of PyTorch tells: one is compiled.

    Those of 2.4 cannot mark a tensor in one graph, and lose marks between two.
    """
    own, x = _Twice(), torch.zeros(2, device="cpu")
    try:
        with torch.no_grad():
            compiled = torch.compile(own, backend="eager", fullgraph=True)
            return bool(torch.equal(compiled(x), own(x)))
    except Exception:  # of the compiler's many kinds
        return False
