"""Calls of every operator on PyTorch's tensors, beside the same calls on NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import cudml
import cudml.torch
from harness import data

WINDOWS = (
    (2, 3),
    (2, 1),
    (1, 0),
    (0, 2),
    (1, 2),
)  # size, strides, pads before and after, dilations
SHAPE, POOLED = (2, 3, 5, 7), (2, 3, 3, 5)
OPTIONS: dict[str, Any] = {"axes": (1, 3), "epsilon": 0.25, "activation": ("elu", {"alpha": 0.5})}
STORED = {k: v for k, v in OPTIONS.items() if k != "axes"}


def tensor(x: np.ndarray) -> torch.Tensor:
    """A copy of an array as a tensor, bfloat16 as well."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(x.copy())


def bits(t: Any) -> np.ndarray:
    """The bits of a tensor or an array, row-major."""
    if isinstance(t, torch.Tensor):
        t = t.detach().contiguous()
        t = t.view(torch.int16).numpy() if t.dtype == torch.bfloat16 else t.numpy()
    return np.ascontiguousarray(t).view(np.uint8)


def equal(got: Any, want: Any) -> bool:
    """Whether two results have one shape and the same bits."""
    return tuple(got.shape) == tuple(want.shape) and np.array_equal(bits(got), bits(want))


