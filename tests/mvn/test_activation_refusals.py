"""Activations that are refused: names, parameters, their kinds and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from harness import named, refused

OP = "mean_variance_normalization"
INF, NAN = float("inf"), float("nan")
NAMES = (
    "identity", "linear", "relu", "leaky_relu", "thresholded_relu", "elu", "celu", "scaled_elu",
    "sigmoid", "hard_sigmoid", "tanh", "scaled_tanh", "softplus", "parametric_softplus", "softsign",
    "shrink", "gelu", "swish", "hard_swish",
)  # fmt: skip
PARAMETERS = {
    "linear": ("alpha", "beta"), "leaky_relu": ("alpha",), "thresholded_relu": ("alpha",),
    "elu": ("alpha",), "celu": ("alpha",), "scaled_elu": ("alpha", "gamma"),
    "hard_sigmoid": ("alpha", "beta"), "scaled_tanh": ("alpha", "beta"),
    "softplus": ("steepness",), "parametric_softplus": ("alpha", "beta"),
    "shrink": ("bias", "threshold"), "swish": ("sigmoid_input_scale",),
    "hard_swish": ("alpha", "beta"),
}  # fmt: skip
EVERY = ("alpha", "beta", "gamma", "bias", "threshold", "steepness", "sigmoid_input_scale")


def refuse(exc: type[Exception], *fragments: str, fused: Any, dtype: str = "float32") -> None:
    """The call is refused with these words, and `out` is not touched."""
    x, out = np.ones((2, 3), dtype), np.full((2, 3), 5, dtype)
    with refused(exc, OP, *fragments):
        cudml.mean_variance_normalization(x, axes=1, activation=fused, out=out)
    assert (out == 5).all()


def field(parameter: str) -> str:
    """DirectML's name of a parameter: FusedActivation.SigmoidInputScale."""
    return "FusedActivation." + parameter.title().replace("_", "")


def with_parameters(name: str, **changed: Any) -> tuple[str, dict[str, Any]]:
    """The activation with every parameter 1, but for those given."""
    return name, {**dict.fromkeys(PARAMETERS[name], 1.0), **changed}


@pytest.mark.decision("D-ACT-12")
@pytest.mark.parametrize(
    "name",
    ["", "RELU", "relu6", "Relu", " relu", "clip", "softmax", "prelu", "parameterized_relu",
     "hardmax", "log_softmax", "silu", "none"],
)  # fmt: skip
def test_unknown_name_lists_the_names(name: str) -> None:
    refuse(ValueError, "FusedActivation", *NAMES, fused=name)
    refuse(ValueError, "FusedActivation", *NAMES, fused=(name, {}))


@pytest.mark.decision("D-ACT-12")
@pytest.mark.parametrize("name", NAMES)
def test_parameters_that_the_activation_does_not_have(name: str) -> None:
    own = PARAMETERS.get(name, ())
    given = dict.fromkeys(own, 1.0)
    for other in (*EVERY, "Alpha", "slope", ""):
        if other not in own:
            refuse(ValueError, name, other, *own, fused=(name, {**given, other: 1.0}))


@pytest.mark.decision("D-ACT-3")
def test_linear_needs_both_parameters() -> None:
    refuse(ValueError, "FusedActivation", "linear", "alpha", fused="linear")
    refuse(ValueError, "FusedActivation", "linear", "alpha", fused=("linear", {"beta": 1.0}))
    refuse(ValueError, "FusedActivation", "linear", "beta", fused=("linear", {"alpha": 1.0}))


@pytest.mark.parametrize(
    "fused",
    [3, 1.0, True, b"relu", ["relu", {}], ("relu",), (), ("relu", {}, {}), {"relu": {}},
     ("relu", None), ("relu", 1.0), ("relu", [("alpha", 1)]), (None, {}), (3, {}), object()],
    ids=named,
)  # fmt: skip
def test_kind_of_the_argument(fused: Any) -> None:
    refuse(TypeError, "FusedActivation", fused=fused)


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("value", ["1", None, 1j, [1.0], object()], ids=named)
def test_kind_of_a_parameter(name: str, value: Any) -> None:
    for parameter in PARAMETERS[name]:
        refuse(
            TypeError,
            "FusedActivation",
            parameter,
            fused=with_parameters(name, **{parameter: value}),
        )


def test_kind_of_a_parameter_name() -> None:
    refuse(TypeError, "FusedActivation", fused=("elu", {1: 1.0}))


@pytest.mark.decision("D-ACT-7")
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_must_be_finite(name: str) -> None:
    for parameter in PARAMETERS[name]:
        for value in (INF, -INF, NAN, 1e39, -1e39, 10**400):
            fused = with_parameters(name, **{parameter: value})
            refuse(ValueError, field(parameter), fused=fused)
            refuse(ValueError, field(parameter), fused=fused, dtype="float16")
        for value in (INF, NAN, 10**400):
            fused = with_parameters(name, **{parameter: value})
            refuse(ValueError, field(parameter), fused=fused, dtype="float64")


@pytest.mark.decision("D-ACT-7")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_steepness_must_be_positive(dtype: str) -> None:
    for value in (0, 0.0, -0.0, -1, -1e-30):
        refuse(ValueError, field("steepness"), fused=("softplus", {"steepness": value}),
               dtype=dtype)  # fmt: skip
    if dtype != "float64":
        refuse(
            ValueError, field("steepness"), fused=("softplus", {"steepness": 1e-60}), dtype=dtype
        )


@pytest.mark.decision("D-ACT-7")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_celu_alpha_must_not_be_zero(dtype: str) -> None:
    for value in (0, 0.0, -0.0):
        refuse(ValueError, field("alpha"), fused=("celu", {"alpha": value}), dtype=dtype)
    for value in (1e-60, -1e-60):
        if dtype != "float64":
            refuse(ValueError, field("alpha"), fused=("celu", {"alpha": value}), dtype=dtype)


@pytest.mark.decision("D-ACT-12")
def test_pooling_and_padding_have_no_activation() -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    with refused(TypeError, "padding", "activation"):
        cudml.padding(x, 1, 1, activation="relu")
    with refused(TypeError, "max_pooling", "activation"):
        cudml.max_pooling(x, 2, activation="relu")


def test_an_activation_is_checked_even_for_an_empty_result() -> None:
    x = np.empty((0, 3), np.float32)
    with refused(ValueError, OP, "FusedActivation"):
        cudml.mean_variance_normalization(x, axes=1, activation="mish")
