"""The bound of each element of a result, computed from the data, operator by operator.

E covers the arithmetic before the last rounding, whose half ulp `compare` adds. With u
the unit roundoff of the compute type (FLOAT64 for FLOAT64, else FLOAT32) and n terms in a sum, the
longest chain of additions is m = min(n, 4096 + ceil(log2 n)).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import reference
from ..reference.geometry import Windows, pooled_axes
from ..reference.normalization import Normalized, group_axes, normalize
from ..reference.numbers import FloatFormat, compute_format
from .activations import activation_bound, other_side
from .comparison import Expected

Array = NDArray[Any]
F64 = NDArray[np.float64]


def expected(op: str, *args: Any, **kwargs: Any) -> Expected:
    """The reference result of a canonical call with its bounds.

    Parameters
    ----------
    op : str
        The operator's name.
    *args, **kwargs
        Its arguments; `out` and `stream` are ignored.

    Returns
    -------
    Expected
        Values, bounds and how to compare them, for each output.

    Raises
    ------
    AttributeError
        There is no such operator.
    TypeError, ValueError
        The operator has no such argument, or refuses the call.

    Examples
    --------
    >>> import numpy as np
    >>> from cudml import bounds
    >>> bounds.expected("average_pooling", np.ones(3, np.float32), 2, axes=0).values[0].tolist()
    [1.0, 1.0]
    """
    kwargs = {k: v for k, v in kwargs.items() if k not in ("out", "stream")}
    bound = inspect.signature(getattr(reference, op)).bind(*args, **kwargs)
    bound.apply_defaults()
    with np.errstate(all="ignore"):
        return _EXPECT[op](dict(bound.arguments))


def _exact(op: str, values: list[Array], rules: list[str]) -> Expected:
    bounds = [np.zeros(v.shape) if i == 0 else None for i, v in enumerate(values)]
    return Expected(op, [v.dtype for v in values], values, bounds, rules, [])


def _bounded(op: str, dtype: np.dtype[Any], value: F64, error: F64) -> Expected:
    settled = np.isnan(error) | ~(np.isfinite(value) | np.isposinf(error))
    error = np.where(settled, 0.0, error)
    return Expected(op, [dtype], [value], [error], ["bound"], [])


def _expect_max_pooling(call: dict[str, Any]) -> Expected:
    result = reference.max_pooling(**call)
    if isinstance(result, tuple):
        return _exact("max_pooling", list(result), ["bits", "bits"])
    return _exact("max_pooling", [result], ["equal"])


def _expect_padding(call: dict[str, Any]) -> Expected:
    return _exact("padding", [reference.padding(**call)], ["bits"])


def chain(count: Any) -> F64:
    """m, the longest chain of additions in a sum of `count` terms."""
    n = np.maximum(np.asarray(count, np.float64), 1.0)
    return np.minimum(n, 4096.0 + np.ceil(np.log2(n)))


def _sizes(x: Array) -> F64:
    """|x| in float64, 0 for NaN and infinities, whose effect on a result is exact."""
    size = np.abs(x.astype(np.float64))
    return np.where(np.isfinite(size), size, 0.0)


def _windows(call: dict[str, Any], shape: tuple[int, ...], outputs: Any) -> Windows:
    fields = ("window_size", "strides", "start_padding", "end_padding", "dilations", "axes")
    return Windows(shape, **{f: call[f] for f in fields}, output_sizes=outputs)


def _per_plane(windows: Windows, counts: Array, shape: tuple[int, ...]) -> F64:
    """Counts of one plane repeated for the whole batch, in the shape of the array."""
    batch = math.prod(windows.shape[a] for a in windows.batch)
    return windows.restore(np.broadcast_to(counts, (batch, len(counts))), shape).astype(np.float64)


def _unless_overflow(error: F64, magnitude: F64, form: FloatFormat) -> F64:
    """No claim where a sum of this magnitude may leave the compute type's range."""
    return np.where(magnitude * (1 + 2.0**-10) >= form.largest, np.inf, error)


