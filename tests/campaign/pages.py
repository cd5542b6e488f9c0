"""Where arrays lie: strided views into memory between two pages that may not be touched."""

from __future__ import annotations

import ctypes
import mmap
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True)
class Layout:
    """How an array lies: steps in elements, against which page it stands, or bytes past a page.

    at is "end" (its last byte is the last before a protected page), "start" (its first is the first
    after one) or "middle" (`shift` bytes past a page's begin).
    """

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    at: str = "end"
    shift: int = 0

    def extent(self) -> tuple[int, int]:
        """The lowest and the highest element relative to the first one; of no element, 0 and -1."""
        if 0 in self.shape:
            return 0, -1
        reach = [(n - 1) * s for n, s in zip(self.shape, self.steps, strict=True)]
        return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)


@dataclass(frozen=True)
class Placed:
    """A view, and the bytes from its lowest to beyond its highest element."""

    view: np.ndarray
    room: Room
    begin: int
    end: int

    def bits(self) -> np.ndarray:
        """The same elements as unsigned integers of their size."""
        v = self.view
        kind = np.dtype(f"u{v.itemsize}")
        first = v.ctypes.data - self.room.address
        return np.ndarray(v.shape, kind, self.room.memory, first, v.strides)

    def inside(self) -> bytes:
        """The bytes from the lowest to the highest element, gaps included."""
        return self.room.bytes[self.begin : self.end].tobytes()

    def poison(self, byte: int) -> None:
        """Fills the extent and its surroundings."""
        self.room.bytes[self._around()] = byte

    def damage(self, byte: int) -> str:
        """Which byte beside the elements is not `byte` any more; the elements are overwritten."""
        self.bits()[...] = int.from_bytes(bytes([byte]) * self.view.itemsize, "little")
        around = self.room.bytes[self._around()]
        if (around == byte).all():
            return ""
        at = int(np.flatnonzero(around != byte)[0]) + self._around().start - self.begin
        return f"byte {at} from its lowest element, outside it, was written"

    def _around(self) -> slice:
        room = self.room
        return slice(max(PAGE, self.begin - 256), min(room.size - PAGE, self.end + 256))


class Room:
    """Memory of `pages` pages between two protected ones, in which one array at a time lies."""

    def __init__(self, pages: int) -> None:
        self.size = (pages + 2) * PAGE
        self.memory = mmap.mmap(-1, self.size)
        self.bytes = np.frombuffer(self.memory, np.uint8)
        self.address = self.bytes.ctypes.data
        for at in (0, self.size - PAGE):
            if _libc.mprotect(self.address + at, PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect failed")

    @property
    def capacity(self) -> int:
        return self.size - 2 * PAGE

    def place(self, layout: Layout, dtype: np.dtype[Any]) -> Placed:
        """A view of this layout; what it holds is undefined."""
        low, high = layout.extent()
        span = (high - low + 1) * dtype.itemsize
        begin = PAGE + layout.shift if layout.at == "middle" else PAGE
        if layout.at == "end":
            begin = self.size - PAGE - span
        if span > self.capacity or begin + span > self.size - PAGE:
            raise ValueError(f"an extent of {span} bytes does not fit {self.capacity}")
        strides = tuple(s * dtype.itemsize for s in layout.steps)
        first = begin - low * dtype.itemsize
        view = np.ndarray(layout.shape, dtype, self.memory, first, strides)
        return Placed(view, self, begin, begin + span)


def dense(shape: tuple[int, ...], order: list[int] | None = None) -> tuple[int, ...]:
    """Steps of a packed array whose dimensions lie in memory in this order, outermost first."""
    return _nested(shape, order or list(range(len(shape))), [1] * len(shape), [0] * len(shape))


def _nested(shape: Any, order: list[int], gaps: list[int], more: list[int]) -> tuple[int, ...]:
    steps, step = [0] * len(shape), 1
    for a in reversed(order):
        step *= gaps[a]
        steps[a] = step
        step = step * max(shape[a], 1) + more[a]
    return tuple(steps)


def _order(r: random.Random, rank: int) -> list[int]:
    order = list(range(rank))
    kind = r.random()
    if kind < 0.5 or rank < 2:
        return order
    if kind < 0.7:
        return [order[0], *order[2:], 1]  # channels last
    if kind < 0.8:
        return order[::-1]
    r.shuffle(order)
    return order


def _at(r: random.Random, itemsize: int, bytewise: bool) -> tuple[str, int]:
    kind = r.random()
    if kind < 0.45:
        return "end", 0
    if kind < 0.75:
        return "start", 0
    return "middle", r.randrange(64) if bytewise and kind > 0.97 else r.randrange(64) * itemsize


def output_layout(r: random.Random, shape: tuple[int, ...], itemsize: int) -> Layout:
    """A legal output: each step exceeds the extent of the smaller ones."""
    rank, order = len(shape), _order(r, len(shape))
    gaps, more = [1] * rank, [0] * rank
    if r.random() < 0.3:
        for a in range(rank):
            gaps[a], more[a] = r.choice((1, 1, 2, 3)), r.choice((0, 0, 1, 5))
    steps = _odd_steps_of_one(r, shape, list(_nested(shape, order, gaps, more)), (1, 3, 1000))
    return Layout(shape, steps, *_at(r, itemsize, False))


def input_layout(r: random.Random, shape: tuple[int, ...], itemsize: int) -> Layout:
    """Any layout: packed, permuted, with gaps, backwards, repeated or overlapping."""
    rank, order, kind = len(shape), _order(r, len(shape)), r.random()
    gaps, more = [1] * rank, [0] * rank
    if 0.5 < kind < 0.7:
        for a in range(rank):
            gaps[a], more[a] = r.choice((1, 1, 2, 3)), r.choice((0, 0, 1, 5))
    steps = list(_nested(shape, order, gaps, more))
    if 0.7 < kind < 0.77:
        steps = [s * r.choice((1, 1, -1)) for s in steps]
    elif 0.77 < kind < 0.9:
        kept = [a for a in range(rank) if r.random() < 0.5]
        packed = dense(tuple(shape[a] if a in kept else 1 for a in range(rank)), order)
        steps = [packed[a] if a in kept else 0 for a in range(rank)]
    elif kind > 0.9:
        steps = [r.choice((0, 1, 1, 2, shape[-1], shape[-1] + 1, s)) for s in steps]
        steps[-1:] = [r.choice((1, 1, 1, 0, 2))] if rank else []
    return Layout(
        shape, _odd_steps_of_one(r, shape, steps, (0, 1, 7, 1000)), *_at(r, itemsize, True)
    )


def _odd_steps_of_one(
    r: random.Random, shape: tuple[int, ...], steps: list[int], odd: tuple[int, ...]
) -> tuple[int, ...]:
    """Dimensions of one element may have any step: now and then they do."""
    if r.random() < 0.15:
        steps = [r.choice(odd) if n == 1 else s for n, s in zip(shape, steps, strict=True)]
    return tuple(steps)
