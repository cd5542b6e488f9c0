"""Whether an output is right: in part against the reference, in samples against peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from arrays import Arrays
from cases import FROM_GRADIENT, MAX, PAD, PAD_GRAD
from contenders import cudml_calls
from problems import Problem

from cudml import bounds

Host = Callable[[Any], np.ndarray]
_PART = 20_000  # elements of an input that the reference is given, at least
_MUCH = 500_000  # of such elements are judged once
_POSITIONS = 20_000
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-3}  # of max(1, |value|)


def independent(problem: Problem) -> list[int]:
    """Dimensions of which a part can be computed from the same part of the input."""
    rank = len(problem.shape)
    if problem.case.op in (PAD, PAD_GRAD):
        return [a for a in range(rank) if not problem.start[a] and not problem.end[a]]
    kept = problem.axes
    return [a for a in range(rank) if a not in kept]


def parts(problem: Problem) -> list[tuple[slice, ...]]:
    """The end and the beginning of the independent dimensions; only the end if that is much."""
    free, rank = independent(problem), len(problem.shape)
    begin, end = [slice(None)] * rank, [slice(None)] * rank
    rest = math.prod(problem.shape[b] for b in range(rank) if b not in free)
    for a in free:
        n = min(problem.shape[a], -(-_PART // rest)) if a == free[-1] else 1
        begin[a], end[a] = slice(0, n), slice(problem.shape[a] - n, problem.shape[a])
    return [tuple(end)] if rest > _MUCH or begin == end else [tuple(end), tuple(begin)]


def _cut(a: Any, part: tuple[slice, ...]) -> Any:
    """Dimensions of size 1, which are spread, stay."""
    return a[tuple(s if n > 1 else slice(None) for s, n in zip(part, a.shape, strict=True))]


def _judged(arrays: Arrays, part: tuple[slice, ...], host: Host) -> str:
    problem = arrays.problem
    inputs, kwargs = cudml_calls.arguments(arrays)
    cut = [host(_cut(a, part)) if hasattr(a, "shape") else a for a in inputs]
    if problem.case.op in FROM_GRADIENT:
        cut[-1] = tuple(len(range(*s.indices(n))) for s, n in zip(part, problem.shape, strict=True))
    results = [host(arrays.logical("y")[part])]
    if problem.index:
        first = [s.indices(n)[0] for s, n in zip(part, problem.shape, strict=True)]
        offset = int(np.ravel_multi_index(first, problem.shape))
        found = host(arrays.logical("indices")[part])
        results.append((found.astype(np.int64) - offset).astype(found.dtype))
    return bounds.compare(results, bounds.expected(problem.case.op, *cut, **kwargs)).message


def against_reference(arrays: Arrays, host: Host) -> str:
    """What is wrong with the outputs that cudml has just written, or nothing; `host` gives NumPy's
    array of a part."""
    problem = arrays.problem
    if problem.dtype != "uint8":
        left = sampled(problem, arrays.logical("y"), lambda a: np.isnan(host(a)))
        if left.any():
            return "elements were not written"
    return next(filter(None, (_judged(arrays, part, host) for part in parts(problem))), "")


def sampled(problem: Problem, y: Any, as_array: Host) -> np.ndarray:
    """Elements at random positions, the same ones in every call; y may lie on a GPU."""
    rng = np.random.default_rng(7)
    where = tuple(rng.integers(0, n, _POSITIONS) for n in problem.output)
    return as_array(y[where]).astype(np.float64)


def is_exact(problem: Problem) -> bool:
    """Whether the rules fix every bit of the result."""
    return problem.case.op in (PAD, MAX)


def against(problem: Problem, got: np.ndarray, want: np.ndarray) -> str:
    """What is wrong with a peer's sample, or nothing."""
    allowed = 0.0 if is_exact(problem) else TOLERANCE[problem.dtype]
    wrong = ~(np.abs(got - want) <= allowed * np.maximum(1, np.abs(want)))
    if not wrong.any():
        return ""
    at = int(np.argmax(wrong))
    return f"differs from cudml in {wrong.mean():.1%} of the sample: {got[at]:.6g}, {want[at]:.6g}"
