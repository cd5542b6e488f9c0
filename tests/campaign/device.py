"""Runs a problem on the CUDA kernels, interpreted: arrays of a device lie between the same pages.

All memory of the process is the simulated device's, so that a load or store of a kernel beyond an
array that stands at a page's edge ends the process, as it would one of the CPU's loops.
"""

from __future__ import annotations

import functools
from typing import Any

import forced
import numpy as np
from check import Bench, Mismatch, expected, function, judged, outputs
from pages import Placed
from problem import Problem

from cudml import _backend
from device_array import CapsuleArray, DeviceArray, InterfaceArray


class Held:
    """Memory of a room, with the attributes of an allocation."""

    def __init__(self, placed: Placed) -> None:
        self.room = placed.room
        self.address = placed.room.address + placed.begin
        self.size = placed.end - placed.begin


def lent(placed: Placed) -> DeviceArray:
    """The view as an array of a CUDA library's."""
    kind = CapsuleArray if placed.view.dtype.name == "bfloat16" else InterfaceArray
    memory, v = Held(placed), placed.view
    first = v.ctypes.data - memory.address
    return kind(memory, first, v.shape, v.strides, v.dtype)  # type: ignore[arg-type]


def is_taken(v: np.ndarray) -> bool:
    """Whether devices take an array as it lies: others are refused, and never copied."""
    steps = [s for s, n in zip(v.strides, v.shape, strict=True) if n > 1 and v.size]
    return v.ctypes.data % v.itemsize == 0 and all(s >= 0 and s % v.itemsize == 0 for s in steps)


def run(bench: Bench, p: Problem) -> None:
    """Runs the problem with `out`; raises Mismatch where anything is wrong."""
    import simt_build

    placed = bench.placed(p)
    views = {k: v.view for k, v in placed.items()}
    before = {k: v.inside() for k, v in placed.items()}
    wants = expected(p, {k: np.ascontiguousarray(v) for k, v in views.items()})
    found = outputs(bench, p, wants)
    arrays = [lent(y) for y in found]
    given: Any = arrays[0] if len(arrays) == 1 else tuple(arrays)
    call = functools.partial(function(p), **{k: lent(v) for k, v in placed.items()}, out=given)
    product, _backend.core = _backend.core, simt_build.module()
    bench.calls += 1
    try:
        if "path" in p.extras:
            forced.by_drawn(p, "cuda", p.extras["path"], call)
        else:
            call()
    except BufferError as error:
        if all(map(is_taken, views.values())):
            raise Mismatch(f"refused: {error}") from error
        return
    finally:
        _backend.core = product
    if not all(map(is_taken, views.values())):
        raise Mismatch("an array that no device takes was taken")
    judged([y.view for y in found], wants, "on the device")
    for y in found:
        if damage := y.damage(p.poison):
            raise Mismatch(f"on the device: {damage}")
    for k, v in placed.items():
        if v.inside() != before[k]:
            raise Mismatch(f"{k} changed")
