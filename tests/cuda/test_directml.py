"""DirectML's interfaces on the simulated CUDA device: numbers, owned tensors, whose memory."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

import simt_build
from directml_support import SINCE, desc_of
from examples import EXAMPLES
from folders import ROOT
from library_support import run as run_command
from tests.directml import programs
from tests.directml.programs import HERE, Case
from tests.directml.test_interfaces import check_bits, example_cases, is_right, random_case

EXACT = [name for name in SINCE if name.startswith(("MaxPooling", "Padding"))]
EXACT.remove("MaxPoolingGrad")


@functools.cache
def objects() -> list[str]:
    """Those of the simulated build, without what is Python's."""
    folder = simt_build.built(simt_build.VARIANT).parent
    text = (folder / "build.ninja").read_text()
    words = next(line for line in text.splitlines() if line.startswith("build module.so")).split()
    names = [word for word in words if word.endswith(".o") and "bindings" not in word]
    assert len(names) > 60 and any("com_device" in name for name in names)
    return [str(folder / name) for name in names]


def built(source: Path, folder: Path) -> Path:
    """A program for a CUDA device, of this source, the library and the stand-in runtime."""
    sanitize = simt_build.VARIANTS[simt_build.VARIANT]
    compile_words, link_words = simt_build.native_build().simt_commands(sanitize)
    program = folder / source.stem
    own = ["-DCUDML_TEST_CUDA", f"-I{ROOT / 'include' / 'cudml'}", f"-I{HERE}"]
    run_command([*compile_words, *own, "-c", str(source), "-o", f"{program}.o"], timeout=300)
    run_command(
        [*link_words, f"{program}.o", *objects(), "-lpthread", "-ldl", "-o", str(program)],
        timeout=300,
    )
    return program


@pytest.fixture
def program(simulated: Any, tmp_path: Path) -> Path:
    return built(HERE / "interfaces.cpp", tmp_path)


def owned(case: Case) -> Case:
    """The same with every input handed over at initialization."""
    changes = {
        name: dataclasses.replace(tensor, Flags=1)
        for name, tensor in vars(case.desc).items()
        if name.endswith("Tensor") and not name.startswith("Output") and tensor
    }
    return Case(dataclasses.replace(case.desc, **changes), case.inputs)


def test_numbers_and_bits(program: Path) -> None:
    cases = [(e, case) for e in EXAMPLES for c in example_cases(e) for case in (c, owned(c))]
    results = programs.run(program, [case for _, case in cases])
    for (example, case), outputs in zip(cases, results, strict=True):
        described = programs.outputs_of(case.desc)
        for got, tensor, want in zip(outputs, described, example.expected, strict=False):
            values = programs.view_of(tensor, got)
            label = f"{case.desc._dml_name} of {example.id}"
            assert is_right(values, want, example.digits), f"{label}: {values} for {want}"
    check_bits(program, [random_case(desc_of(name, "FLOAT16"), 5) for name in EXACT])


MISUSE = """
#include "com_support.h"
void Bind(const DML_BUFFER_BINDING& binding, UINT device) {
  const CUDML_DEVICE_DESC place = {CUDML_DEVICE_TYPE_CUDA, device};
  Ptr<IDMLDevice> dml;
  if (FAILED(DMLCreateDevice(&place, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&dml))))
    return void(std::puts(cudml_last_error()));
  const UINT sizes[] = {1, 1, 1, 4}, one[] = {1, 1}, none[] = {0, 0};
  const DML_BUFFER_TENSOR_DESC buffer = {
      DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, sizes, nullptr, 16, 0};
  const DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &buffer};
  const DML_MAX_POOLING_OPERATOR_DESC pooling = {&tensor, &tensor, 2, one, one, none, none};
  const DML_OPERATOR_DESC desc = {DML_OPERATOR_MAX_POOLING, &pooling};
  Ptr<IDMLOperator> op;
  Ptr<IDMLCompiledOperator> compiled;
  Ptr<IDMLBindingTable> table;
  Check(dml->CreateOperator(&desc, IID_PPV_ARGS(&op)), "CreateOperator");
  Check(dml->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE, IID_PPV_ARGS(&compiled)), "");
  const DML_BINDING_TABLE_DESC tableDesc = {compiled.get(), 0};
  Check(dml->CreateBindingTable(&tableDesc, IID_PPV_ARGS(&table)), "CreateBindingTable");
  const DML_BINDING_DESC input = {DML_BINDING_TYPE_BUFFER, &binding};
  table->BindInputs(1, &input);
  std::puts(FAILED(dml->GetDeviceRemovedReason()) ? cudml_last_error() : "bound");
}
int main() {
  const CUDML_BUFFER buffer = {reinterpret_cast<void*>(0x8000), 16};  // the simulation's host
  const Memory memory(16, 0);
  Bind({&buffer, 0, 16}, 0);
  Bind(memory.buffer_binding(), 0);
  Bind(memory.buffer_binding(), 1);
  Bind(memory.buffer_binding(), 1000);
}
"""


def test_memory_is_the_devices(simulated: Any, tmp_path: Path) -> None:
    source = tmp_path / "misuse.cpp"
    source.write_text(MISUSE)
    said = run_command([str(built(source, tmp_path))]).stdout.splitlines()
    gone = "the device has been removed: IDMLBindingTable::BindInputs: bindings[0].Buffer is memory"
    assert said[:3] == [
        f"{gone} of the host; it must be of cuda:0",
        "bound",
        f"{gone} of cuda:0; it must be of cuda:1",
    ]
    assert said[3].startswith("DMLCreateDevice: Ordinal is 1000; there are 2 CUDA devices")
