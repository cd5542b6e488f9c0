"""How descriptors are spelled in Python, and what their fields mean once lowered."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import struct
from typing import Any, get_args

import numpy as np
import pytest

import cudml
from cudml import directml
from cudml.directml import (
    BufferTensorDesc,
    FeatureLevel,
    PaddingMode,
    TensorDataType,
    TensorFlags,
    _types,
)
from directml_support import LEVELS, NAMES, SINCE, desc_of, operator, tensor
from harness import refused

WINDOW = ["DimensionCount", "Strides", "WindowSize", "StartPadding", "EndPadding"]
IN_OUT = ["InputTensor", "OutputTensor"]
MVN_TENSORS = ["InputTensor", "ScaleTensor", "BiasTensor", "OutputTensor"]
FIELDS = {
    "MaxPooling": IN_OUT + WINDOW,
    "MaxPooling1": [*IN_OUT, "OutputIndicesTensor", *WINDOW],
    "MaxPooling2": [*IN_OUT, "OutputIndicesTensor", *WINDOW, "Dilations"],
    "MaxPoolingGrad": [
        *("InputTensor", "InputGradientTensor", "OutputGradientTensor"),
        *WINDOW,
        "Dilations",
    ],
    "AveragePooling": [*IN_OUT, *WINDOW, "IncludePadding"],
    "AveragePooling1": [*IN_OUT, *WINDOW, "Dilations", "IncludePadding"],
    "AveragePoolingGrad": [
        *("InputGradientTensor", "OutputGradientTensor"),
        *WINDOW,
        "IncludePadding",
    ],
    "LpPooling": [*IN_OUT, *WINDOW, "P"],
    "LpPooling1": [*IN_OUT, *WINDOW, "Dilations", "P"],
    "Padding": [
        *(*IN_OUT, "PaddingMode", "PaddingValue"),
        *("DimensionCount", "StartPadding", "EndPadding"),
    ],
    "Padding1": [
        *(*IN_OUT, "PaddingMode", "PaddingValueDataType", "PaddingValue"),
        *("DimensionCount", "StartPadding", "EndPadding"),
    ],
    "MeanVarianceNormalization": [
        *(*MVN_TENSORS, "CrossChannel", "NormalizeVariance", "Epsilon", "FusedActivation"),
    ],
    "MeanVarianceNormalization1": [
        *(*MVN_TENSORS, "AxisCount", "Axes", "NormalizeVariance", "Epsilon", "FusedActivation"),
    ],
    "MeanVarianceNormalization2": [
        *(*MVN_TENSORS, "AxisCount", "Axes", "UseMean", "UseVariance"),
        *("Epsilon", "FusedActivation"),
    ],
}
GRADIENTS = [
    *("InputTensor", "InputGradientTensor", "MeanTensor", "VarianceTensor", "ScaleTensor"),
    *("OutputGradientTensor", "OutputScaleGradientTensor", "OutputBiasGradientTensor", "Epsilon"),
]
FIELDS |= {
    "MaxUnpooling": ["InputTensor", "IndicesTensor", "OutputTensor"],
    "BatchNormalization": [
        *("InputTensor", "MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor"),
        *("OutputTensor", "Spatial", "Epsilon", "FusedActivation"),
    ],
    "BatchNormalizationGrad": GRADIENTS,
    "BatchNormalizationTrainingGrad": GRADIENTS,
}
OPTIONAL = {"OutputIndicesTensor", "ScaleTensor", "BiasTensor", "FusedActivation"}
COUNTS = {"DimensionCount", "AxisCount"}


@pytest.mark.decision("D-VER-7")
@pytest.mark.parametrize("name", SINCE)
def test_fields(name: str) -> None:
    kind = getattr(directml, f"{name}OperatorDesc")
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == FIELDS[name]
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())
    given = {f: getattr(desc_of(name), f) for f in FIELDS[name]}
    for field, parameter in parameters.items():
        is_required = field == "FusedActivation" or "Batch" not in name
        if field in OPTIONAL | COUNTS and is_required:
            assert parameter.default is None
            continue
        rest = {f: v for f, v in given.items() if f != field}
        with pytest.raises(TypeError, match=f"'{field}'"):
            kind(**rest)
    for wrong in ("WindowSizes", "window_size"):
        with pytest.raises(TypeError, match=f"'{wrong}'"):
            kind(**given, **{wrong: [2, 2]})
    with pytest.raises(TypeError, match="positional"):
        kind(tensor([1, 1, 1, 1]))


@pytest.mark.decision("D-VER-7")
@pytest.mark.parametrize("name", SINCE)
def test_repr_can_be_pasted(name: str) -> None:
    more = {"FusedActivation": directml.ActivationEluOperatorDesc()} if "Mean" in name else {}
    desc = desc_of(name, **more)
    text = repr(desc)
    (call,) = ast.parse(text).body
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    assert [keyword.arg for keyword in call.value.keywords] == FIELDS[name]
    again = eval(text, vars(directml).copy())
    assert again == desc and repr(again) == text
    assert pickle.loads(pickle.dumps(desc)) == desc == copy.deepcopy(desc)
    built = cudml.Operator(desc)
    pasted = eval(repr(built), vars(directml) | {"Operator": cudml.Operator})
    assert built.describe() == built.describe().strip()
    assert pasted.describe() == built.describe() == pickle.loads(pickle.dumps(built)).describe()


@pytest.mark.decision("D-VER-7")
def test_counts_may_be_left_out_and_must_agree() -> None:
    assert desc_of("MaxPooling").DimensionCount == 2
    assert desc_of("Padding").DimensionCount == 4
    assert desc_of("MeanVarianceNormalization1", Axes=[1, 2]).AxisCount == 2
    operator("MaxPooling", DimensionCount=2)
    with refused(ValueError, "PADDING: StartPadding has 4 entries; DimensionCount is 3"):
        operator("Padding", DimensionCount=3)
    with refused(ValueError, "NORMALIZATION2: Axes has 1 entries; AxisCount is 2"):
        operator("MeanVarianceNormalization2", AxisCount=2)
    with refused(ValueError, "PADDING: DimensionCount is 3; it must be 4"):
        operator("Padding", StartPadding=[0, 0, 1], EndPadding=[0, 0, 2])


def test_names_for_type_checkers() -> None:
    """Each enumeration's own, and of feature levels the short ones as well."""
    for kind, names, short in (
        (TensorDataType, _types.DataTypeName, []), (PaddingMode, _types.PaddingModeName, []),
        (TensorFlags, _types.TensorFlagsName, []), (FeatureLevel, _types.FeatureLevelName, LEVELS),
    ):  # fmt: skip
        assert sorted(get_args(names)) == sorted([*kind.__members__, *short])


