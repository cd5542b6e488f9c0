"""Draws problems: a family, a seed and a number give one, the same on every machine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import draw_training
from pages import input_layout, output_layout
from problem import EXTRAS, Problem
from scale import scale
from values import FLOATS, INTEGERS, KINDS, dtype_of

FAMILIES = (
    *("pooling", "gradients", "padding", "normalization"),
    *("lp_gradients", "padding_gradients", "normalization_gradients", "two_phase", "unpooling"),
)


@dataclass(frozen=True)
class Axis:
    """One pooled dimension: elements, window, stride, pads, dilation, outputs."""

    n: int
    w: int
    s: int
    p0: int
    p1: int
    d: int
    out: int

    @property
    def room(self) -> int:
        """Padded - K: how far the window can move; negative where it does not fit."""
        return self.n + self.p0 + self.p1 - 1 - (self.w - 1) * self.d


def floor_out(a: Axis) -> int:
    return a.room // a.s + 1


def top_out(a: Axis) -> int:
    return -(-a.room // a.s) + 1


def axis(r: random.Random, longest: int) -> Axis:
    """A pooled dimension, often degenerate: of one element, covered whole, pads beyond."""
    n = min(r.choice(scale().sizes), longest)
    w = r.choice((1, 1, 2, 2, 3, 3, 4, 5, 7, n, n, n + 1, r.randint(1, n)))
    d = r.choice((1, 1, 1, 1, 1, 2, 3, n))
    s = r.choice((1, 1, 1, 2, 2, 3, w, w, w + 1, n, n + 2))
    k = 1 + (w - 1) * d
    pads = (0, 0, 0, 0, 1, 1, w - 1, w, w + 1, k, n, r.randint(0, 3))
    p0, p1 = r.choice(pads), r.choice(pads)
    p1 += max(0, k - (n + p0 + p1))
    drawn = Axis(n, w, s, p0, p1, d, 0)
    low, high = floor_out(drawn), top_out(drawn)
    out = r.choice((low, low, low, low, high, high, r.randint(1, high)))
    return Axis(n, w, s, p0, p1, d, out)


def case(family: str, seed: int, number: int) -> Problem:
    """The `number`-th problem of a seed."""
    r = random.Random(f"{family}:{seed}:{number}")
    make = {
        "padding": padding,
        "normalization": normalization,
        "padding_gradients": draw_training.padding_gradient,
        "normalization_gradients": draw_training.normalization_gradient,
        "two_phase": draw_training.two_phase,
        "unpooling": draw_training.unpooling,
    }.get(family)
    last = {"pooling": _forward, "gradients": _gradient, "lp_gradients": draw_training.lp_gradient}
    while True:
        found = make(r) if make else pooling(r, last[family])
        if found and _fits(found):
            return found


def _fits(p: Problem) -> bool:
    for k, layout in [*p.arrays.items(), *(("out", o) for o in p.outs)]:
        low, high = layout.extent()
        if (high - low + 1) * dtype_of(p.types.get(k, "int64")).itemsize > scale().room:
            return False
    return True


def common(r: random.Random) -> dict[str, Any]:
    extras = {}
    for name in EXTRAS:
        often = {
            "copy": 0.35,
            "pair": 0.5,
            "state": 0.15,
            "refusal": 0.15,
            "path": 0.5,
        }.get(name, 0.03)
        if r.random() < often:
            extras[name] = r.randrange(1 << 30)
    return {
        "kind": r.choice(KINDS),
        "first": r.randrange(1 << 20),
        "poison": r.choice((0xFF, 0xFF, 0x00, 0x7B)),
        "extras": extras,
    }


def _geometry(r: random.Random, axes: list[Axis]) -> dict[str, Any]:
    columns = {
        "window_size": tuple(a.w for a in axes),
        "strides": tuple(a.s for a in axes),
        "start_padding": tuple(a.p0 for a in axes),
        "end_padding": tuple(a.p1 for a in axes),
        "dilations": tuple(a.d for a in axes),
    }
    usual = {"strides": 1, "start_padding": 0, "end_padding": 0, "dilations": 1}
    found: dict[str, Any] = {}
    for k, v in columns.items():
        if len(set(v)) == 1 and r.random() < 0.5:
            if usual.get(k) == v[0] and r.random() < 0.5:
                continue
            found[k] = v[0]
        else:
            found[k] = v
    return found


def _shape(
    r: random.Random, count: int, axes: list[Axis], limit: int
) -> tuple[Any, list[int], tuple[int, ...], tuple[int, ...]]:
    """The argument `axes`, the pooled dimensions, and the shapes of input and output."""
    if r.random() < 0.6:
        given, rank, pooled = None, count + 2, list(range(2, count + 2))
    else:
        rank = r.choice((count, count + 1, count + 1, count + 2, min(8, count + 3), 8))
        pooled = sorted(r.sample(range(rank), count))
        given = tuple(a - rank * r.randint(0, 1) for a in pooled)
        if count == 1 and r.random() < 0.5:
            given = given[0]
    ins, outs, room = [0] * rank, [0] * rank, limit
    for a, one in zip(pooled, axes, strict=True):
        ins[a], outs[a] = one.n, one.out
    for a in range(rank):
        if a not in pooled:
            size = min(r.choice(scale().batches), max(1, room))
            ins[a] = outs[a] = 0 if r.random() < 0.004 else size
            room //= max(size, 1)
    return given, pooled, tuple(ins), tuple(outs)


def pooling(r: random.Random, last: Callable[..., Problem | None]) -> Problem | None:
    count = r.choice((1, 1, 2, 2, 2, 2, 3, 3))
    longest = scale().longest[count if r.random() < 0.8 else 1]
    axes = [axis(r, longest) for _ in range(count)]
    work = math.prod(a.out * min(a.w, 2 * a.n + 2) for a in axes)
    work = max(work, math.prod(a.n for a in axes))
    limit = r.choice(scale().work)
    if work > limit or math.prod(a.w for a in axes) > 4096:
        return None
    given, _, ins, outs = _shape(r, count, axes, limit // work)
    how = _geometry(r, axes)
    if given is not None:
        how["axes"] = given
    if any(a.out != floor_out(a) for a in axes) and last is _forward:
        how["output_sizes"] = tuple(a.out for a in axes)
    return last(r, how, ins, outs)


def _forward(r: random.Random, how: dict[str, Any], ins: Any, outs: Any) -> Problem:
    op = r.choice(("max_pooling", "max_pooling", "average_pooling", "lp_pooling"))
    dtype = r.choice([*FLOATS, *FLOATS, *INTEGERS] if op == "max_pooling" else FLOATS)
    count = 1
    if op == "max_pooling" and r.random() < 0.5:
        how["return_indices"] = True
        if r.random() < 0.5:
            how["index_dtype"] = r.choice(("uint32", "uint64", "int64"))
        count = 2
    elif op == "average_pooling":
        how["include_padding"] = r.random() < 0.5
    elif op == "lp_pooling":
        how["p"] = r.choice((1, 2, 2, 3, 4, 7, 50, 1000))
    size = dtype_of(dtype).itemsize
    layouts = tuple(output_layout(r, outs, size if i == 0 else 8) for i in range(count))
    return Problem(op, {"x": input_layout(r, ins, size)}, {"x": dtype}, how, layouts, **common(r))


def _gradient(r: random.Random, how: dict[str, Any], ins: Any, outs: Any) -> Problem:
    dtype = r.choice(FLOATS)
    size = dtype_of(dtype).itemsize
    arrays = {"grad": input_layout(r, outs, size)}
    op = r.choice(("max_pooling_grad", "average_pooling_grad"))
    if op == "max_pooling_grad":
        arrays = {"x": input_layout(r, ins, size), **arrays}
    else:
        how = {"input_sizes": ins, **how, "include_padding": r.random() < 0.5}
    types = dict.fromkeys(arrays, dtype)
    return Problem(op, arrays, types, how, (output_layout(r, ins, size),), **common(r))


MODES = ("constant", "edge", "reflection", "symmetric", "wrap")


def padding(r: random.Random) -> Problem | None:
    rank = r.choice((1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8))
    dtype = r.choice([*FLOATS, *INTEGERS])
    limit, shape, start, end = r.choice(scale().padded), [], [], []
    for _ in range(rank):
        n = r.choice(scale().sizes)
        pads = (0, 0, 0, 0, 1, 2, 3, n - 1, n, n + 1, 2 * n + 1, r.randint(0, 9))
        shape.append(n)
        start.append(r.choice(pads))
        end.append(r.choice(pads))
    if r.random() < 0.006:
        i = r.randrange(rank)
        shape[i], start[i], end[i] = 0, 0, 0
    outs = tuple(map(sum, zip(shape, start, end, strict=True)))
    if math.prod(max(n, 1) for n in outs) > limit:
        return None
    mode: Any = r.choice(MODES)
    if r.random() < 0.3:
        mode = tuple(r.choice(MODES) for _ in range(rank))
    how: dict[str, Any] = {"start_padding": tuple(start), "end_padding": tuple(end), "mode": mode}
    if "constant" in mode:
        how["value"] = _constant(r, dtype)
    size = dtype_of(dtype).itemsize
    ins = {"x": input_layout(r, tuple(shape), size)}
    return Problem("padding", ins, {"x": dtype}, how, (output_layout(r, outs, size),), **common(r))


def _constant(r: random.Random, dtype: str) -> Any:
    """A padding value, which every type that it may be drawn for rounds exactly or saturates."""
    if dtype in FLOATS:
        return r.choice((0, 1, -1, 2.5, -0.0, float("inf"), float("-inf"), 1e39, -7))
    bits = int(dtype.lstrip("uint"))
    low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    high -= not dtype.startswith("u")
    return r.choice((0, 1, low, high, 10.6, -10.6, 1e30, -1e30, float("inf"), r.randint(low, high)))


ACTIVATIONS: tuple[Any, ...] = (
    *(None,) * 14, "relu", "leaky_relu", "elu", "sigmoid", "hard_sigmoid", "tanh", "softplus",
    "softsign", "gelu", "swish", "hard_swish", "identity", "celu", "scaled_elu", "scaled_tanh",
    "shrink", "thresholded_relu", "parametric_softplus", ("linear", {"alpha": 2.0, "beta": -1.0}),
    ("leaky_relu", {"alpha": 0.0}), ("swish", {"sigmoid_input_scale": 1.5}),
)  # fmt: skip


def normalization(r: random.Random) -> Problem | None:
    rank = r.choice((1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 8))
    shape = tuple(
        0 if r.random() < 0.002 else r.choice((*scale().sizes, 24, 96, 128, 129))
        for _ in range(rank)
    )
    if math.prod(max(n, 1) for n in shape) > r.choice(scale().normalized):
        return None
    over = [a for a in range(rank) if r.random() < 0.5]
    if r.random() < 0.3:
        over = list(range(r.randint(0, rank - 1), rank))  # trailing, as layer normalization's
    if any(shape[a] == 0 for a in over):
        return None
    r.shuffle(over)
    dtype = r.choice(FLOATS)
    arrays, types = {"x": input_layout(r, shape, dtype_of(dtype).itemsize)}, {"x": dtype}
    for name in ("scale", "bias"):
        if r.random() < 0.5:
            kind = r.choice((dtype, dtype, "float32" if dtype != "float64" else dtype))
            sizes = tuple(n if r.random() < 0.5 else 1 for n in shape)
            arrays[name] = input_layout(r, sizes, dtype_of(kind).itemsize)
            types[name] = kind
    how = {
        "axes": tuple(a - rank * r.randint(0, 1) for a in over),
        "use_mean": r.random() < 0.8,
        "use_variance": r.random() < 0.85,
        "epsilon": r.choice((1e-5, 1e-5, 1e-12, 0.5, 0, 1e-60)),
        "activation": r.choice(ACTIVATIONS),
    }
    out = output_layout(r, shape, dtype_of(dtype).itemsize)
    return Problem("mean_variance_normalization", arrays, types, how, (out,), **common(r))
