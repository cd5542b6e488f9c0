"""Further calls of a problem: pads put into the array, other producers, lies, and bad arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
from calls import function
from problem import Problem
from values import INTEGERS

import cudml
import exporters

PADDED_IN_THE_ARRAY = ("max_pooling", "average_pooling", "lp_pooling",
                       "max_pooling_grad", "average_pooling_grad")  # fmt: skip
REFUSALS = (TypeError, ValueError, BufferError, cudml.CudaError)


class Wrong(Exception):
    """What is wrong, in one line."""


def paired(
    p: Problem, views: dict[str, np.ndarray], wants: list[oracle.Want]
) -> tuple[list[np.ndarray], list[oracle.Want]] | None:
    """A second way to the same values, with what it must give; None where there is none.

    Poolings and their gradients: the pads put into the array. Padding: one dimension after the
    other. Normalization: dimensions in another order.
    """
    if p.op == "padding":
        return [_padded_in_turn(p, views["x"])], wants
    if p.op == "mean_variance_normalization":
        return _turned(p, views, wants)
    if p.op in PADDED_IN_THE_ARRAY:
        return _pads_in_the_array(p, views, wants)
    return None


def _padded_in_turn(p: Problem, x: np.ndarray) -> np.ndarray:
    for a in reversed(range(x.ndim)):
        mode = p.how["mode"] if isinstance(p.how["mode"], str) else p.how["mode"][a]
        start, end = ([v[a] if b == a else 0 for b in range(x.ndim)] for v in _pads(p))
        x = cudml.padding(x, start, end, mode=mode, value=p.how.get("value", 0))
    return _constant_outside(p, x)


def _constant_outside(p: Problem, y: np.ndarray) -> np.ndarray:
    """Where any dimension is outside and constant, the constant stands, whatever the others do."""
    modes = p.how["mode"]
    if isinstance(modes, str):
        return y
    for a, (mode, start, end) in enumerate(zip(modes, *_pads(p), strict=True)):
        if mode == "constant":
            lines = np.moveaxis(y, a, 0)
            lines[:start] = lines[len(lines) - end :] = oracle.constant(p.how["value"], y.dtype)
    return y


def _pads(p: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return p.how["start_padding"], p.how["end_padding"]


def _turned(
    p: Problem, views: dict[str, np.ndarray], wants: list[oracle.Want]
) -> tuple[list[np.ndarray], list[oracle.Want]]:
    rank = views["x"].ndim
    order = [*list(range(1, rank)), 0]
    axes = [order.index(a % rank) for a in p.how["axes"]]
    moved = {k: np.ascontiguousarray(v.transpose(order)) for k, v in views.items()}
    y = cudml.mean_variance_normalization(**moved, **{**p.how, "axes": axes})
    return [y.transpose(np.argsort(order))], wants


def _pads_in_the_array(
    p: Problem, views: dict[str, np.ndarray], wants: list[oracle.Want]
) -> tuple[list[np.ndarray], list[oracle.Want]] | None:
    how, first = dict(p.how), next(iter(views.values()))
    whole = how.pop("input_sizes", None) or views["x"].shape
    pooled = oracle._pooled(len(whole), how)
    if 0 in whole or how.get("include_padding") is False or how.get("return_indices"):
        return None
    if p.op == "average_pooling" and how.get("output_sizes") is not None:
        return None  # an overhang counts as little as pads only where they are pads
    start, end = [0] * len(whole), [0] * len(whole)
    for name, pads in (("start_padding", start), ("end_padding", end)):
        for a, n in zip(pooled, np.broadcast_to(how.pop(name, 0), len(pooled)), strict=True):
            pads[a] = int(n)
    sizes = tuple(map(sum, zip(whole, start, end, strict=True)))
    if np.prod(sizes) > 200_000 or not any(start + end):
        return None
    inner = tuple(slice(b, b + n) for b, n in zip(start, whole, strict=True))
    if p.op == "average_pooling_grad":
        y = cudml.average_pooling_grad(first, sizes, **how)
        return [y[inner]], wants
    lowest = np.iinfo(first.dtype).min if first.dtype.name in INTEGERS else -np.inf
    padded = np.full(sizes, lowest if p.op.startswith("max") else 0, first.dtype)
    padded[inner] = views["x"]
    if p.op == "max_pooling_grad":
        if not (views["x"] > lowest).all():
            return None  # the first of equal ones may be a pad
        return [cudml.max_pooling_grad(padded, views["grad"], **how)[inner]], wants
    return [getattr(cudml, p.op)(padded, **how)], wants


def exchanged(
    call: Callable[..., Any],
    views: dict[str, np.ndarray],
    wants: list[oracle.Want],
    number: int,
) -> list[np.ndarray]:
    """The same call with arrays of a library that only speaks DLPack."""
    if any(s % v.itemsize or s < 0 for v in views.values() for s in v.strides) or any(
        v.ctypes.data % v.itemsize for v in views.values()
    ):
        views = {k: v.copy() for k, v in views.items()}
    lent = {k: exporters.Exporter(v, is_versioned=bool(number & 1)) for k, v in views.items()}
    found = [np.empty(w.value.shape, w.dtype) for w in wants]
    call(**lent, out=found[0] if len(found) == 1 else tuple(found))
    if not all(e.is_settled() for e in lent.values()):
        raise Wrong("DLPack: a deleter did not run once")
    return found


LIES: tuple[dict[str, Any], ...] = (
    {"device": (exporters.ROCM, 0)},
    {"reported": (exporters.CUDA, 0)},
    {"lanes": 2},
    {"lanes": 0},
    {"bits": 12},
    {"code": 77},
    {"version": (2, 0)},
    {"data": 0},
    {"shape": (-1, 2, 3, 4), "strides": None},
    {"shape": (1 << 62, 1 << 62, 2, 2), "strides": None},
    {"shape": None},
    {"shape": (1,) * 9, "strides": None},
    {"shape": (1,) * 70, "strides": None},
    {"strides": (-1, -1, -1, -1), "shape": (1, 2, 2, 2)},
    {"strides": (1 << 62, 1 << 62, 1, 1), "shape": (2, 2, 2, 2)},
    {"byte_offset": 1},
    {"name": b"dltensor_strange"},
    {"name": None},
)


def lied(call: Callable[..., Any], views: dict[str, np.ndarray], number: int) -> None:
    """A capsule that says what cannot be true is refused, or read where it happens to be true."""
    name, *_ = views
    lie = LIES[number % len(LIES)]
    if "data" in lie and views[name].size == 0:
        return
    liar = exporters.Exporter(views[name].copy(), is_versioned=bool(number & 1024), **lie)
    try:
        call(**{**views, name: liar})
    except REFUSALS:
        return
    harmless = {"name", "byte_offset", "version"} & lie.keys()
    if not harmless:
        raise Wrong(f"a capsule with {lie} was taken")


def refused(p: Problem, views: dict[str, np.ndarray], outs: list[np.ndarray], number: int) -> None:
    """One argument made bad: a TypeError or ValueError, and `out` is what it was."""
    how, out = dict(p.how), list(outs)
    geometry = [k for k in ("window_size", "strides", "dilations") if k in how]
    choice, out0 = number % 11, outs[0]
    if choice == 0 and geometry:
        how[geometry[0]] = 0
    elif choice == 1:
        how["epsilon" if "epsilon" in how else "start_padding"] = -1
    elif choice == 2 and "window_size" in how:
        how["window_size"] = 2**31 - 1
    elif choice == 3:
        out[0] = np.empty((*out0.shape, 2), out0.dtype)
    elif choice == 4:
        other = np.dtype("float32" if out0.dtype != np.float32 else "float64")
        out[0] = np.empty(out0.shape, other)
    elif choice == 5:
        out[0] = out0.view()
        out[0].flags.writeable = False
    elif choice == 6 and out0.size > 1:
        out[0] = np.broadcast_to(out0.reshape(-1)[:1], out0.shape)
    elif choice == 7:
        how["mode" if p.op.startswith("padding") else "axes"] = (99,)
    elif choice == 8:
        how["no_such_argument"] = 1
    elif choice == 9:
        views = {**views, next(iter(views)): "an array"}  # type: ignore[dict-item]
    else:
        how["stream"] = 3
    given = out[0] if len(out) == 1 else tuple(out)
    try:
        function(dataclasses.replace(p, how=how))(**views, out=given)
    except REFUSALS as error:
        if p.op not in str(error) and "argument" not in str(error):
            raise Wrong(f"refusal {number}: the message names no operator: {error}") from error
        return
    raise Wrong(f"refusal {choice}: taken: {how}")