@pytest.mark.decision("D-VER-7")
def test_enumerations() -> None:
    for kind in (TensorDataType, PaddingMode, FeatureLevel, TensorFlags):
        for member in kind:
            assert eval(repr(member), vars(directml).copy()) is member
            assert repr(member) == f"{kind.__name__}.{member.name}"
    assert [m.value for m in PaddingMode] == [0, 1, 2, 3, 4]
    assert repr(TensorFlags(2)) == "TensorFlags(2)"
    flags = {"NONE": 0, "OWNED_BY_DML": 1}
    assert {name: int(flag) for name, flag in TensorFlags.__members__.items()} == flags
    assert [m.name for m in FeatureLevel] == [f"FL_{level}" for level in LEVELS]
    desc = desc_of("Padding")
    for level in (FeatureLevel.FL_5_2, "FL_5_2", "5_2"):
        assert cudml.Operator(desc, level).feature_level is FeatureLevel.FL_5_2
    assert FeatureLevel.FL_5_2 == 0x5200
    numbered = "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64"
    names = [*numbered.split(), "UINT4", "INT4"]
    members = {name: kind.value for name, kind in TensorDataType.__members__.items()}
    assert members == {name: i for i, name in enumerate(names)} | {"BFLOAT16": 31}
    assert tensor([1], "INT8") == BufferTensorDesc(TensorDataType.INT8, (1,))
    for value in (1, True, 1.0, None, PaddingMode.EDGE, np.float32):
        with refused(TypeError, "BufferTensorDesc: DataType is", "it must be a TensorDataType"):
            BufferTensorDesc(value, [1])  # type: ignore[arg-type]
    with refused(ValueError, "DataType is 'float32'; it must be one of UNKNOWN, FLOAT32, FLOAT16"):
        BufferTensorDesc("float32", [1])


