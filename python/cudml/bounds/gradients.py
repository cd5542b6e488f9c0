"""The bounds of the gradients of Lp pooling and padding, and of max unpooling, which has none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import reference
from ..reference.geometry import Windows
from ..reference.gradients import lp_ratio
from ..reference.numbers import FloatFormat, compute_format
from .comparison import Expected
from .sums import bounded, chain, exact, sizes, unless_overflow

F64 = NDArray[np.float64]


def expect_lp_pooling_grad(call: dict[str, Any]) -> Expected:
    """E = sum t*relative + (c - 1)*u*sum t + tiny*sum(|grad| + 1), t = |grad|*rho of w terms.

    relative = u*(2(p - 1) + 8 + 2*|ln rho|) for p > 1; it and tiny, which stands for subnormal
    products, are 0 where |x| = y, and for p = 1. Its first term stands for (1 + u)^(2(p - 1)) - 1,
    and no rho is off by more than 1: both matter where p*u is not small. rho of an infinite x is 1.
    No claim for an infinite or NaN grad where rho may as well be 0.
    """
    x, p, value = call["x"], int(call["p"]), reference.lp_pooling_grad(**call)
    fields = ("window_size", "strides", "start_padding", "end_padding", "dilations")
    windows = Windows(
        x.shape, **{f: call[f] for f in fields}, axes=None, output_sizes=call["grad"].shape[2:]
    )
    form = compute_format(x.dtype)
    size = windows.planes(np.nan_to_num(np.abs(x.astype(np.float64)), posinf=np.inf))
    given, norm = windows.planes(sizes(call["grad"])), windows.planes(call["y"].astype(np.float64))
    is_known = np.isfinite(windows.planes(call["grad"].astype(np.float64)))
    sums = np.zeros((4, *size.shape))  # errors of terms, terms, |grad| + 1, the number of terms
    for taps in windows.taps():
        b, t, o = np.nonzero(taps.real & ((norm != 0) | (p == 1))[:, None])
        i, g = taps.source[t, o], given[b, o]
        rho, relative = _rho(size[b, i], norm[b, o], p, form)
        lost = (rho > 0) & (rho <= relative + form.tiny * 2.0**30)
        relative = np.where(lost & ~is_known[b, o], np.inf, relative)
        error = np.where(np.isposinf(relative), np.inf, g * relative)
        is_rounded = (p > 1) & (size[b, i] != norm[b, o])
        for sum_, term in zip(sums, (error, g * rho, (g + 1) * is_rounded, 1.0), strict=True):
            np.add.at(sum_, (b, i), term)
    of_terms, total, above, count = sums
    error = of_terms + (chain(count) - 1) * form.roundoff * total + form.tiny * above
    error = windows.restore(error, x.shape)
    error = unless_overflow(error, windows.restore(total, x.shape), form)
    return bounded("lp_pooling_grad", (x.dtype, value, error))


def _rho(x: F64, y: F64, p: int, form: FloatFormat) -> tuple[F64, F64]:
    """rho, and how far it may be off; 0 and 0 where it is NaN."""
    if p == 1:
        return np.ones(len(x)), np.zeros(len(x))
    rho = lp_ratio(x, y).power(p - 1).hi
    rho = np.where(np.isfinite(rho), np.abs(rho), 0.0)
    logarithm = np.where(rho > 0, np.abs(np.log(np.where(rho > 0, rho, 1.0))), 0.0)
    powers = np.minimum(rho * np.expm1(2 * (p - 1) * form.roundoff), 1.0)
    error = np.where(rho > 0, powers + form.roundoff * (8 + 2 * logarithm) * rho, 0.0)
    return rho, np.where(x == y, 0.0, error)


def expect_padding_grad(call: dict[str, Any]) -> Expected:
    """E = (c - 1)*u*sum|grad|; in constant mode the inner slice itself."""
    grad, value = call["grad"], reference.padding_grad(**call)
    if call["mode"] == "constant":
        return exact("padding_grad", [value.astype(grad.dtype)], ["equal"])
    form = compute_format(grad.dtype)
    terms = reference.padding_grad(**{**call, "grad": np.ones(grad.shape)})
    total = reference.padding_grad(**{**call, "grad": sizes(grad)})
    error = unless_overflow((chain(terms) - 1) * form.roundoff * total, total, form)
    return bounded("padding_grad", (grad.dtype, value, error))


def expect_max_unpooling(call: dict[str, Any]) -> Expected:
    """Bits are copied."""
    return exact("max_unpooling", [reference.max_unpooling(**call)], ["bits"])
