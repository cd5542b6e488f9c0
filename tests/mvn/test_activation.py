"""Fused activations: tables of values, special arguments, limits and accuracy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cudml
from harness import check
from pool_support import FLOATS, dtype_of, same_bits

OP = "mean_variance_normalization"
INF, NAN = float("inf"), float("nan")
ALPHA, GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
OFF = {"axes": (), "use_mean": False, "use_variance": False}
ARGUMENTS = (-2, -0.5, 0, 0.5, 1.5)

# Name, parameters, f at ARGUMENTS.
TABLE: list[tuple[str, dict[str, float], tuple[float, ...]]] = [
    ("identity", {}, (-2, -0.5, 0, 0.5, 1.5)),
    ("linear", {"alpha": 2, "beta": 1}, (-3, 0, 1, 2, 4)),
    ("relu", {}, (0, 0, 0, 0.5, 1.5)),
    ("leaky_relu", {}, (-0.02, -0.005, 0, 0.5, 1.5)),
    ("leaky_relu", {"alpha": -2}, (4, 1, 0, 0.5, 1.5)),
    ("thresholded_relu", {}, (0, 0, 0, 0, 1.5)),
    ("thresholded_relu", {"alpha": -1}, (0, -0.5, 0, 0.5, 1.5)),
    ("thresholded_relu", {"alpha": 1.5}, (0, 0, 0, 0, 0)),
    ("elu", {}, (-0.864665, -0.393469, 0, 0.5, 1.5)),
    ("elu", {"alpha": 2}, (-1.729329, -0.786939, 0, 0.5, 1.5)),
    ("celu", {"alpha": 2}, (-1.264241, -0.442398, 0, 0.5, 1.5)),
    ("celu", {}, (-0.864665, -0.393469, 0, 0.5, 1.5)),
    ("celu", {"alpha": -1}, (-6.389056, -0.648721, 0, 0.5, 1.5)),
    ("scaled_elu", {}, (-1.520166, -0.691758, 0, 0.525351, 1.576052)),
    ("scaled_elu", {"alpha": 1, "gamma": 2}, (-1.729329, -0.786939, 0, 1, 3)),
    ("sigmoid", {}, (0.119203, 0.377541, 0.5, 0.622459, 0.817574)),
    ("hard_sigmoid", {}, (0.1, 0.4, 0.5, 0.6, 0.8)),
    ("hard_sigmoid", {"alpha": -1, "beta": 1}, (1, 1, 1, 0.5, 0)),
    ("tanh", {}, (-0.964028, -0.462117, 0, 0.462117, 0.905148)),
    ("scaled_tanh", {}, (-0.761594, -0.244919, 0, 0.244919, 0.635149)),
    ("scaled_tanh", {"alpha": 2, "beta": 1}, (-1.928055, -0.924234, 0, 0.924234, 1.810297)),
    ("softplus", {}, (0.126928, 0.474077, 0.693147, 0.974077, 1.701413)),
    ("softplus", {"steepness": 2}, (0.009075, 0.156631, 0.346574, 0.656631, 1.524294)),
    ("softplus", {"steepness": 0.5}, (0.626523, 1.151879, 1.386294, 1.651879, 2.273742)),
    ("parametric_softplus", {"alpha": 2, "beta": 0.5},
     (0.626523, 1.151879, 1.386294, 1.651879, 2.273742)),
    ("parametric_softplus", {}, (0.126928, 0.474077, 0.693147, 0.974077, 1.701413)),
    ("softsign", {}, (-0.666667, -0.333333, 0, 0.333333, 0.6)),
    ("shrink", {}, (-2, 0, 0, 0, 1.5)),
    ("shrink", {"bias": 0.25}, (-1.75, 0, 0, 0, 1.25)),
    ("shrink", {"threshold": 1.75, "bias": 1}, (-1, 0, 0, 0, 0)),
    ("gelu", {}, (-0.045500, -0.154269, 0, 0.345731, 1.399789)),
    ("swish", {}, (-0.238406, -0.188770, 0, 0.311230, 1.226362)),
    ("swish", {"sigmoid_input_scale": 0}, (-1, -0.25, 0, 0.25, 0.75)),
    ("hard_swish", {}, (-0.333333, -0.208333, 0, 0.291667, 1.125)),
    ("hard_swish", {"alpha": 1, "beta": 0}, (0, 0, 0, 0.25, 1.5)),
]  # fmt: skip


def act(name: str, values: Any, dtype: str = "float32", **parameters: float) -> np.ndarray:
    """f of `values`, through a normalization that does nothing else; in float64."""
    x = np.atleast_1d(np.array(values, np.float64)).astype(dtype_of(dtype))
    fused = (name, parameters) if parameters else name
    y = cudml.mean_variance_normalization(x, activation=fused, **OFF)
    assert y.dtype == x.dtype
    return y.astype(np.float64)


@pytest.mark.small
@pytest.mark.decision("D-ACT-1", "D-ACT-3", "D-ACT-10", "D-ACT-13")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "parameters", "values"), TABLE)
def test_table_of_values(name: str, parameters: Any, values: Any, dtype: str) -> None:
    share = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 0.0)
    y = act(name, ARGUMENTS, dtype, **parameters)
    assert (np.abs(y - values) <= 1e-6 + share * np.abs(values)).all(), y


POINTS = (
    -INF, -1e4, -104.0, -89.0, -20.0, -5.0, -2.0, -0.5, -1e-3, -1e-45, -0.0, 0.0, 1e-45, 1e-3, 0.5,
    1.0, 1.75, 5.0, 9.0, 20.0, 88.0, 89.0, 1e4, INF, NAN,
)  # fmt: skip


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-ACT-4", "D-ACT-6", "D-ACT-8")
@pytest.mark.parametrize(("name", "parameters"), [(n, p) for n, p, _ in TABLE])
def test_special_arguments_against_the_reference(name: str, parameters: Any) -> None:
    """In a short row and in one long enough for vectors, with each point in every lane."""
    fused = (name, parameters) if parameters else name
    for dtype in FLOATS:
        x = np.array(POINTS).astype(dtype_of(dtype))
        check(OP, x, activation=fused, layouts=("contiguous", "sliced"), **OFF)
        check(OP, np.tile(x, 17), activation=fused, layouts=("contiguous",), **OFF)


@pytest.mark.small
@pytest.mark.decision("D-ACT-5")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "parameters"), [(n, p) for n, p, _ in TABLE])
def test_nan_gives_nan(name: str, parameters: Any, dtype: str) -> None:
    assert np.isnan(act(name, [NAN] * 33, dtype, **parameters)).all()
    y = act(name, [1, NAN, -1] * 11, dtype, **parameters)
    assert np.isnan(y).tolist() == [False, True, False] * 11


# f(-inf) and f(inf).
LIMITS: list[tuple[str, dict[str, float], float, float]] = [
    ("identity", {}, -INF, INF),
    ("linear", {"alpha": 2, "beta": 1}, -INF, INF),
    ("linear", {"alpha": -2, "beta": 1}, INF, -INF),
    ("relu", {}, 0, INF),
    ("leaky_relu", {}, -INF, INF),
    ("leaky_relu", {"alpha": -1}, INF, INF),
    ("thresholded_relu", {}, 0, INF),
    ("elu", {}, -1, INF),
    ("elu", {"alpha": 2}, -2, INF),
    ("celu", {}, -1, INF),
    ("celu", {"alpha": 2}, -2, INF),
    ("celu", {"alpha": -1}, -INF, INF),
    ("scaled_elu", {"alpha": 0.5, "gamma": 3}, -1.5, INF),
    ("sigmoid", {}, 0, 1),
    ("hard_sigmoid", {}, 0, 1),
    ("hard_sigmoid", {"alpha": -1, "beta": 0}, 1, 0),
    ("tanh", {}, -1, 1),
    ("scaled_tanh", {"alpha": 2, "beta": 0.5}, -2, 2),
    ("scaled_tanh", {"alpha": 2, "beta": -0.5}, 2, -2),
    ("softplus", {}, 0, INF),
    ("softplus", {"steepness": 3}, 0, INF),
    ("parametric_softplus", {"alpha": 2, "beta": 0.5}, 0, INF),
    ("parametric_softplus", {"alpha": -2, "beta": -0.5}, -INF, 0),
    ("softsign", {}, -1, 1),
    ("shrink", {"bias": 1}, -INF, INF),
    ("gelu", {}, 0, INF),
    ("swish", {}, 0, INF),
    ("swish", {"sigmoid_input_scale": -1}, -INF, 0),
    ("hard_swish", {}, 0, INF),
    ("hard_swish", {"alpha": -1, "beta": 0.5}, -INF, 0),
]


@pytest.mark.small
@pytest.mark.decision("D-ACT-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "parameters", "low", "high"), LIMITS)
def test_limits(name: str, parameters: Any, low: float, high: float, dtype: str) -> None:
    assert act(name, [-INF, INF], dtype, **parameters).tolist() == [low, high]


@pytest.mark.small
@pytest.mark.decision("D-ACT-16")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "parameters", "low", "high"),
    [
        ("leaky_relu", {"alpha": 0}, 0, INF),
        ("linear", {"alpha": 0, "beta": 1.5}, 1.5, 1.5),
        ("hard_sigmoid", {"alpha": 0, "beta": 0.25}, 0.25, 0.25),
        ("scaled_tanh", {"alpha": 0, "beta": 1}, 0, 0),
        ("scaled_tanh", {"alpha": 1, "beta": 0}, 0, 0),
        ("parametric_softplus", {"alpha": 0, "beta": 1}, 0, 0),
        ("parametric_softplus", {"alpha": 1, "beta": 0}, math.log(2), math.log(2)),
        ("scaled_elu", {"alpha": 1, "gamma": 0}, 0, 0),
        ("scaled_elu", {"alpha": 0, "gamma": 1}, 0, INF),
        ("elu", {"alpha": 0}, 0, INF),
        ("swish", {"sigmoid_input_scale": 0}, -INF, INF),
        ("hard_swish", {"alpha": 0, "beta": 0.5}, -INF, INF),
        ("hard_swish", {"alpha": 0, "beta": 0}, 0, 0),
    ],
)
def test_a_zero_parameter_times_infinity(
    name: str, parameters: Any, low: float, high: float, dtype: str
) -> None:
    y = act(name, [-INF, INF, NAN], dtype, **parameters)
    assert y[:2].tolist() == pytest.approx([low, high], rel=2**-8)
    assert np.isnan(y[2])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-ACT-6")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_overflow_on_the_way(dtype: str) -> None:
    large = 1e4
    assert act("softplus", [large, 800, -800], dtype).tolist()[:2] == [large, 800]
    assert act("softplus", [large], dtype, steepness=8).tolist() == [large]
    assert act("parametric_softplus", [large], dtype, alpha=2, beta=4).tolist() == [8 * large]
    assert act("sigmoid", [large, -large], dtype).tolist() == [1, 0]
    assert act("swish", [large, -large], dtype).tolist() == [large, 0]
    assert act("gelu", [large, -large], dtype).tolist() == [large, 0]
    assert act("tanh", [large, -large], dtype).tolist() == [1, -1]
    assert act("elu", [large, -large], dtype).tolist() == [large, -1]
    assert act("softsign", [3e38, -3e38], dtype).tolist() == [1, -1]


@pytest.mark.small
@pytest.mark.parametrize("value", [0.0, -1e-3, 1e-3, -0.1, 0.1, -1.0, 1.0])
def test_softplus_to_two_units_in_the_last_place(value: float) -> None:
    want = math.log1p(math.exp(np.float32(value)))
    assert abs(act("softplus", [value]).item() - want) <= 2 * np.spacing(np.float32(want))


@pytest.mark.small
@pytest.mark.decision("D-ACT-6")
@pytest.mark.parametrize("name", ["elu", "celu", "scaled_elu", "tanh", "softsign"])
def test_small_arguments_keep_their_digits(name: str) -> None:
    """expm1 and not exp - 1: near 0 the result is the argument times the slope."""
    x = np.array([-1e-7, -1e-12, -1e-30])
    slope = np.float32(ALPHA) * np.float32(GAMMA) if name == "scaled_elu" else 1.0
    assert act(name, x).tolist() == pytest.approx((slope * x).tolist(), rel=1e-6)
    assert act("softplus", [-30.0]).item() == pytest.approx(math.exp(-30), rel=1e-6)
    assert act("sigmoid", [-80.0]).item() == pytest.approx(math.exp(-80), rel=1e-5)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-ACT-8")
@pytest.mark.parametrize(("dtype", "share"), [("float32", 5e-6), ("float64", 1e-13)])
def test_gelu_tail(dtype: str, share: float) -> None:
    for value in (-1.0, -3.0, -5.0, -8.0, -12.0, 3.0, 0.01):
        want = 0.5 * value * math.erfc(-value / math.sqrt(2))
        assert act("gelu", [value], dtype).item() == pytest.approx(want, rel=share), value


@pytest.mark.small
@pytest.mark.decision("D-ACT-9")
def test_scaled_elu_constants() -> None:
    for dtype in ("float32", "float64"):
        y = act("scaled_elu", [1.0, -1e3], dtype)
        assert y[0] == GAMMA
        assert y[1] == pytest.approx(-GAMMA * ALPHA, rel=1e-15 if dtype == "float64" else 2e-7)


@pytest.mark.small
@pytest.mark.decision("D-ACT-10")
def test_scaled_tanh_default_beta() -> None:
    assert act("scaled_tanh", [2.0], "float64").item() == pytest.approx(math.tanh(1), rel=1e-15)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-ACT-4")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_activation_sees_the_unrounded_value(dtype: str) -> None:
    x = np.ones(2, dtype_of(dtype))
    scale = np.array([1 + 2.0**-14, 1], np.float32)
    fused = ("linear", {"alpha": 1, "beta": -1})
    y = cudml.mean_variance_normalization(x, scale, activation=fused, **OFF)
    assert y.astype("float64").tolist() == [2.0**-14, 0]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-ACT-7", "D-ACT-15")
def test_precision_of_parameters() -> None:
    """Doubles for float64 data, rounded to float32 otherwise: defaults and given numbers."""
    short = lambda v: float(np.float32(v))  # noqa: E731
    assert act("leaky_relu", [-1.0], "float64").item() == -0.01
    assert act("leaky_relu", [-1.0], "float32").item() == -short(0.01)
    assert act("leaky_relu", [-1.0], "float64", alpha=0.1).item() == -0.1
    assert act("leaky_relu", [-1.0], "float32", alpha=0.1).item() == -short(0.1)
    assert act("hard_swish", [1.0], "float64").item() == pytest.approx(2 / 3, rel=4e-16)
    assert act("hard_sigmoid", [1.0], "float64").item() == pytest.approx(0.7, rel=3e-16)
    assert act("thresholded_relu", [short(0.1)], "float32", alpha=0.1).item() == 0
    assert act("thresholded_relu", [short(0.1)], "float64", alpha=0.1).item() == short(0.1)
    tiny = act("softplus", [0.0], "float64", steepness=1e-60).item()
    assert tiny == pytest.approx(math.log(2) * 1e60)
    assert act("linear", [1.0], "float64", alpha=1e300, beta=0).item() == 1e300
    assert act("linear", [1.0], "float32", alpha=1e-60, beta=2).item() == 2


@pytest.mark.small
@pytest.mark.decision("D-ACT-3")
def test_parameters_left_out_take_their_defaults() -> None:
    x = [-1.5, -0.25, 0.75, 3.0]
    for name, spelled in {
        "leaky_relu": {"alpha": 0.01},
        "thresholded_relu": {"alpha": 1.0},
        "elu": {"alpha": 1.0},
        "celu": {"alpha": 1.0},
        "scaled_elu": {"alpha": ALPHA, "gamma": GAMMA},
        "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
        "scaled_tanh": {"alpha": 1.0, "beta": 0.5},
        "softplus": {"steepness": 1.0},
        "parametric_softplus": {"alpha": 1.0, "beta": 1.0},
        "shrink": {"bias": 0.0, "threshold": 0.5},
        "swish": {"sigmoid_input_scale": 1.0},
        "hard_swish": {"alpha": 1 / 6, "beta": 0.5},
    }.items():
        for dtype in ("float32", "float64"):
            want = act(name, x, dtype)
            assert (act(name, x, dtype, **spelled) == want).all(), name
            for one, value in spelled.items():
                assert (act(name, x, dtype, **{one: value}) == want).all(), (name, one)


@pytest.mark.small
@pytest.mark.decision("D-ACT-11")
@pytest.mark.parametrize("name", ["swish", "hard_swish"])
def test_extensions_are_fused_like_the_others(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((4, 77)).astype(np.float32)
    scale = np.full((1, 77), 2, np.float32)
    check(OP, x, scale, scale, axes=1, activation=name)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_forms_of_the_argument(dtype: str) -> None:
    x = np.array(ARGUMENTS).astype(dtype_of(dtype))
    want = cudml.mean_variance_normalization(x, activation="elu", **OFF)
    for fused in (("elu", {}), ("elu", {"alpha": 1}), ("elu", {"alpha": np.float32(1)})):
        assert same_bits(cudml.mean_variance_normalization(x, activation=fused, **OFF), want)
    assert same_bits(cudml.mean_variance_normalization(x, activation=None, **OFF), x)
    assert same_bits(cudml.mean_variance_normalization(x, activation="identity", **OFF), x)
