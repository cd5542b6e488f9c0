"""Max unpooling: the specification's examples, indices of every kind, and every way to hand it
memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import reference
from harness import DTYPES, check, data, refused
from layouts import guarded
from pool_support import channels_last, line, plane, same_bits

EVERY = DTYPES["max_unpooling"]
KINDS = ("uint32", "uint64", "int32", "int64")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def places(shape: Any, low: int, high: int, kind: str, seed: int = 3) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(low, high, shape)
    return drawn.astype(kind)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-31", "D-GRAD-32", "D-MAX-12")
def test_examples() -> None:
    """UP1 to UP4."""
    x, indices = plane([[4, 4], [6, 7]]), plane([[4, 4], [7, 8]], "uint32")
    check("max_unpooling", x, indices, (1, 1, 3, 3))
    got = cudml.max_unpooling(x, indices, (1, 1, 3, 3))
    assert got[0, 0].tolist() == [[0, 0, 0], [0, 4, 0], [0, 6, 7]]
    for values, kind, size, want in (
        ([0, 9, 2**32 - 1], "uint32", 4, [5, 0, 0, 0]),
        ([0, 9, 2**64 - 1], "uint64", 4, [5, 0, 0, 0]),
        ([-1, -4, 3], "int64", 4, [0, 0, 0, 7]),
        ([-1, -4, 3], "int32", 4, [0, 0, 0, 7]),
        ([1, 1, 1], "uint32", 2, [0, 7]),
    ):
        x, indices = line([5, 6, 7]), np.array(values, kind)[None, None]
        check("max_unpooling", x, indices, (1, 1, size))
        assert cudml.max_unpooling(x, indices, (1, 1, size)).ravel().tolist() == want
    x, indices = np.array([[[2**63 + 1], [2**63 + 2]]], "u8"), np.array([[[3], [0]]], "u4")
    got = cudml.max_unpooling(x, indices, (1, 2, 2))
    assert got.tolist() == [[[2**63 + 2, 0], [0, 2**63 + 1]]]


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rank 3": ((3, 2, 7), (3, 2, 11)),
    "rank 4": ((2, 3, 4, 5), (2, 3, 7, 9)),
    "rank 5": ((2, 3, 2, 3, 4), (2, 3, 4, 5, 3)),
    "smaller": ((2, 3, 4, 5), (2, 3, 2, 3)),
    "one plane": ((1, 1, 6, 5), (1, 1, 9, 8)),
    "one element": ((2, 3, 1, 1), (2, 3, 1, 1)),
    "many channels": ((2, 20, 3, 4), (2, 20, 5, 7)),
    "thin": ((2, 3, 1, 5), (2, 3, 9, 1)),
}


@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", SHAPES)
def test_indices_across_planes_and_out_of_range(case: str, kind: str) -> None:
    """In every layout, with strided outputs and guard bytes; many are met twice."""
    shape, sizes = SHAPES[case]
    count = int(np.prod(sizes))
    low = -9 if kind.startswith("i") else 0
    x = data(shape, "float32", 2, "special")
    indices = places(shape, low, count + 9, kind)
    indices.flat[:: max(1, x.size // 3)] = np.array(-1).astype(kind)
    check("max_unpooling", x, indices, sizes)


@pytest.mark.small
@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("dtype", EVERY)
def test_indices_within_planes(case: str, dtype: str) -> None:
    """What pooling gives: each index is in the plane of its element."""
    shape, sizes = SHAPES[case]
    size = int(np.prod(sizes[2:]))
    first = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * (len(shape) - 2)) * size
    indices = (places(shape, 0, size, "int64") + first).astype("uint32")
    check("max_unpooling", data(shape, dtype, 4, "special"), indices, sizes)


def near(planes: int, rows: int, columns: int) -> np.ndarray:
    """Indices of maxima of 2x2 into planes of twice as many rows and columns."""
    h, w = 2 * np.indices((rows, columns))
    taps = np.random.default_rng(8).integers(0, 2, (2, planes, 1, rows, columns))
    first = np.arange(planes)[:, None, None, None] * (4 * rows * columns)
    return np.asarray(first + (h + taps[0]) * (2 * columns) + w + taps[1])


# Of a plane of 98 x 100 elements that is cut at element 8192: source positions and what they name.
SEAM = 41 * 50
MOVED: dict[str, dict[int, int]] = {
    "nowhere": {},
    "beyond the seam and back": {SEAM - 70: 8192, SEAM - 1: 8193, SEAM + 30: 8190, SEAM + 99: 8191},
    "several to one": {SEAM - 3: 8191, SEAM + 4: 8191, SEAM - 5: 8192, SEAM + 6: 8192, 9: 1, 7: 1},
    "out of range": {0: -1, 1: 9800, SEAM: 9801, 2449: 2**31 - 1},
    "the last to the first": {2449: 0},
    "the first to the last": {0: 9799, 1: 9799},
    "hardly too far": {SEAM - 102: 8192, SEAM - 103: 8193, SEAM - 104: 8194},
    "hardly too far behind": {SEAM + 97: 8191, SEAM + 98: 8190, SEAM + 99: 8189},
}


@pytest.mark.small
@pytest.mark.decision("D-GRAD-32", "D-GRAD-1")
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("moved", MOVED)
def test_indices_near_and_far(moved: str, kind: str) -> None:
    """What blocks of a GPU find among the source positions near their elements, and what not."""
    x, indices = data((1, 1, 49, 50), "float32", 6, "special"), near(1, 49, 50)
    for position, index in MOVED[moved].items():
        indices.flat[position] = index
    check("max_unpooling", x, indices.astype(kind), (1, 1, 98, 100), layouts=("contiguous",))


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("astray", range(0, 19, 3))
def test_rows_that_are_looked_at_together(astray: int, kind: str) -> None:
    """At each place of a row one index that is out of range, or another plane's; the rest in any
    order, many twice, into planes of more zeros than are put down at once."""
    targets, sources = (90, 100), (12, 19)
    size = targets[0] * targets[1]
    x = data((2, 2, *sources), "float32", 2)
    inside = places(x.shape, 0, size, "int64", astray) + size * np.arange(4).reshape(2, 2, 1, 1)
    inside[..., 3:9] = inside[..., 9:3:-1]
    beyond = {"uint32": 2**32 - 1, "uint64": 2**64 - 1, "int32": -1, "int64": -(2**63)}[kind]
    for bad in (beyond, 4 * size, 4 * size - 1, 0):
        indices = inside.astype(kind)
        indices[1, 0, ::2, astray] = bad
        check("max_unpooling", x, indices, (2, 2, *targets), layouts=("contiguous",))


@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("to", [0, 7999, 8000, 9599])
def test_indices_into_other_planes(to: int) -> None:
    """Of six planes of 1600 elements a block takes five and another one the last."""
    for position in (0, 401, 1999, 2000, 2399):
        indices = near(6, 20, 20).reshape(2, 3, 20, 20)
        indices.flat[position] = to
        x = data(indices.shape, "int16", 7)
        check("max_unpooling", x, indices, (2, 3, 40, 40), layouts=("contiguous",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("kind", ["uint32", "uint64", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "int8", "uint64"])
def test_what_pooling_took_comes_back(dtype: str, kind: str) -> None:
    x = data((2, 3, 6, 8), dtype, 8)
    x[x == 0] = 1
    y, indices = cudml.max_pooling(x, 2, 2, return_indices=True, index_dtype=kind)
    check("max_unpooling", y, indices, x.shape)
    back = cudml.max_unpooling(y, indices, x.shape)
    taken = np.isin(np.arange(x.size).reshape(x.shape), indices)
    assert same_bits(back[taken], x[taken]) and not back[~taken].any()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("other", ["x", "indices", "out"])
def test_planes_side_by_side_but_for_one_tensor(other: str) -> None:
    """The others are channels last. Where the first channels name no target, no
    index beside theirs leads to another plane, where all would be done once more."""
    shape, sizes = (2, 6, 3, 4), (2, 6, 5, 7)
    given = {"x": data(shape, "float32", 5), "indices": places(shape, 0, 35, "uint32")}
    given["indices"] += np.arange(12, dtype="uint32").reshape(2, 6, 1, 1) * 35
    for first in (given["indices"][:, :2], 2**32 - 1):
        given["indices"][:, :2] = first
        given["out"] = np.full(sizes, 7, "f4")
        want = reference.max_unpooling(given["x"], given["indices"], sizes)
        placed = {name: a if name == other else channels_last(a) for name, a in given.items()}
        assert same_bits(cudml.max_unpooling(output_sizes=sizes, **placed), want)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("apart", ["x", "indices"])
def test_elements_of_a_row_that_stand_apart(apart: str) -> None:
    """With as many between them, whose indices lead into the same planes."""
    wide = {"x": data((2, 3, 4, 42), "float32", 5), "indices": places((2, 3, 4, 42), 0, 189, "i8")}
    wide["indices"] += 189 * np.arange(6).reshape(2, 3, 1, 1)
    x, indices = (a[..., ::2] if k == apart else a[..., ::2].copy() for k, a in wide.items())
    check("max_unpooling", x, indices, (2, 3, 9, 21), layouts=("as given",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("columns", [3, 10, 21])
def test_gaps_between_rows_are_not_read(columns: int, is_last: bool) -> None:
    """Of x and of the indices, whose gaps are of other sizes and hold indices like the others."""
    shape, sizes = (2, 3, 2, 4, columns), (2, 3, 3, 9, 21)
    size = 3 * 9 * 21
    first = np.arange(6).reshape(2, 3, 1, 1, 1) * size
    wide = places((2, 3, 3, 7, columns + 9), 0, size, "int64") + first
    x, indices = data((2, 3, 4, 5, columns + 2), "float32", 5), wide.astype("uint32")
    if is_last:
        x, indices = channels_last(x), channels_last(indices)
    part = (slice(None), slice(None), *(slice(n) for n in shape[2:]))
    check("max_unpooling", x[part], indices[part], sizes, layouts=("as given",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("beside", [-1, 2 * 135 + 4])
def test_only_indices_of_the_call_are_read(beside: int, is_last: bool) -> None:
    """One channel's name targets. The other channel has none, and around and between them are none
    that lead to another plane, where all would be done once more: a third channel, which is not of
    the call, has what would be its own."""
    sizes = (2, 2, 3, 9, 5)
    wide = np.full((4, 3, 3, 7, 3), -1, "int64")
    wide[1, 2] = beside
    indices = wide.astype("uint32")
    x, out = data((2, 3, 3, 5, 4), "float32", 5), np.full(sizes, 7, "f4")
    if is_last:
        x, indices, out = channels_last(x), channels_last(indices), channels_last(out)
    x, indices = x[:, :2, :2, :2, :2], indices[1:3, :2, :2, :2, :2]
    indices[:, 0] = places((2, 2, 2, 2), 0, 135, "uint32")
    indices[1, 0] += 2 * 135
    want = reference.max_unpooling(x, indices, sizes)
    assert same_bits(cudml.max_unpooling(x, indices, sizes, out=out), want)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-32")
@pytest.mark.parametrize("threads", [2, 5, 16])
def test_threads_leave_each_other_their_parts(threads: int) -> None:
    """Of one plane they share the targets, whose number is no multiple of theirs: what lies first
    and last in each part stays, whichever of them is done first."""
    cudml.set_num_threads(threads)
    sizes, targets = (1, 1, 1001, 3001), 1001 * 3001
    length = targets // threads + 1
    assert length * threads > targets
    begins = np.arange(0, targets, length)
    indices = np.sort([*begins, *begins + 1, *begins[1:] - 1, targets - 1]).astype("u4")
    x = np.arange(1, indices.size + 1, dtype="f4")
    want = np.zeros(targets, "f4")
    want[indices] = x
    for _ in range(3):
        got = cudml.max_unpooling(x.reshape(1, 1, -1, 1), indices.reshape(1, 1, -1, 1), sizes)
        assert same_bits(got.ravel(), want)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-32")
@pytest.mark.parametrize("channels", [1, 6])
def test_gaps_between_rows_of_the_result_stay(channels: int) -> None:
    """Of one plane, in whose rows parts of threads begin anywhere, and of planes side by side."""
    cudml.set_num_threads(2)
    wide = channels_last(np.full((1, channels, 701, 1003), 7, "f4"))
    x, size = data((1, channels, 2, 3), "float32", 5), 701 * 1001
    indices = places((1, 1, 2, 3), 0, size, "i8") + np.arange(channels)[:, None, None] * size
    want = reference.max_unpooling(x, indices, (1, channels, 701, 1001))
    x, indices = channels_last(x), channels_last(indices)
    got = cudml.max_unpooling(x, indices, want.shape, out=wide[..., :1001])
    assert same_bits(got, want) and (wide[..., 1001:] == 7).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-32")
def test_bits_are_copied() -> None:
    """Payloads and the sign of zero."""
    bits = np.array([[[0x7F800001, 0xFFC12345, 0x80000000]]], np.uint32)
    indices = np.array([[[4, 0, 2]]], np.int64)
    got = cudml.max_unpooling(bits.view("f4"), indices, (1, 1, 5))
    assert got.view("u4").ravel().tolist() == [0xFFC12345, 0, 0x80000000, 0, 0x7F800001]


LARGE: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool]] = {
    "planes": ((8, 16, 56, 57), (8, 16, 112, 113), False),
    "channels last": ((8, 70, 28, 30), (8, 70, 56, 59), True),
    "one plane": ((1, 1, 700, 701), (1, 1, 1024, 999), False),
}


@pytest.mark.decision("D-GRAD-1", "D-GRAD-32")
@pytest.mark.parametrize("is_crossing", [False, True])
@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_repetitions_and_threads_have_equal_bits(case: str, dtype: str, is_crossing: bool) -> None:
    """Up to a thousand source positions share a target; the last one wins."""
    shape, sizes, is_last = LARGE[case]
    size = sizes[2] * sizes[3]
    indices = places(shape, 0, size, "int64")
    row = indices.reshape(*shape[:2], -1)
    row[..., :: -(-row.shape[-1] // 1000)] = size // 3
    indices += np.arange(shape[0] * shape[1]).reshape(*shape[:2], 1, 1) * size
    if is_crossing:  # one element of the last plane belongs to the first
        indices[-1, -1, -1, -1] = 5
    x = data(shape, dtype, 6)
    if is_last:
        x, indices = channels_last(x), channels_last(indices)
    want = reference.max_unpooling(x, indices, sizes)
    for threads in (1, 2, 5):
        cudml.set_num_threads(threads)
        for _ in range(3):
            assert same_bits(cudml.max_unpooling(x, indices, sizes), want)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-20")
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4, 5), (0, 0, 1, 2, 3)])
def test_empty_batches(shape: tuple[int, ...]) -> None:
    sizes = (*shape[:2], *[7] * (len(shape) - 2))
    got = cudml.max_unpooling(np.zeros(shape, "f4"), np.zeros(shape, "u4"), sizes)
    assert got.shape == sizes and got.dtype == np.float32
    out = np.empty(sizes, "f4")
    assert cudml.max_unpooling(np.zeros(shape, "f4"), np.zeros(shape, "u4"), sizes, out=out) is out


X, PLACES, SIZES = data((2, 3, 4, 5), "int16", 1), places((2, 3, 4, 5), 0, 384, "u4"), (2, 3, 8, 8)
REFUSED: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "x is no array": (TypeError, "x", {"x": object()}),
    "rank 2": (ValueError, "InputTensor.DimensionCount is 2; it must be 3, 4 or 5",
               {"x": X[0, 0], "indices": PLACES[0, 0], "output_sizes": (8, 8)}),
    "rank 6": (ValueError, "InputTensor.DimensionCount is 6",
               {"x": X[None, None], "output_sizes": (1, 1, *SIZES)}),
    "no rows": (ValueError, "InputTensor.Sizes[2] is 0",
                {"x": X[:, :, :0], "indices": PLACES[:, :, :0]}),
    "short indices": (TypeError, "IndicesTensor.DataType is uint16; it must be uint32, uint64, "
                      "int32 or int64", {"indices": PLACES.astype("u2")}),
    "real indices": (TypeError, "IndicesTensor.DataType is float32",
                     {"indices": PLACES.astype("f4")}),
    "sizes of indices": (ValueError, "IndicesTensor.Sizes[0] is 1; it must be 2",
                         {"indices": PLACES[:1]}),
    "rank of indices": (ValueError, "IndicesTensor.DimensionCount is 3",
                        {"indices": PLACES[0]}),
    "sizes are a number": (TypeError, "OutputTensor.Sizes (output_sizes) is 4",
                           {"output_sizes": 4}),
    "three sizes": (ValueError, "OutputTensor.Sizes (output_sizes) has 3 entries",
                    {"output_sizes": (2, 3, 8)}),
    "another N": (ValueError, "OutputTensor.Sizes[0] is 1; it must be 2",
                  {"output_sizes": (1, 3, 8, 8)}),
    "another C": (ValueError, "OutputTensor.Sizes[1] is 4; it must be 3",
                  {"output_sizes": (2, 4, 8, 8)}),
    "no columns": (ValueError, "OutputTensor.Sizes[3] is 0; it must be at least 1",
                   {"output_sizes": (2, 3, 8, 0)}),
    "too large": (ValueError, "OutputTensor.Sizes", {"output_sizes": (2, 3, 2**40, 2**40)}),
    "a real size": (TypeError, "OutputTensor.Sizes[2] is 8.0", {"output_sizes": (2, 3, 8.0, 8)}),
    "out of another type": (TypeError, "OutputTensor", {"out": np.zeros(SIZES, "i4")}),
    "out of another shape": (ValueError, "OutputTensor", {"out": np.zeros((2, 3, 8, 9), "i2")}),
}  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-31")
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    error, text, changes = REFUSED[case]
    place = guarded(SIZES, X.dtype, "S")
    before = place.view.copy()
    call = {"x": X, "indices": PLACES, "output_sizes": SIZES, "out": place.view, **changes}
    with refused(error, "max_unpooling: ", text):
        cudml.max_unpooling(**call)
    assert not place.damage() and same_bits(place.view, before)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-21")
def test_out_shares_memory_with_no_input() -> None:
    room = np.zeros((2, 3, 8, 8), "u4")
    part = room[:, :, :4, :5]
    other = X.astype("u4")
    for call in ({"x": part, "indices": PLACES}, {"x": other, "indices": part}):
        with refused(ValueError, "max_unpooling: ", "OutputTensor"):
            cudml.max_unpooling(**call, output_sizes=SIZES, out=room)
    assert not room.any()


def test_explained() -> None:
    e = cudml.explain("max_unpooling", X, PLACES, SIZES)
    assert e.kernel.startswith("unpool/") and e.pooled_axes is None
    assert e.bytes == X.size * (2 + 4) + 2 * 384 and e.workspace_bytes == 0
    e = cudml.explain("max_unpooling", X, PLACES, SIZES, device="sm_90")
    assert e.kernel == "unpool_near" and e.workspace_bytes == 256 + 4 * 384