@pytest.mark.decision("D-VER-7")
def test_buffer_tensor_desc() -> None:
    assert list(inspect.signature(BufferTensorDesc).parameters) == [
        *("DataType", "Sizes", "Strides", "TotalTensorSizeInBytes"),
        *("GuaranteedBaseOffsetAlignment", "Flags"),
    ]
    one = BufferTensorDesc("FLOAT32", [2, 3], [3, 1], 24, 4, "OWNED_BY_DML")
    assert one == BufferTensorDesc("FLOAT32", np.array([2, 3]), (3, 1), 24, 4, 1)
    assert one != BufferTensorDesc("FLOAT32", [2, 3]) and hash(one) == hash(copy.copy(one))
    assert eval(repr(one), vars(directml).copy()) == one
    with refused(ValueError, "Flags is 'OWNED'; it must be one of NONE, OWNED_BY_DML"):
        BufferTensorDesc("FLOAT32", [2, 3], Flags="OWNED")


@pytest.mark.decision("D-ACT-3", "D-ACT-9", "D-ACT-10")
def test_defaults_of_activations() -> None:
    alpha = {"Celu": 1, "Elu": 1, "LeakyRelu": 0.01, "ThresholdedRelu": 1}
    for name, value in alpha.items():
        assert getattr(directml, f"Activation{name}OperatorDesc")().Alpha == value
    pairs: dict[str, dict[str, float]] = {
        "HardSigmoid": {"Alpha": 0.2, "Beta": 0.5},
        "HardSwish": {"Alpha": 1 / 6, "Beta": 0.5},
        "ParametricSoftplus": {"Alpha": 1, "Beta": 1},
        "ScaledElu": {"Alpha": 1.67326319217681884765625, "Gamma": 1.05070102214813232421875},
        "ScaledTanh": {"Alpha": 1, "Beta": 0.5},
        "Shrink": {"Bias": 0, "Threshold": 0.5},
        "Softplus": {"Steepness": 1},
        "Swish": {"SigmoidInputScale": 1},
    }
    for name, wanted in pairs.items():
        desc = getattr(directml, f"Activation{name}OperatorDesc")()
        assert list(desc.__dataclass_fields__) == ["InputTensor", "OutputTensor", *wanted]
        assert {field: getattr(desc, field) for field in wanted} == wanted
    with pytest.raises(TypeError, match="'Alpha' and 'Beta'"):
        directml.ActivationLinearOperatorDesc()  # type: ignore[call-arg]


@pytest.mark.decision("D-VER-7")
def test_fields_of_what_is_never_fused() -> None:
    """In DirectML's order, which nothing but the text of a description shows."""
    rows = ["InputTensor", "OutputTensor", "AxisCount", "Axes"]
    for name, wanted in {
        **dict.fromkeys(
            ("ActivationHardmax1", "ActivationLogSoftmax1", "ActivationSoftmax1"), rows
        ),
        "ActivationParameterizedRelu": ["InputTensor", "SlopeTensor", "OutputTensor"],
        "ElementWiseClip": ["InputTensor", "OutputTensor", "ScaleBias", "Min", "Max"],
    }.items():
        kind = getattr(directml, f"{name}OperatorDesc")
        assert list(inspect.signature(kind).parameters) == wanted


@pytest.mark.decision("D-VER-7")
def test_fields_of_activations_are_given_by_name() -> None:
    kinds = [k for k in vars(directml).values() if getattr(k, "_dml_name", "").startswith("ACT")]
    for parameters in (inspect.signature(kind).parameters for kind in kinds):
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())
    assert len(kinds) > len(get_args(cudml._typing.ActivationName))  # some cannot be fused


@pytest.mark.decision("D-ACT-2")
@pytest.mark.parametrize("field", ["InputTensor", "OutputTensor"])
def test_a_fused_activation_has_no_tensors(field: str) -> None:
    fused = directml.ActivationTanhOperatorDesc(**{field: tensor([1, 2, 4, 5])})
    with refused(ValueError, f"NORMALIZATION: FusedActivation.{field} is given", "must be null"):
        operator("MeanVarianceNormalization", FusedActivation=fused)


def test_what_is_no_activation() -> None:
    name = "MeanVarianceNormalization"
    with refused(TypeError, "FusedActivation is 'relu' (str); it must be an activation descriptor"):
        operator(name, FusedActivation="relu")
    with refused(ValueError, "FusedActivation is MEAN_VARIANCE_NORMALIZATION; it must be one of"):
        operator(name, FusedActivation=desc_of(name))


