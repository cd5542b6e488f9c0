"""A C++ program and Python get the same bits from every version of every operator."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import cudml
from cudml import directml as dml
from library_support import built, run

SOURCE = Path(__file__).parent / "bits.cpp"
WINDOW: dict[str, Any] = {
    "Strides": [2, 1],
    "WindowSize": [3, 2],
    "StartPadding": [1, 0],
    "EndPadding": [0, 1],
}
DILATED: dict[str, Any] = {**WINDOW, "Dilations": [1, 3]}
PADS: dict[str, Any] = {"StartPadding": [0, 1, 2, 9], "EndPadding": [1, 0, 3, 8]}
X, Y, Z = [2, 3, 7, 8], [2, 3, 3, 8], [2, 3, 3, 6]
NHWC = [168, 1, 24, 3]


def tensor(sizes: list[int], dtype: str = "FLOAT32", strides: list[int] | None = None) -> Any:
    return dml.BufferTensorDesc(dtype, sizes, strides)


def pooling() -> list[Any]:
    x, y, dilated = tensor(X), tensor(Y), tensor(Z)
    nhwc, halves, pooled = tensor(X, strides=NHWC), tensor(X, "FLOAT16"), tensor(Z, "FLOAT16")
    wide = tensor(Z, "UINT64", [54, 1, 18, 3])
    return [
        dml.MaxPoolingOperatorDesc(InputTensor=x, OutputTensor=y, **WINDOW),
        dml.MaxPooling1OperatorDesc(
            InputTensor=nhwc, OutputTensor=y, OutputIndicesTensor=tensor(Y, "UINT32"), **WINDOW
        ),
        dml.MaxPooling2OperatorDesc(
            InputTensor=x, OutputTensor=dilated, OutputIndicesTensor=wide, **DILATED
        ),
        dml.MaxPooling2OperatorDesc(
            InputTensor=tensor(X, "UINT8"),
            OutputTensor=tensor(Z, "UINT8"),
            OutputIndicesTensor=None,
            **DILATED,
        ),
        dml.MaxPoolingGradOperatorDesc(
            InputTensor=x, InputGradientTensor=dilated, OutputGradientTensor=nhwc, **DILATED
        ),
        dml.AveragePoolingOperatorDesc(
            InputTensor=x, OutputTensor=y, IncludePadding=True, **WINDOW
        ),
        dml.AveragePooling1OperatorDesc(
            InputTensor=halves, OutputTensor=pooled, IncludePadding=False, **DILATED
        ),
        dml.AveragePoolingGradOperatorDesc(
            InputGradientTensor=y, OutputGradientTensor=x, IncludePadding=False, **WINDOW
        ),
        dml.LpPoolingOperatorDesc(InputTensor=x, OutputTensor=y, P=3, **WINDOW),
        dml.LpPooling1OperatorDesc(InputTensor=halves, OutputTensor=pooled, P=2, **DILATED),
    ]


def padding() -> list[Any]:
    small, large, strides = [2, 3, 4, 5], [3, 4, 9, 22], [792, 198, 1, 9]
    return [
        *(
            dml.PaddingOperatorDesc(
                InputTensor=tensor(small),
                OutputTensor=tensor(large),
                PaddingMode=mode,
                PaddingValue=2.5,
                **PADS,
            )
            for mode in ("CONSTANT", "EDGE")
        ),
        *(
            dml.Padding1OperatorDesc(
                InputTensor=tensor(small, "UINT16"),
                OutputTensor=tensor(large, "UINT16", strides),
                PaddingMode=mode,
                PaddingValueDataType="UINT16",
                PaddingValue=777,
                **PADS,
            )
            for mode in ("CONSTANT", "REFLECTION", "SYMMETRIC", "WRAP")
        ),
    ]


def normalization() -> list[Any]:
    x, halves = tensor([2, 3, 4, 5]), tensor([2, 3, 4, 5], "FLOAT16")
    channels, rows = tensor([1, 3, 1, 1]), tensor([1, 1, 4, 1])
    tanh = dml.ActivationScaledTanhOperatorDesc(Alpha=1.5, Beta=0.75)
    return [
        dml.MeanVarianceNormalizationOperatorDesc(
            InputTensor=x,
            ScaleTensor=channels,
            BiasTensor=channels,
            OutputTensor=x,
            CrossChannel=True,
            NormalizeVariance=True,
            Epsilon=1e-3,
            FusedActivation=tanh,
        ),
        dml.MeanVarianceNormalization1OperatorDesc(
            InputTensor=halves,
            ScaleTensor=None,
            BiasTensor=None,
            OutputTensor=halves,
            Axes=[1, 3],
            NormalizeVariance=False,
            Epsilon=1e-3,
            FusedActivation=None,
        ),
        dml.MeanVarianceNormalization2OperatorDesc(
            InputTensor=x,
            ScaleTensor=None,
            BiasTensor=rows,
            OutputTensor=x,
            Axes=[1, 3],
            UseMean=False,
            UseVariance=True,
            Epsilon=1e-2,
            FusedActivation=tanh,
        ),
    ]


def present(desc: Any, beginning: str) -> list[Any]:
    """The tensors of a descriptor that go in or come out, in the order of its fields."""
    inputs = ("InputTensor", "InputGradientTensor", "ScaleTensor", "BiasTensor")
    names = [name for name in desc.__dataclass_fields__ if name.endswith("Tensor")]
    wanted = [name for name in names if (name in inputs) == (beginning == "Input")]
    return [found for name in wanted if (found := getattr(desc, name)) is not None]


def room(of: Any) -> tuple[np.ndarray, np.ndarray]:
    """Memory from a tensor's first element to its last, and the tensor in it."""
    dtype = np.dtype(of.DataType.name.lower())
    strides = of.Strides or [int(np.prod(of.Sizes[d + 1 :])) for d in range(len(of.Sizes))]
    elements = 1 + sum((n - 1) * s for n, s in zip(of.Sizes, strides, strict=True))
    memory = np.zeros(elements, dtype)
    steps = [s * dtype.itemsize for s in strides]
    return memory, np.lib.stride_tricks.as_strided(memory, of.Sizes, steps)


