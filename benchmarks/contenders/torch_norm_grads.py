"""PyTorch's normalizations as autograd takes them, and their backward functions called directly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from arrays import Arrays

from . import Ways

aten = torch.ops.aten
EPSILON = 1e-5
Tensor = torch.Tensor
Forward = Callable[..., Tensor]  # of x, and of scale and bias where there are any
_SLOPE = 0.01  # of the leaky ReLU in the cases

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda v: v,
    "swish": F.silu,
    "gelu": F.gelu,
    "leaky_relu": lambda v: F.leaky_relu(v, _SLOPE),
}
_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of the gradient and the argument
    "": lambda grad, v: grad,
    "swish": aten.silu_backward,
    "gelu": aten.gelu_backward,
    "leaky_relu": lambda grad, v: aten.leaky_relu_backward(grad, v, _SLOPE, False),
}


def _activation(arrays: Arrays) -> str:
    said = arrays.problem.case.args.get("activation") or ""
    return said if isinstance(said, str) else said[0]


def norms(arrays: Arrays) -> dict[str, Forward]:
    """The forward functions by name; each takes x, scale and bias as images and vectors."""
    make: dict[str, Callable[[Arrays], dict[str, Forward]]] = {
        "layer": _layer,
        "rms": _rms_channels if arrays.problem.axes == (1,) and _rank(arrays) > 2 else _rms,
        "group": _group,
        "instance": _instance,
        "batch": _batch,
    }
    name = _activation(arrays)
    active = _ACTIVATIONS[name]
    found = make[arrays.problem.case.norm](arrays)

    def after(norm: Forward) -> Forward:
        return (lambda *given: active(norm(*given))) if name else norm

    return {key + (f", {name}" if name else ""): after(norm) for key, norm in found.items()}


def _rank(arrays: Arrays) -> int:
    return len(arrays.problem.shape)


def _layer(arrays: Arrays) -> dict[str, Forward]:
    size = [arrays.problem.shape[-1]]
    return {"layer_norm": lambda x, w=None, b=None: F.layer_norm(x, size, w, b, EPSILON)}


def _rms(arrays: Arrays) -> dict[str, Forward]:
    size = [arrays.problem.shape[-1]]
    return {
        "rms_norm": lambda x, w: F.rms_norm(x, size, w, EPSILON),
        "fused_rms_norm": lambda x, w: aten._fused_rms_norm(x, size, w, EPSILON)[0],
    }


def _rms_channels(arrays: Arrays) -> dict[str, Forward]:
    """Channels are dimension 1: as a transposed rms_norm, and in operators of one element each."""
    channels, rank = arrays.problem.shape[1], _rank(arrays)
    last, first = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    spread = (-1, *(1 for _ in range(rank - 2)))

    def transposed(x: Tensor, w: Tensor) -> Tensor:
        return F.rms_norm(x.permute(last), [channels], w, EPSILON).permute(first)

    def by_mean_square(x: Tensor, w: Tensor) -> Tensor:
        square = x.float().square().mean(1, keepdim=True)
        return x * torch.rsqrt(square + EPSILON).to(x.dtype) * w.reshape(spread)

    return {"rms_norm": transposed, "mean square": by_mean_square}


def _group(arrays: Arrays) -> dict[str, Forward]:
    groups = arrays.problem.shape[1]
    return {"group_norm": lambda x, w, b: F.group_norm(x, groups, w, b, EPSILON)}


def _instance(arrays: Arrays) -> dict[str, Forward]:
    channels = arrays.problem.shape[1]
    norm = F.instance_norm
    return {
        "instance_norm": lambda x, w=None, b=None: norm(x, None, None, w, b, True, 0.0, EPSILON),
        "group_norm": lambda x, w=None, b=None: F.group_norm(x, channels, w, b, EPSILON),
    }


def _batch(arrays: Arrays) -> dict[str, Forward]:
    norm = F.batch_norm
    return {"batch_norm": lambda x, w, b: norm(x, None, None, w, b, True, 0.0, EPSILON)}


def direct_norms(arrays: Arrays) -> Ways:
    """What autograd calls, without its graph: on the moments, and with an activation also on the
    normalized tensor, that the forward call saves."""
    make: dict[str, Callable[..., Callable[[Tensor], Any]]] = {
        "layer": _layer_backward,
        "group": _group_backward,
        "instance": _group_backward,
        "batch": _batch_backward,
        "rms": _rms_backward,
    }
    norm = arrays.problem.case.norm
    if norm == "rms" and arrays.problem.axes == (1,) and _rank(arrays) > 2:
        return {}
    x, grad = arrays.image("x"), arrays.image("grad")
    vectors = [arrays.flat(n) if n in arrays else None for n in ("scale", "bias")]
    mask = [True, *(v is not None for v in vectors)]
    before, backward = make[norm](arrays, x, *vectors, mask)
    slope = _SLOPES[_activation(arrays)]
    return {"backward": lambda: [t for t in backward(slope(grad, before)) if t is not None]}


def _layer_backward(arrays: Arrays, x: Tensor, w: Any, b: Any, mask: list[bool]) -> Any:
    size = [x.shape[-1]]
    y, mean, factor = aten.native_layer_norm(x, size, w, b, EPSILON)
    function = aten.native_layer_norm_backward
    return y, lambda grad: function(grad, x, size, mean, factor, w, b, mask)


def _rms_backward(arrays: Arrays, x: Tensor, w: Any, b: Any, mask: list[bool]) -> Any:
    size = [x.shape[-1]]
    y, factor = aten._fused_rms_norm(x, size, w, EPSILON)
    function = aten._fused_rms_norm_backward
    return y, lambda grad: function(grad, x, size, factor, w, mask[:2])


def _group_backward(arrays: Arrays, x: Tensor, w: Any, b: Any, mask: list[bool]) -> Any:
    n, c = x.shape[:2]
    area, groups = math.prod(x.shape[2:]), arrays.problem.shape[1]
    y, mean, factor = aten.native_group_norm(x, w, b, n, c, area, groups, EPSILON)
    function = aten.native_group_norm_backward
    return y, lambda grad: function(grad, x, mean, factor, w, n, c, area, groups, mask)


def _batch_backward(arrays: Arrays, x: Tensor, w: Any, b: Any, mask: list[bool]) -> Any:
    y, *saved = aten.native_batch_norm(x, w, b, None, None, True, 0.0, EPSILON)
    function = aten.native_batch_norm_backward
    return y, lambda grad: function(grad, x, w, None, None, *saved, True, EPSILON, mask)
