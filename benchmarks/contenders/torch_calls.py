"""PyTorch's ways of pooling and padding, on the CPU or a GPU; results are in image order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from arrays import Arrays
from cases import AVERAGE, GRADIENTS, LP, MAX, PAD, UNPOOL
from problems import Problem

from . import Ways
from .numpy_calls import maximum_of_slices
from .torch_arguments import MODES, geometry, last_first

aten = torch.ops.aten
_BITS = {"bfloat16": (np.int16, torch.bfloat16)}


def tensor(a: np.ndarray) -> torch.Tensor:
    """The same memory."""
    if a.dtype.name in _BITS:
        stored, dtype = _BITS[a.dtype.name]
        return torch.from_numpy(a.view(stored)).view(dtype)
    return torch.from_numpy(a)


def tensors(arrays: Arrays, device: str = "cpu") -> Arrays:
    base = {name: tensor(a).to(device) for name, a in arrays.base.items()}
    return Arrays(arrays.problem, base)


def array(t: torch.Tensor) -> np.ndarray:
    """For comparison: bfloat16 becomes float32."""
    t = t.detach().cpu()
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy()


def dense_results(arrays: Arrays, result: Any) -> list[torch.Tensor]:
    """Of a way's result the tensors that are compared, which come first."""
    listed = result if isinstance(result, (tuple, list)) else [result]
    first = listed[: len(arrays.problem.compared)]
    return [y.to_dense() if y.is_mkldnn else y for y in first]


def ways(arrays: Arrays) -> Ways:
    if arrays.problem.case.op in GRADIENTS:
        from .torch_grads import ways as gradients

        return gradients(arrays)
    made: dict[str, Callable[[Arrays], Ways]] = {
        MAX: _max,
        AVERAGE: _average,
        LP: _lp,
        PAD: _padding,
        UNPOOL: _unpooling,
    }
    make = made.get(arrays.problem.case.op)
    if make is None:
        from .torch_norms import ways as norms

        return norms(arrays)
    return make(arrays)


def _max(arrays: Arrays) -> Ways:
    problem, x = arrays.problem, arrays.image("x")
    nd, (k, s, p, d) = len(problem.axes), geometry(problem)
    ceil, with_index = problem.ceil, bool(problem.index)
    function = getattr(F, f"max_pool{nd}d")
    found: Ways = {
        f"max_pool{nd}d": lambda: function(x, k, s, p, d, ceil, return_indices=with_index)
    }
    if nd > 1 and problem.layout == "C":
        out = (arrays.image("y"), torch.zeros(problem.output, dtype=torch.int64, device=x.device))
        into = getattr(aten, f"max_pool{nd}d_with_indices").out
        if out[0].shape == out[1].shape:  # images with their channels last are permuted
            found["out="] = lambda: into(x, k, s, p, d, ceil, out=out[0], indices=out[1])
    if problem.case.args["window"] is None:
        y, dims = arrays.image("y"), tuple(range(x.ndim - nd, x.ndim))
        found["amax"] = lambda: torch.amax(x, dims, keepdim=True, out=y)
    if problem.case.as_is and not with_index:
        taken, y = maximum_of_slices(arrays, torch), arrays.image("y")
        found["slices"] = lambda: (taken(), y)[1]
    if _fits_mkldnn(x, problem) and not with_index and set(d) == {1}:
        opaque, pool = x.to_mkldnn(), getattr(torch, f"max_pool{nd}d")
        found["mkldnn"] = lambda: pool(opaque, k, s, p, d, ceil)
    return found


def _fits_mkldnn(x: torch.Tensor, problem: Problem) -> bool:
    """oneDNN's own tensors: the conversion there and back is not counted."""
    is_dense = x.device.type == "cpu" and problem.layout == "C" and x.dtype == torch.float32
    return is_dense and len(problem.axes) in (2, 3) and torch.backends.mkldnn.is_available()


