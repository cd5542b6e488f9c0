"""Five of DirectML's pages, sentence by sentence: fields, sizes, remarks and examples.

What each feature level takes stands in test_tables.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import directml
from directml_support import tensor
from folders import ROOT
from harness import data, refused

HEADER = (ROOT / "include" / "cudml" / "DirectML.h").read_text()
GEOMETRY = (
    "UINT DimensionCount, const UINT* Strides, const UINT* WindowSize, "
    "const UINT* StartPadding, const UINT* EndPadding"
)
STRUCTS = {
    "LP_POOLING": f"InputTensor, OutputTensor, {GEOMETRY}, UINT P",
    "MAX_POOLING2": f"InputTensor, OutputTensor, OutputIndicesTensor, {GEOMETRY}, "
    "const UINT* Dilations",
    "AVERAGE_POOLING_GRAD": f"InputGradientTensor, OutputGradientTensor, {GEOMETRY}, "
    "BOOL IncludePadding",
    "MEAN_VARIANCE_NORMALIZATION1": "InputTensor, ScaleTensor, BiasTensor, OutputTensor, "
    "UINT AxisCount, const UINT* Axes, BOOL NormalizeVariance, FLOAT Epsilon, "
    "const DML_OPERATOR_DESC* FusedActivation",
    "PADDING": "InputTensor, OutputTensor, DML_PADDING_MODE PaddingMode, FLOAT PaddingValue, "
    "UINT DimensionCount, const UINT* StartPadding, const UINT* EndPadding",
}


@pytest.mark.parametrize("name", STRUCTS)
def test_fields_and_their_types(name: str) -> None:
    body = re.search(rf"struct DML_{name}_OPERATOR_DESC \{{(.*?)\}}", HEADER, re.DOTALL)
    assert body
    members = [m.strip() for m in re.sub(r"//.*", "", body[1]).split(";") if m.strip()]
    wanted = [f if " " in f else f"const DML_TENSOR_DESC* {f}" for f in STRUCTS[name].split(", ")]
    assert members == wanted
    words = "".join(word.capitalize() for word in name.split("_"))
    fields = getattr(directml, f"{words}OperatorDesc").__dataclass_fields__
    assert list(fields) == [member.split(" ")[-1] for member in members]


def run(kind: str, *inputs: np.ndarray, level: str = "6_4", **fields: Any) -> Any:
    """The operator of this descriptor on these arrays."""
    desc = getattr(directml, f"{kind}OperatorDesc")(**fields)
    return cudml.Operator(desc, level).compile("cpu")(*inputs)


def described(x: np.ndarray) -> directml.BufferTensorDesc:
    return tensor(x.shape, x.dtype.name.upper())


def plane(rows: Any, dtype: str = "float32") -> np.ndarray:
    return np.array(rows, dtype)[None, None]


WINDOWS = {
    "4D": ((2, 3, 7, 8), (2, 3), (3, 2), (1, 0), (0, 2)),
    "5D": ((1, 2, 4, 5, 6), (1, 2, 3), (2, 3, 1), (1, 0, 2), (0, 1, 1)),
}


def window_fields(case: str) -> tuple[dict[str, Any], list[int]]:
    """Geometry, and the sizes that the pages' formula gives for its output."""
    shape, strides, window, start, end = WINDOWS[case]
    sizes = list(shape[:2])
    for i in range(len(window)):
        padded = shape[i + 2] + start[i] + end[i]
        sizes.append((padded - window[i]) // strides[i] + 1)
    fields = {"Strides": strides, "WindowSize": window, "StartPadding": start, "EndPadding": end}
    return {**fields, "InputTensor": tensor(shape)}, sizes


@pytest.mark.decision("D-LP-1")
@pytest.mark.parametrize("case", WINDOWS)
def test_lp_pooling(case: str) -> None:
    """Sizes by the formula; P = 1 and P = 2 are the L1 and the L2 norm of a window."""
    fields, sizes = window_fields(case)
    x = data(WINDOWS[case][0], "float32", 1, "exact")
    for p in (1, 2, 3):
        y = run("LpPooling", x, level="1_0", **fields, OutputTensor=tensor(sizes), P=p)
        assert list(y.shape) == sizes
        at = (1, 1, *[1] * (len(sizes) - 2))[: len(sizes)] if case == "4D" else (0, 1, 1, 1, 1)
        _, strides, window, start, _ = WINDOWS[case]
        origin = [o * s - b for o, s, b in zip(at[2:], strides, start, strict=True)]
        taps = tuple(slice(max(b, 0), max(b + w, 0)) for b, w in zip(origin, window, strict=True))
        seen = np.abs(x[(*at[:2], *taps)].astype(np.float64))
        assert y[at] == pytest.approx(np.sum(seen**p) ** (1 / p), rel=1e-6)


def test_lp_pooling_says_how_many_dimensions() -> None:
    fields, sizes = window_fields("4D")
    desc = directml.LpPoolingOperatorDesc(**fields, OutputTensor=tensor(sizes), P=2)
    assert desc.DimensionCount == 2
    fields, sizes = window_fields("5D")
    desc = directml.LpPoolingOperatorDesc(**fields, OutputTensor=tensor(sizes), P=2)
    assert desc.DimensionCount == 3
    with refused(TypeError, "LP_POOLING: OutputTensor.DataType is FLOAT16; it must be FLOAT32"):
        wrong = tensor(sizes, "FLOAT16")
        cudml.Operator(directml.LpPoolingOperatorDesc(**fields, OutputTensor=wrong, P=2), "1_0")


@pytest.mark.decision("D-MAX-1", "D-MAX-2")
@pytest.mark.parametrize("case", WINDOWS)
def test_max_pooling2(case: str) -> None:
    """Indices count from 0 through the whole input; the first of equals; {1,1} is MAX_POOLING1."""
    fields, sizes = window_fields(case)
    x = data(WINDOWS[case][0], "float32", 2, "exact")  # many equal values
    outputs = {"OutputTensor": tensor(sizes), "OutputIndicesTensor": tensor(sizes, "UINT32")}
    ones = [1] * (len(sizes) - 2)
    y, indices = run("MaxPooling2", x, level="2_1", **fields, **outputs, Dilations=ones)
    assert indices.shape == y.shape and indices.dtype == np.uint32
    seen = indices != 2**32 - 1  # by some windows nothing but padding is seen
    assert np.array_equal(x.reshape(-1)[indices[seen]], y[seen]) and seen.sum() > 20
    old = run("MaxPooling1", x, level="2_0", **fields, **outputs)
    assert old[0].tobytes() == y.tobytes() and old[1].tobytes() == indices.tobytes()
    alone = run("MaxPooling2", x, **fields, OutputTensor=tensor(sizes), Dilations=ones)
    assert isinstance(alone, np.ndarray) and np.array_equal(alone, y)
    place = np.unravel_index(indices[-1, -1][seen[-1, -1]], x.shape)
    assert (place[0] == x.shape[0] - 1).all() and (place[1] == x.shape[1] - 1).all()


@pytest.mark.decision("D-MAX-2", "D-POOL-1")
def test_max_pooling2_of_equal_values_and_with_dilations() -> None:
    x = plane([[7, 1, 7, 1, 7], [7, 7, 7, 7, 7], [7, 1, 7, 1, 7]])
    fields = {
        "InputTensor": described(x), "Strides": [1, 1], "WindowSize": [2, 2],
        "StartPadding": [0, 0], "EndPadding": [0, 0], "Dilations": [2, 2],
        "OutputTensor": tensor([1, 1, 1, 3]), "OutputIndicesTensor": tensor([1, 1, 1, 3], "UINT64"),
    }  # fmt: skip
    y, indices = run("MaxPooling2", x, level="5_0", **fields)
    assert y.ravel().tolist() == [7, 1, 7] and indices.ravel().tolist() == [0, 1, 2]


def test_average_pooling_grad() -> None:
    """The page's two arrays, forward and back, without padding and with a stride of 1."""
    x = plane([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    fields = {
        "Strides": [1, 1], "WindowSize": [2, 2], "StartPadding": [0, 0], "EndPadding": [0, 0],
    }  # fmt: skip
    small, large = tensor([1, 1, 2, 2]), tensor([1, 1, 3, 3])
    for include in (False, True):
        more = {**fields, "IncludePadding": include}
        y = run("AveragePooling", x, InputTensor=large, OutputTensor=small, **more)
        assert y[0, 0].tolist() == [[3, 4], [6, 7]]
        tensors = {"InputGradientTensor": small, "OutputGradientTensor": large}
        back = run("AveragePoolingGrad", plane([[1, 2], [3, 4]]), level="3_0", **tensors, **more)
        assert back[0, 0].tolist() == [[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]


MVN_SIZES = [2, 3, 4, 5]


@pytest.mark.decision("D-MVN-1")
@pytest.mark.parametrize("normalize_variance", [True, False])
@pytest.mark.parametrize("axes", [[2, 3], [1, 2, 3], [0, 3]], ids=str)
def test_mean_variance_normalization1(axes: list[int], normalize_variance: bool) -> None:
    """FusedActivation(Scale * ((Input - Mean) / sqrt(Variance + Epsilon)) + Bias)."""
    x = data(MVN_SIZES, "float32", 3)
    scale, bias = data((1, 3, 1, 1), "float32", 4), data((2, 3, 1, 5), "float32", 5)
    fields = {
        "InputTensor": described(x), "ScaleTensor": described(scale),
        "BiasTensor": described(bias), "OutputTensor": described(x), "Axes": axes,
        "NormalizeVariance": normalize_variance, "Epsilon": 0.25,
        "FusedActivation": directml.ActivationLeakyReluOperatorDesc(Alpha=0.5),
    }  # fmt: skip
    y = run("MeanVarianceNormalization1", x, scale, bias, level="2_1", **fields)
    wide, over = x.astype(np.float64), tuple(axes)
    z = wide - wide.mean(over, keepdims=True)
    if normalize_variance:
        z = z / np.sqrt(wide.var(over, keepdims=True) + 0.25)
    z = scale * z + bias
    np.testing.assert_allclose(y, np.where(z < 0, 0.5 * z, z), rtol=1e-5, atol=1e-6)


@pytest.mark.decision("D-MVN-2")
@pytest.mark.parametrize("cross_channel", [False, True])
def test_mean_variance_normalization1_contains_the_older_one(cross_channel: bool) -> None:
    x = data(MVN_SIZES, "float16", 6)
    same = {
        "InputTensor": described(x), "OutputTensor": described(x), "Epsilon": 1e-5,
        "NormalizeVariance": True,
    }  # fmt: skip
    old = run("MeanVarianceNormalization", x, level="1_0", **same, CrossChannel=cross_channel)
    axes = [1, 2, 3] if cross_channel else [2, 3]
    new = run("MeanVarianceNormalization1", x, level="2_1", **same, Axes=axes)
    assert old.tobytes() == new.tobytes()


A, B = [1, 2, 3, 4], [5, 6, 7, 8]
PADDED = {
    ("CONSTANT", "1_0"): [
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        [9, 9, 1, 2, 3, 4, 9, 9, 9, 9],
        [9, 9, 5, 6, 7, 8, 9, 9, 9, 9],
        [9, 9, 1, 2, 3, 4, 9, 9, 9, 9],
        [9, 9, 5, 6, 7, 8, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
    ],
    ("EDGE", "1_0"): [
        [1, 1, 1, 2, 3, 4, 4, 4, 4, 4],
        [1, 1, 1, 2, 3, 4, 4, 4, 4, 4],
        [5, 5, 5, 6, 7, 8, 8, 8, 8, 8],
        [1, 1, 1, 2, 3, 4, 4, 4, 4, 4],
        [5, 5, 5, 6, 7, 8, 8, 8, 8, 8],
        [5, 5, 5, 6, 7, 8, 8, 8, 8, 8],
        [5, 5, 5, 6, 7, 8, 8, 8, 8, 8],
        [5, 5, 5, 6, 7, 8, 8, 8, 8, 8],
    ],
    ("REFLECTION", "1_0"): [
        [7, 6, 5, 6, 7, 8, 7, 6, 5, 6],
        [3, 2, 1, 2, 3, 4, 3, 2, 1, 2],
        [7, 6, 5, 6, 7, 8, 7, 6, 5, 6],
        [3, 2, 1, 2, 3, 4, 3, 2, 1, 2],
        [7, 6, 5, 6, 7, 8, 7, 6, 5, 6],
        [3, 2, 1, 2, 3, 4, 3, 2, 1, 2],
        [7, 6, 5, 6, 7, 8, 7, 6, 5, 6],
        [3, 2, 1, 2, 3, 4, 3, 2, 1, 2],
    ],
    ("SYMMETRIC", "3_0"): [
        [2, 1, 1, 2, 3, 4, 4, 3, 2, 1],
        [2, 1, 1, 2, 3, 4, 4, 3, 2, 1],
        [6, 5, 5, 6, 7, 8, 8, 7, 6, 5],
        [2, 1, 1, 2, 3, 4, 4, 3, 2, 1],
        [6, 5, 5, 6, 7, 8, 8, 7, 6, 5],
        [6, 5, 5, 6, 7, 8, 8, 7, 6, 5],
        [2, 1, 1, 2, 3, 4, 4, 3, 2, 1],
        [6, 5, 5, 6, 7, 8, 8, 7, 6, 5],
    ],
}


@pytest.mark.bug("PAD-04")
@pytest.mark.parametrize(("mode", "level"), PADDED, ids=lambda value: value)
def test_padding_examples(mode: str, level: str) -> None:
    fields = {
        "InputTensor": tensor([1, 1, 4, 4]), "OutputTensor": tensor([1, 1, 8, 10]),
        "PaddingMode": mode, "StartPadding": [0, 0, 1, 2], "EndPadding": [0, 0, 3, 4],
    }  # fmt: skip
    y = run("Padding", plane([A, B, A, B]), level=level, **fields, PaddingValue=9)
    assert y[0, 0].tolist() == PADDED[mode, level]
    if mode != "CONSTANT":  # the value is of no account
        for value in (0, float("nan")):
            again = run("Padding", plane([A, B, A, B]), level=level, **fields, PaddingValue=value)
            assert again.tobytes() == y.tobytes()


@pytest.mark.decision("D-PAD-13")
@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("REFLECTION", [1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2]),
        ("SYMMETRIC", [3, 3, 2, 1, 1, 2, 3, 3, 2, 1, 1, 2]),
    ],
)
def test_padding_beyond_the_size_folds_again(mode: str, row: list[int]) -> None:
    """StartPadding[i] > InputTensor.Sizes[i] and EndPadding[i] > InputTensor.Sizes[i] are valid."""
    y = run(
        "Padding", plane([[1, 2, 3]]), level="3_0",
        InputTensor=tensor([1, 1, 1, 3]), OutputTensor=tensor([1, 1, 1, 12]),
        PaddingMode=mode, PaddingValue=0, StartPadding=[0, 0, 0, 4], EndPadding=[0, 0, 0, 5],
    )  # fmt: skip
    assert y.ravel().tolist() == row


@pytest.mark.decision("D-PAD-3", "D-PAD-4")
@pytest.mark.parametrize(
    ("dtype", "level", "stored"),
    [
        *((f"{sign}int{bits}", "2_1", 10) for sign in ("", "u") for bits in (8, 16, 32)),
        ("int64", "5_0", 10), ("uint64", "5_0", 10), ("float64", "5_0", float(np.float32(10.6))),
        ("float32", "1_0", float(np.float32(10.6))), ("float16", "1_0", 10.6015625),
    ],
)  # fmt: skip
def test_padding_value_in_every_type(dtype: str, level: str, stored: float) -> None:
    x = plane([[1, 2]], dtype)
    y = run(
        "Padding", x, level=level, InputTensor=described(x),
        OutputTensor=tensor([1, 1, 1, 4], dtype.upper()), PaddingMode="CONSTANT",
        PaddingValue=10.6, StartPadding=[0, 0, 0, 1], EndPadding=[0, 0, 0, 1],
    )  # fmt: skip
    assert y.dtype == x.dtype and y.ravel().tolist() == [stored, 1, 2, stored]


@pytest.mark.parametrize("field", ["StartPadding", "EndPadding"])
def test_every_dimension_grows_by_its_pads(field: str) -> None:
    """OutputTensor.Sizes[i] = InputTensor.Sizes[i] + StartPadding[i] + EndPadding[i]."""
    for i in range(4):
        pads = {"StartPadding": [1, 0, 2, 0], "EndPadding": [0, 3, 0, 1]}
        sizes = [s + a + b for s, a, b in zip([2, 1, 3, 2], *pads.values(), strict=True)]
        fields = {"InputTensor": tensor([2, 1, 3, 2]), "PaddingMode": "EDGE", "PaddingValue": 0}
        y = tensor(sizes)
        cudml.Operator(directml.PaddingOperatorDesc(**fields, **pads, OutputTensor=y), "1_0")
        pads[field][i] += 1
        with refused(ValueError, f"PADDING: OutputTensor.Sizes[{i}] is {sizes[i]}; it must be"):
            cudml.Operator(directml.PaddingOperatorDesc(**fields, **pads, OutputTensor=y), "1_0")
