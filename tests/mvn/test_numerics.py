"""Accuracy of normalization: exact data, large means, constant groups, special values."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import cudml
from cudml.bounds import FORMATS
from harness import check
from pool_support import FLOATS, bits, dtype_of, same_bits

OP = "mean_variance_normalization"
FLAT = ("contiguous",)
OFFSETS = np.array([1, -1, 1, -1, 2, -2, 3, -3.0])  # mean square 3.75: with 0.25 the root is 2
INF, NAN = float("inf"), float("nan")


def normalize(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    return cudml.mean_variance_normalization(x, *args, **kwargs)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("MVN-07")
@pytest.mark.decision("D-MVN-1", "D-MVN-3")
@pytest.mark.parametrize(
    ("mean", "dtype"),
    [*itertools.product((0, 8, -64), FLOATS), *((1024, d) for d in FLOATS if d != "bfloat16")],
)
def test_exact_fill(mean: int, dtype: str) -> None:
    """Any order of summation gives the same bits: no tolerance."""
    scale, bias = (np.array([[v]], dtype_of(dtype)) for v in (4, 0.5))
    for repeats in (1, 2, 3, 16, 129, 512):
        deviations = np.random.default_rng(repeats).permutation(np.tile(OFFSETS, repeats))
        x = np.stack([mean + deviations, mean - deviations]).astype(dtype_of(dtype))
        y = normalize(x, scale, bias, axes=1, epsilon=0.25).astype("float64")
        assert (y == np.stack([deviations, -deviations]) * 2 + 0.5).all(), repeats
        y = normalize(x, axes=1, use_variance=False).astype("float64")
        assert (y == np.stack([deviations, -deviations])).all(), repeats
        columns = normalize(x.T, scale, bias, axes=0, epsilon=0.25).astype("float64")
        assert (columns == np.stack([deviations, -deviations], 1) * 2 + 0.5).all(), repeats


@pytest.mark.small
@pytest.mark.bug("MVN-07")
@pytest.mark.decision("D-MVN-13")
@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_fill_without_mean(dtype: str) -> None:
    x = np.tile(OFFSETS, 33).astype(dtype_of(dtype))
    y = normalize(x, axes=0, use_mean=False, epsilon=0.25)
    assert (y.astype("float64") * 2 == x.astype("float64")).all()


CONSTANTS = (0.1, 1234.0, 3.3e7, -0.7, 1e-30, 1e-42, 1 / 3)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MVN-5", "D-MVN-7")
@pytest.mark.bug("MVN-03")
@pytest.mark.parametrize(
    ("value", "dtype"),
    [(v, d) for v in CONSTANTS for d in FLOATS if abs(v) < 65504 or d != "float16"],
)
def test_constant_groups_give_the_bias(value: float, dtype: str) -> None:
    """Exactly, for every size, along rows and along columns; NaN where epsilon is 0."""
    kind = dtype_of(dtype)
    bias = np.array([[0.3]]).astype(kind)
    for n in (1, 2, 3, 7, 10, 33, 256, 1000, 4097):
        x = np.full((2, n), value).astype(kind)
        for rows, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            y = normalize(rows, None, bias, axes=axis)
            assert set(y.ravel().tolist()) == {bias.item()}, (n, axis)
            assert (normalize(rows, axes=axis, use_variance=False) == 0).all(), (n, axis)
            assert np.isnan(normalize(rows, axes=axis, epsilon=0).astype("float64")).all()


@pytest.mark.decision("D-MVN-5", "D-GRAD-25")
@pytest.mark.parametrize(
    ("dtype", "n", "value"),
    [
        *(("float32", n, v) for n in (2, 3, 7, 15) for v in (1.760667e30, 2.2e37, -3e36)),
        ("float32", 100, 3.3e36),
        *(("bfloat16", n, v) for n in (3, 15) for v in (1.7e30, 2.1e37)),
        *(("float64", n, v) for n in (2, 3, 7, 33) for v in (2.441316933461805e222, -1.1e300)),
        ("float64", 5000, 5.3e173),
    ],
)
def test_constant_groups_of_huge_values(dtype: str, n: int, value: float) -> None:
    """Their sum is finite; the square of what its rounding leaves would not be."""
    x = np.full((2, n), value).astype(dtype_of(dtype))
    for rows, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
        assert (normalize(rows, axes=axis) == 0).all(), axis
        assert (normalize(rows, axes=axis, use_variance=False) == 0).all(), axis
        assert np.isnan(normalize(rows, axes=axis, epsilon=0).astype("float64")).all(), axis
        count, mean, m2 = cudml.normalization_statistics(rows, axes=axis)
        assert (count == n).all() and not m2.any() and np.isfinite(mean).all(), axis


@pytest.mark.bug("MVN-03")
@pytest.mark.decision("D-MVN-5", "D-MVN-20")
@pytest.mark.parametrize("value", [0.1, 1234.0, 3.3e7])
@pytest.mark.parametrize("n", [65536, 2**20 + 3, 2**24 + 1])
def test_large_constant_group(n: int, value: float) -> None:
    x = np.full(n, value, np.float32)
    normalize(x, axes=0, out=x)
    assert not x.any()


@pytest.mark.decision("D-MVN-20")
def test_count_above_two_to_the_24() -> None:
    """One element more than float32 can count: the mean of a lone 1 and of all ones but one."""
    n = 2**24 + 2
    x = np.ones(n, np.float16)
    x[n // 2 :] = -1
    y = normalize(x, axes=0, epsilon=0)
    assert y[0] == 1
    assert y[-1] == -1
    assert (y == x).all()


@pytest.mark.small
@pytest.mark.bug("MVN-01")
@pytest.mark.decision("D-MVN-4", "D-MVN-18")
@pytest.mark.parametrize("ratio", [1, 30, 1e3, 3e4, 1e6])
@pytest.mark.parametrize("n", [4, 64, 256, 5000])
def test_mean_far_above_the_deviation(n: int, ratio: float) -> None:
    rng = np.random.default_rng(n)
    for sign in (1, -1):
        x = (sign * ratio + rng.standard_normal((3, n))).astype(np.float32)
        check(OP, x, axes=1, layouts=FLAT)
        check(OP, np.ascontiguousarray(x.T), axes=0, layouts=FLAT)


@pytest.mark.small
@pytest.mark.decision("D-MVN-4", "D-MVN-18")
@pytest.mark.parametrize("n", [5, 4097, 5000, 100003])
def test_float64_with_a_large_mean(n: int) -> None:
    rng = np.random.default_rng(n)
    x = 1e6 + rng.standard_normal((2, n))
    check(OP, x, axes=1, layouts=FLAT)
    check(OP, x, axes=1, use_variance=False, layouts=FLAT)
    check(OP, np.ascontiguousarray(x.T), axes=0, epsilon=0, layouts=FLAT)


@pytest.mark.small
@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("n", [4097, 70001])
def test_long_groups_of_ordinary_data(n: int) -> None:
    """No chain of more than 4096 additions: the error stays far below n units."""
    rng = np.random.default_rng(n)
    x = (rng.random((2, n)) + 0.5).astype(np.float32)
    y = normalize(x, axes=1).astype("float64")
    wide = x.astype("float64")
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.abs(y - want).max() < 1e-5
    assert np.sqrt(np.mean((y - want) ** 2)) < 1e-6


@pytest.mark.decision("D-MVN-4", "D-TEN-9")
def test_chunks_of_doubles_that_are_all_rounded_to_the_same_side() -> None:
    """Pieces of 2048 numbers +-a, whose sums of squares a plain chain rounds down every time."""
    candidates = np.random.default_rng(0).uniform(1, 1.4, 2**20)
    low_bits = np.square(candidates).view(np.int64) & (2**17 - 1)
    a = float(candidates[np.argmin(np.abs(low_bits - (2**16 - 1)))])

    def group(pieces: int) -> np.ndarray:
        row = np.where(np.arange(2048 + 2 * pieces) % 2, a, -a)
        return np.lib.stride_tricks.as_strided(row, (pieces, 2048), (16, 8))

    def units(value: float, exact: Fraction) -> float:
        return float(abs(Fraction(value) / exact - 1) * 2**53)

    x, every, most = group(2**17), (0, 1), 4096 + 28
    *_, m2 = cudml.normalization_statistics(x, axes=every)
    assert units(m2.item(), Fraction(a) ** 2 * x.size) <= most + 8
    _, of_scale, _ = cudml.mean_variance_normalization_grad(
        x, x, np.ones((1, 1)), axes=every, epsilon=0, outputs=("scale",)
    )
    assert units(of_scale.item(), Fraction(a) * x.size) <= (most / 2 + 6) + 1 + (most - 1)
    y = normalize(group(2**15), axes=every, epsilon=0)
    assert units(y.max(), Fraction(1)) <= most / 2 + 7


@pytest.mark.small
@pytest.mark.decision("D-MVN-6")
@pytest.mark.bug("MVN-04")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_types_are_summed_wide(dtype: str) -> None:
    kind = dtype_of(dtype)
    rng = np.random.default_rng(1)
    x = (rng.random((3, 700)) * 1.2e5 - 6e4).astype(kind)
    check(OP, x, axes=1)
    check(OP, x, axes=1, use_mean=False)
    ones = np.ones(4096, kind)
    ones[2048:] = 3
    assert set(normalize(ones, axes=0, epsilon=0).astype("float64").tolist()) == {-1.0, 1.0}
    many = np.where(np.arange(8192) % 4, 1, 5).astype(kind)
    assert set(normalize(many, axes=0, use_variance=False).astype("float64")) == {-1.0, 3.0}


@pytest.mark.small
@pytest.mark.decision("D-MVN-6")
def test_one_rounding_after_scale_and_bias() -> None:
    """float16 holds neither 1 + 2**-12 nor the sum before the bias cancels it."""
    near = 1 + 3 * 2.0**-10
    x, scale, bias = (np.array([v], np.float16) for v in (near, near, -1))
    y = normalize(x, scale, bias, axes=(), use_mean=False, use_variance=False)
    assert y[0] == np.float16(near**2 - 1)
    assert y[0] != np.float16(near**2) - np.float16(1)


# Where the special values stand in the group, and what comes out for (finite x, each special).
GROUPS = [(1.0, 2.0, 3.0), tuple(range(1, 40)), tuple(range(1, 5001)), tuple(range(1, 12002))]
PLACES = [(0,), (1,), (-1,), (0, -1), (1, -2)]


def group(values: Any, places: Any, specials: Any, dtype: str) -> np.ndarray:
    x = (np.array(values, np.float64) % 50).astype(dtype_of(dtype))
    for place, special in zip(places, specials, strict=False):
        x[place] = special
    return x


@np.errstate(all="ignore")
def outcome(x: np.ndarray, use_mean: bool, use_variance: bool) -> np.ndarray:
    """What IEEE gives for the formula in a group that holds a NaN or an infinity."""
    wide = x.astype(np.float64)
    infinite = np.isinf(wide)
    if not (use_mean or use_variance):
        return wide
    total = wide.sum() if use_mean else 0.0
    if np.isnan(wide).any() or np.isnan(total) or (use_mean and use_variance):
        return np.full(wide.shape, NAN)
    finite = np.full(wide.shape, -total) if use_mean else 0.0 * np.where(infinite, 1, wide)
    return np.where(infinite, NAN, finite)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("MVN-12")
@pytest.mark.decision("D-MVN-16")
@pytest.mark.parametrize(
    ("use_mean", "use_variance"), [*itertools.product((True, False), repeat=2)]
)
@pytest.mark.parametrize(
    "specials", [(INF,), (-INF,), (NAN,), (INF, INF), (-INF, -INF), (INF, -INF), (NAN, INF)]
)
def test_infinities_and_nan(specials: Any, use_mean: bool, use_variance: bool) -> None:
    flags = {"use_mean": use_mean, "use_variance": use_variance}
    for values, places, dtype in itertools.product(GROUPS, PLACES, FLOATS):
        if len(set(np.arange(len(values))[list(places)])) < len(specials):
            continue
        x = group(values, places, specials, dtype)
        want = outcome(x, use_mean, use_variance)
        for rows, axis in ((x[None], 1), (x[:, None], 0)):
            got = normalize(rows, axes=axis, **flags).astype("float64").ravel()
            assert np.array_equal(got, want, equal_nan=True), (dtype, len(values), places, axis)


@pytest.mark.small
@pytest.mark.bug("MVN-12")
@pytest.mark.decision("D-MVN-16", "D-MVN-21")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [3, 50, 5000])
def test_other_groups_do_not_notice(n: int, dtype: str) -> None:
    """Bit equal to a run without the special group, along rows and columns."""
    kind = dtype_of(dtype)
    largest = float(np.finfo(kind).max) if dtype != "bfloat16" else 3.38e38
    x = np.random.default_rng(n).standard_normal((5, n)).astype(kind)
    specials = ([INF], [NAN], [INF, -INF], [largest] * 3, [largest, -largest])
    for special, use_mean in itertools.product(specials, (True, False)):
        dirty = x.copy()
        dirty[2, : len(special)] = special
        for clean, other, axis in ((x, dirty, 1), (x.T.copy(), dirty.T.copy(), 0)):
            a = np.delete(normalize(clean, axes=axis, use_mean=use_mean), 2, 1 - axis)
            b = np.delete(normalize(other, axes=axis, use_mean=use_mean), 2, 1 - axis)
            assert same_bits(a, b), (special, axis)


@pytest.mark.small
@pytest.mark.decision("D-MVN-21")
def test_overflowing_sums_are_not_hidden() -> None:
    """A sum of squares beyond float32 makes y 0, infinite or NaN as the arithmetic has it."""
    x = np.array([[3e38, -3e38, 3e38, -3e38], [1, 2, 3, 4]], np.float32)
    y = normalize(x, axes=1)
    assert np.isnan(y[0]).any() or (np.abs(y[0]) <= 1.0001).all()
    assert bits(y[1]) == bits(normalize(x[1:], axes=1)[0])


@pytest.mark.small
@pytest.mark.decision("D-MVN-9", "D-MVN-7")
@pytest.mark.parametrize("dtype", FLOATS)
def test_type_of_epsilon(dtype: str) -> None:
    """epsilon is float32, or float64 with float64 data: rounded first, then checked."""
    x = np.full((2, 3), 7).astype(dtype_of(dtype))

    def constant(epsilon: float) -> list[float]:
        y = normalize(x, axes=1, epsilon=epsilon).astype("float64")
        return [v for v in set(y.ravel().tolist()) if v == v]

    wide = dtype == "float64"
    assert constant(1e-60) == ([0.0] if wide else [])
    assert constant(1e-8) == [0.0]
    assert constant(1e-45) == [0.0]
    assert constant(0) == []
    assert constant(-0.0) == []
    if wide:
        assert constant(1e39) == [0.0]
        assert constant(5e-324) == [0.0]
    else:
        assert constant(-1e-60) == []


@pytest.mark.small
@pytest.mark.decision("D-MVN-9")
def test_epsilon_keeps_its_digits() -> None:
    """float64 data see the double, other data the nearest float32 and no float16."""
    for dtype, root, share in (("float64", 0.1, 1e-15), ("float32", np.float32(0.1), 2e-7)):
        x = np.zeros(2, dtype) + dtype_of(dtype).type(0.25)
        y = normalize(x, axes=0, use_mean=False, epsilon=0.1)
        assert float(y[0]) == pytest.approx(0.25 / np.sqrt(0.0625 + float(root)), rel=share)
    half = np.array([6e-8, -6e-8], np.float16)
    y = normalize(half, axes=0, epsilon=1e-8)
    assert float(y[0]) == pytest.approx(float(half[0]) / 1e-4, rel=2e-3)


LARGE = [d for d in ("float32", "bfloat16", "float64") if d in FLOATS]
# groups along rows, short rows, columns, columns that are folded, both, few wide ones
PATHS = [((6, 33), 1), ((9, 7), 1), ((33, 21), 0), ((33, 3), 0), ((3, 5, 11, 37), (0, 2))]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MVN-21", "D-MVN-4")
@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize(("shape", "axes"), PATHS)
def test_one_number_near_the_largest(shape: tuple[int, ...], axes: Any, dtype: str) -> None:
    """The group's sum is in range: so is its mean, whatever else is summed on the way to it."""
    rng = np.random.default_rng(len(shape))
    values = rng.standard_normal(shape)
    groups = np.moveaxis(values, axes, range(np.size(axes)))
    rows = groups.shape[: np.size(axes)]
    for place, index in enumerate(np.ndindex(groups.shape[np.size(axes) :])):
        where = np.unravel_index(place * 5 % int(np.prod(rows)), rows)
        sign = -1 if place % 3 else 1
        groups[(*where, *index)] = sign * float(FORMATS[dtype].largest) * 0.996
    x = values.astype(dtype_of(dtype))
    y = normalize(x, axes=axes, use_variance=False)
    assert np.isfinite(y.astype("float64")).all()
    check(OP, x, axes=axes, use_variance=False, activation="relu", layouts=FLAT)
    check(OP, x, axes=axes, use_variance=False, layouts=FLAT)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MVN-21", "D-MVN-4")
