"""The arrays of a problem: random, every page touched, and seen in each library's shape."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from cases import FROM_GRADIENT, GRADIENTS, Shape
from problems import Problem

_PERIOD = 1_000_003  # random numbers repeat after these; a prime, so that no dimension divides it
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
    """What a call reads and writes. `base` holds packed arrays in memory order, by name:
    x, grad, scale, bias, y and indices, as far as the problem has them."""

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
        if name in ("scale", "bias"):
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

    def from_image(self, a: Any) -> Any:
        """A result of that shape in the operator's shape."""
        problem = self.problem
        if problem.groups:
            return a.reshape(problem.output)
        if "pooling" in problem.case.op and problem.case.as_is:
            kept = [d for d in range(len(problem.shape)) if d not in problem.axes]
            return permuted(a, tuple(np.argsort((*kept, *problem.axes)).tolist()))
        return a.reshape(problem.output)

    def from_memory(self, a: Any) -> Any:
        """A result in memory order in the operator's order."""
        problem = self.problem
        sizes = tuple(problem.output[d] for d in problem.memory_axes)
        return permuted(a.reshape(sizes), tuple(np.argsort(problem.memory_axes).tolist()))


def poison(y: np.ndarray) -> None:
    """Bits that no result has: NaN, or 90 for bytes and 64-bit ones for indices."""
    y.view(f"u{y.dtype.itemsize}")[...] = (
        0x5A if y.dtype.itemsize == 1 else ~np.uint64(0) >> (64 - 8 * y.dtype.itemsize)
    )


def numpy_arrays(problem: Problem, seed: int = 0) -> Arrays:
    def packed(shape: Shape) -> Shape:
        return tuple(shape[a] for a in problem.memory_axes)

    base: dict[str, np.ndarray] = {}
    if problem.case.op not in FROM_GRADIENT:
        base["x"] = drawn(packed(problem.shape), problem.dtype, seed)
    if problem.case.op in GRADIENTS:
        base["grad"] = drawn(packed(problem.incoming), problem.dtype, seed + 1)
    for k, name in enumerate(problem.case.scaled.split()):
        base[name] = drawn(problem.vector, problem.dtype, seed + 2 + k)
    base["y"] = np.empty(packed(problem.output), numpy_dtype(problem.dtype))
    if problem.index:
        base["indices"] = np.empty(packed(problem.output), problem.index)
    for name in ("y", "indices"):
        if name in base:
            poison(base[name])
    return Arrays(problem, base)