@dataclass
class Case:
    """A call `f(*arrays, *args, **kwargs)`, and the gradients of its first result.

    ``grads(y, g)`` computes them in NumPy, one for each of the arrays in `differentiable`. The
    arrays behind "count" are the pair `sums`, which are given by name as it is.
    """

    op: str
    arrays: dict[str, np.ndarray]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[str, ...] = ("x",)
    grads: Callable[..., Any] | None = None

    def tensors(self, requires_grad: bool = False) -> dict[str, torch.Tensor]:
        """The arrays as tensors; those that are differentiable may ask for a gradient."""
        made = {name: tensor(a) for name, a in self.arrays.items()}
        for name in self.differentiable if requires_grad else ():
            made[name].requires_grad_()
        return made

    def arguments(self, *given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Of the call on what stands for the arrays, in their order."""
        keywords = {**self.kwargs}
        if "count" in self.arrays:
            *given, keywords["count"], first, second = given
            keywords["sums"] = (first, second)
        return (*given, *self.args), keywords

    def on(self, *tensors: Any) -> Any:
        """The call on tensors, in the order of the arrays."""
        arguments, keywords = self.arguments(*tensors)
        return getattr(cudml.torch, self.op)(*arguments, **keywords)

    def on_arrays(self) -> Any:
        """The call by `cudml` itself, on NumPy's arrays."""
        arguments, keywords = self.arguments(*self.arrays.values())
        if keywords.get("return_indices"):
            keywords.setdefault("index_dtype", "int64")
        return getattr(cudml, self.op)(*arguments, **keywords)


def _pooling(dtype: str, **keywords: Any) -> dict[str, Case]:
    x = data(SHAPE, dtype, 1)
    averaging, power = {"include_padding": True}, {"p": 3}

    def max_grad(y: Any, g: Any) -> Any:
        return [cudml.max_pooling_grad(x, g, *WINDOWS)]

    def average_grad(y: Any, g: Any) -> Any:
        return [cudml.average_pooling_grad(g, SHAPE, *WINDOWS, **averaging)]

    def lp_grad(y: Any, g: Any) -> Any:
        return [cudml.lp_pooling_grad(x, y, g, *WINDOWS, **power)]

    indexed = {**keywords, "return_indices": True}
    return {
        "max_pooling": Case("max_pooling", {"x": x}, WINDOWS, keywords, grads=max_grad),
        "with_indices": Case("max_pooling", {"x": x}, WINDOWS, indexed, grads=max_grad),
        "average_pooling": Case(
            "average_pooling", {"x": x}, WINDOWS, {**keywords, **averaging}, grads=average_grad
        ),
        "lp_pooling": Case("lp_pooling", {"x": x}, WINDOWS, {**keywords, **power}, grads=lp_grad),
    }


def _padding(dtype: str) -> dict[str, Case]:
    x, start, end = data((2, 3, 4, 5), dtype, 2), (0, 1, 5, 2), (1, 0, 3, 7)
    cases = {}
    for mode in ("constant", "edge", "reflection", "symmetric", "wrap"):

        def grads(y: Any, g: Any, mode: Any = mode) -> Any:
            return [cudml.padding_grad(g, x.shape, start, end, mode=mode)]

        keywords = {"mode": mode, "value": 2.5}
        cases[f"padding {mode}"] = Case("padding", {"x": x}, (start, end), keywords, grads=grads)
    return cases


def _parameters(dtype: str) -> dict[str, np.ndarray]:
    """Scale and bias, of which both have a size of 1 in dimensions that the statistics keep."""
    kind = "float32" if dtype in ("float16", "bfloat16") else dtype
    return {"scale": data((1, 3, 1, 7), kind, 4), "bias": data((2, 1, 5, 1), kind, 5)}


def _normalization(dtype: str) -> dict[str, Case]:
    x, parameters = data(SHAPE, dtype, 3), _parameters(dtype)

    def grads(y: Any, g: Any) -> Any:
        return cudml.mean_variance_normalization_grad(x, g, *parameters.values(), **OPTIONS)

    stored = {"mean": data((1, 3, 1, 1), dtype, 6), "variance": data((2, 1, 5, 1), dtype, 7) ** 2}

    def stored_grads(y: Any, g: Any) -> Any:
        return cudml.normalize_grad(x, g, *stored.values(), *parameters.values(), **STORED)

    every = ("x", "scale", "bias")
    return {
        "mean_variance_normalization": Case(
            "mean_variance_normalization", {"x": x, **parameters}, (), OPTIONS, every, grads
        ),
        "normalize": Case(
            "normalize", {"x": x, **stored, **parameters}, (), STORED, every, stored_grads
        ),
    }


def _unpooling(dtype: str) -> dict[str, Case]:
    x = data((2, 3, 2, 2), dtype, 8)
    indices = np.random.default_rng(9).integers(-3, 2 * 3 * 3 * 4 + 3, x.shape)
    indices[0, 1] = indices[1, 2] = 5  # of many, the last one wins

    def grads(y: Any, g: Any) -> Any:
        flat, last = indices.reshape(-1), {}
        for k, i in enumerate(flat):
            last[i] = k
        won = [0 <= i < g.size and last[i] == k for k, i in enumerate(flat)]
        picked = np.where(won, g.reshape(-1)[np.clip(flat, 0, g.size - 1)], g.dtype.type(0))
        return [picked.reshape(x.shape)]

    arrays = {"x": x, "indices": indices}
    return {"max_unpooling": Case("max_unpooling", arrays, ((2, 3, 3, 4),), grads=grads)}


def forward(dtype: str = "float32") -> dict[str, Case]:
    """Every operator that has a gradient."""
    more = {f"{k} ceil": v for k, v in _pooling(dtype, output_sizes="ceil").items()}
    given = (
        _pooling(dtype), more, _padding(dtype), _normalization(dtype), _unpooling(dtype)
    )  # fmt: skip
    return {name: case for group in given for name, case in group.items()}


def backward(dtype: str = "float32") -> dict[str, Case]:
    """The gradients, statistics and sums as calls of their own."""
    x, g, y = data(SHAPE, dtype, 1), data(POOLED, dtype, 2), abs(data(POOLED, dtype, 3)) + 1
    parameters, same = _parameters(dtype), data(SHAPE, dtype, 4)
    padded, stored = data((3, 4, 12, 14), dtype, 2), (data((2, 3, 5, 1), dtype, 6),)
    given = {"x": x, "grad": same, "mean": stored[0], "variance": stored[0] ** 2 + 1, **parameters}
    pads = ((2, 3, 4, 5), (0, 1, 5, 2), (1, 0, 3, 7))
    axes = {"axes": OPTIONS["axes"]}
    names = ("count", "sum_w", "sum_wz")
    whole = {n: data((2, 1, 5, 1), dtype, 7 + i) + 30 * (not i) for i, n in enumerate(names)}
    return {
        "max_pooling_grad": Case(
            "max_pooling_grad", {"x": x, "grad": g}, WINDOWS, differentiable=("grad",)
        ),
        "average_pooling_grad": Case(
            "average_pooling_grad", {"grad": g}, (SHAPE, *WINDOWS), differentiable=("grad",)
        ),
        "lp_pooling_grad": Case(
            "lp_pooling_grad", {"x": x, "y": y, "grad": g}, WINDOWS, {"p": 3}, ()
        ),
        "padding_grad": Case(
            "padding_grad", {"grad": padded}, pads, {"mode": "reflection"}, ("grad",)
        ),
        "mean_variance_normalization_grad": Case(
            "mean_variance_normalization_grad",
            {"x": x, "grad": same, **parameters},
            (),
            OPTIONS,
            (),
        ),
        "normalization_statistics": Case("normalization_statistics", {"x": x}, (), axes, ()),
        "normalization_statistics of squares": Case(
            "normalization_statistics", {"x": x}, (), {**axes, "use_mean": False}, ()
        ),
        "normalize_grad_sums": Case("normalize_grad_sums", given, (), OPTIONS, ()),
        "normalize_grad": Case("normalize_grad", given, (), STORED, ()),
        "normalize_grad of a part": Case("normalize_grad", {**given, **whole}, (), STORED, ()),
    }


def listed(result: Any) -> list[Any]:
    """The results that are there."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [r for r in results if r is not None]


def floating(result: Any) -> list[torch.Tensor]:
    """The results that a gradient can come from."""
    return [r for r in listed(result) if r.is_floating_point()]


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t.clone(),
    "channels_last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "transposed": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded": lambda t: t[:1].expand(t.shape),
}
"""The memory formats that a tensor of rank 4 may have; all but `expanded` have its values."""
# Statistics and sums are row-major in whatever order x is, for which it is looked at first.
ROW_MAJOR = ("normalization_statistics", "normalize_grad_sums")


def called_layouts(cases: Collection[str]) -> list[tuple[str, str]]:
    """Cases and layouts in which a call without a gradient goes straight to the extension."""
    layouts = ("contiguous", "channels_last")
    rest = [c for c in cases if c.split()[0] not in ROW_MAJOR]
    return [(c, at) for at in layouts for c in (cases if at == "contiguous" else rest)]
