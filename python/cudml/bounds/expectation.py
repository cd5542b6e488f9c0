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
from .._errors import shown
from ..reference.geometry import Windows, pooled_axes
from ..reference.numbers import compute_format
from . import gradients, normalization, normalization_grad
from .comparison import Expected
from .sums import bounded, chain, exact, sizes, unless_overflow

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
    TypeError, ValueError
        There is no such operator, it has no such argument, or it refuses the call.

    Examples
    --------
    >>> import numpy as np
    >>> from cudml import bounds
    >>> bounds.expected("average_pooling", np.ones(3, np.float32), 2, axes=0).values[0].tolist()
    [1.0, 1.0]
    """
    if not isinstance(op, str) or op not in _EXPECT:
        kind = ValueError if isinstance(op, str) else TypeError
        raise kind(f"expected: op is {shown(op)}; it must be one of {', '.join(sorted(_EXPECT))}")
    kwargs = {k: v for k, v in kwargs.items() if k not in ("out", "stream")}
    try:
        bound = inspect.signature(getattr(reference, op)).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{op}: {error}") from None
    bound.apply_defaults()
    with np.errstate(all="ignore"):
        return _EXPECT[op](dict(bound.arguments))


def _expect_max_pooling(call: dict[str, Any]) -> Expected:
    result = reference.max_pooling(**call)
    if isinstance(result, tuple):
        return exact("max_pooling", list(result), ["bits", "bits"])
    return exact("max_pooling", [result], ["equal"])


def _expect_padding(call: dict[str, Any]) -> Expected:
    return exact("padding", [reference.padding(**call)], ["bits"])


def _windows(call: dict[str, Any], shape: tuple[int, ...], outputs: Any) -> Windows:
    fields = ("window_size", "strides", "start_padding", "end_padding", "dilations", "axes")
    return Windows(shape, **{f: call[f] for f in fields}, output_sizes=outputs)


def _per_plane(windows: Windows, counts: Array, shape: tuple[int, ...]) -> F64:
    """Counts of one plane repeated for the whole batch, in the shape of the array."""
    batch = math.prod(windows.shape[a] for a in windows.batch)
    return windows.restore(np.broadcast_to(counts, (batch, len(counts))), shape).astype(np.float64)


def _expect_average_pooling(call: dict[str, Any]) -> Expected:
    """E = (m + 1)*u*sum|x|/d."""
    x, value = call["x"], reference.average_pooling(**call)
    windows, form = _windows(call, x.shape, call["output_sizes"]), compute_format(x.dtype)
    counts = windows.inside_count() if call["include_padding"] else windows.real_count()
    real = _per_plane(windows, windows.real_count(), windows.output_shape)
    magnitude = reference.average_pooling(**{**call, "x": sizes(x)})
    error = (chain(real) + 1) * form.roundoff * magnitude
    total = magnitude * np.maximum(_per_plane(windows, counts, windows.output_shape), 1)
    error = unless_overflow(error, total, form)
    return bounded("average_pooling", (x.dtype, value, error))


def _expect_average_pooling_grad(call: dict[str, Any]) -> Expected:
    """E = (m + 1)*u*sum|g|/d over the w windows that hold the element, m the chain of w terms."""
    value = reference.average_pooling_grad(**call)
    grad, shape = call["grad"], tuple(call["input_sizes"])
    outputs = [grad.shape[a] for a in pooled_axes("average_pooling_grad", len(shape), call["axes"])]
    windows = _windows(call, shape, outputs)
    form = compute_format(grad.dtype)
    holders = chain(_per_plane(windows, windows.coverage(), shape))
    magnitude = reference.average_pooling_grad(**{**call, "grad": sizes(grad)})
    error = unless_overflow((holders + 1) * form.roundoff * magnitude, magnitude, form)
    error = error + holders * form.tiny * (magnitude > 0)
    return bounded("average_pooling_grad", (grad.dtype, value, error))


def _expect_max_pooling_grad(call: dict[str, Any]) -> Expected:
    """E = (m - 1)*u*sum|g| over the windows that chose the element."""
    grad, value = call["grad"], reference.max_pooling_grad(**call)
    form = compute_format(grad.dtype)
    wide = {**call, "x": call["x"].astype(np.float64)}
    chosen = chain(reference.max_pooling_grad(**{**wide, "grad": np.ones(grad.shape)}))
    magnitude = reference.max_pooling_grad(**{**wide, "grad": sizes(grad)})
    error = unless_overflow((chosen - 1) * form.roundoff * magnitude, magnitude, form)
    return bounded("max_pooling_grad", (grad.dtype, value, error))


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
    return bounded("lp_pooling", (x.dtype, value, error))


_EXPECT: dict[str, Callable[[dict[str, Any]], Expected]] = {
    "max_pooling": _expect_max_pooling,
    "max_pooling_grad": _expect_max_pooling_grad,
    "average_pooling": _expect_average_pooling,
    "average_pooling_grad": _expect_average_pooling_grad,
    "lp_pooling": _expect_lp_pooling,
    "padding": _expect_padding,
    "mean_variance_normalization": normalization.expect_normalization,
    "lp_pooling_grad": gradients.expect_lp_pooling_grad,
    "padding_grad": gradients.expect_padding_grad,
    "max_unpooling": gradients.expect_max_unpooling,
    "normalization_statistics": normalization.expect_statistics,
    "merge_statistics": normalization.expect_merge,
    "normalize": normalization.expect_normalize,
    "mean_variance_normalization_grad": normalization_grad.expect_normalization_grad,
    "normalize_grad_sums": normalization_grad.expect_grad_sums,
    "normalize_grad": normalization_grad.expect_normalize_grad,
}
