"""Draws problems of what training adds: further gradients, statistics in parts, unpooling."""

from __future__ import annotations

import math
import random
from typing import Any

import draw
from pages import input_layout, output_layout
from problem import Problem
from scale import scale
from values import FLOATS, INTEGERS, dtype_of

INDICES = ("uint32", "uint64", "int32", "int64")


class Arrays:
    """The arrays of a problem, as they are drawn."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.layouts: dict[str, Any] = {}
        self.types: dict[str, str] = {}

    def add(self, name: str, shape: Any, dtype: str) -> None:
        self.layouts[name] = input_layout(self.r, tuple(shape), dtype_of(dtype).itemsize)
        self.types[name] = dtype

    def problem(self, op: str, how: dict[str, Any], outs: list[tuple[Any, str]]) -> Problem:
        """With outputs of these shapes and types."""
        found = (output_layout(self.r, tuple(s), dtype_of(t).itemsize) for s, t in outs)
        return Problem(op, self.layouts, self.types, how, tuple(found), **draw.common(self.r))


def lp_gradient(r: random.Random, how: dict[str, Any], ins: Any, outs: Any) -> Problem | None:
    if "axes" in how:
        return None
    dtype = r.choice(FLOATS)
    arrays = Arrays(r)
    arrays.add("x", ins, dtype)
    arrays.add("y", outs, r.choice((dtype, _wide(dtype))))
    arrays.add("grad", outs, dtype)
    how = {**how, "p": r.choice((1, 2, 2, 2, 3, 4, 7))}
    return arrays.problem("lp_pooling_grad", how, [(ins, dtype)])


def padding_gradient(r: random.Random) -> Problem | None:
    """The transpose of a padding that is drawn as ever."""
    found = draw.padding(r)
    if found is None:
        return None
    dtype, how = r.choice(FLOATS), dict(found.how)
    how.pop("value", None)
    how["mode"] = r.choice(draw.MODES)
    how["input_sizes"] = found.arrays["x"].shape
    arrays = Arrays(r)
    arrays.add("grad", found.outs[0].shape, dtype)
    return arrays.problem("padding_grad", how, [(how["input_sizes"], dtype)])


def unpooling(r: random.Random) -> Problem | None:
    """Indices of any place of the output, few or many, and some beyond it."""
    spatial = r.choice((1, 2, 2, 2, 3))
    shape = [r.choice(scale().batches), r.choice(scale().batches)]
    shape += [r.choice(scale().sizes) for _ in range(spatial)]
    sizes = shape[:2] + [max(1, n * r.choice((1, 2, 2, 3)) + r.randint(-1, 2)) for n in shape[2:]]
    if max(math.prod(shape), math.prod(sizes)) > r.choice(scale().unpooled):
        return None
    dtype = r.choice([*FLOATS, *INTEGERS])
    arrays = Arrays(r)
    arrays.add("x", shape, dtype)
    arrays.add("indices", shape, r.choice(INDICES))
    return arrays.problem("max_unpooling", {"output_sizes": tuple(sizes)}, [(sizes, dtype)])


def normalization_gradient(r: random.Random) -> Problem | None:
    """Of one call, or with given statistics, of the whole or of a part."""
    found = draw.normalization(r)
    if found is None:
        return None
    op = r.choice((*("mean_variance_normalization_grad",) * 3, "normalize_grad"))
    arrays, how = _as_given(r, found)
    shape, dtype = found.arrays["x"].shape, found.types["x"]
    arrays.add("grad", shape, dtype)
    wide = _statistics_type(r, dtype)
    if op == "normalize_grad":
        _add_statistics(arrays, _broadcast(r, shape), wide, how)
        if r.random() < 0.6:
            for name in ("count", "sums0", "sums1"):
                arrays.add(name, _broadcast(r, shape), wide)
        how = {k: v for k, v in how.items() if k in ("epsilon", "activation")}
    elif r.random() < 0.4:
        _add_statistics(arrays, _groups(shape, how["axes"]), wide, how)
    how["outputs"] = tuple(k for k in ("x", "scale", "bias") if r.random() < 0.75) or ("x",)
    of = {k: v for k, v in arrays.layouts.items() if k in how["outputs"]}
    outs = [(of[k].shape, arrays.types[k]) for k in ("x", "scale", "bias") if k in of]
    return arrays.problem(op, how, outs) if outs else None


def two_phase(r: random.Random) -> Problem | None:
    """Statistics of a part, of two together, what is done with them, and their gradients' sums."""
    found = draw.normalization(r)
    if found is None:
        return None
    op = r.choice(("normalization_statistics", "merge_statistics", "normalize",
                   "normalize_grad_sums"))  # fmt: skip
    shape, dtype = found.arrays["x"].shape, found.types["x"]
    arrays, how = _as_given(r, found)
    groups = _groups(shape, how["axes"])
    to = r.choice(("float32", "float64"))
    if op == "merge_statistics":
        arrays = Arrays(r)
        for name in ("a0", "a1", "a2", "b0", "b1", "b2"):
            arrays.add(name, shape, to)
        return arrays.problem(op, {}, [(shape, to)] * 3)
    if op == "normalization_statistics":
        arrays.layouts = {"x": arrays.layouts["x"]}
        arrays.types = {"x": dtype}
        how = {"axes": how["axes"], "use_mean": how["use_mean"], "dtype": to}
        return arrays.problem(op, how, [(groups, to)] * 3)
    _add_statistics(arrays, _broadcast(r, shape), _statistics_type(r, dtype), how)
    kept = {k: how[k] for k in ("epsilon", "activation")}
    if op == "normalize":
        return arrays.problem(op, kept, [(shape, dtype)])
    arrays.add("grad", shape, dtype)
    return arrays.problem(op, {**kept, "axes": how["axes"], "dtype": to}, [(groups, to)] * 2)


def _as_given(r: random.Random, p: Problem) -> tuple[Arrays, dict[str, Any]]:
    arrays = Arrays(r)
    arrays.layouts, arrays.types = dict(p.arrays), dict(p.types)
    return arrays, dict(p.how)


def _wide(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _statistics_type(r: random.Random, dtype: str) -> str:
    return r.choice((dtype, "float32", "float64"))


def _groups(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    over = [a % len(shape) for a in axes]
    return tuple(1 if a in over else n for a, n in enumerate(shape))


def _broadcast(r: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n if r.random() < 0.5 else 1 for n in shape)


def _add_statistics(arrays: Arrays, shape: Any, dtype: str, how: dict[str, Any]) -> None:
    """As the flags ask for them."""
    for name in ("mean", "variance"):
        if how[f"use_{name}"]:
            arrays.add(name, shape, dtype)
