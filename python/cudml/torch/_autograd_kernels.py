"""What PyTorch's dispatcher calls where an operator may have to be recorded.

`torch.library.register_autograd` makes such a kernel of the same formula, but one that refuses what
torch.func.grad and its kin record, and that drops tangents.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function as one_level
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from cudml.torch._dispatch import any_requires_grad, has_level, registered
from cudml.torch._schemas import TENSORS, library

_core: Any = torch._C
IS_OWN = "with_keyset" in inspect.signature(library.impl).parameters


def _has_tangent(tensors: Sequence[Tensor | None]) -> bool:
    return has_level() and any(
        t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors
    )


def _below(name: str, keys: Any, arguments: Sequence[Any]) -> Any:
    """The operator, of which nothing more is recorded at this level."""
    operator: Any = registered(name)
    with _core._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & _core._after_autograd_keyset, *arguments)


@contextlib.contextmanager
def _around() -> Iterator[None]:
    """Recording and tangents, which a function turns off, for the transformations around it."""
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        yield


def _function(name: str, backward: Callable[..., Any], save: Callable[..., None]) -> Any:
    def forward(ctx: Any, keys: Any, *arguments: Any) -> Any:
        with _around() if _core._are_functorch_transforms_active() else contextlib.nullcontext():
            result = _below(name, keys, arguments)
        save(ctx, arguments, result)
        return result

    def shifted(ctx: Any, *grads: Any) -> Any:
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = needed[1:]  # without that of the keys
        try:
            return (None, *backward(ctx, *grads))
        finally:
            ctx.needs_input_grad = needed

    def jvp(ctx: Any, *tangents: Any) -> NoReturn:
        raise RuntimeError(f"cudml::{name}: forward-mode differentiation is not supported")

    methods = {"forward": forward, "backward": shifted, "jvp": jvp}
    body = {method: staticmethod(f) for method, f in methods.items()}
    torchs = f"GeneratedBackwardFor_cudml_{name}_default"  # what register_autograd calls it
    return type(torchs, (_SingleLevelFunction,), body)  # of one level, as dispatching is


def _kernel(name: str, function: Any) -> Callable[..., Any]:
    def kernel(keys: Any, *arguments: Any) -> Any:
        tensors = arguments[: TENSORS[name]]
        is_kept = torch.is_grad_enabled() and any_requires_grad(tensors)
        if not is_kept and not _has_tangent(tensors):
            return _below(name, keys, arguments)
        with one_level():
            return function.apply(keys, *arguments)

    return kernel


def register(name: str, backward: Callable[..., Any], save: Callable[..., None]) -> None:
    """Give an operator its formula."""
    if IS_OWN:
        kernel = _kernel(name, _function(name, backward, save))
        library.impl(name, kernel, "Autograd", with_keyset=True)
    else:
        torch.library.register_autograd(f"cudml::{name}", backward, setup_context=save, lib=library)
