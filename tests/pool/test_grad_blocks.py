"""Pooling gradients that are computed in blocks: cuts along every axis, and results past caches."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import FLOATS, check, data
from layouts import dtype_of

# Sizes that one block does not hold, along each axis in turn; windows that overlap, that do not,
# that leave gaps, that are dilated, and that reach into both pads.
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "long rows": ((1, 2, 5, 9001), {"window_size": 3, "strides": 2, "start_padding": 1}),
    "long columns": ((1, 2, 3001, 9), {"window_size": 3, "strides": 2, "end_padding": 1}),
    "many slices": (
        (1, 1, 301, 11, 13),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1},
    ),
    "large plane": ((1, 3, 211, 223), {"window_size": (3, 2), "start_padding": (1, 0)}),
    "rows of windows": (
        (1, 2, 301, 517),
        {"window_size": 3, "strides": 2, "start_padding": (1, 0), "end_padding": (1, 2)},
    ),
    "no overlap": ((2, 3, 130, 170), {"window_size": 2, "strides": 2}),
    "gaps": ((2, 3, 131, 173), {"window_size": (2, 1), "strides": (3, 4)}),
    "wide gaps": ((2, 3, 41, 57), {"window_size": (3, 2), "strides": (9, 11), "dilations": (2, 5),
                                   "start_padding": (3, 7), "end_padding": (1, 4)}),
    "dilated": (
        (1, 3, 150, 140),
        {"window_size": 3, "strides": 2, "dilations": (3, 2), "start_padding": 4},
    ),
    "last window beyond the pads": ((1, 2, 90, 95), {"window_size": 4, "strides": 3,
                                                     "end_padding": (2, 3)}),
}  # fmt: skip


def lanes_last(x: np.ndarray) -> np.ndarray:
    """The same values, planes side by side in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def of_max(x: np.ndarray, grad: np.ndarray, geometry: dict[str, Any]) -> np.ndarray:
    """The gradient from the forward pass's indices."""
    _, index = cudml.max_pooling(x, **geometry, return_indices=True)
    real = index.ravel() != 0xFFFFFFFF
    result = np.zeros(x.size)
    np.add.at(result, index.ravel()[real], grad.ravel()[real].astype(np.float64))
    return result.reshape(x.shape)


def of_average(shape: tuple[int, ...], grad: np.ndarray, geometry: dict[str, Any]) -> np.ndarray:
    """The gradient from what single elements give to the averages of single planes."""
    rank = len(shape) - 2
    full = {
        key: np.broadcast_to(geometry.get(key, default), rank)
        for key, default in (
            ("window_size", 1), ("strides", 1), ("start_padding", 0), ("dilations", 1)
        )
    }  # fmt: skip
    shares = []
    for i in range(rank):
        n, outputs = shape[i + 2], grad.shape[i + 2]
        at = (
            np.arange(outputs)[:, None] * full["strides"][i]
            - full["start_padding"][i]
            + np.arange(full["window_size"][i]) * full["dilations"][i]
        )
        real = (at >= 0) & (at < n)
        matrix = np.zeros((outputs, n))
        for o in range(outputs):
            matrix[o, at[o][real[o]]] = 1 / max(1, real[o].sum())
        shares.append(matrix)
    result = grad.astype(np.float64)
    for i, matrix in enumerate(shares):
        result = np.moveaxis(np.tensordot(result, matrix, (i + 2, 0)), -1, i + 2)
    return result


@pytest.mark.core
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("planes", [0, 9, 70])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gradients_in_blocks(case: str, planes: int, dtype: str) -> None:
    shape, geometry = CASES[case]
    if planes:
        sizes = [min(n, 40) if n < 3000 else 701 for n in shape[2:]]
        shape = (2, planes, *sizes)
    x = data(shape, dtype, 1, "exact")
    grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
    want = of_max(x, grad, geometry)
    mean = of_average(shape, grad, geometry)
    if planes:
        x, grad = lanes_last(x), lanes_last(grad)
    assert np.array_equal(cudml.max_pooling_grad(x, grad, **geometry), want)
    got = cudml.average_pooling_grad(grad, shape, **geometry).astype(np.float64)
    slack = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    assert np.abs(got - mean).max() <= slack * 16


