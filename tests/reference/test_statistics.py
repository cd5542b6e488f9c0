"""Normalization in two phases: examples, merges of any partition, empty parts, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import harness
from cudml import bounds, reference

nan, inf = math.nan, math.inf
statistics, merge = reference.normalization_statistics, reference.merge_statistics
ONE_TO_FOUR = np.array([1.0, 2, 3, 4])


def triple(*values: float, dtype: str = "f8") -> tuple[np.ndarray, ...]:
    return tuple(np.array([v], dtype) for v in values)


def one(*values: float) -> np.ndarray:
    return np.array(values, float)


def same(got: Any, *want: Any) -> None:
    for values, expected in zip(got, want, strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_st1(dtype: str) -> None:
    x = ONE_TO_FOUR.astype(harness.dtype_of(dtype))
    same(statistics(x, axes=0), [4], [2.5], [5])
    want = bounds.expected("normalization_statistics", x, axes=0)
    assert want.dtypes == [np.dtype("f8")] * 3
    want = bounds.expected("normalization_statistics", x, axes=0, dtype=np.float32)
    assert want.dtypes == [np.dtype("f4")] * 3


def test_st2_to_st4() -> None:
    x = np.array([10000, 10001, 10002, 10003], "f4")
    same(statistics(x, axes=0, dtype="float32"), [4], [10001.5], [5])
    same(statistics(ONE_TO_FOUR, axes=0, use_mean=False), [4], [0], [30])
    same(statistics(np.zeros((0, 2)), axes=0), [[0, 0]], [[0, 0]], [[0, 0]])
    same(statistics(np.zeros((0, 2)), axes=1), *[np.zeros((0, 1))] * 3)
    same(statistics(ONE_TO_FOUR, axes=()), np.ones(4), ONE_TO_FOUR, np.zeros(4))


MERGES = [
    ((2, 1.5, 0.5), (2, 3.5, 0.5), (4, 2.5, 5)), ((3, 2, 2), (1, 10, 0), (4, 4, 50)),
    ((0, 0, 0), (3, 7, 2), (3, 7, 2)), ((3, 7, 2), (0, 0, 0), (3, 7, 2)),
    ((0, 0, 0), (0, 0, 0), (0, 0, 0)), ((2, 1, 1), (2, inf, nan), (4, inf, nan)),
    ((2, inf, nan), (2, -inf, nan), (4, nan, nan)), ((0, 0, 0), (2, inf, nan), (2, inf, nan)),
]  # fmt: skip


@pytest.mark.parametrize("a, b, want", MERGES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_st5(a: Any, b: Any, want: Any, dtype: str) -> None:
    call = triple(*a, dtype=dtype), triple(*b, dtype=dtype)
    same(merge(*call), *([w] for w in want))
    expected = bounds.expected("merge_statistics", *call)
    assert expected.dtypes == [np.dtype(dtype)] * 3
    assert bounds.compare(triple(*want, dtype=dtype), expected).ok


def test_infinities_and_nan_in_statistics() -> None:
    """D-GRAD-25."""
    x = np.array([[1, inf, 2], [inf, -inf, 1], [1, nan, 2], [1, 2, 3]])
    _, mean, squares = statistics(x, axes=1)
    np.testing.assert_array_equal(mean[:, 0], [inf, nan, nan, 2])
    np.testing.assert_array_equal(squares[:, 0], [nan, nan, nan, 2])
    squares = statistics(x, axes=1, use_mean=False)[2]
    np.testing.assert_array_equal(squares[:, 0], [inf, inf, nan, 14])


@pytest.mark.parametrize("seed", range(12))
def test_any_partition_merges_to_the_whole(seed: int) -> None:
    """Parts along the first axis, some of them empty, merged in ascending order."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, 3, 4)) + 10.0 ** rng.integers(-1, 4)
    cuts = np.sort(rng.integers(0, 21, 5))
    for use_mean, axes in itertools.product((True, False), ((0,), (0, 2), (0, 1, 2))):
        parts = [statistics(p, axes=axes, use_mean=use_mean) for p in np.split(x, cuts)]
        assert len(parts) == 6
        total, slack = parts[0], [0.0, 0.0, 0.0]
        for part in parts[1:]:
            merged = bounds.expected("merge_statistics", total, part)
            slack = [e + b for e, b in zip(slack, merged.bounds, strict=True)]
            total = merge(total, part)
        whole = statistics(x, axes=axes, use_mean=use_mean)
        for got, want, error in zip(total, whole, slack, strict=True):
            assert (np.abs(got - want) <= error + 2.0**-53 * want).all()
        mean = total[1] if use_mean else None
        got = reference.normalize(x, mean, total[2] / total[0], activation="gelu")
        want = reference.mean_variance_normalization(
            x, axes=axes, use_mean=use_mean, activation="gelu"
        )
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


