"""The pass rule rejects planted errors, one at a time, and accepts honest rounding."""

from __future__ import annotations

import numpy as np
import pytest

import harness
from cudml import reference
from cudml.bounds import Expected, compare, expected, judge
from cudml.reference.numbers import FORMATS, spacing

GEOMETRY = {"window_size": (3, 2), "strides": (2, 1), "start_padding": (1, 0), "dilations": (1, 2)}


def honest(want: Expected) -> list[np.ndarray]:
    """The reference values rounded once to the result's type."""
    return [v.astype(d) for v, d in zip(want.values, want.dtypes, strict=True)]


def bumped(x: np.ndarray, ulps: float, at: int = 0) -> np.ndarray:
    """x with one element moved up by this many spacings of its type."""
    y = x.astype(np.float64)
    y.flat[at] += ulps * spacing(y.flat[at : at + 1], FORMATS[x.dtype.name])[0]
    return y.astype(x.dtype)


def rejected(result, want: Expected, *fragments: str) -> None:
    verdict = compare(result, want)
    assert not verdict.ok and verdict.largest_bound_share == np.inf
    for fragment in fragments:
        assert fragment in verdict.message


def calls(dtype):
    """One call of each operator with random data of this type."""
    x = harness.data((2, 3, 7, 6), dtype, 1)
    grad = harness.data(reference.max_pooling(x, **GEOMETRY).shape, dtype, 2)
    scale = harness.data((1, 3, 1, 1), dtype, 3)
    yield "max_pooling", (x,), GEOMETRY
    yield "max_pooling", (x,), {**GEOMETRY, "return_indices": True}
    yield "max_pooling_grad", (x, grad), GEOMETRY
    yield "average_pooling", (x,), GEOMETRY
    yield "average_pooling_grad", (grad, x.shape), GEOMETRY
    yield "lp_pooling", (x,), {**GEOMETRY, "p": 3}
    yield "padding", (x, 1, 2), {"mode": "wrap"}
    yield "mean_variance_normalization", (x, scale, scale), {"axes": (2, 3), "activation": "gelu"}


@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_honest_results_pass_and_errors_far_beyond_the_bound_do_not(dtype):
    for op, args, kwargs in calls(dtype):
        want = expected(op, *args, **kwargs)
        verdict = compare(honest(want), want)
        assert verdict.ok and verdict.message == "" and verdict.largest_bound_share <= 1
        for i, got in enumerate(honest(want)):
            for wrong in (got[..., :-1], np.full_like(got, 77)):
                rejected([*honest(want)[:i], wrong, *honest(want)[i + 1 :]], want, f"output {i}")
        rejected([g.astype("f8" if g.dtype != "f8" else "f4") for g in honest(want)], want, "dtype")


