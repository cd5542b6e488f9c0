"""Gradients and statistics as a plain program computes them: in the compute type, term after term.

Sums are chains of at most 4096 additions. Each function takes the arguments of the operator; a
fault named in `faults` is planted, so that tests can show that it is noticed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cudml.reference.activations import resolve
from cudml.reference.padding import source_indices

LONGEST = 4096
Faults = tuple[str, ...]


def compute_type(x: np.ndarray) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def total(terms: np.ndarray, axes: tuple[int, ...], faults: Faults = ()) -> np.ndarray:
    """The sum over some axes, which keep size 1: chains of 4096 in row-major order, then theirs."""
    shape = [1 if a in axes else n for a, n in enumerate(terms.shape)]
    kept = [a for a in range(terms.ndim) if a not in axes]
    count = math.prod(terms.shape[a] for a in axes)
    rows = terms.transpose(*kept, *axes).reshape(math.prod(shape), count)
    longest = count if "one chain" in faults else LONGEST
    parts = [
        np.cumsum(rows[:, i : i + longest], axis=1, dtype=terms.dtype)[:, -1]
        for i in range(0, count, longest)
    ]
    sums = np.zeros(len(rows), terms.dtype)
    for i, part in enumerate(parts):
        sums = part if i == 0 else sums + part
    return sums.reshape(shape)


def lp_pooling_grad(x: Any, y: Any, grad: Any, *fields: Any, p: int, faults: Faults = ()) -> Any:
    """Window after window; rho by exp2((p - 1)*log2 r)."""
    kind = compute_type(x)
    window, strides, start, _, dilations = fields
    size, norm, given = x.astype(kind), y.astype(kind), grad.astype(kind)
    dx = np.zeros(x.shape, kind)
    for o in itertools.product(*map(range, grad.shape[2:])):
        for k in itertools.product(*map(range, window)):
            at = [o[i] * strides[i] - start[i] + k[i] * dilations[i] for i in range(len(window))]
            if all(0 <= c < n for c, n in zip(at, x.shape[2:], strict=True)):
                tap, root = size[(..., *at)], norm[(..., *o)]
                rho = np.ones_like(tap)
                if p > 1:
                    ratio = np.minimum(np.abs(tap) / root, kind(1))
                    power = p if "power" in faults else p - 1
                    rho = np.exp2(kind(power) * np.log2(ratio))
                term = given[(..., *o)] * np.sign(tap) * rho
                if "float16" in faults:
                    term = term.astype(np.float16).astype(kind)
                dx[(..., *at)] += np.where((root != 0) | (p == 1), term, kind(0))
    return dx.astype(x.dtype)


def padding_grad(
    grad: Any, sizes: Any, start: Any, end: Any, *, mode: str, faults: Faults = ()
) -> Any:
    """Dimension after dimension, each element's terms in ascending order."""
    part = grad.astype(compute_type(grad))
    for d, n in enumerate(sizes):
        source, outside = source_indices(mode, n, start[d], end[d])
        pieces = []
        for i in range(n):
            terms = part.take(np.flatnonzero((source == i) & ~outside), axis=d)
            pieces.append(total(terms, (d,), faults))
        part = np.concatenate(pieces, axis=d)
    return part.astype(grad.dtype)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + e), e / (1 + e))


def _gelu(v: np.ndarray) -> np.ndarray:
    kind = v.dtype.type
    density = np.exp(kind(-0.5) * v * v) * kind(1 / math.sqrt(2 * math.pi))
    return kind(0.5) * _erfc(-v / kind(math.sqrt(2))) + np.where(density == 0, 0, v * density)


def _erfc(v: np.ndarray) -> np.ndarray:
    return np.frompyfunc(math.erfc, 1, 1)(v).astype(v.dtype)


def _swish(v: np.ndarray, s: Any) -> np.ndarray:
    t = _sigmoid(s * v)
    return t + np.where(_bell(t) == 0, 0, s * v * _bell(t))


def _hard(v: np.ndarray, a: Any, b: Any, inside: np.ndarray, above: Any) -> np.ndarray:
    q = a * v + b
    return np.where(q <= 0, 0, np.where(q < 1, inside, above))