def test_statistics_are_exact_to_the_last_bit() -> None:
    x = (1e6 + np.random.default_rng(1).standard_normal((3, 40, 5))).astype("f4")
    count, mean, squares = statistics(x, axes=(0, 2))
    for c in range(40):
        values = [Fraction(float(v)) for v in x[:, c].ravel()]
        center = sum(values) / len(values)
        assert count[0, c, 0] == 15 and mean[0, c, 0] == float(center)
        assert squares[0, c, 0] == float(sum((v - center) ** 2 for v in values))


def test_nm1_to_nm3() -> None:
    y = reference.normalize(ONE_TO_FOUR, one(2.5), one(1.25))
    want = [-1.341635, -0.447212, 0.447212, 1.341635]
    assert np.abs(y - want).max() <= 0.5000001e-6
    y = reference.normalize(ONE_TO_FOUR, one(2.5), None, one(2), one(1), activation="relu")
    np.testing.assert_array_equal(y, [0, 0, 2, 4])
    y = reference.normalize(ONE_TO_FOUR, None, one(3.75), epsilon=0.25)
    np.testing.assert_array_equal(y, [0.5, 1, 1.5, 2])
    with harness.refused(ValueError, "normalize: Epsilon is -1"):
        reference.normalize(ONE_TO_FOUR, None, None, epsilon=-1)


def test_nm5() -> None:
    x = np.array([1e8, 1e8 + 8, 1e8 + 16], "f4")
    y = reference.normalize(x, one(100000009), one(4), epsilon=0)
    np.testing.assert_array_equal(y, [-4.5, -0.5, 3.5])
    rounded = one(100000009).astype("f4")
    np.testing.assert_array_equal(reference.normalize(x, rounded, one(4), epsilon=0), [-4, 0, 4])
    want = bounds.expected("normalize", x, one(100000009), one(4), epsilon=0)
    assert not bounds.compare(np.array([-4, 0, 4], "f4"), want).ok


def test_a_negative_variance_gives_nan() -> None:
    y = reference.normalize(ONE_TO_FOUR, one(0), np.array([1.0, -1, 0, -1e-5]), epsilon=1e-5)
    assert np.isnan(y).tolist() == [False, True, False, False] and y[3] == inf


def test_ng1() -> None:
    got = reference.normalize_grad(
        ONE_TO_FOUR, ONE_TO_FOUR, one(2.5), one(1.25), one(2), one(1), epsilon=0
    )
    assert np.abs(got[0] - ONE_TO_FOUR * 1.788854).max() < 3e-6
    assert abs(got[1][0] - 4.472136) <= 0.5e-6 and got[2].tolist() == [10]


def test_ng2() -> None:
    grad = np.array([1.0, 0, 0, 0])
    whole = statistics(ONE_TO_FOUR, axes=0)
    same(whole, [4], [2.5], [5])
    given = (whole[1], whole[2] / whole[0])
    parts = [(ONE_TO_FOUR[i : i + 2], grad[i : i + 2]) for i in (0, 2)]
    sums = [reference.normalize_grad_sums(*part, *given, axes=0) for part in parts]
    assert sums[0][0] == [1] and abs(sums[0][1][0] + 1.341635) <= 0.5e-6
    same(sums[1], [0], [0])
    total = tuple(a + b for a, b in zip(*sums, strict=True))
    dx = [reference.normalize_grad(*part, *given, count=whole[0], sums=total)[0] for part in parts]
    want = [[0.268330, -0.357768], [-0.089443, 0.178882]]
    assert np.abs(np.array(dx) - want).max() <= 0.5000001e-6


