"""The reference refuses what the operators refuse, by an exception of the same class, and nothing
else: one argument of a good call at a time takes every odd value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds, reference
from cudml.reference.pooling import index_type
from harness import DTYPES, data, refused

X = data((2, 3, 6, 7), "float32", 1)
GRAD = data((2, 3, 5, 6), "float32", 2)
SCALE = data((1, 3, 1, 7), "float32", 3)
GEOMETRY: dict[str, Any] = {
    "window_size": 2, "strides": 1, "start_padding": 0, "end_padding": (0, 0), "dilations": 1,
    "axes": (2, 3),
}  # fmt: skip
GOOD: dict[str, dict[str, Any]] = {
    "max_pooling": {
        "x": X, **GEOMETRY, "output_sizes": None, "return_indices": True, "index_dtype": "uint32",
    },
    "max_pooling_grad": {"x": X, "grad": GRAD, **GEOMETRY},
    "average_pooling": {"x": X, **GEOMETRY, "output_sizes": None, "include_padding": False},
    "average_pooling_grad": {
        "grad": GRAD, "input_sizes": X.shape, **GEOMETRY, "include_padding": True,
    },
    "lp_pooling": {"x": X, **GEOMETRY, "output_sizes": "ceil", "p": 2},
    "padding": {
        "x": X, "start_padding": 1, "end_padding": (0, 1, 2, 0), "mode": "constant", "value": 0,
    },
    "mean_variance_normalization": {
        "x": X, "scale": SCALE, "bias": SCALE, "axes": (1, 3), "use_mean": True,
        "use_variance": True, "epsilon": 1e-5, "activation": "relu",
    },
}  # fmt: skip

ODD = [
    None, True, np.True_, 0, 1, 2, 3, -1, -2, 5, 2.0, 2.5, math.nan, 1j, "2", "ceil", b"2",
    bytearray(b"22"), 2**31, 2**32 - 1, 2**32, 2**63, 2**70, -(2**70), np.int8(2), np.uint64(2),
    np.array(2), np.array([2, 2]), np.array([[2, 2]]), np.array([2.0, 2.0]), object(), {}, {2},
    range(2, 4), [], (), (1,), [2, 2], (2, 3), (3, 2), (-2, -1), (2, -1), (2, 2, 2), (0, 1, 2, 3),
    (2, True), (2, "2"), (2, 2.0), (2, None), (1, 2**32), (1, -1), (0,) * 9, X.shape,
    (2, 3, 6, 8), (2, 3, 0, 7), (2, 3, 5, 6, 1), Fraction(2), Decimal(2),
]  # fmt: skip
MODES = [
    "constant", "edge", "reflection", "symmetric", "wrap", "reflect", "EDGE", "", b"edge", None,
    3, ["edge"] * 4, ("wrap", "edge", "constant", "edge"), ["edge"] * 3, [], {"edge"}, range(4),
    ("edge", "edge", "edge", 3), ("edge", "edge", "edge", "mirror"), np.str_("edge"),
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 1.5, -1.5, 300, 2**70, 1e39, 1e-60, -1e-60, -0.0, math.nan, math.inf, -math.inf, True,
    np.False_, None, "1", b"1", 1j, np.complex64(1), np.float16(1), np.int64(3), np.array(1.5),
    Fraction(1, 3), Decimal("0.5"), Decimal("nan"), [], (1.0,), {}, object(), -(10**400), 10**400,
]  # fmt: skip
ACTIVATIONS = [
    None, "relu", "Relu", "", b"relu", 3, ("relu",), ("relu", {}), ["relu", {}], ("relu", None),
    ("relu", {"alpha": 1}), "linear", ("linear", {"alpha": 1}), ("linear", {"alpha": 1, "beta": 2}),
    ("elu", {"alpha": 2}), ("elu", {"Alpha": 2}), ("elu", {1: 2}), ("elu", {"alpha": None}),
    ("elu", {"alpha": "1"}), ("elu", {"alpha": True}), ("elu", {"alpha": math.nan}),
    ("elu", {"alpha": 1e39}), ("elu", {"alpha": 10**400}), ("softplus", {"steepness": 0}),
    ("softplus", {"steepness": -1}), ("softplus", {"steepness": 1e-60}), ("celu", {"alpha": 0.0}),
    ("celu", {"alpha": -1}), ("celu", {"alpha": 1e-60}), ("swish", {"alpha": 1}), ("elu", {}, 1),
]  # fmt: skip
INDICES = [
    "uint32", "uint64", "int64", "int32", "float32", "u4", "i8", ">u4", "<u8", "uint", "",
    "nonsense", b"uint32", np.uint32, np.int64, np.int32, np.dtype("uint64"), np.dtype(">i8"),
    None, 5, [], object,
]  # fmt: skip
NAMES = (*DTYPES["padding"], "bool", "complex64", ">f4", "S4", "M8[s]", "O")
ARRAYS = [
    *(np.zeros(X.shape, np.float32).astype(dtype) for dtype in NAMES if dtype != "bfloat16"),
    *(np.zeros(shape, "f4") for shape in (
        (), (7,), (6, 7), (3, 6, 7), (2, 3, 6, 7, 1), (1,) * 8, (2, 3, 0, 7), (0, 3, 6, 7),
        (2, 0, 6, 7), (2, 3, 5, 6), (2, 3, 6, 8), (0, 3, 5, 6), (2, 3, 1, 1), (1, 1, 1, 1),
    )),
    np.zeros(X.shape, [("a", "f4")]), np.ma.masked_array(X, X > 0), data(X.shape, "bfloat16"),
    [[1.0]], "x", 3, object(),
]  # fmt: skip
POOLS = {
    "mode": MODES, "value": NUMBERS, "epsilon": NUMBERS, "activation": ACTIVATIONS,
    "index_dtype": INDICES, "x": ARRAYS, "grad": ARRAYS, "scale": [*ARRAYS, None],
    "bias": [*ARRAYS, None],
}  # fmt: skip


def outcome(function: Any, call: dict[str, Any]) -> str:
    """The class of what a call raises, or what comes back, in words."""
    try:
        result = function(**call)
    except (TypeError, ValueError) as error:
        assert str(error).startswith(f"{function.__name__}: "), error
        return type(error).__name__
    outputs = result if isinstance(result, tuple) else (result,)
    return f"shapes {[None if y is None else y.shape for y in outputs]}"


def calls(op: str, field: str) -> Iterator[dict[str, Any]]:
    """The good call with each odd value of one argument; padding's, with each type of data."""
    for value in POOLS.get(field, ODD):
        if op == "padding" and isinstance(value, int) and 10**6 < value < 2**32 - 1:
            continue  # not refused: gigabytes
        yield {**GOOD[op], field: value}
        if field == "value":
            for dtype in ("uint8", "int64", "float16"):
                yield {**GOOD[op], field: value, "x": X.astype(dtype)}
            yield {**GOOD[op], field: value, "mode": "edge"}