@pytest.mark.core
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("window", [2, 3, (4, 2)])
def test_memory_orders_that_differ(dtype: str, window: Any) -> None:
    """Of x, of the incoming gradient and of the result: each in both orders."""
    geometry = {"window_size": window, "strides": 2, "start_padding": 1, "end_padding": 1}
    shape = (2, 19, 9, 12)
    x = data(shape, dtype, 1, "exact")
    grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
    want, mean = of_max(x, grad, geometry), of_average(shape, grad, geometry)
    slack = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    for of_x, of_grad, of_result in product((np.copy, lanes_last), repeat=3):
        out = of_result(np.full(shape, 7, x.dtype))
        cudml.max_pooling_grad(of_x(x), of_grad(grad), **geometry, out=out)
        assert np.array_equal(out.astype(np.float64), want)
        cudml.average_pooling_grad(of_grad(grad), shape, **geometry, out=out)
        assert np.abs(out.astype(np.float64) - mean).max() <= slack * 16


@pytest.mark.core
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_winners_along_rows(dtype: str, start: int) -> None:
    """Ends of rows, whose last vector is not full, and values that tie or are in no order."""
    values = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    chosen = np.random.default_rng(start)
    for width in (16, 17, 31, 32, 33, 63, 64, 65, 95, 112, 129):
        geometry = {"window_size": 3, "strides": 2, "start_padding": (1, start), "end_padding": 1}
        x = chosen.choice(values, (2, 3, 21, width)).astype(dtype_of(dtype))
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
        padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 3)))[..., :-3]
        for array in (x, padded):
            got = cudml.max_pooling_grad(array, grad, **geometry)
            assert np.array_equal(got.astype(np.float64), of_max(x, grad, geometry)), width


