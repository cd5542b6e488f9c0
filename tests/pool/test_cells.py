"""Max unpooling of what windows side by side have left: each index in a box of its source's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import data
from pool_support import channels_last, same_bits

KINDS = ("uint32", "uint64", "int32", "int64")
# The same, of more targets than a task has.
LARGE: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool]] = {
    "rows": ((1, 2, 70, 150), (1, 2, 141, 301), False),
    "volumes": ((1, 2, 4, 30, 130), (1, 2, 9, 61, 261), False),
    "rows of many channels": ((1, 64, 16, 40), (1, 64, 33, 81), True),
    "volumes of many channels": ((1, 64, 4, 7, 10), (1, 64, 9, 15, 21), True),
}
MANY = 61711  # channels, of which tasks of 256 leave 15
# Sizes of x and of the result.
PLANES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a row": ((2, 3, 131), (2, 3, 262)),
    "a long row": ((1, 2, 4099), (1, 2, 8199)),
    "rows": ((2, 3, 3, 130), (2, 3, 7, 261)),
    "rows of one target": ((1, 3, 5, 128), (1, 3, 5, 256)),
    "three rows": ((1, 2, 3, 129), (1, 2, 9, 258)),
    "volumes": ((2, 2, 2, 3, 133), (2, 2, 5, 7, 267)),
    "slices": ((1, 2, 3, 1, 128), (1, 2, 7, 1, 257)),
}
CHANNELS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a row": ((2, 64, 7), (2, 64, 15)),
    "rows": ((2, 70, 3, 5), (2, 70, 7, 11)),
    "rows to lines": ((2, 64, 3, 40), (2, 64, 6, 80)),
    "many channels": ((1, 515, 2, 3), (1, 515, 4, 6)),
    "columns": ((1, 64, 3, 4), (1, 64, 14, 4)),
    "four columns": ((1, 140, 2, 9), (1, 140, 4, 38)),
    "three columns": ((1, 64, 2, 4), (1, 64, 4, 12)),
    "volumes": ((1, 130, 2, 3, 4), (1, 130, 5, 6, 9)),
    "slices": ((1, 64, 3, 1, 5), (1, 64, 6, 2, 5)),
}


def own(shape: tuple[int, ...], sizes: tuple[int, ...], seed: int = 3) -> np.ndarray:
    """For each source one of the targets of its own box, anywhere in it."""
    draw, at = np.random.default_rng(seed), np.zeros(shape, np.int64)
    where = np.indices(shape)
    for d in range(len(shape)):
        ratio = 1 if d < 2 else sizes[d] // shape[d]
        at = at * sizes[d] + where[d] * ratio + draw.integers(0, ratio, shape)
    return at


def unpooled(x: np.ndarray, indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The definition: the highest source position wins, what is out of range is ignored."""
    y = np.zeros(math.prod(sizes), x.dtype)
    for value, at in zip(x.ravel(), indices.ravel().tolist(), strict=True):
        if 0 <= at < y.size and not (indices.dtype == np.uint32 and at == 2**32 - 1):
            y[at] = value
    return y.reshape(sizes)


def check(x: np.ndarray, indices: np.ndarray, sizes: tuple[int, ...], is_last: bool) -> None:
    """Into memory that begins at any place of a line, with guard bytes around the result."""
    want, order = unpooled(x, indices, sizes), channels_last if is_last else np.ascontiguousarray
    for threads, skip in ((1, 0), (2, 16), (1, 5 * x.itemsize)):
        cudml.set_num_threads(threads)
        room = np.full(64 + skip + want.nbytes + 64, 0x7B, np.uint8)
        first = -room.ctypes.data % 64 + skip
        flat = room[first : first + want.nbytes].view(x.dtype)
        if is_last:
            out = np.moveaxis(flat.reshape(sizes[0], *sizes[2:], sizes[1]), -1, 1)
        else:
            out = flat.reshape(sizes)
        cudml.max_unpooling(order(x), order(indices), sizes, out=out)
        assert same_bits(out, want)
        assert (room[:first] == 0x7B).all() and (room[first + want.nbytes :] == 0x7B).all()


def cases() -> list[Any]:
    both = ((False, PLANES), (True, CHANNELS))
    return [(name, is_last, *sizes) for is_last, table in both for name, sizes in table.items()]


each = pytest.mark.parametrize(
    ("shape", "sizes", "is_last"),
    [pytest.param(*sizes, is_last, id=f"{name}-{is_last}") for name, is_last, *sizes in cases()],
)


@pytest.fixture(autouse=True)
def _threads() -> Any:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32")
@each
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "uint64"])
def test_own_targets(dtype: str, shape: Any, sizes: Any, is_last: bool) -> None:
    for i, kind in enumerate(KINDS):
        x = data(shape, dtype, i, "special")
        check(x, own(shape, sizes, i).astype(kind), sizes, is_last)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32", "D-MAX-12")
