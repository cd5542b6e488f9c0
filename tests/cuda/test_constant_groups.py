"""Constant groups of values so large that the square of a rounding error overflows: every kernel
finds no variance in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import backends
import harness
import kernel_cases
from kernel_case import Case, environment, needs_of
from pool_support import FLOATS, dtype_of

LARGE = {"float32": 1.760667e30, "bfloat16": 1.7e30, "float64": 2.441316933461805e222}
MOST = {"float32": 3.3e38, "bfloat16": 3.3e38, "float64": 1.7e308}


def group_of(case: Case) -> int:
    """Elements of a group."""
    axes = case.arguments["axes"]
    shape = case.shapes["x"]
    return int(np.prod([shape[a] for a in (axes if isinstance(axes, tuple) else (axes,))]))


def plain_cases(family: str) -> list[Case]:
    """Calls with mean and variance, without more, of groups that hold something."""
    return [
        case
        for case in kernel_cases.cases(family)
        if case.op in ("mean_variance_normalization", "normalization_statistics")
        and case.arguments.keys() <= {"axes", "activation", "return_statistics", "dtype"}
        and not case.arguments.get("activation")
        and group_of(case)
    ]


def values(dtype: str, n: int) -> Iterator[np.ndarray]:
    """One of middle size, and one whose sum of n is just finite."""
    for value in (LARGE[dtype], MOST[dtype] / n / 1.15):
        if n * value < MOST[dtype]:
            yield np.array(value).astype(dtype_of(dtype))


def results(op: str, kernel: str, x: np.ndarray, layout: str, **call: Any) -> list[np.ndarray]:
    """None where the kernel does not take the call."""
    device = backends.current()
    sent = device.to(harness.LAYOUTS[layout](x))
    try:
        with environment(CUDML_KERNEL=kernel):
            found = device.call(op, sent, **call)
    except ValueError as error:
        assert f'CUDML_KERNEL is "{kernel}", which needs that' in str(error)
        return []
    given = found if isinstance(found, tuple) else (found,)
    return [device.back(one) for one in given if one is not None]


def judged(case: Case, kernel: str, layout: str, value: np.ndarray) -> bool:
    """Whether the kernel takes the call, which then gives what it must."""
    x, call = np.full(case.shapes["x"], value), {"axes": case.arguments["axes"]}
    is_whole = case.op == "mean_variance_normalization"
    if is_whole:
        call["return_statistics"] = True
    found = results(case.op, kernel, x, layout, **call)
    if not found:
        return False
    first, mean, rest = (one.astype("float64") for one in found)
    assert (first == (0 if is_whole else group_of(case))).all(), (case.name, kernel)
    assert not rest.any(), (case.name, kernel)
    assert (mean == float(value)).all(), (case.name, kernel)
    if is_whole:
        y = results(case.op, kernel, x, layout, **call, epsilon=0)[0]
        assert np.isnan(y.astype("float64")).all(), (case.name, kernel)
    return True


@pytest.mark.device
@pytest.mark.decision("D-MVN-5", "D-MVN-7")
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d in LARGE])
@pytest.mark.parametrize("family", ["mvn", "statistics"])
def test_they_are_constant(family: str, dtype: str) -> None:
    ran = set()
    for case in plain_cases(family):
        layouts = (case.layouts[0], case.layouts[-1])
        for value, layout in zip(values(dtype, group_of(case)), layouts, strict=False):
            for kernel in needs_of(family):
                if judged(case, kernel, layout, value):
                    ran.add(kernel)
    assert ran, "no kernel took a call"


@pytest.mark.device
@pytest.mark.decision("D-MVN-5", "D-GRAD-25")
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d in LARGE])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 61), 1),
        ((61, 24), 0),
        ((3, 7, 9, 4), (1, 2)),
        ((3, 5, 30, 7), (0, 2, 3)),
        ((2, 3000), 1),
    ],
)
def test_their_gradient_is_that_of_other_constants(dtype: str, shape: Any, axes: Any) -> None:
    op, family = "mean_variance_normalization_grad", "mvn_grad"
    grad = harness.data(shape, dtype, 5)
    device = backends.current()
    n = int(np.prod([shape[a] for a in (axes if isinstance(axes, tuple) else (axes,))]))
    for kernel in needs_of(family):
        call = {"grad": device.to(grad), "axes": axes}
        first = results(op, kernel, np.full_like(grad, 2), "contiguous", **call)
        for value in values(dtype, n) if first else ():
            found = results(op, kernel, np.full(shape, value), "contiguous", **call)
            assert found[0].tobytes() == first[0].tobytes(), kernel
