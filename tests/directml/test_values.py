"""Numbers and layouts of the header are those that DirectML has published."""

from __future__ import annotations

import re
from pathlib import Path

from library_support import STRICT, run
from tests.directml.programs import HEADERS

COMPILE = ["g++", "-std=c++17", *STRICT, f"-I{HEADERS}"]

# Positions in DML_OPERATOR_TYPE, which grows at its end with each feature level.
OPERATORS = {
    "INVALID": 0,
    "ELEMENT_WISE_CLIP": 8,
    "ACTIVATION_ELU": 35,
    "ACTIVATION_HARDMAX": 36,
    "ACTIVATION_HARD_SIGMOID": 37,
    "ACTIVATION_IDENTITY": 38,
    "ACTIVATION_LEAKY_RELU": 39,
    "ACTIVATION_LINEAR": 40,
    "ACTIVATION_LOG_SOFTMAX": 41,
    "ACTIVATION_PARAMETERIZED_RELU": 42,
    "ACTIVATION_PARAMETRIC_SOFTPLUS": 43,
    "ACTIVATION_RELU": 44,
    "ACTIVATION_SCALED_ELU": 45,
    "ACTIVATION_SCALED_TANH": 46,
    "ACTIVATION_SIGMOID": 47,
    "ACTIVATION_SOFTMAX": 48,
    "ACTIVATION_SOFTPLUS": 49,
    "ACTIVATION_SOFTSIGN": 50,
    "ACTIVATION_TANH": 51,
    "ACTIVATION_THRESHOLDED_RELU": 52,
    "AVERAGE_POOLING": 56,
    "LP_POOLING": 57,
    "MAX_POOLING": 58,
    "PADDING": 64,
    "BATCH_NORMALIZATION": 72,
    "MEAN_VARIANCE_NORMALIZATION": 73,
    "ACTIVATION_SHRINK": 90,
    "MAX_POOLING1": 91,
    "MAX_UNPOOLING": 92,
    "MAX_POOLING2": 110,
    "MEAN_VARIANCE_NORMALIZATION1": 115,
    "ACTIVATION_CELU": 128,
    "AVERAGE_POOLING_GRAD": 130,
    "MAX_POOLING_GRAD": 131,
    "BATCH_NORMALIZATION_GRAD": 146,
    "BATCH_NORMALIZATION_TRAINING_GRAD": 152,
    "PADDING1": 155,
    "ACTIVATION_GELU": 157,
    "ACTIVATION_SOFTMAX1": 158,
    "ACTIVATION_LOG_SOFTMAX1": 159,
    "ACTIVATION_HARDMAX1": 160,
    "LP_POOLING1": 165,
    "AVERAGE_POOLING1": 166,
    "ACTIVATION_SWISH": 167,
    "ACTIVATION_HARD_SWISH": 168,
    "MEAN_VARIANCE_NORMALIZATION2": 171,
}
DATA_TYPES = (
    *("UNKNOWN", "FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8"),
    *("FLOAT64", "UINT64", "INT64", "UINT4", "INT4"),
)
ENUMERATIONS = {
    "DML_FEATURE_": {"TENSOR_DATA_TYPE_SUPPORT": 0, "FEATURE_LEVELS": 1},
    "DML_BINDING_TYPE_": {"NONE": 0, "BUFFER": 1, "BUFFER_ARRAY": 2},
    "DML_EXECUTION_FLAG_": {
        "NONE": 0,
        "ALLOW_HALF_PRECISION_COMPUTATION": 1,
        "DISABLE_META_COMMANDS": 2,
        "DESCRIPTORS_VOLATILE": 4,
    },
    "DML_CREATE_DEVICE_FLAG_": {"NONE": 0, "DEBUG": 1},
    "DML_TENSOR_TYPE_": {"INVALID": 0, "BUFFER": 1},
    "DML_TENSOR_FLAG_": {"NONE": 0, "OWNED_BY_DML": 1},
    "DML_PADDING_MODE_": {"CONSTANT": 0, "EDGE": 1, "REFLECTION": 2, "SYMMETRIC": 3, "WRAP": 4},
    "DML_TENSOR_DATA_TYPE_": {name: value for value, name in enumerate(DATA_TYPES)},
}
CODES = {
    "S_OK": 0,
    "S_FALSE": 1,
    "E_NOTIMPL": 0x80004001,
    "E_NOINTERFACE": 0x80004002,
    "E_POINTER": 0x80004003,
    "E_FAIL": 0x80004005,
    "E_UNEXPECTED": 0x8000FFFF,
    "E_OUTOFMEMORY": 0x8007000E,
    "E_INVALIDARG": 0x80070057,
    "DXGI_ERROR_NOT_FOUND": 0x887A0002,
    "DXGI_ERROR_MORE_DATA": 0x887A0003,
    "DXGI_ERROR_UNSUPPORTED": 0x887A0004,
    "DXGI_ERROR_DEVICE_REMOVED": 0x887A0005,
}
STRUCTURE = """
#include <DirectML.h>
#include <type_traits>
static_assert(std::is_base_of_v<IUnknown, IDMLObject>);
static_assert(std::is_base_of_v<IDMLObject, IDMLDevice>);
static_assert(std::is_base_of_v<IDMLObject, IDMLDeviceChild>);
static_assert(std::is_base_of_v<IDMLDeviceChild, IDMLPageable>);
static_assert(std::is_base_of_v<IDMLDeviceChild, IDMLOperator>);
static_assert(std::is_base_of_v<IDMLPageable, IDMLDispatchable>);
static_assert(std::is_base_of_v<IDMLDispatchable, IDMLCompiledOperator>);
static_assert(std::is_base_of_v<IDMLDispatchable, IDMLOperatorInitializer>);
static_assert(std::is_base_of_v<IDMLDeviceChild, IDMLBindingTable>);
static_assert(std::is_base_of_v<IDMLDeviceChild, IDMLCommandRecorder>);
static_assert(sizeof(DML_BINDING_PROPERTIES) == 24 && sizeof(DML_BUFFER_BINDING) == 24);
static_assert(sizeof(DML_BINDING_DESC) == 16 && sizeof(DML_BUFFER_ARRAY_BINDING) == 16);
static_assert((DML_EXECUTION_FLAG_DISABLE_META_COMMANDS | DML_EXECUTION_FLAG_NONE) == 2);
static_assert(FAILED(E_FAIL) && !FAILED(S_FALSE) && SUCCEEDED(S_FALSE) && !SUCCEEDED(E_FAIL));
"""


