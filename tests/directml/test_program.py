"""A DirectML program in C++ compiles unchanged and lowers to what the Python classes lower to."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import cudml
from cudml import directml
from directml_support import desc_of, operator, tensor
from folders import ROOT
from library_support import links

STANDALONE = """
#include <DirectML.h>
#include <DirectML.h>
static_assert(sizeof(DML_SCALAR_UNION) == 8 && sizeof(BOOL) == 4 && TRUE && !FALSE);
static_assert(DML_TENSOR_DATA_TYPE_INT4 == 13 && DML_FEATURE_LEVEL_6_4 == 0x6400);
static_assert(DML_PADDING_MODE_WRAP == 4 && DML_TENSOR_DIMENSION_COUNT_MAX1 == 8);
DML_TENSOR_FLAGS flags = DML_TENSOR_FLAG_NONE | DML_TENSOR_FLAG_OWNED_BY_DML;
constexpr DML_TENSOR_FLAGS changed(DML_TENSOR_FLAGS f) {
  f |= DML_TENSOR_FLAG_OWNED_BY_DML;
  f &= ~DML_TENSOR_FLAG_NONE;
  return f ^= DML_TENSOR_FLAG_OWNED_BY_DML;
}
static_assert(changed(DML_TENSOR_FLAG_NONE) == DML_TENSOR_FLAG_NONE);
static_assert((DML_TENSOR_FLAG_OWNED_BY_DML ^ DML_TENSOR_FLAG_NONE) == 1);
"""


def compiler() -> list[str]:
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include/cudml"]
    return [*os.environ.get("CXX", "c++").split(), *flags]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """What the program lowered, operator by operator, and what it was refused with."""
    program = tmp_path_factory.mktemp("directml") / "program"
    main = str(ROOT / "tests" / "directml" / "program.cpp")
    words = [*compiler(), f"-I{ROOT}/csrc", f"-I{ROOT}/include", main, *links()]
    subprocess.run([*words, "-o", str(program)], check=True, timeout=300)
    text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    lowered, refusals = text.split("refused:\n")
    operators: list[str] = []
    for line in lowered.splitlines():
        if line.startswith(" "):
            operators[-1] += "\n" + line
        else:
            operators.append(line)
    return operators, refusals.splitlines()


def operators() -> list[cudml.Operator]:
    """The operators of program.cpp, in its order, described with the Python classes."""
    x, y, dilated = [2, 3, 7, 8], [2, 3, 3, 8], [2, 3, 3, 6]
    window = {"Strides": [2, 1], "WindowSize": [3, 2], "StartPadding": [1, 0], "EndPadding": [0, 1]}
    taps = {"Dilations": [1, 3]}
    nhwc = tensor(dilated, Strides=[54, 1, 18, 3])
    plain = {"InputTensor": tensor(x), "OutputTensor": tensor(y), **window}
    half = {"InputTensor": tensor(x, "FLOAT16"), "OutputTensor": tensor(y, "FLOAT16"), **window}
    wide = {"InputTensor": tensor(x), "OutputTensor": tensor(dilated), **window, **taps}
    pads = {"StartPadding": [0, 0, 1, 2], "EndPadding": [0, 0, 3, 4]}
    small, large = [1, 1, 4, 4], [1, 1, 8, 10]
    bytes_ = {"InputTensor": tensor(small, "INT8"), "OutputTensor": tensor(large, "INT8")}
    one = {"PaddingValueDataType": "INT8", "PaddingValue": -7, **bytes_, **pads}
    z, channels = [2, 3, 4, 5], tensor([1, 3, 1, 1])
    mvn = {"InputTensor": tensor(z), "OutputTensor": tensor(z, Strides=[60, 1, 15, 3])}
    leaky = directml.ActivationLeakyReluOperatorDesc(Alpha=0.125)
    shrink = directml.ActivationShrinkOperatorDesc(Bias=0.25, Threshold=0.5)
    return [
        operator("MaxPooling", "1_0", **plain),
        operator("MaxPooling1", **plain, OutputIndicesTensor=tensor(y, "UINT32")),
        operator(
            "MaxPooling2",
            **(wide | {"OutputTensor": nhwc}),
            OutputIndicesTensor=tensor(dilated, "UINT64"),
        ),
        operator(
            "MaxPoolingGrad",
            **{"InputTensor": tensor(x), "InputGradientTensor": nhwc, **window, **taps},
            OutputGradientTensor=tensor(x),
        ),
        operator("AveragePooling", **half, IncludePadding=True),
        operator(
            "AveragePooling1",
            **(half | taps | {"OutputTensor": tensor(dilated, "FLOAT16")}),
            IncludePadding=0,
        ),
        operator(
            "AveragePoolingGrad",
            InputGradientTensor=tensor(y, "FLOAT16"),
            OutputGradientTensor=tensor(x, "FLOAT16"),
            **window,
            IncludePadding=256,
        ),
        operator("LpPooling", **plain, P=2),
        operator("LpPooling1", **wide, P=7),
        operator(
            "Padding",
            InputTensor=tensor(small, "FLOAT16"),
            OutputTensor=tensor(large, "FLOAT16"),
            PaddingValue=10.6,
            **pads,
        ),
        operator("Padding1", **one),
        operator("Padding1", **(one | {"PaddingMode": "WRAP"})),
        operator("MeanVarianceNormalization", **mvn, CrossChannel=True),
        operator(
            "MeanVarianceNormalization1",
            **(mvn | {"Axes": [3, 1], "NormalizeVariance": False, "Epsilon": 0.5}),
            ScaleTensor=channels,
            BiasTensor=tensor(z, Strides=[0, 1, 0, 0]),
            FusedActivation=leaky,
        ),
        operator(
            "MeanVarianceNormalization2",
            InputTensor=tensor(z),
            OutputTensor=tensor(z),
            BiasTensor=channels,
            Axes=[],
            UseMean=False,
            Epsilon=0,
            FusedActivation=shrink,
        ),
        *_training_operators(z, shrink),
    ]


def _training_operators(z: list[int], shrink: directml.OperatorDesc) -> list[cudml.Operator]:
    x, turned, one = tensor(z), tensor(z, Strides=[60, 1, 15, 3]), tensor([1, 3, 1, 1])
    statistics = dict.fromkeys(("MeanTensor", "VarianceTensor", "ScaleTensor"), one)
    gradients = {"InputTensor": x, "InputGradientTensor": turned, "OutputGradientTensor": turned}
    gradients |= dict.fromkeys(("OutputScaleGradientTensor", "OutputBiasGradientTensor"), one)
    return [
        operator(
            "MaxUnpooling",
            InputTensor=tensor(z, "INT16"),
            IndicesTensor=tensor(z, "UINT64", Strides=[0, 20, 5, 1]),
            OutputTensor=tensor([2, 3, 9, 8], "INT16"),
        ),
        operator(
            "BatchNormalization",
            "2_0",
            InputTensor=x,
            MeanTensor=tensor([1, 3, 4, 5]),
            VarianceTensor=tensor([2, 1, 4, 5]),
            ScaleTensor=one,
            BiasTensor=tensor([1, 1, 1, 5]),
            OutputTensor=turned,
            Spatial=False,
            Epsilon=0.5,
            FusedActivation=shrink,
        ),
        operator("BatchNormalizationGrad", **statistics, **gradients, Epsilon=0.5),
        operator("BatchNormalizationTrainingGrad", **statistics, **gradients, Epsilon=0.25),
    ]


@pytest.mark.decision("D-VER-4")
def test_program_lowers_to_what_python_lowers_to(printed: tuple[list[str], list[str]]) -> None:
    assert printed[0] == [one.describe() for one in operators()]
    names = {text.split("\n")[0] for text in printed[0]}
    assert len(names) == 18


def test_program_is_refused_what_only_c_can_get_wrong(
    printed: tuple[list[str], list[str]],
) -> None:
    wanted = [
        "DML_OPERATOR_DESC: Type is 999; it must be one of MAX_POOLING, MAX_POOLING1",
        "DML_OPERATOR_DESC: Type is ACTIVATION_RELU; it must be one of",
        "MAX_POOLING: Desc is null; it must point to a DML_MAX_POOLING_OPERATOR_DESC",
        "MAX_POOLING: InputTensor is null; the operator requires it",
        "MAX_POOLING: DimensionCount is 4294967295; it must be 2",
        "MAX_POOLING: Strides is null; it must point to 2 entries",
        "MAX_POOLING: InputTensor.DataType is -1; it must be one of FLOAT32",
        "MAX_POOLING: InputTensor.DimensionCount is 4294967295; at feature level 6_4 it must be",
        "MAX_POOLING: InputTensor.Sizes is null; it must point to 4 sizes",
        "MAX_POOLING: InputTensor.Desc is null; it must point to a DML_BUFFER_TENSOR_DESC",
        "MEAN_VARIANCE_NORMALIZATION: FusedActivation is MEAN_VARIANCE_NORMALIZATION; it must be",
        "MEAN_VARIANCE_NORMALIZATION: FusedActivation.Desc is null; it must point to",
        "PADDING1: PaddingMode is 7; it must be 0 (CONSTANT), 1 (EDGE)",
        "PADDING1: PaddingValueDataType is 99; it must be FLOAT32",
    ]
    assert len(printed[1]) == len(wanted)
    for text, beginning in zip(printed[1], wanted, strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_header_stands_alone(standard: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(STANDALONE)
    subprocess.run(
        [*compiler(), f"-std={standard}", "-fsyntax-only", str(source)], check=True, timeout=60
    )


def test_the_classes_are_all_there() -> None:
    header = (ROOT / "include" / "cudml" / "DirectML.h").read_text()
    header += (ROOT / "include" / "cudml" / "DirectMLActivations.h").read_text()
    structs = re.findall(r"^typedef struct (DML_\w+_OPERATOR_DESC) \{", header, re.MULTILINE)
    known = {name for name in vars(directml) if name.endswith("OperatorDesc")} - {"OperatorDesc"}
    found = set()
    for struct in structs:
        words = struct.removeprefix("DML_").removesuffix("_OPERATOR_DESC").split("_")
        found.add("".join(word.capitalize() for word in words) + "OperatorDesc")
    assert found == known
    assert desc_of("MaxPooling")._dml_name == "MAX_POOLING"
