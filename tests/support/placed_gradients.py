"""Gradients of normalization wanted in part, and written wherever their result begins."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

import cudml
from harness import data
from layouts import dtype_of
from mvn_support import bits

gradient: Any = cudml.mean_variance_normalization_grad


def arrays_of_gradient(
    shape: tuple[int, ...], sizes: tuple[int, ...], dtype: str
) -> dict[str, np.ndarray]:
    """x and grad of this shape, scale and bias of these sizes: other numbers in each."""
    all_sizes = {"x": shape, "grad": shape, "scale": sizes, "bias": sizes}
    return {name: data(s, dtype, k) for k, (name, s) in enumerate(all_sizes.items())}


def check_alone(given: dict[str, Any], how: dict[str, Any]) -> list[Any]:
    """Each result has the same bits alone, or beside one other, as beside both. Returns all."""
    names = ("x", "scale", "bias")
    every = gradient(**given, **how)
    for k in (1, 2):
        for some in itertools.combinations(names, k):
            got = gradient(**given, **how, outputs=some)
            for name, one, other in zip(names, got, every, strict=True):
                assert (one is None) == (name not in some)
                assert one is None or bits(one).tolist() == bits(other).tolist()
    return list(every)


def say_digests(dtypes: Iterable[str], problems: Iterable[Any], offsets: Iterable[int]) -> None:
    """Prints a line for each type, problem (shape of x, axes, shape of scale) and place of dx.

    dx begins `offsets` elements after the beginning of a cache line; what is around it stays.
    """
    rng = np.random.default_rng(3)
    activations = (None, "relu", "swish", "elu")
    for dtype, (shape, axes, sizes) in itertools.product(dtypes, problems):
        kind = dtype_of(dtype)
        x, grad = (rng.standard_normal(shape).astype(kind) for _ in range(2))
        scale = rng.standard_normal(sizes).astype(kind)
        for offset, activation in itertools.product(offsets, activations):
            room = np.full(x.size + 96, 7, kind)
            at = (-room.ctypes.data % 64) // x.itemsize + offset
            dx = room[at : at + x.size].reshape(shape)
            sums = gradient(x, grad, scale, scale, axes=axes, activation=activation,
                            out=(dx, None, None))  # fmt: skip
            assert (room[:at] == 7).all() and (room[at + x.size :] == 7).all()
            parts = b"".join(v.tobytes() for v in (dx, *sums[1:]))
            print(dtype, shape, activation, hashlib.sha256(parts).hexdigest())
