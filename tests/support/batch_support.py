"""Random calls and slices of their batches: whatever a group's bits may depend on stays equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import backends
import cudml
from layouts import BFLOAT16, dtype_of

DTYPES = ["float32", "float16", "float64"] + (["bfloat16"] if BFLOAT16 is not None else [])
ACTIVATIONS = [None, None, None, "relu", "swish", "gelu", "sigmoid"]
MOST_ELEMENTS = 40_000  # of a tensor, so that thousands of draws take seconds


@dataclass
class Draw:
    """A call of `op`: arrays of one rank, and the dimensions that tell its groups apart."""

    op: str
    arrays: dict[str, np.ndarray]
    out: np.ndarray
    kept: tuple[int, ...]
    keywords: dict[str, Any]
    place: tuple[int, int] | None = None  # of `out` among so many results, where there are several

    def _call(self, arrays: dict[str, np.ndarray], out: np.ndarray) -> dict[str, Any]:
        sized = ("average_pooling_grad", "padding_grad")
        given: dict[str, Any] = {"input_sizes": out.shape} if self.op in sized else {}
        given["out"] = out
        if self.place is not None:
            number, results = self.place
            given["out"] = tuple(out if i == number else None for i in range(results))
        if "sum_w" in arrays:
            arrays = dict(arrays)
            given["sums"] = (arrays.pop("sum_w"), arrays.pop("sum_wz"))
        return {**arrays, **self.keywords, **given}

    def run(self, arrays: dict[str, np.ndarray], out: np.ndarray) -> np.ndarray:
        """The bits of the result, which is written to `out`."""
        getattr(cudml, self.op)(**self._call(arrays, out))
        return bits(out)

    def path(self, arrays: dict[str, np.ndarray], out: np.ndarray) -> str:
        """The path or kernel that takes the call."""
        return str(cudml.explain(self.op, **self._call(arrays, out)).kernel)

    def places(self) -> dict[str, Any]:
        """What a message needs of the arrays."""
        arrays = {**self.arrays, "out": self.out}
        return {k: (a.dtype.name, a.shape, a.strides) for k, a in arrays.items()}

    def part(self, at: tuple[slice, ...], is_copied: bool) -> tuple[dict[str, np.ndarray], Any]:
        """Arrays and output of some of the groups, as views of the whole or in other places."""
        arrays = {
            k: a[tuple(s if n > 1 else slice(None) for s, n in zip(at, a.shape, strict=True))]
            for k, a in self.arrays.items()
        }
        out = self.out[at]
        if not is_copied:
            return arrays, out
        grouped = ("x", "y", "grad")
        moved = {k: regrouped(a, self.kept) if k in grouped else a for k, a in arrays.items()}
        return moved, regrouped(out, self.kept)


def bits(y: np.ndarray) -> np.ndarray:
    """Its bytes as integers, one for every NaN."""
    y = np.ascontiguousarray(y)
    integers = y.view(f"u{y.itemsize}").copy()
    integers[np.isnan(y.astype(np.float64))] = 1
    return integers


def placed(
    shape: tuple[int, ...], dtype: np.dtype, order: list[int], gaps: list[int], lead: int
) -> np.ndarray:
    """An array whose dimensions follow each other in memory as `order`, outermost first, with so
    many elements of nobody's after each."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step * dtype.itemsize
        step = step * shape[d] + gaps[d]
    room = np.zeros(step + lead + 64 // dtype.itemsize, dtype)
    first = (-room.ctypes.data % 64) // dtype.itemsize + lead
    return np.lib.stride_tricks.as_strided(room[first:], shape, strides)


MOST_MOVED = 1 << 18  # elements


def regrouped(a: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
    """A copy with the strides inside groups as they were, one group after the other in memory."""
    steps = [s // a.itemsize for s in a.strides]
    span = 1 + sum((a.shape[d] - 1) * steps[d] for d in range(a.ndim) if d not in kept)
    if span * math.prod(a.shape[d] for d in kept) > MOST_MOVED:
        return a
    strides = list(a.strides)
    for d in reversed(kept):
        strides[d] = span * a.itemsize
        span *= a.shape[d]
    copy = np.lib.stride_tricks.as_strided(np.zeros(span, a.dtype), a.shape, strides)
    copy[...] = a
    return copy


def _layout(rng: np.random.Generator, rank: int) -> tuple[list[int], list[int]]:
    """An order of dimensions in memory and gaps: row-major, channels last, or anything."""
    order = list(range(rank))
    pick = rng.integers(0, 6)
    if pick in (1, 2) and rank > 2:
        order = [0, *range(2, rank), 1]
    elif pick == 3:
        order = [int(d) for d in rng.permutation(rank)]
    gaps = [0] * rank
    if rng.random() < 0.25:
        gaps = [int(rng.choice([0, 0, 1, 3, 16])) for _ in range(rank)]
    return order, gaps


def values_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Ordinary values; some far from 0 for their deviation, a few NaN or infinite."""
    x = rng.standard_normal(shape)
    if rng.random() < 0.6:
        where = [n if rng.random() < 0.5 else 1 for n in shape]
        x = x + rng.choice([0, 0, 3, -50, 300], where)
    if rng.random() < 0.1 and x.size:
        x.flat[rng.integers(0, x.size, 2)] = rng.choice([np.nan, np.inf, -np.inf], 2)
    return np.asarray(x).astype(dtype)


def _size(rng: np.random.Generator, most: int) -> int:
    """From 1 on, small sizes as likely as large ones, with what stands around powers of two."""
    power = int(2 ** rng.uniform(0, np.log2(most + 1)))
    around = int(
        rng.choice([1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 256])
    )
    return max(1, min(most, power if rng.random() < 0.6 else around))


def _batch(rng: np.random.Generator, rest: int) -> int:
    return _size(rng, max(1, min(1024, MOST_ELEMENTS // max(1, rest))))


def array_of(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, layout: Any
) -> np.ndarray:
    x = placed(shape, dtype, *layout, int(rng.integers(0, 4)))
    x[...] = values_of(rng, shape, dtype)
    return x


def _parameter(
    rng: np.random.Generator, shape: tuple[int, ...], reduced: list[int], dtype: np.dtype
) -> np.ndarray:
    """A scale or bias: of channels, of a group's elements, or of any dimensions."""
    kind = rng.integers(0, 3)
    sizes = tuple(
        n if (d == 1, d in reduced, rng.random() < 0.5)[kind] else 1 for d, n in enumerate(shape)
    )
    is_wide = dtype.itemsize == 2 and rng.random() < 0.4
    return values_of(rng, sizes, np.dtype(np.float32) if is_wide else dtype)


@dataclass
class Groups:
    """What calls of normalization and of its gradients have in common."""

    sizes: tuple[int, ...]
    reduced: list[int]
    dtype: np.dtype
    layout: Any
    arrays: dict[str, np.ndarray]

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.sizes)) if d not in self.reduced)

    @property
    def summed(self) -> tuple[int, ...]:
        """The sizes of what a group has one of."""
        return tuple(1 if d in self.reduced else n for d, n in enumerate(self.sizes))

    def other_layout(self, rng: np.random.Generator) -> Any:
        return self.layout if rng.random() < 0.75 else _layout(rng, len(self.sizes))


