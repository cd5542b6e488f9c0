"""Statistics of parts: values, axes, types, empty parts, refusals, and the same bits anywhere."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, data, refused, shifted
from mvn_support import bits
from pool_support import FLOATS, dtype_of
from tests.mvn.test_normalization import SIZES, SMALL, subsets

OP = "normalization_statistics"
KINDS = ("float64", "float32")
inf, nan = math.inf, math.nan
X = data((2, 3, 4), "float16", 1)
ROOM = np.zeros((2, 3, 1))


def statistics(x: np.ndarray, axes: Any, **more: Any) -> list[Any]:
    return [s.tolist() for s in cudml.normalization_statistics(x, axes=axes, **more)]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-22", "D-GRAD-23")
@pytest.mark.parametrize("dtype", FLOATS)
def test_examples_1_and_3(dtype: str) -> None:
    """ST1, ST3."""
    x = np.array([1, 2, 3, 4]).astype(dtype_of(dtype))
    assert statistics(x, 0) == [[4], [2.5], [5]]
    assert {s.dtype.name for s in cudml.normalization_statistics(x, axes=0)} == {"float64"}
    assert statistics(x, 0, use_mean=False) == [[4], [0], [30]]
    assert statistics(x, ()) == [[1] * 4, [1, 2, 3, 4], [0] * 4]
    check(OP, x, axes=0)
    check(OP, x, axes=0, use_mean=False, dtype="float32")


@pytest.mark.core
@pytest.mark.small
def test_example_2() -> None:
    """ST2."""
    x = np.array([10000, 10001, 10002, 10003], "f4")
    results = cudml.normalization_statistics(x, axes=0, dtype="float32")
    assert [s.tolist() for s in results] == [[4], [10001.5], [5]]
    assert {s.dtype.name for s in results} == {"float32"}


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-24", "D-GRAD-20")
@pytest.mark.parametrize("dtype", FLOATS)
def test_empty_parts(dtype: str) -> None:
    """ST4."""
    x = np.zeros((0, 2), dtype_of(dtype))
    assert statistics(x, 0) == [[[0, 0]]] * 3
    assert not any(bits(s).any() for s in cudml.normalization_statistics(x, axes=0))
    assert statistics(x, 1) == statistics(x.reshape(0, 1).repeat(99999, 1), 1) == [[]] * 3
    assert statistics(x.reshape(2, 0, 1), (1, 2), dtype="float32") == [[[[0]], [[0]]]] * 3
    for shape, axes in itertools.product(((0, 3), (2, 0), (2, 0, 3)), ((), 0, 1, (0, 1))):
        check(OP, np.zeros(shape, dtype_of(dtype)), axes=axes, layouts=("contiguous", "permuted"))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_subset_of_axes(rank: int) -> None:
    for k, axes in enumerate(subsets(rank)):
        x = data(SIZES[:rank], FLOATS[k % 4], k)
        check(OP, x, axes=axes, use_mean=k % 5 != 0, dtype=KINDS[k % 3 == 0], layouts=SMALL)


SHAPES: dict[str, tuple[tuple[int, ...], Any]] = {
    "rows": ((5, 1000), 1),
    "short rows": ((300, 7), 1),
    "a long row": ((2, 40_000), 1),
    "everything": ((3, 5000, 5), (0, 1, 2)),
    "columns": ((700, 37), 0),
    "few columns": ((5000, 3), 0),
    "channels": ((4, 9, 6, 7), (0, 2, 3)),
    "large channels": ((5, 3, 40, 50), (0, 2, 3)),
    "channels in short pieces": ((615, 5, 40), (0, 2)),
    "rows of a vector": ((37, 16), 1),
    "rows of several vectors": ((37, 65), 1),
    "groups of channels": ((3, 70, 2, 5), (1, 3)),
    "every other axis": ((3, 4, 5, 6, 4), (0, 2, 4)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, dtype: str) -> None:
    shape, axes = SHAPES[name]
    x = data(shape, dtype, 3)
    for use_mean, kind in itertools.product((True, False), KINDS):
        check(OP, x, axes=axes, use_mean=use_mean, dtype=kind, out=kind == "float64")


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_in_parts(dtype: str) -> None:
    """Long enough for several blocks of a GPU, and the last part is shorter than the others."""
    x = data((2, 33_001), dtype, 7)
    for use_mean, kind in ((True, "float64"), (False, "float32")):
        check(OP, x, axes=1, use_mean=use_mean, dtype=kind, layouts=("contiguous",))


@pytest.mark.decision("D-GRAD-22")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, axes", [((3, 5000), 1), ((3000, 5), 0)], ids=str)
def test_a_mean_far_from_zero(dtype: str, shape: tuple[int, ...], axes: int) -> None:
    """Up to 10^5 deviations: the mean keeps digits that float32 has no room for."""
    for by in (1e2, -1e4, 1e5):
        x = shifted(np.random.default_rng(1).standard_normal(shape).astype(dtype), by)
        want = check(OP, x, axes=axes, layouts=("contiguous", "permuted"))
        _, mean, m2 = cudml.normalization_statistics(x, axes=axes)
        np.testing.assert_allclose(mean, want.values[1], rtol=0, atol=1e-6)
        np.testing.assert_allclose(m2, want.values[2], rtol=1e-5)
        assert np.abs(np.float64(np.float32(want.values[1])) - want.values[1]).max() > 1e-7


@pytest.mark.core
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [5, 17, 33, 65, 200, 4096, 4099, 9000])
def test_first_elements_unlike_the_rest(length: int, dtype: str) -> None:
    """A pivot that the first elements give is of no use then, in all rows or in one of them."""
    x = np.random.default_rng(length).standard_normal((20, length))
    x[:, : length // 3] += 500
    x[3] = data((length,), "float64", 1)
    for array in (x.astype(dtype_of(dtype)), np.roll(x, 1, axis=1).astype(dtype_of(dtype))):
        check(OP, array, axes=1, layouts=("contiguous",), out=False)
        parts = array.reshape(4, 5, length)
        check(OP, parts, axes=(0, 2), layouts=("contiguous",), out=False)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-22")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 3, 4097), (34, 20, 241)], ids=str)
def test_last_elements_of_pieces_unlike_the_rest(shape: tuple[int, ...], dtype: str) -> None:
    """A pivot is of no use that they give by themselves, where sums begin anew: a sum of squares
    about it has thousands of times what the one about the mean has to be rounded."""
    pieces, channels, length = shape
    x = np.random.default_rng(length).standard_normal((channels, pieces * length))
    x[:, 4096::4096] += 2000
    x = x.reshape(channels, pieces, length).swapaxes(0, 1).astype(dtype_of(dtype), order="C")
    _, _, m2 = cudml.normalization_statistics(x, axes=(0, 2))
    wide = x.astype("f8")
    want = np.square(wide - wide.mean((0, 2), keepdims=True)).sum((0, 2), keepdims=True)
    np.testing.assert_allclose(m2, want, rtol=4 * math.sqrt(pieces * length) * 2.0**-24)


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [5, 17, 33, 200, 4099, 20_000])
def test_elements_at_even_distances_unlike_the_rest(length: int, dtype: str) -> None:
    """Guesses from elements all over a group are of no use then, in all columns or in one of
    them, by one thread and by several that share the columns."""
    x = np.random.default_rng(length).standard_normal((length, 24))
    some = x[:: max(1, length // 16)]
    some[:, 7] -= 500
    one = x.astype(dtype_of(dtype))
    some[:, [0, 11, 23]] += 500
    for array in (one, x.astype(dtype_of(dtype))):
        check(OP, array, axes=0, layouts=("contiguous",), out=False)
        check(OP, array.reshape(length, 4, 6), axes=(0, 2), layouts=("contiguous",), out=False)
        got = cudml.normalization_statistics(array, axes=0)
        for column in (0, 7, 8):
            at = (slice(None), slice(column, column + 1))
            alone = cudml.normalization_statistics(array[at], axes=0)
            assert all((bits(a[at]) == bits(b)).all() for a, b in zip(got, alone, strict=True))


def test_a_million_equal_numbers() -> None:
    x = np.full((2**20, 2), 0.1, "f4")
    for array, axes in ((x, 0), (x.T.copy(), 1), (x, (0, 1))):
        _, mean, m2 = cudml.normalization_statistics(array, axes=axes)
        assert (mean == np.float64(np.float32(0.1))).all() and (m2 == 0).all()
        check(OP, array, axes=axes, use_mean=False, layouts=("contiguous",), out=False)


@pytest.mark.parametrize("n", [384, 4000])
def test_subnormal_doubles(n: int) -> None:
    """Each merge of parts rounds to whole units, of which a mean is a few hundred."""
    x = np.random.default_rng(n).integers(-3000, 4000, (n, 64)) * 2.0**-1074
    for array, axis in ((x, 0), (x.T.copy(), 1)):
        check(OP, array, axes=axis, layouts=("contiguous",), out=False)
        for given in ({"use_variance": False}, {"return_statistics": True}):
            check("mean_variance_normalization", array, axes=axis, layouts=("contiguous",), **given)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-25")
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_and_nan(dtype: str) -> None:
    x = np.array([[1, inf, 2], [inf, -inf, 1], [1, nan, 2], [1, 2, 3]]).astype(dtype_of(dtype))
    for count in (1, 9, 700):
        rows = np.repeat(x, count, axis=1)
        _, mean, m2 = cudml.normalization_statistics(rows, axes=1)
        np.testing.assert_array_equal(mean[:, 0], [inf, nan, nan, 2])
        np.testing.assert_array_equal(np.isnan(m2[:, 0]), [True, True, True, False])
        _, mean, m2 = cudml.normalization_statistics(rows, axes=1, use_mean=False)
        np.testing.assert_array_equal(m2[:, 0], [inf, inf, nan, 14 * count])
        assert not mean.any()
        _, mean, _ = cudml.normalization_statistics(rows.T.copy(), axes=0)
        np.testing.assert_array_equal(mean[0], [inf, nan, nan, 2])


@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SHAPES)
def test_the_same_bits_whatever_runs_beside(name: str, dtype: str) -> None:
    """Repetitions, threads, where x begins, and what other groups there are."""
    shape, axes = SHAPES[name]
    x = data(shape, dtype, 5)
    want = [bits(s) for s in cudml.normalization_statistics(x, axes=axes)]
    room = np.zeros(x.size + 3, x.dtype)
    before = cudml.get_num_threads()
    try:
        for threads, offset in itertools.product((1, 2, 5), (0, 1, 3)):
            cudml.set_num_threads(threads)
            moved = room[offset : offset + x.size].reshape(shape)
            moved[...] = x
            for _ in range(3 if offset == 0 else 1):
                got = cudml.normalization_statistics(moved, axes=axes)
                assert all((bits(s) == w).all() for s, w in zip(got, want, strict=True))
    finally:
        cudml.set_num_threads(before)
    over = axes if isinstance(axes, tuple) else (axes,)
    for axis in {*range(len(shape))} - {*over}:
        whole = cudml.normalization_statistics(x, axes=axes)
        for first, end in ((0, 1), (1, shape[axis]), (shape[axis] - 1, shape[axis])):
            at = (slice(None),) * axis + (slice(first, end),)
            part = cudml.normalization_statistics(x[at], axes=axes)
            assert all((bits(p) == bits(w[at])).all() for p, w in zip(part, whole, strict=True))


@pytest.mark.core
@pytest.mark.decision("D-GRAD-22")
def test_counts_that_float32_does_not_hold() -> None:
    x = np.broadcast_to(np.float16(1), (2**12, 2**12 + 1))
    out = tuple(np.full((1, 1), 7, "f4") for _ in range(3))
    with refused(ValueError, f"{OP}: Count is {2**24 + 2**12}; ", "float64"):
        cudml.normalization_statistics(x, axes=(0, 1), dtype="float32", out=out)
    assert all((o == 7).all() for o in out)
    count, mean, m2 = cudml.normalization_statistics(x[:, 1:], axes=(0, 1), dtype="float32")
    assert (count.item(), mean.item(), m2.item()) == (2**24, 1, 0)
    assert cudml.normalization_statistics(x, axes=(0, 1))[0].item() == 2**24 + 2**12


def shown(value: Any) -> str:
    return value if isinstance(value, str) else ""


REFUSALS: tuple[tuple[type[Exception], str, dict[str, Any]], ...] = (
    (TypeError, "InputTensor (x) is", {"x": [1.0]}),
    (TypeError, "InputTensor.DataType is int8; it must be float32", {"x": X.astype("i1")}),
    (ValueError, "DimensionCount is 0", {"x": X[0, 0, 0, ...]}),
    (ValueError, "Axes[0] is 3", {"axes": 3}),
    (ValueError, "Axes[1] is 2; every axis may be named once only", {"axes": (2, -1)}),
    (TypeError, "Axes[0] is 1.5", {"axes": 1.5}),
    (TypeError, "UseMean is 1 (int)", {"use_mean": 1}),
    (TypeError, "DataType is 'float16'; it must be float32 or float64", {"dtype": "float16"}),
    (TypeError, "DataType is None", {"dtype": None}),
    (TypeError, "it must be a tuple or list of 3, count, mean and m2", {"out": (ROOM, ROOM)}),
    (TypeError, "it must be a tuple or list of 3", {"out": ROOM}),
    (TypeError, "Mean.DataType (out[1]) is float32; it must be float64",
     {"out": (ROOM.copy(), ROOM.astype("f4"), ROOM.copy())}),
    (ValueError, "M2.Sizes[1] (out[2]) is 2; it must be 3",
     {"out": (None, None, ROOM[:, :2].copy())}),
    (ValueError, "Count.Sizes (out[0]) are {2,3}; they must be {2,3,1}",
     {"out": (ROOM[..., 0].copy(), None, None)}),
    (ValueError, "overlap", {"out": (ROOM, ROOM, None)}),
    (ValueError, "Count", {"out": (np.broadcast_to(ROOM[:1], ROOM.shape), None, None)}),
)  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-21", "D-TEN-1", "D-TEN-2")
@pytest.mark.parametrize("error, text, fields", REFUSALS, ids=shown)
def test_refusals(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    out = tuple(np.full((2, 3, 1), 7.0) for _ in range(3))
    with refused(error, f"{OP}: ", text):
        cudml.normalization_statistics(**{"x": X, "axes": 2, "out": out, **fields})
    assert all((o == 7).all() for o in out) and not ROOM.any()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-22")
def test_every_result_has_strides_of_its_own() -> None:
    x = data((3, 4, 5), "float32", 2)
    want = cudml.normalization_statistics(x, axes=2)
    for turned in range(3):
        out = tuple(np.full((3, 4, 1), 7.0, order="F" if k == turned else "C") for k in range(3))
        assert cudml.normalization_statistics(x, axes=2, out=out) is out
        for got, expected in zip(out, want, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.core
def test_out_may_be_given_in_part() -> None:
    mean = np.zeros((2, 3, 1))
    results = cudml.normalization_statistics(X, axes=2, out=(None, mean, None))
    assert results[1] is mean and mean.any()
    again = cudml.normalization_statistics(X, axes=2, out=list(results))
    assert isinstance(again, list) and again[1] is mean