@each
@pytest.mark.parametrize("kind", KINDS)
def test_one_index_elsewhere(kind: str, shape: Any, sizes: Any, is_last: bool) -> None:
    """A neighbour's target, which the later source keeps, another plane's, or none at all."""
    x = np.arange(1, math.prod(shape) + 1, dtype="u4").reshape(shape)
    count, plane = math.prod(sizes), math.prod(sizes[2:])
    right, draw = own(shape, sizes), np.random.default_rng(5)
    none = {"uint32": 2**32 - 1, "uint64": 2**64 - 1, "int32": -1, "int64": -(2**32)}[kind]
    positions = [0, x.size - 1, *draw.integers(0, x.size, 6).tolist()]
    for position in positions:
        at = int(right.flat[position])
        first = at // plane * plane
        near = [first + (at - first + step) % plane for step in (-1, 1, sizes[-1], plane // 2)]
        for index in (*near, (at + plane) % count, count, none):
            indices = right.astype(kind)
            indices.flat[position] = np.array(index).astype(kind) if index >= 0 else index
            check(x, indices, sizes, is_last)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("is_last", [False, True])
def test_indices_that_are_right_but_for_their_upper_half(is_last: bool) -> None:
    shape, sizes = ((1, 64, 2, 3), (1, 64, 4, 6)) if is_last else ((1, 2, 2, 130), (1, 2, 4, 260))
    x, right = data(shape, "float32", 2), own(shape, sizes)
    for kind in ("uint64", "int64"):
        for position in (0, 77, x.size - 1):
            indices = right.astype(kind)
            indices.flat[position] += np.array(2**32).astype(kind)
            check(x, indices, sizes, is_last)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32")
@each
@pytest.mark.parametrize("spread", ["columns", "rows", "slices", "both", "channels"])
@pytest.mark.parametrize("which", ["x", "indices"])
def test_gaps_between_sources(
    which: str, spread: str, shape: Any, sizes: Any, is_last: bool
) -> None:
    """Their elements would be taken for the call's own: numbers, and indices of other places."""
    axes = {"columns": [-1], "rows": [-2], "slices": [-3], "both": [-2, -1], "channels": [1]}[
        spread
    ]
    order = channels_last if is_last else np.ascontiguousarray
    arrays = {"x": data(shape, "float32", 2), "indices": own(shape, sizes)}
    want = unpooled(*arrays.values(), sizes)
    around, part = list(shape), [slice(n) for n in shape]
    for axis in axes:
        around[axis] = 2 * shape[axis] + 1
        part[axis] = slice(1, None, 2) if axis == -1 else slice(1, 1 + shape[axis])
    wide = np.full(around, 7 if which == "x" else math.prod(sizes) - 1, arrays[which].dtype)
    wide = order(wide)
    wide[tuple(part)] = arrays[which]
    placed = {name: order(a) for name, a in arrays.items()} | {which: wide[tuple(part)]}
    out = order(np.full(sizes, 7, "f4"))
    assert same_bits(cudml.max_unpooling(**placed, output_sizes=sizes, out=out), want)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_tasks_of_some_rows(dtype: str, case: str) -> None:
    """Of which one alone may meet another source's target, that of a later or an earlier one."""
    shape, sizes, is_last = LARGE[case]
    x, indices = data(shape, dtype, 2), own(shape, sizes)
    check(x, indices, sizes, is_last)
    for position in (3, x.size - 1):
        moved = indices.copy()
        moved.flat[position] = indices.flat[x.size // 2]
        check(x, moved, sizes, is_last)


@pytest.mark.decision("D-GRAD-32")
def test_the_last_few_of_many_channels() -> None:
    shape, sizes = (1, MANY, 1, 2), (1, MANY, 2, 4)
    for dtype in ("uint8", "float16"):
        check(data(shape, dtype, 2), own(shape, sizes), sizes, is_last=True)


PAST_THE_CACHES = """
from tests.pool import test_cells as cells
for name, is_last, shape, sizes in cells.cases():
    for dtype in ("float32", "float16", "uint8", "float64"):
        x, indices = cells.data(shape, dtype, 4), cells.own(shape, sizes).astype("int64")
        cells.check(x, indices, sizes, is_last)
        indices.flat[-1] = 0  # what has been written is written once more
        cells.check(x, indices, sizes, is_last)
print("done")
"""


@pytest.mark.whole
@pytest.mark.decision("D-GRAD-32")
def test_past_the_caches() -> None:
    """As results are written that are larger than the caches."""
    assert child_says(PAST_THE_CACHES, limit=120, CUDML_STREAM_BYTES="1") == "done"
