"""What the gradients of normalization refuse, and that nothing is written then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from harness import data, refused

X = data((2, 3, 4), "float16", 1)
PARAMETER = np.ones((1, 3, 1), "f4")
GIVEN = np.ones((2, 3, 1), "f4")
WHOLE, SUMS, PART = "mean_variance_normalization_grad", "normalize_grad_sums", "normalize_grad"
CALLS: dict[str, dict[str, Any]] = {
    WHOLE: {"axes": 2},
    SUMS: {"mean": GIVEN, "variance": GIVEN, "axes": 2},
    PART: {"mean": GIVEN, "variance": GIVEN},
}
ALL = (
    (TypeError, "InputTensor (x) is", {"x": [1.0]}),
    (TypeError, "InputTensor.DataType is int8; it must be float32", {"x": X.astype("i1")}),
    (ValueError, "InputTensor.DimensionCount is 0", {"x": X[0, 0, 0, ...], "scale": None}),
    (TypeError, "InputGradientTensor.DataType is float32; it must be InputTensor's, float16",
     {"grad": X.astype("f4")}),
    (ValueError, "InputGradientTensor.Sizes[0] is 1; it must be 2", {"grad": X[:1]}),
    (ValueError, "InputGradientTensor.Sizes are {3,4}; they must be {2,3,4}", {"grad": X[0]}),
    (TypeError, "InputGradientTensor (grad) is None", {"grad": None}),
    (TypeError, "ScaleTensor.DataType is float64; it must be InputTensor's, float16, or float32",
     {"scale": PARAMETER.astype("f8")}),
    (ValueError, "ScaleTensor.DimensionCount is 2; it must be InputTensor's, 3",
     {"scale": PARAMETER[0]}),
    (ValueError, "BiasTensor.Sizes[1] is 2; it must be 1 or 3", {"bias": PARAMETER[:, :2]}),
    (ValueError, "Epsilon is -1; it must be finite", {"epsilon": -1}),
    (ValueError, "Epsilon is nan", {"epsilon": float("nan")}),
    (TypeError, "Epsilon is '1'", {"epsilon": "1"}),
    (ValueError, "FusedActivation is \"silu\"; it must be one of identity", {"activation": "silu"}),
    (ValueError, "FusedActivation.Alpha is 0; it must not be 0",
     {"activation": ("celu", {"alpha": 0})}),
)  # fmt: skip
AXES = (
    (ValueError, "Axes[0] is 3", {"axes": 3}),
    (ValueError, "Axes[1] is 2; every axis may be named once only", {"axes": (2, -1)}),
    (TypeError, "Axes[0] is 1.5", {"axes": 1.5}),
)
WHOLES = (
    (ValueError, "InputTensor.Sizes[2] is 0; a dimension in Axes must not be empty",
     {"x": X[..., :0], "grad": X[..., :0]}),
    (TypeError, "UseMean is 1 (int)", {"use_mean": 1}),
    (TypeError, "UseVariance is None", {"use_variance": None}),
    (ValueError, "Variance is absent and UseVariance is True", {"mean": GIVEN}),
    (ValueError, "Mean is absent and UseMean is True", {"variance": GIVEN}),
    (ValueError, "Mean is given and UseMean is False",
     {"mean": GIVEN, "variance": GIVEN, "use_mean": False}),
    (ValueError, "Variance is given and UseVariance is False",
     {"mean": GIVEN, "variance": GIVEN, "use_variance": False}),
    (TypeError, "Mean.DataType is int32; it must be InputTensor's, float16, float32 or float64",
     {"mean": GIVEN.astype("i4"), "variance": GIVEN}),
    (ValueError, "Variance.Sizes[1] is 1; it must be 3",
     {"mean": GIVEN, "variance": GIVEN[:, :1]}),
)  # fmt: skip
OUTPUTS = (
    (TypeError, "outputs is 'x' (str); it must be a sequence", {"outputs": "x"}),
    (TypeError, "outputs is 3", {"outputs": 3}),
    (TypeError, "outputs has 1 (int) in it", {"outputs": (1,)}),
    (ValueError, "outputs has 0 entries", {"outputs": ()}),
    (ValueError, "outputs has 'x' in it twice", {"outputs": ("x", "x")}),
    (ValueError, "outputs has 'y' in it", {"outputs": ("y",)}),
    (ValueError, "outputs has 4 entries", {"outputs": ("x", "scale", "bias", "x")}),
    (TypeError, "out is", {"out": X}),
    (TypeError, "it must be a tuple or list of 3", {"out": (X, None)}),
    (ValueError, "BiasGradientTensor (out[2]) is given; it must be None, as there is no such",
     {"out": (None, None, PARAMETER)}),
    (ValueError, "OutputGradientTensor (out[0]) is given; it must be None, as outputs does not",
     {"out": (X, None, None), "outputs": ["scale"]}),
)  # fmt: skip
STATISTICS = (
    (TypeError, "Mean.DataType is int32; it must be InputTensor's", {"mean": GIVEN.astype("i4")}),
    (ValueError, "Variance.Sizes[1] is 2; it must be 1 or 3", {"variance": GIVEN[:, :2]}),
    (ValueError, "Mean.DimensionCount is 2; it must be InputTensor's, 3", {"mean": GIVEN[0]}),
)
PARTS = (
    (ValueError, "Count is given and sums are absent", {"count": GIVEN}),
    (ValueError, "Count is absent and sums are given", {"sums": (GIVEN, GIVEN)}),
    (TypeError, "sums is", {"sums": GIVEN, "count": GIVEN}),
    (TypeError, "it must be a tuple or list of 2", {"sums": (GIVEN,), "count": GIVEN}),
    (TypeError, "GradientSum (sums[0]) is None", {"sums": (None, GIVEN), "count": GIVEN}),
    (ValueError, "ProductSum.Sizes[0] is 3; it must be 1 or 2",
     {"sums": (GIVEN, np.ones((3, 3, 1))), "count": GIVEN}),
    (TypeError, "Count.DataType is uint8", {"sums": (GIVEN, GIVEN), "count": GIVEN.astype("u1")}),
)  # fmt: skip
DTYPES = (
    (TypeError, "DataType is 'float16'; it must be float32 or float64", {"dtype": "float16"}),
    (TypeError, "DataType is None", {"dtype": None}),
    (TypeError, "DataType is", {"dtype": np.int64}),
    (TypeError, "it must be a tuple or list of 2", {"out": (GIVEN, GIVEN, GIVEN)}),
)
TABLE = [
    *((op, *row) for op in CALLS for row in ALL),
    *((op, *row) for op in (WHOLE, SUMS) for row in AXES),
    *((WHOLE, *row) for row in WHOLES),
    *((op, *row) for op in (WHOLE, PART) for row in OUTPUTS),
    *((op, *row) for op in (SUMS, PART) for row in STATISTICS),
    *((PART, *row) for row in PARTS),
    *((SUMS, *row) for row in DTYPES),
]


@pytest.mark.core
@pytest.mark.parametrize(
    "op, error, text, fields", TABLE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_refusal(op: str, error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    call = {"x": X, "grad": X, "scale": PARAMETER, "bias": None, **CALLS[op], **fields}
    places = (np.full((2, 3, 4), 7, "f2"), np.full((1, 3, 1), 7, "f4"), None)
    if op != SUMS and not {"out", "outputs", "x", "scale", "bias"} & fields.keys():
        call["out"] = places
    with refused(error, f"{op}: ", text):
        getattr(cudml, op)(**call)
    assert (places[0] == 7).all() and (places[1] == 7).all()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-21", "D-TEN-2")
@pytest.mark.parametrize("op", [WHOLE, PART])
def test_outputs_that_overlap(op: str) -> None:
    x, grad = data((2, 3, 4), "float32", 1), data((2, 3, 4), "float32", 2)
    call = {"x": x, "grad": grad, "scale": PARAMETER.copy(), **CALLS[op]}
    function = getattr(cudml, op)
    for out in ((x, None, None), (grad, None, None), (None, call["scale"], None)):
        before = [a.tobytes() for a in (x, grad, call["scale"])]
        with refused(ValueError, f"{op}: ", "overlap"):
            function(**call, out=out)
        assert before == [a.tobytes() for a in (x, grad, call["scale"])]
    room = np.full(27, 7, "f4")
    both = (room[:24].reshape(2, 3, 4), room[23:26].reshape(1, 3, 1), None)
    with refused(ValueError, f"{op}: ", "overlap"):
        function(**call, out=both)
    assert (room == 7).all()


@pytest.mark.core
@pytest.mark.decision("D-TEN-1")
def test_outputs_of_other_types_and_sizes() -> None:
    x = data((2, 3, 4), "float32", 1)
    call = {"x": x, "grad": x, "scale": PARAMETER, **CALLS[WHOLE]}
    table = [
        (TypeError, "OutputGradientTensor", (x.astype("f8"), None, None)),
        (ValueError, "OutputGradientTensor", (x[:, :2].copy(), None, None)),
        (TypeError, "ScaleGradientTensor", (None, PARAMETER.astype("f8"), None)),
        (ValueError, "ScaleGradientTensor", (None, np.ones((1, 1, 1), "f4"), None)),
        (ValueError, "OutputGradientTensor", (np.broadcast_to(x[:1], x.shape), None, None)),
    ]
    for error, text, out in table:
        with refused(error, f"{WHOLE}: ", text):
            cudml.mean_variance_normalization_grad(**call, out=out)
    sums = tuple(np.empty((2, 3, 1), "f4") for _ in range(2))
    with refused(TypeError, f"{SUMS}: ", "GradientSum", "float64"):
        cudml.normalize_grad_sums(x, x, None, None, axes=2, out=sums)
