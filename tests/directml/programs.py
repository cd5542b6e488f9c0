"""Programs in C++ that use DirectML's interfaces: how they are built, and what they are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cudml import directml
from folders import ROOT
from library_support import built

HERE = ROOT / "tests" / "directml"
HEADERS = ROOT / "include" / "cudml"
POISON = 0xA5
# Under these flags a program reports what it leaks.
WATCHED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


def build(source: Path, folder: Path, *flags: str) -> Path:
    """A program that uses the library and finds DirectML.h where DirectML's programs expect it."""
    return built(source, folder, f"-I{HEADERS}", f"-I{HERE}", "-lpthread", *flags)


@dataclass
class Case:
    """An operator and the bytes of its present inputs, in the order of the fields."""

    desc: Any
    inputs: list[np.ndarray]


def _tensors_of(desc: Any, is_output: bool) -> list[directml.BufferTensorDesc]:
    names = [name for name in desc.__dataclass_fields__ if name.endswith("Tensor")]
    tensors = [getattr(desc, name) for name in names if name.startswith("Output") == is_output]
    return [tensor for tensor in tensors if tensor is not None]


def inputs_of(desc: Any) -> list[directml.BufferTensorDesc]:
    """Those that are present."""
    return _tensors_of(desc, is_output=False)


def outputs_of(desc: Any) -> list[directml.BufferTensorDesc]:
    return _tensors_of(desc, is_output=True)


def dtype_of(tensor: directml.BufferTensorDesc) -> np.dtype:
    assert isinstance(tensor.DataType, directml.TensorDataType)
    return np.dtype(tensor.DataType.name.lower())


def strides_of(tensor: directml.BufferTensorDesc) -> list[int]:
    """In bytes."""
    item = dtype_of(tensor).itemsize
    if tensor.Strides is not None:
        return [int(stride) * item for stride in tensor.Strides]
    sizes = [int(size) for size in tensor.Sizes]
    return [item * int(np.prod(sizes[d + 1 :])) for d in range(len(sizes))]


def bytes_of(tensor: directml.BufferTensorDesc) -> int:
    """TotalTensorSizeInBytes, the least one where it is left out."""
    if tensor.TotalTensorSizeInBytes is not None:
        return tensor.TotalTensorSizeInBytes
    reach = zip(tensor.Sizes, strides_of(tensor), strict=True)
    end = sum((int(size) - 1) * step for size, step in reach) + dtype_of(tensor).itemsize
    return (end + 3) // 4 * 4


def view_of(tensor: directml.BufferTensorDesc, memory: np.ndarray) -> np.ndarray:
    return np.ndarray(tuple(tensor.Sizes), dtype_of(tensor), memory, 0, tuple(strides_of(tensor)))


def memory_of(tensor: directml.BufferTensorDesc, values: np.ndarray) -> np.ndarray:
    """The bytes of a tensor with these values."""
    memory = np.zeros(bytes_of(tensor), np.uint8)
    view_of(tensor, memory)[...] = values
    return memory


def _tensor_text(tensor: directml.BufferTensorDesc | None) -> list[object]:
    if tensor is None:
        return ["-"]
    strides = [0] if tensor.Strides is None else [1, *tensor.Strides]
    sizes = list(tensor.Sizes)
    head = [int(tensor.DataType), int(tensor.Flags), len(sizes)]  # type: ignore[arg-type]
    return [*head, *sizes, *strides, bytes_of(tensor)]


def _activation_text(activation: Any) -> list[object]:
    if activation is None:
        return ["-"]
    fields = list(activation.__dataclass_fields__)[2:]  # after its tensors
    numbers = [float(np.float32(getattr(activation, field))) for field in fields]
    return [activation._dml_name, *[*numbers, 0.0, 0.0][:2]]


def _field_text(desc: Any, field: str) -> list[object]:
    value = getattr(desc, field)
    if field.endswith("Tensor"):
        return _tensor_text(value)
    if field == "FusedActivation":
        return _activation_text(value)
    if field == "PaddingValue" and hasattr(desc, "PaddingValueDataType"):
        raw = np.array(value).astype(desc.PaddingValueDataType.name.lower()).tobytes()
        return [int.from_bytes(raw, "little")]
    if field in ("PaddingValue", "Epsilon"):
        return [float(np.float32(value))]
    return list(value) if isinstance(value, tuple) else [int(value)]


def text_of(desc: Any) -> str:
    """A line: the operator's name, then its fields in their order.

    Tensors are a data type, flags, a rank with sizes, 0 or 1 with strides, and their bytes.
    """
    words: list[object] = [desc._dml_name]
    for field in desc.__dataclass_fields__:
        words += _field_text(desc, field)
    return " ".join(str(word) for word in words) + "\n"


def run(program: Path, cases: Sequence[Case]) -> list[list[np.ndarray]]:
    """The bytes of every case's outputs, by interfaces.cpp."""
    told = b"".join(
        text_of(case.desc).encode()
        + b"".join(memory.tobytes() for memory in case.inputs)
        + b"".join(bytes([POISON]) * bytes_of(tensor) for tensor in outputs_of(case.desc))
        for case in cases
    )
    done = subprocess.run([str(program)], input=told, capture_output=True, timeout=120)
    sys.stderr.write(done.stderr.decode())
    assert done.returncode == 0, done.stderr.decode()
    written = np.frombuffer(done.stdout, np.uint8)
    results, at = [], 0
    for case in cases:
        results.append([])
        for tensor in outputs_of(case.desc):
            results[-1].append(written[at : at + bytes_of(tensor)])
            at += bytes_of(tensor)
    assert at == len(written)
    return results