@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize(("shape", "axes"), PATHS)
def test_a_mean_of_numbers_whose_squares_overflow(
    shape: tuple[int, ...], axes: Any, dtype: str
) -> None:
    """Without variance no square is wanted: the deviations keep their digits."""
    large, spread = {"float64": (1e200, 1e190), "bfloat16": (1e25, 3e23)}.get(dtype, (1e25, 1e21))
    offsets = np.random.default_rng(3).standard_normal(shape)
    x = (large + spread * offsets).astype(dtype_of(dtype))
    check(OP, x, axes=axes, use_variance=False, layouts=FLAT)
    check(OP, -x, axes=axes, use_variance=False, activation="relu", layouts=FLAT)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("kept", [0xFFFFFFFF, 0x80FFFFFF])
@pytest.mark.parametrize("n", [96, 200, 4096])
def test_bfloat16_results_of_any_bits_are_rounded_to_even(n: int, kept: int) -> None:
    """Normalized numbers are 1 and -1, so results are the scale's bits: any, or about subnormal."""
    kind = pytest.importorskip("ml_dtypes").bfloat16
    pattern = np.random.default_rng(n).integers(0, 2**32, n, np.uint32) & np.uint32(kept)
    scale, bias = pattern.view(np.float32)[None], np.full((1, n), -0.0, np.float32)
    x = np.ones((9, n), kind)
    x[:, ::2] = -1
    y = cudml.mean_variance_normalization(x, scale, bias, axes=1, epsilon=0)
    with np.errstate(all="ignore"):
        expected = (x.astype(np.float32) * scale + bias).astype(kind)
    is_nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(y.astype(np.float32)) == is_nan).all()
    assert (y.view(np.uint16) == expected.view(np.uint16))[~is_nan].all()
