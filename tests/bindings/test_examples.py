"""The worked examples of the specification through the compiled operators, in every type."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import cudml
import harness
from cudml import reference
from examples import (
    ACTIVATION_INPUTS,
    ACTIVATION_LIMITS,
    ACTIVATION_VALUES,
    EXAMPLES,
    OUTPUT_SIZES,
    Example,
)

pytestmark = pytest.mark.core


def converted(example: Example, dtype: str) -> dict | None:
    """The example's call with arrays of this type, or None where the type cannot hold them."""
    call = inspect.signature(getattr(reference, example.op)).bind(*example.args, **example.kwargs)
    arguments = dict(call.arguments)
    for name, value in arguments.items():
        if name in harness.ARRAYS and value is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                cast = value.astype(harness.dtype_of(dtype))
            back = cast.astype(np.float64)
            if example.digits is None and not np.array_equal(back, value, equal_nan=True):
                return None
            if dtype in harness.FLOATS and not np.allclose(back, value, rtol=2.0**-6, atol=0,
                                                           equal_nan=True):  # fmt: skip
                return None
            arguments[name] = cast
    return arguments


def cases():
    for example in EXAMPLES:
        for dtype in harness.DTYPES[example.op]:
            small = dtype in ("float16", "bfloat16") and not example.float16
            if converted(example, dtype) is None or small:
                continue
            marks = [pytest.mark.decision(*example.rules)] if example.rules else []
            yield pytest.param(example, dtype, id=f"{example.id}-{dtype}", marks=marks)


@pytest.mark.parametrize("example, dtype", list(cases()))
def test_example(backend, example, dtype):
    call = converted(example, dtype)
    harness.check(example.op, **call)
    result = backend.call(example.op, **call)
    results = result if isinstance(result, tuple) else (result,)
    for y, want in zip(results, example.expected, strict=True):
        if want is None:
            assert y is None
            continue
        got = backend.back(y)
        if got.dtype.name not in harness.FLOATS:
            lowest = np.iinfo(got.dtype).min
            np.testing.assert_array_equal(got, np.where(np.isneginf(want), lowest, want))
        elif example.digits is None:
            want = want.astype(got.dtype).astype(np.float64)
            np.testing.assert_array_equal(got.astype(np.float64), want)
        elif dtype in ("float32", "float64"):
            room = 0.5000001 * 10.0**-example.digits + (2.0**-21 if dtype == "float32" else 0) * (
                np.abs(want)
            )
            assert (np.abs(got.astype(np.float64) - want) <= room).all()


@pytest.mark.parametrize("row", OUTPUT_SIZES, ids=str)
@pytest.mark.decision("D-POOL-1", "D-POOL-2")
def test_output_sizes(backend, row):
    size, w, s, p0, p1, d, floor, ceil = row
    x = backend.to(harness.data((1, 2, size), "float32", size))
    for op in ("max_pooling", "average_pooling", "lp_pooling"):
        assert backend.call(op, x, w, s, p0, p1, d).shape == (1, 2, floor)
        for out in range(1, ceil + 1):
            y = backend.call(op, x, w, s, p0, p1, d, output_sizes=out)
            assert y.shape == (1, 2, out)
        with harness.refused(ValueError, op, "OutputTensor.Sizes"):
            backend.call(op, x, w, s, p0, p1, d, output_sizes=ceil + 1)


@pytest.mark.parametrize("dtype", harness.DTYPES["mean_variance_normalization"])
@pytest.mark.parametrize("name, parameters, values", ACTIVATION_VALUES, ids=str)
@pytest.mark.decision("D-ACT-3", "D-ACT-10")
def test_activation_values(backend, name, parameters, values, dtype):
    x = np.array(ACTIVATION_INPUTS).astype(harness.dtype_of(dtype))
    more = {"axes": (), "use_mean": False, "use_variance": False, "activation": (name, parameters)}
    harness.check("mean_variance_normalization", x, **more)
    y = backend.back(backend.call("mean_variance_normalization", backend.to(x), **more))
    room = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 2.0**-21)
    np.testing.assert_allclose(y.astype(np.float64), values, rtol=room, atol=0.6e-6)


@pytest.mark.parametrize("dtype", harness.DTYPES["mean_variance_normalization"])
@pytest.mark.parametrize("name, parameters, low, high", ACTIVATION_LIMITS, ids=str)
@pytest.mark.decision("D-ACT-5", "D-ACT-6", "D-ACT-16")
def test_activations_at_infinity_and_nan(backend, name, parameters, low, high, dtype):
    x = np.array([-np.inf, np.inf, np.nan]).astype(harness.dtype_of(dtype))
    more = {"axes": (), "use_mean": False, "use_variance": False, "activation": (name, parameters)}
    y = backend.back(backend.call("mean_variance_normalization", backend.to(x), **more))
    want = np.array([low, high, np.nan]).astype(x.dtype).astype(np.float64)
    np.testing.assert_array_equal(y.astype(np.float64), want)


def test_the_examples_name_existing_operators():
    assert {e.op for e in EXAMPLES} <= set(harness.DTYPES)
    assert all(callable(getattr(cudml, e.op)) for e in EXAMPLES)