def _bell(t: np.ndarray) -> np.ndarray:
    return t * (1 - t)


SLOPES: dict[str, Callable[..., Any]] = {
    "identity": lambda v: np.ones_like(v),
    "linear": lambda v, a, b: np.full_like(v, a),
    "relu": lambda v: v > 0,
    "leaky_relu": lambda v, a: np.where(v > 0, 1, a),
    "thresholded_relu": lambda v, a: v > a,
    "elu": lambda v, a: np.where(v > 0, 1, a * np.exp(np.minimum(v, 0))),
    "celu": lambda v, a: np.where(v > 0, 1, np.exp(np.minimum(v, 0) / a)),
    "scaled_elu": lambda v, a, g: np.where(v > 0, g, g * a * np.exp(np.minimum(v, 0))),
    "sigmoid": lambda v: _bell(_sigmoid(v)),
    "hard_sigmoid": lambda v, a, b: _hard(v, a, b, a, 0),
    "tanh": lambda v: 1 - np.tanh(v) * np.tanh(v),
    "scaled_tanh": lambda v, a, b: a * b * (1 - np.tanh(b * v) * np.tanh(b * v)),
    "softplus": lambda v, s: _sigmoid(s * v),
    "parametric_softplus": lambda v, a, b: a * b * _sigmoid(b * v),
    "softsign": lambda v: 1 / ((1 + np.abs(v)) * (1 + np.abs(v))),
    "shrink": lambda v, bias, t: (v > t) | (v < -t),
    "gelu": _gelu,
    "swish": _swish,
    "hard_swish": lambda v, a, b: _hard(v, a, b, 2 * a * v + b, 1),
}


BLOCKING = ("relu", "thresholded_relu", "hard_sigmoid", "shrink", "hard_swish")


def slope(v: np.ndarray, activation: Any, like: np.ndarray) -> np.ndarray:
    """f'(v) in v's type."""
    name, parameters = resolve(activation, like.dtype)
    given = [v.dtype.type(p) for p in parameters]
    values = np.asarray(SLOPES[name](v, *given)).astype(v.dtype)
    return values if name in ("identity", "linear") else np.where(np.isnan(v), v, values)


def own(x: np.ndarray, axes: tuple[int, ...], use_mean: bool, faults: Faults = ()) -> Any:
    """K, delta, the sum of squares about K + delta, and x - K - delta."""
    kind = compute_type(x)
    n = kind(math.prod(x.shape[a] for a in axes))
    values = x.astype(kind)
    center = total(values if use_mean else np.zeros_like(values), axes, faults) / n
    d = values - center
    delta = total(d, axes, faults) / n if use_mean else 0 * center
    delta = np.where(np.isfinite(center), delta, kind(0))
    if "no low part" in faults:
        delta = 0 * delta
    squares = np.maximum(total(d * d, axes, faults) - n * (delta * delta), kind(0))
    return center, delta, squares, d - delta


def given(x: np.ndarray, mean: Any, variance: Any, epsilon: float, faults: Faults = ()) -> Any:
    """z and r by given statistics, the mean split in two."""
    kind = compute_type(x)
    d, r = x.astype(kind), kind(1)
    if mean is not None:
        center = mean.astype(kind)
        low = (mean.astype(np.float64) - center).astype(kind)
        d = (d - center) - (0 * low if "no low part" in faults else low)
    if variance is not None:
        wide = np.result_type(kind, variance.dtype)
        r = (1 / np.sqrt(variance.astype(wide) + wide.type(kind(epsilon)))).astype(kind)
    return d * r, r


def statistics(x: Any, *, axes: Any, use_mean: bool, dtype: str, faults: Faults = ()) -> Any:
    """count, K + delta, M2."""
    center, delta, squares, _ = own(x, axes, use_mean, faults)
    count = np.full(center.shape, math.prod(x.shape[a] for a in axes), dtype)
    mean = (center.astype(np.float64) + delta).astype(dtype)
    return count, mean, squares.astype(dtype)