@pytest.mark.parametrize(("op", "field"), [(op, field) for op in GOOD for field in GOOD[op]])
def test_refuses_what_the_operator_refuses(op: str, field: str) -> None:
    assert outcome(getattr(reference, op), GOOD[op]).startswith("shapes")
    outcomes = set()
    for call in calls(op, field):
        want = outcome(getattr(cudml, op), call)
        assert outcome(getattr(reference, op), call) == want, call[field]
        outcomes.add(want)
    assert {"TypeError", "ValueError"} & outcomes and any(o[:6] == "shapes" for o in outcomes)


@pytest.mark.parametrize("op", GOOD)
def test_bounds_of_what_is_refused_are_refused_alike(op: str) -> None:
    first = next(iter(GOOD[op]))
    field = next(name for name in ("window_size", "mode", "axes") if name in GOOD[op])
    for call in ({**GOOD[op], first: X.astype(bool)}, {**GOOD[op], field: 1.5}):
        with refused(TypeError, f"{op}: "):
            bounds.expected(op, **call)


def test_the_power_ends() -> None:
    for p in (-1, 0, 2**32):
        with refused(ValueError, f"lp_pooling: P is {p}; it must be between 1 and 4294967295"):
            reference.lp_pooling(X, 2, p=p)


def test_bytes_are_no_geometry() -> None:
    for value in (memoryview(b"\2\2"), b"\2\2"):
        with refused(TypeError, "max_pooling: WindowSize[0] is"):
            reference.max_pooling(X, value)  # type: ignore[arg-type]


def test_extents_end() -> None:
    """D-POOL-7: a window and a padded dimension have at most 2**31 - 1 elements."""
    x, most = np.full((1, 1, 2), 7, np.float32), 2**31 - 1
    for pool in (reference.max_pooling, cudml.max_pooling):
        assert pool(x, 2, 1, 0, most - 2, most - 1).tolist() == [[[7]]]
        with refused(ValueError, "max_pooling: ", "2147483648", "2147483647"):
            pool(x, 2, 1, 0, most - 2, most)
        with refused(ValueError, "max_pooling: ", "2147483647"):
            pool(x, 2, 1, 0, most - 1, most - 1)


@pytest.mark.parametrize("field", ["scale", "bias"])
def test_types_of_parameters(field: str) -> None:
    """x's own, or FLOAT32 beside 16 bits (D-MVN-15)."""
    for of_x, own, is_taken in (
        ("float16", "float32", True), ("bfloat16", "float32", True), ("float64", "float32", False),
        ("float32", "float16", False), ("float32", "float64", False),
        ("float16", "bfloat16", False),
    ):  # fmt: skip
        x, given = data((2, 3), of_x, 1), {field: data((1, 3), own, 2)}
        for op in (reference.mean_variance_normalization, cudml.mean_variance_normalization):
            if is_taken:
                assert op(x, axes=0, **given).shape == x.shape
            else:
                with refused(TypeError, "mean_variance_normalization: ", "Tensor.DataType is"):
                    op(x, axes=0, **given)


@pytest.mark.decision("D-MAX-8")
def test_the_most_elements_of_32_bits() -> None:
    """The last number is the sentinel's."""
    assert index_type("max_pooling", "uint32", 2**32 - 1) == np.uint32
    assert index_type("max_pooling", "int64", 2**32) == np.int64
    with refused(ValueError, "uint32; InputTensor has 4294967296 elements; at most 4294967295 fit"):
        index_type("max_pooling", "uint32", 2**32)
