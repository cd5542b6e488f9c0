"""Wrong descriptors and executions give codes and messages from C, and never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

import simt_build
from folders import ROOT
from library_support import INCLUDES, STRICT, built, run

ARGUMENT, TYPE = 1, 2
SOURCE = Path(__file__).parent / "hostile.c"
# By case of hostile.c: the status, and what its message holds.
REFUSED = {
    "no descriptor": (ARGUMENT, "cudml_operator_create: desc is null"),
    "no place for the operator": (ARGUMENT, "cudml_operator_create: op is null"),
    "unknown level": (ARGUMENT, "DML_FEATURE_LEVEL is 30583; it must be one of 1_0"),
    "unknown operator": (ARGUMENT, "Type is -7; it must be one of MAX_POOLING"),
    "an activation as operator": (ARGUMENT, "Type is ACTIVATION_RELU"),
    "no struct": (ARGUMENT, "MAX_POOLING2: Desc is null"),
    "no input": (ARGUMENT, "MAX_POOLING2: InputTensor is null"),
    "unknown kind of tensor": (ARGUMENT, "InputTensor.Type is 9"),
    "no buffer": (ARGUMENT, "InputTensor.Desc is null"),
    "unknown element type": (ARGUMENT, "InputTensor.DataType is 77; it must be one of FLOAT32"),
    "element type of another level": (TYPE, "InputTensor.DataType is FLOAT64; at feature level"),
    "a rank beyond arrays": (ARGUMENT, "InputTensor.DimensionCount is 4294967295"),
    "no sizes": (ARGUMENT, "InputTensor.Sizes is null"),
    "huge sizes": (ARGUMENT, "a tensor has at most 4294967295 elements"),
    "huge strides": (ARGUMENT, "InputTensor.TotalTensorSizeInBytes is 192"),
    "too few bytes": (ARGUMENT, "InputTensor.TotalTensorSizeInBytes is 4; sizes"),
    "a count beyond arrays": (ARGUMENT, "DimensionCount is 2147483648; it must be 2"),
    "no windows": (ARGUMENT, "WindowSize is null; it must point to 2 entries"),
    "strides of 0": (ARGUMENT, "Strides[0] is 0"),
    "huge pads": (ARGUMENT, "EndPadding[0] is 4294967295"),
    "an axis count beyond arrays": (ARGUMENT, "AxisCount is 4294967295"),
    "an activation without a struct": (ARGUMENT, "FusedActivation.Desc is null"),
    "an activation that is its own struct": (ARGUMENT, "FusedActivation.InputTensor is given"),
    "a normalization fused into itself": (ARGUMENT, "FusedActivation is MEAN_VARIANCE_NORM"),
    "an unknown activation": (ARGUMENT, "FusedActivation is of type 1000"),
    "no dilations": (ARGUMENT, "Dilations is null"),
    "compile nothing": (ARGUMENT, "cudml_operator_compile: op is null"),
    "no device name": (ARGUMENT, "cudml_operator_compile: device is null"),
    "unknown device": (ARGUMENT, 'device is "gpu\\x0a\\x80"; it must be "cpu"'),
    "no place for the compiled": (ARGUMENT, "compiled is null"),
    "describe nothing": (ARGUMENT, "cudml_operator_describe: op is null"),
    "no place for a text": (ARGUMENT, "cudml_operator_describe: text is null"),
    "too many threads": (ARGUMENT, "threads is 2147483648; it must be between 1 and 1024"),
    "no threads": (ARGUMENT, "threads is 0; it must be between 1 and 1024"),
    "no place for threads": (ARGUMENT, "cudml_get_num_threads: threads is null"),
    "properties without a size": (ARGUMENT, "properties.size is 0; it must be at least 40"),
    "a tensor without a size": (ARGUMENT, "tensor.size is 0; it must be at least"),
    "an input that is not there": (
        ARGUMENT,
        "cudml_compiled_input: index is 1; it must be below 1",
    ),
    "an output that is not there": (ARGUMENT, "cudml_compiled_output: index is 4294967295"),
    "no tensor": (ARGUMENT, "cudml_compiled_output: tensor is null"),
    "explain nothing": (ARGUMENT, "cudml_compiled_explain: compiled is null"),
    "nothing to execute": (ARGUMENT, "cudml_execute: compiled is null"),
    "no execution": (ARGUMENT, "cudml_execute: execution is null"),
    "an execution without a size": (ARGUMENT, "execution.size is 0; it must be at least"),
    "an execution of a huge size": (ARGUMENT, "it must be at most 4096"),
    "no inputs": (ARGUMENT, "execution.inputs is null"),
    "no outputs": (ARGUMENT, "execution.outputs is null"),
    "too many inputs": (ARGUMENT, "2 inputs are given; the descriptor has 1 (InputTensor)"),
    "too few outputs": (ARGUMENT, "0 outputs are given; the descriptor has 1 (OutputTensor)"),
    "a stream on the CPU": (ARGUMENT, "on the CPU it must be null"),
    "persistent memory": (ARGUMENT, "execution.persistent is given"),
    "no memory": (ARGUMENT, "MAX_POOLING2: InputTensor has no memory"),
    "an odd address": (ARGUMENT, "it must be a multiple of 4, the size of an element"),
    "an output in the input": (ARGUMENT, "OutputTensor"),
    "a newer field": (ARGUMENT, "execution has fields that this version does not know"),
}
GOOD = {
    "nothing wrong",
    "a good descriptor",
    "a good compilation",
    "a newer struct",
    "a good execution",
}


def check(text: str) -> None:
    lines = [line.split("|", 2) for line in text.splitlines()]
    assert all(len(parts) == 3 for parts in lines), text
    found = {name: (int(status), message) for name, status, message in lines}
    assert {name for name, (status, _) in found.items() if status == 0} == GOOD, text
    assert found.keys() == REFUSED.keys() | GOOD
    for name, (status, fragment) in REFUSED.items():
        assert found[name][0] == status and fragment in found[name][1], (name, found[name])


@pytest.mark.core
def test_every_refusal(tmp_path: Path) -> None:
    check(run([str(built(SOURCE, tmp_path))]).stdout)


@pytest.mark.long
def test_every_refusal_under_sanitizers(tmp_path: Path) -> None:
    """All that reads descriptors, with bounds and undefined behaviour watched; the loops are the
    product's."""
    native = simt_build.native_build()
    product = native.folder_of("_core")
    kept = ("cpu_", "cpp/", "plans/cpu_")
    ninja = native.core_ninja(product)
    objects = [product / name for name in ninja.objects if name.startswith(kept)]
    if not objects or not all(path.exists() for path in objects):
        pytest.skip("build/ has no objects of the product")
    watched = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-O0"]
    flags = [*watched, *INCLUDES, f"-I{ROOT / 'csrc'}"]
    program, main, parts = tmp_path / "hostile", tmp_path / "main.o", tmp_path / "parts.h"
    run(["gcc", "-std=c11", *STRICT, *watched, *INCLUDES, "-c", str(SOURCE), "-o", str(main)])
    rooms = native.RECIPE["ROOMS"]
    sources = [str(path) for room in (*rooms, "cuda") for path in native.sources(room)]
    words = [*native.compiler()[-1:], "-std=c++20", *flags]
    # What all of them include takes longer than most of them.
    parts.write_text("".join(f"#include <{name}>\n" for name in native.PLANS_PARTS))
    run([*words, "-x", "c++-header", str(parts), "-o", f"{parts}.gch"])
    words += ["-include", str(parts), *sources, str(main)]
    run([*words, *map(str, objects), "-lpthread", "-ldl", "-o", str(program)], timeout=300)
    check(run([str(program)], ASAN_OPTIONS="detect_leaks=1").stdout)
