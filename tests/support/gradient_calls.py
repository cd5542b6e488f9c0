"""Random calls of the gradients, and verdicts on their results."""

from __future__ import annotations

from typing import Any

import numpy as np

import harness
from cudml import bounds, reference

MVN_GRAD = "mean_variance_normalization_grad"
GIVEN = {
    "linear": {"alpha": -1.5, "beta": 0.5},
    "softplus": {"steepness": 2.0},
    "elu": {"alpha": 2},
}
ACTIVATIONS = [None, *((name, GIVEN.get(name, {})) for name in reference.ACTIVATIONS)]


def values(rng: np.random.Generator, shape: Any, dtype: str, spread: int = 2) -> np.ndarray:
    """Normal values over some octaves."""
    draws = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    return np.asarray(draws).astype(harness.dtype_of(dtype))


def inside(got: Any, op: str, *args: Any, **kwargs: Any) -> float:
    """The share of the bound that a result uses; it passes."""
    verdict = bounds.compare(got, bounds.expected(op, *args, **kwargs))
    assert verdict.ok, (verdict.message, kwargs)
    return verdict.largest_bound_share


def outside(got: Any, op: str, *args: Any, **kwargs: Any) -> None:
    assert not bounds.compare(got, bounds.expected(op, *args, **kwargs)).ok


def windows(rng: np.random.Generator) -> tuple[list[int], tuple[list[int], ...]]:
    """Sizes and geometry of rank 3 or 4, different from axis to axis."""
    m = int(rng.integers(1, 3))
    while True:
        sizes, window, strides, dilations = (rng.integers(1, n, m) for n in (7, 4, 4, 3))
        start, end = rng.integers(0, 3, (2, m))
        if (1 + (window - 1) * dilations <= sizes + start + end).all():
            fields = (window, strides, start, end, dilations)
            return sizes.tolist(), tuple(f.tolist() for f in fields)


def lp_call(seed: int, dtype: str, p: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([seed, p % 1000])
    sizes, fields = windows(rng)
    x = values(rng, (3, 5, *sizes), dtype)
    x[rng.random(x.shape) < 0.1] = 0
    narrow = x.dtype.itemsize == 2 and seed % 2
    y = reference.lp_pooling(x, *fields, p=p).astype("f4" if narrow else x.dtype)
    return x, y, values(rng, y.shape, dtype), *fields


SCALES = [(1, 1, 7), (1, 1, 1), (4, 1, 7), (4, 6, 1), (1, 6, 1)]


def norm_call(seed: int, dtype: str, activation: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """x, grad, scale, bias; and the rest of a call, the flags of which take turns."""
    rng = np.random.default_rng([seed, 11])
    shape = (4, 6, 7)
    parameter = "float32" if seed % 3 and dtype != "float64" else dtype
    x = values(rng, shape, dtype) + [0, 0, 3, 40][seed % 4]
    x = x.astype(harness.dtype_of(dtype))
    scale, bias = (values(rng, SCALES[(seed + i) % 5], parameter, 1) for i in (0, 2))
    scale = None if seed % 7 == 3 else scale
    bias = None if seed % 5 == 4 else bias
    axes = [(2,), (1, 2), (0, 2), (0, 1, 2), (1,)][seed % 5]
    more = {
        "axes": axes, "use_mean": seed % 6 != 5, "use_variance": seed % 4 != 1,
        "epsilon": 1e-5, "activation": activation,
    }  # fmt: skip
    return (x, values(rng, shape, dtype), scale, bias), more
