"""The derivatives of the activations, and how a gradient passes through them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .activations import sigmoid, times
from .wide import Wide

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Derivative:
    """f'(v, *parameters); `blocks` is True where a comparison alone makes it 0.

    There the gradient is +0 whatever comes from above, infinite or NaN (D-GRAD-12).
    """

    formula: Callable[..., F64]
    blocks: Callable[..., Bools] | None = None


def _bell(z: F64) -> F64:
    """e/(1 + e)^2 with e = exp(-|z|): the derivative of the sigmoid, which is even."""
    e = np.exp(-np.abs(z))
    return np.asarray(e / np.square(1 + e), np.float64)


def _tanh_slope(z: F64) -> F64:
    return 4 * _bell(2 * z)


def _gelu_slope(v: F64) -> F64:
    """Phi(v) + v*phi(v); exp(-v^2/2) = 0 leaves the limits 0 and 1 (D-GRAD-15)."""
    erfc = np.asarray(np.frompyfunc(math.erfc, 1, 1)(-v / math.sqrt(2)), np.float64)
    density = np.exp(-0.5 * v * v) / math.sqrt(2 * math.pi)
    return 0.5 * erfc + np.where(density == 0, 0.0, v * density)


def _swish_slope(v: F64, s: float) -> F64:
    """t + z*t*(1 - t) with z = s*v and t = sigmoid(z); the second term has the limit 0."""
    z = times(s, v)
    bell = _bell(z)
    return sigmoid(z) + np.where(bell == 0, 0.0, z * bell)


def _hard_swish_slope(v: F64, a: float, b: float) -> F64:
    q = times(a, v) + b
    return np.where(q <= 0, 0.0, np.where(q < 1, 2 * times(a, v) + b, 1.0))


def _line(v: F64, a: float, b: float) -> F64:
    return times(a, v) + b


DERIVATIVES: dict[str, Derivative] = {
    "identity": Derivative(lambda v: np.ones_like(v)),
    "linear": Derivative(lambda v, a, b: np.full_like(v, a)),
    "relu": Derivative(lambda v: np.where(v > 0, 1.0, 0.0), lambda v: ~(v > 0)),
    "leaky_relu": Derivative(lambda v, a: np.where(v > 0, 1.0, a)),
    "thresholded_relu": Derivative(lambda v, a: np.where(v > a, 1.0, 0.0), lambda v, a: ~(v > a)),
    "elu": Derivative(lambda v, a: np.where(v > 0, 1.0, a * np.exp(np.minimum(v, 0)))),
    "celu": Derivative(lambda v, a: np.where(v > 0, 1.0, np.exp(np.minimum(v, 0) / a))),
    "scaled_elu": Derivative(
        lambda v, a, g: np.where(v > 0, g, g * (a * np.exp(np.minimum(v, 0))))
    ),
    "sigmoid": Derivative(_bell),
    "hard_sigmoid": Derivative(
        lambda v, a, b: np.where((_line(v, a, b) > 0) & (_line(v, a, b) < 1), a, 0.0),
        lambda v, a, b: ~((_line(v, a, b) > 0) & (_line(v, a, b) < 1)),
    ),
    "tanh": Derivative(_tanh_slope),
    "scaled_tanh": Derivative(lambda v, a, b: a * (b * _tanh_slope(times(b, v)))),
    "softplus": Derivative(lambda v, s: sigmoid(s * v)),
    "parametric_softplus": Derivative(lambda v, a, b: a * (b * sigmoid(times(b, v)))),
    "softsign": Derivative(lambda v: 1 / np.square(1 + np.abs(v))),
    "shrink": Derivative(
        lambda v, bias, t: np.where((v > t) | (v < -t), 1.0, 0.0),
        lambda v, bias, t: ~((v > t) | (v < -t)),
    ),
    "gelu": Derivative(_gelu_slope),
    "swish": Derivative(_swish_slope),
    "hard_swish": Derivative(_hard_swish_slope, lambda v, a, b: _line(v, a, b) <= 0),
}
UNREAD = ("identity", "linear")  # their slope does not depend on v, NaN included


def derivative(v: F64, name: str, parameters: list[float]) -> F64:
    """f'(v) in float64: of NaN it is NaN but for identity and linear (D-GRAD-13)."""
    with np.errstate(all="ignore"):
        slope = DERIVATIVES[name].formula(v, *parameters)
    return slope if name in UNREAD else np.where(np.isnan(v), np.nan, slope)


def blocked(v: F64, name: str, parameters: list[float]) -> Bools:
    """Where nothing passes, whatever the gradient from above is (D-GRAD-12)."""
    blocks = DERIVATIVES[name].blocks
    if blocks is None:
        return np.zeros(v.shape, np.bool_)
    with np.errstate(all="ignore"):
        return np.asarray(blocks(v, *parameters) & ~np.isnan(v))


def passed(grad: F64, v: F64, name: str, parameters: list[float]) -> Wide:
    """grad * f'(v), or +0 where the activation blocks."""
    with np.errstate(all="ignore"):
        product = Wide.of(grad) * derivative(v, name, parameters)
    stopped = blocked(v, name, parameters)
    return Wide(np.where(stopped, 0.0, product.hi), np.where(stopped, 0.0, product.lo))
