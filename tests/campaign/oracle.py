"""What a call must return, written from the specification: gathers over the taps of all windows.

Sums are kept in extended precision where the data are float64. Bounds are those of the
specification's rule for each operator; normalization's, whose bound follows every stage, is that of
`cudml.bounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from values import INTEGERS

from cudml import bounds

FORMATS = bounds.FORMATS


@dataclass
class Want:
    """One output: its value, and "bits", "equal" (zeros, NaNs alike) or "bound" with E in float64.

    others are values as good as the first, where an activation jumps.
    """

    value: np.ndarray
    rule: str
    dtype: np.dtype[Any]
    bound: Any = None
    others: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


class Taps:
    """Every tap of every window of one geometry: `source` (T, O) within a plane, and `real`."""

    def __init__(self, shape: tuple[int, ...], how: dict[str, Any], outs: Any) -> None:
        rank, axes = len(shape), how.get("axes")
        if axes is None:
            axes = range(2, rank)
        self.pooled = [a % rank for a in np.atleast_1d(np.asarray(axes)).tolist()]
        self.batch = [a for a in range(rank) if a not in self.pooled]
        self.shape, m = shape, len(self.pooled)
        fields = ("window_size", "strides", "start_padding", "end_padding", "dilations")
        usual = {"strides": 1, "start_padding": 0, "end_padding": 0, "dilations": 1}
        columns = [np.broadcast_to(how.get(f, usual.get(f)), m).tolist() for f in fields]
        self.outs = list(outs)
        source, real = np.zeros((1,) * 2 * m, np.int64), np.ones((1,) * 2 * m, bool)
        self.inside = np.ones(())
        for i, (w, s, p0, p1, d) in enumerate(zip(*columns, strict=True)):
            n, o = shape[self.pooled[i]], self.outs[i]
            x = np.arange(w)[:, None] * d + (np.arange(o) * s - p0)
            wide = [1] * 2 * m
            wide[i], wide[m + i] = w, o
            source = source * n + np.clip(x, 0, n - 1).reshape(wide)
            real = real & ((x >= 0) & (x < n)).reshape(wide)
            self.inside = np.multiply.outer(self.inside, (x < n + p1).sum(0))
        self.source = source.reshape(-1, math.prod(self.outs))
        self.real = real.reshape(self.source.shape)
        self.count = self.real.sum(0)
        self.inside = self.inside.reshape(-1)

    def planes(self, x: np.ndarray) -> np.ndarray:
        """Batch x plane."""
        plane = math.prod(x.shape[a] for a in self.pooled)
        rows = math.prod(x.shape[a] for a in self.batch)
        return x.transpose(self.batch + self.pooled).reshape(rows, plane)

    def restored(self, planes: np.ndarray, sizes: Any) -> np.ndarray:
        """The inverse of planes, where the pooled dimensions have these sizes."""
        order = self.batch + self.pooled
        moved = planes.reshape([self.shape[a] for a in self.batch] + list(sizes))
        return moved.transpose(np.argsort(order))

    def winners(self, planes: np.ndarray) -> np.ndarray:
        """The source of each window's maximum; meaningless where a window has no real tap."""
        if planes.dtype.kind not in "iu":
            planes, lowest = planes.astype(np.float64), -np.inf
        else:
            lowest = np.iinfo(planes.dtype).min
        if len(planes) == 0:
            return np.zeros((0, self.source.shape[1]), np.int64)
        values = np.where(self.real, planes[:, self.source], lowest)
        tap = values.argmax(1)  # of equal ones the first, of NaNs the first
        best = np.take_along_axis(values, tap[:, None], 1)[:, 0]
        tap = np.where(best == lowest, self.real.argmax(0), tap)
        return np.take_along_axis(self.source, tap, 0)


def _chain(count: Any) -> np.ndarray:
    n = np.maximum(np.asarray(count, np.float64), 1.0)
    return np.minimum(n, 4096 + np.ceil(np.log2(n)))


def _wide(x: np.ndarray) -> np.ndarray:
    """As float64, or wider for float64, so that sums are exact enough to judge by."""
    is_wide = x.dtype in (np.float64, np.longdouble)
    return x.astype(np.longdouble if is_wide else np.float64)


def _sizes(x: np.ndarray) -> np.ndarray:
    size = np.abs(_wide(x))
    return np.where(np.isfinite(size), size, 0)


def _form(dtype: np.dtype[Any]) -> Any:
    return FORMATS["float64" if dtype == np.float64 else "float32"]