def test_numbers(tmp_path: Path) -> None:
    lines = [STRUCTURE]
    for name, value in OPERATORS.items():
        lines.append(f"static_assert(DML_OPERATOR_{name} == {value});")
    for prefix, names in ENUMERATIONS.items():
        lines += [f"static_assert({prefix}{name} == {value});" for name, value in names.items()]
    lines += [f"static_assert({name} == HRESULT({value}u));" for name, value in CODES.items()]
    source = tmp_path / "numbers.cpp"
    source.write_text("\n".join(lines))
    run([*COMPILE, "-fsyntax-only", str(source)])


def test_every_operator_type_has_its_number() -> None:
    text = (HEADERS / "DirectML.h").read_text()
    assert set(re.findall(r"^  DML_OPERATOR_(\w+) = ", text, re.MULTILINE)) == set(OPERATORS)


# As DirectML's header has them.
IDENTIFIERS = {
    "IUnknown": "00000000-0000-0000-c000-000000000046",
    "IDMLObject": "c8263aac-9e0c-4a2d-9b8e-007521a3317c",
    "IDMLDevice": "6dbd6437-96fd-423f-a98c-ae5e7c2a573f",
    "IDMLDeviceChild": "27e83142-8165-49e3-974e-2fd66e4cb69d",
    "IDMLPageable": "b1ab0825-4542-4a4b-8617-6dde6e8f6201",
    "IDMLOperator": "26caae7a-3081-4633-9581-226fbe57695d",
    "IDMLDispatchable": "dcb821a8-1039-441e-9f1c-b1759c2f3cec",
    "IDMLCompiledOperator": "6b15e56a-bf5c-4902-92d8-da3a650afea4",
    "IDMLOperatorInitializer": "427c1113-435c-469c-8676-4d5dd072f813",
    "IDMLBindingTable": "29c687dc-de74-4e3b-ab00-1168f2fc3cfc",
    "IDMLCommandRecorder": "e6857a76-2e3e-4fdd-bff4-5d2ba10fb453",
}


def test_identifiers(tmp_path: Path) -> None:
    lines = ["#include <DirectML.h>", "#include <cstdio>", "int main() {"]
    for name in IDENTIFIERS:
        lines.append(f"{{ const GUID g = __uuidof({name}); const auto* d = g.Data4;")
        lines.append('std::printf("%08x-%04x-%04x-", g.Data1, g.Data2, g.Data3);')
        lines.append('for (int i = 0; i < 8; ++i) std::printf(i == 2 ? "-%02x" : "%02x", d[i]);')
        lines.append('std::puts(""); }')
    source, program = tmp_path / "identifiers.cpp", tmp_path / "identifiers"
    source.write_text("\n".join([*lines, "}"]))
    run([*COMPILE, str(source), "-o", str(program)])
    assert run([str(program)]).stdout.split() == list(IDENTIFIERS.values())
