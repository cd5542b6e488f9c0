"""PyTorch's ways of normalization, on the CPU or a GPU; results are in image order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from arrays import Arrays
from cases import NORMALIZE

from . import Ways

aten = torch.ops.aten
EPSILON = 1e-5


def ways(arrays: Arrays) -> Ways:
    if arrays.problem.case.op == NORMALIZE:
        return _stored(arrays)
    made: dict[str, Callable[[Arrays], Ways]] = {
        "layer": _layer,
        "group": _group,
        "instance": _instance,
        "batch": _batch,
        "rms": _rms_channels if arrays.problem.axes == (1,) else _rms,
        "axes": _any_axes,
    }
    return made[arrays.problem.case.norm](arrays)


def _layer(arrays: Arrays) -> Ways:
    x, y = arrays.logical("x"), arrays.logical("y")
    scale, bias = arrays.flat("scale"), arrays.flat("bias")
    size = [x.shape[-1]]
    rows = (*x.shape[:-1], 1)
    moments = [torch.zeros(rows, dtype=x.dtype, device=x.device) for _ in range(2)]

    def into() -> Any:
        # Without moments of the type that the kernel computes they would be made anew.
        return aten.native_layer_norm.out(
            x, size, scale, bias, EPSILON, out0=y, out1=moments[0], out2=moments[1]
        )

    return {"layer_norm": lambda: F.layer_norm(x, size, scale, bias, EPSILON), "out=": into}


def _group(arrays: Arrays) -> Ways:
    x, groups = arrays.image("x"), arrays.problem.shape[1]
    scale, bias = arrays.flat("scale"), arrays.flat("bias")
    norm = F.group_norm
    return {
        "group_norm, silu": lambda: F.silu(norm(x, groups, scale, bias, EPSILON)),
        "group_norm, silu in place": lambda: F.silu(
            norm(x, groups, scale, bias, EPSILON), inplace=True
        ),
    }


def _instance(arrays: Arrays) -> Ways:
    x, channels = arrays.image("x"), arrays.problem.shape[1]
    scale, bias = arrays.flat("scale"), arrays.flat("bias")
    return {
        "instance_norm, relu": lambda: F.relu_(
            F.instance_norm(x, None, None, scale, bias, True, 0.0, EPSILON)
        ),
        "group_norm, relu": lambda: F.relu_(F.group_norm(x, channels, scale, bias, EPSILON)),
    }


def _batch(arrays: Arrays) -> Ways:
    x, y = arrays.image("x"), arrays.image("y")
    scale, bias = arrays.flat("scale"), arrays.flat("bias")
    moments = [torch.zeros(len(scale), dtype=x.dtype, device=x.device) for _ in range(2)]

    def into() -> Any:
        return aten.native_batch_norm.out(
            x, scale, bias, None, None, True, 0.0, EPSILON,
            out=y, save_mean=moments[0], save_invstd=moments[1],
        )  # fmt: skip

    return {
        "batch_norm": lambda: F.batch_norm(x, None, None, scale, bias, True, 0.0, EPSILON),
        "out=": into,
    }


def _stored(arrays: Arrays) -> Ways:
    """All vectors in float32: PyTorch wants them to be of one type. Converting is not counted."""
    x, y = arrays.image("x"), arrays.image("y")
    mean, variance, scale, bias = (
        arrays.flat(name).float() for name in ("mean", "variance", "scale", "bias")
    )
    in_place: dict[str, Callable[[Any], Any]] = {
        "relu": F.relu_,
        "swish": lambda result: F.silu(result, inplace=True),
    }
    activate = in_place.get(arrays.problem.case.args.get("activation", ""), lambda result: result)
    none = [torch.zeros(0, device=x.device) for _ in range(2)]

    def into() -> Any:
        aten.native_batch_norm.out(
            x, scale, bias, mean, variance, False, 0.0, EPSILON,
            out=y, save_mean=none[0], save_invstd=none[1],
        )  # fmt: skip
        return activate(y)

    return {
        "batch_norm": lambda: activate(
            F.batch_norm(x, mean, variance, scale, bias, False, 0.0, EPSILON)
        ),
        "out=": into,
    }


def _rms(arrays: Arrays) -> Ways:
    x, scale = arrays.logical("x"), arrays.flat("scale")
    size = [x.shape[-1]]
    found: Ways = {"rms_norm": lambda: F.rms_norm(x, size, scale, EPSILON)}
    if hasattr(aten, "_fused_rms_norm"):
        fused = torch.ops.aten._fused_rms_norm
        found["fused_rms_norm"] = lambda: fused(x, size, scale, EPSILON)
    return found


def _rms_channels(arrays: Arrays) -> Ways:
    """Channels are dimension 1; with channels last the ordinary rms_norm takes the memory."""
    x, scale = arrays.logical("x"), arrays.logical("scale")
    root = x.shape[1] ** 0.5

    def by_length() -> Any:
        return F.silu((F.normalize(x, dim=1) * root).mul_(scale), inplace=True)

    def by_mean_square() -> Any:
        deviation = torch.linalg.vector_norm(x, 2, 1, keepdim=True, dtype=torch.float32)
        factor = torch.rsqrt((deviation / root).square_().add_(EPSILON)).to(x.dtype)
        return F.silu((x * factor).mul_(scale), inplace=True)

    found: Ways = {"normalize, silu": by_length, "rsqrt, silu": by_mean_square}
    if arrays.problem.layout == "L":
        rows, flat = arrays.memory("x"), arrays.flat("scale")
        order = (0, x.ndim - 1, *range(1, x.ndim - 1))
        found["rms_norm, silu"] = lambda: F.silu(
            F.rms_norm(rows, [x.shape[1]], flat, EPSILON), inplace=True
        ).permute(*order)
    return found


def _any_axes(arrays: Arrays) -> Ways:
    x, axes = arrays.logical("x"), arrays.problem.axes

    def by_moments() -> Any:
        variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean).mul_(torch.rsqrt(variance + EPSILON))

    kept = [a for a in range(x.ndim) if a not in axes]
    back = sorted(range(x.ndim), key=[*kept, *axes].__getitem__)
    size = [x.shape[a] for a in axes]

    def by_layer_norm() -> Any:
        packed = x.permute(*kept, *axes).contiguous()
        return F.layer_norm(packed, size, None, None, EPSILON).permute(*back)

    return {"var_mean": by_moments, "permute, layer_norm": by_layer_norm}
