"""Pooling of short planes that follow each other in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import DTYPES, FLOATS, check, data
from tests.pool.test_grad_turned import GEOMETRIES, short_rows_before

PATH = "pool/turned"
OPERATORS = ("max_pooling", "average_pooling", "lp_pooling")
PLANES = [(4, 8), (3, 11), (1, 67), (2, 150)]  # whole groups, a part of one left over, several


def choices(op: str, k: int) -> dict[str, Any]:
    """What an operator has beside the geometry, one after the other."""
    return {
        "average_pooling": {"include_padding": k % 2 == 0},
        "lp_pooling": {"p": 1 + k % 3},
    }.get(op, {})


def poisoned(like: np.ndarray) -> np.ndarray:
    out = np.empty_like(like)
    out.view(np.uint8)[...] = 0x5A
    return out


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-AVG-1", "D-AVG-4", "D-LP-1", "D-TEN-9")
@pytest.mark.parametrize("planes", PLANES, ids=str)
@pytest.mark.parametrize(("op", "dtype"), [(op, t) for op in OPERATORS for t in DTYPES[op]])
def test_short_planes(op: str, dtype: str, planes: tuple[int, int]) -> None:
    """Within the reference's bounds, with the bits of fewer planes and of planes side by side,
    wherever the planes stand and whatever the results were before."""
    taken = 0
    for k, (sizes, geometry) in enumerate(GEOMETRIES):
        shape, how = (*planes, *sizes), {**geometry, **choices(op, k)}
        x = data(shape, dtype, k)
        check(op, x, **how, layouts=("contiguous",), backend=CPU)
        e = cudml.explain(op, x, **how, device="cpu")
        taken += e.kernel == PATH
        y = getattr(cudml, op)(x, **how)
        for first in range(0, planes[1], 31):  # too few to be put side by side
            few = getattr(cudml, op)(x[:1, first : first + 31], **how)
            assert few.tobytes() == y[:1, first : first + 31].tobytes(), (shape, how)
        last = np.moveaxis(np.moveaxis(x, 1, -1).copy("C"), -1, 1)
        assert getattr(cudml, op)(last, **how).copy("C").tobytes() == y.tobytes(), (shape, how)
        for out in (poisoned(y), short_rows_before(poisoned(y))):
            got = getattr(cudml, op)(short_rows_before(x), **how, out=out)
            assert got.tobytes() == y.tobytes(), (shape, how)
    assert taken >= 5 or "AVX" in e.reason


@pytest.mark.core
@pytest.mark.decision("D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_no_number(dtype: str) -> None:
    """NaN wins, in its own plane alone; windows of padding alone are the smallest there is."""
    values = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    for sizes, geometry in GEOMETRIES:
        x = np.random.default_rng(3).choice(values, (3, 40, *sizes)).astype(data((1,), dtype).dtype)
        check("max_pooling", x, **geometry, layouts=("contiguous",), backend=CPU)


@pytest.mark.core
def test_what_stands_between_planes_stays() -> None:
    """Nothing is written beside the results, in front of them, between them and behind them."""
    x = data((3, 40, 7, 7), "float32", 1)
    y = cudml.max_pooling(x, 3, strides=2)
    room = np.full((3, 41, 16), 7.0, np.float32)
    steps = (*room.strides[:2], 12, 4)
    out = np.lib.stride_tricks.as_strided(room[:, :40, 2:], (3, 40, 3, 3), steps)
    cudml.max_pooling(x, 3, strides=2, out=out)
    assert np.array_equal(out, y)
    out[...] = 7.0
    assert (room == 7.0).all()


MANY = """
from tests.pool import test_turned
test_turned.run_many()
print("done")
"""


def run_many() -> None:
    """Results of several threads, and past the caches, are those of a few planes at a time."""
    for k, (sizes, geometry) in enumerate(GEOMETRIES):
        for op in OPERATORS:
            how = {**geometry, **choices(op, k)}
            x = data((4, 200, *sizes), "float16", k)
            y = getattr(cudml, op)(x, **how)
            for n in range(4):
                for first in range(0, 200, 25):
                    few = getattr(cudml, op)(x[n : n + 1, first : first + 25], **how)
                    assert few.tobytes() == y[n : n + 1, first : first + 25].tobytes(), (op, how)


@pytest.mark.core
def test_many_planes() -> None:
    assert child_says(MANY, CUDML_NUM_THREADS="3", CUDML_STREAM_BYTES="1") == "done"
