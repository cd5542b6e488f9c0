"""Where arrays lie decides which kernel takes windows of 3x3, and nothing else: single columns and
whole vectors give the same bits. Nor do tiles decide over those of larger windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backends
import batch_support
import cudml
import harness
from cudml import reference
from kernel_case import environment

DTYPES = [d for d in harness.FLOATS if d != "float64"]
ROWS = {  # size of x along rows, strides, pads before and behind
    "2 apart, a pad before": (48, 2, (1, 0)),
    "2 apart, a pad behind": (64, 2, (0, 1)),
    "1 apart": (32, 1, (1, 1)),
}
COLUMNS = {  # of x, pads before and behind
    "no pad": (19, (0, 0)),
    "one pad before": (34, (1, 2)),
    "two pads before, one step": (3, (2, 0)),
    "many strips": (131, (2, 1)),
}


def of_windows(columns: str, rows: str) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Sizes of x and of the result, and the windows."""
    (h, (top, bottom)), (w, stride, (left, right)) = COLUMNS[columns], ROWS[rows]
    windows = {"strides": stride, "start_padding": (top, left), "end_padding": (bottom, right)}
    out = [(n + pads - 3) // stride + 1 for n, pads in ((h, top + bottom), (w, left + right))]
    return (2, 3, h, w), (2, 3, *out), windows


def bits(kernel: str, op: str, call: dict[str, Any], seed: str = "0") -> np.ndarray:
    """Of the result, as integers, one for every NaN."""
    device = backends.current()
    sent = {k: device.to(v) for k, v in harness.arrays_of(call).items()}
    with environment(CUDML_KERNEL=kernel, CUDML_SIMT_SEED=seed):
        return batch_support.bits(
            device.back(harness.called(device, op, harness.with_arrays(call, sent)))
        )


@pytest.mark.device
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("include", [False, True])
def test_average_gradients(dtype: str, columns: str, rows: str, include: bool) -> None:
    shape, out, windows = of_windows(columns, rows)
    grad = harness.data(out, dtype, 7, "special" if include else "random")
    windows |= {"window_size": 3, "include_padding": include}
    call = {"grad": grad, "input_sizes": shape, **windows}
    first = bits("average_pool_grad_strips", "average_pooling_grad", call)
    for seed in ("0", "2"):
        found = bits("average_pool_grad_vector_strips", "average_pooling_grad", call, seed)
        assert (found == first).all(), seed


@pytest.mark.device
@pytest.mark.decision("D-TEN-9", "D-MAX-2", "D-MAX-3")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", [r for r in ROWS if r.startswith("2")])
@pytest.mark.parametrize("kind", ["random", "special", "exact", "lowest"])
def test_max_gradients(dtype: str, columns: str, rows: str, kind: str) -> None:
    """Also of ties, NaN and windows of nothing but the lowest value, whose first tap wins."""
    shape, out, windows = of_windows(columns, rows)
    x = harness.data(shape, dtype, 3, kind if kind != "lowest" else "exact")
    if kind == "lowest":
        x[:, 1:] = -np.inf
    grad = harness.data(out, dtype, 5)
    call = {"x": x, "grad": grad, "window_size": 3, **windows}
    first = bits("max_pool_grad_strips", "max_pooling_grad", call)
    for seed in ("0", "2"):
        found = bits("max_pool_grad_vector_strips", "max_pooling_grad", call, seed)
        assert (found == first).all(), seed


@pytest.mark.device
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["average_pooling_grad", "max_pooling_grad"])
def test_gradients_of_pairs(op: str, dtype: str) -> None:
    """Also zeros of either sign, and windows that the last row cuts short."""
    shape, out = (2, 3, 7, 48), (2, 3, 4, 25)
    grad = harness.data(out, dtype, 7, "special")
    grad[:, 1:] = np.where(np.arange(out[-1]) % 3, -0.0, 0.0)
    of = {"x": harness.data(shape, dtype, 3)} if op[0] == "m" else {"input_sizes": shape}
    grad = grad[..., :-1]
    call = {**of, "grad": grad, "window_size": 2, "strides": 2, "end_padding": (1, 0)}
    family = f"{op.partition('_')[0]}_pool_grad"
    rows = bits(f"{family}_row", op, call)
    call["grad"] = np.ascontiguousarray(grad)
    assert (bits(f"{family}_pairs", op, call) == rows).all()


