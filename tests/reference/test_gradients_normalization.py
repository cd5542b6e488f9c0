"""The gradient of normalization: examples, slopes of activations, properties, torch, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import harness
from cudml import bounds, reference
from cudml.reference.activations import activate, resolve
from cudml.reference.derivatives import DERIVATIVES, derivative, passed

nan, inf = math.nan, math.inf
gradient = reference.mean_variance_normalization_grad
ONE_TO_FOUR = np.array([1.0, 2, 3, 4])


def close(got: Any, want: Any) -> None:
    """To the six decimals printed."""
    np.testing.assert_allclose(got, want, rtol=0, atol=0.5000001e-6)


FIRST = [1.0, 0, 0, 0]
VG1 = [
    ((True, True), [0.268330, -0.357768, -0.089443, 0.178882]),
    ((True, False), [0.75, -0.25, -0.25, -0.25]),
    ((False, True), [0.352977, -0.024343, -0.036515, -0.048686]),
    ((False, False), [1, 0, 0, 0]),
]


@pytest.mark.parametrize("flags, want", VG1)
def test_vg1(flags: tuple[bool, bool], want: list[float]) -> None:
    more = {"use_mean": flags[0], "use_variance": flags[1]}
    dx, dscale, dbias = gradient(ONE_TO_FOUR, np.array(FIRST), axes=0, **more)
    close(dx, want)
    assert dscale is None and dbias is None


def test_vg2() -> None:
    scale, bias = np.array([2.0]), np.array([1.0])
    got = gradient(ONE_TO_FOUR, ONE_TO_FOUR, scale, bias, axes=0, activation="relu")
    close(got[0], [-0.536682, 0.715530, 0.178894, -0.357742])
    close(got[1], [5.813753])
    np.testing.assert_array_equal(got[2], [9])


def test_vg3() -> None:
    x, grad = np.array([5.0, 3, 5, 3, 6, 2, 7, 1]), np.array([8.0, 0, 0, 0, 0, 0, 0, 0])
    want = [3.375, -0.375, -0.625, -0.375, -0.75, -0.25, -0.875, -0.125]
    np.testing.assert_array_equal(gradient(x, grad, axes=0, epsilon=0.25)[0], want)


def test_vg4() -> None:
    x, grad = np.array([3.0]), np.array([5.0])
    got = gradient(x, grad, np.array([2.0]), np.array([1.0]), axes=())
    assert [float(g[0]) for g in got] == [0, 0, 5]
    got = gradient(x, grad, axes=(), use_mean=False, epsilon=7)
    assert got[0].tolist() == [0.546875]


def test_vg5_to_vg7() -> None:
    assert np.isnan(gradient(np.full(3, 5.0), np.ones(3), axes=0, epsilon=0)[0]).all()
    x = np.array([[1, 2, inf], [1, 2, 4]])
    dx = gradient(x, np.arange(6.0).reshape(2, 3), axes=1)[0]
    assert np.isnan(dx[0]).all() and np.isfinite(dx[1]).all()
    got = gradient(np.zeros((0, 3)), np.zeros((0, 3)), np.ones((1, 3)), np.ones((1, 1)), axes=1)
    assert got[0].shape == (0, 3)
    for values, shape in zip(got[1:], ((1, 3), (1, 1)), strict=True):
        assert values.shape == shape and values.tobytes() == np.zeros(shape).tobytes()


def test_vg8() -> None:
    got = gradient(
        ONE_TO_FOUR, ONE_TO_FOUR, np.array([2.0]), np.array([1.0]), axes=0, epsilon=0,
        mean=np.array([1.0]), variance=np.array([4.0]),
    )  # fmt: skip
    for values, want in zip(got, ([-1.5, -1.75, -2, -2.25], [10], [10]), strict=True):
        np.testing.assert_array_equal(values, want)


ARGUMENTS = np.array([-2, -0.5, 0, 0.5, 1.5])
SLOPES = [
    ("identity", {}, [1, 1, 1, 1, 1], (1, 1)),
    ("linear", {"alpha": 2, "beta": 1}, [2, 2, 2, 2, 2], (2, 2)),
    ("relu", {}, [0, 0, 0, 1, 1], (0, 1)),
    ("leaky_relu", {}, [0.01, 0.01, 0.01, 1, 1], (0.01, 1)),
    ("thresholded_relu", {}, [0, 0, 0, 0, 1], (0, 1)),
    ("elu", {}, [0.135335, 0.606531, 1, 1, 1], (0, 1)),
    ("elu", {"alpha": 2}, [0.270671, 1.213061, 2, 1, 1], (0, 1)),
    ("celu", {"alpha": 2}, [0.367879, 0.778801, 1, 1, 1], (0, 1)),
    ("scaled_elu", {}, [0.237933, 1.066341, 1.758099, 1.050701, 1.050701],
     (0, 1.05070102214813232421875)),
    ("sigmoid", {}, [0.104994, 0.235004, 0.25, 0.235004, 0.149146], (0, 0)),
    ("hard_sigmoid", {}, [0.2, 0.2, 0.2, 0.2, 0.2], (0, 0)),
    ("tanh", {}, [0.070651, 0.786448, 1, 0.786448, 0.180707], (0, 0)),
    ("scaled_tanh", {}, [0.209987, 0.470007, 0.5, 0.470007, 0.298293], (0, 0)),
    ("softplus", {}, [0.119203, 0.377541, 0.5, 0.622459, 0.817574], (0, 1)),
    ("softplus", {"steepness": 2}, [0.017986, 0.268941, 0.5, 0.731059, 0.952574], (0, 1)),
    ("parametric_softplus", {"alpha": 2, "beta": 0.5},
     [0.268941, 0.437823, 0.5, 0.562177, 0.679179], (0, 1)),
    ("softsign", {}, [0.111111, 0.444444, 1, 0.444444, 0.16], (0, 0)),
    ("shrink", {}, [1, 0, 0, 0, 1], (1, 1)),
    ("gelu", {}, [-0.085232, 0.132505, 0.5, 0.867495, 1.127469], (0, 1)),
    ("swish", {}, [-0.090784, 0.260039, 0.5, 0.739961, 1.041294], (0, 1)),
    ("hard_swish", {}, [-0.166667, 0.333333, 0.5, 0.666667, 1], (0, 1)),
    ("hard_swish", {"alpha": 0.5, "beta": 0.25}, [0, 0, 0.25, 0.75, 1], (0, 1)),
]  # fmt: skip
KINKS = [
    ("relu", {}, 0.0, 0), ("leaky_relu", {}, 0.0, 0.01), ("thresholded_relu", {}, 1.0, 0),
    ("thresholded_relu", {"alpha": -2}, -2.0, 0), ("elu", {"alpha": 2}, 0.0, 2),
    ("celu", {"alpha": 2}, 0.0, 1), ("scaled_elu", {"alpha": 3, "gamma": 2}, 0.0, 6),
    ("hard_sigmoid", {"alpha": 0.5, "beta": 0.5}, -1.0, 0),
    ("hard_sigmoid", {"alpha": 0.5, "beta": 0.5}, 1.0, 0),
    ("shrink", {}, 0.5, 0), ("shrink", {}, -0.5, 0),
    ("hard_swish", {"alpha": 0.5, "beta": 0.5}, -1.0, 0),
    ("hard_swish", {"alpha": 0.5, "beta": 0.5}, 1.0, 1),
]  # fmt: skip
BLOCKING = ("relu", "thresholded_relu", "hard_sigmoid", "shrink", "hard_swish")


def slopes(name: str, parameters: dict[str, float], v: Any) -> np.ndarray:
    return derivative(np.array(v, float), *resolve((name, parameters), np.dtype("f8")))


@pytest.mark.parametrize("name, parameters, values, limits", SLOPES, ids=str)
def test_slope(name: str, parameters: dict[str, float], values: Any, limits: Any) -> None:
    close(slopes(name, parameters, ARGUMENTS), values)
    np.testing.assert_array_equal(slopes(name, parameters, [-inf, inf]), limits)
    huge = slopes(name, parameters, [-1e300, 1e300, -1e5, 1e5])
    np.testing.assert_allclose(huge, [*limits] * 2, atol=1e-9)
    of_nan = slopes(name, parameters, [nan])[0]
    assert np.isnan(of_nan) != (name in ("identity", "linear"))


def test_slopes_of_negative_and_zero_parameters() -> None:
    assert slopes("swish", {"sigmoid_input_scale": -1}, [-inf, inf]).tolist() == [1, 0]
    assert slopes("swish", {"sigmoid_input_scale": 0}, [-inf, 3]).tolist() == [0.5, 0.5]
    assert slopes("scaled_tanh", {"beta": 0}, [-inf, 3]).tolist() == [0, 0]
    assert slopes("hard_swish", {"alpha": 0}, [-inf, 3]).tolist() == [0.5, 0.5]
    assert slopes("hard_sigmoid", {"alpha": -1}, [0.25, 0.5, -0.5]).tolist() == [-1, 0, 0]
    close(slopes("celu", {"alpha": -2}, [-1, 1]), [math.exp(0.5), 1])


def test_every_activation_has_a_slope() -> None:
    assert {*DERIVATIVES} == {*reference.ACTIVATIONS} == {name for name, *_ in SLOPES}


@pytest.mark.parametrize("name, parameters, at, want", KINKS, ids=str)
def test_kink(name: str, parameters: dict[str, float], at: float, want: float) -> None:
    assert slopes(name, parameters, [at])[0] == want


@pytest.mark.parametrize("name, parameters, values, limits", SLOPES, ids=str)
def test_slope_is_that_of_the_activation(
    name: str, parameters: dict[str, float], values: Any, limits: Any
) -> None:
    found = resolve((name, parameters), np.dtype("f8"))
    v = np.random.default_rng(3).uniform(-4, 4, 300)
    step = 2.0**-18
    for at in (0, 0.5, -0.5, 1, 2.5, -2.5, 3, -3, 1.5):
        v = v[np.abs(v - at) > 2 * step]
    rise = (activate(v + step, *found) - activate(v - step, *found)) / (2 * step)
    np.testing.assert_allclose(derivative(v, *found), rise, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_infinite_gradients(name: str) -> None:
    """A comparison that gives 0 blocks them, another slope of 0 does not (D-GRAD-12)."""
    given = {"alpha": 2.0, "beta": 1.0} if name == "linear" else {}
    found = resolve((name, given), np.dtype("f8"))
    v = np.array([-9.0, -0.25, 0.0, 0.25, 9, -inf, inf, nan])
    slope = derivative(v, *found)
    for grad in (inf, -inf, nan):
        got = passed(np.full(v.shape, grad), v, *found).hi
        with np.errstate(invalid="ignore"):
            want = grad * slope
        if name in BLOCKING:
            want = np.where(slope == 0, 0.0, want)
            assert not np.signbit(got[slope == 0]).any()
        np.testing.assert_array_equal(got, want)


def test_a_nan_that_is_not_read_does_not_spread() -> None:
    """D-GRAD-19; a NaN in bias neither, without an activation."""
    x, grad = np.array([1, nan, 3]), np.array([1.0, 2, 6])
    bias = np.array([nan])
    for flag, want in ((True, [-2, -1, 3]), (False, [1, 2, 6])):
        more = {"axes": 0, "use_mean": flag, "use_variance": False}
        np.testing.assert_array_equal(gradient(x, grad, None, bias, **more)[0], want)
        assert gradient(x, grad, None, bias, **more)[2] == [9]
        assert np.isnan(gradient(x, grad, **more, activation="relu")[0]).sum() == (3 if flag else 1)
    assert np.isnan(gradient(x, grad, axes=0)[0]).all()


SHAPE = (2, 3, 4, 5)
SUBSETS = [c for n in range(5) for c in itertools.combinations(range(4), n)]


@pytest.mark.parametrize("axes", SUBSETS, ids=str)
def test_agrees_with_torch(axes: tuple[int, ...]) -> None:
    """Every subset of axes and flags; scale on the kept dimensions, bias on the reduced ones."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(len(axes))
    x, grad = rng.standard_normal((2, *SHAPE))
    kept = [1 if a in axes else n for a, n in enumerate(SHAPE)]
    reduced = [n if a in axes else 1 for a, n in enumerate(SHAPE)]
    s, b = rng.standard_normal(kept), rng.standard_normal(reduced)
    for use_mean, use_variance in itertools.product((True, False), repeat=2):
        tensors = [torch.tensor(a, requires_grad=True) for a in (x, s, b)]
        t, scale, bias = tensors
        d = t - t.mean(axes, keepdim=True) if use_mean and axes else t - t if use_mean else t
        variance = (d * d).mean(axes, keepdim=True) if axes else d * d
        z = d / torch.sqrt(variance + 0.5) if use_variance else d
        torch.tanh(scale * z + bias).backward(torch.tensor(grad))
        flags = {"axes": axes, "use_mean": use_mean, "use_variance": use_variance}
        got = gradient(x, grad, s, b, **flags, epsilon=0.5, activation="tanh")
        for values, tensor in zip(got, tensors, strict=True):
            np.testing.assert_allclose(values, tensor.grad.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("activation", ["gelu", "swish", "softplus", "elu", "softsign", None])
def test_is_the_slope_of_normalization(activation: str | None) -> None:
    rng = np.random.default_rng(5)
    x, grad = rng.standard_normal((2, 3, 4))
    tensors = [x, rng.standard_normal((1, 4)), rng.standard_normal((3, 1))]
    more = {"axes": 1, "activation": activation, "epsilon": 0.01}
    found = gradient(tensors[0], grad, *tensors[1:], **more)
    step = 2.0**-17
    for which, dt in enumerate(found):
        for at in np.ndindex(dt.shape):
            ends = []
            for sign in (1, -1):
                moved = [t.copy() for t in tensors]
                moved[which][at] += sign * step
                ends.append(reference.mean_variance_normalization(*moved, **more))
            rise = ((ends[0] - ends[1]) * grad).sum() / (2 * step)
            assert rise == pytest.approx(dt[at], rel=1e-6, abs=1e-7)


def test_sums_vanish_and_four_times_gives_four_times() -> None:
    x, grad = harness.data((3, 50), "float64", 1), harness.data((3, 50), "float64", 2)
    scale, bias = harness.data((1, 50), "float64", 3), harness.data((3, 1), "float64", 4)
    more = {"axes": 1, "activation": "gelu"}
    one = gradient(x, grad, scale, bias, **more)
    assert (np.abs(one[0].sum(axis=1)) < 1e-14 * np.abs(one[0]).sum(axis=1)).all()
    four = gradient(x, 4 * grad, scale, bias, **more)
    for a, b in zip(one, four, strict=True):
        assert (4 * a).tobytes() == b.tobytes()


def test_only_what_is_asked_for() -> None:
    x = harness.data((2, 3), "float32", 1)
    scale, bias = np.ones((1, 3), "f4"), np.ones((2, 1), "f4")
    for n in (1, 2, 3):
        for names in itertools.permutations(("x", "scale", "bias"), n):
            got = gradient(x, x, scale, bias, axes=1, outputs=names)
            given = [name in names for name in ("x", "scale", "bias")]
            assert [g is not None for g in got] == given
            stored = reference.normalize_grad(x, x, None, None, scale, bias, outputs=names)
            assert [g is not None for g in stored] == given
            want = bounds.expected(
                "mean_variance_normalization_grad", x, x, scale, bias, axes=1, outputs=list(names)
            )
            assert bounds.compare([g if g is None else g.astype("f4") for g in got], want).ok
            assert not bounds.compare([np.ones(1, "f4")] * 3, want).ok
    assert gradient(x, x, axes=1, outputs=["scale"]) == (None, None, None)


def test_scale_of_full_size_and_size_one_of_x() -> None:
    x, grad = harness.data((1, 4), "float64", 1), harness.data((1, 4), "float64", 2)
    got = gradient(x, grad, np.ones((1, 4)), np.ones((1, 4)), axes=0, use_mean=False, epsilon=1)
    z = x / np.sqrt(x * x + 1)
    np.testing.assert_allclose(got[1], grad * z, rtol=1e-15)
    np.testing.assert_array_equal(got[2], grad)


X = harness.data((2, 3, 4), "float16", 1)
PARAMETER = np.ones((1, 3, 1), "f4")
GIVEN = np.ones((2, 3, 1), "f4")
REFUSED = [
    (TypeError, "InputTensor is a list", {"x": [1.0]}),
    (TypeError, "InputTensor.DataType is int8", {"x": X.astype("i1")}),
    (ValueError, "InputTensor.DimensionCount is 0", {"x": X[0, 0, 0, ...], "scale": None}),
    (ValueError, "InputTensor.Sizes[2] is 0; it is one of Axes",
     {"x": X[..., :0], "grad": X[..., :0]}),
    (TypeError, "InputGradientTensor.DataType is float32; it must be float16",
     {"grad": X.astype("f4")}),
    (ValueError, "InputGradientTensor.Sizes are (1, 3, 4); they must be (2, 3, 4)",
     {"grad": X[:1]}),
    (TypeError, "ScaleTensor.DataType is float64", {"scale": PARAMETER.astype("f8")}),
    (ValueError, "ScaleTensor.Sizes are (3, 1)", {"scale": PARAMETER[0]}),
    (ValueError, "BiasTensor.Sizes are (1, 2, 1)", {"bias": PARAMETER[:, :2]}),
    (ValueError, "Axes[0] is 3", {"axes": 3}),
    (ValueError, "each may be named once only", {"axes": (2, -1)}),
    (TypeError, "Axes[0] is 1.5", {"axes": 1.5}),
    (TypeError, "UseMean is 1 (int)", {"use_mean": 1}),
    (TypeError, "UseVariance is None", {"use_variance": None}),
    (ValueError, "Epsilon is -1", {"epsilon": -1}),
    (ValueError, "Epsilon is nan", {"epsilon": nan}),
    (ValueError, "Epsilon is inf", {"epsilon": inf, "use_variance": False}),
    (ValueError, "FusedActivation is 'silu'; it must be one of identity", {"activation": "silu"}),
    (ValueError, "FusedActivation: celu's alpha", {"activation": ("celu", {"alpha": 0})}),
    (ValueError, "Variance is absent; UseVariance is True", {"mean": GIVEN}),
    (ValueError, "Mean is absent; UseMean is True", {"variance": GIVEN}),
    (ValueError, "Mean is given; UseMean is False",
     {"mean": GIVEN, "variance": GIVEN, "use_mean": False}),
    (ValueError, "Variance is given; UseVariance is False",
     {"mean": GIVEN, "variance": GIVEN, "use_variance": False}),
    (TypeError, "Mean.DataType is int32; it must be one of",
     {"mean": GIVEN.astype("i4"), "variance": GIVEN}),
    (ValueError, "Variance.Sizes are (2, 1, 1); they must be (2, 3, 1)",
     {"mean": GIVEN, "variance": GIVEN[:, :1]}),
    (TypeError, "outputs is 'x'; it must name some of x, scale, bias", {"outputs": "x"}),
    (TypeError, "outputs is 3", {"outputs": 3}),
    (TypeError, "outputs is (1,)", {"outputs": (1,)}),
    (ValueError, "outputs is ()", {"outputs": ()}),
    (ValueError, "outputs is ('x', 'x')", {"outputs": ("x", "x")}),
    (ValueError, "outputs is ('y',)", {"outputs": ("y",)}),
]  # fmt: skip


@pytest.mark.parametrize("error, text, fields", REFUSED, ids=lambda v: v if type(v) is str else "")
def test_refusal(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    op = "mean_variance_normalization_grad"
    call = {"x": X, "grad": X, "scale": PARAMETER, "bias": None, "axes": 2, **fields}
    with harness.refused(error, f"{op}: ", text):
        gradient(**call)
    with harness.refused(error, f"{op}: ", text):
        bounds.expected(op, **call)


def test_bias_is_checked_though_its_values_are_not_read() -> None:
    with harness.refused(TypeError, "BiasTensor.DataType is int32"):
        gradient(X, X, None, np.ones((1, 1, 1), "i4"), axes=1, outputs=["x"])
