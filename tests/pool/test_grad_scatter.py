"""Max pooling's gradient by winners that are found first, where its sums are elements of the result
and where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import check, data
from layouts import ordered
from pool_support import FLOATS, dtype_of

OP = "max_pooling_grad"
PATH = "pool_grad/max_scatter"
# Windows that overlap, with gaps and dilated; ones that never do; of one plane that is cut into
# ranges, by rows, and by slices.
WINDOWS: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((19, 23), {"window_size": (3, 5), "strides": 2, "start_padding": 1, "dilations": (2, 1)}),
    ((18, 25), {"window_size": (2, 3), "strides": (3, 5), "end_padding": 2}),
    ((6, 9, 11), {"window_size": 3, "strides": 2, "start_padding": (1, 0, 2)}),
    ((601, 211), {"window_size": 3, "strides": 2, "dilations": 2}),
    ((601, 211), {"window_size": (2, 3), "strides": (2, 5)}),
    ((5, 300, 90), {"window_size": 2, "strides": 3}),
)
# Channels last, of as many as are not taken side by side, and images last.
ORDERS = {"first": None, "last": 1, "images": 0}


def placed(x: np.ndarray, order: str) -> np.ndarray:
    last = ORDERS[order]
    axes = [a for a in range(x.ndim) if a != last]
    return ordered(x, axes if last is None else [*axes, last])


def takes(x: np.ndarray, grad: np.ndarray, geometry: dict[str, Any]) -> bool:
    return str(cudml.explain(OP, x, grad, **geometry, device="cpu").kernel) == PATH


@pytest.mark.core
@pytest.mark.decision("D-MAX-2", "D-MAX-10", "D-MAX-11")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", ORDERS)
def test_windows_of_every_kind(order: str, dtype: str) -> None:
    for sizes, geometry in WINDOWS:
        large = int(np.prod(sizes)) > 100000
        shape = (1, 2, *sizes) if large else (2, 3, *sizes)
        x = placed(data(shape, dtype, 1), order)
        grad = placed(data(cudml.max_pooling(x, **geometry).shape, dtype, 2), order)
        assert takes(x, grad, geometry), (sizes, geometry)
        check(OP, x, grad, layouts=("as given",), backend=CPU, **geometry)


@pytest.mark.core
@pytest.mark.decision("D-MAX-11", "D-TEN-5")
@pytest.mark.parametrize("dtype", FLOATS)
def test_wherever_results_are(dtype: str) -> None:
    """The same bits in results of any strides; nothing is written between them."""
    for sizes, geometry in WINDOWS[:3]:
        x = data((2, 3, *sizes), dtype, 1)
        grad = data(cudml.max_pooling(x, **geometry).shape, dtype, 2)
        want = cudml.max_pooling_grad(x, grad, **geometry)
        rows = np.full((*x.shape[:-1], 2 * x.shape[-1]), 7).astype(x.dtype)
        lanes = np.full((2, *sizes, 5), 7).astype(x.dtype)
        planes = np.full((2, 3, sizes[0] + 1, *sizes[1:]), 7).astype(x.dtype)
        turned = np.full((2, 3, *sizes[::-1]), 7).astype(x.dtype)
        axes = (0, 1, *range(x.ndim - 1, 1, -1))
        for room, out in (
            (rows, rows[..., 1::2]), (lanes, np.moveaxis(lanes[..., 1:4], -1, 1)),
            (planes, planes[:, :, 1:]), (turned, turned.transpose(axes)),
        ):  # fmt: skip
            cudml.max_pooling_grad(x, grad, **geometry, out=out)
            assert out.copy("C").tobytes() == want.tobytes(), (sizes, out.strides)
            out[...] = 7
            assert (room == 7).all()


@pytest.mark.core
@pytest.mark.decision("D-MAX-11", "D-MAX-4")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", ORDERS)
def test_zeros_and_what_is_not_finite(order: str, dtype: str) -> None:
    """A sum of nothing but -0 is 0, as 0 is where it begins; windows in pads hand out nothing."""
    for sizes, geometry in WINDOWS[:3]:
        x = placed(data((2, 3, *sizes), dtype, 1), order)
        shape = cudml.max_pooling(x, **geometry).shape
        grad = placed(np.full(shape, -0.0).astype(dtype_of(dtype)), order)
        got = cudml.max_pooling_grad(x, grad, **geometry).astype("f8")
        assert not got.any() and not np.signbit(got).any()
        grad[0, 0, 1], grad[1, 2, 0] = np.inf, np.nan
        check(OP, x, grad, layouts=("as given",), backend=CPU, **geometry)
    pads = {"window_size": 2, "strides": (3, 4), "start_padding": 4, "end_padding": 5}
    x = placed(data((2, 3, 5, 6), dtype, 3), order)
    grad = placed(data(cudml.max_pooling(x, **pads).shape, dtype, 4), order)
    check(OP, x, grad, layouts=("as given",), backend=CPU, **pads)


SHARES = """
from tests.pool import test_grad_scatter
test_grad_scatter.same_by_threads()
print("done")
"""


def same_by_threads() -> None:
    for dtype in FLOATS:
        for sizes, geometry in WINDOWS[3:]:
            for order in ORDERS:
                x = placed(data((1, 2, *sizes), dtype, 1), order)
                grad = placed(data(cudml.max_pooling(x, **geometry).shape, dtype, 2), order)
                cudml.set_num_threads(1)
                want = cudml.max_pooling_grad(x, grad, **geometry)
                for threads in (2, 5):
                    cudml.set_num_threads(threads)
                    got = cudml.max_pooling_grad(x, grad, **geometry)
                    assert got.tobytes() == want.tobytes(), (dtype, sizes, order, threads)


@pytest.mark.decision("D-MAX-11", "D-TEN-9")
def test_threads_reach_no_bit() -> None:
    assert child_says(SHARES, limit=120) == "done"
