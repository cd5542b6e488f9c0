"""Gradients of short planes that follow each other in memory."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import FLOATS, check, data
from layouts import dtype_of
from tests.pool.test_grad_blocks import of_max

PATH = "pool_grad/turned"
VALUES = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)

# Spatial sizes and geometries: overlap, none, rows and columns without windows, gaps, dilation,
# pads that differ from side to side, three axes and one.
GEOMETRIES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((7, 7), {"window_size": 2, "strides": 2}),
    ((7, 9), {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1}),
    ((14, 13), {"window_size": 3, "start_padding": (1, 0), "end_padding": (0, 2)}),
    ((3, 5), {"window_size": (3, 1), "strides": (1, 2), "start_padding": (2, 0)}),
    ((11, 10), {"window_size": (2, 3), "strides": (3, 4), "end_padding": (1, 0)}),
    ((12, 17), {"window_size": 3, "strides": 2, "dilations": (2, 3), "start_padding": (3, 2)}),
    ((3, 5, 4), {"window_size": 2, "strides": (1, 2, 2), "start_padding": (1, 0, 1)}),
    ((19,), {"window_size": 4, "strides": 3, "end_padding": 2}),
    ((2, 1), {"window_size": 2, "start_padding": 1}),
)  # fmt: skip


def short_rows_before(array: np.ndarray) -> np.ndarray:
    """The same values with gaps between planes, which stay packed."""
    n, c, *sizes = array.shape
    wide = np.full((n, c + 1, int(np.prod(sizes)) + 5), 7, array.dtype)
    planes = wide[:, :c, :-5]
    planes[...] = array.reshape(n, c, -1)
    step = array.itemsize
    inner = [step * int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    strides = (*planes.strides[:2], *inner)
    return np.lib.stride_tricks.as_strided(planes, array.shape, strides)


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("planes", [(2, 4), (1, 8), (2, 8), (1, 17), (3, 11), (1, 67), (2, 150)])
def test_winners(dtype: str, planes: tuple[int, int]) -> None:
    """Values that tie, or are in no order; fewer planes than a vector has lanes, and a part of
    one left over; results that were something else before."""
    chosen = np.random.default_rng(planes[1])
    are_many = planes[0] * planes[1] >= {"float64": 8, "float32": 16}.get(dtype, 12)
    for sizes, geometry in GEOMETRIES:
        shape = (*planes, *sizes)
        for values in (chosen.choice(VALUES, shape), np.full(shape, -np.inf)):
            x = values.astype(dtype_of(dtype))
            grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
            e = cudml.explain("max_pooling_grad", x, grad, **geometry, device="cpu")
            is_other = "not pool_grad/turned, which needs that no pairs" in e.reason
            assert (e.kernel == PATH) == are_many or is_other or "AVX" in e.reason, e
            want = of_max(x, grad, geometry)
            gaps = short_rows_before(np.full(shape, np.nan, x.dtype))
            for out, given in ((None, x), (np.full(shape, np.nan, x.dtype), short_rows_before(x)),
                               (gaps, short_rows_before(x))):  # fmt: skip
                got = cudml.max_pooling_grad(given, short_rows_before(grad), **geometry, out=out)
                assert np.array_equal(got.astype(np.float64), want), (shape, geometry)


@pytest.mark.core
@pytest.mark.decision("D-AVG-1", "D-AVG-4", "D-GRAD-1")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("planes", [(2, 4), (1, 8), (3, 11), (1, 67), (2, 150)])
def test_averages(dtype: str, planes: tuple[int, int]) -> None:
    """Within the reference's bounds, with the bits of planes that do lie side by side, and of so
    few that they are taken one by one."""
    taken = 0
    for k, (sizes, geometry) in enumerate(GEOMETRIES):
        shape = (*planes, *sizes)
        how = {**geometry, "include_padding": k % 2 == 0}
        grad = data(cudml.average_pooling(np.zeros(shape, "f4"), **geometry).shape, dtype, k)
        e = cudml.explain("average_pooling_grad", grad, shape, **how, device="cpu")
        check("average_pooling_grad", grad, shape, **how, layouts=("contiguous",), backend=CPU)
        if e.kernel != "pool_grad/average_turned":
            continue
        taken += 1
        last = np.ascontiguousarray(np.moveaxis(grad, 1, -1))
        want = cudml.average_pooling_grad(np.moveaxis(last, -1, 1), shape, **how).copy("C")
        few = cudml.average_pooling_grad(grad[:1, :3], (1, 3, *sizes), **how)
        assert few.tobytes() == want[:1, :3].tobytes(), (shape, how)
        gaps = short_rows_before(np.full(shape, np.nan, grad.dtype))
        for out in (None, np.full(shape, np.nan, grad.dtype), gaps):
            got = cudml.average_pooling_grad(short_rows_before(grad), shape, **how, out=out)
            assert got.tobytes() == want.tobytes(), (shape, how)
    assert taken >= 5 or "AVX" in e.reason


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("planes", [(2, 4), (3, 11), (1, 67), (2, 150)])
def test_norms(dtype: str, planes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the reference's bounds, with the bits of the plain path, wherever norms stand."""
    taken = 0
    for k, (sizes, geometry) in enumerate(GEOMETRIES):
        shape, how = (*planes, *sizes), {**geometry, "p": 1 + k % 3}
        x = data(shape, dtype, 1)
        y = cudml.lp_pooling(x, **how)
        grad = data(y.shape, dtype, 2)
        check("lp_pooling_grad", x, y, grad, **how, layouts=("contiguous",), backend=CPU)
        e = cudml.explain("lp_pooling_grad", x, y, grad, **how, device="cpu")
        taken += e.kernel == "pool_grad/lp_turned"
        near = [short_rows_before(each) for each in (x, y, grad)]
        gaps = short_rows_before(np.full(shape, np.nan, x.dtype))
        got = [cudml.lp_pooling_grad(*near, **how, out=out) for out in (None, gaps)]
        if dtype == "float16":  # norms in the type of the computation
            cudml.lp_pooling_grad(x, y.astype(np.float32), grad, **how)
        monkeypatch.setenv("CUDML_KERNEL", "pool_grad/lp_gather")
        want = cudml.lp_pooling_grad(x, y, grad, **how)
        monkeypatch.delenv("CUDML_KERNEL")
        for each in got:
            assert each.tobytes() == want.tobytes(), (shape, how)
    assert taken >= 5 or "AVX" in e.reason


