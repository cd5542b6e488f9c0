"""The bounds of the gradient of normalization, at once and in two phases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import reference
from ..reference.activations import resolve
from ..reference.derivatives import derivative
from ..reference.normalization import group_axes, stages_of
from ..reference.normalization_grad import Backward, backward, shared_axes
from ..reference.numbers import FloatFormat, compute_format
from ..reference.stages import Normalized
from .comparison import Expected
from .derivatives import slope_bound
from .normalization import affine_error, given_normal_error, given_stages, own_normal_error
from .sums import bounded, chain, sum_over, unless_overflow

Array = NDArray[Any]
F64 = NDArray[np.float64]
Axes = tuple[int, ...]

MOST_JOINED = 2.0**20  # up to it r may be left out of a sum's products and multiply the sum


@dataclass(frozen=True)
class Errors:
    """The sizes of z, h and w, 0 where not finite, and their errors Ez, Eh and Ew; inf: no claim.

    factor is the size of the scale that makes w of h, of_product what h * z loses where it, or
    h * (x - mean) in its place, is subnormal; form is the compute type's format.
    """

    z: F64
    h: F64
    w: F64
    of_z: F64
    of_h: F64
    of_w: F64
    is_z_infinite: NDArray[np.bool_]
    factor: F64
    of_product: F64
    form: FloatFormat


def errors_of(
    call: dict[str, Any], stages: Normalized, back: Backward, of_z: F64, is_free: Any, op: str
) -> Errors:
    """Eh = |grad|*(error of the slope) and Ew = |scale|*Eh + u*|w|.

    An infinite or NaN grad makes no claim where the slope may as well be 0, nor where z, with which
    it is multiplied, may have either sign; nor does any grad, 0 included, where slopes overflow.
    """
    x, scale = call["x"], call["scale"]
    form = compute_format(x.dtype)
    name, parameters = resolve(call["activation"], x.dtype, op)
    v, grad = stages.affine.hi, np.abs(call["grad"].astype(np.float64))
    of_v = affine_error(stages, scale, call["bias"], of_z, form)
    slope_error = slope_bound(v, of_v, name, parameters, form)
    is_known = np.isfinite(grad)
    of_h = np.where(is_known & (grad > 0), grad * slope_error, 0.0)
    slope = np.abs(derivative(v, name, parameters))
    doubtful = (slope_error > 0) & (slope <= slope_error + form.tiny * 2.0**30)
    signless = (of_z > 0) & (np.abs(stages.normal.hi) <= of_z)
    unread = name in ("identity", "linear")
    free = np.broadcast_to(is_free, x.shape) & (not unread)
    is_steep = (slope * (1 + 2.0**-10) >= form.largest) & (not unread)
    overflowed = is_known & (np.isinf(back.h.hi) | is_steep)
    of_h = np.where(free | overflowed | ~is_known & (doubtful | signless), np.inf, of_h)
    if name != "identity":
        of_h = of_h + form.tiny
    of_h = unless_overflow(of_h, _finite(back.h.hi), form)
    of_w, w = of_h, _finite(back.w.hi)
    factor = np.ones(())
    if scale is not None:
        factor = np.abs(scale.astype(np.float64))
        of_w = np.where(np.isposinf(of_h), np.inf, factor * of_h) + form.roundoff * w + form.tiny
        of_w = unless_overflow(of_w, np.where(np.isfinite(back.h.hi), np.abs(back.w.hi), w), form)
    of_z = np.where(is_free, np.inf, of_z)
    z, h = stages.normal.hi, _finite(back.h.hi)
    of_product = form.tiny * (1 + np.fmin(1 / stages.deviation.hi, MOST_JOINED))
    return Errors(_finite(z), h, w, of_z, of_h, of_w, np.isinf(z), factor, of_product, form)


def _finite(values: F64) -> F64:
    size = np.abs(values)
    return np.where(np.isfinite(size), size, 0.0)


def _may_be_none(size: F64, error: F64) -> NDArray[np.bool_]:
    """Whether 0 is inside the error, so that an infinite factor makes anything of it."""
    return np.asarray((error > 0) & (size <= error))


def _times(a: F64, b: F64) -> F64:
    """a * b, where 0 times no claim is none either."""
    product = np.asarray(a * b)
    return np.where(np.isnan(product) & (np.isposinf(a) | np.isposinf(b)), np.inf, product)


def sum_errors(e: Errors, over: Axes, n: Any) -> tuple[F64, F64]:
    """N*EA = sum(Ew) + c*u*sum|w| and N*EB = sum(Ew*|z| + |w|*Ez + 2u*|w*z|) + (c + 1)*u*sum|w*z|.

    c is the chain of n terms. Where a kink allows both slopes, Ew is no small part of w, and z is
    multiplied with it as it was computed: Ew*(|z| + Ez). An infinite scale makes no claim: it
    multiplies each h, 0 among them, or once the sum of those that share it; nor does a sum of h
    that would overflow without a scale.
    """
    u, c = e.form.roundoff, chain(n)
    of_w = np.where(np.isposinf(e.factor), np.inf, e.of_w)
    total = sum_over(e.w, over)
    first = unless_overflow(sum_over(of_w, over) + c * u * total, total, e.form)
    first = unless_overflow(first, sum_over(e.h, over), e.form)
    product = e.w * e.z
    each = _times(of_w, e.z + e.of_z) + _times(e.w, e.of_z) + 2 * u * product
    each = each + np.where((e.w > 0) & (e.z > 0), e.of_product * np.maximum(e.factor, 1), 0.0)
    each = np.where(_may_be_none(e.w, of_w) & e.is_z_infinite, np.inf, each)
    total = sum_over(product, over)
    second = sum_over(each, over) + (c + 1) * u * total
    second = unless_overflow(second, total, e.form)
    return first, unless_overflow(second, sum_over(e.h * e.z, over), e.form)


def parameter_outputs(
    call: dict[str, Any], e: Errors, dscale: F64 | None, dbias: F64 | None
) -> list[tuple[np.dtype[Any], F64 | None, F64]]:
    """E of dscale: sum(Eh*|z| + |h|*Ez + u*|h*z|) + (c - 1)*u*sum|h*z|; of dbias with 1 for z.

    c is the chain of the terms of a sum; Eh*(|z| + Ez) as in `sum_errors`.
    """
    u = e.form.roundoff
    outputs: list[tuple[np.dtype[Any], F64 | None, F64]] = []
    product = e.h * e.z
    of_product = _times(e.of_h, e.z + e.of_z) + _times(e.h, e.of_z) + u * product
    of_product = of_product + np.where((e.h > 0) & (e.z > 0), e.of_product, 0.0)
    of_product = np.where(_may_be_none(e.h, e.of_h) & e.is_z_infinite, np.inf, of_product)
    for field, value, each, size in (
        ("scale", dscale, of_product, product),
        ("bias", dbias, e.of_h, e.h),
    ):
        parameter = call[field]
        if value is None:
            outputs.append((call["x"].dtype, None, np.zeros(())))
            continue
        over = tuple(shared_axes(parameter))
        terms = math.prod(call["x"].shape[a] for a in over)
        total = sum_over(size, over)
        error = sum_over(each, over) + (chain(terms) - 1) * u * total
        outputs.append((parameter.dtype, value, unless_overflow(error, total, e.form)))
    return outputs


def dx_error(
    e: Errors,
    dx: F64,
    deviation: F64,
    a: tuple[F64, F64] | None,
    b: tuple[F64, F64] | None,
    root: F64 | None,
) -> F64:
    """r*(Ew + EA + 2u*|A| + |z|*EB + |B|*Ez + 3u*|z*B| + 2u*|w|) + |dx|*(c/2 + 8)*u.

    a and b are (A, EA) and (B, EB), None where their term is left out; root is c/2 + 8, None
    where nothing is divided by. With none of them dx is w. No claim where B is infinite or NaN and
    z may have either sign.
    """
    u, total = e.form.roundoff, e.of_w
    if a is None and b is None and root is None:
        return total
    size = e.w
    if a is not None:
        mean_w = _finite(a[0])
        total = total + a[1] + 2 * u * mean_w + e.form.tiny
        size = size + mean_w
    if b is not None:
        mean_wz = _finite(b[0])
        product = e.z * mean_wz
        total = total + _times(e.z, b[1]) + _times(mean_wz, e.of_z) + 3 * u * product
        is_open = ~np.isfinite(b[0]) & _may_be_none(e.z, e.of_z)
        is_open = is_open | e.is_z_infinite & _may_be_none(mean_wz, b[1])
        total = np.where(is_open, np.inf, total + 2 * e.form.tiny)
        size = size + product
    total = unless_overflow(total + 2 * u * e.w, size, e.form)
    total = np.where(np.isposinf(total), np.inf, total / deviation)
    if root is not None:
        total = total + root * u * _finite(dx) + e.form.tiny
        total = np.where(np.isposinf(e.of_z), np.inf, total)
    return total


def expect_normalization_grad(call: dict[str, Any]) -> Expected:
    """dx, dscale and dbias; z by own statistics, or by given ones."""
    op, x = "mean_variance_normalization_grad", call["x"]
    dx, dscale, dbias = reference.mean_variance_normalization_grad(**call)
    use_mean, use_variance = bool(call["use_mean"]), bool(call["use_variance"])
    over = tuple(group_axes(op, x.ndim, call["axes"]))
    if call["mean"] is None and call["variance"] is None:
        fields = ("x", "scale", "bias", "axes", "use_mean", "use_variance", "epsilon", "activation")
        stages, _ = stages_of(**{field: call[field] for field in fields})
        of_z, is_free = own_normal_error(x, over, use_mean, use_variance, stages)
    else:
        stages = given_stages(call)
        of_z, is_free = given_normal_error(x, call["mean"], call["variance"], stages)
    e, back = _errors(op, call, stages, of_z, is_free)
    outputs = parameter_outputs(call, e, dscale, dbias)
    if dx is None:
        return bounded(op, (x.dtype, None, np.zeros(())), *outputs)
    n = math.prod(x.shape[a] for a in over)
    first, second = (total / n for total in sum_errors(e, over, n))
    a = b = root = None
    if use_mean:
        a = (sum_over(back.w.hi, over) / n, first)
    if use_variance:
        b = (sum_over(back.w.hi * stages.normal.hi, over) / n, second)
        root = chain(n) / 2 + 8
    error = dx_error(e, dx, stages.deviation.hi, a, b, root)
    return bounded(op, (x.dtype, dx, error), *outputs)


def _errors(
    op: str, call: dict[str, Any], stages: Normalized, of_z: F64, is_free: Any
) -> tuple[Errors, Backward]:
    activation = resolve(call["activation"], call["x"].dtype, op)
    back = backward(call["grad"], call["scale"], stages, *activation)
    return errors_of(call, stages, back, of_z, is_free, op), back


def _given(op: str, call: dict[str, Any]) -> tuple[Errors, Backward]:
    stages = given_stages(call)
    of_z, is_free = given_normal_error(call["x"], call["mean"], call["variance"], stages)
    return _errors(op, call, stages, of_z, is_free)


def expect_grad_sums(call: dict[str, Any]) -> Expected:
    """N*EA and N*EB, with given statistics."""
    op, x = "normalize_grad_sums", call["x"]
    values = reference.normalize_grad_sums(**call)
    over = tuple(group_axes(op, x.ndim, call["axes"]))
    e, _ = _given(op, call)
    found = sum_errors(e, over, math.prod(x.shape[a] for a in over))
    kind = np.dtype(call["dtype"])
    return bounded(op, (kind, values[0], found[0]), (kind, values[1], found[1]))


def expect_normalize_grad(call: dict[str, Any]) -> Expected:
    """As expect_normalization_grad, with EA = u*|A| and EB = u*|B|, since the sums are given.

    Either share may be subnormal.
    """
    op, x = "normalize_grad", call["x"]
    dx, dscale, dbias = reference.normalize_grad(**call)
    e, back = _given(op, call)
    outputs = parameter_outputs(call, e, dscale, dbias)
    if dx is None:
        return bounded(op, (x.dtype, None, np.zeros(())), *outputs)
    pair: list[Any] = [None, None]
    if call["sums"] is not None:
        shares = [s.astype(np.float64) / call["count"] for s in call["sums"]]
        for i, field in enumerate(("mean", "variance")):
            if call[field] is not None:
                share = np.asarray(shares[i])
                pair[i] = (share, e.form.roundoff * _finite(share) + e.form.tiny)
    root = None if call["variance"] is None else chain(1) / 2 + 8
    error = dx_error(e, dx, back.stages.deviation.hi, pair[0], pair[1], root)
    return bounded(op, (x.dtype, dx, error), *outputs)