def merge(a: Any, b: Any, faults: Faults = ()) -> Any:
    """In the statistics' own type."""
    (na, ma, sa), (nb, mb, sb) = a, b
    n, d = na + nb, mb - ma
    with np.errstate(invalid="ignore", divide="ignore"):
        square = d if "not squared" in faults else d * d
        both = (n, ma + d * (nb / n), sa + sb + square * (na * nb / n))
    return tuple(
        np.where(nb == 0, u, np.where(na == 0, v, w)) for u, v, w in zip(a, b, both, strict=True)
    )


def below(x: Any, grad: Any, z: Any, scale: Any, bias: Any, activation: Any) -> Any:
    """h and w."""
    kind = compute_type(x)
    s = kind(1) if scale is None else scale.astype(kind)
    b = kind(0) if bias is None else bias.astype(kind)
    factor = slope(s * z + b, activation, x)
    h = grad.astype(kind) * factor
    if resolve(activation, x.dtype)[0] in BLOCKING:
        h = np.where(factor == 0, kind(0), h)
    return h, h * s


def gradients(
    x: Any, grad: Any, scale: Any, bias: Any, z: Any, r: Any, a: Any, b: Any, activation: Any,
    faults: Faults,
) -> Any:  # fmt: skip
    """dx, dscale and dbias; a and b are the means of w and w*z, None where left out."""
    h, w = below(x, grad, z, scale, bias, activation)
    rest = w if a is None else w - a
    rest = rest if b is None else rest - z * b
    results = [(r * rest).astype(x.dtype)]
    for terms, parameter in ((h * z, scale), (h, bias)):
        if parameter is None:
            results.append(None)
            continue
        sums = total(terms, tuple(i for i, n in enumerate(parameter.shape) if n == 1), faults)
        if "float16" in faults:
            sums = sums.astype(np.float16)
        results.append(sums.astype(parameter.dtype))
    return tuple(results)


def mvn_grad(
    x: Any, grad: Any, scale: Any, bias: Any, *, axes: Any, use_mean: bool, use_variance: bool,
    epsilon: float, activation: Any, mean: Any = None, variance: Any = None, faults: Faults = (),
) -> Any:  # fmt: skip
    """By own statistics, or by given ones."""
    kind = compute_type(x)
    n = kind(math.prod(x.shape[a] for a in axes))
    if mean is not None or variance is not None:
        z, r = given(x, mean, variance, epsilon, faults)
    else:
        _, _, squares, d = own(x, axes, use_mean, faults)
        r = 1 / np.sqrt(squares / n + kind(epsilon)) if use_variance else kind(1)
        z = d * r
    _, w = below(x, grad, z, scale, bias, activation)
    a = total(w, axes, faults) / n if use_mean and "no mean of w" not in faults else None
    about = x.astype(kind) if "mean of w*x" in faults else z
    b = total(w * about, axes, faults) / n if use_variance else None
    return gradients(x, grad, scale, bias, z, r, a, b, activation, faults)


def grad_sums(
    x: Any, grad: Any, mean: Any, variance: Any, scale: Any, bias: Any, *, axes: Any,
    epsilon: float, activation: Any, dtype: str, faults: Faults = (),
) -> Any:  # fmt: skip
    """The sums of w and of w*z."""
    z, _ = given(x, mean, variance, epsilon, faults)
    _, w = below(x, grad, z, scale, bias, activation)
    return total(w, axes, faults).astype(dtype), total(w * z, axes, faults).astype(dtype)


def normalize_grad(
    x: Any, grad: Any, mean: Any, variance: Any, scale: Any, bias: Any, *, count: Any, sums: Any,
    epsilon: float, activation: Any, faults: Faults = (),
) -> Any:  # fmt: skip
    """By given statistics and sums."""
    kind = compute_type(x)
    z, r = given(x, mean, variance, epsilon, faults)
    a = b = None
    if sums is not None:
        a, b = ((s.astype(np.float64) / count).astype(kind) for s in sums)
        a = None if mean is None else a
        b = None if variance is None else b
    return gradients(x, grad, scale, bias, z, r, a, b, activation, faults)
