"""Which input elements a pooling window sees: output sizes, taps and counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import LARGEST, axes_of, require, shown, whole, wholes

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Geometry = int | Sequence[int]
LARGEST_EXTENT = 2**31 - 1  # of a dilated window and of a padded dimension (D-POOL-7)
BLOCK = 1 << 21  # taps x outputs x batch elements held at once, to bound the memory used


@dataclass(frozen=True)
class Axis:
    """One pooled dimension; `out` is its output size."""

    size: int
    window: int
    stride: int
    start: int
    end: int
    dilation: int
    out: int

    def coordinates(self, taps: Ints) -> Ints:
        """x = o*S - P0 + k*D for each tap number k (rows) and output coordinate o (columns)."""
        o = np.arange(self.out, dtype=np.int64)
        return o * self.stride - self.start + taps[:, None] * self.dilation

    def live_taps(self) -> Ints:
        """The tap numbers that are real (0 <= x < In) for at least one output, ascending.

        Output o has those from ceil((P0 - o*S) / D) to floor((In - 1 + P0 - o*S) / D); from the
        last output to the first both ends rise, so that each adds what lies beyond the one before.
        """
        offset = self.start - np.arange(self.out, dtype=np.int64)[::-1] * self.stride
        last = np.minimum((self.size - 1 + offset) // self.dilation, self.window - 1)
        beyond = np.concatenate([[-1], np.maximum.accumulate(last)[:-1]]) + 1
        first = np.maximum(-(-offset // self.dilation), np.maximum(beyond, 0))
        count = np.maximum(last - first + 1, 0)
        skipped = first - (np.cumsum(count) - count)
        return np.repeat(skipped, count) + np.arange(count.sum())

    def real_count(self) -> Ints:
        """Taps with 0 <= x < In, for each output coordinate."""
        count = np.zeros(self.out, np.int64)
        for taps in np.array_split(self.live_taps(), self.out * self.window // BLOCK + 1):
            x = self.coordinates(taps)
            count += ((x >= 0) & (x < self.size)).sum(axis=0)
        return count

    def inside_count(self) -> Ints:
        """Taps with -P0 <= x < In + P1: those from 0 while o*S + k*D < In + P0 + P1."""
        o = np.arange(self.out, dtype=np.int64)
        room = self.size + self.start + self.end - 1 - o * self.stride
        return np.clip(room // self.dilation + 1, 0, self.window)

    def coverage(self) -> Ints:
        """How many windows hold each input element as a real tap."""
        count = np.zeros(self.size, np.int64)
        for tap in self.live_taps():
            x = self.coordinates(tap[None])[0]
            count[x[(x >= 0) & (x < self.size)]] += 1
        return count


@dataclass(frozen=True)
class Taps:
    """Some taps of every window, in row-major order: arrays of taps x outputs.

    source is the tap's position in its plane, meaningful where real.
    """

    source: Ints
    real: Bools


class Windows:
    """The windows over the pooled axes of an array of shape `shape`; other axes are batch.

    Arrays are seen as planes: batch x (the pooled axes, row-major).
    """

    def __init__(
        self,
        shape: Sequence[int],
        window_size: Geometry,
        strides: Geometry,
        start_padding: Geometry,
        end_padding: Geometry,
        dilations: Geometry,
        axes: int | Sequence[int] | None,
        output_sizes: Sequence[int] | str | None = None,
        *,
        op: str = "pooling",
    ) -> None:
        self.shape = tuple(shape)
        self.pooled = pooled_axes(op, len(self.shape), axes)
        self.batch = [a for a in range(len(self.shape)) if a not in self.pooled]
        m = len(self.pooled)
        geometry = (
            wholes(op, "WindowSize", window_size, m, 1, LARGEST),
            wholes(op, "Strides", strides, m, 1, LARGEST),
            wholes(op, "StartPadding", start_padding, m, 0, LARGEST),
            wholes(op, "EndPadding", end_padding, m, 0, LARGEST),
            wholes(op, "Dilations", dilations, m, 1, LARGEST),
        )
        rule = output_sizes if isinstance(output_sizes, str) else None
        text = f"{op}: output_sizes is {shown(output_sizes)}; it must be None, 'ceil' or ints"
        require(rule in (None, "ceil"), text)
        given: list[int] = []
        if rule is None and output_sizes is not None:
            given = wholes(op, "OutputTensor.Sizes", output_sizes, m, 1, LARGEST)
        self.axes: list[Axis] = []
        for i, row in enumerate(zip(*geometry, strict=True)):
            size = self.shape[self.pooled[i]]
            check_extents(op, i, size, *row)
            out = output_size(size, *row)
            if rule == "ceil":
                out = ceil_size(size, *row)
            elif given:
                field = f"OutputTensor.Sizes[{self.pooled[i]}]"
                out = whole(op, field, given[i], 1, limit(size, *row))
            self.axes.append(Axis(size, *row, out))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the pooled array."""
        shape = list(self.shape)
        for a, axis in zip(self.pooled, self.axes, strict=True):
            shape[a] = axis.out
        return tuple(shape)

    def planes(self, x: NDArray[Any]) -> NDArray[Any]:
        """x (or an array of the output shape) as batch x plane."""
        moved = x.transpose(*self.batch, *self.pooled)
        plane = math.prod(moved.shape[len(self.batch) :])
        rows = math.prod(moved.shape[: len(self.batch)])
        return np.reshape(moved, (rows, plane))

    def restore(self, planes: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        """The inverse of planes, for an array of shape `shape`."""
        order = [*self.batch, *self.pooled]
        moved = planes.reshape([shape[a] for a in order])
        return np.ascontiguousarray(moved.transpose(np.argsort(order)))

    def taps(self) -> Iterator[Taps]:
        """Every tap that is real somewhere, in row-major order, some at a time."""
        live = [axis.live_taps() for axis in self.axes]
        total = math.prod(map(len, live))
        outputs = math.prod(self.output_shape)
        step = max(1, BLOCK // max(1, outputs))
        for first in range(0, total, step):
            numbers = np.arange(first, min(first + step, total))
            yield self._block(
                [
                    live[a][k]
                    for a, k in enumerate(np.unravel_index(numbers, [len(r) for r in live]))
                ]
            )

    def _block(self, taps: list[Ints]) -> Taps:
        """The taps numbered taps[0], taps[1], … along the pooled axes."""
        m, count = len(self.axes), len(taps[0])
        source = np.zeros([count] + [1] * m, np.int64)
        real = np.ones([count] + [1] * m, np.bool_)
        for a, axis in enumerate(self.axes):
            x = axis.coordinates(taps[a]).reshape(
                [count] + [axis.out if b == a else 1 for b in range(m)]
            )
            real = real & (x >= 0) & (x < axis.size)
            source = source * axis.size + x
        shape = (count, math.prod(axis.out for axis in self.axes))
        real = real.reshape(shape)
        return Taps(np.where(real, source.reshape(shape), 0), real)

    def product(self, counts: list[Ints]) -> Ints:
        """The product of one count per pooled axis, flattened like a plane."""
        result = np.ones(1, np.int64)
        for count in counts:
            result = np.multiply.outer(result, count).reshape(-1)
        return result

    def real_count(self) -> Ints:
        """Real taps of each window, flattened like a plane of outputs."""
        return self.product([axis.real_count() for axis in self.axes])

    def inside_count(self) -> NDArray[np.float64]:
        """Taps inside the padded extent, for each window: up to 2**93, so in float64."""
        result = np.ones(1)
        for axis in self.axes:
            result = np.multiply.outer(result, axis.inside_count()).reshape(-1)
        return result

    def coverage(self) -> Ints:
        """Windows that hold each input element, flattened like a plane of inputs."""
        return self.product([axis.coverage() for axis in self.axes])


def pooled_axes(op: str, rank: int, axes: int | Sequence[int] | None) -> list[int]:
    """The pooled axes counted from 0; None means 2 to rank-1 of ranks 3 to 5 (D-POOL-10)."""
    if axes is None:
        text = f"{op}: InputTensor.DimensionCount is {rank}; without axes it must be 3, 4 or 5"
        require(3 <= rank <= 5, text)
        return list(range(2, rank))
    result = axes_of(op, axes, rank)
    require(1 <= len(result) <= 3, f"{op}: Axes has {len(result)} entries; it must have 1 to 3")
    ascending = all(a < b for a, b in itertools.pairwise(result))
    require(ascending, f"{op}: Axes is {shown(axes)}; axes must ascend strictly")
    return result


def check_extents(op: str, i: int, size: int, w: int, s: int, p0: int, p1: int, d: int) -> None:
    """Refuse an empty dimension, a window that does not fit, and extents beyond 31 bits."""
    extent, padded = 1 + (w - 1) * d, size + p0 + p1
    require(size >= 1, f"{op}: pooled dimension {i} is empty; it must have at least 1 element")
    text = f"{op}: WindowSize[{i}] is {w} with Dilations[{i}] {d}, an extent of {extent}"
    require(extent <= LARGEST_EXTENT, f"{text}; it must not exceed {LARGEST_EXTENT}")
    grown = f"{op}: pooled dimension {i} is {size} + {p0} + {p1} elements with its padding"
    require(padded <= LARGEST_EXTENT, f"{grown}; they must not exceed {LARGEST_EXTENT}")
    require(extent <= padded, f"{text}; it must not exceed the padded size {padded}")


def output_size(size: int, w: int, s: int, p0: int, p1: int, d: int) -> int:
    """Out = (Padded - K) / S + 1 with K = 1 + (W - 1)*D, the floor rule (D-POOL-1)."""
    return (size + p0 + p1 - (1 + (w - 1) * d)) // s + 1


def limit(size: int, w: int, s: int, p0: int, p1: int, d: int) -> int:
    """OutCeil = ceil_div(Padded - K, S) + 1, the largest size accepted (D-POOL-2)."""
    return -(-(size + p0 + p1 - (1 + (w - 1) * d)) // s) + 1


def ceil_size(size: int, w: int, s: int, p0: int, p1: int, d: int) -> int:
    """Out = min(OutCeil, ceil_div(In + P0, S)) (D-VER-6)."""
    return min(limit(size, w, s, p0, p1, d), -(-(size + p0) // s))