def groups_of(rng: np.random.Generator, most: int) -> Groups:
    """With x, and perhaps scale and bias."""
    rank = int(rng.integers(2, 5))
    reduced = [int(d) for d in rng.permutation(rank)[: rng.integers(1, rank)]]
    shape, room = [1] * rank, most
    for d in rng.permutation(rank):
        shape[d] = _size(rng, max(1, min(most // 4 if d in reduced else 1024, room)))
        room //= shape[d]
    dtype = dtype_of(str(rng.choice(DTYPES)))
    sizes, layout = tuple(shape), _layout(rng, rank)
    arrays = {"x": array_of(rng, sizes, dtype, layout)}
    for name in ("scale", "bias"):
        if rng.random() < 0.6:
            arrays[name] = _parameter(rng, sizes, reduced, dtype)
    return Groups(sizes, reduced, dtype, layout, arrays)


def normalization(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    groups = groups_of(rng, most)
    out = placed(groups.sizes, groups.dtype, *groups.other_layout(rng), 0)
    keywords = {
        "axes": tuple(groups.reduced),
        "use_mean": bool(rng.random() < 0.85),
        "use_variance": bool(rng.random() < 0.9),
        "activation": ACTIVATIONS[rng.integers(0, len(ACTIVATIONS))],
    }
    return Draw("mean_variance_normalization", groups.arrays, out, groups.kept, keywords)


def pooling(op: str) -> Callable[..., Draw]:
    """Draws of a pooling or of a pooling's gradient."""

    def draw(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
        space = int(rng.integers(1, 4))
        window, steps, dilations, sizes, starts, results = [], [], [], [], [], []
        room = most // 4
        for _ in range(space):
            n = _size(rng, max(1, min(100, int(room ** (1 / space)) * 2)))
            w = int(rng.integers(1, min(n, 9) + 1)) if rng.random() < 0.85 else n
            d = int(rng.integers(1, 3)) if (w - 1) * 2 < n else 1
            s = int(rng.choice([1, 1, 2, 2, 3, w]))
            p = [int(rng.integers(0, w)) if rng.random() < 0.4 else 0 for _ in range(2)]
            for values, v in zip((window, steps, dilations, sizes, starts),
                                 (w, s, d, n, p), strict=True):  # fmt: skip
                values.append(v)
            results.append((n + sum(p) - (w - 1) * d - 1) // s + 1)
        batch = [_size(rng, 1024), _size(rng, 1024)]
        while math.prod(batch) * math.prod(sizes) > most and max(batch) > 1:
            batch[int(batch[1] > batch[0])] //= 2
        dtype = dtype_of(str(rng.choice(DTYPES)))
        whole, pooled = (*batch, *sizes), (*batch, *results)
        layout = _layout(rng, len(whole))
        other = layout if rng.random() < 0.75 else _layout(rng, len(whole))
        keywords: dict[str, Any] = {
            "window_size": window, "strides": steps, "dilations": dilations,
            "start_padding": [p[0] for p in starts], "end_padding": [p[1] for p in starts],
        }  # fmt: skip
        if op.startswith("average"):
            keywords["include_padding"] = bool(rng.random() < 0.3)
        if op.startswith("lp_pooling"):
            keywords["p"] = int(rng.choice([1, 2, 2, 3]))
        if op == "average_pooling_grad":
            arrays, out = {"grad": array_of(rng, pooled, dtype, layout)}, whole
        else:
            arrays, out = {"x": array_of(rng, whole, dtype, layout)}, pooled
        if op == "lp_pooling_grad":
            norms = _layout(rng, len(whole)) if rng.random() < 0.3 else other
            is_wide = dtype.itemsize == 2 and rng.random() < 0.4
            y = array_of(rng, pooled, np.dtype(np.float32) if is_wide else dtype, norms)
            np.abs(y, out=y)
            arrays["y"] = y
        if op in ("max_pooling_grad", "lp_pooling_grad"):
            arrays["grad"], out = array_of(rng, pooled, dtype, other), whole
        return Draw(op, arrays, placed(out, dtype, *other, 0), (0, 1), keywords)

    return draw


def padding_gradient(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    """Some dimensions have pads, mostly small ones; few have very many places for an element."""
    rank = int(rng.integers(2, 5))
    padded = [int(d) for d in rng.permutation(rank)[: rng.integers(1, rank)]]
    shape, start, end, room = [1] * rank, [0] * rank, [0] * rank, most
    for d in rng.permutation(rank):
        shape[d] = _size(rng, max(1, min(1024, room if d in padded else room // 4)))
        if d in padded:
            longest = max(1, room // 2) if rng.random() < 0.2 else min(8, room // 2 + 1)
            start[d], end[d] = (int(rng.integers(0, longest)) for _ in range(2))
        room = max(1, room // (start[d] + shape[d] + end[d]))
    dtype = dtype_of(str(rng.choice(DTYPES)))
    sizes, layout = tuple(map(sum, zip(shape, start, end, strict=True))), _layout(rng, rank)
    grad = array_of(rng, sizes, dtype, layout)
    out = placed(tuple(shape), dtype, *(layout if rng.random() < 0.75 else _layout(rng, rank)), 0)
    modes = ("constant", "edge", "reflection", "symmetric", "wrap")
    keywords = {"start_padding": start, "end_padding": end, "mode": modes[rng.integers(0, 5)]}
    kept = tuple(d for d in range(rank) if d not in padded)
    return Draw("padding_grad", {"grad": grad}, out, kept, keywords)


DRAWS: dict[str, Callable[..., Draw]] = {
    "mean_variance_normalization": normalization,
    "padding_grad": padding_gradient,
    **{
        op: pooling(op)
        for op in (
            "max_pooling",
            "average_pooling",
            "lp_pooling",
            "max_pooling_grad",
            "average_pooling_grad",
            "lp_pooling_grad",
        )
    },
}


def slices_of(rng: np.random.Generator, draw: Draw) -> tuple[slice, ...]:
    """Some of the groups: a stretch of each kept dimension, one position or every other."""
    at = [slice(None)] * draw.out.ndim
    for d in draw.kept:
        n = draw.out.shape[d]
        first = int(rng.integers(0, n))
        count = 1 if rng.random() < 0.4 else int(rng.integers(1, n - first + 1))
        at[d] = slice(first, first + count, 1 if rng.random() < 0.8 else 2)
        if rng.random() < 0.25:
            at[d] = slice(0, n)
    return tuple(at)


def differing(rng: np.random.Generator, draw: Draw, slices: int = 3) -> list[str]:
    """What slices of the batch, as views and elsewhere, have bits other than in the whole, which
    two threads compute."""
    cudml.set_num_threads(2)
    left = backends.left.total()
    want = draw.run(draw.arrays, draw.out)
    if backends.left.total() > left:
        return []  # too large for the kernels' interpreter
    found = []
    for i in range(slices):
        at = slices_of(rng, draw)
        arrays, out = draw.part(at, is_copied=i % 2 == 1)
        cudml.set_num_threads(1 + i % 2)
        got, expected = draw.run(arrays, out), want[at]
        if not np.array_equal(got, expected):
            paths = draw.path(draw.arrays, draw.out), draw.path(arrays, out)
            where = ", ".join(f"{s.start}:{s.stop}:{s.step}" for s in at)
            found.append(f"{np.sum(got != expected)} of {got.size} at [{where}]: {paths}")
    return found
