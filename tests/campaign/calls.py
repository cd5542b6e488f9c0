"""A problem as a call of the operator's function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from problem import Problem

import cudml

IN_PARTS = ("a", "b", "sums")  # arguments of several arrays, which a problem has one by one


def function(p: Problem) -> Callable[..., Any]:
    """The operator with everything but its arrays."""
    operator = functools.partial(getattr(cudml, p.op), **p.how)
    if not is_in_parts(p):
        return operator

    def call(out: Any = None, **arrays: Any) -> Any:
        given = {} if out is None else {"out": slots(p, out)}
        return operator(**joined(p, arrays), **given)

    return call


def is_in_parts(p: Problem) -> bool:
    """Whether an argument, or `out`, is a tuple of what the problem has one by one, or None."""
    return (
        p.op.startswith("normalize")
        or "outputs" in p.how
        or any(k.rstrip("012") in IN_PARTS for k in p.arrays)
    )


def joined(p: Problem, arrays: dict[str, Any]) -> dict[str, Any]:
    """The operator's arguments: "a0", "a1", "a2" are the tuple a. Statistics have no default."""
    found: dict[str, Any] = {}
    if p.op.startswith("normalize"):
        found = {"mean": None, "variance": None}
    for k, v in arrays.items():
        name = k.rstrip("012")
        found[name] = (*found.get(name, ()), v) if name in IN_PARTS else v
    return found


def slots(p: Problem, out: Any) -> Any:
    """`out` of an operator whose problem names its outputs: None where there is none."""
    if "outputs" not in p.how:
        return out
    rest = iter(out if isinstance(out, tuple) else (out,))
    names = ("x", "scale", "bias")
    return tuple(next(rest) if k in p.how["outputs"] and k in p.arrays else None for k in names)


def listed(y: Any) -> list[np.ndarray]:
    return [v for v in y if v is not None] if isinstance(y, tuple) else [y]
