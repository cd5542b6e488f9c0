"""Copies that turn rows into columns: padding without pads whose result has another memory order
than x, in squares of vectors, the last of which takes columns of the one before again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml

pytestmark = [pytest.mark.core, pytest.mark.small]
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47)


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """All bytes different from their neighbours'."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    spread = np.arange(count, dtype=np.uint64) * 40503 >> 3
    return spread.astype(np.uint8).view(dtype).reshape(shape)


def copied(x: np.ndarray, order: tuple[int, ...], gap: int, **more: Any) -> np.ndarray:
    """x without pads in an output of this memory order, outermost first, rows `gap` apart."""
    sizes = [x.shape[d] for d in order]
    memory = np.full((*sizes[:-1], sizes[-1] + gap), 0xA5, x.dtype)
    out = memory[..., : sizes[-1]].transpose(np.argsort(order))
    cudml.padding(x, 0, 0, **more, out=out)
    assert (memory[..., sizes[-1] :] == np.array(0xA5).astype(x.dtype)).all()
    return out


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("rows", SIZES)
def test_matrices(rows: int, dtype: str) -> None:
    for columns in SIZES:
        x = numbers((columns, rows), dtype).T
        for gap in (0, 3):
            np.testing.assert_array_equal(copied(x, (0, 1), gap), x)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 1, 3, 2), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_other_dimensions(order: tuple[int, ...], dtype: str) -> None:
    """Around the two that are turned, whichever they are; one of x may be repeated or apart."""
    whole = numbers((3, 34, 2, 37), dtype.replace("float", "uint")).view(dtype)
    for x in (
        whole,
        whole[:, ::2],
        whole[:, :, ::-1],
        np.broadcast_to(whole[:, :1], (3, 20, 2, 37)),
    ):
        out = copied(x, order, 1)
        unsigned = dtype.replace("float", "uint")
        np.testing.assert_array_equal(out.view(unsigned), np.ascontiguousarray(x).view(unsigned))


def test_many_rows_by_all_threads() -> None:
    """Past the caches, and where tasks are many."""
    x = np.arange(900 * 1100, dtype="float32").reshape(900, 1100).T
    np.testing.assert_array_equal(copied(x, (0, 1), 0), x)
