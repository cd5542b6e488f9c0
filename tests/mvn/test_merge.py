"""The merge of two parts' statistics: exact where it must be, within its bound, in any layout."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds, reference
from harness import check, data, refused
from mvn_support import bits

OP = "merge_statistics"
KINDS = ("float32", "float64")
inf, nan = math.inf, math.nan
Triple = tuple[np.ndarray, ...]

MERGES = [
    ((2, 1.5, 0.5), (2, 3.5, 0.5), (4, 2.5, 5)),
    ((3, 2, 2), (1, 10, 0), (4, 4, 50)),
    ((0, 0, 0), (3, 7, 2), (3, 7, 2)),
    ((3, 7, 2), (0, 0, 0), (3, 7, 2)),
    ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ((2, 1, 1), (2, inf, nan), (4, inf, nan)),
    ((2, inf, nan), (2, -inf, nan), (4, nan, nan)),
    ((0, 0, 0), (2, inf, nan), (2, inf, nan)),
]


def triple(values: Any, dtype: str) -> Triple:
    return tuple(np.array([v], dtype) for v in values)


def parts(shape: tuple[int, ...], dtype: str, seed: int) -> tuple[Triple, Triple]:
    """Two parts, every fifth of either being of nothing."""
    rng = np.random.default_rng(seed)
    pair = []
    for k in range(2):
        count = rng.integers(1, 1000, shape).astype(dtype)
        mean = (rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 5, shape)).astype(dtype)
        m2 = (rng.random(shape) * 100).astype(dtype)
        empty = rng.integers(0, 5, shape) == k
        pair.append(tuple(np.where(empty, 0, s).astype(dtype) for s in (count, mean, m2)))
    return pair[0], pair[1]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-24", "D-GRAD-25")
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("a, b, want", MERGES, ids=str)
def test_examples(a: Any, b: Any, want: Any, dtype: str) -> None:
    """ST5."""
    check(OP, triple(a, dtype), triple(b, dtype))
    got = cudml.merge_statistics(triple(a, dtype), list(triple(b, dtype)))
    np.testing.assert_array_equal(np.concatenate(got), np.array(want, dtype))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("rank", range(1, 9))
def test_ranks_and_layouts(rank: int, dtype: str) -> None:
    shape = (3, 2, 5, 1, 2, 1, 3, 2)[:rank]
    check(OP, *parts(shape, dtype, rank))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", KINDS)
def test_every_operand_has_strides_of_its_own(dtype: str) -> None:
    """Each of the six inputs and three outputs in turn is stored the other way round."""
    a, b = parts((3, 4), dtype, 5)
    want = cudml.merge_statistics(a, b)
    for turned in range(9):
        orders: list[Any] = ["F" if k == turned else "C" for k in range(9)]
        given = zip((*a, *b), orders[:6], strict=True)
        ours = [np.array(s, order=order) for s, order in given]
        out = tuple(np.full((3, 4), 7, dtype, order) for order in orders[6:])
        assert cudml.merge_statistics(tuple(ours[:3]), tuple(ours[3:]), out=out) is out
        for got, expected in zip(out, want, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", KINDS)
def test_many_elements(dtype: str) -> None:
    check(OP, *parts((37, 2011), dtype, 1))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", KINDS)
def test_operations_as_they_are_written(dtype: str) -> None:
    """Each rounded by itself, in the statistics' type."""
    a, b = parts((999,), dtype, 3)
    n, d = a[0] + b[0], b[1] - a[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        want = (n, a[1] + d * (b[0] / n), (a[2] + b[2]) + (d * d) * (a[0] * b[0] / n))
    for k, got in enumerate(cudml.merge_statistics(a, b)):
        expected = np.where(b[0] == 0, a[k], np.where(a[0] == 0, b[k], want[k]))
        assert (bits(got) == bits(expected)).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-24")
@pytest.mark.parametrize("dtype", KINDS)
def test_a_part_of_nothing_changes_no_bit(dtype: str) -> None:
    """Negative zeros, subnormals and NaN included; the mean of nothing is of no account."""
    mean = np.array([-0.0, nan, 5e-324, 1e-45, inf, 0.1, -3], dtype)
    m2 = np.array([nan, 2, -0.0, 3, 4, 5, 1e-40], dtype)
    some = (np.full(7, 3, dtype), mean, m2)
    nothing = tuple(np.array(v, dtype) for v in ([0.0, -0.0] * 3 + [0.0], [7.0] * 7, [nan] * 7))
    for a, b in ((some, nothing), (nothing, some)):
        for got, want in zip(cudml.merge_statistics(a, b), some, strict=True):
            assert (bits(got) == bits(want)).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-26")
def test_the_order_of_merges_counts() -> None:
    """Neither associative nor commutative, but the same again."""
    a, b = parts((500,), "float32", 5)
    c, _ = parts((500,), "float32", 6)
    merge = cudml.merge_statistics
    left = [bits(s) for s in merge(merge(a, b), c)]
    assert all((bits(s) == w).all() for s, w in zip(merge(merge(a, b), c), left, strict=True))
    assert any((bits(s) != w).any() for s, w in zip(merge(a, merge(b, c)), left, strict=True))
    assert (bits(merge(a, b)[1]) != bits(merge(b, a)[1])).any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_composition(seed: int, dtype: str) -> None:
    """18.5: any partition, merged, normalizes as the whole does, within twice the bound."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((20, 3, 40)) + 10.0 ** rng.integers(-1, 3)).astype(dtype)
    cuts = np.sort(rng.integers(0, 21, 5))
    scale, bias = data((1, 3, 1), dtype, seed), data((1, 1, 40), dtype, seed + 1)
    for use_mean, axes in itertools.product((True, False), ((0,), (0, 2), (0, 1, 2))):
        how = {"activation": "gelu", "epsilon": 1e-3}
        given = {"axes": axes, "use_mean": use_mean}
        total: Any = cudml.normalization_statistics(x[:0], **given)
        for part in np.split(x, cuts):
            total = cudml.merge_statistics(total, cudml.normalization_statistics(part, **given))
        count, mean, m2 = total
        y = cudml.normalize(x, mean if use_mean else None, m2 / count, scale, bias, **how)
        want = bounds.expected(
            "mean_variance_normalization", x, scale, bias, axes=axes, use_mean=use_mean, **how
        )
        error = 2 * want.bounds[0]
        if dtype == "float64":
            r = 1 / np.sqrt(reference.normalization_statistics(x, **given)[2] / count + 1e-3)
            error = error + 4 * 2.0**-53 * np.abs(mean) * r * np.abs(scale) * 1.2
        half = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}[dtype]
        error = error + half * np.abs(want.values[0]) * 1.001 + 2.0**-25 * (dtype == "float16")
        assert (np.abs(y.astype("f8") - want.values[0]) <= error).all()


@pytest.mark.parametrize("dtype", KINDS)
def test_threads_and_repetitions(dtype: str) -> None:
    a, b = parts((1031, 257), dtype, 1)
    before = cudml.get_num_threads()
    try:
        want = None
        for threads in (1, 2, 5, 5, 5):
            cudml.set_num_threads(threads)
            got = [bits(s) for s in cudml.merge_statistics(a, b)]
            want = want or got
            assert all((g == w).all() for g, w in zip(got, want, strict=True))
    finally:
        cudml.set_num_threads(before)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", KINDS)
def test_nothing_to_merge(dtype: str) -> None:
    empty = tuple(np.zeros((0, 3), dtype) for _ in range(3))
    assert [s.shape for s in cudml.merge_statistics(empty, empty)] == [(0, 3)] * 3


A = parts((2, 3), "float64", 1)[0]
NARROW = tuple(s.astype("f4") for s in A)


def shown(value: Any) -> str:
    return value if isinstance(value, str) else ""


REFUSALS: tuple[tuple[type[Exception], str, dict[str, Any]], ...] = (
    (TypeError, "a is", {"a": A[0]}),
    (TypeError, "b has 2 entries; it must be a tuple or list of 3, count, mean and m2",
     {"b": A[:2]}),
    (TypeError, "a has 1 entry; it must be", {"a": [A[0]]}),
    (TypeError, "b.Mean (b[1]) is None", {"b": (A[0], None, A[2])}),
    (TypeError, "a.Count.DataType is float16; it must be float32 or float64",
     {"a": tuple(s.astype("f2") for s in A), "out": None}),
    (TypeError, "a.Count.DataType is int64", {"a": (A[0].astype("i8"), *A[1:]), "out": None}),
    (TypeError, "b.Count.DataType is float32; it must be a.Count's, float64", {"b": NARROW}),
    (TypeError, "a.M2.DataType is float32", {"a": (*A[:2], NARROW[2])}),
    (ValueError, "b.Mean.Sizes[1] is 2; it must be 3", {"b": (A[0], A[1][:, :2], A[2])}),
    (ValueError, "a.Mean.Sizes are {3}; they must be {2,3}", {"a": (A[0], A[1][0], A[2])}),
    (ValueError, "DimensionCount is 0", {"a": tuple(s[0, 0, ...] for s in A)}),
    (TypeError, "it must be a tuple or list of 3", {"out": A[0]}),
    (TypeError, "M2.DataType (out[2]) is float32; it must be float64",
     {"out": (None, None, NARROW[2].copy())}),
    (ValueError, "Count.Sizes[0] (out[0]) is 1; it must be 2",
     {"out": (np.zeros((1, 3)), None, None)}),
    (ValueError, "overlap", {"out": (None, A[1], None)}),
)  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-21", "D-TEN-2")
@pytest.mark.parametrize("error, text, fields", REFUSALS, ids=shown)
def test_refusals(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    out = tuple(np.full((2, 3), 7.0) for _ in range(3))
    before = [s.tobytes() for s in A]
    with refused(error, f"{OP}: ", text):
        cudml.merge_statistics(**{"a": A, "b": A, "out": out, **fields})
    assert all((o == 7).all() for o in out) and before == [s.tobytes() for s in A]