def _bounded(value: Any, error: Any, magnitude: Any, dtype: np.dtype[Any]) -> Want:
    """No claim where a sum of this magnitude may overflow in the compute type."""
    largest = np.longdouble(_form(dtype).largest)
    error = np.where(magnitude * (1 + 2.0**-10) >= largest, np.inf, error)
    value = np.asarray(value, np.float64)
    settled = np.isnan(error) | ~(np.isfinite(value) | np.isposinf(error))
    return Want(value, "bound", dtype, np.where(settled, 0.0, error).astype(np.float64))


def pooling(op: str, x: np.ndarray, how: dict[str, Any], outs: tuple[int, ...]) -> list[Want]:
    taps = Taps(x.shape, how, [outs[a] for a in _pooled(x.ndim, how)])
    if op == "max_pooling":
        return _max(taps, x, how)
    planes = taps.planes(_wide(x))
    if op == "lp_pooling":
        return [_lp(taps, planes, x.dtype, how["p"])]
    values = np.where(taps.real, planes[:, taps.source], 0)
    divisor = taps.inside if how["include_padding"] else taps.count
    total, size = values.sum(1), _sizes(values).sum(1)
    d = np.maximum(divisor, 1)
    error = (_chain(taps.count) + 1) * _form(x.dtype).roundoff * (size / d)
    mean = np.where(divisor == 0, 0, total / d)
    parts = [taps.restored(v, taps.outs) for v in (mean, error, size)]
    return [_bounded(*parts, x.dtype)]


def _pooled(rank: int, how: dict[str, Any]) -> list[int]:
    axes = how.get("axes")
    if axes is None:
        return list(range(2, rank))
    return [a % rank for a in ([axes] if isinstance(axes, int) else axes)]


def _max(taps: Taps, x: np.ndarray, how: dict[str, Any]) -> list[Want]:
    planes, empty = taps.planes(x), taps.count == 0
    source = taps.winners(planes)
    y = np.take_along_axis(planes, source, 1)
    lowest = np.iinfo(x.dtype).min if x.dtype.name in INTEGERS else -np.inf
    y[:, empty] = np.array(lowest).astype(x.dtype)
    y = taps.restored(y, taps.outs)
    if not how.get("return_indices"):
        return [Want(y, "equal", x.dtype)]
    kind = np.dtype(how.get("index_dtype", "uint32"))
    numbers = taps.planes(np.arange(x.size).reshape(x.shape))
    found = np.take_along_axis(numbers, source, 1).astype(kind)
    found[:, empty] = np.array(-1).astype(kind)
    return [Want(y, "bits", x.dtype), Want(taps.restored(found, taps.outs), "bits", kind)]


def _lp(taps: Taps, planes: np.ndarray, dtype: np.dtype[Any], p: int) -> Want:
    """M * (sum (|x|/M)^P)^(1/P), in extended precision throughout."""
    size = np.where(taps.real, np.abs(planes)[:, taps.source], 0).astype(np.longdouble)
    usable = np.where(np.isfinite(size), size, 0)
    largest = usable.max(1, initial=0)
    scale = np.where(largest == 0, 1, largest)
    total = ((usable / scale[:, None]) ** p).sum(1)
    norm = largest * np.where(largest == 0, 1, total) ** (np.longdouble(1) / p)
    norm = np.where(np.isinf(size).any(1), np.inf, norm)
    norm = np.where(np.isnan(size).any(1), np.nan, norm)
    n = np.maximum(taps.count, 1)
    extra: Any = 4.0
    if p > 2:
        extra = 12 + np.abs(np.log(np.where(norm > 0, norm, 1))) + np.log(n)
    q = 2 * (p - 1).bit_length() + 1
    error = norm * _form(dtype).roundoff * ((_chain(n) - 1 + q) / p + extra)
    return _bounded(
        taps.restored(norm, taps.outs), taps.restored(error, taps.outs), np.zeros(()), dtype
    )


def gradient(
    op: str, arrays: dict[str, np.ndarray], how: dict[str, Any], ins: tuple[int, ...]
) -> Want:
    """result[i] = sum of the shares of the windows that chose, or hold, element i."""
    grad = arrays["grad"]
    taps = Taps(ins, how, [grad.shape[a] for a in _pooled(grad.ndim, how)])
    shares, plane = taps.planes(_wide(grad)), math.prod(ins[a] for a in taps.pooled)
    rows, form = len(shares), _form(grad.dtype)
    if op == "max_pooling_grad":
        source = taps.winners(taps.planes(arrays["x"]))[:, taps.count > 0]
        at, share = source + np.arange(rows)[:, None] * plane, shares[:, taps.count > 0]
    else:
        divisor = np.maximum(taps.inside if how["include_padding"] else taps.count, 1)
        t, o = np.nonzero(taps.real)
        at = taps.source[t, o] + np.arange(rows)[:, None] * plane
        share = (shares / divisor)[:, o]
    at, share = at.reshape(-1), share.reshape(-1)
    count = np.bincount(at, minlength=rows * plane)
    total, size = (_added(at, v, rows * plane) for v in (share, _sizes(share)))
    if op == "max_pooling_grad":
        error = (_chain(count) - 1) * form.roundoff * size
    else:
        error = (_chain(count) + 1) * form.roundoff * size + _chain(count) * form.tiny * (size > 0)
    sizes = [ins[a] for a in taps.pooled]
    return _bounded(*(taps.restored(v, sizes) for v in (total, error, size)), grad.dtype)


