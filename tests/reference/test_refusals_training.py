"""What the reference of the training operators refuses: what they do, and nothing else, by an
exception of the same class; one argument of a good call at a time takes every odd value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import reference
from harness import data
from tests.reference.test_refusals import ARRAYS, POOLS, SCALE, X, outcome
from tests.reference.test_refusals import ODD as PLAIN

GRAD = data((2, 3, 5, 6), "float32", 2)
SAME = data(X.shape, "float32", 4)
STORED = data((2, 1, 6, 1), "float32", 5) ** 2
COUNT = np.full((2, 1, 6, 1), 21.0)
WINDOW: dict[str, Any] = {
    "window_size": 2, "strides": 1, "start_padding": 0, "end_padding": (0, 0), "dilations": 1,
}  # fmt: skip
AFFINE: dict[str, Any] = {"scale": SCALE, "bias": SCALE, "epsilon": 1e-5, "activation": "swish"}
GIVEN: dict[str, Any] = {"x": X, "grad": SAME, "mean": STORED, "variance": STORED, **AFFINE}
GOOD: dict[str, dict[str, Any]] = {
    "lp_pooling_grad": {"x": X, "y": abs(GRAD) + 1, "grad": GRAD, **WINDOW, "p": 2},
    "padding_grad": {
        "grad": SAME, "input_sizes": (1, 3, 4, 6), "start_padding": (1, 0, 2, 0),
        "end_padding": (0, 0, 0, 1), "mode": "edge",
    },
    "max_unpooling": {
        "x": X, "indices": np.arange(X.size).reshape(X.shape), "output_sizes": (2, 3, 9, 8),
    },
    "normalization_statistics": {
        "x": X, "axes": (1, 3), "use_mean": True, "dtype": "float64",
    },
    "normalize": {"x": X, "mean": STORED, "variance": STORED, **AFFINE},
    "mean_variance_normalization_grad": {
        **GIVEN, "axes": (1, 3), "use_mean": True, "use_variance": True, "outputs": ("x", "bias"),
    },
    "normalize_grad_sums": {**GIVEN, "axes": (1, 3), "dtype": "float64"},
    "normalize_grad": {
        **GIVEN, "count": COUNT, "sums": (COUNT, COUNT), "outputs": ("scale", "x"),
    },
}  # fmt: skip
# Beside those of one shape: what broadcasts to x, in types that statistics may have and others.
PARTS = [
    None, *ARRAYS,
    *(STORED.astype(dtype) for dtype in ("float64", "float16", "int32", "complex64", ">f4")),
    data(STORED.shape, "bfloat16"), STORED[0], STORED[:, :, :5], STORED[:, 0], np.ones((1,) * 4),
]  # fmt: skip
INDICES = [
    *(np.zeros(X.shape, dtype) for dtype in (
        "uint32", "uint64", "int64", "int32", "uint8", "float32", "bool", "complex64", ">i8", "O",
    )),
    *(np.zeros(shape, "int64") for shape in (
        (), (7,), (2, 3, 6, 8), (2, 3, 6), (1, 3, 6, 7), (2, 3, 1, 7), (2, 3, 6, 7, 1),
    )),
    None, [[1]], "x", 3,
]  # fmt: skip
OUTPUTS = [
    (), ("x",), ["bias", "x"], ("scale", "bias", "x"), "x", ("x", "x"), ("y",), ("x", 1), None, 3,
    {"x"}, {"x": 1}, ("X",), [["x"]], np.array(["x", "bias"]), np.array("x"), np.array([["x"]]),
]  # fmt: skip
KINDS = [
    "float32", "float64", "float16", "f8", "<f4", ">f4", "double", "int64", "", b"float64", None,
    np.float32, np.float64, np.dtype("float32"), np.dtype(">f8"), float, int, 5, [], object,
]  # fmt: skip
SUMS = [
    None, (COUNT, COUNT), [COUNT, COUNT], (COUNT,), (COUNT, COUNT, COUNT), COUNT, "sums", 3, {},
    (COUNT, None), (None, None), (COUNT, 2.0), (COUNT, COUNT[0]), (COUNT, COUNT.astype("f4")),
    (COUNT.astype("f4"),) * 2, (COUNT.astype("i8"),) * 2, (np.ones((1,) * 4),) * 2,
]  # fmt: skip
OWN = {
    "y": ARRAYS, "mean": PARTS, "variance": PARTS, "count": PARTS, "indices": INDICES,
    "outputs": OUTPUTS, "dtype": KINDS, "sums": SUMS,
}  # fmt: skip


def calls(op: str, field: str) -> Iterator[dict[str, Any]]:
    """The good call with each odd value of one argument, and with data of another type."""
    good = GOOD[op][field]
    for value in (*(OWN | POOLS).get(field, PLAIN), list(good) if type(good) is tuple else good):
        yield {**GOOD[op], field: value}
        if field in ("mean", "variance", "count", "scale", "bias", "y"):
            halves = {k: GOOD[op][k].astype("f2") for k in ("x", "grad") if k in GOOD[op]}
            yield {**GOOD[op], **halves, field: value}


@pytest.mark.parametrize(("op", "field"), [(op, field) for op in GOOD for field in GOOD[op]])
def test_refuses_what_the_operator_refuses(op: str, field: str) -> None:
    outcomes = set()
    for call in calls(op, field):
        want, got = (outcome(getattr(m, op), call) for m in (cudml, reference))
        assert got == want, call[field]
        outcomes.add(want)
    assert {"TypeError", "ValueError"} & outcomes and any(o[:6] == "shapes" for o in outcomes)
