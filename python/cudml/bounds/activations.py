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
# Those made of straight pieces have none but the roundings of their products and sums.
EVALUATION_ULPS = {
    "elu": 4, "celu": 5, "scaled_elu": 6, "sigmoid": 5, "tanh": 4, "scaled_tanh": 5,
    "softplus": 6, "parametric_softplus": 7, "softsign": 3, "gelu": 8, "swish": 6,
}  # fmt: skip
# Roundings of the argument before the function proper, where a parameter multiplies it.
ARGUMENT_ROUNDINGS = {
    "celu": 1, "scaled_tanh": 1, "softplus": 1, "parametric_softplus": 1, "swish": 1, "gelu": 3,
}  # fmt: skip
STEPS = ("thresholded_relu", "shrink")


def activation_bound(
    y: F64, error: F64, name: str, parameters: list[float], form: FloatFormat, *, is_stored: bool
) -> F64:
    """How far f may be off where its argument y is off by at most `error`.

    The larger |f(t) - f(y)| of the ends t of [y - error, y + error], which is the largest inside it
    because each f is monotone, or convex around its one minimum. Added to it is the function's own
    evaluation; its last rounding does not count where the result `is_stored` in the compute type.
    Where f jumps, only the near side counts: the far side is `other_side`'s.
    """
    if name == "identity":
        return error
    u, value = form.roundoff, activate(y, name, parameters)
    around = error + ARGUMENT_ROUNDINGS.get(name, 0) * u * np.abs(y)
    carried = around
    if name not in STEPS:
        ends = (activate(y + sign * around, name, parameters) for sign in (-1.0, 1.0))
        off = np.maximum(*(np.abs(end - value) for end in ends))
        carried = np.where(np.isnan(off), 0.0, off)  # inf where f may overflow
    if name in EVALUATION_ULPS:
        own = EVALUATION_ULPS[name] * spacing(value, form)
        gain = max([1.0, *(abs(p) for p in parameters), *(1 / abs(p) for p in parameters if p)])
        own = own + 0.01 * carried + 4 * form.tiny * (1 + np.abs(y)) * gain
    elif name not in ("relu", "thresholded_relu"):
        own = _straight_roundings(y, error, name, parameters, form)
        # What is rounded to a narrower type was rounded before, to a subnormal where it is small.
        own = own + (0.0 if is_stored else u * (np.abs(value) + carried) + form.tiny)
    else:
        own = np.zeros(())
    total = carried + own
    inner = _inner(y, name, parameters)
    is_lost = np.abs(inner) * (1 + 2.0**-10) >= form.largest
    total = np.where(is_lost & (np.abs(value) < form.largest), np.inf, total)
    return np.where(np.isinf(error), np.inf, np.where(np.isfinite(y), total, 0.0))


def _inner(y: F64, name: str, parameters: list[float]) -> F64:
    """What may overflow inside of f where another parameter would have saved f itself; or 0."""
    if name == "parametric_softplus":
        return np.asarray(parameters[1] * y)
    if name == "linear":
        return np.asarray(parameters[0] * y)
    if name == "celu":
        return np.expm1(np.minimum(y, 0) / parameters[0])
    return np.zeros(())


def _straight_roundings(
    y: F64, error: F64, name: str, parameters: list[float], form: FloatFormat
) -> Any:
    """What an activation of straight pieces rounds before its last operation; 0 where f is flat."""
    if name not in ("linear", "hard_sigmoid", "hard_swish"):
        return 0.0
    alpha, beta = parameters
    # Where the compute type is float64 the reference rounds like the operator.
    u = form.roundoff * (2 if form.precision == 53 else 1)
    product, line = u * np.abs(alpha * y) + form.tiny, alpha * y + beta
    if name == "linear":
        return product
    slack = product + u * np.abs(line)
    reach = slack + np.abs(alpha) * error
    is_sloped = (line > -reach) & (line < 1 + reach)
    gain = np.abs(y) + error if name == "hard_swish" else 1.0
    return np.where(is_sloped, (slack if name == "hard_swish" else product) * gain, 0.0)


def other_side(y: F64, error: F64, name: str, parameters: list[float]) -> list[tuple[F64, F64]]:
    """The values of a step activation at both ends of its argument's error, with their bounds."""
    if name not in STEPS or not np.any(error > 0):
        return []
    ends: list[Any] = [activate(y + sign * error, name, parameters) for sign in (-1.0, 1.0)]
    return [(end, 2 * error) for end in ends]
