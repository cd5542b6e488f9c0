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


def norm_grad(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...], along: int, peer: Any
) -> SpeedCase:
    """All three gradients with statistics given; scale and bias vary along one dimension."""

    def make(dtype: torch.dtype) -> Tensors:
        x, grad = normal(shape, dtype), normal(shape, dtype)
        vector = [n if a == along else 1 for a, n in enumerate(shape)]
        scale = normal(tuple(vector), dtype)
        bias = normal(tuple(vector), dtype)
        mean = x.float().mean(axes, keepdim=True)
        variance = x.float().var(axes, correction=0, keepdim=True)
        of_peer = {"_mean": mean.flatten(), "_rstd": (variance + 1e-5).rsqrt().flatten()}
        results = {"y": torch.empty_like(x), "dscale": scale.clone(), "dbias": bias.clone()}
        return {"x": x, "grad": grad, "scale": scale, "bias": bias, "mean": mean,
                "variance": variance, **results, **of_peer}  # fmt: skip

    def ours(t: Tensors) -> Any:
        given = (t["x"], t["grad"], t["scale"], t["bias"])
        return cudml.mean_variance_normalization_grad(
            *given, axes=axes, mean=t["mean"], variance=t["variance"],
            out=(t["y"], t["dscale"], t["dbias"]),
        )  # fmt: skip

    return SpeedCase(f"{name} gradient, {'x'.join(map(str, shape))}", make, ours, peer)


def layer_norm_grad(rows: int, columns: int) -> SpeedCase:
    def peer(t: Tensors) -> torch.Tensor:
        result = aten.native_layer_norm_backward(
            t["grad"], t["x"], [columns], t["_mean"][:, None], t["_rstd"][:, None], t["scale"][0],
            t["bias"][0], [True, True, True],
        )  # fmt: skip
        return result[0]

    return norm_grad("LayerNorm", (rows, columns), (1,), 1, peer)


def batch_norm_grad(shape: tuple[int, ...]) -> SpeedCase:
    def peer(t: Tensors) -> torch.Tensor:
        result = aten.native_batch_norm_backward(
            t["grad"], t["x"], t["scale"].flatten(), None, None, t["_mean"], t["_rstd"], True,
            1e-5, [True, True, True],
        )  # fmt: skip
        return result[0]

    return norm_grad("BatchNorm", shape, (0, 2, 3), 1, peer)


def group_norm_grad(n: int, c: int, h: int, w: int) -> SpeedCase:
    """32 groups."""
    grouped = (n, 32, c // 32, h, w)

    def make(dtype: torch.dtype) -> Tensors:
        x, grad = normal(grouped, dtype), normal(grouped, dtype)
        vectors = {name: normal((1, 32, c // 32, 1, 1), dtype) for name in ("scale", "bias")}
        mean = x.float().mean((2, 3, 4), keepdim=True)
        variance = x.float().var((2, 3, 4), correction=0, keepdim=True)
        rstd = (variance + 1e-5).rsqrt().view(n, 32)
        results = {f"d{name}": torch.empty_like(v) for name, v in vectors.items()}
        return {"x": x, "grad": grad, **vectors, "mean": mean, "variance": variance,
                "y": torch.empty_like(x), **results, "_mean": mean.view(n, 32).to(dtype),
                "_rstd": rstd.to(dtype)}  # fmt: skip

    def ours(t: Tensors) -> Any:
        return cudml.mean_variance_normalization_grad(
            t["x"], t["grad"], t["scale"], t["bias"], axes=(2, 3, 4), mean=t["mean"],
            variance=t["variance"], out=(t["y"], t["dscale"], t["dbias"]),
        )  # fmt: skip

    def peer(t: Tensors) -> torch.Tensor:
        image, grad = t["x"].view(n, c, h, w), t["grad"].view(n, c, h, w)
        result = aten.native_group_norm_backward(
            grad, image, t["_mean"], t["_rstd"], t["scale"].flatten(), n, c, h * w, 32,
            [True, True, True],
        )  # fmt: skip
        return result[0].view(grouped)

    return SpeedCase(f"GroupNorm 32 gradient, {n}x{c}x{h}x{w}", make, ours, peer)


def batch_norm(shape: tuple[int, ...]) -> SpeedCase:
    """Statistics of the batch, as in training."""

    def make(dtype: torch.dtype) -> Tensors:
        x = normal(shape, dtype)
        vectors = {name: normal((1, shape[1], 1, 1), dtype) for name in ("scale", "bias")}
        return {"x": x, **vectors, "y": torch.empty_like(x)}

    return SpeedCase(
        f"BatchNorm, {'x'.join(map(str, shape))}",
        make,
        lambda t: cudml.mean_variance_normalization(
            t["x"], t["scale"], t["bias"], axes=(0, 2, 3), out=t["y"]
        ),
        lambda t: F.batch_norm(
            t["x"], None, None, t["scale"].flatten(), t["bias"].flatten(), training=True
        ),
    )


def unpooling(shape: tuple[int, ...]) -> SpeedCase:
    """Of maxima of 2x2; ours take indices into the whole, PyTorch's into a plane."""
    n, c, h, w = shape

    def make(dtype: torch.dtype) -> Tensors:
        whole = normal((n, c, 2 * h, 2 * w), dtype)
        x, of_plane = F.max_pool2d(whole, 2, return_indices=True)
        planes = torch.arange(n * c, device="cuda").view(n, c, 1, 1)
        indices = of_plane + planes * (4 * h * w)
        return {"x": x, "indices": indices, "y": torch.empty_like(whole), "_of_plane": of_plane}

    return SpeedCase(
        f"unpooling 2x2/2, {'x'.join(map(str, shape))}",
        make,
        lambda t: cudml.max_unpooling(t["x"], t["indices"], (n, c, 2 * h, 2 * w), out=t["y"]),
        lambda t: F.max_unpool2d(t["x"], t["_of_plane"], 2),
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
        batch_norm((32, 64, 112, 112)),
        layer_norm_grad(8192, 768),
        layer_norm_grad(8192, 4096),
        batch_norm_grad((32, 64, 112, 112)),
        group_norm_grad(2, 320, 64, 64),
        unpooling((16, 64, 128, 128)),
    ]  # fmt: skip
