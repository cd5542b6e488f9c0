"""Whether an output is right: in part against the reference, in samples against peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from arrays import Arrays
from cases import FROM_GRADIENT, MAX, MVN_GRAD, NORMALIZE, PAD, PAD_GRAD, UNPOOL
from contenders import cudml_calls
from problems import ITEM, Problem

from cudml import bounds

Host = Callable[[Any], np.ndarray]
_PART = 20_000  # elements of an input that the reference is given, at least
_MUCH = 500_000  # of such elements are judged once
_POSITIONS = 20_000
_NEAR_A_JUMP = 1e-3  # of normal numbers: those within a few roundings of 16 bits of it
SUMS = {"dscale": "scale", "dbias": "bias"}
_GRADIENT_OF = {"y": "x", **SUMS}
# Of max(1, |value|).
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-3, "float64": 1e-9}


def independent(problem: Problem) -> list[int]:
    """Dimensions of which a part can be computed from the same part of the input."""
    rank = len(problem.shape)
    if problem.case.op in (PAD, PAD_GRAD):
        return [a for a in range(rank) if not problem.start[a] and not problem.end[a]]
    if problem.case.op == NORMALIZE:
        return list(range(rank))
    kept = problem.axes
    return [a for a in range(rank) if a not in kept]


def parts(problem: Problem, free: list[int]) -> list[tuple[slice, ...]]:
    """The end and the beginning of the independent dimensions; only the end if that is much."""
    rank = len(problem.shape)
    begin, end = [slice(None)] * rank, [slice(None)] * rank
    rest = math.prod(problem.shape[b] for b in range(rank) if b not in free)
    for a in free:
        n = min(problem.shape[a], -(-_PART // rest)) if a == free[-1] else 1
        begin[a], end[a] = slice(0, n), slice(problem.shape[a] - n, problem.shape[a])
    return [tuple(end)] if rest > _MUCH or begin == end else [tuple(end), tuple(begin)]


def _cut(a: Any, part: tuple[slice, ...]) -> Any:
    """Dimensions of size 1, which are spread, stay."""
    return a[tuple(s if n > 1 else slice(None) for s, n in zip(part, a.shape, strict=True))]


def _rebased(found: np.ndarray, part: tuple[slice, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Flat positions in the whole as positions in the part, which begins at the first of them."""
    first = [s.indices(n)[0] for s, n in zip(part, shape, strict=True)]
    offset = int(np.ravel_multi_index(first, shape))
    return (found.astype(np.int64) - offset).astype(found.dtype)


def _judged(arrays: Arrays, part: tuple[slice, ...], host: Host, wanted: tuple[str, ...]) -> str:
    """Of the outputs `wanted`; of the others nothing is said."""
    problem = arrays.problem
    op, shape = problem.case.op, problem.shape

    def cut(a: Any) -> Any:
        return host(_cut(a, part)) if hasattr(a, "shape") else a

    inputs, kwargs = cudml_calls.arguments(arrays)
    inputs, kwargs = [cut(a) for a in inputs], {name: cut(a) for name, a in kwargs.items()}
    if op in (*FROM_GRADIENT, UNPOOL):
        inputs[-1] = tuple(len(range(*s.indices(n))) for s, n in zip(part, shape, strict=True))
    if op == UNPOOL:
        inputs[1] = _rebased(inputs[1], part, shape)
    if op == MVN_GRAD:
        kwargs["outputs"] = [_GRADIENT_OF[name] for name in wanted]
    given = cudml_calls.outputs(arrays)
    results = [
        None if a is None else cut(a) for a in (given if isinstance(given, tuple) else [given])
    ]
    if problem.index:
        results[1] = _rebased(results[1], part, shape)
    if op == MVN_GRAD:
        results = [a if n in wanted else None for n, a in zip(_GRADIENT_OF, results, strict=True)]
    return bounds.compare(results, bounds.expected(op, *inputs, **kwargs)).message


def _judged_call(arrays: Arrays, host: Host) -> Iterator[str]:
    """What is wrong with one call's outputs, part by part.

    Gradients of scale and bias sum over what a part for the gradient of x leaves out: with the
    statistics that are given every one of their elements depends on nothing but its own terms.
    """
    problem = arrays.problem
    sums = tuple(name for name in problem.outputs if name in SUMS)
    rest = tuple(name for name in problem.outputs if name not in sums)
    for part in parts(problem, independent(problem)):
        yield _judged(arrays, part, host, rest)
    if sums:
        free = [a for a, n in enumerate(problem.vector) if n > 1]
        for part in parts(problem, free):
            yield _judged(arrays, part, host, sums)


def against_reference(arrays: Arrays, host: Host) -> str:
    """What is wrong with the outputs that cudml has just written, or nothing; `host` gives NumPy's
    array of a part."""
    problem = arrays.problem
    if problem.dtype != "uint8":
        left = sampled(problem, arrays.results(), lambda a: np.isnan(host(a)))
        if left.any():
            return "elements were not written"
    return next(
        filter(None, (w for call in arrays.of_each_call() for w in _judged_call(call, host))), ""
    )


def sampled(problem: Problem, results: list[Any], as_array: Host) -> np.ndarray:
    """Elements of the outputs at random positions, the same ones in every call; they may lie on a
    GPU. Sums are divided by the root of the number of their terms, which makes their size that of
    the terms; in 16 bits, in which a peer may add them up, by as much more as that may lose."""
    rng, found = np.random.default_rng(7), []
    for name, y in zip(problem.compared, results, strict=True):
        count = min(_POSITIONS, math.prod(y.shape)) if found else _POSITIONS
        where = tuple(rng.integers(0, n, count) for n in y.shape)
        root = math.sqrt(math.prod(problem.shape) / math.prod(y.shape)) if name in SUMS else 1.0
        lost = max(1.0, root / 4) if ITEM[problem.dtype] == 2 else 1.0
        found.append(as_array(y[where]).astype(np.float64) / (root * lost))
    return np.concatenate(found)


def is_exact(problem: Problem) -> bool:
    """Whether the rules fix every bit of the result."""
    return problem.case.op in (PAD, MAX)


def may_differ(problem: Problem) -> float:
    """Part of a peer's sample: where a slope jumps, a peer that rounds before it may be on the
    other side."""
    activation = problem.case.args.get("activation") or [""]
    return _NEAR_A_JUMP if problem.case.op == MVN_GRAD and activation[0] == "leaky_relu" else 0.0


def against(problem: Problem, got: np.ndarray, want: np.ndarray) -> str:
    """What is wrong with a peer's sample, or nothing."""
    allowed = 0.0 if is_exact(problem) else TOLERANCE[problem.dtype]
    wrong = ~(np.abs(got - want) <= allowed * np.maximum(1, np.abs(want)))
    if wrong.mean() <= may_differ(problem):
        return ""
    at = int(np.argmax(wrong))
    return f"differs from cudml in {wrong.mean():.1%} of the sample: {got[at]:.6g}, {want[at]:.6g}"
