"""What the first speed table times: each operator on two shapes of real models; PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import cudml

Tensors = dict[str, torch.Tensor]
aten = torch.ops.aten


@dataclass(frozen=True)
class SpeedCase:
    """`ours` writes t["y"]; both take the tensors that `make` draws for a type."""

    name: str
    make: Callable[[torch.dtype], Tensors]
    ours: Callable[[Tensors], Any]
    torchs: Callable[[Tensors], torch.Tensor]


def normal(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="cuda").normal_()


def useful_bytes(t: Tensors) -> int:
    """Every input read once, the output written once; what only PyTorch needs is left out."""
    return sum(a.numel() * a.element_size() for name, a in t.items() if not name.startswith("_"))


def forward(
    name: str, shape: tuple[int, ...], out: tuple[int, ...], op: str, peer: Any, **kwargs: Any
) -> SpeedCase:
    """An operator of x alone."""
    function = getattr(cudml, op)
    return SpeedCase(
        f"{name}, {'x'.join(map(str, shape))}",
        lambda dtype: {
            "x": normal(shape, dtype),
            "y": torch.empty(out, dtype=dtype, device="cuda"),
        },
        lambda t: function(t["x"], **kwargs, out=t["y"]),
        lambda t: peer(t["x"]),
    )


def max_grad(shape: tuple[int, ...], k: int, s: int, p: int) -> SpeedCase:
    """PyTorch's is given the indices; ours finds the winners again."""

    def make(dtype: torch.dtype) -> Tensors:
        x = normal(shape, dtype)
        y, indices = F.max_pool2d(x, k, s, p, return_indices=True)
        grad = normal(tuple(y.shape), dtype)
        return {"x": x, "grad": grad, "y": torch.empty_like(x), "_indices": indices}

    def peer(t: Tensors) -> torch.Tensor:
        return aten.max_pool2d_with_indices_backward(
            t["grad"], t["x"], [k, k], [s, s], [p, p], [1, 1], False, t["_indices"]
        )

    return SpeedCase(
        f"max gradient {k}x{k}/{s}, {'x'.join(map(str, shape))}",
        make,
        lambda t: cudml.max_pooling_grad(t["x"], t["grad"], k, s, p, p, out=t["y"]),
        peer,
    )


def average_grad(shape: tuple[int, ...], k: int, s: int, p: int) -> SpeedCase:
    def make(dtype: torch.dtype) -> Tensors:
        x = normal(shape, dtype)
        grad = normal(tuple(F.avg_pool2d(x, k, s, p).shape), dtype)
        return {"grad": grad, "y": torch.empty_like(x), "_x": x}

    def peer(t: Tensors) -> torch.Tensor:
        return aten.avg_pool2d_backward(
            t["grad"], t["_x"], [k, k], [s, s], [p, p], False, True, None
        )

    return SpeedCase(
        f"average gradient {k}x{k}/{s}, {'x'.join(map(str, shape))}",
        make,
        lambda t: cudml.average_pooling_grad(
            t["grad"], shape, k, s, p, p, include_padding=True, out=t["y"]
        ),
        peer,
    )


def layer_norm(rows: int, columns: int) -> SpeedCase:
    def make(dtype: torch.dtype) -> Tensors:
        x = normal((rows, columns), dtype)
        vectors = {name: normal((1, columns), dtype) for name in ("scale", "bias")}
        return {"x": x, **vectors, "y": torch.empty_like(x)}

    return SpeedCase(
        f"LayerNorm, {rows}x{columns}",
        make,
        lambda t: cudml.mean_variance_normalization(
            t["x"], t["scale"], t["bias"], axes=1, out=t["y"]
        ),
        lambda t: F.layer_norm(t["x"], (columns,), t["scale"][0], t["bias"][0], 1e-5),
    )


def group_norm_silu(n: int, c: int, h: int, w: int) -> SpeedCase:
    """32 groups, scale and bias of each channel, SiLU."""
    grouped = (n, 32, c // 32, h, w)

    def make(dtype: torch.dtype) -> Tensors:
        x = normal(grouped, dtype)
        vectors = {name: normal((1, 32, c // 32, 1, 1), dtype) for name in ("scale", "bias")}
        return {"x": x, **vectors, "y": torch.empty_like(x)}

    def peer(t: Tensors) -> torch.Tensor:
        image, flat = t["x"].view(n, c, h, w), (t["scale"].view(-1), t["bias"].view(-1))
        return F.silu(F.group_norm(image, 32, *flat, 1e-5)).view(grouped)

    return SpeedCase(
        f"GroupNorm 32 + SiLU, {n}x{c}x{h}x{w}",
        make,
        lambda t: cudml.mean_variance_normalization(
            t["x"], t["scale"], t["bias"], axes=(2, 3, 4), activation="swish", out=t["y"]
        ),
        peer,
    )


def window(size: Any, strides: Any = 1, pad: Any = 0) -> dict[str, Any]:
    names = ("window_size", "strides", "start_padding", "end_padding")
    return dict(zip(names, (size, strides, pad, pad), strict=True))


def speed_cases() -> list[SpeedCase]:
    edges = {"start_padding": (0, 0, 0, 0), "end_padding": (0, 0, 1, 1)}
    around = {"start_padding": (0, 0, 1, 1), "end_padding": (0, 0, 1, 1), "mode": "reflection"}
    return [
        forward("max 3x3/2", (32, 64, 112, 112), (32, 64, 56, 56), "max_pooling",
                lambda x: F.max_pool2d(x, 3, 2, 1), **window(3, 2, 1)),
        forward("max 2x2/2", (32, 64, 224, 224), (32, 64, 112, 112), "max_pooling",
                lambda x: F.max_pool2d(x, 2, 2), **window(2, 2)),
        forward("average 2x2/2", (64, 256, 56, 56), (64, 256, 28, 28), "average_pooling",
                lambda x: F.avg_pool2d(x, 2, 2), **window(2, 2)),
        forward("average 3x3/1", (32, 192, 35, 35), (32, 192, 35, 35), "average_pooling",
                lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), **window(3, 1, 1)),
        forward("L2 3x3/2", (32, 512, 30, 40), (32, 512, 14, 19), "lp_pooling",
                lambda x: F.lp_pool2d(x, 2, 3, 2), p=2, **window(3, 2)),
        forward("L2 global", (32, 512, 30, 40), (32, 512, 1, 1), "lp_pooling",
                lambda x: F.lp_pool2d(x, 2, (30, 40)), p=2, **window((30, 40))),
        max_grad((32, 64, 112, 112), 3, 2, 1),
        max_grad((32, 64, 224, 224), 2, 2, 0),
        average_grad((64, 256, 56, 56), 2, 2, 0),
        average_grad((32, 192, 35, 35), 3, 1, 1),
        forward("pad reflection", (8, 256, 64, 64), (8, 256, 66, 66), "padding",
                lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), **around),
        forward("pad constant", (4, 512, 256, 256), (4, 512, 257, 257), "padding",
                lambda x: F.pad(x, (0, 1, 0, 1)), **edges),
        layer_norm(8192, 4096),
        group_norm_silu(1, 256, 512, 512),
    ]  # fmt: skip
