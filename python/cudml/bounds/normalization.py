"""The bounds of normalization, of its statistics, of their merge and of normalization with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import reference
from ..reference.activations import resolve
from ..reference.normalization import group_axes, stages_of
from ..reference.numbers import FORMATS, FloatFormat, compute_format, parameter
from ..reference.stages import Normalized, normalized, statistics
from ..reference.two_phase import widened
from .activations import activation_bound, other_side
from .comparison import Expected
from .sums import bounded, chain, merges, sizes, sum_over, unless_overflow

Array = NDArray[Any]
F64 = NDArray[np.float64]
Axes = tuple[int, ...]


def expect_normalization(call: dict[str, Any]) -> Expected:
    """scale*z + bias and the activation carry the error of z; statistics have their own."""
    op, x = "mean_variance_normalization", call["x"]
    with_statistics = call.pop("return_statistics")
    stages, y = stages_of(**call)
    over = tuple(group_axes(op, x.ndim, call["axes"]))
    error, is_free = own_normal_error(x, over, call["use_mean"], call["use_variance"], stages)
    result = _activated(op, call, stages, y, error, is_free)
    if not with_statistics:
        return result
    count = math.prod(x.shape[a] for a in over)
    _, mean, squares = statistics(x, over, call["use_mean"])
    mean_error, squares_error = statistics_error(x, over, call["use_mean"], mean.hi, squares.hi)
    variance = squares.hi / count
    variance_error = squares_error / count + compute_format(x.dtype).roundoff * variance
    kind = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    more = bounded(
        op,
        (kind, mean.hi if call["use_mean"] else None, mean_error),
        (kind, variance if call["use_variance"] else None, variance_error),
    )
    for name in ("dtypes", "values", "bounds", "rules"):
        getattr(result, name).extend(getattr(more, name))
    return result


def expect_normalize(call: dict[str, Any]) -> Expected:
    """As expect_normalization, with the error of z from given statistics."""
    y, x = reference.normalize(**call), call["x"]
    stages = given_stages(call)
    error, is_free = given_normal_error(x, call["mean"], call["variance"], stages)
    return _activated("normalize", call, stages, y, error, is_free)


def given_stages(call: dict[str, Any]) -> Normalized:
    """The stages of normalize."""
    mean, variance = widened(call["mean"]), widened(call["variance"])
    epsilon = parameter(call["epsilon"], call["x"].dtype)
    return normalized(call["x"], mean, variance, call["scale"], call["bias"], epsilon)


def _activated(
    op: str, call: dict[str, Any], stages: Normalized, y: F64, error: F64, is_free: F64
) -> Expected:
    """The result y whose z is off by `error`; no claim where is_free, whatever follows."""
    x, scale = call["x"], call["scale"]
    affine, form = stages.affine.hi, compute_format(x.dtype)
    if scale is not None:  # infinity times what may as well be 0
        is_open = np.isinf(scale.astype(np.float64)) & (np.abs(stages.normal.hi) <= error)
        is_free = is_free | is_open & (error > 0)
    error = affine_error(stages, scale, call["bias"], error, form)
    y_error = np.where(np.isfinite(affine), error, 0.0)
    name, parameters = resolve(call["activation"], x.dtype, op)
    is_stored = x.dtype == np.float32  # what float32 computes is rounded once more in other types
    error = activation_bound(affine, y_error, name, parameters, form, is_stored=is_stored)
    result = bounded(op, (x.dtype, y, np.where(is_free, np.inf, error)))
    result.others.extend(other_side(affine, y_error, name, parameters))
    return result


def affine_error(
    stages: Normalized, scale: Array | None, bias: Array | None, error: F64, form: FloatFormat
) -> F64:
    """Ev = |scale|*Ez + 3u*(|scale*z| + |bias|), where v is not z itself.

    A group that is exactly constant has exactly the bias (D-MVN-5): Ez = 0 where z = 0.
    """
    normal = stages.normal.hi
    if scale is not None or bias is not None:
        factor = np.abs(scale.astype(np.float64)) if scale is not None else np.ones(())
        offset = np.abs(bias.astype(np.float64)) if bias is not None else np.zeros(())
        terms = np.abs(factor * normal) + offset
        constant = (error == 0) & (normal == 0)
        rounding = np.where(constant, 0.0, 3 * form.roundoff * terms + form.tiny)
        error = unless_overflow(factor * error + rounding, terms, form)
    return np.where(np.isnan(error), 0.0, np.broadcast_to(error, normal.shape))


def own_normal_error(
    x: Array, over: Axes, use_mean: bool, use_variance: bool, stages: Normalized
) -> tuple[F64, Any]:
    """Ez of a normalization by its own statistics, 0 in constant groups; and where no claim holds.

    Ez = u*[(m/2 + 6)*|z| + (m + 2)*A] + u^2*m^2*|mean|/s, A = mean|x - mean|/s.
    Without variance u*[|x - mean| + (m + 2)*mean|x - mean|] + u^2*m^2*|mean|; without mean the
    terms of the mean vanish. No claim where sums overflow, or where squares underflow so far that
    the variance is lost (D-MVN-21), whatever a scale or an activation makes of it.
    """
    form = compute_format(x.dtype)
    n = max(math.prod(x.shape[a] for a in over), 1)
    m, u, z = chain(n), form.roundoff, np.abs(stages.normal.hi)
    if not use_mean and not use_variance:
        return np.zeros(x.shape), np.zeros(x.shape, bool)
    s, mean = stages.deviation.hi, np.abs(stages.mean.hi)
    drift = np.zeros(())
    if use_mean:
        spread = sum_over(np.abs(stages.centered.hi), over) / n
        drift = u * (m + 2) * spread / s + u * u * m * m * mean / s
    own = u * (m / 2 + 6 if use_variance else 1.0) * z
    # x - mean may be subnormal, and so may be what merges make the mean of.
    error = own + drift + form.tiny * (1 + (1 + merges(n, form)) / s)
    overflow = np.zeros(())
    if use_mean:
        overflow = sum_over(np.abs(x.astype(np.float64)), over)
    if use_variance:
        squares = sum_over(np.square(stages.centered.hi), over)
        if use_mean:  # about the rounded mean
            squares = squares + n * np.square(m * u * mean)
        overflow = np.maximum(overflow, squares)
        lost = 2 * form.tiny / (s * s)
        error = np.where(lost > 0.25, np.inf, error + lost * z)
    finite = sum_over(np.isfinite(x.astype(np.float64)).astype(np.float64), over) == n
    error = np.where(finite, unless_overflow(error, overflow, form), error)
    if use_mean:
        error = np.where(_constant_groups(x, over, stages, form), 0.0, error)
    return error, np.isposinf(error) | (_mean_overflows(x, over, form) & use_mean)


def _mean_overflows(x: Array, over: Axes, form: FloatFormat) -> NDArray[np.bool_]:
    """Groups whose finite values may overflow in their sum, infinities beside them or not."""
    total = sum_over(sizes(x), over)
    return np.broadcast_to(total * (1 + 2.0**-10) >= form.largest, x.shape)


def _constant_groups(
    x: Array, over: Axes, stages: Normalized, form: FloatFormat
) -> NDArray[np.bool_]:
    """Groups of equal finite values whose sum does not overflow: exactly 0 (D-MVN-5)."""
    spread = sum_over((stages.centered.hi != 0).astype(np.float64), over)
    total = sum_over(np.abs(x.astype(np.float64)), over)
    return np.broadcast_to((spread == 0) & (total <= form.largest), x.shape)


def given_normal_error(
    x: Array, mean: Array | None, variance: Array | None, stages: Normalized
) -> tuple[F64, Any]:
    """Ez = 8u*|z| + u^2*|mean|*r of given statistics, and where no claim holds.

    That is where the mean, the root or z itself lies outside the compute type's range.
    """
    form = compute_format(x.dtype)
    if mean is None and variance is None:
        return np.zeros(x.shape), np.zeros(x.shape, bool)
    u, s = form.roundoff, stages.deviation.hi
    center, spread = np.abs(stages.mean.hi), np.abs(stages.centered.hi)
    error = 8 * u * np.abs(stages.normal.hi) + u * u * center / s + form.tiny * (1 + 2 / s)
    error = error + form.tiny * spread  # r may be subnormal
    error = unless_overflow(error, np.where(np.isfinite(center), center + spread, 0.0), form)
    error = unless_overflow(error, np.where(s > 0, 1 / s, 0.0), form)
    error = unless_overflow(error, sizes(stages.normal.hi), form)
    error = np.broadcast_to(np.where(np.isnan(error), 0.0, error), x.shape)
    return error, np.isposinf(error)


def statistics_error(
    x: Array, over: Axes, use_mean: bool, mean: F64, squares: F64
) -> tuple[F64, F64]:
    """The bounds of the mean and of the sum of squares about it, c = m.

    u*(c + 2)*mean|x - mean| + (u*c)^2*|mean|, and u*(c + 8)*M2 + N*((u*c)^2*|mean|)^2. A mean that
    is none is exactly 0. No claim where sums overflow; squares may underflow.
    """
    form = compute_format(x.dtype)
    n = max(math.prod(x.shape[a] for a in over), 1)
    c, u, center = chain(n), form.roundoff, sizes(mean)
    spread = sizes(x.astype(np.float64) - mean)
    drift = np.square(u * c) * center
    mean_error = u * (c + 2) * sum_over(spread, over) / n + drift
    mean_error = mean_error + form.tiny * merges(n, form)
    if form.precision == 53:  # the reference is rounded as well
        mean_error = mean_error + u * center
    mean_error = unless_overflow(mean_error, sum_over(sizes(x), over), form)
    error = u * (c + 8) * sizes(squares) + n * np.square(drift) + n * form.tiny
    around = sum_over(np.square(spread), over) + n * np.square(c * u * center)
    error = unless_overflow(error, around, form)
    if not use_mean:
        return np.zeros(mean.shape), error
    return mean_error, np.where(np.isposinf(mean_error), np.inf, error)


def expect_statistics(call: dict[str, Any]) -> Expected:
    """count exactly; mean and M2 as statistics_error says."""
    op, x = "normalization_statistics", call["x"]
    count, mean, squares = reference.normalization_statistics(**call)
    kind, over = np.dtype(call["dtype"]), tuple(group_axes(op, x.ndim, call["axes"]))
    mean_error, squares_error = statistics_error(x, over, call["use_mean"], mean, squares)
    return bounded(
        op,
        (kind, count, np.zeros(count.shape)),
        (kind, mean, mean_error),
        (kind, squares, squares_error),
    )


def expect_merge(call: dict[str, Any]) -> Expected:
    """mean: 4u*(|ma| + |mb|); M2: 8u*M2 + 4u*|d|*(|ma| + |mb|)*na*nb/n; a part of none: bits.

    u is that of the statistics' type. No claim where the square of d leaves its range.
    """
    op, values = "merge_statistics", reference.merge_statistics(**call)
    kind = call["a"][0].dtype
    form = FORMATS[kind.name]
    na, ma, _ = (part.astype(np.float64) for part in call["a"])
    nb, mb, _ = (part.astype(np.float64) for part in call["b"])
    reach, u = sizes(ma) + sizes(mb), form.roundoff
    weight = np.where(na + nb == 0, 0.0, na * nb / (na + nb))
    mean_error = unless_overflow(4 * u * reach + form.tiny, reach, form)
    apart = sizes(mb - ma)
    error = 8 * u * sizes(values[2]) + 4 * u * apart * reach * weight + form.tiny * (1 + weight)
    error = unless_overflow(error, np.maximum(apart * apart * (1 + weight), na * nb), form)
    copied = (na == 0) | (nb == 0)
    return bounded(
        op,
        (kind, values[0], np.zeros(na.shape)),
        (kind, values[1], np.where(copied, 0.0, mean_error)),
        (kind, values[2], np.where(copied, 0.0, error)),
    )
