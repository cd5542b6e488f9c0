"""Activations that normalizations compute themselves, and what stands in their places.

A normalization marks such a result, and the activation lets what is marked pass. Other calls of the
activation stay what they were, wherever they come from.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.modules import module as _module

# True: a normalization has applied an activation to the tensor. A number: that activation, which
# is alone, has let it pass.
_MARK = "_cudml_is_activated"
_PARAMETERS = ("alpha", "approximate", "lambd", "negative_slope", "threshold", "value")
_task = torch._C._current_graph_task_id  # of the backward pass that runs; -1: none


def is_observed(module: torch.nn.Module) -> bool:
    """Whether somebody reads, and so may exchange, what goes into a module or comes out."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return bool(hooks or module._backward_pre_hooks) or "forward" in module.__dict__


def is_traced(module: torch.nn.Module, input: Any) -> bool:
    """Whether torch.fx traces a model in which `module` stands, and `input` is a Proxy."""
    return isinstance(input, fx.Proxy) and getattr(input.tracer, "root", module) is not module


def call_of(module: torch.nn.Module, input: Any) -> Any:
    """One call of `module` as a whole, which torch.fx records of torch.nn's own modules as well."""
    return input.tracer.create_proxy(
        "call_module", input.tracer.path_of_module(module), (input,), {}
    )


def is_every_module_observed() -> bool:
    """Whether hooks are set on all modules there are."""
    hooks = _module._global_forward_hooks or _module._global_forward_pre_hooks
    return bool(hooks or _module._global_backward_hooks or _module._global_backward_pre_hooks)


def _parameters(activation: torch.nn.Module) -> tuple[Any, ...]:
    """The numbers and names that say what an activation computes."""
    held = activation.__dict__
    return tuple([held.get(name) for name in _PARAMETERS])


class _Results(threading.local):
    """Of this thread: the norms whose result is on its way to an activation, and its version."""

    def __init__(self) -> None:
        self.norms: dict[SharedActivation, tuple[str, int]] = {}


def _version(tensor: Any) -> int:
    """How often a tensor was changed in place; nobody counts that in inference mode, nor of what
    stands for one in a trace."""
    is_counted = isinstance(tensor, Tensor) and not tensor.is_inference()
    return tensor._version if is_counted else 0


_results = _Results()


class SharedActivation(torch.nn.Module):
    """Stands in an activation's place; what a normalization has applied it to passes.

    Anything else it is applied to: where the normalization was exchanged nobody has. In eager mode
    it refuses what comes instead of a result that a normalization has computed for it; compiled
    programs hold no such question.

    `is_alone`: nothing else than one normalization's result comes here, as far as code says.
    `is_marked`: compiled programs keep marks; else what comes passes in them, which only an
    activation that is alone may.
    """

    def __init__(
        self,
        activation: torch.nn.Module,
        name: str = "",
        is_alone: bool = False,
        is_marked: bool = True,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.name = name or type(activation).__name__
        self.is_alone, self.is_marked, self.has_passed = is_alone, is_marked, False
        self.training = activation.training
        self.fused = (activation, _parameters(activation))  # a module itself would be a child

    def forward(self, input: Tensor) -> Any:
        is_compiling = torch.compiler.is_compiling()
        if is_compiling and not self.is_marked:
            return self.activation(input) if self.is_changed() else input
        found = getattr(input, _MARK, False)
        if found is not True and is_traced(self, input) and self not in _results.norms:
            return call_of(self, input)  # asks each tensor, as where nothing is traced
        # What compiled programs meet a second time is taken to be in a part that is computed again.
        has_passed = found == id(self) if is_compiling else self._has_passed(input, found)
        if found is True:  # a second call on the same tensor is one of its own
            setattr(input, _MARK, self.is_alone and id(self))
        return input if has_passed or found is True else self.activation(input)

    def is_changed(self) -> bool:
        """Whether normalizations have applied another activation than the one that is here now."""
        now, (before, parameters) = self.activation, self.fused
        return now is not before or _parameters(now) != parameters

    def _has_passed(self, input: Tensor, found: Any) -> bool:
        """Whether a part of a program that is computed again, in the backward pass, begins here:
        without the mark, or with the one that this activation left. Also looks after the results
        on their way."""
        norm, version = _results.norms.pop(self, ("", 0))
        is_marked = found is True
        if norm and not (is_marked and version == _version(input)):
            raise RuntimeError(
                f"{self.name}: its argument is not what {norm} returned, and {norm} has applied "
                f"{self.name} to that; report.revert() undoes this, "
                "convert(..., fuse_activation=False) keeps them apart"
            )
        if not self.is_alone:
            return False
        if _task() != -1:
            return found == id(self) or (self.has_passed and input.is_leaf)
        if self.has_passed != is_marked:
            self.has_passed = is_marked
        return False


def fused(
    norm: torch.nn.Module, activation: SharedActivation, name: str, apply: Callable[[Any], Tensor]
) -> Tensor:
    """What a norm computes with its activation, or with None where that one has to apply itself:
    its argument may be another one."""
    is_compiling = torch.compiler.is_compiling()
    if is_compiling and not activation.is_marked:
        return apply(None if activation.is_changed() else True)
    is_watched = is_observed(norm) or is_observed(activation) or is_every_module_observed()
    if is_watched or activation.is_changed():
        return apply(None)
    y = mark(apply(True))
    if not is_compiling:
        _results.norms[activation] = (name, _version(y))
    return y


def mark(y: Tensor) -> Tensor:
    """Has the next shared activation let a tensor pass."""
    setattr(y, _MARK, True)
    return y


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