def _expect_average_pooling(call: dict[str, Any]) -> Expected:
    """E = (m + 1)*u*sum|x|/d."""
    x, value = call["x"], reference.average_pooling(**call)
    windows, form = _windows(call, x.shape, call["output_sizes"]), compute_format(x.dtype)
    counts = windows.inside_count() if call["include_padding"] else windows.real_count()
    real = _per_plane(windows, windows.real_count(), windows.output_shape)
    magnitude = reference.average_pooling(**{**call, "x": _sizes(x)})
    error = (chain(real) + 1) * form.roundoff * magnitude
    total = magnitude * np.maximum(_per_plane(windows, counts, windows.output_shape), 1)
    error = _unless_overflow(error, total, form)
    return _bounded("average_pooling", x.dtype, value, error)


def _expect_average_pooling_grad(call: dict[str, Any]) -> Expected:
    """E = (m + 1)*u*sum|g|/d over the w windows that hold the element, m the chain of w terms."""
    value = reference.average_pooling_grad(**call)
    grad, shape = call["grad"], tuple(call["input_sizes"])
    sizes = [grad.shape[a] for a in pooled_axes("average_pooling_grad", len(shape), call["axes"])]
    windows = _windows(call, shape, sizes)
    form = compute_format(grad.dtype)
    holders = chain(_per_plane(windows, windows.coverage(), shape))
    magnitude = reference.average_pooling_grad(**{**call, "grad": _sizes(grad)})
    error = _unless_overflow((holders + 1) * form.roundoff * magnitude, magnitude, form)
    error = error + holders * form.tiny * (magnitude > 0)
    return _bounded("average_pooling_grad", grad.dtype, value, error)


def _expect_max_pooling_grad(call: dict[str, Any]) -> Expected:
    """E = (m - 1)*u*sum|g| over the windows that chose the element."""
    grad, value = call["grad"], reference.max_pooling_grad(**call)
    form = compute_format(grad.dtype)
    wide = {**call, "x": call["x"].astype(np.float64)}
    chosen = chain(reference.max_pooling_grad(**{**wide, "grad": np.ones(grad.shape)}))
    magnitude = reference.max_pooling_grad(**{**wide, "grad": _sizes(grad)})
    error = _unless_overflow((chosen - 1) * form.roundoff * magnitude, magnitude, form)
    return _bounded("max_pooling_grad", grad.dtype, value, error)


def _expect_lp_pooling(call: dict[str, Any]) -> Expected:
    """E = |ref|*u*((m - 1 + q)/P + r + L), q = 2*ceil(log2 P) + 1.

    P <= 2: r = 4, L = 0; else r = 12, L = |ln ref| + ln n, for the root of a large number.
    """
    value = reference.lp_pooling(**call)
    x, p = call["x"], int(call["p"])
    windows, form = _windows(call, x.shape, call["output_sizes"]), compute_format(x.dtype)
    n = np.maximum(_per_plane(windows, windows.real_count(), windows.output_shape), 1)
    q = 2 * (p - 1).bit_length() + 1
    extra: Any = 4.0
    if p > 2:
        extra = 12 + np.abs(np.log(np.where(value > 0, value, 1.0))) + np.log(n)
    error = value * form.roundoff * ((chain(n) - 1 + q) / p + extra)
    return _bounded("lp_pooling", x.dtype, value, error)


def _expect_normalization(call: dict[str, Any]) -> Expected:
    stages = normalize(**call)
    x, scale, bias = call["x"], call["scale"], call["bias"]
    form = compute_format(x.dtype)
    error = _normal_error(call, stages, form)
    constant = _constant_groups(call, stages) if call["use_mean"] else np.zeros(x.shape, bool)
    error = np.where(constant, 0.0, error)
    # Whatever a scale or an activation makes of them, infinite or NaN as they may be (D-MVN-21).
    is_free = np.isposinf(error) | _mean_overflows(call, form)
    if scale is not None or bias is not None:
        factor = np.abs(scale.astype(np.float64)) if scale is not None else np.ones(())
        offset = np.abs(bias.astype(np.float64)) if bias is not None else np.zeros(())
        terms = np.abs(factor * stages.normal) + offset
        rounding = np.where(constant, 0.0, 3 * form.roundoff * terms + form.tiny)
        error = _unless_overflow(factor * error + rounding, terms, form)
    error = np.where(np.isnan(error), 0.0, np.broadcast_to(error, x.shape))
    y_error = np.where(np.isfinite(stages.affine), error, 0.0)
    name, parameters = reference.activations.resolve(call["activation"], x.dtype)
    is_stored = x.dtype == np.float32  # what float32 computes is rounded once more in other types
    error = activation_bound(stages.affine, y_error, name, parameters, form, is_stored=is_stored)
    error = np.where(is_free, np.inf, error)
    result = _bounded("mean_variance_normalization", x.dtype, stages.output, error)
    result.others.extend(other_side(stages.affine, y_error, name, parameters))
    return result


