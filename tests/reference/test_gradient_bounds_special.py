"""The bounds of gradients at kinks and where data are infinite or NaN, and through the harness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
import harness
import layouts
import plain_gradients as plain
from cudml import bounds, reference
from cudml.bounds.derivatives import slope_bound
from cudml.reference.activations import resolve
from cudml.reference.derivatives import derivative
from gradient_calls import ACTIVATIONS, MVN_GRAD, inside, lp_call, norm_call, outside

KINKS = [
    ("relu", {}, 0.0, (0, 1)), ("leaky_relu", {}, 0.0, (0.01, 1)),
    ("thresholded_relu", {}, 1.0, (0, 1)), ("shrink", {}, -0.5, (0, 1)),
    ("shrink", {}, 0.5, (0, 1)), ("hard_sigmoid", {}, 2.5, (0, 0.2)),
    ("hard_sigmoid", {}, -2.5, (0, 0.2)), ("hard_swish", {}, -3.0, (0, -0.5)),
    ("hard_swish", {}, 3.0, (1.5, 1)), ("elu", {"alpha": 2}, 0.0, (1, 2)),
    ("scaled_elu", {"alpha": 3, "gamma": 0.5}, 0.0, (0.5, 1.5)),
]  # fmt: skip


@pytest.mark.parametrize("name, parameters, at, slopes", KINKS, ids=str)
def test_a_kink_inside_the_error_allows_both_slopes(
    name: str, parameters: dict[str, float], at: float, slopes: tuple[float, float]
) -> None:
    """v is a few roundings from the kink, then far from it, then exactly on it."""
    grad, more = np.ones(1, "f4"), {"activation": (name, parameters), "epsilon": 0}
    given = (grad, np.zeros(1, "f4"), np.ones(1, "f4"), None)
    results = [np.full(1, slope, "f4") for slope in slopes]
    for near in (2.0**-23, -(2.0**-23)):
        call = (np.ones(1, "f4"), *given, np.full(1, at - 1 + near, "f4"))
        for got in results:
            inside((got, None, got), "normalize_grad", *call, **more)
    for apart in (0.125, -0.125):
        call = (np.ones(1, "f4"), *given, np.full(1, at - 1 + apart, "f4"))
        passing = [
            bounds.compare((r, None, r), bounds.expected("normalize_grad", *call, **more)).ok
            for r in results
        ]
        assert sum(passing) <= 1
    call = (np.full(1, at, "f4"), grad, None, None)
    right = reference.normalize_grad(*call, **more)[0].astype("f4")
    inside((right, None, None), "normalize_grad", *call, **more)
    assert right in results
    for got in results:
        if name not in ("hard_sigmoid", "hard_swish") and got != right:
            outside((got, None, None), "normalize_grad", *call, **more)


TWICE = [
    ("shrink", {"threshold": 2.0**-6}, (0, 1)),
    ("hard_sigmoid", {"alpha": 64, "beta": 0.5}, (0, 64)),
    ("hard_swish", {"alpha": 64, "beta": 0.5}, (0, -0.5, 1.5, 1)),
]


@pytest.mark.parametrize("name, parameters, slopes", TWICE, ids=str)
@pytest.mark.parametrize("near", [0.125, -0.125])
def test_two_kinks_inside_the_error(
    name: str, parameters: dict[str, float], slopes: tuple[float, ...], near: float
) -> None:
    """v is off by more than the distance of the kinks, and beyond both of them."""
    ones = np.ones(1, "f4")
    call = (2**20 * ones, ones, 0 * ones, ones, None, np.full(1, near - 2**20, "f4"))
    more = {"activation": (name, parameters), "epsilon": 0}
    for slope in slopes:
        got = np.full(1, slope, "f4")
        inside((got, None, got), "normalize_grad", *call, **more)
    got = np.full(1, 2 * max(slopes) + 1, "f4")
    outside((got, None, got), "normalize_grad", *call, **more)


def test_the_rounding_of_a_line_may_move_a_kink() -> None:
    """v + 3*2^-26 is below 1 by 2^-26, and 1 in float32."""
    grad, x = np.ones(2, "f4"), np.array([1 - 2.0**-24, 0.5], "f4")
    more = {"activation": ("hard_sigmoid", {"alpha": 1, "beta": 3 * 2.0**-26})}
    for slope in (0, 1):
        got = np.array([slope, 1], "f4")
        inside((got, None, None), "normalize_grad", x, grad, None, None, **more)
    got = np.array([1, 0], "f4")
    outside((got, None, None), "normalize_grad", x, grad, None, None, **more)


@pytest.mark.parametrize("activation", ACTIVATIONS[1:], ids=lambda a: a[0])
def test_the_slopes_inside_of_an_error_are_bounded(activation: Any) -> None:
    """By the largest difference on a fine grid, whether the error is small or spans everything."""
    name, parameters = resolve(activation, np.dtype("f8"))
    rng = np.random.default_rng(6)
    v, error = rng.uniform(-3, 3, 60), 10.0 ** rng.uniform(-6, 0.8, 60)
    error[:3] = 0
    grid = v + error * np.linspace(-1, 1, 20001)[:, None]
    slope = derivative(v, name, parameters)
    most = np.abs(derivative(grid, name, parameters) - slope).max(axis=0)
    found = slope_bound(v, error, name, parameters, bounds.FORMATS["float64"])
    assert (found >= most * (1 - 1e-12)).all()
    size = max([1.0, *map(abs, parameters)])
    spare = 1e-14 * (np.abs(slope) + size * size) + 1e-3 * most
    assert (found <= most + spare).all()


def test_behind_a_kink_z_is_the_one_that_was_computed() -> None:
    """v = 1 is a kink: the other slope times z, which is off by a rounding itself."""
    x, scale = np.array([[-0.09511272, -1]], "f4"), np.array([[1, -1]], "f4")
    call = (x, -np.ones((1, 2), "f4"), scale)
    more = {"axes": 1, "epsilon": 0, "activation": "thresholded_relu", "outputs": ("scale",)}
    for got in (0, 1, 1 + 2.0**-23, 1 - 2.0**-23):
        inside((None, np.array([[0, got]], "f4"), None), MVN_GRAD, *call, **more)
    outside((None, np.array([[0, 1 + 2.0**-18]], "f4"), None), MVN_GRAD, *call, **more)


@pytest.mark.parametrize("sign", [1, -1])
def test_infinite_elements_have_whole_shares_of_rounded_sums(sign: int) -> None:
    """Eight windows with y = 2 hold one infinite x: rho is 1, and seven additions round."""
    grad = np.full((1, 1, 8), 2.0**-24, "f4")
    grad[..., 0] = 1
    call = (np.full((1, 1, 1), sign * np.inf, "f4"), np.full((1, 1, 8), 2, "f4"), grad, 8)
    more = {"start_padding": 7, "end_padding": 7, "p": 3}
    for got in (1, 1 + 3.5 * 2.0**-23):
        inside(np.full((1, 1, 1), sign * got, "f4"), "lp_pooling_grad", *call, **more)
    for got in (1 - 2.0**-18, 1 + 2.0**-18):
        outside(np.full((1, 1, 1), sign * got, "f4"), "lp_pooling_grad", *call, **more)


def test_no_claim_where_a_sign_decides() -> None:
    """z of the middle is 0, or as little above or below as the error of the mean."""
    x, ones = np.array([1, 2, 3], "f4"), np.ones(1, "f4")
    call = {"axes": 0, "outputs": ["x", "scale"]}
    for value in (np.inf, -np.inf, np.nan):
        grad = np.array([1, np.inf, 1], "f4")
        want = bounds.expected(MVN_GRAD, x, grad, ones, **call)
        assert bounds.compare((np.full(3, value, "f4"), np.full(1, value, "f4"), None), want).ok
        grad = np.array([np.inf, 1, 1], "f4")
        want = bounds.expected(MVN_GRAD, x, grad, ones, **call)
        dx, dscale = (want.values[i].astype("f4") for i in (0, 1))
        assert dscale[0] == -np.inf
        dx[1] = value
        assert bounds.compare((dx, dscale, None), want).ok
        assert not bounds.compare((dx, -dscale, None), want).ok
        dx[2] = 5
        assert not bounds.compare((dx, dscale, None), want).ok


def test_infinite_gradients_must_arrive() -> None:
    x, grad = np.array([[-2.0, 1, 3, 0.5]], "f4"), np.array([[np.inf, 1, 1, 1]], "f4")
    ones = np.ones((1, 4), "f4")
    more = {"axes": (1,), "use_mean": False, "use_variance": False, "activation": "relu"}
    right = reference.mean_variance_normalization_grad(x, grad, ones, ones, **more)
    results = [r.astype("f4") for r in right]
    assert results[0].tolist() == [[0, 1, 1, 1]]  # blocked
    inside(results, MVN_GRAD, x, grad, ones, ones, **more)
    wrong = [results[0].copy(), *results[1:]]
    wrong[0][0, 0] = np.nan  # inf * 0
    outside(wrong, MVN_GRAD, x, grad, ones, ones, **more)
    more["activation"] = "sigmoid"
    dx = reference.mean_variance_normalization_grad(x, grad, **more)[0].astype("f4")
    assert np.isinf(dx[0, 0])
    inside((dx, None, None), MVN_GRAD, x, grad, **more)
    outside((np.ones_like(dx), None, None), MVN_GRAD, x, grad, **more)


STEEP = [
    ("parametric_softplus", {"alpha": 1e30, "beta": 1e20}),
    ("scaled_tanh", {"alpha": 1e30, "beta": 1e20}), ("celu", {"alpha": -0.01}),
]  # fmt: skip


@pytest.mark.parametrize("name, parameters", STEEP, ids=str)
def test_no_claim_where_nothing_meets_a_slope_that_float32_does_not_hold(
    name: str, parameters: dict[str, float]
) -> None:
    """Infinity times 0 there, though the exact slope is finite; where it is small, 0 it must be."""
    more = {"axes": (), "use_mean": False, "use_variance": False, "activation": (name, parameters)}
    x, grad = np.array([-1e-22, 9], "f4"), np.zeros(2, "f4")
    if name == "celu":
        x[0] = -1
    for value in (0, np.nan):
        inside((np.array([value, 0], "f4"), None, None), MVN_GRAD, x, grad, **more)
    if name != "parametric_softplus":
        outside((np.array([0, np.nan], "f4"), None, None), MVN_GRAD, x, grad, **more)
    outside(
        (np.array([np.nan, 0]), None, None), MVN_GRAD, x.astype("f8"), grad.astype("f8"), **more
    )


TINY = 2.0**-149  # the smallest float32


def test_shares_of_given_sums_may_be_subnormal() -> None:
    """A third of the smallest number is none, however large the z that it is multiplied by."""
    x, grad = np.array([1e20], "f4"), np.zeros(1, "f4")
    call = (x, grad, None, np.ones(1, "f4"))
    more = {"count": np.array([3.0]), "sums": (np.zeros(1), np.array([TINY])), "epsilon": 0}
    for share in (0, 1):
        inside(
            (np.array([-share * TINY * 1e20], "f4"), None, None), "normalize_grad", *call, **more
        )
    outside((np.array([-3 * TINY * 1e20], "f4"), None, None), "normalize_grad", *call, **more)


def test_products_with_a_difference_may_be_subnormal_where_those_with_z_are_not() -> None:
    """h * (x - mean) of a sum that is multiplied by r and by scale at its end."""
    x, grad, scale = np.array([0.4], "f4"), np.array([TINY], "f4"), np.array([2.0**10], "f4")
    call = (x, grad, np.zeros(1, "f4"), np.full(1, 2.0**-40, "f4"))
    unit = TINY * 2**20
    for value in (0, 0.4, 1):
        sums = (np.array([TINY * 2**10]), np.array([value * unit * 2**10]))
        inside(sums, "normalize_grad_sums", *call, scale, axes=0, epsilon=0)
        of_scale = np.array([value * unit], "f4")
        results = (None, of_scale, None)
        inside(results, "normalize_grad", *call, scale, epsilon=0, outputs=("scale",))
    sums = (np.array([TINY * 2**10]), np.array([4 * unit * 2**10]))
    outside(sums, "normalize_grad_sums", *call, scale, axes=0, epsilon=0)
    results = (None, np.array([4 * unit], "f4"), None)
    outside(results, "normalize_grad", *call, scale, epsilon=0, outputs=("scale",))


@pytest.mark.parametrize("scale, is_lost", [(2.0**-20, True), (1.0, False)])
def test_no_claim_where_an_infinite_z_meets_what_may_be_0(scale: float, is_lost: bool) -> None:
    ones, parameter = np.ones(1, "f4"), np.full(1, scale, "f4")
    call = (ones, np.full(1, 2.0**-140, "f4"), None, np.zeros(1, "f4"), parameter)
    check_one = inside if is_lost else outside
    total = np.array([2.0**-140 * scale])
    inside((total, np.array([np.inf])), "normalize_grad_sums", *call, axes=0, epsilon=0)
    check_one((total, np.array([np.nan])), "normalize_grad_sums", *call, axes=0, epsilon=0)


@pytest.mark.parametrize("scale", [2.0**-149, 0.0])
def test_no_claim_where_only_a_scale_saves_products_from_overflow(scale: float) -> None:
    """Of the sum of h * z, which scale may multiply at its end."""
    x, grad = np.array([1e30], "f4"), np.array([1e30], "f4")
    call = (x, grad, None, np.ones(1, "f4"), np.full(1, scale, "f4"))
    sums = (np.array([1e30 * scale]), np.array([1e60 * scale]))
    lost = (sums[0], np.array([np.inf * scale]))
    for got in (sums, lost):
        inside(got, "normalize_grad_sums", *call, axes=0, epsilon=0)
    call = (x / 1e12, grad / 1e12, *call[2:])
    outside((sums[0] / 1e12, lost[1]), "normalize_grad_sums", *call, axes=0, epsilon=0)


def test_no_claim_where_a_slope_overflows_within_the_error() -> None:
    x, grad = np.array([3e24, -3e24, 1e17], "f4"), np.array([0, 0, 1], "f4")
    bias = np.zeros(3, "f4")
    more = {"axes": 0, "use_variance": False, "activation": ("celu", {"alpha": -2.0})}
    for value in (1.0, 1e30):
        got = (None, None, np.array([0, 0, value], "f4"))
        inside(got, MVN_GRAD, x, grad, None, bias, outputs=("bias",), **more)


def test_products_that_no_float64_holds() -> None:
    x, grad, ones = (np.array([v]) for v in (2e-162, 1e-162, 1.0))
    for unit in (0, 1):
        sums = (grad, np.array([unit * 2.0**-1074]))
        inside(sums, "normalize_grad_sums", x, grad, None, ones, axes=0, epsilon=0)


def stand_in(op: str, outputs: int, kind: Any = None) -> Any:
    """An operator as it should be, made of the reference."""

    def run(*args: Any, out: Any = None, stream: Any = None, **kwargs: Any) -> Any:
        found = getattr(reference, op)(*args, **kwargs)
        found = found if isinstance(found, tuple) else (found,)
        first = args[0]
        types = kind(args) if kind else [first.dtype] * outputs
        results = []
        for i, (y, dtype) in enumerate(zip(found, types, strict=True)):
            if y is None:
                results.append(None)
                continue
            if out is None:
                order = sorted(range(first.ndim), key=lambda a: -abs(first.strides[a]))
                results.append(layouts.ordered(y.astype(dtype), order))
            else:
                target = out[i] if outputs > 1 else out
                target[...] = y
                results.append(target)
        return tuple(results) if outputs > 1 else results[0]

    return run


def test_the_harness_checks_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    x = harness.data((2, 3, 4, 5), "float16", 1)
    scale = harness.data((1, 3, 1, 1), "float32", 2)
    names = {
        "padding_grad": stand_in("padding_grad", 1),
        "lp_pooling_grad": stand_in("lp_pooling_grad", 1),
        "max_unpooling": stand_in("max_unpooling", 1),
        "normalization_statistics": stand_in(
            "normalization_statistics", 3, lambda args: [np.dtype("f8")] * 3
        ),
        MVN_GRAD: stand_in(MVN_GRAD, 3, lambda args: [np.dtype("f2"), np.dtype("f4"), None]),
    }
    for name, function in names.items():
        monkeypatch.setattr(cudml, name, function, raising=False)
    harness.check("padding_grad", x, (2, 3, 2, 1), 0, (0, 0, 2, 4), mode="wrap")
    harness.check("lp_pooling_grad", x, np.abs(x).astype("f4"), x, 1, p=3)
    harness.check("max_unpooling", x, np.arange(120, dtype="u4").reshape(x.shape), (2, 3, 9, 5))
    harness.check("normalization_statistics", x, axes=(1, 3))
    harness.check(MVN_GRAD, x, x, scale, None, axes=(2, 3), activation="gelu")
    monkeypatch.setattr(cudml, "padding_grad", stand_in("padding_grad", 1))
    wrong = stand_in("padding_grad", 1)
    monkeypatch.setattr(cudml, "padding_grad", lambda *a, **k: wrong(-a[0], *a[1:], **k))
    with pytest.raises(AssertionError, match="padding_grad"):
        harness.check("padding_grad", x, (2, 3, 2, 1), 0, (0, 0, 2, 4), mode="wrap")


def special(like: np.ndarray, seed: int) -> np.ndarray:
    """NaN, infinities and extremes in all but the first part."""
    result = harness.data(like.shape, like.dtype, seed, "special")
    result[0] = like[0]
    return result


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a[0] if a else "none")
def test_normalization_of_special_data(activation: Any) -> None:
    """In x and grad, and in grad alone; by own statistics and by given ones."""
    for seed, dtype in enumerate(harness.FLOATS * 3):
        (x, grad, *ends), more = norm_call(seed, dtype, activation)
        wild = special(grad, seed)
        for data in (x, special(x, seed + 1)):
            call = (data, wild, *ends)
            with np.errstate(all="ignore"):
                got = plain.mvn_grad(*call, **more)
            inside(got, MVN_GRAD, *call, **more)
            mean, variance = (np.full((4, 1, 1), v, "f4") for v in (0.3, 2))
            given = (data, wild, mean, variance, *ends)
            rest = {"epsilon": 1e-5, "activation": activation}
            with np.errstate(all="ignore"):
                got = plain.normalize_grad(*given, count=None, sums=None, **rest)
                sums = plain.grad_sums(*given, axes=more["axes"], dtype="float32", **rest)
            inside(got, "normalize_grad", *given, **rest)
            rest |= {"axes": more["axes"], "dtype": "float32"}
            inside(sums, "normalize_grad_sums", *given, **rest)


def test_special_data_leave_something_to_claim() -> None:
    """No claim is made where float32 overflows or a sign is open, not wherever there is NaN."""
    (x, grad, *ends), more = norm_call(0, "float16", ("gelu", {}))
    want = bounds.expected(MVN_GRAD, x, special(grad, 1), *ends, **more)
    free = np.concatenate([np.isposinf(b).ravel() for b in want.bounds if b is not None])
    assert free.mean() < 0.1
    assert not np.isfinite(want.values[0]).all() and np.isfinite(want.values[0]).any()


@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_an_infinite_scale_opens_the_sums_of_its_group_alone(dtype: str) -> None:
    """w may be summed up, one of them inf * 0, or what the scale multiplies."""
    x, grad = (np.array(v, dtype) for v in ([[1, 2, 4], [3, 5, 4]], [[1, 0, 3], [2, 0.5, 1]]))
    scale = np.array([[np.inf], [2]], dtype)
    more = {"axes": 1, "epsilon": 1e-5}
    mean, variance = (np.full((2, 1), v, "f4") for v in (3, 2))
    sums = bounds.expected("normalize_grad_sums", x, grad, mean, variance, scale, None, **more)
    for k in range(2):
        assert list(np.isposinf(sums.bounds[k]).ravel()) == [True, False]
    for uses in ({"use_mean": False}, {"use_variance": False}, {}):
        dx = bounds.expected(MVN_GRAD, x, grad, scale, None, **more, **uses)
        open_ones = [[True, False, True], [False] * 3]  # 0 times infinity is NaN in any case
        assert np.isposinf(dx.bounds[0]).tolist() == open_ones


@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_other_special_data(dtype: str) -> None:
    """Lp pooling, padding, statistics and merges."""
    for seed in range(12):
        x, _, grad, *fields = lp_call(seed, dtype, 2)
        x, grad = special(x, seed), special(grad, seed + 1)
        for p in (1, 2, 3, 1000):
            with np.errstate(all="ignore"):
                y = reference.lp_pooling(x, *fields, p=p).astype(x.dtype)
                got = plain.lp_pooling_grad(x, y, grad, *fields, p=p)
            inside(got, "lp_pooling_grad", x, y, grad, *fields, p=p)
        wild = harness.data((4, 9), dtype, seed, "special")
        for mode in ("edge", "symmetric"):
            call = (wild, (2, 3), (1, 2), (1, 4))
            with np.errstate(all="ignore"):
                got = plain.padding_grad(*call, mode=mode)
            inside(got, "padding_grad", *call, mode=mode)
        for use_mean in (True, False):
            more = {"axes": (1,), "use_mean": use_mean, "dtype": "float64"}
            with np.errstate(all="ignore"):
                got = plain.statistics(wild, **more)
            inside(got, "normalization_statistics", wild, **more)
        kind = "f8" if dtype == "float64" else "f4"
        a, b = ((np.arange(4, dtype=kind), *(wild.astype(kind)[:, c : c + 2].T)) for c in (0, 4))
        with np.errstate(all="ignore"):
            got = plain.merge(a, b)
        inside(got, "merge_statistics", a, b)
