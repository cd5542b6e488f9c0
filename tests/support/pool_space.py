"""Draws from the whole parameter space of the pooling operators, and counts what was drawn."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pool_support import ceil_limit, floor_size

# What an example goes for; every other choice stays open.
AIMS = (
    "anything", "dilation", "stride", "padding", "ceiling", "overhang", "empty window", "rank 8",
    "fewer windows", "everything",
)  # fmt: skip
FEATURES = (
    "dilation > 1",
    "stride > window",
    "padding >= window",
    "output size OutCeil above the floor rule",
    "output size below the floor rule",
    "ceil",
    "overhang",
    "empty window",
    "rank 8 with axes",
    "1 pooled axes",
    "2 pooled axes",
    "3 pooled axes",
)
LONGEST = {1: 24, 2: 8, 3: 5}  # elements along a pooled dimension, by the number of them


@dataclass(frozen=True)
class Span:
    """One pooled dimension and its window."""

    n: int
    w: int
    s: int
    p0: int
    p1: int
    d: int
    out: int

    @property
    def geometry(self) -> tuple[int, int, int, int, int, int]:
        return self.n, self.w, self.s, self.p0, self.p1, self.d

    def has_overhang(self) -> bool:
        last = (self.out - 1) * self.s + (self.w - 1) * self.d
        return last >= self.n + self.p0 + self.p1

    def has_empty_window(self) -> bool:
        return any(
            all(not 0 <= o * self.s - self.p0 + k * self.d < self.n for k in range(self.w))
            for o in range(self.out)
        )


@dataclass(frozen=True)
class Problem:
    """A shape, the pooled axes (None for those after the second), and the arguments of a call."""

    shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    arguments: dict[str, Any]
    output_sizes: Any
    features: frozenset[str] = field(repr=False)

    @property
    def forward(self) -> dict[str, Any]:
        return {**self.arguments, "output_sizes": self.output_sizes}


@st.composite
def spans(draw: st.DrawFn, aim: str, count: int) -> Span:
    n = draw(st.integers(1, LONGEST[count]))
    w = draw(st.integers(1, 5 - count + (count == 1) * 3))
    steps = (2, 3, 4) if aim in ("dilation", "everything") else (1, 1, 2, 3)
    d = draw(st.sampled_from(steps))
    s = draw(st.integers(1, 4)) + (w if aim in ("stride", "everything") else 0)
    wide = aim in ("padding", "everything")
    least, most = (w, w + 2) if wide else (0, w if aim == "anything" else w - 1)
    p0, p1 = draw(st.integers(least, most)), draw(st.integers(0, most))
    if aim == "empty window":
        p0 = max(p0, (w - 1) * d + 1 + draw(st.integers(0, 1)))
    if draw(st.booleans()):
        p0, p1 = p1, p0
    p1 += max(0, (w - 1) * d + 1 - (n + p0 + p1))
    floor, top = floor_size(n, w, s, p0, p1, d), ceil_limit(n, w, s, p0, p1, d)
    out = floor
    if aim in ("ceiling", "overhang", "everything"):
        out = top
    elif aim == "fewer windows":
        out = max(1, floor - draw(st.integers(1, 3)))
    elif aim == "anything":
        out = draw(st.integers(1, top))
    return Span(n, w, s, p0, p1, d, out)


@st.composite
def problems(draw: st.DrawFn, aim: str, backward: bool) -> Problem:
    """A legal call; `backward` for the gradients, whose output size is that of the gradient."""
    count = draw(st.integers(1, 3))
    found = [draw(spans(aim, count)) for _ in range(count)]
    axes, kept = _axes(draw, aim, count)
    rank = count + len(kept)
    shape, output_shape = [0] * rank, [0] * rank
    pooled = [a for a in range(rank) if a not in kept]
    for a, span in zip(pooled, found, strict=True):
        shape[a], output_shape[a] = span.n, span.out
    limit = max(1, 900 // max(math.prod(s.out for s in found), math.prod(s.n for s in found)))
    for a in kept:
        shape[a] = output_shape[a] = draw(st.integers(1, min(3, limit)))
        limit = max(1, limit // shape[a])
    output_sizes: Any = None
    if any(s.out != floor_size(*s.geometry) for s in found) or aim == "rank 8":
        output_sizes = tuple(s.out for s in found)
    ceil = [min(ceil_limit(*s.geometry), -(-(s.n + s.p0) // s.s)) for s in found]
    if not backward and aim in ("ceiling", "rank 8") and draw(st.booleans()):
        found = [Span(*s.geometry, out) for s, out in zip(found, ceil, strict=True)]
        output_sizes = "ceil"
        for a, out in zip(pooled, ceil, strict=True):
            output_shape[a] = out
    arguments = _arguments(draw, found)
    arguments["axes"] = axes
    return Problem(
        tuple(shape),
        tuple(output_shape),
        arguments,
        output_sizes,
        _features(found, axes, rank, output_sizes),
    )


def _axes(draw: st.DrawFn, aim: str, count: int) -> tuple[Any, list[int]]:
    """The `axes` argument in one of its spellings, and the dimensions that are kept."""
    if aim != "rank 8" and draw(st.booleans()):
        return None, [0, 1]
    rank = 8 if aim == "rank 8" else draw(st.integers(count, min(8, count + 3)))
    pooled = sorted(draw(st.permutations(range(rank)))[:count])
    written = [a - rank * draw(st.integers(0, 1)) for a in pooled]
    axes: Any = written[0] if count == 1 and draw(st.booleans()) else tuple(written)
    return axes, [a for a in range(rank) if a not in pooled]


def _arguments(draw: st.DrawFn, found: list[Span]) -> dict[str, Any]:
    """Geometry arguments, written as one number where they are equal and the draw says so."""
    columns = {
        "window_size": [s.w for s in found],
        "strides": [s.s for s in found],
        "start_padding": [s.p0 for s in found],
        "end_padding": [s.p1 for s in found],
        "dilations": [s.d for s in found],
    }
    short = draw(st.booleans())
    return {
        key: values[0] if short and len(set(values)) == 1 else tuple(values)
        for key, values in columns.items()
    }


def _features(found: list[Span], axes: Any, rank: int, output_sizes: Any) -> frozenset[str]:
    true = {
        "dilation > 1": any(s.d > 1 and s.w > 1 for s in found),
        "stride > window": any(s.s > s.w and s.out > 1 for s in found),
        "padding >= window": any(max(s.p0, s.p1) >= s.w for s in found),
        "output size OutCeil above the floor rule": any(
            s.out == ceil_limit(*s.geometry) > floor_size(*s.geometry) for s in found
        ),
        "output size below the floor rule": any(s.out < floor_size(*s.geometry) for s in found),
        "ceil": output_sizes == "ceil",
        "overhang": any(s.has_overhang() for s in found),
        "empty window": any(s.has_empty_window() for s in found),
        "rank 8 with axes": rank == 8 and axes is not None,
        f"{len(found)} pooled axes": True,
    }
    return frozenset(name for name, holds in true.items() if holds)


def missing(seen: Counter[str], times: int, but: tuple[str, ...] = ()) -> dict[str, int]:
    """The features that occurred fewer than `times` times."""
    return {f: seen[f] for f in FEATURES if f not in but and seen[f] < times}