def _mean_overflows(call: dict[str, Any], form: FloatFormat) -> NDArray[np.bool_]:
    """Groups whose finite values may overflow in their sum, infinities beside them or not."""
    total = _group_sum(call, _sizes(call["x"])) if call["use_mean"] else np.zeros(())
    return np.broadcast_to(total * (1 + 2.0**-10) >= form.largest, call["x"].shape)


def _group_sum(call: dict[str, Any], values: F64) -> F64:
    over = tuple(group_axes(values.ndim, call["axes"]))
    return np.asarray(np.sum(values, axis=over, keepdims=True)) if over else values


def _normal_error(call: dict[str, Any], stages: Normalized, form: FloatFormat) -> F64:
    """Ez = u*[(m/2 + 6)*|z| + (m + 2)*A] + u^2*m^2*|mean|/s, A = mean|x - mean|/s.

    Without variance u*[|x - mean| + (m + 2)*mean|x - mean|] + u^2*m^2*|mean|; without mean the
    terms of the mean vanish. No claim where sums overflow, or where squares underflow so far that
    the variance is lost (D-MVN-21).
    """
    n, m, u = max(stages.count, 1), chain(stages.count), form.roundoff
    use_mean, use_variance = call["use_mean"], call["use_variance"]
    if not use_mean and not use_variance:
        return np.zeros(stages.normal.shape)
    s = stages.deviation if use_variance else np.ones(())
    drift = np.zeros(())
    if use_mean:
        spread = _group_sum(call, np.abs(stages.centered)) / n
        drift = u * (m + 2) * spread / s + u * u * m * m * np.abs(stages.mean) / s
    own = u * (m / 2 + 6 if use_variance else 1.0) * np.abs(stages.normal)
    error = own + drift + form.tiny * (1 + 2 / s)  # x - mean may be subnormal
    overflow = np.zeros(())
    if use_mean:
        overflow = _group_sum(call, np.abs(call["x"].astype(np.float64)))
    if use_variance:
        squares = _group_sum(call, stages.centered * stages.centered)
        if use_mean:  # about the rounded mean
            squares = squares + n * np.square(m * u * stages.mean)
        overflow = np.maximum(overflow, squares)
        lost = 2 * form.tiny / (s * s)
        error = np.where(lost > 0.25, np.inf, error + lost * np.abs(stages.normal))
    finite = _group_sum(call, np.isfinite(call["x"].astype(np.float64)).astype(np.float64)) == n
    return np.where(finite, _unless_overflow(error, overflow, form), error)


def _constant_groups(call: dict[str, Any], stages: Normalized) -> NDArray[np.bool_]:
    """Groups of equal finite values whose sum does not overflow: exactly 0 (D-MVN-5)."""
    x = call["x"].astype(np.float64)
    largest = compute_format(call["x"].dtype).largest
    spread = _group_sum(call, (stages.centered != 0).astype(np.float64))
    total = _group_sum(call, np.abs(x))
    return np.broadcast_to((spread == 0) & (total <= largest), x.shape)


_EXPECT: dict[str, Callable[[dict[str, Any]], Expected]] = {
    "max_pooling": _expect_max_pooling,
    "max_pooling_grad": _expect_max_pooling_grad,
    "average_pooling": _expect_average_pooling,
    "average_pooling_grad": _expect_average_pooling_grad,
    "lp_pooling": _expect_lp_pooling,
    "padding": _expect_padding,
    "mean_variance_normalization": _expect_normalization,
}
