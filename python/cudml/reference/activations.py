"""The activations that may be fused into normalization: parameters, defaults and formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import real, require, shown
from .numbers import parameter
from .wide import Wide

F64 = NDArray[np.float64]
Fused = str | tuple[str, Mapping[str, float]] | None


@dataclass(frozen=True)
class Activation:
    """A formula f(x, *parameters); `defaults` holds None where a parameter must be given."""

    formula: Callable[..., F64]
    defaults: dict[str, float | None] = field(default_factory=dict)


def times(factor: float, x: F64) -> F64:
    """factor * x, where a factor of 0 counts as 0 whatever x is, NaN aside (D-ACT-16)."""
    return np.where(np.isnan(x), x, 0.0) if factor == 0 else factor * x


def _clamped(x: F64) -> F64:
    return np.where(x > 1, 1.0, np.where(x < 0, 0.0, x))


def sigmoid(x: F64) -> F64:
    """1/(1 + e^-x), by the form whose exponential cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _softplus(z: F64) -> F64:
    """ln(1 + e^z) as max(z, 0) + log1p(e^-|z|) (D-ACT-6)."""
    return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))


def _gelu(x: F64) -> F64:
    """0.5*x*erfc(-x/sqrt 2) (D-ACT-8); the rounding of x/sqrt 2 is corrected to first order."""
    t = Wide.of(-x) / Wide.of(2.0).sqrt()
    erfc = np.asarray(np.frompyfunc(math.erfc, 1, 1)(t.hi), np.float64)
    erfc = erfc - 2 / math.sqrt(math.pi) * np.exp(-t.hi * t.hi) * t.lo
    return np.where(x == -np.inf, 0.0, 0.5 * x * erfc)


def _gated(x: F64, gate: F64) -> F64:
    """x * gate with the limit 0 where the gate is closed, x infinite included (D-ACT-6)."""
    return np.where(gate == 0, 0.0, x * gate)


def _shrink(x: F64, bias: float, threshold: float) -> F64:
    return np.where(x > threshold, x - bias, np.where(x < -threshold, x + bias, 0.0))


SELU_ALPHA = 1.67326319217681884765625
SELU_GAMMA = 1.05070102214813232421875

ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda x: x),
    "linear": Activation(lambda x, a, b: times(a, x) + b, {"alpha": None, "beta": None}),
    "relu": Activation(lambda x: np.maximum(x, 0)),
    "leaky_relu": Activation(lambda x, a: np.where(x >= 0, x, times(a, x)), {"alpha": 0.01}),
    "thresholded_relu": Activation(lambda x, a: np.where(x > a, x, 0.0), {"alpha": 1.0}),
    "elu": Activation(lambda x, a: np.where(x >= 0, x, a * np.expm1(x)), {"alpha": 1.0}),
    "celu": Activation(lambda x, a: np.where(x >= 0, x, a * np.expm1(x / a)), {"alpha": 1.0}),
    "scaled_elu": Activation(
        lambda x, a, g: np.where(x > 0, times(g, x), g * (a * np.expm1(np.minimum(x, 0)))),
        {"alpha": SELU_ALPHA, "gamma": SELU_GAMMA},
    ),
    "sigmoid": Activation(sigmoid),
    "hard_sigmoid": Activation(
        lambda x, a, b: _clamped(times(a, x) + b), {"alpha": 0.2, "beta": 0.5}
    ),
    "tanh": Activation(np.tanh),
    "scaled_tanh": Activation(
        lambda x, a, b: a * np.tanh(times(b, x)), {"alpha": 1.0, "beta": 0.5}
    ),
    "softplus": Activation(
        lambda x, s: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(s * x))) / s, {"steepness": 1.0}
    ),
    "parametric_softplus": Activation(
        lambda x, a, b: times(a, _softplus(times(b, x))), {"alpha": 1.0, "beta": 1.0}
    ),
    "softsign": Activation(lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))),
    "shrink": Activation(_shrink, {"bias": 0.0, "threshold": 0.5}),
    "gelu": Activation(_gelu),
    "swish": Activation(lambda x, s: _gated(x, sigmoid(times(s, x))), {"sigmoid_input_scale": 1.0}),
    "hard_swish": Activation(
        lambda x, a, b: _gated(x, _clamped(times(a, x) + b)), {"alpha": 1 / 6, "beta": 0.5}
    ),
}


def resolve(
    activation: Fused, dtype: np.dtype[Any], op: str = "mean_variance_normalization"
) -> tuple[str, list[float]]:
    """The activation's name and its parameters in order, defaults filled in.

    For data other than FLOAT64 parameters are rounded to FLOAT (D-ACT-7, D-ACT-15).
    """
    op = f"{op}: FusedActivation"
    if activation is None:
        return "identity", []
    is_pair = isinstance(activation, tuple) and len(activation) == 2
    pair: Any = activation if is_pair else (activation, {})
    name, given = pair
    text = f"{op} is {shown(activation)}; it must be a name or a pair (name, parameters)"
    require(isinstance(name, str) and isinstance(given, dict), text, TypeError)
    require(
        name in ACTIVATIONS, f"{op} is {shown(name)}; it must be one of {', '.join(ACTIVATIONS)}"
    )
    defaults = ACTIVATIONS[name].defaults
    for key in given:
        require(isinstance(key, str), f"{op} {name} is given {shown(key)}, no name", TypeError)
        require(key in defaults, f"{op} {name} is given {key!r}; it has {list(defaults)}")
    values = []
    for key, default in defaults.items():
        number = given.get(key, default)
        require(key in given or default is not None, f"{op} {name} is given no {key}")
        value = parameter(real(op, key, number), dtype)
        require(math.isfinite(value), f"{op}: {key} is {number}; it must be finite")
        values.append(value)
    text = f"{op}: {name}'s {', '.join(defaults)} is {values}; it must be "
    require(name != "softplus" or values[0] > 0, text + "greater than 0")
    require(name != "celu" or values[0] != 0, text + "other than 0")
    return name, values


def activate(x: F64, name: str, parameters: list[float]) -> F64:
    """f(x) in float64; NaN stays NaN in every activation (D-ACT-5)."""
    with np.errstate(all="ignore"):
        y = ACTIVATIONS[name].formula(x, *parameters)
    return np.where(np.isnan(x), np.nan, y)
