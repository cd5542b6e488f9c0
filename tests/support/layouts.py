"""How arrays lie in memory: every layout the tests use, outputs between guard bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

try:
    import ml_dtypes

    BFLOAT16: np.dtype | None = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BFLOAT16 = None

POISON = 0xFF


def dtype_of(name: Any) -> np.dtype:
    """The NumPy dtype of an element type's name; bfloat16 is ml_dtypes's."""
    if name == "bfloat16":
        assert BFLOAT16 is not None
        return BFLOAT16
    return np.dtype(name)


def _poisoned(count: int, dtype: np.dtype, align: int = 0) -> np.ndarray:
    """`count` elements of 0xFF bytes whose address is `align` bytes past a multiple of 64."""
    raw = np.full(count * dtype.itemsize + 192, POISON, np.uint8)
    skip = -raw.ctypes.data % 64 + align
    return raw[skip : skip + count * dtype.itemsize].view(dtype)


def ordered(x: np.ndarray, order: list[int], align: int = 0) -> np.ndarray:
    """A dense copy of x whose dimensions lie in memory in this order, outermost first."""
    flat = _poisoned(x.size, x.dtype, align)
    view = flat.reshape([x.shape[a] for a in order]).transpose(np.argsort(order))
    view[...] = x
    return view


def _contiguous(x: np.ndarray) -> np.ndarray:
    return ordered(x, list(range(x.ndim)))


def _column_major(x: np.ndarray) -> np.ndarray:
    return ordered(x, list(range(x.ndim))[::-1])


def channels_last_order(rank: int) -> list[int]:
    """Dimension 1 innermost; of rank 2, the transpose."""
    if rank == 2:
        return [1, 0]
    return [a for a in range(rank) if a != 1] + ([1] if rank > 1 else [])


def _permuted(x: np.ndarray) -> np.ndarray:
    """Channels-last: dimension 1 innermost in memory (of rank 2, the transpose)."""
    return ordered(x, channels_last_order(x.ndim))


def sliced(x: np.ndarray) -> np.ndarray:
    """Every second element of the last two dimensions and an inner part of the others."""
    steps = [2 if a >= x.ndim - 2 else 1 for a in range(x.ndim)]
    big = [n * s + 2 for n, s in zip(x.shape, steps, strict=True)]
    whole = _poisoned(math.prod(big), x.dtype).reshape(big)
    view = whole[tuple(slice(1, 1 + n * s, s) for n, s in zip(x.shape, steps, strict=True))]
    view[...] = x
    return view


def _misaligned(x: np.ndarray) -> np.ndarray:
    """Packed, but the base is one item past a multiple of 64 bytes."""
    return ordered(x, list(range(x.ndim)), x.dtype.itemsize)


def _negative(x: np.ndarray) -> np.ndarray:
    back = (slice(None, None, -1),) * x.ndim
    return _contiguous(x[back])[back]


def _byte_misaligned(x: np.ndarray) -> np.ndarray:
    return ordered(x, list(range(x.ndim)), 1)


def _broadcast(x: np.ndarray) -> np.ndarray:
    """Stride 0 along every dimension in which x does not vary."""
    small = x
    for a in range(x.ndim):
        first = small[(slice(None),) * a + (slice(0, 1),)]
        if small.shape[a] > 1 and np.broadcast_to(first, small.shape).tobytes() == small.tobytes():
            small = first
    return np.broadcast_to(_contiguous(small), x.shape)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": _contiguous,
    "column-major": _column_major,
    "permuted": _permuted,
    "sliced": sliced,
    "misaligned": _misaligned,
    "negative": _negative,
    "byte-misaligned": _byte_misaligned,
    "broadcast": _broadcast,
}
ALL = tuple(LAYOUTS)
LAYOUTS["as given"] = lambda x: x  # of tests that choose the memory of their arrays


def memory_order(x: np.ndarray) -> tuple[int, ...]:
    """x's dimensions of more than one element, from the largest stride to the smallest."""
    axes = [a for a in range(x.ndim) if x.shape[a] > 1]
    return tuple(sorted(axes, key=lambda a: -abs(x.strides[a])))


def order_problem(y: np.ndarray, like: np.ndarray) -> str:
    """Why y is not dense and ordered like `like` (D-TEN-8), or nothing."""
    if y.size == 0:
        return ""
    expected_stride = y.itemsize
    for a in reversed(memory_order(y)):
        if y.strides[a] != expected_stride:
            return f"strides {y.strides} of shape {y.shape} are not dense"
        expected_stride *= y.shape[a]
    known = [a for a in range(like.ndim) if like.shape[a] > 1 and like.strides[a] != 0]
    stride = [abs(s) for s in like.strides]
    settled = len(known) == sum(n > 1 for n in like.shape)
    if settled and all(stride[a] >= stride[b] for a, b in itertools.pairwise(known)):
        return "" if y.flags.c_contiguous else f"strides {y.strides} are not row-major"
    if settled and all(stride[a] <= stride[b] for a, b in itertools.pairwise(known)):
        return "" if y.flags.f_contiguous else f"strides {y.strides} are not column-major"
    order = [a for a in sorted(known, key=lambda a: -stride[a]) if y.shape[a] > 1]
    got = [a for a in memory_order(y) if a in order]
    return "" if got == order else f"memory order is {got}, expected {order} as in {like.strides}"


@dataclass(frozen=True)
class Guarded:
    """A poisoned output `view` inside a bigger poisoned buffer, with gaps between its rows."""

    view: np.ndarray
    raw: np.ndarray
    gaps: np.ndarray

    def damage(self) -> str:
        """Which guard byte was written, or nothing."""
        hurt = np.flatnonzero(self.gaps & (self.raw != POISON))
        return f"guard byte {hurt[0]} of {self.raw.size} was written" if hurt.size else ""


def guarded(shape: Any, dtype: Any, order: str = "C") -> Guarded:
    """A poisoned output array of this shape: row-major, column-major ("F"), with an inner step of 2
    ("S"), or in rows that begin at multiples of 64 bytes, row-major ("A") or dimension 1 innermost
    ("L").

    Guard bytes lie before and after it and between its rows; all start as 0xFF.
    """
    kind = dtype_of(dtype)
    axes = {"F": list(range(len(shape)))[::-1], "L": channels_last_order(len(shape))}.get(
        order, list(range(len(shape)))
    )
    sizes = [shape[a] for a in axes]
    steps = [2 if order == "S" and a == len(sizes) - 1 else 1 for a in range(len(sizes))]
    first = 0 if order in ("A", "L") else 1
    big = [n * s + 2 for n, s in zip(sizes, steps, strict=True)]
    if not first:
        big[-1] += -big[-1] % (64 // kind.itemsize)
    count = math.prod(big)
    raw = np.full(count * kind.itemsize + 256, POISON, np.uint8)
    skip = -raw.ctypes.data % 64 + 64
    window = tuple(slice(first, first + n * s, s) for n, s in zip(sizes, steps, strict=True))
    whole = raw[skip : skip + count * kind.itemsize].view(kind).reshape(big)
    owned = np.zeros((*big, kind.itemsize), np.bool_)
    owned[window] = True
    gaps = np.ones(raw.size, np.bool_)
    gaps[skip : skip + count * kind.itemsize] = ~owned.reshape(-1)
    return Guarded(whole[window].transpose(np.argsort(axes)), raw, gaps)
