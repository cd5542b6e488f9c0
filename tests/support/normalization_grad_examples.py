"""The worked examples of the gradients of normalization: name, operator, arguments, results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Call = tuple[str, str, tuple[Any, ...], dict[str, Any], tuple[Any, ...], "int | None"]


def array(values: Any) -> np.ndarray | None:
    return None if values is None else np.array(values, np.float64)


def _whole(name: str, x: Any, grad: Any, *expected: Any, **kwargs: Any) -> Call:
    op, digits = "mean_variance_normalization_grad", kwargs.pop("digits", None)
    given = {k: kwargs.pop(k, None) for k in ("scale", "bias")}
    for k in ("mean", "variance"):
        if k in kwargs:
            kwargs[k] = array(kwargs[k])
    args = tuple(array(v) for v in (x, grad, *given.values()))
    return name, op, args, kwargs, tuple(map(array, expected)), digits


def _wholes() -> Iterator[Call]:
    x = [1, 2, 3, 4]
    flags = {
        "VG1": ([0.268330, -0.357768, -0.089443, 0.178882], {}),
        "VG1 mean only": ([0.75, -0.25, -0.25, -0.25], {"use_variance": False}),
        "VG1 variance only": (
            [0.352977, -0.024343, -0.036515, -0.048686], {"use_mean": False},
        ),
        "VG1 neither": ([1, 0, 0, 0], {"use_mean": False, "use_variance": False}),
    }  # fmt: skip
    for name, (dx, how) in flags.items():
        yield _whole(name, x, [1, 0, 0, 0], dx, None, None, axes=0, digits=6, **how)
    dx = [-0.536682, 0.715530, 0.178894, -0.357742]
    yield _whole("VG2", x, x, dx, [5.813753], [9], scale=[2], bias=[1], axes=0,
                 activation="relu", digits=6)  # fmt: skip
    dx = [3.375, -0.375, -0.625, -0.375, -0.75, -0.25, -0.875, -0.125]
    yield _whole("VG3", [5, 3, 5, 3, 6, 2, 7, 1], [8, *[0] * 7], dx, None, None, axes=0,
                 epsilon=0.25)  # fmt: skip
    yield _whole("VG4", [3], [5], [0], [0], [5], scale=[2], bias=[1], axes=())
    yield _whole("VG4 RMS", [3], [5], [0.546875], None, None, axes=(), use_mean=False, epsilon=7)
    yield _whole("VG8", x, x, [-1.5, -1.75, -2, -2.25], [10], [10], scale=[2], bias=[1], axes=0,
                 epsilon=0, mean=[1], variance=[4])  # fmt: skip


def _parts() -> Iterator[Call]:
    x, dx = array([1, 2, 3, 4]), array([1.788854, 3.577709, 5.366563, 7.155418])
    mean, variance, one = array([2.5]), array([1.25]), array([0])
    results = (dx, array([4.472136]), array([10]))
    yield (
        "NG1",
        "normalize_grad",
        (x, x, mean, variance, array([2]), one),
        {"epsilon": 0},
        results,
        6,
    )
    parts = {
        "NG2 first": ([1, 2], [1, 0], [1, -1.341635], [0.268330, -0.357768]),
        "NG2 second": ([3, 4], [0, 0], [0, 0], [-0.089443, 0.178882]),
    }
    sums = (array([1]), array([-1.5 / math.sqrt(1.25 + 1e-5)]))
    for name, (part, grad, own, dx_of) in parts.items():
        args = (array(part), array(grad), mean, variance)
        totals = tuple(array([v]) for v in own)
        yield f"{name} sums", "normalize_grad_sums", args, {"axes": 0}, totals, 6
        how = {"count": array([4]), "sums": sums}
        yield name, "normalize_grad", args, how, (array(dx_of), None, None), 6


def calls() -> Iterator[Call]:
    yield from _wholes()
    yield from _parts()
