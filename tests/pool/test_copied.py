"""Planes whose elements lie in another order than their positions, or apart: winners and max
gradients are those of packed planes, bit for bit, and nothing beside them is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import reference
from pool_support import FLOATS, dtype_of, same_bits

pytestmark = pytest.mark.core
Make = Callable[[tuple[int, ...], Any], np.ndarray]


def columns_first(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """As Fortran has volumes: the first pooled dimension is the fastest."""
    batch, space = shape[:2], shape[2:]
    return np.empty((*batch, *space[::-1]), dtype).transpose(0, 1, *range(len(shape) - 1, 1, -1))


def apart(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.empty((*shape[:-1], 2 * shape[-1] + 1), dtype)[..., 1::2]


def turned_apart(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    wide = np.empty((shape[1], shape[0], *shape[:1:-1], 2), dtype)[..., 1]
    return wide.transpose(1, 0, *range(len(shape) - 1, 1, -1))


def every_third_channel(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    n, c, *space = shape
    return np.moveaxis(np.empty((n, *space, 3 * c), dtype)[..., 2::3], -1, 1)


LAYOUTS: dict[str, Make] = {
    "columns first": columns_first,
    "apart": apart,
    "turned and apart": turned_apart,
    "every third channel": every_third_channel,
}
# x's shape, and windows that are kept by no path along planes side by side.
CALLS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "3x2": (
        (2, 3, 9, 14),
        {"window_size": (3, 2), "strides": 2, "start_padding": (1, 0), "end_padding": (0, 1)},
    ),
    "dilated": ((3, 2, 11, 13), {"window_size": (2, 3), "strides": (1, 2), "dilations": (3, 2)}),
    "volumes": ((2, 3, 5, 6, 7), {"window_size": (2, 1, 3), "strides": (2, 3, 1)}),
    "whole rows": ((2, 3, 8, 12), {"window_size": (1, 12)}),
    "whole planes": ((3, 5, 6, 7), {"window_size": (6, 7)}),
    "few": ((1, 2, 5, 6), {"window_size": 2, "strides": 1}),
    "a signal": ((3, 5, 41), {"window_size": 4, "strides": 3, "end_padding": 2}),
}
each_call = pytest.mark.parametrize("name", CALLS)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def values(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    """Few different ones, so that many tie, of floats also zeros of both signs and NaN."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3 if np.issubdtype(dtype, np.signedinteger) else 0, 4, shape)
    a = x.astype(dtype)
    if not np.issubdtype(dtype, np.integer):
        a[rng.random(shape) < 0.1] = -0.0
        a[rng.random(shape) < 0.05] = np.nan
        a[rng.random(shape) < 0.05] = -np.inf
    return a


def placed(layout: str, a: np.ndarray) -> np.ndarray:
    there = LAYOUTS[layout](a.shape, a.dtype)
    there[...] = a
    return there


class Guarded:
    """An output of poison in a layout; what lies between its elements must stay."""

    def __init__(self, layout: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.array = LAYOUTS[layout](shape, dtype)
        self.memory = self.array
        while isinstance(self.memory.base, np.ndarray):
            self.memory = self.memory.base
        self.memory.view(np.uint8)[...] = 0xA5

    def check(self, expected: np.ndarray) -> None:
        assert same_bits(self.array, expected)
        self.array.view(f"u{self.array.itemsize}")[...] = int.from_bytes(
            b"\xa5" * self.array.itemsize, "little"
        )
        assert (self.memory.view(np.uint8) == 0xA5).all()


@pytest.mark.small
@each_call
@each_layout
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint16", "int32", "uint64"])
def test_winners(layout: str, name: str, dtype: str) -> None:
    (shape, arguments), kind = CALLS[name], dtype_of(dtype)
    x = values(shape, kind, len(name))
    for index in ("uint32", "uint64"):
        call = {**arguments, "return_indices": True, "index_dtype": index}
        best, where = reference.max_pooling(x, **call)
        y = Guarded(layout, best.shape, kind)
        indices = Guarded(layout, best.shape, np.dtype(index))
        cudml.max_pooling(placed(layout, x), **call, out=(y.array, indices.array))
        y.check(best.astype(kind))
        indices.check(where)


@pytest.mark.small
@each_call
@each_layout
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients(layout: str, name: str, dtype: str) -> None:
    """Of integers, whose sums are the same in any order."""
    (shape, arguments), kind = CALLS[name], dtype_of(dtype)
    x = values(shape, kind, 7)
    grad = values(reference.max_pooling(x, **arguments).shape, np.int64, 8).astype(kind)
    dx = Guarded(layout, shape, kind)
    sent = placed(layout, x), placed(layout, grad)
    cudml.max_pooling_grad(*sent, **arguments, out=dx.array)
    dx.check(reference.max_pooling_grad(x, grad, **arguments).astype(kind))


# Of 4 MB there are several blocks: some of each plane's neighbours, whole rows of planes, planes.
BLOCKS = [(2, 150, 40, 40), (150, 2, 40, 40), (2, 3, 600, 500), (5, 130, 3, 170)]


@pytest.mark.parametrize("shape", BLOCKS)
@pytest.mark.parametrize("layout", ["columns first", "apart"])
def test_many_planes(layout: str, shape: tuple[int, ...]) -> None:
    """Indices count on from block to block, and gradients are put where they belong."""
    x = np.random.default_rng(1).integers(0, 50, shape).astype("float64")
    there = placed(layout, x)
    for index in ("uint32", "uint64"):
        call: dict[str, Any] = {"window_size": 3, "strides": 2, "start_padding": 1}
        best, where = cudml.max_pooling(x, **call, return_indices=True, index_dtype=index)
        y, indices = cudml.max_pooling(there, **call, return_indices=True, index_dtype=index)
        assert same_bits(y, best)
        assert same_bits(indices, where)
    grad = np.random.default_rng(2).integers(-9, 9, best.shape).astype("float64")
    dx = cudml.max_pooling_grad(there, placed(layout, grad), **call)
    assert same_bits(dx, cudml.max_pooling_grad(x, grad, **call))


def test_a_window_of_pads_alone_has_no_index() -> None:
    """Its sentinel stays what it is in planes that count from others."""
    shape = (2, 150, 40, 40)
    x = placed("columns first", np.ones(shape, "float32"))
    call: dict[str, Any] = {"window_size": 2, "strides": 2, "start_padding": (4, 0)}
    for index in ("uint32", "uint64"):
        y, indices = cudml.max_pooling(x, **call, return_indices=True, index_dtype=index)
        none = np.iinfo(index).max
        assert (indices[:, :, :2] == none).all() and (y[:, :, :2] == -np.inf).all()
        firsts = 1600 * np.arange(300).reshape(2, 150)
        assert (indices[:, :, 2, 0] == firsts).all()


def test_expanded_planes_that_no_memory_could_hold() -> None:
    """They take no copies, which the paths along rows would need."""
    x = np.broadcast_to(np.int64(7), (1, 1, 1 << 16, 1 << 22))
    y, indices = cudml.max_pooling(
        x, (2, 3), strides=(1 << 14, 2), return_indices=True, index_dtype="uint64"
    )
    assert (y == 7).all()
    rows, columns = np.arange(4, dtype="uint64")[:, None] << 14, 2 * np.arange((1 << 21) - 1)
    np.testing.assert_array_equal(indices[0, 0], (rows << 22) + columns.astype("uint64"))
