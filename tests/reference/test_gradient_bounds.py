"""A plain program stays inside the bounds of gradients and statistics; planted faults do not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
import harness
import layouts
import plain_gradients as plain
from cudml import bounds, reference

MVN_GRAD = "mean_variance_normalization_grad"
GIVEN = {"linear": {"alpha": -1.5, "beta": 0.5}, "softplus": {"steepness": 2.0}}
ACTIVATIONS = [None, *((name, GIVEN.get(name, {})) for name in reference.ACTIVATIONS)]
P = (1, 2, 3, 4, 5, 7, 16, 1000, 2**32 - 1)


def values(rng: np.random.Generator, shape: Any, dtype: str, spread: int = 2) -> np.ndarray:
    """Normal values over some octaves."""
    draws = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    return np.asarray(draws).astype(harness.dtype_of(dtype))


def inside(got: Any, op: str, *args: Any, **kwargs: Any) -> float:
    """The share of the bound that a result uses; it passes."""
    verdict = bounds.compare(got, bounds.expected(op, *args, **kwargs))
    assert verdict.ok, (verdict.message, kwargs)
    return verdict.largest_bound_share


def outside(got: Any, op: str, *args: Any, **kwargs: Any) -> None:
    assert not bounds.compare(got, bounds.expected(op, *args, **kwargs)).ok


def windows(rng: np.random.Generator) -> tuple[list[int], tuple[list[int], ...]]:
    """Sizes and geometry of rank 3 or 4, different from axis to axis."""
    m = int(rng.integers(1, 3))
    while True:
        sizes, window, strides, dilations = (rng.integers(1, n, m) for n in (7, 4, 4, 3))
        start, end = rng.integers(0, 3, (2, m))
        if (1 + (window - 1) * dilations <= sizes + start + end).all():
            fields = (window, strides, start, end, dilations)
            return sizes.tolist(), tuple(f.tolist() for f in fields)


def lp_call(seed: int, dtype: str, p: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([seed, p % 1000])
    sizes, fields = windows(rng)
    x = values(rng, (3, 5, *sizes), dtype)
    x[rng.random(x.shape) < 0.1] = 0
    narrow = x.dtype.itemsize == 2 and seed % 2
    y = reference.lp_pooling(x, *fields, p=p).astype("f4" if narrow else x.dtype)
    return x, y, values(rng, y.shape, dtype), *fields


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


SCALES = [(1, 1, 7), (1, 1, 1), (4, 1, 7), (4, 6, 1), (1, 6, 1)]


def norm_call(seed: int, dtype: str, activation: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """x, grad, scale, bias; and the rest of a call, the flags of which take turns."""
    rng = np.random.default_rng([seed, 11])
    shape = (4, 6, 7)
    parameter = "float32" if seed % 3 and dtype != "float64" else dtype
    x = values(rng, shape, dtype) + [0, 0, 3, 40][seed % 4]
    x = x.astype(harness.dtype_of(dtype))
    scale, bias = (values(rng, SCALES[(seed + i) % 5], parameter, 1) for i in (0, 2))
    scale = None if seed % 7 == 3 else scale
    bias = None if seed % 5 == 4 else bias
    axes = [(2,), (1, 2), (0, 2), (0, 1, 2), (1,)][seed % 5]
    more = {
        "axes": axes, "use_mean": seed % 6 != 5, "use_variance": seed % 4 != 1,
        "epsilon": 1e-5, "activation": activation,
    }  # fmt: skip
    return (x, values(rng, shape, dtype), scale, bias), more


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