@pytest.mark.device
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(("height", "top"), [(3, 1), (19, 0), (33, 2)])
def test_averages_of_rows_that_begin_anywhere(
    dtype: str, include: bool, height: int, top: int
) -> None:
    windows = {"window_size": 3, "start_padding": (top, 1), "end_padding": (1, 1)}
    x = harness.data((2, 3, height, 48), dtype, height)
    call = {"x": x, "include_padding": include, **windows}
    first = bits("pool_tile_3x3_s1", "average_pooling", call)
    apart = np.zeros((*x.shape[:-1], 51), x.dtype)[..., 3:]
    apart[...] = x
    for moved in (harness.LAYOUTS["misaligned"](x), apart):
        found = bits("pool_tile_3x3_s1", "average_pooling", {**call, "x": moved})
        assert (found == first).all()


@pytest.mark.device
@pytest.mark.decision("D-MAX-3", "D-MAX-4")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", ["random", "special", "lowest"])
def test_maxima_of_rows_that_begin_anywhere(dtype: str, columns: str, rows: str, kind: str) -> None:
    """Also of NaN in each place, and of windows that hold nothing or nothing but the lowest."""
    shape, out, windows = of_windows(columns, rows)
    x = harness.data(shape, dtype, 3, kind if kind != "lowest" else "exact")
    x += x.dtype.type(0)  # no zero has a sign: of two, either may come out (D-MAX-6)
    if kind == "lowest":
        x[:, 1:] = -np.inf
    call = {"x": x, "window_size": 3, **windows}
    kernel = f"pool_tile_3x3_s{windows['strides']}"
    first = bits(kernel, "max_pooling", call)
    assert first.shape == out
    expected = reference.max_pooling(**call)
    assert (first == batch_support.bits(expected)).all()
    apart = np.full((*x.shape[:-1], x.shape[-1] + 3), 3e4, x.dtype)[..., 3:]
    apart[...] = x
    for moved in (harness.LAYOUTS["misaligned"](x), apart):
        assert (bits(kernel, "max_pooling", {**call, "x": moved}) == first).all()


@pytest.mark.device
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["average_pooling", "max_pooling"])
def test_windows_in_tiles_of_any_size(op: str, dtype: str) -> None:
    """An output's bits are those of its window alone, whatever tile it stands in."""
    windows = {"window_size": (5, 4), "strides": (1, 2), "dilations": (2, 1)}
    x = harness.data((1, 2, 45, 160), dtype, 9)
    whole = bits("pool_separable", op, {"x": x, **windows})
    assert whole.shape == (1, 2, 37, 79)
    for top, left, rows, columns in ((0, 0, 45, 160), (3, 6, 20, 40), (17, 50, 9, 110)):
        part = x[:, :, top : top + rows, left : left + columns]
        found = bits("pool_separable", op, {"x": part, **windows})
        same = whole[:, :, top : top + rows - 8, left // 2 : left // 2 + (columns - 4) // 2 + 1]
        assert (found == same).all(), (top, left)


def test_which_kernel_is_chosen() -> None:
    """Whole vectors where rows are, else single columns; larger windows that overlap, by tiles."""

    def chosen(op: str, dtype: str, columns: int, **call: Any) -> str:
        x = np.zeros((2, 3, 20, columns), dtype)
        return cudml.explain(op, x, device="sm_90", **call).kernel

    same: dict[str, Any] = {"window_size": 3, "start_padding": 1, "end_padding": 1}
    for dtype, n in (("float16", 8), ("float32", 4)):
        for columns, kernel in ((3 * n, "vector_strips"), (3 * n + 1, "strips")):
            found = chosen("average_pooling_grad", dtype, columns, **same,
                           input_sizes=(2, 3, 20, columns))  # fmt: skip
            assert found == f"average_pool_grad_{kernel}"
    five = {"window_size": 5, "start_padding": 2, "end_padding": 2}
    assert chosen("max_pooling", "float16", 20, **five) == "pool_separable"
    assert chosen("average_pooling", "float32", 21, window_size=(4, 9)) == "pool_separable"
    assert chosen("max_pooling", "float32", 20, **five, return_indices=True) == "pool_window"
    assert chosen("max_pooling", "float32", 20, window_size=5, strides=5) == "pool_window"