@pytest.mark.decision("D-ACT-7")
def test_parameters_of_activations() -> None:
    name = "MeanVarianceNormalization1"
    for kind, field in (("Softplus", "Steepness"), ("Celu", "Alpha"), ("Elu", "Alpha")):
        for value in (float("nan"), float("inf"), 1e39):
            fused = getattr(directml, f"Activation{kind}OperatorDesc")(**{field: value})
            with refused(ValueError, f"{NAMES[name]}: FusedActivation.{field} is", "finite"):
                operator(name, FusedActivation=fused)
    for value in (0.0, -1.0):
        fused = directml.ActivationSoftplusOperatorDesc(Steepness=value)
        with refused(ValueError, "FusedActivation.Steepness is", "greater than 0"):
            operator(name, FusedActivation=fused)
    with refused(ValueError, "FusedActivation.Alpha is 0; it must not be 0"):
        operator(name, FusedActivation=directml.ActivationCeluOperatorDesc(Alpha=0))
    with refused(
        TypeError, f"{NAMES[name]}: FusedActivation.Alpha is '1' (str); it must be a real number"
    ):
        operator(name, FusedActivation=directml.ActivationEluOperatorDesc(Alpha="1"))


@pytest.mark.decision("D-VER-5")
@pytest.mark.parametrize("value", [True, 1, 2, 256, -1, 2**31, np.True_, np.int64(7)])
def test_any_non_zero_bool_is_true(value: Any) -> None:
    yes, no = "include_padding true", "include_padding false"
    assert yes in operator("AveragePooling", IncludePadding=value).describe()
    for zero in (False, 0, np.False_):
        assert no in operator("AveragePooling", IncludePadding=zero).describe()
    name = "MeanVarianceNormalization2"
    assert "use_mean true, use_variance false" in (
        operator(name, UseMean=value, UseVariance=0).describe()
    )
    for wrong in (1.0, "1", None):
        with refused(TypeError, "AVERAGE_POOLING: IncludePadding is"):
            operator("AveragePooling", IncludePadding=wrong)


@pytest.mark.decision("D-MVN-2")
def test_cross_channel() -> None:
    for value, axes in ((False, "{2,3}"), (True, "{1,2,3}"), (5, "{1,2,3}")):
        text = operator("MeanVarianceNormalization", CrossChannel=value).describe()
        assert f"over axes {axes}:" in text


@pytest.mark.decision("D-MVN-10", "D-MVN-11", "D-MVN-14")
@pytest.mark.parametrize("name", ["MeanVarianceNormalization1", "MeanVarianceNormalization2"])
def test_axes(name: str) -> None:
    operator(name, Axes=[3, 0, 2])
    for nothing in ({"Axes": []}, {"Axes": None}, {"Axes": None, "AxisCount": 0}):
        assert "over axes {}:" in operator(name, **nothing).describe()
    with refused(ValueError, f"{NAMES[name]}: Axes[1] is 4; it must be between 0 and 3"):
        operator(name, Axes=[0, 4])
    with refused(ValueError, f"{NAMES[name]}: Axes[2] is 1; every axis may be named once"):
        operator(name, Axes=[1, 2, 1])
    with refused(ValueError, f"{NAMES[name]}: AxisCount is 5; it must be between 0 and 4"):
        operator(name, Axes=[0, 1, 2, 3, 3])
    with refused(ValueError, f"{NAMES[name]}: Axes[0] is -1; it must be between 0 and"):
        operator(name, Axes=[-1])
    with refused(ValueError, f"{NAMES[name]}: Axes is null; it must point to 2 entries"):
        operator(name, Axes=None, AxisCount=2)


@pytest.mark.decision("D-MVN-8", "D-MVN-9")
@pytest.mark.parametrize("name", [n for n in SINCE if n.startswith("Mean")])
def test_epsilon(name: str) -> None:
    for value in (0, 0.0, -0.0, 1e-60, -1e-60, 3.0e38, np.float32(1e-5)):
        operator(name, Epsilon=value)
    for value in (-1e-5, float("nan"), float("inf"), 1e39):
        with refused(ValueError, f"{NAMES[name]}: Epsilon is", "it must be finite"):
            operator(name, Epsilon=value)
    for value in (True, "1e-5", None):
        with refused(TypeError, f"{NAMES[name]}: Epsilon is"):
            operator(name, Epsilon=value)