@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_exact_fill_leaves_less_than_two_ulps(dtype):
    x = np.array([[[1.0, 2, 3, 4]]]).astype(harness.dtype_of(dtype))
    want = expected("average_pooling", x, 1)
    assert compare(bumped(x, 0), want).ok
    rejected(bumped(x, 4), want, "output 0[0, 0, 0]", "expected 1.0")
    if dtype in ("float16", "bfloat16"):
        rejected(bumped(x, 1), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_second_rounding_of_a_half_type_fails(dtype):
    x = np.array([[[1.0, 1.0]]]).astype(harness.dtype_of(dtype))
    x[..., 1] = bumped(x[..., 1], 1)
    want = expected("average_pooling", x, 2)
    assert compare(np.ones((1, 1, 1)).astype(x.dtype), want).ok
    rejected(bumped(np.ones((1, 1, 1)).astype(x.dtype), 2), want)


def test_max_gradient_of_one_window_is_exact():
    x, grad = np.array([[[1, 5, 2, 3]]], np.float32), np.array([[[0.1, 0.3]]], np.float32)
    want = expected("max_pooling_grad", x, grad, 2, 2)
    assert (want.bounds[0] == 0).all()
    right = honest(want)[0]
    assert compare(right, want).ok
    rejected(np.nextafter(right, np.float32(1)), want)


def test_max_with_indices_compares_bits_and_without_only_values():
    x = np.array([[[-0.0, 0.0, np.nan, 1]]], np.float32)
    other_zero, other_nan = np.array([[[0.0]]], np.float32), np.array([0xFFC00001], np.uint32)
    zero = x[..., :2]
    assert compare(other_zero, expected("max_pooling", zero, 2)).ok
    want = expected("max_pooling", zero, 2, return_indices=True)
    index = np.zeros((1, 1, 1), np.uint32)
    assert compare([-other_zero, index], want).ok
    rejected([other_zero, index], want, "bits 0x0")
    rejected([-other_zero, index + 1], want, "output 1[0, 0, 0]")
    payload = other_nan.view(np.float32).reshape(1, 1, 1)
    assert compare(payload, expected("max_pooling", x[..., 2:], 2)).ok
    want = expected("max_pooling", x[..., 2:], 2, return_indices=True)
    rejected([payload, index], want)


def test_padding_compares_bits():
    x = np.array([0.0, np.nan, 1], np.float32)
    want = expected("padding", x, 1, 1, mode="edge")
    right = honest(want)[0]
    assert compare(right, want).ok
    for at, value in ((0, -0.0), (2, np.inf), (4, 1.0000001)):
        wrong = right.copy()
        wrong[at] = value
        rejected(wrong, want, f"output 0[{at}]")
    wrong = right.view(np.uint32).copy()
    wrong[2] ^= 1
    rejected(wrong.view(np.float32), want, "output 0[2]")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_match_only_themselves(value):
    x = np.array([[[value, 2.0]]], np.float32)
    want = expected("average_pooling", x, 2)
    right = honest(want)[0]
    assert compare(right, want).ok
    for wrong in {np.nan, np.inf, -np.inf, 1.0} - {value}:
        if not (np.isnan(wrong) and np.isnan(value)):
            rejected(np.full_like(right, wrong), want)
    finite = expected("average_pooling", np.ones((1, 1, 2), np.float32), 2)
    rejected(np.full((1, 1, 1), value, np.float32), finite)


def test_overflow_of_the_result_type():
    def lp(*values):
        return expected("lp_pooling", np.array([[values]], np.float16), len(values), p=1)

    inf, top = np.full((1, 1, 1), np.inf, np.float16), np.full((1, 1, 1), 65504, np.float16)
    assert compare(inf, lp(60000, 60000)).ok
    rejected(top, lp(60000, 60000))
    rejected(-inf, lp(60000, 60000))
    assert compare(top, lp(60000, 5504)).ok
    rejected(inf, lp(60000, 4000))


def test_no_claim_where_the_sum_overflows_the_compute_type():
    x = np.full((1, 1, 2), 3e38, np.float32)
    want = expected("average_pooling", x, 2)
    for value in (np.inf, 3e38):
        assert compare(np.full((1, 1, 1), value, np.float32), want).ok
    half = expected("average_pooling", np.full((1, 1, 2), 6e4, np.float16), 2)
    rejected(np.full((1, 1, 1), np.inf, np.float16), half)


DEFECTS = {
    "epsilon outside the root": lambda x: (x - x.mean()) / (x.std() + 1e-5),
    "unbiased variance": lambda x: (x - x.mean()) / np.sqrt(x.var(ddof=1) + 1e-5),
    "textbook variance": lambda x: (x - x.mean()) / np.sqrt((x * x).mean() - x.mean() ** 2 + 1e-5),
    "rounded mean": lambda x: (x - x.mean()) / np.sqrt(((x - x.mean()) ** 2).mean() + 1e-5),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_of_normalization_are_rejected(defect):
    x = (3e4 + np.random.default_rng(2).standard_normal(256)).astype(np.float32)
    if defect == "epsilon outside the root":
        x = (x - np.float32(3e4)) / 64
    want = expected("mean_variance_normalization", x, axes=0)
    rejected(DEFECTS[defect](x).astype(np.float32), want)


def corrected_two_pass(x, epsilon):
    """The algorithm that the bound belongs to, in the type of x with sequential sums."""
    n, kind = len(x), x.dtype.type
    d = x - np.cumsum(x)[-1] / kind(n)
    delta = np.cumsum(d)[-1] / kind(n)
    variance = max(kind(0), np.cumsum(d * d)[-1] / kind(n) - delta * delta)
    return (d - delta) / np.sqrt(variance + kind(epsilon))


@pytest.mark.parametrize("offset", [0, 1, 30, 1e3, 3e4, 1e6])
@pytest.mark.parametrize("n", [2, 7, 256, 4096])
def test_the_corrected_two_pass_keeps_its_bound(n, offset):
    for kind in (np.float32, np.float64):
        x = (offset + np.random.default_rng(n).standard_normal(n)).astype(kind)
        want = expected("mean_variance_normalization", x, axes=0)
        verdict = compare(corrected_two_pass(x, 1e-5), want)
        assert verdict.ok, verdict.message
        assert verdict.largest_bound_share < 0.7


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sequential_sums_keep_the_bound_of_averages(dtype):
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((200, 64)) * 10.0 ** rng.integers(-6, 7, (200, 64))).astype(dtype)
    got = np.cumsum(x, axis=1)[:, -1:] / dtype(64)
    verdict = compare(got.reshape(200, 1, 1), expected("average_pooling", x[:, None], 64))
    assert verdict.ok and 0 < verdict.largest_bound_share < 0.7


@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_activations_evaluated_in_float32_keep_their_bound(name):
    given = {"alpha": 2.0, "beta": 1.0} if name == "linear" else {}
    x = np.random.default_rng(1).uniform(-9, 9, 4000).astype(np.float32)
    more = {"axes": (), "use_mean": False, "use_variance": False, "activation": (name, given)}
    want = expected("mean_variance_normalization", x, **more)
    exact = want.values[0].astype(np.float32)
    assert compare(exact, want).ok
    off = exact + np.float32(2e-5) * np.sign(x) * (np.abs(exact) + np.float32(0.1))
    rejected(off, want)


INNER = [
    ("celu", {"alpha": -0.2}, -18.0), ("linear", {"alpha": 2e38, "beta": -3e38}, 2.0),
    ("parametric_softplus", {"alpha": 1e-3, "beta": 1e38}, 4.0),
]  # fmt: skip


@pytest.mark.decision("D-ACT-6")
@pytest.mark.parametrize("name, parameters, x", INNER, ids=str)
def test_no_claim_where_a_finite_value_is_made_of_more_than_float32_holds(name, parameters, x):
    """Where float32 overflows inside an activation; the same value of doubles must be right."""
    more = {"axes": (), "use_mean": False, "use_variance": False, "activation": (name, parameters)}
    for kind in (np.float32, np.float64):
        data = np.array([x, x / 4], kind)
        want = expected("mean_variance_normalization", data, **more)
        exact = want.values[0].astype(kind)
        assert np.isfinite(exact).all()
        assert compare(exact, want).ok
        infinite = np.array([np.copysign(np.inf, exact[0]), exact[1]], kind)
        assert compare(infinite, want).ok == (kind == np.float32)
        rejected(np.array([exact[0], np.inf], kind), want)


def test_no_claim_where_a_scale_meets_a_z_that_float32_does_not_hold():
    """0 times a z that overflows; infinity times one that may as well be 0."""
    for kind in (np.float32, np.float64):
        x, zero, half = (np.array([v], kind) for v in (-1e34, 0, 0.5))
        given = (None, np.full(1, 1e-34), zero, half)
        want = expected("normalize", x, *given, epsilon=0)
        assert compare(half, want).ok
        assert compare(np.array([np.nan], kind), want).ok == (kind == np.float32)
    x, scale = np.array([[2.0**-149, -(2.0**-149)], [1, -1]], "f4"), np.full((1, 1), np.inf, "f4")
    want = expected("mean_variance_normalization", x, scale, axes=1)
    right = np.array([[np.inf, -np.inf]] * 2, "f4")
    for value in (np.inf, -np.inf, np.nan):
        for row in (0, 1):
            got = right.copy()
            got[row, 0] = value
            assert compare(got, want).ok == (row == 0 or value == np.inf)


def test_an_error_that_reaches_where_an_activation_overflows():
    """The mean of the first two may hide all of the third, and celu of what is left is anything."""
    x = np.array([3e24, -3e24, 1e17], "f4")
    more = {"axes": 0, "use_variance": False, "activation": ("celu", {"alpha": -2.0})}
    want = expected("mean_variance_normalization", x, **more)
    for value in (5e16, 2e17, -np.inf):
        assert compare(np.array([3e24, -np.inf, value], "f4"), want).ok
    rejected(np.array([2e24, -np.inf, 1e17], "f4"), want)


def test_results_that_were_subnormal_before_they_were_narrowed():
    """32768.5 of float32's smallest are 32768 there, half of bfloat16's smallest: that, or 0."""
    x, bias = np.zeros(1, harness.dtype_of("bfloat16")), np.full(1, 65537 * 2.0**-149, "f4")
    how = {"axes": 0, "activation": "hard_swish"}
    want = expected("mean_variance_normalization", x, None, bias, **how)
    assert want.values[0][0] == 32768.5 * 2.0**-149
    tiny = FORMATS["bfloat16"].tiny
    for y in (0.0, tiny):
        assert compare(np.full(1, y).astype(x.dtype), want).ok
    rejected(np.full(1, 2 * tiny).astype(x.dtype), want)
    rejected(np.full(1, -tiny).astype(x.dtype), want)


def test_the_literal_form_of_gelu_is_rejected():
    x = np.array([-5.0], np.float32)
    more = {"axes": (), "use_mean": False, "use_variance": False, "activation": "gelu"}
    want = expected("mean_variance_normalization", x, **more)
    literal = np.float32(-2.5) * (np.float32(1) + np.float32(-0.9999994))
    rejected(np.array([literal], np.float32), want)


def test_a_step_accepts_both_sides_but_nothing_between():
    x = np.array([1.0, 3.0], np.float32)
    scale, bias = np.array([1.0], np.float32), np.array([1.0], np.float32)
    more = {"axes": 0, "epsilon": 0, "activation": ("thresholded_relu", {"alpha": 2.0})}
    want = expected("mean_variance_normalization", x, scale, bias, **more)
    for value in (0.0, 2.0):
        assert compare(np.array([0.0, value], np.float32), want).ok
    rejected(np.array([0.0, 1.0], np.float32), want)
    rejected(np.array([2.0, 2.0], np.float32), want)


def test_constant_groups_are_exact():
    x = np.full((3, 7), 0.1, np.float32)
    bias = np.full((3, 1), 0.3, np.float32)
    want = expected("mean_variance_normalization", x, None, bias, axes=1)
    assert (want.bounds[0] == 0).all()
    right = np.broadcast_to(bias, x.shape)
    assert compare(right, want).ok
    rejected(np.nextafter(right, np.float32(1)), want)


def test_judge_counts_the_half_ulp_once():
    form = FORMATS["float32"]
    ref = np.array([1.0 + 2.0**-24])
    for step, ok in ((0, True), (1, True), (2, False), (-1, False)):
        got = np.array([1.0 + step * 2.0**-23])
        passed, error, share = judge(got, ref, np.zeros(1), form)
        assert passed[0] == ok and (share[0] <= 1) == ok
        assert error[0] == abs(got[0] - ref[0])


def test_spacing():
    values = np.array([0, 1, 1.5, 2, 65504, 1e6, 2.0**-24, 2.0**-14, 2.0**-15])
    want = [2.0**-24, 2.0**-10, 2.0**-10, 2.0**-9, 32, 32, 2.0**-24, 2.0**-24, 2.0**-24]
    assert spacing(values, FORMATS["float16"]).tolist() == want


def test_a_nan_equals_nothing_but_a_nan():
    want = expected("max_pooling", np.array([[[1, 2, np.nan, 4]]], np.float32), 2, 2)
    assert compare(np.array([[[2, -np.nan]]], np.float32), want).ok
    rejected(np.array([[[np.nan, np.nan]]], np.float32), want, "output 0[0, 0, 0] is")
    rejected(np.array([[[2, 4]]], np.float32), want, "output 0[0, 0, 1] is")


@pytest.mark.parametrize("include", [False, True])
def test_the_bound_of_averages(include):
    """(m + 1)*u*sum|x|/d of m real taps: windows of 3, 2 and 1 of them."""
    x = np.array([[[-4, 2, 1]]], np.float32)
    want = expected("average_pooling", x, 3, 1, 0, 2, include_padding=include)
    shares = [4 * 7 / 3, 3 * 3 / 3, 2 * 1 / 3] if include else [4 * 7 / 3, 3 * 3 / 2, 2 * 1 / 1]
    np.testing.assert_allclose(want.bounds[0][0, 0], np.array(shares) * 2.0**-24, rtol=1e-12)


def test_the_bound_of_normalization_far_from_zero():
    """u*[(m/2 + 6)*|z| + (m + 2)*A] + u^2*m^2*|mean|/s of two elements, whose z is 1 and s is 2."""
    x, u = np.array([[1e7 + 2, 1e7 - 2]], np.float32), 2.0**-24
    want = expected("mean_variance_normalization", x, axes=1, epsilon=0)
    assert want.values[0].tolist() == [[1, -1]]
    np.testing.assert_allclose(want.bounds[0], u * (7 + 4) + u * u * 4 * 1e7 / 2, rtol=1e-9)


def test_the_number_of_outputs_is_checked():
    want = expected("max_pooling", np.ones((1, 1, 2), np.float32), 2, return_indices=True)
    rejected(np.ones((1, 1, 1), np.float32), want, "1 outputs, expected 2")


def test_a_call_that_is_none():
    with harness.refused(
        ValueError, "expected: op is 'pooling'; it must be one of average_pooling,"
    ):
        expected("pooling", np.ones(3))
    with harness.refused(ValueError, "expected: op is 'ACTIVATIONS'; it must be one of"):
        expected("ACTIVATIONS")
    with harness.refused(TypeError, "expected: op is 3; it must be one of"):
        expected(3)
    with harness.refused(TypeError, "max_pooling: missing a required argument: 'window_size'"):
        expected("max_pooling", np.ones((1, 1, 2)))


OVERFLOWING = {
    "a sum": ("float32", [3e38, 3e38, -3e38, 1]),
    "a sum of float64": ("float64", [1e308, -1e308, 1e308, 1e308]),
    "squares": ("bfloat16", [1e20, -1e20, 3, 1]),
    "squares of float64": ("float64", [1e200, -1e200, 3, 1]),
}
ACTIVATIONS = ["identity", "relu", "gelu", ("linear", {"alpha": 0.0, "beta": 1.0}), "shrink"]


@pytest.mark.decision("D-MVN-21")
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("case", OVERFLOWING)
def test_no_verdict_on_groups_whose_statistics_overflow(case, activation):
    """Whatever scale, bias and activation make of them; the group beside them is judged."""
    dtype, values = OVERFLOWING[case]
    x = np.array([values, [1, 2, 3, 5]]).astype(harness.dtype_of(dtype))
    for scale in (None, 0.0, 2.0, np.inf):
        for bias in (None, 1.0):
            ends = [
                None if v is None else np.full((1, 4), v).astype(x.dtype) for v in (scale, bias)
            ]
            for use_mean in [True] if "sum" in case else [True, False]:
                call = {"axes": 1, "activation": activation, "use_mean": use_mean}
                want = expected("mean_variance_normalization", x, *ends, **call)
                (good,) = honest(want)
                for value in (np.nan, np.inf, -np.inf, 0.0, 17.0):
                    result = good.copy()
                    result[0] = value
                    assert compare(result, want).ok, (scale, bias, use_mean, value)
                result[1, 2] += 3
                assert scale == np.inf or not compare(result, want).ok
