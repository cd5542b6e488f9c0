"""What NumPy has, or CuPy by the same names: np.pad, means, maxima, windows as strided slices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from arrays import Arrays
from cases import AVERAGE, MAX, PAD, Shape

from . import AbsentError, Ways

_MODES = {"constant": "constant", "edge": "edge", "reflection": "reflect", "symmetric": "symmetric"}


def ways(arrays: Arrays, xp: Any = np) -> Ways:
    """Results are in memory order."""
    problem = arrays.problem
    if problem.case.op == PAD:
        return _padding(arrays, xp)
    is_pooling = problem.case.op in (MAX, AVERAGE) and not problem.index
    if not is_pooling or problem.ceil:
        return {}
    if problem.case.args["window"] is None:
        return _whole(arrays, xp)
    if problem.dtype == "float16" and (xp is np or problem.case.op == AVERAGE):
        raise AbsentError("float16 is slow element by element, and summed in float16")
    make = maximum_of_slices if problem.case.op == MAX else _mean_of_slices
    return {"slices": make(arrays, xp)}


def _pairs(arrays: Arrays) -> list[tuple[int, int]]:
    problem = arrays.problem
    return [(problem.start[a], problem.end[a]) for a in problem.memory_axes]


def _padding(arrays: Arrays, xp: Any) -> Ways:
    x, y, pairs = arrays.base["x"], arrays.base["y"], _pairs(arrays)
    mode = arrays.problem.case.args["mode"]
    if not isinstance(mode, str):
        return {"pad twice": _one_mode_after_the_other(arrays, xp)}
    found: Ways = {"pad": lambda: xp.pad(x, pairs, mode=_MODES[mode])}
    if mode == "constant":
        inner = tuple(slice(b, b + n) for (b, _), n in zip(pairs, x.shape, strict=True))

        def fill_and_assign() -> Any:
            y.fill(0)
            y[inner] = x
            return y

        found["fill, assign"] = fill_and_assign
    return found


def _one_mode_after_the_other(arrays: Arrays, xp: Any) -> Any:
    x, problem = arrays.base["x"], arrays.problem
    modes = [problem.case.args["mode"][a] for a in problem.memory_axes]
    pairs = _pairs(arrays)

    def pad() -> Any:
        y = x
        for mode in sorted(set(modes)):
            some = [p if m == mode else (0, 0) for p, m in zip(pairs, modes, strict=True)]
            y = xp.pad(y, some, mode=_MODES[mode]) if any(map(any, some)) else y
        return y

    return pad


def _memory_axes_of(arrays: Arrays) -> Shape:
    """The pooled dimensions as they lie in memory."""
    where = arrays.problem.memory_axes
    return tuple(where.index(a) for a in arrays.problem.axes)


def _whole(arrays: Arrays, xp: Any) -> Ways:
    x, y, axes = arrays.base["x"], arrays.base["y"], _memory_axes_of(arrays)
    if arrays.problem.case.op == MAX:
        return {"max": lambda: x.max(axis=axes, keepdims=True, out=y)}
    wide = xp.float32
    return {"mean": lambda: x.mean(axis=axes, keepdims=True, dtype=wide).astype(x.dtype)}


def _slices(arrays: Arrays) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap of the window the outputs that have it, and their inputs."""
    problem, rank = arrays.problem, len(arrays.problem.shape)
    sizes = zip(
        problem.axes, problem.window, problem.strides, problem.pad, problem.dilations, strict=True
    )
    each: list[list[tuple[int, slice, slice]]] = []
    for axis, k, s, p, d in sizes:
        n, out, found = problem.shape[axis], problem.output[axis], []
        for offset in (i * d - p for i in range(k)):
            low, high = max(0, -(offset // s)), min(out, (n - 1 - offset) // s + 1)
            source = slice(low * s + offset, (high - 1) * s + offset + 1, s)
            found.append((problem.memory_axes.index(axis), slice(low, high), source))
        each.append(found)
    pairs = []
    for tap in itertools.product(*each):
        to, of = [slice(None)] * rank, [slice(None)] * rank
        for where, out_slice, in_slice in tap:
            to[where], of[where] = out_slice, in_slice
        pairs.append((tuple(to), tuple(of)))
    return pairs


def maximum_of_slices(arrays: Arrays, xp: Any) -> Any:
    x, y, slices = arrays.base["x"], arrays.base["y"], _slices(arrays)
    lowest = 0 if arrays.problem.dtype == "uint8" else -xp.inf

    def maximum() -> Any:
        y[...] = lowest
        for to, of in slices:
            xp.maximum(y[to], x[of], out=y[to])
        return y

    return maximum


def _mean_of_slices(arrays: Arrays, xp: Any) -> Any:
    x, y, slices = arrays.base["x"], arrays.base["y"], _slices(arrays)
    count = xp.zeros(y.shape, x.dtype)
    for to, _ in slices:
        count[to] += 1

    def mean() -> Any:
        y.fill(0)
        for to, of in slices:
            xp.add(y[to], x[of], out=y[to])
        return xp.divide(y, count, out=y)

    return mean