@pytest.mark.parametrize("flags", [*itertools.product((True, False), repeat=2)])
def test_two_phases_give_the_whole_gradient(flags: tuple[bool, bool]) -> None:
    x, grad = np.random.default_rng(7).standard_normal((2, 9, 4, 5))
    scale, bias = np.random.default_rng(8).standard_normal((2, 1, 4, 1))
    more = {"epsilon": 0.1, "activation": "swish"}
    names = {"use_mean": flags[0], "use_variance": flags[1]}
    whole = reference.mean_variance_normalization_grad(
        x, grad, scale, bias, axes=(0, 2), **names, **more
    )
    count, mean, squares = statistics(x, axes=(0, 2), use_mean=flags[0])
    given = mean if flags[0] else None, squares / count if flags[1] else None
    parts = [(x[i:j], grad[i:j], *given, scale, bias) for i, j in ((0, 4), (4, 4), (4, 9))]
    sums = [reference.normalize_grad_sums(*p, axes=(0, 2), **more) for p in parts]
    assert all((s == 0).all() for s in sums[1])
    total = [sum(s[i] for s in sums) for i in (0, 1)]
    got = [reference.normalize_grad(*p, count=count, sums=total, **more) for p in parts]
    np.testing.assert_allclose(np.concatenate([g[0] for g in got]), whole[0], rtol=1e-12)
    for i in (1, 2):
        np.testing.assert_allclose(sum(g[i] for g in got), whole[i], rtol=1e-12)
    constant = reference.normalize_grad(*parts[0], **more, outputs=["x"])
    assert constant[1] is None and constant[2] is None
    saved = reference.mean_variance_normalization_grad(
        x, grad, scale, bias, axes=(0, 2), **names, **more, mean=given[0], variance=given[1]
    )
    for a, b in zip(saved, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("flags", [*itertools.product((True, False), repeat=2)])
def test_statistics_beside_the_result(flags: tuple[bool, bool]) -> None:
    """D-GRAD-48."""
    x = harness.data((3, 4, 5), "float16", 1)
    more = {"axes": (0, 2), "use_mean": flags[0], "use_variance": flags[1]}
    y, mean, variance = reference.mean_variance_normalization(x, **more, return_statistics=True)
    assert y.tobytes() == reference.mean_variance_normalization(x, **more).tobytes()
    count, want, squares = statistics(x, axes=(0, 2), use_mean=flags[0])
    assert (mean is None) == (not flags[0]) and (variance is None) == (not flags[1])
    if mean is not None:
        np.testing.assert_array_equal(mean, want)
    if variance is not None:
        np.testing.assert_allclose(variance, squares / count, rtol=1e-15)
    expected = bounds.expected("mean_variance_normalization", x, **more, return_statistics=True)
    assert expected.dtypes == [np.dtype("f2"), np.dtype("f4"), np.dtype("f4")]
    results = [
        v if v is None else v.astype(d)
        for v, d in zip((y, mean, variance), expected.dtypes, strict=True)
    ]
    assert bounds.compare(results, expected).ok
    if mean is not None:
        results[1] = results[1] * np.float32(1 + 2.0**-18)
        assert not bounds.compare(results, expected).ok


X, STAT = harness.data((2, 3, 4), "float16", 1), np.ones((2, 1, 4), "f4")
PARTS = (np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)))
GOOD: dict[str, dict[str, Any]] = {
    "normalization_statistics": {"x": X, "axes": 1},
    "merge_statistics": {"a": PARTS, "b": list(PARTS)},
    "normalize": {"x": X, "mean": STAT, "variance": STAT},
    "normalize_grad_sums": {"x": X, "grad": X, "mean": STAT, "variance": None, "axes": (0, -1)},
    "normalize_grad": {
        "x": X, "grad": X, "mean": STAT, "variance": STAT, "count": STAT, "sums": (STAT, STAT),
    },
}  # fmt: skip
BIG = np.broadcast_to(np.float16(1), (2**24 + 1,))
REFUSED = [
    ("normalization_statistics", TypeError, "InputTensor is a list", {"x": [1.0]}),
    ("normalization_statistics", TypeError, "InputTensor.DataType is int32", {"x": X.astype("i4")}),
    ("normalization_statistics", ValueError, "Axes[0] is 3", {"axes": 3}),
    ("normalization_statistics", ValueError, "named once only", {"axes": (1, 1)}),
    ("normalization_statistics", TypeError, "UseMean is 0", {"use_mean": 0}),
    ("normalization_statistics", TypeError, "DataType is 'float16'; it must be float32 or float64",
     {"dtype": "float16"}),
    ("normalization_statistics", TypeError, "DataType is None", {"dtype": None}),
    ("normalization_statistics", TypeError, "DataType is 'nonsense'", {"dtype": "nonsense"}),
    ("normalization_statistics", ValueError, "Count is 16777217; float32 holds counts to 16777216, "
     "float64", {"x": BIG, "axes": 0, "dtype": "float32"}),
    ("merge_statistics", TypeError, "a is an array of shape (2, 3)", {"a": PARTS[0]}),
    ("merge_statistics", TypeError, "b is (array", {"b": PARTS[:2]}),
    ("merge_statistics", TypeError, "a.Count is a float", {"a": (1.0, *PARTS[1:])}),
    ("merge_statistics", TypeError, "b.M2.DataType is float32; it must be float64",
     {"b": (*PARTS[:2], PARTS[2].astype("f4"))}),
    ("merge_statistics", TypeError, "a.Mean.DataType is float16",
     {"a": (PARTS[0], PARTS[1].astype("f2"), PARTS[2])}),
    ("merge_statistics", ValueError, "a.M2.Sizes are (2, 1); they must be (2, 3)",
     {"a": (*PARTS[:2], PARTS[2][:, :1])}),
    ("merge_statistics", ValueError, "b.Count.Sizes are (1, 3)", {"b": [p[:1] for p in PARTS]}),
    ("merge_statistics", ValueError, "a.Count.DimensionCount is 0", {"a": [np.array(1.0)] * 3}),
    ("normalize", TypeError, "Mean.DataType is bool", {"mean": STAT > 0}),
    ("normalize", ValueError, "Mean.Sizes are (1, 4); each must be 1", {"mean": STAT[0]}),
    ("normalize", ValueError, "Variance.Sizes are (2, 2, 4)", {"variance": STAT.repeat(2, 1)}),
    ("normalize", ValueError, "Epsilon is -0.5", {"epsilon": -0.5, "variance": None}),
    ("normalize", ValueError, "FusedActivation is 'silu'", {"activation": "silu"}),
    ("normalize", TypeError, "ScaleTensor.DataType is float64", {"scale": STAT.astype("f8")}),
    ("normalize_grad_sums", ValueError, "InputGradientTensor.Sizes", {"grad": X[:1]}),
    ("normalize_grad_sums", TypeError, "InputGradientTensor.DataType", {"grad": X.astype("f4")}),
    ("normalize_grad_sums", TypeError, "DataType is 'int64'", {"dtype": "int64"}),
    ("normalize_grad_sums", ValueError, "Axes[1] is -4", {"axes": (0, -4)}),
    ("normalize_grad_sums", ValueError, "Variance.Sizes are (2, 1)", {"variance": STAT[..., 0]}),
    ("normalize_grad", ValueError, "Count is absent and sums are given", {"count": None}),
    ("normalize_grad", ValueError, "Count is given and sums are absent", {"sums": None}),
    ("normalize_grad", TypeError, "sums is an array of shape", {"sums": STAT}),
    ("normalize_grad", TypeError, "sums is (array", {"sums": (STAT,)}),
    ("normalize_grad", TypeError, "GradientSum is a NoneType", {"sums": (None, STAT)}),
    ("normalize_grad", ValueError, "ProductSum.Sizes are (2, 2, 4)",
     {"sums": (STAT, STAT.repeat(2, 1))}),
    ("normalize_grad", TypeError, "Count.DataType is int64", {"count": STAT.astype("i8")}),
    ("normalize_grad", ValueError, "outputs is []", {"outputs": []}),
    ("normalize_grad", TypeError, "outputs is 'bias'", {"outputs": "bias"}),
]  # fmt: skip


