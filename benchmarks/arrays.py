"""The arrays of a problem: random, every page touched, and seen in each library's shape."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from cases import LP_GRAD, MVN_GRAD, NORMALIZE, UNPOOL, Shape
from problems import Problem

import cudml

_PERIOD = 1_000_003  # random numbers repeat after these; a prime, so that no dimension divides it
_SEEDS = ("x", "grad", "scale", "bias")
_IN_ORDER = ("scale", "bias", "dscale", "dbias", "mean", "variance")  # as the operator takes them
_HEAP = 1 << 30
_TRIM_THRESHOLD, _MMAP_MAX, _HUGE = -1, -4, 14  # of mallopt and madvise


def keep_touched_memory() -> bool:
    """Makes malloc keep what was freed, and touches a gigabyte of it, in huge pages.

    Fresh outputs of a library are then in memory that has pages already, as they are in a program
    that runs for longer than one call; the faults of new pages cost more than the operators.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        if not (libc.mallopt(_MMAP_MAX, 0) and libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)):
            return False
    except (OSError, AttributeError):
        return False
    libc.malloc.restype = ctypes.c_void_p
    start = libc.malloc(ctypes.c_size_t(_HEAP))
    if not start:
        return False
    page = 1 << 21
    first = -(-start // page) * page
    libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(_HEAP - page), _HUGE)
    ctypes.memset(start, 0, _HEAP)
    libc.free(ctypes.c_void_p(start))
    return True


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def drawn(shape: Shape, dtype: str, seed: int) -> np.ndarray:
    """Normal random numbers, or any of uint8's."""
    count = math.prod(shape)
    rng, few = np.random.default_rng(seed), min(count, _PERIOD)
    if dtype == "uint8":
        some = rng.integers(0, 256, few, np.uint8)
    else:
        some = rng.standard_normal(few, np.float32).astype(numpy_dtype(dtype))
    if few == count:
        return some.reshape(shape)
    whole = np.empty(count, some.dtype)
    for begin in range(0, count, few):
        part = whole[begin : begin + few]
        part[:] = some[: len(part)]
    return whole.reshape(shape)


def permuted(a: Any, order: Shape) -> Any:
    """A view of a NumPy, PyTorch or CuPy array with its dimensions in another order."""
    return a.permute(*order) if hasattr(a, "permute") else a.transpose(order)


class Arrays:
    """What a call reads and writes. `base` holds packed arrays in memory order, by the names of
    the problem's inputs and outputs."""

    def __init__(self, problem: Problem, base: dict[str, Any]) -> None:
        self.problem, self.base = problem, base

    def __contains__(self, name: str) -> bool:
        return name in self.base

    def memory(self, name: str) -> Any:
        """Packed, in memory order, groups and their channels as one dimension."""
        a = self.base[name]
        if not self.problem.groups:
            return a
        s = a.shape
        is_last = self.problem.layout == "L"
        return a.reshape((*s[:-2], s[-2] * s[-1]) if is_last else (s[0], s[1] * s[2], *s[3:]))

    def logical(self, name: str) -> Any:
        """In the operator's order of dimensions."""
        if name in _IN_ORDER:
            return self.base[name]
        return permuted(self.base[name], tuple(np.argsort(self.problem.memory_axes).tolist()))

    def image(self, name: str) -> Any:
        """Channels as dimension 1, as PyTorch takes it; pooled dimensions come last."""
        problem = self.problem
        if problem.groups:
            a = self.memory(name)
            rank = a.ndim
            return permuted(a, (0, rank - 1, *range(1, rank - 1))) if problem.layout == "L" else a
        if "pooling" in problem.case.op and problem.case.as_is:
            kept = [a for a in range(len(problem.shape)) if a not in problem.axes]
            return permuted(self.base[name], (*kept, *problem.axes))
        return self.logical(name)

    def flat(self, name: str) -> Any:
        """Scale or bias as a vector."""
        return self.base[name].reshape(-1)

    def from_image(self, a: Any, name: str = "y") -> Any:
        """A result of that shape in the operator's shape."""
        problem = self.problem
        if not problem.groups and "pooling" in problem.case.op and problem.case.as_is:
            kept = [d for d in range(len(problem.shape)) if d not in problem.axes]
            return permuted(a, tuple(np.argsort((*kept, *problem.axes)).tolist()))
        return a.reshape(problem.outputs[name][0])

    def from_memory(self, a: Any) -> Any:
        """A result in memory order in the operator's order."""
        problem = self.problem
        sizes = tuple(problem.output[d] for d in problem.memory_axes)
        return permuted(a.reshape(sizes), tuple(np.argsort(problem.memory_axes).tolist()))

    def results(self) -> list[Any]:
        """The outputs that are compared with those of peers."""
        return [self.logical(name) for name in self.problem.compared]

    def of_each_call(self) -> list[Arrays]:
        """The arrays of the calls of a turn, on the same memory."""
        found = []
        for call in self.problem.calls:
            is_forward = call.case.op != self.problem.case.op
            base = {**self.base, "y": self.base[self.problem.forward_result if is_forward else "y"]}
            names = (*call.inputs, *call.outputs)
            found.append(Arrays(call, {name: base[name] for name in names}))
        return found


def poison(y: np.ndarray) -> None:
    """Bits that no result has: NaN, or 90 for bytes and 64-bit ones for indices."""
    y.view(f"u{y.dtype.itemsize}")[...] = (
        0x5A if y.dtype.itemsize == 1 else ~np.uint64(0) >> (64 - 8 * y.dtype.itemsize)
    )


def numpy_arrays(problem: Problem, seed: int = 0) -> Arrays:
    def packed(name: str, shape: Shape) -> Shape:
        return shape if name in _IN_ORDER else tuple(shape[a] for a in problem.memory_axes)

    base: dict[str, np.ndarray] = {}
    for name, (shape, dtype) in problem.inputs.items():
        if name in _SEEDS:
            base[name] = drawn(packed(name, shape), dtype, seed + _SEEDS.index(name))
        else:
            base[name] = np.empty(packed(name, shape), numpy_dtype(dtype))
    for name, (shape, dtype) in problem.outputs.items():
        base[name] = np.empty(packed(name, shape), numpy_dtype(dtype))
        poison(base[name])
    arrays = Arrays(problem, base)
    _save(arrays)
    return arrays


def _save(arrays: Arrays) -> None:
    """Fills what a gradient, or unpooling, is given of the forward call before it."""
    problem = arrays.problem
    op, names = problem.case.op, problem.inputs
    if op in (MVN_GRAD, NORMALIZE) and "variance" in names:
        _, *moments = cudml.mean_variance_normalization(
            arrays.logical("x"),
            axes=problem.axes,
            use_mean="mean" in names,
            return_statistics=True,
        )
        for name, found in zip(("mean", "variance"), moments, strict=True):
            if name in names:
                arrays.base[name][...] = found
    if op == LP_GRAD and "norms" in names:
        x, p = arrays.logical("x"), problem.case.args["p"]
        norms = cudml.lp_pooling(x, problem.window, problem.strides, p=p)
        arrays.logical("norms")[...] = norms
    if op == UNPOOL:
        source = drawn(problem.shape, problem.dtype, 0)
        _, winners = cudml.max_pooling(
            source,
            problem.window,
            problem.strides,
            return_indices=True,
            index_dtype=problem.positions,
        )
        arrays.logical("positions")[...] = winners
