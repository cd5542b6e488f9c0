"""How an operator is called: its kernel at once where nothing watches, else through PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from cudml.torch._kernels import KERNELS, detached
from cudml.torch._schemas import SCHEMAS, TENSORS

_Parameter = torch.nn.Parameter
_EXACT = (Tensor, _Parameter)  # a subclass may mean something else by a call
_is_dynamo: Callable[[], bool] = torch.compiler.is_dynamo_compiling
_is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
_is_inference: Callable[[], bool] = torch.is_inference_mode_enabled
_is_transformed: Callable[[], bool] = torch._C._are_functorch_transforms_active
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_trace: Callable[[], Any] = torch._C._get_tracing_state
_excluded: Callable[[Any], bool] = torch._C._dispatch_tls_is_dispatch_key_excluded
# What `is_grads_batched` goes back with: a Tensor by its type, without memory of its own.
is_batched: Callable[[Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor
_FRONT = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode
_levels = vars(forward_ad)
_operators: dict[str, Any] = {}
# Calls of which autograd keeps a gradient: of the tensors, and all that is behind them.
recorded: dict[str, Callable[[Sequence[Any], Sequence[Any]], Any]] = {}
# Calls inside of a transformation of torch.func, where they do not take the operator.
transformed: dict[str, Callable[..., Any]] = {}


def load() -> None:
    """Look the registered operators up."""
    for name in SCHEMAS:
        _operators[name] = getattr(torch.ops.cudml, name).default


def registered(name: str) -> Callable[..., Any]:
    """The operator that is registered with PyTorch."""
    operator: Callable[..., Any] = _operators[name]
    return operator


def has_level() -> bool:
    """Whether tensors may have tangents, as they may where PyTorch has no such number."""
    return _levels.get("_current_level", 0) >= 0


def any_requires_grad(tensors: Sequence[Tensor | None]) -> bool:
    """Whether one of them does."""
    return any(t is not None and t.requires_grad for t in tensors)


def _is_recording() -> bool:
    """Whether autograd keeps what is computed: not in inference mode, whatever is enabled there."""
    return _is_grad_enabled() and not _is_inference()


def is_traced() -> bool:
    """Whether what runs becomes part of a program, or something else watches every operator."""
    return torch.compiler.is_compiling() or bool(_modes()) or _trace() is not None


def is_within_transformation() -> bool:
    """Whether a transformation of torch.func watches what runs, and no program is made of it."""
    return not torch.compiler.is_compiling() and _is_transformed()


def is_plain(*tensors: Any) -> bool:
    """Whether a call on these is nothing but its result and what autograd may record of it: no
    trace, no transformation.

    What is no tensor is not plain, but for None.
    """
    if is_traced() or _is_transformed():
        return False
    for t in tensors:
        if type(t) not in _EXACT:
            if t is None:
                continue
            return False
        if not (t.is_cpu or t.is_cuda) or t.is_neg() or t._is_zerotensor() or is_batched(t):
            return False
    return not has_level()


def is_recorded(*tensors: Any) -> bool:
    """Whether autograd keeps a gradient of a call on these, and nothing else watches."""
    return any_requires_grad(tensors) and is_plain(*tensors) and _is_recording()


def is_own(*tensors: Any) -> bool:
    """Whether a call on these may be `cudml`'s own, since no gradient is wanted. That refuses by
    BufferError what `is_plain` sees and this does not: memory that it cannot read.

    It has the fewest questions to PyTorch, each of which takes some 0.1 us.
    """
    if _is_dynamo() or _modes() or _trace() is not None or _is_transformed():
        return False
    for t in tensors:
        if type(t) is not Tensor and type(t) is not _Parameter:
            if t is None and tensors[0] is not None:
                continue
            return False
        if t.requires_grad and _is_recording():
            return False
    return _levels.get("_current_level", 0) < 0


def call(name: str, *arguments: Any) -> Any:
    """The result of an operator."""
    count = TENSORS[name]
    tensors, rest = arguments[:count], arguments[count:]
    if is_plain(*tensors):
        if not any_requires_grad(tensors):
            return KERNELS[name](*arguments)
        if _is_recording():
            return recorded[name](tensors, rest)
        return KERNELS[name](*detached(tensors), *rest)
    if not torch.compiler.is_compiling():
        # Excluded it is within an operator's own rule.
        if transformed and _is_transformed() and not _excluded(_FRONT):
            return transformed[name](*arguments)
        if _trace() is not None and "SymInt" in SCHEMAS[name]:  # which its programs cannot hold
            raise RuntimeError(f"cudml::{name}: torch.jit.trace cannot hold it; use torch.export")
    return _operators[name](*arguments)


def _is_dense(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested


def check_dense(op: str, name: str, tensor: Tensor) -> None:
    """Refuse a list of tensors that looks like one, and has no sizes of its own, and tensors that
    are not strided, whose views PyTorch refuses in its own words."""
    if tensor.is_nested:
        ways = "pass its tensors one by one, or torch.nested.to_padded_tensor of it"
        raise BufferError(f"{op}: {name} is nested; {ways}")
    if tensor.layout is not torch.strided:
        raise BufferError(f"{op}: {name} has the layout {tensor.layout}; pass its to_dense()")


def check_tensors(op: str, *optional: str, **tensors: Any) -> None:
    """Refuse what is no tensor, is nested, not strided or elsewhere than CPU and CUDA, or has a
    tangent.

    The names in `optional` may be None.
    """
    may_be_dual = not torch.compiler.is_compiling() and has_level()
    if not may_be_dual and all(
        t.is_cpu and _is_dense(t) if type(t) in _EXACT else t is None and name in optional
        for name, t in tensors.items()
    ):
        return
    device = None
    for name, t in tensors.items():
        if t is None and name in optional:
            continue
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}: {name} is a {type(t).__name__}; it must be a torch.Tensor")
        check_dense(op, name, t)
        own = t.device
        if own.type not in ("cpu", "cuda"):
            raise ValueError(f"{op}: {name} is on the device {own}; it must be on cpu or cuda")
        device = own if device is None else device
        if own != device:
            raise ValueError(
                f"{op}: {name} is on the device {own}; it must be on {device}, where the others are"
            )
        if may_be_dual and forward_ad.unpack_dual(t).tangent is not None:
            raise RuntimeError(
                f"{op}: {name} has a tangent; forward-mode differentiation is not supported"
            )
