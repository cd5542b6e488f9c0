"""Small arrays, memory layouts and expected sizes shared by the pooling tests."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

from harness import FLOATS, INTEGERS, dtype_of

EVERY = (*FLOATS, *INTEGERS)
INDICES = ("uint32", "uint64", "int64")
LIMIT = 2**32 - 1  # the largest pad, window, stride, dilation and exponent


def line(values: Any, dtype: str = "float32") -> np.ndarray:
    """`values` along the only spatial dimension of a {1, 1, n} array."""
    return np.array(values, dtype_of(dtype)).reshape(1, 1, -1)


def plane(rows: Any, dtype: str = "float32") -> np.ndarray:
    """`rows` as the only plane of a {1, 1, H, W} array."""
    return np.array(rows, dtype_of(dtype))[None, None]


def bits(a: np.ndarray) -> bytes:
    """The elements of `a` in logical order, as bytes."""
    return np.ascontiguousarray(a).tobytes()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def sentinel(dtype: Any) -> Any:
    """The index of a window without a real tap: all bits set."""
    return np.array(-1).astype(np.dtype(dtype)).item()


def channels_last(a: np.ndarray) -> np.ndarray:
    """The same logical {N, C, spatial...} array with the channels innermost in memory."""
    packed = np.ascontiguousarray(np.moveaxis(a, 1, -1))
    return np.moveaxis(packed, -1, 1)


def floor_size(n: int, w: int, s: int, p0: int, p1: int, d: int) -> int:
    """The floor rule, counted: how many windows fit into the padded extent."""
    padded, reach = n + p0 + p1, (w - 1) * d
    return sum(1 for start in range(0, padded, s) if start + reach < padded)


def ceil_limit(n: int, w: int, s: int, p0: int, p1: int, d: int) -> int:
    """OutCeil: the first window that reaches or passes the last padded element is the last one."""
    padded, reach, count = n + p0 + p1, (w - 1) * d, 1
    while (count - 1) * s + reach < padded - 1:
        count += 1
    return count


def sparse(elements: int, dtype: str) -> np.ndarray:
    """A zeroed array that takes memory only where it is written."""
    size = elements * dtype_of(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        memory = mmap.mmap(-1, size, flags=flags)
    except (OSError, ValueError) as error:
        pytest.skip(f"{size} bytes of address space are not to be had: {error}")
    return np.frombuffer(memory, dtype_of(dtype))


def strided(base: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """A view of `base` with strides in elements."""
    return np.lib.stride_tricks.as_strided(
        base, shape, tuple(step * base.itemsize for step in strides)
    )
