"""Makes a problem that fails as small as it still fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from pages import Layout, dense
from problem import Problem


def shrunk(problem: Problem, fails: Callable[[Problem], bool], tries: int = 300) -> Problem:
    """The smallest problem that steps lead to, each of which leaves one that fails."""
    found = True
    while found and tries > 0:
        found = False
        for candidate in _smaller(problem):
            tries -= 1
            if tries < 0:
                break
            if fails(candidate):
                problem, found = candidate, True
                break
    return problem


def _smaller(p: Problem) -> Iterator[Problem]:
    change = dataclasses.replace
    if p.extras:
        yield change(p, extras={})
        if len(p.extras) > 1:
            for k, v in p.extras.items():
                yield change(p, extras={k: v})
    for k, v in p.arrays.items():
        plain = Layout(v.shape, dense(v.shape), "end")
        if v != plain:
            yield change(p, arrays={**p.arrays, k: plain})
    packed = tuple(Layout(o.shape, dense(o.shape), "end") for o in p.outs)
    if packed != p.outs:
        yield change(p, outs=packed)
    if p.kind != "exact":
        yield change(p, kind="exact")
    if p.first:
        yield change(p, first=0)
    if p.dtype != "float32":
        yield change(p, types=dict.fromkeys(p.types, "float32"))
    yield from _sizes(p)


def _sizes(p: Problem) -> Iterator[Problem]:
    """One kept dimension smaller. Pooled ones, whose sizes hang together, stay as they are."""
    rank = len(p.outs[0].shape)
    for a in range(rank):
        n = p.outs[0].shape[a]
        same = all(a < len(v.shape) and v.shape[a] in (1, n) for v in p.arrays.values())
        is_free = p.op == "mean_variance_normalization" or not _is_pooled(p, a)
        if n > 1 and same and is_free:
            for m in {1, n // 2, n - 1} - {0, n}:
                yield _resized(p, a, m)


def _is_pooled(p: Problem, a: int) -> bool:
    rank = len(p.outs[0].shape)
    if p.op == "padding":
        return bool(p.how["start_padding"][a] or p.how["end_padding"][a])
    axes: Any = p.how.get("axes", tuple(range(2, rank)))
    return a in [i % rank for i in ((axes,) if isinstance(axes, int) else axes)]


def _resized(p: Problem, a: int, n: int) -> Problem:
    def of(layout: Layout) -> Layout:
        if layout.shape[a] == 1:
            return layout
        shape = (*layout.shape[:a], n, *layout.shape[a + 1 :])
        return dataclasses.replace(layout, shape=shape)

    how = dict(p.how)
    if "input_sizes" in how:
        how["input_sizes"] = (*how["input_sizes"][:a], n, *how["input_sizes"][a + 1 :])
    arrays = {k: of(v) for k, v in p.arrays.items()}
    return dataclasses.replace(p, arrays=arrays, outs=tuple(of(o) for o in p.outs), how=how)