# Windows over one another along one axis, and too far apart for blocks along the other.
APART: tuple[dict[str, Any], ...] = (
    {"window_size": (5, 11), "strides": (1, 10), "start_padding": 1},
    {"window_size": 9, "strides": (9, 2)},
    {"window_size": (6, 12), "strides": (2, 12), "start_padding": (2, 3)},
    {"window_size": (3, 2), "strides": (1, 9), "dilations": (1, 8)},
)  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("geometry", APART, ids=str)
def test_few_planes_and_many(geometry: dict[str, Any], dtype: str, is_last: bool) -> None:
    """Their order of additions is the same, whatever path they take."""
    shape = (1, 9, 30, 31)
    x = (np.random.default_rng(5).random(shape) ** 8 * 100).astype(dtype_of(dtype))
    y = cudml.lp_pooling(x, **geometry)
    grad = data(y.shape, dtype, 3)

    def results(n: int) -> tuple[np.ndarray, ...]:
        arrays = [a[:, :n].copy("C") for a in (x, y, grad)]
        if is_last:
            arrays = [np.moveaxis(np.moveaxis(a, 1, -1).copy("C"), -1, 1) for a in arrays]
        return (
            cudml.max_pooling_grad(arrays[0], arrays[2], **geometry),
            cudml.average_pooling_grad(arrays[2], (1, n, 30, 31), **geometry),
            cudml.lp_pooling_grad(*arrays, **geometry),
        )

    for many, few in zip(results(9), results(3), strict=True):
        assert np.array_equal(many[:, :3], few)


MANY = """
from tests.pool import test_grad_turned
test_grad_turned.run_many()
print("done")
"""


def run_many() -> None:
    """Results of several threads, and past the caches, are those of the plain path."""
    for (sizes, geometry), dtype in product(GEOMETRIES, FLOATS):
        x = data((4, 200, *sizes), dtype, 1, "exact")
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
        got = cudml.max_pooling_grad(x, grad, **geometry)
        assert np.array_equal(got.astype(np.float64), of_max(x, grad, geometry)), (sizes, dtype)
        every = cudml.average_pooling_grad(grad, x.shape, **geometry)
        for i in (0, 3):
            one = cudml.average_pooling_grad(grad[i : i + 1], (1, *x.shape[1:]), **geometry)
            assert one.tobytes() == every[i : i + 1].tobytes(), (sizes, dtype)


@pytest.mark.core
def test_many_planes() -> None:
    assert child_says(MANY, CUDML_NUM_THREADS="3", CUDML_STREAM_BYTES="1") == "done"
