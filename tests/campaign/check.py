"""Runs a problem in every way that it names, and judges what comes back."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import extras
import forced
import numpy as np
import oracle
from calls import function, joined, listed
from pages import PAGE, Placed, Room
from problem import Problem
from scale import scale
from values import dtype_of, fill, make_sense, without_ends

from cudml import bounds

libm = ctypes.CDLL("libm.so.6")
MXCSR = slice(28, 32)  # in glibc's fenv_t on x86-64
STATES = (0x1F80 | 0x4000, 0x1F80 | 0x2000, 0x1F80 | 0x6000, 0x1F80 | 0x8040, 0x1F80 | 0xA040)


INPUTS = (
    *("x", "grad", "scale", "bias", "y", "indices", "mean", "variance", "count", "sums0", "sums1"),
    *("a0", "a1", "a2", "b0", "b1", "b2"),
)
# Operators whose arrays are multiplied with each other before anything is rounded to their type.
STATISTICS = ("normaliz", "merge_statistics", "mean_variance_normalization_grad")


class Mismatch(Exception):
    """What is wrong, in one line."""


class Bench:
    """The memory that problems are run in, one room an argument, and the count of checked calls."""

    def __init__(self) -> None:
        pages = scale().room // PAGE
        self.rooms = {f"out{i}": Room(pages) for i in range(3)} | {k: Room(pages) for k in INPUTS}
        self.calls = 0
        self.threads = ThreadPoolExecutor(2)

    def placed(self, p: Problem) -> dict[str, Placed]:
        """The problem's arrays, filled."""
        found = {}
        for k, layout in p.arrays.items():
            found[k] = self.rooms[k].place(layout, dtype_of(p.types[k]))
            found[k].poison(0xFF)
            fill(found[k].view, p.types[k], p.kind, p.first)
            if p.op.startswith(STATISTICS):
                without_ends(found[k].view)
            make_sense(k, found[k].view, p.first, math.prod(p.outs[0].shape))
        return found


def expected(p: Problem, arrays: dict[str, np.ndarray]) -> list[oracle.Want]:
    """What every call of the problem must return."""
    with np.errstate(all="ignore"):
        if p.op in ("max_pooling_grad", "average_pooling_grad"):
            return [oracle.gradient(p.op, arrays, p.how, p.outs[0].shape)]
        if p.op == "padding":
            return [oracle.padding(arrays["x"], p.how)]
        if p.op == "mean_variance_normalization":
            return [oracle.normalization(arrays, p.how)]
        if not p.op.endswith("_pooling"):
            return oracle.by_bounds(p.op, joined(p, arrays), p.how)
        return oracle.pooling(p.op, arrays["x"], p.how, p.outs[0].shape)


def judged(outputs: list[np.ndarray], wants: list[oracle.Want], what: str) -> None:
    """Raises Mismatch where an output is not what was expected."""
    if len(outputs) != len(wants):
        raise Mismatch(f"{what}: {len(outputs)} outputs, expected {len(wants)}")
    for i, (y, want) in enumerate(zip(outputs, wants, strict=True)):
        if y.dtype != want.dtype or y.shape != want.value.shape:
            raise Mismatch(f"{what}: output {i} is {y.dtype}{y.shape}")
        wrong = _wrong(y, want)
        if wrong is not None and wrong.any():
            at = np.unravel_index(int(wrong.argmax()), wrong.shape)
            where = ", ".join(map(str, at))
            raise Mismatch(
                f"{what}: output {i}[{where}] is {y[at]!r}, expected {want.value[at]!r}; "
                f"{int(wrong.sum())} of {wrong.size} differ"
            )


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


def _wrong(y: np.ndarray, want: oracle.Want) -> np.ndarray | None:
    if want.rule != "bound":
        a, b = _bits(y), _bits(want.value)
        if want.rule == "bits" or (a == b).all():
            return a != b
        equal = (y == want.value) | ((y != y) & (want.value != want.value))
        return (a != b) & ~equal
    form = bounds.FORMATS[want.dtype.name]
    with np.errstate(all="ignore"):
        got = y.astype(np.float64)
        passed = bounds.judge(got, want.value, want.bound, form)[0]
        for other, bound in want.others:
            passed = passed | bounds.judge(got, other, bound, form)[0]
    return ~passed


