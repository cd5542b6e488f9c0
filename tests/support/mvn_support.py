"""Rows to normalize, and whether each comes out the same among others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

import cudml
from pool_support import dtype_of


def rows_of_every_kind(count: int, length: int, dtype: str) -> np.ndarray:
    """Near 0, far from 0 by 3 and by 50 deviations, constant, zero, tiny, one element apart."""
    rng = np.random.default_rng([count, length])
    x = rng.standard_normal((count, length))
    x[1::8] += 3
    x[2::8] -= 50
    x[3::8] = 0.1
    x[4::8] = 0
    x[5::8] *= 2.0**-20
    x[6::8, 1:] = 1234
    return x.astype(dtype_of(dtype))


def bits(y: np.ndarray) -> np.ndarray:
    """Its bytes, with one NaN for all: the sign and payload of one that is computed are free."""
    y = np.array(y, order="C")
    is_nan = np.isnan(y.astype(np.float64))
    if is_nan.any():
        y[is_nan] = np.nan
    return y.view(np.uint8)


def placed(
    shape: Sequence[int], dtype: np.dtype, offset: int, gap: int
) -> tuple[np.ndarray, np.ndarray]:
    """A buffer of sevens, and in it packed groups of this shape, the first dimension's, with `gap`
    elements between them, `offset` after a line of memory."""
    count, size = shape[0], math.prod(shape[1:])
    room = np.full(count * (size + gap) + 128, 7).astype(dtype)
    at = (-room.ctypes.data % 64) // room.itemsize + offset
    rows = room[at : at + count * (size + gap)].reshape(count, -1)[:, :size]
    inner = np.empty(shape[1:], dtype).strides
    return room, np.lib.stride_tricks.as_strided(rows, tuple(shape), (rows.strides[0], *inner))


def same_among_others(
    dtype: str,
    length: int,
    counts: Sequence[int],
    places: Iterable[tuple[int, int]],
    threads: Sequence[int] = (2,),
) -> None:
    """`counts` rows at once have the bits that each has alone, and nothing else is written.

    `places`: elements from a line of memory to the first row of y, and from each row to the next.
    """
    most = max(counts)
    x = rows_of_every_kind(most, length, dtype)
    x[17, 5], x[18, 9] = np.inf, np.nan
    scale, bias = np.random.default_rng(7).standard_normal((2, 1, length)).astype(x.dtype)

    def normalized(rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return cudml.mean_variance_normalization(rows, scale, bias, axes=1, out=out)

    cudml.set_num_threads(1)
    alone = np.concatenate([normalized(x[i : i + 1]) for i in range(most)])
    nans = np.isnan(alone.astype(np.float32)).any(axis=1)
    assert np.flatnonzero(nans).tolist() == [17, 18]
    for count, (offset, gap), number in itertools.product(counts, places, threads):
        cudml.set_num_threads(number)
        case = (dtype, length, count, offset, gap, number)
        room, y = placed((count, length), x.dtype, offset, gap)
        normalized(x[:count], out=y)
        assert (bits(y) == bits(alone[:count])).all(), case
        y[...] = x[:count]
        normalized(y, out=y)
        assert (bits(y) == bits(alone[:count])).all(), ("in place", *case)
        y[...] = 7
        assert (room == 7).all(), case
