"""README's "The same operator": both columns run as they stand, and say the same."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from folders import ROOT
from tests.directml.programs import build

SECTION = (ROOT / "README.md").read_text().split("\n## The same operator")[1].split("\n## ")[0]

PROGRAM = """
#include <DirectML.h>

#include <cstdio>

DML_TENSOR_DESC described(DML_BUFFER_TENSOR_DESC& buffer, const UINT* sizes) {{
  buffer = {{}};
  buffer.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
  buffer.DimensionCount = 4;
  buffer.Sizes = sizes;
  buffer.TotalTensorSizeInBytes = 4ull * sizes[0] * sizes[1] * sizes[2] * sizes[3];
  return {{DML_TENSOR_TYPE_BUFFER, &buffer}};
}}

int main() {{
  const CUDML_DEVICE_DESC place = {{CUDML_DEVICE_TYPE_CPU, 0}};
  IDMLDevice* device = nullptr;
  DMLCreateDevice(&place, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device));
  DML_BUFFER_TENSOR_DESC buffers[2];
  const UINT in[] = {{{input}}}, out[] = {{{output}}};
  const DML_TENSOR_DESC input = described(buffers[0], in), output = described(buffers[1], out);
{code}
  std::printf("%s\\n", compiled ? "compiled" : "refused");
  if (compiled) compiled->Release();
  if (pool) pool->Release();
  device->Release();
}}
"""


def column(language: str) -> str:
    return SECTION.split(f"```{language}\n")[1].split("```")[0]


def test_the_column_on_the_left_compiles_and_runs(tmp_path: Path) -> None:
    """On tensors of the sizes that its comments tell, and not on others."""
    code = column("cpp")
    sizes = {name: re.search(rf"&{name};\s+// {{(.*)}}", code) for name in ("input", "output")}
    told = {name: found.group(1) for name, found in sizes.items() if found}
    for output, said in ((told["output"], "compiled\n"), ("1,64,58,56", "refused\n")):
        source = tmp_path / f"{said.strip()}.cpp"
        source.write_text(PROGRAM.format(code=code, input=told["input"], output=output))
        done = subprocess.run([build(source, tmp_path)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_the_column_on_the_right_runs() -> None:
    names: dict[str, Any] = {}
    exec(column("python"), names)
    assert names["y"].shape == (1, 64, 56, 56)


def test_both_columns_say_the_same() -> None:
    """Every field of the descriptor has the same value."""
    names: dict[str, Any] = {}
    exec(column("python"), names)
    code, desc = column("cpp"), names["desc"]
    arrays = {
        name: [int(n) for n in numbers.split(",")]
        for name, numbers in re.findall(r"(\w+)\[\] = {([\d, ]+)}", code)
    }
    fields = dict(re.findall(r"desc\.(\w+) = &?(\w+);", code))
    assert set(fields) == set(desc.__dataclass_fields__)
    for field in ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations"):
        assert list(getattr(desc, field)) == arrays[fields[field]], field
    for field in ("input", "output"):
        sizes = re.search(rf"&{field};\s+// {{(.*)}}", code)
        tensor = desc.InputTensor if field == "input" else desc.OutputTensor
        assert sizes and list(tensor.Sizes) == [int(n) for n in sizes.group(1).split(",")]
    assert fields["OutputIndicesTensor"] == "nullptr" and desc.OutputIndicesTensor is None