def _added(at: np.ndarray, values: np.ndarray, length: int) -> np.ndarray:
    if values.dtype != np.longdouble:
        return np.bincount(at, values, length)
    total = np.zeros(length, np.longdouble)
    np.add.at(total, at, values)
    return total


def _source(mode: str, i: np.ndarray, n: int) -> np.ndarray:
    """The input's index at output index i (less the start padding)."""
    if mode in ("constant", "edge"):
        return np.clip(i, 0, n - 1)
    if mode == "wrap" or n == 1:
        return i % n
    period = 2 * n if mode == "symmetric" else 2 * n - 2
    r = i % period
    return np.where(r < n, r, period - (mode == "symmetric") - r)


def padding(x: np.ndarray, how: dict[str, Any]) -> Want:
    modes = how["mode"] if isinstance(how["mode"], tuple) else (how["mode"],) * x.ndim
    y, fill = x, None
    if "constant" in modes:
        fill = constant(how["value"], x.dtype)
    outside = []
    for a, (mode, p0, p1) in enumerate(
        zip(modes, how["start_padding"], how["end_padding"], strict=True)
    ):
        i, n = np.arange(-p0, x.shape[a] + p1), x.shape[a]
        if n:
            y = np.take(y, _source(mode, i, n), axis=a)
        outside.append((a, (i < 0) | (i >= n)) if mode == "constant" else (a, None))
    y = np.array(y)
    for a, where in outside:
        if where is not None:
            y[(slice(None),) * a + (where,)] = fill
    return Want(y, "bits", x.dtype)


def constant(value: Any, dtype: np.dtype[Any]) -> Any:
    """A float is truncated and saturated for integers; what floats are drawn from rounds once."""
    if dtype.name not in INTEGERS:
        with np.errstate(all="ignore"):
            return np.array(float(value)).astype(dtype)
    limits = np.iinfo(dtype)
    if isinstance(value, float):
        if math.isinf(value):
            value = limits.max if value > 0 else limits.min
        value = min(max(int(value), limits.min), limits.max)
    return dtype.type(value)


def normalization(arrays: dict[str, np.ndarray], how: dict[str, Any]) -> Want:
    """As `cudml.bounds` has it, less its claims where scale and bias meet the ends of a type."""
    name = "mean_variance_normalization"
    found = bounds.expected(name, **arrays, **how)
    bound, x = found.bounds[0], arrays["x"]
    if len(arrays) > 1 and not all(_is_ordinary(v) for v in arrays.values()):
        alone = bounds.expected(name, x, **{**how, "activation": None})
        scale, bias = (arrays.get(k, np.zeros((), x.dtype)) for k in ("scale", "bias"))
        bound = np.where(_is_open(alone, scale, bias), np.inf, bound)
    return Want(found.values[0], "bound", found.dtypes[0], bound, list(found.others))


def by_bounds(op: str, arrays: dict[str, Any], how: dict[str, Any]) -> list[Want]:
    """As `cudml.bounds` has it: an operator that no oracle stands here for."""
    found = bounds.expected(op, **arrays, **how)
    rows = zip(found.values, found.rules, found.dtypes, found.bounds, strict=True)
    wants = [Want(*row) for row in rows if row[0] is not None]
    if wants and found.values[0] is not None:
        wants[0].others = list(found.others)
    return wants


def _is_ordinary(x: np.ndarray) -> bool:
    return bool((np.abs(x.astype(np.float64)) < 1e15).all())


def _is_open(alone: Any, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Where nothing is claimed of x normalized, where scale times it and bias may overflow one by
    one, or an infinite scale meets what may be zero."""
    normal, error = alone.values[0], alone.bounds[0]
    factor, offset = np.abs(scale.astype(np.float64)), np.abs(bias.astype(np.float64))
    terms = factor * (np.abs(normal) + error) + np.where(np.isfinite(offset), offset, 0.0)
    overflows = np.isfinite(factor) & np.isfinite(normal)
    overflows &= ~(terms < _form(alone.dtypes[0]).largest)
    return np.isinf(error) | overflows | (np.isinf(factor) & (np.abs(normal) <= error))