def _average(arrays: Arrays) -> Ways:
    problem, x, y = arrays.problem, arrays.image("x"), arrays.image("y")
    nd, (k, s, p, _) = len(problem.axes), geometry(problem)
    include = problem.case.args.get("include_padding", False)
    function = getattr(F, f"avg_pool{nd}d")
    found: Ways = {f"avg_pool{nd}d": lambda: function(x, k, s, p, problem.ceil, include)}
    if nd > 1:
        into = getattr(aten, f"avg_pool{nd}d").out
        found["out="] = lambda: into(x, k, s, p, problem.ceil, include, None, out=y)
    if problem.case.args["window"] is None:
        dims = tuple(range(x.ndim - nd, x.ndim))
        adaptive = getattr(F, f"adaptive_avg_pool{nd}d")
        found["mean"] = lambda: torch.mean(x, dims, keepdim=True, out=y)
        found["adaptive"] = lambda: adaptive(x, 1)
    if _fits_mkldnn(x, problem):
        opaque, pool = x.to_mkldnn(), getattr(F, f"avg_pool{nd}d")
        found["mkldnn"] = lambda: pool(opaque, k, s, p, problem.ceil, include)
    return found


def _lp(arrays: Arrays) -> Ways:
    problem, x, y = arrays.problem, arrays.image("x"), arrays.image("y")
    nd, power = len(problem.axes), float(problem.case.args["p"])
    k, s = list(problem.window), list(problem.strides)
    function = getattr(F, f"lp_pool{nd}d")
    found: Ways = {f"lp_pool{nd}d": lambda: function(x, power, k, s)}
    if problem.case.args["window"] is None:
        dims = tuple(range(x.ndim - nd, x.ndim))
        norm = torch.linalg.vector_norm
        found["vector_norm"] = lambda: norm(x, power, dims, keepdim=True, out=y)
    return found


def _unpooling(arrays: Arrays) -> Ways:
    """PyTorch counts within a plane, and takes int64."""
    problem, x, y = arrays.problem, arrays.image("x"), arrays.image("y")
    sizes = list(problem.shape[2:])
    plane = sizes[0] * sizes[1]
    positions = arrays.image("positions").to(torch.int64) % plane
    return {
        "max_unpool2d": lambda: aten.max_unpool2d(x, positions, sizes),
        "out=": lambda: aten.max_unpool2d.out(x, positions, sizes, out=y),
    }


def _padding(arrays: Arrays) -> Ways:
    problem, x, y = arrays.problem, arrays.image("x"), arrays.image("y")
    mode = problem.case.args["mode"]
    pairs = list(zip(problem.start, problem.end, strict=True))
    if not isinstance(mode, str):
        return {"pad twice": _one_mode_after_the_other(x, mode, pairs)}
    if mode not in MODES:
        return {}
    nd = max(len(pairs) - pairs.index(next(p for p in pairs if any(p))), 1)
    flat = last_first(pairs[-nd:])
    found: Ways = {"pad": lambda: F.pad(x, flat, MODES[mode])}
    if mode == "constant":
        sizes = zip(problem.start, problem.shape, strict=True)
        inner = y[tuple(slice(b, b + n) for b, n in sizes)]
        found["fill, copy"] = lambda: (y.zero_(), inner.copy_(x), y)[2]
    else:
        kind = "replication" if mode == "edge" else "reflection"
        into = getattr(aten, f"{kind}_pad{nd}d").out
        found["out="] = lambda: into(x, flat, out=y)
    return found


def _one_mode_after_the_other(
    x: torch.Tensor, modes: tuple[str, ...], pairs: list[tuple[int, int]]
) -> Callable[[], Any]:
    """F.pad takes one mode for all dimensions."""
    steps = []
    for mode in sorted(set(modes)):
        some = [p if m == mode else (0, 0) for p, m in zip(pairs, modes, strict=True)]
        if any(map(any, some)):
            steps.append((last_first(some[2:]), MODES[mode]))

    def pad() -> Any:
        y = x
        for flat, mode in steps:
            y = F.pad(y, flat, mode)
        return y

    return pad