@pytest.mark.parametrize("op, error, text, fields", REFUSED, ids=lambda v: str(v)[:40])
def test_refusal(op: str, error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    getattr(reference, op)(**GOOD[op])
    with harness.refused(error, f"{op}: ", text):
        getattr(reference, op)(**{**GOOD[op], **fields})
    with harness.refused(error, f"{op}: ", text):
        bounds.expected(op, **{**GOOD[op], **fields})


def test_statistics_of_every_permitted_type() -> None:
    for kind in ("f2", "f4", "f8"):
        values = STAT.astype(kind)
        reference.normalize(X, values, values)
        reference.normalize_grad(X, X, values, None, count=values, sums=[values, values])
    with harness.refused(TypeError, "Mean.DataType is float16; it must be float32 or float64"):
        reference.normalize(X.astype("f4"), STAT.astype("f2"), None)


def test_empty_parts() -> None:
    """D-GRAD-24: allowed wherever a part may be empty."""
    x, given = np.zeros((2, 0, 4)), np.ones((2, 1, 4))
    same(reference.normalize_grad_sums(x, x, given, given, axes=1), *[np.zeros((2, 1, 4))] * 2)
    dx, dscale, dbias = reference.normalize_grad(x, x, given, given, given, np.ones((1, 1, 1)))
    assert dx.shape == x.shape and reference.normalize(x, given, None).shape == x.shape
    same((dscale, dbias), np.zeros((2, 1, 4)), np.zeros((1, 1, 1)))
    with harness.refused(ValueError, "InputTensor.Sizes[1] is 0; it is one of Axes"):
        reference.mean_variance_normalization(x, axes=1)


def test_a_mean_of_doubles_between_two_may_be_either() -> None:
    """The reference is rounded as well."""
    x = np.array([1, 1 + 2.0**-52])
    want = bounds.expected("normalization_statistics", x, axes=0)
    for ulps in (-2, 0, 1, 2):
        mean = np.array([1 + ulps * 2.0**-52])
        got = (np.array([2.0]), mean, want.values[2])
        assert bounds.compare(got, want).ok == (ulps in (0, 1))
