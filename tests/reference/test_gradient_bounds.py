"""A plain program stays inside the bounds of gradients and statistics; planted faults do not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import harness
import plain_gradients as plain
from cudml import bounds, reference
from gradient_calls import ACTIVATIONS, MVN_GRAD, inside, lp_call, norm_call, outside, values

P = (1, 2, 3, 4, 5, 7, 16, 1000, 2**32 - 1)


@pytest.mark.parametrize("dtype", harness.FLOATS)
@pytest.mark.parametrize("p", P)
def test_lp_pooling(p: int, dtype: str) -> None:
    for seed in range(6):
        call = lp_call(seed, dtype, p)
        with np.errstate(all="ignore"):
            got = plain.lp_pooling_grad(*call, p=p)
        inside(got, "lp_pooling_grad", *call, p=p)


@pytest.mark.parametrize("fault, p", [("power", 2), ("power", 3), ("float16", 3)])
def test_faults_of_lp_pooling(fault: str, p: int) -> None:
    rng = np.random.default_rng(p)
    fields = ((2, 3), (2, 1), (1, 0), (0, 1), (1, 2))
    x = values(rng, (2, 3, 5, 6), "float32")
    y = reference.lp_pooling(x, *fields, p=p).astype("f4")
    call = (x, y, values(rng, y.shape, "float32"), *fields)
    got = plain.lp_pooling_grad(*call, p=p)
    inside(got, "lp_pooling_grad", *call, p=p)
    got = plain.lp_pooling_grad(*call, p=p, faults=(fault,))
    outside(got, "lp_pooling_grad", *call, p=p)


@pytest.mark.parametrize("p", [2, 3, 8])
def test_a_ratio_beyond_one_must_be_limited(p: int) -> None:
    x, grad = np.full((1, 1, 1), 2, "f4"), np.full((1, 1, 1), 3, "f4")
    outside(grad * np.float32(2.0 ** (p - 1)), "lp_pooling_grad", x, grad / 3, grad, 1, p=p)
    assert inside(grad, "lp_pooling_grad", x, grad / 3, grad, 1, p=p) == 0


def test_infinite_gradients_of_lp_pooling() -> None:
    x = np.array([[[3.0, 4]]], "f4")
    y, grad = np.full((1, 1, 1), 5, "f4"), np.full((1, 1, 1), np.inf, "f4")
    inside(np.full_like(x, np.inf), "lp_pooling_grad", x, y, grad, 2)
    outside(np.array([[[np.inf, np.nan]]], "f4"), "lp_pooling_grad", x, y, grad, 2)
    lost = np.array([[[np.nan, np.inf]]], "f4")  # (3/5)^999 is 0 in float32
    inside(lost, "lp_pooling_grad", x, y, grad, 2, p=1000)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflection", "symmetric", "wrap"])
@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_padding(dtype: str, mode: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rank = 1 + seed % 4
        sizes = rng.integers(1, 6, rank).tolist()
        start, end = rng.integers(0, 9, (2, rank)).tolist()
        shape = [a + n + b for a, n, b in zip(start, sizes, end, strict=True)]
        grad = values(rng, shape, dtype, 6)
        call = (grad, sizes, start, end)
        inside(plain.padding_grad(*call, mode=mode), "padding_grad", *call, mode=mode)


def test_faults_of_padding() -> None:
    grad = np.full(2**17 + 1, 0.1, "f4")
    call = (grad, [1], [0], [2**17])
    more = {"mode": "edge"}
    inside(plain.padding_grad(*call, **more), "padding_grad", *call, **more)
    outside(plain.padding_grad(*call, **more, faults=("one chain",)), "padding_grad", *call, **more)
    grad = np.arange(1, 7, dtype="f4")
    right = reference.padding_grad(grad, [3], 1, 2, mode="wrap").astype("f4")
    inside(right, "padding_grad", grad, [3], 1, 2, mode="wrap")
    outside(right[::-1], "padding_grad", grad, [3], 1, 2, mode="wrap")
    want = bounds.expected("padding_grad", grad, [3], 1, 2)
    assert want.rules == ["equal"] and bounds.compare(grad[1:4], want).ok
    assert not bounds.compare(np.nextafter(grad[1:4], np.float32(0)), want).ok


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a[0] if a else "none")
@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_normalization(dtype: str, activation: Any) -> None:
    """Up to 42 groups in each draw; then the same with the statistics given."""
    for seed in range(8):
        call, more = norm_call(seed, dtype, activation)
        inside(plain.mvn_grad(*call, **more), MVN_GRAD, *call, **more)
        count, mean, squares = reference.normalization_statistics(
            call[0], axes=more["axes"], use_mean=more["use_mean"]
        )
        kind = "f4" if seed % 2 else "f8"
        saved = {
            "mean": mean.astype(kind) if more["use_mean"] else None,
            "variance": (squares / count).astype(kind) if more["use_variance"] else None,
        }
        if any(v is not None for v in saved.values()):
            inside(plain.mvn_grad(*call, **more, **saved), MVN_GRAD, *call, **more, **saved)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a[0] if a else "none")
@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_two_phases(dtype: str, activation: Any) -> None:
    for seed in range(4):
        (x, grad, scale, bias), more = norm_call(seed, dtype, activation)
        axes, epsilon = more["axes"], more["epsilon"]
        use_mean, use_variance = more["use_mean"], more["use_variance"]
        kind = ["f8", "f4"][seed % 2]
        count, mean, squares = reference.normalization_statistics(x, axes=axes, use_mean=use_mean)
        mean, variance = mean.astype(kind), (squares / count).astype(kind)
        given = (mean if use_mean else None, variance if use_variance else None, scale, bias)
        rest = {"epsilon": epsilon, "activation": activation}
        names = {"axes": axes, "dtype": np.dtype(kind).name}
        sums = plain.grad_sums(x, grad, *given, **names, **rest)
        inside(sums, "normalize_grad_sums", x, grad, *given, **names, **rest)
        for total in (None, sums):
            shares = {"count": None if total is None else count, "sums": total}
            got = plain.normalize_grad(x, grad, *given, **shares, **rest)
            inside(got, "normalize_grad", x, grad, *given, **shares, **rest)


@pytest.mark.parametrize("offset", [0, 30, 1e3, 1e5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics(dtype: str, offset: float) -> None:
    """Also with the mean far beyond the deviation, and many elements in a group."""
    rng = np.random.default_rng(int(offset))
    for shape, axes in (((9, 40, 3), (1,)), ((5, 6, 7), (0, 2)), ((3, 20001), (1,))):
        x = (rng.standard_normal(shape) + offset).astype(dtype)
        for use_mean, kind in itertools.product((True, False), ("float32", "float64")):
            more = {"axes": axes, "use_mean": use_mean, "dtype": kind}
            inside(plain.statistics(x, **more), "normalization_statistics", x, **more)
        lost = plain.statistics(
            x, axes=axes, use_mean=True, dtype="float64", faults=("no low part",)
        )
        if offset > 1e3 and dtype == "float32":
            outside(lost, "normalization_statistics", x, axes=axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_merges(dtype: str) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        parts = []
        for _ in range(2):
            count = rng.integers(0, 4, (3, 50)) * rng.integers(1, 100, (3, 50))
            mean = rng.standard_normal((3, 50)) * 10.0 ** rng.integers(-2, 5, (3, 50))
            parts.append(tuple(v.astype(dtype) for v in (count, mean, mean * mean * count)))
        inside(plain.merge(*parts), "merge_statistics", *parts)
        outside(plain.merge(*parts, faults=("not squared",)), "merge_statistics", *parts)


@pytest.mark.parametrize("dtype", harness.FLOATS)
def test_normalize(dtype: str) -> None:
    for seed, name in enumerate((None, "relu", "tanh")):
        (x, _, scale, bias), _ = norm_call(seed, dtype, name)
        x = (x + 100).astype(x.dtype)
        mean, variance = np.full((1, 6, 1), 100.3), np.linspace(0.5, 2, 7).reshape(1, 1, 7)
        z, _ = plain.given(x, mean, variance, 1e-5)
        kind = plain.compute_type(x)
        y = z if scale is None else z * scale.astype(kind)
        y = y if bias is None else y + bias.astype(kind)
        y = np.maximum(y, 0) if name == "relu" else np.tanh(y) if name == "tanh" else y
        given = (x, mean, variance, scale, bias)
        inside(y.astype(x.dtype), "normalize", *given, activation=name)
        outside((y * kind(1.02)).astype(x.dtype), "normalize", *given, activation=name)


FAULTS = ["no low part", "mean of w*x", "no mean of w"]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_normalization(fault: str) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((6, 64)) + 1e4).astype("f4")
    grad = values(rng, x.shape, "float32")
    more = {"axes": (1,), "use_mean": True, "use_variance": True, "epsilon": 1e-5}
    more["activation"] = None
    call = (x, grad, None, None)
    inside(plain.mvn_grad(*call, **more), MVN_GRAD, *call, **more)
    outside(plain.mvn_grad(*call, **more, faults=(fault,)), MVN_GRAD, *call, **more)
    mean, variance = x.mean(1, "f8", keepdims=True), x.var(1, "f8", keepdims=True)
    saved = {"mean": mean, "variance": variance}
    inside(plain.mvn_grad(*call, **more, **saved), MVN_GRAD, *call, **more, **saved)
    wrong = plain.mvn_grad(*call, **more, **saved, faults=(fault,))
    outside(wrong, MVN_GRAD, *call, **more, **saved)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_float16_gradient_of_a_parameter_is_rejected(dtype: str) -> None:
    rng = np.random.default_rng(4)
    x, grad = values(rng, (30, 9), dtype), values(rng, (30, 9), dtype)
    scale, bias = (np.ones((1, 9), "f4") for _ in range(2))
    more = {"axes": (1,), "use_mean": True, "use_variance": True, "epsilon": 1e-5}
    more["activation"] = None
    call = (x, grad, scale, bias)
    good, bad = (plain.mvn_grad(*call, **more, faults=f) for f in ((), ("float16",)))
    want = bounds.expected(MVN_GRAD, *call, **more)
    assert bounds.compare(good, want).ok
    for i in (1, 2):
        mixed = [*good]
        mixed[i] = bad[i]
        assert not bounds.compare(mixed, want).ok, i


@pytest.mark.parametrize("rows", [2**17])
def test_one_chain_over_many_rows_is_rejected(rows: int) -> None:
    """D-GRAD-17a: chains of at most 4096."""
    x, grad = np.full((rows, 1), 2, "f4"), np.full((rows, 1), 0.1, "f4")
    ones = np.ones((1, 1), "f4")
    more = {"axes": (1,), "use_mean": False, "use_variance": False, "epsilon": 1e-5}
    more["activation"] = None
    call = (x, grad, ones, ones)
    want = bounds.expected(MVN_GRAD, *call, **more)
    good, bad = (plain.mvn_grad(*call, **more, faults=f) for f in ((), ("one chain",)))
    assert bounds.compare(good, want).ok
    for i in (1, 2):
        mixed = [*good]
        mixed[i] = bad[i]
        assert not bounds.compare(mixed, want).ok, i


def test_bounds_of_the_table() -> None:
    """By hand, for one element of each: u is 2^-24."""
    u, one = 2.0**-24, np.ones(1, "f4")

    def bound(op: str, output: int, *args: Any, **kwargs: Any) -> float:
        return float(bounds.expected(op, *args, **kwargs).bounds[output].flat[0]) / u

    x, y, grad = (np.array(v, "f4").reshape(1, 1, -1) for v in ([3, 4], [5], [10]))
    for p in (2, 3, 16):
        t, rho = 10 * 0.6 ** (p - 1), 0.6 ** (p - 1)
        want = t * (2 * (p - 1) + 8 - 2 * np.log(rho))
        assert bound("lp_pooling_grad", 0, x, y, grad, 2, p=p) == pytest.approx(want, rel=1e-5)
    assert bound("lp_pooling_grad", 0, x, y, grad, 2, p=1) == 0
    terms = np.array([1, -2, 4], "f4")
    assert bound("padding_grad", 0, terms, [1], 1, 1, mode="edge") == 2 * 7
    x = np.array([1, 2, 3, 4], "f4")
    found = {"axes": 0, "dtype": "float64"}
    want = (4 + 2) * 1 + (4 * 4 * u) * 2.5
    assert bound("normalization_statistics", 1, x, **found) == pytest.approx(want)
    assert bound("normalization_statistics", 2, x, **found) == pytest.approx((4 + 8) * 5, rel=1e-5)
    assert bound("normalization_statistics", 0, x, **found) == 0
    parts = [tuple(np.array([v], "f4") for v in part) for part in ((2, 1.5, 0.5), (2, 3.5, 0.5))]
    assert bound("merge_statistics", 1, *parts) == pytest.approx(4 * 5)
    assert bound("merge_statistics", 2, *parts) == pytest.approx(8 * 5 + 4 * 2 * 5 * 1)
    # z = -1.5, -0.5, 0.5, 1.5, Ez = 8u|z|; h = grad exactly.
    given = (x, x, np.array([2.5], "f4"), one, None, one)
    sums = {"axes": 0, "epsilon": 0}
    assert bound("normalize_grad_sums", 0, *given, **sums) == pytest.approx(4 * 10, rel=1e-5)
    product = 1.5 + 1 + 1.5 + 6
    want = (8 + 2 + 5) * product
    assert bound("normalize_grad_sums", 1, *given, **sums) == pytest.approx(want, rel=1e-5)
    assert bound("normalize_grad", 2, *given, epsilon=0) == (4 - 1) * 10
    scaled = (*given[:4], one, None)
    want = (8 + 1) * product + 3 * product
    assert bound("normalize_grad", 1, *scaled, epsilon=0) == pytest.approx(want, rel=1e-5)
    # dx = w*r; w = s*h
    want = 1 + 2 + 8.5
    assert bound("normalize_grad", 0, *scaled, epsilon=0) == pytest.approx(want, rel=1e-5)
    share = {"count": np.array([4.0]), "sums": (np.array([8.0]), np.array([4.0]))}
    want = 1 + 2 + 2 * 2 + 1.5 + 8 * 1.5 + 3 * 1.5 + 2 + 8.5 * abs(1 - 2 + 1.5)
    assert bound("normalize_grad", 0, *scaled, **share, epsilon=0) == pytest.approx(want, rel=1e-5)
