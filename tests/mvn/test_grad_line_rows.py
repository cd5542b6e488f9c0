"""The gradient of normalization by columns where rows follow each other but are no lines of memory:
those of a large dx are written as other rows, which are."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from mvn_support import placed
from placed_gradients import arrays_of_gradient
from pool_support import dtype_of
from tests.cpu.test_isa import LEVELS, needs, x86

gradient: Any = cudml.mean_variance_normalization_grad

# Shape, axes and sizes of scale and bias: channels whose rows are a line and a bit or a part of
# one, several blocks of columns, whole lines that dx may be shifted from, several positions
# already; rows that no few make up; groups of channels; samples, which two threads do not take in
# turn.
PLACED = """
import cudml
from placed_gradients import say_digests
problems = (
    ((3, 500, 24), (0, 1), (1, 1, 24)),
    ((2, 2200, 17), (0, 1), (1, 1, 17)),
    ((4, 331, 100), (0, 1), (1, 1, 100)),
    ((3, 113, 1000), (0, 1), (1, 1, 1000)),
    ((3, 601, 64), (0, 1), (1, 1, 64)),
    ((2, 151, 512), (0, 1), (1, 1, 512)),
    ((3, 6000, 6), (0, 1), (1, 1, 6)),
    ((1, 1021, 40), (0, 1), (1, 1, 40)),
    ((3, 700, 5, 8), (1, 3), (1, 1, 5, 8)),
    ((3, 517, 72), 1, (1, 1, 72)),
    ((3, 517, 72), 1, (3, 1, 72)),
)
for threads in (1, 2):
    cudml.set_num_threads(threads)
    say_digests(("float32", "float16", "bfloat16"), problems, (0, 1, 8, 9))
"""


@x86
@pytest.mark.core
@pytest.mark.decision("D-TEN-9", "D-GRAD-1")
@pytest.mark.parametrize("level", LEVELS)
def test_as_rows_of_lines_and_as_they_are(level: str) -> None:
    """CUDML_STREAM_BYTES moves the size from which results are written past the caches."""
    needs(level)
    never, always = (
        child_says(PLACED, CUDML_STREAM_BYTES=n, CUDML_CPU_ISA=level, limit=240)
        for n in (str(10**15), "0")
    )
    lines = never.splitlines()
    assert never == always and len(lines) == 2 * 3 * 11 * 4 * 4
    assert len(set(lines)) == len(lines) // 8  # neither threads nor places make a difference


def say_others() -> None:
    """Of rows with gaps between them, or between those of two samples, in one of the tensors; and
    of sums that are found in the pass that writes dx, or in none."""
    for dtype, kind in itertools.product(
        ("float32", "float16"), ("rows", "samples", "given", "constant")
    ):
        given: dict[str, Any] = arrays_of_gradient((3, 400, 40), (1, 1, 40), dtype)
        if kind in ("given", "constant"):
            for name, value in (("mean", np.mean), ("variance", np.var)):
                given[name] = value(given["x"].astype("f8"), (0, 1), keepdims=True).astype("f4")
        places = {"samples": (("x", 0, 8), ("grad", 0, 8), ("dx", 0, 8)), "rows": (("", 0, 0),)}
        for name, offset, gap in places.get(kind, (("dx", 1, 0), ("x", 1, 0))):
            room, dx = placed((3, 400, 40), dtype_of(dtype), offset, gap if name == "dx" else 0)
            arrays = dict(given)
            if name in ("x", "grad"):
                arrays[name] = placed((3, 400, 40), dtype_of(dtype), offset, gap)[1]
                arrays[name][...] = given[name]
            if kind == "rows":
                room = np.full((3, 400, 48), 7, dtype_of(dtype))
                dx = room[..., :40]
            for outputs in (("x", "scale", "bias"), ("x",)):
                how: dict[str, Any] = {"outputs": outputs, "out": (dx, None, None)}
                if kind == "constant":
                    every = cudml.normalize_grad(**arrays, **how)
                else:
                    how["activation"] = None if kind == "given" else "swish"
                    every = gradient(**arrays, axes=(0, 1), **how)
                parts = b"".join(v.tobytes() for v in every if v is not None)
                print(dtype, kind, name, outputs, hashlib.sha256(parts).hexdigest())
                dx[...] = 7
                assert (room == 7).all()


OTHERS = """
from tests.mvn import test_grad_line_rows
test_grad_line_rows.say_others()
"""


@pytest.mark.core
@pytest.mark.decision("D-TEN-9", "D-GRAD-1")
def test_rows_that_are_not_packed_and_sums_beside() -> None:
    never, always = (child_says(OTHERS, CUDML_STREAM_BYTES=n) for n in (str(10**15), "0"))
    assert never == always and len(never.splitlines()) == 32