def numbers(case: int, place: int, of: Any) -> np.ndarray:
    """What bits.cpp makes up."""
    memory, view = room(of)
    i = np.arange(memory.size, dtype=np.uint32)
    hashed = (np.uint32(case * 7919 + place * 104729) + i) * np.uint32(2654435761)
    if memory.dtype == np.float32:
        memory[:] = ((hashed >> 20).astype(np.float32) - 2048) / 64
    elif memory.dtype == np.float16:
        bits = (hashed >> 18 & 0x3FFF) | hashed >> 31 << 15
        memory[:] = bits.astype(np.uint16).view(np.float16)
    else:
        memory[:] = hashed >> 24
    return view


def python_bytes() -> list[bytes]:
    """The outputs of each case, gaps of strided ones included."""
    found = []
    for case, desc in enumerate([*pooling(), *padding(), *normalization()]):
        inputs = [numbers(case, k, of) for k, of in enumerate(present(desc, "Input"))]
        rooms = [room(of) for of in present(desc, "Output")]
        views = tuple(view for _, view in rooms)
        cudml.Operator(desc).compile("cpu")(*inputs, out=views if len(views) > 1 else views[0])
        found.append(b"".join(memory.tobytes() for memory, _ in rooms))
    return found


def test_the_same_bits(tmp_path: Path) -> None:
    program = built(SOURCE, tmp_path, "-fsanitize=address,undefined")
    done = subprocess.run([program], capture_output=True, timeout=60)
    text = done.stderr.decode()
    assert done.returncode == 0 and text.startswith("1 PADDING: DimensionCount is 3"), text
    want, at = python_bytes(), 0
    assert len(want) == 19 and all(any(part) for part in want)
    for case, part in enumerate(want):
        assert done.stdout[at : at + len(part)] == part, f"case {case} differs"
        at += len(part)
    assert at == len(done.stdout)


def test_explanations_are_pythons(tmp_path: Path) -> None:
    source = tmp_path / "explains.cpp"
    source.write_text("""
#include <cudml/cudml.hpp>
#include <cstdio>
int main() {
  const cudml::Tensor x(DML_TENSOR_DATA_TYPE_FLOAT32, {2, 3, 7, 8});
  const cudml::Tensor y(DML_TENSOR_DATA_TYPE_FLOAT32, {2, 3, 3, 8});
  const UINT strides[] = {2, 1}, window[] = {3, 2}, start[] = {1, 0}, end[] = {0, 1};
  const cudml::Operator op(DML_MAX_POOLING_OPERATOR_DESC{x, y, 2, strides, window, start, end});
  std::printf("%s%s\\n", op.describe().c_str(), op.compile().explain().c_str());
}
""")
    op = cudml.Operator(pooling()[0])
    want = f"{op._lowered.describe()}{op.compile('cpu').explain()}\n"
    assert run([str(built(source, tmp_path))]).stdout == want