def value_bytes(name: str, dtype: str, value: Any, mode: str = "CONSTANT") -> bytes:
    text = operator(name, dtype=dtype, PaddingValue=value, PaddingMode=mode).describe()
    return bytes.fromhex(text.rsplit("value bytes", 1)[1])


@pytest.mark.decision("D-PAD-3", "D-PAD-4")
@pytest.mark.parametrize(
    ("dtype", "value", "form", "stored"),
    [
        ("UINT8", 10.6, "<B", 10),
        ("UINT8", -10.6, "<B", 0),
        ("UINT8", 300, "<B", 255),
        ("INT8", -10.6, "<b", -10),
        ("INT8", 300, "<b", 127),
        ("INT32", 16777217, "<i", 16777216),
        ("INT64", float("inf"), "<q", 2**63 - 1),
        ("UINT64", 1e39, "<Q", 2**64 - 1),
        ("INT64", -(10**400), "<q", -(2**63)),
        ("FLOAT32", 10.6, "<f", 10.6),
        ("FLOAT32", 1e39, "<f", float("inf")),
        ("FLOAT16", 10.6, "<e", 10.6015625),
        ("FLOAT16", 1e6, "<e", float("inf")),
        ("FLOAT64", 10.6, "<d", float(np.float32(10.6))),
    ],
)
def test_float_value_of_padding(dtype: str, value: Any, form: str, stored: Any) -> None:
    packed = struct.pack(form, stored)
    assert value_bytes("Padding", dtype, value) == packed.ljust(8, b"\0")


@pytest.mark.decision("D-PAD-3", "D-PAD-7")
def test_values_that_mean_nothing() -> None:
    for name in ("Padding", "Padding1"):
        with refused(ValueError, f"{NAMES[name]}: PaddingValue is NaN"):
            value_bytes(name, "INT16", float("nan"))
        for mode in ("EDGE", "REFLECTION", "SYMMETRIC", "WRAP"):
            assert value_bytes(name, "INT16", float("nan"), mode) == bytes(8)
        for wrong in (True, "1", None):
            with refused(TypeError, f"{NAMES[name]}: PaddingValue is"):
                value_bytes(name, "FLOAT32", wrong)


@pytest.mark.decision("D-PAD-5", "D-PAD-6")
def test_value_of_padding1() -> None:
    assert value_bytes("Padding1", "INT64", 2**63 - 1) == struct.pack("<q", 2**63 - 1)
    assert value_bytes("Padding1", "UINT64", 2**64 - 1) == bytes([255]) * 8
    assert value_bytes("Padding1", "UINT8", 10.6)[:1] == b"\x0a"
    assert value_bytes("Padding1", "FLOAT64", 0.1) == struct.pack("<d", 0.1)
    with refused(ValueError, "PADDING1: PaddingValue is 256"):
        value_bytes("Padding1", "UINT8", 256)
    raw = bytes(range(1, 9))
    for dtype, size in (("INT8", 1), ("FLOAT16", 2), ("FLOAT32", 4), ("UINT64", 8)):
        assert value_bytes("Padding1", dtype, raw) == raw[:size].ljust(8, b"\0")
    for wrong in (b"", bytes(7), bytes(9)):
        with refused(ValueError, f"PaddingValue is {len(wrong)} bytes; it must be a number or 8"):
            value_bytes("Padding1", "FLOAT32", wrong)


def test_type_of_the_padding_value() -> None:
    with refused(TypeError, "PADDING1: PaddingValueDataType is INT8; it must be FLOAT32 like that"):
        operator("Padding1", PaddingValueDataType="INT8")
    with refused(TypeError, "PaddingValueDataType is 1 (int); it must be a TensorDataType"):
        operator("Padding1", PaddingValueDataType=1)


@pytest.mark.decision("D-PAD-10")
@pytest.mark.parametrize("name", ["Padding", "Padding1"])
def test_sizes_of_padding(name: str) -> None:
    with refused(ValueError, f"{NAMES[name]}: OutputTensor.Sizes[3] is 7; it must be 8"):
        operator(name, OutputTensor=tensor([1, 2, 4, 7]))
    with refused(ValueError, f"{NAMES[name]}: OutputTensor.Sizes[0] is 1 + 4294967295 + 0"):
        operator(name, StartPadding=[2**32 - 1, 0, 0, 1])
    with refused(ValueError, f"{NAMES[name]}: StartPadding[0] is -1; it must be between 0"):
        operator(name, StartPadding=[-1, 0, 0, 1])