@pytest.mark.core
@pytest.mark.decision("D-MAX-3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("width", [16, 57, 96])
def test_winners_along_rows_of_special_values(dtype: str, start: int, width: int) -> None:
    """Infinities tie with what stands beyond a pad; a NaN changes how its plane is searched."""
    geometry: dict[str, Any] = {
        "window_size": 3, "strides": 2, "start_padding": (1, start), "end_padding": 1,
    }  # fmt: skip
    rng = np.random.default_rng(width)
    x = rng.integers(-2, 3, (1, 23, 11, width)).astype(np.float32)
    x[:, :6][rng.random(x[:, :6].shape) < 0.7] = -np.inf
    x[:, 3] = -np.inf
    x[:, 6:9][rng.random(x[:, 6:9].shape) < 0.5] = -0.0
    for plane, place in enumerate([(0, 0), (4, width - 1), (10, width - 1), (10, 0), (5, 7)]):
        x[0, plane, place[0], place[1]] = np.nan
    x[0, 22] = np.nan
    grad = np.ones((1, 23, 6, (width + start - 2) // 2 + 1), np.float32)
    grad *= np.arange(grad.size).reshape(grad.shape) % 7 + 1
    check("max_pooling_grad", x.astype(dtype_of(dtype)), grad.astype(dtype_of(dtype)), **geometry)


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("planes", [3, 8, 16, 17, 33, 64, 270])
def test_winners_of_planes_side_by_side(
    dtype: str, planes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that tie or are in no order, by windows that are in part or wholly pads, in two and
    three dimensions, on pixels with and without gaps; of few planes by the path without vectors."""
    values = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    chosen = np.random.default_rng(planes)
    cases: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((9, 43), {"window_size": 3, "strides": 2, "start_padding": (1, 4), "end_padding": (3, 1)}),
        ((4, 6, 23), {"window_size": 2, "strides": (2, 1, 2), "end_padding": 1}),
        ((3, 5, 7), {"window_size": 3, "strides": (2, 1, 3), "dilations": (1, 2, 1),
                     "start_padding": (1, 2, 0)}),
        ((5, 70), {"window_size": (1, 2), "strides": (3, 10**9)}),
    )  # fmt: skip
    fewest = {"float64": 8, "float32": 16}.get(dtype, 12)
    path = f"pool_grad/max_{'side_by_side' if planes >= fewest else 'scatter'}"
    if planes < fewest:
        monkeypatch.setenv("CUDML_KERNEL", path)
    for sizes, geometry in cases:
        x = chosen.choice(values, (2, planes, *sizes)).astype(dtype_of(dtype))
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
        want = of_max(x, grad, geometry)
        packed, apart = lanes_last(x), lanes_last(np.repeat(x, 2, 1))[:, :planes]
        apart[...] = x
        for array in (packed, apart):
            assert (
                cudml.explain(
                    "max_pooling_grad", array, lanes_last(grad), **geometry, device="cpu"
                ).kernel
                == path
            )
            got = cudml.max_pooling_grad(array, lanes_last(grad), **geometry)
            assert np.array_equal(got.astype(np.float64), want), sizes


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [8, 13, 32, 47, 64, 65, 130, 223])
def test_winners_of_pairs_of_columns(dtype: str, width: int) -> None:
    """Values that tie or are in no order, by windows without overlap: of one row to 8, in one slice
    and in two, with rows, columns and slices left over, on packed rows and on ones with gaps."""
    values = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    chosen = np.random.default_rng(width)
    windows = {(6,): (1, 2), (7,): (2, 2), (11,): (3, 2), (17,): (8, 2), (5, 9): (2, 4, 2),
               (5, 7): (2, 2, 2), (3, 9): (1, 4, 2)}  # fmt: skip
    for sizes, window in windows.items():
        geometry = {"window_size": window, "strides": window}
        x = chosen.choice(values, (2, 3, *sizes, width)).astype(dtype_of(dtype))
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
        want = of_max(x, grad, geometry)
        apart = np.repeat(x, 2, -1)[..., :width]
        apart[...] = x
        for array in (x, apart):
            e = cudml.explain("max_pooling_grad", array, grad, **geometry, device="cpu")
            assert e.kernel == "pool_grad/max_pairs", e
            got = cudml.max_pooling_grad(array, grad, **geometry)
            assert np.array_equal(got.astype(np.float64), want), window


# Rows of windows whose results are whole lines or not, past the caches or not, from any place of a
# line on, and of which some are followed by what belongs to others.
PLACED = """
import numpy as np
import cudml
from harness import data
for dtype, width in (("float32", 64), ("float32", 48), ("float16", 96), ("float64", 40)):
    geometry = {"window_size": 2, "strides": 2}
    x = data((2, 3, 5, 6, width), dtype, 1)
    grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2)
    plain = cudml.max_pooling_grad(x, grad, **geometry)
    for skipped in (0, 1, 8, 16, 32):
        for rows in (6, 7):
            room = np.full(x.size // 6 * rows + 128, 7, x.dtype)
            first = (-room.ctypes.data % 64) // x.itemsize + skipped
            last = first + x.size // 6 * rows
            dx = room[first:last].reshape(2, 3, 5, rows, width)[:, :, :, :6]
            cudml.max_pooling_grad(x, grad, **geometry, out=dx)
            assert (dx == plain).all(), (dtype, width, skipped, rows)
            dx[...] = 7
            assert (room == 7).all(), (dtype, width, skipped, rows)
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000"])
def test_pairs_wherever_results_begin(limit: str) -> None:
    assert child_says(PLACED, CUDML_STREAM_BYTES=limit) == "done"


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("planes", [35, 64, 1030])
def test_winners_of_pairs_side_by_side(dtype: str, planes: int) -> None:
    """Values that tie or are in no order, by windows without overlap of 2 to 8 taps, with rows,
    columns and slices left over; planes next to each other and with gaps between elements."""
    values = np.array([np.nan, -np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    chosen = np.random.default_rng(planes)
    windows = {(17,): (2,), (7, 9): (2, 2), (8, 13): (3, 2), (5, 9): (1, 8), (5, 3, 7): (2, 2, 2)}
    for sizes, window in windows.items():
        geometry = {"window_size": window, "strides": window}
        x = chosen.choice(values, (2, planes, *sizes)).astype(dtype_of(dtype))
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2, "exact")
        want = of_max(x, grad, geometry)
        wide = lanes_last(np.full((2, planes + 3, *sizes), 7, x.dtype))
        for array, out in (
            (lanes_last(x), None),
            (lanes_last(np.repeat(x, 2, 1))[:, :planes], wide[:, 1:-2]),
        ):
            array[...] = x
            e = cudml.explain("max_pooling_grad", array, lanes_last(grad), **geometry, device="cpu")
            if "not pool_grad/max_lane_pairs, which needs that the processor has" not in e.reason:
                assert e.kernel == "pool_grad/max_lane_pairs", e
            got = cudml.max_pooling_grad(array, lanes_last(grad), **geometry, out=out)
            assert np.array_equal(got.astype(np.float64), want), window
        assert (wide[:, [0, -2, -1]] == 7).all()


# Windows that advance by 1 along the rows, or by 2 in pairs and thirds: shape, then how they lie.
ALONG_ROWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "3 by 1": ((2, 3, 19, 37), {"window_size": 3, "start_padding": 1, "end_padding": 1}),
    "3 by 1, in bands": ((1, 2, 700, 33), {"window_size": 3, "start_padding": 1, "end_padding": 1}),
    "parts of rows, rows without windows": (
        (1, 2, 8, 1301),
        {"window_size": (2, 5), "strides": (3, 1), "start_padding": (1, 4), "end_padding": (0, 2)},
    ),
    "dilated": (
        (1, 3, 40, 75),
        {"window_size": (3, 4), "strides": (2, 1), "dilations": (2, 7), "start_padding": (0, 9)},
    ),
    "pairs": (
        (2, 2, 9, 1143),
        {"window_size": (3, 2), "strides": (1, 2), "start_padding": (1, 1), "end_padding": (0, 1)},
    ),
    "pairs apart": ((2, 3, 10, 46), {"window_size": 2, "strides": 2}),
    "signals": ((3, 4, 90), {"window_size": 16, "start_padding": 7, "end_padding": 8}),
    "thirds": (
        (3, 5, 28, 28),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1},
    ),
    "thirds from the first element, columns without windows": (
        (2, 3, 15, 76),
        {"window_size": 3, "strides": 2},
    ),
    "thirds in bands, rows without windows": (
        (1, 2, 402, 134),
        {"window_size": 3, "strides": 2, "start_padding": (0, 1)},
    ),
    "thirds of short rows": (
        (2, 7, 6, 5),
        {"window_size": 3, "strides": 2, "start_padding": (1, 0), "end_padding": (1, 0)},
    ),
    "many rows": ((1, 1, 2900, 33), {"window_size": (5, 3), "end_padding": (2, 1)}),
}


@pytest.mark.core
@pytest.mark.decision("D-AVG-8")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ALONG_ROWS)
def test_averages_along_rows(name: str, dtype: str) -> None:
    shape, geometry = ALONG_ROWS[name]
    size = cudml.max_pooling(np.zeros(shape, np.float32), **geometry).shape
    grad = data(size, dtype, seed=len(name))
    for include in (False, True):
        check(
            "average_pooling_grad", grad, shape, **geometry, include_padding=include,
            layouts=("contiguous", "sliced"),
        )  # fmt: skip


@pytest.mark.core
def test_shares_are_added_after_the_division() -> None:
    """Gradients whose sum is no number of the type, though that of their shares is."""
    half = np.finfo(np.float32).max / 2
    grad = np.full((1, 1, 6, 40), half, np.float32)
    got = cudml.average_pooling_grad(grad, grad.shape, 3, 1, 1, 1, include_padding=True)
    np.testing.assert_allclose(got[0, 0, 1:-1, 1:-1], half, rtol=1e-6)
    assert np.isfinite(got[0, 0, [0, -1]]).all()


SAME = """
import hashlib
import numpy as np, cudml
from tests.pool.test_grad_blocks import ALONG_ROWS, CASES, lanes_last
from harness import data
total = hashlib.sha256()
for shape, geometry in (CASES | ALONG_ROWS).values():
    for planes, dtype in ((0, "float32"), (0, "float16"), (9, "float64"), (70, "float32")):
        sizes = (2, planes, *[min(n, 33) for n in shape[2:]]) if planes else shape
        x = data(sizes, dtype, 3)
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 4)
        if planes:
            x, grad = lanes_last(x), lanes_last(grad)
        room = np.zeros((sizes[0], sizes[1] + 2, *sizes[2:]), x.dtype)
        out = room[:, 1:-1]
        padded = {**geometry, "include_padding": True}
        for op, args, how in (
            ("max", (x, grad), geometry),
            ("average", (grad, sizes), geometry),
            ("average", (grad, sizes), padded),
        ):
            run = getattr(cudml, op + "_pooling_grad")
            for y in (run(*args, **how), run(*args, **how, out=out)):
                total.update(np.ascontiguousarray(y).tobytes())
        assert not room[:, 0].any() and not room[:, -1].any()
print(total.hexdigest())
"""


@pytest.mark.core
def test_results_past_the_caches_are_the_same() -> None:
    texts = {child_says(SAME, CUDML_STREAM_BYTES=b) for b in ("0", "1000000000000")}
    assert len(texts) == 1


@pytest.mark.parametrize("window", [(2, 2), (1, 2), (3, 2)])
@pytest.mark.parametrize("begin", [0, 1, 5])
def test_pairs_of_neighbours_wherever_the_result_begins(
    window: tuple[int, int], begin: int
) -> None:
    shape = (3, 5, 12, 70)
    grad = np.arange(3 * 5 * (12 // window[0]) * 35, dtype=np.float32)
    grad = grad.reshape(3, 5, 12 // window[0], 35)
    room = np.full(begin + 3 * 5 * 12 * 70 + 40, 7, np.float32)
    out = room[begin : begin + 3 * 5 * 12 * 70].reshape(shape)
    cudml.average_pooling_grad(grad, shape, window, window, out=out)
    shares = grad / np.float32(2 * window[0])
    assert np.array_equal(out, shares.repeat(window[0], 2).repeat(2, 3))
    assert (room[:begin] == 7).all() and (room[begin + out.size :] == 7).all()