def run(bench: Bench, p: Problem) -> None:
    """Runs every call of the problem; raises Mismatch at the first that is wrong."""
    placed = bench.placed(p)
    views = {k: v.view for k, v in placed.items()}
    before = {k: v.inside() for k, v in placed.items()}
    call = function(p)
    wants = expected(p, {k: np.ascontiguousarray(v) for k, v in views.items()})
    plain = listed(call(**views))
    bench.calls += 1
    judged(plain, wants, "the call")
    _with_out(bench, p, call, views, wants)
    for name, number in p.extras.items():
        _extra(bench, p, name, number, call, views, wants, plain)
    for k, v in placed.items():
        if v.inside() != before[k]:
            raise Mismatch(f"{k} changed")
        damage = v.damage(0xFF) if _covers(p, k) else ""
        if damage:
            raise Mismatch(f"{k}: {damage}")


def _covers(p: Problem, name: str) -> bool:
    """Whether a layout's gaps can be told from its elements by overwriting these."""
    return 0 not in p.arrays[name].shape


def outputs(bench: Bench, p: Problem, wants: list[oracle.Want]) -> list[Placed]:
    """The problem's `out`, poisoned."""
    found = [
        bench.rooms[f"out{i}"].place(layout, want.dtype)
        for i, (layout, want) in enumerate(zip(p.outs, wants, strict=True))
    ]
    for y in found:
        y.poison(p.poison)
    return found


def _with_out(
    bench: Bench,
    p: Problem,
    call: Callable[..., Any],
    views: dict[str, np.ndarray],
    wants: list[oracle.Want],
) -> None:
    found = outputs(bench, p, wants)
    given = found[0].view if len(found) == 1 else tuple(y.view for y in found)
    back = call(**views, out=given)
    bench.calls += 1
    if any(a is not b.view for a, b in zip(listed(back), found, strict=True)):
        raise Mismatch("with out: the result is another object")
    judged([y.view for y in found], wants, "with out")
    for y in found:
        damage = y.damage(p.poison)
        if damage:
            raise Mismatch(f"with out: {damage}")


def _same(a: list[np.ndarray], b: list[np.ndarray], what: str) -> None:
    for x, y in zip(a, b, strict=True):
        if x.tobytes() != y.tobytes():
            wrong = _bits(x) != _bits(y)
            if (wrong & ~((x != x) & (y != y))).any():  # a NaN is a NaN
                raise Mismatch(f"{what}: not the bits of the plain call")


def _extra(
    bench: Bench,
    p: Problem,
    name: str,
    number: int,
    call: Callable[..., Any],
    views: dict[str, np.ndarray],
    wants: list[oracle.Want],
    plain: list[np.ndarray],
) -> None:
    bench.calls += 1
    if name == "copy":
        judged(listed(call(**{k: v.copy("C") for k, v in views.items()})), wants, "row-major")
    elif name == "state":
        _same(_under(STATES[number % len(STATES)], call, views), plain, "floating-point state")
    elif name == "threads":
        bench.calls += 1
        both = [bench.threads.submit(call, **views) for _ in range(2)]
        for one in both:
            _same(listed(one.result()), plain, "two threads")
    elif name == "pair":
        found = extras.paired(p, views, wants)
        if found is None:
            bench.calls -= 1
        else:
            judged(*found, "pads in the array")
    elif name == "path":
        by_path = forced.by_drawn(p, "cpu", number, lambda: call(**views))
        judged(listed(by_path), wants, "by a path")
    elif name == "dlpack":
        judged(extras.exchanged(call, views, wants, number), wants, "DLPack")
    elif name == "lie":
        extras.lied(call, views, number)
    elif name == "refusal":
        found = outputs(bench, p, wants)
        extras.refused(p, views, [y.view for y in found], number)
        for i, y in enumerate(found):
            if (y.bits() != int.from_bytes(bytes([p.poison]) * y.view.itemsize, "little")).any():
                raise Mismatch(f"refusal {number}: output {i} was written")


def _under(state: int, call: Callable[..., Any], views: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The call with the processor rounding, or treating subnormals, otherwise."""
    before = ctypes.create_string_buffer(64)
    libm.fegetenv(before)
    changed = ctypes.create_string_buffer(before.raw, 64)
    changed[MXCSR] = state.to_bytes(4, "little")
    left = ctypes.create_string_buffer(64)
    libm.fesetenv(changed)
    try:
        y = call(**views)
        libm.fegetenv(left)
    finally:
        libm.fesetenv(before)
    if int.from_bytes(left.raw[MXCSR], "little") & 0xFFC0 != state & 0xFFC0:
        raise Mismatch("the caller's floating-point state is not back")
    return listed(y)
