"""How an activation carries the error of its argument, and what its own evaluation adds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reference.activations import activate
from ..reference.numbers import FloatFormat, spacing

F64 = NDArray[np.float64]

# The error of the function's own evaluation, in ulps of the compute type at f(y): the mathematical
# library's share (up to 2 for exp, expm1, tanh, log1p; 4 for erfc) and one per operation after it.
EVALUATION_ULPS = {
    "identity": 0, "relu": 0, "thresholded_relu": 0, "leaky_relu": 1, "linear": 0, "shrink": 1,
    "elu": 4, "celu": 5, "scaled_elu": 6, "sigmoid": 5, "hard_sigmoid": 0, "tanh": 4,
    "scaled_tanh": 5, "softplus": 6, "parametric_softplus": 7, "softsign": 3, "gelu": 8,
    "swish": 6, "hard_swish": 1,
}  # fmt: skip
STEPS = ("thresholded_relu", "shrink")


def activation_bound(
    y: F64, error: F64, name: str, parameters: list[float], form: FloatFormat
) -> F64:
    """How far f may be off where its argument y is off by at most `error`.

    The larger |f(t) - f(y)| of the ends t of [y - error, y + error], which is the largest inside it
    because each f is monotone, or convex around its one minimum. The interval is three roundings
    of y wider where the formula may form a product or quotient of y first. Added to it is the
    function's own evaluation. Where f jumps, only the near side counts: the far side is
    `other_side`'s.
    """
    if name == "identity":
        return error
    value = activate(y, name, parameters)
    u = form.roundoff
    around = error if name in ("relu", *STEPS) else error + 3 * u * np.abs(y)
    carried = around
    if name not in STEPS:
        ends = (activate(y + sign * around, name, parameters) for sign in (-1.0, 1.0))
        off = np.maximum(*(np.abs(end - value) for end in ends))
        carried = np.where(np.isfinite(off), off, 0.0)
    own = EVALUATION_ULPS[name] * spacing(value, form)
    if name in ("linear", "hard_sigmoid", "hard_swish"):
        alpha, beta = parameters
        rounding = 2 * u * (np.abs(alpha * y) + abs(beta)) + form.tiny
        gain = np.abs(y) if name == "hard_swish" else 1.0
        own = own + np.where(carried + np.abs(value) > 0, rounding * gain, 0.0)
    if name == "shrink":
        own = own + u * (np.abs(y) + abs(parameters[0])) * (value != 0)
    gain = max([1.0, *(abs(p) for p in parameters), *(1 / abs(p) for p in parameters if p)])
    lost = 4 * form.tiny * (1 + np.abs(y)) * gain if EVALUATION_ULPS[name] > 1 else 0.0
    total = 1.01 * carried + own + lost
    if name == "parametric_softplus":  # beta * y may overflow where alpha would have saved it
        total = np.where(np.abs(parameters[1] * y) >= form.largest, np.inf, total)
    return np.where(np.isinf(error), np.inf, np.where(np.isfinite(y), total, 0.0))


def other_side(y: F64, error: F64, name: str, parameters: list[float]) -> list[tuple[F64, F64]]:
    """The values of a step activation at both ends of its argument's error, with their bounds."""
    if name not in STEPS or not np.any(error > 0):
        return []
    ends: list[Any] = [activate(y + sign * error, name, parameters) for sign in (-1.0, 1.0)]
    return [(end, 2 * error) for end in ends]
