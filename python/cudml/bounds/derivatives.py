"""How far the slope of an activation may be off where its argument is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reference.derivatives import UNREAD, derivative
from ..reference.numbers import FloatFormat
from ..reference.wide import Wide
from .activations import ARGUMENT_ROUNDINGS

F64 = NDArray[np.float64]
Parameters = list[float]

UNROUNDED = ("identity", "relu", "thresholded_relu", "shrink")  # slopes 0 and 1
STRAIGHT = (*UNROUNDED, "linear", "leaky_relu", "hard_sigmoid")
# Where the slope is largest or smallest beside infinity, in units of the argument s*v; that of the
# elus is at the kink, from below.
PEAKS = {
    "elu": [0.0], "scaled_elu": [0.0],
    "sigmoid": [0.0], "tanh": [0.0], "scaled_tanh": [0.0], "softsign": [0.0],
    "gelu": [-math.sqrt(2), math.sqrt(2)], "swish": [-2.3993572805154676, 2.3993572805154676],
}  # fmt: skip


def slope_bound(v: F64, error: F64, name: str, parameters: Parameters, form: FloatFormat) -> F64:
    """max over t in [v - error, v + error] of |f'(t) - f'(v)|, plus 16u*|f'| and q.

    q, the error of the slope's own evaluation, is 0 for activations of straight pieces, else 1e-6
    (FLOAT64 1e-14) times max(1, |parameters|)^2. A kink inside allows both slopes.
    """
    slope = derivative(v, name, parameters)
    if name in UNREAD:
        return 0.0 * slope if name == "identity" else 16 * form.roundoff * np.abs(slope)
    around = error + ARGUMENT_ROUNDINGS.get(name, 0) * form.roundoff * np.abs(v)
    around = around + _line_rounding(v, error, name, parameters, form)
    low, high = v - around, v + around
    total = np.zeros(v.shape)
    scale = parameters[0] if name == "swish" else 1.0
    peaks = [peak / scale for peak in PEAKS.get(name, []) if scale]
    for t in (low, high, *(np.clip(peak, low, high) for peak in peaks)):
        off = np.abs(derivative(t, name, parameters) - slope)
        total = np.maximum(total, np.where(np.isnan(off), 0.0, off))
    for at, *sides in _pairs_of_kinks(name, parameters):
        is_near = (np.abs(v - at) <= around) & (around > 0)
        for side in sides:
            total = np.where(is_near, np.maximum(total, np.abs(side - slope)), total)
    if name not in UNROUNDED:
        total = total + 16 * form.roundoff * np.abs(slope)
    if name not in STRAIGHT:
        size = max([1.0, *(abs(p) for p in parameters)])
        total = total + (1e-14 if form.precision == 53 else 1e-6) * size * size
    total = np.where(np.abs(slope) * (1 + 2.0**-10) >= form.largest, np.inf, total)
    return np.where(np.isnan(v), 0.0, np.where(np.isposinf(error), np.inf, total))


def _pairs_of_kinks(name: str, parameters: Parameters) -> list[tuple[float, float, float]]:
    """Where a slope jumps twice, with the slopes on both sides.

    Both kinks may lie inside of the error, where its ends do not show what is between them.
    """
    if name == "shrink":
        return [(parameters[1], 0.0, 1.0), (-parameters[1], 0.0, 1.0)]
    if name in ("hard_sigmoid", "hard_swish") and parameters[0]:
        a, b = parameters
        is_swish = name == "hard_swish"
        low, high = (-b, 2 - b) if is_swish else (a, a)
        return [(-b / a, 0.0, low), ((1 - b) / a, high, 1.0 if is_swish else 0.0)]
    return []


def _line_rounding(v: F64, error: F64, name: str, parameters: Parameters, form: FloatFormat) -> Any:
    """How far the rounding of a*v + b moves the kinks of the hard activations.

    Where v is exact, the product and the sum are what they are: often exact, too.
    """
    if name not in ("hard_sigmoid", "hard_swish") or not parameters[0]:
        return 0.0
    a, b = parameters
    line = Wide.of(v) * a + b
    kind = np.float64 if form.precision == 53 else np.float32
    fused = line.hi.astype(kind)
    apart = ((a * v).astype(kind) + kind(b)).astype(kind)
    actual = np.maximum(*(np.abs((line - y.astype(np.float64)).hi) for y in (fused, apart)))
    most = form.roundoff * (np.abs(a * v) + np.abs(line.hi))
    return np.where(error > 0, most, np.where(np.isfinite(actual), actual, 0.0)) / abs(a)
