"""Compiled operators of the library's own descriptions, and batch normalization, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from descriptor_cases import CASES, Case
from directml_support import TRAINING, desc_of
from harness import data


@pytest.fixture
def device(simulated: Any) -> Any:
    return simulated


def assert_close(got: Any, want: Any) -> None:
    for y, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(y.home(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_on_the_device(device: Any, name: str) -> None:
    """With and without out, and with a workspace of the caller's where one is needed."""
    case = CASES[name]("float32")
    run = case.operator().compile("cuda")
    there = [device.InterfaceArray.copy_of(a) for a in case.arrays()]
    want = list(case.outputs.values())
    got = run(*there)
    assert_close([got] if len(want) == 1 else got, want)
    outs = tuple(device.InterfaceArray.empty(a.shape, a.dtype) for a in want)
    out: Any = outs[0] if len(outs) == 1 else outs
    workspace = device.InterfaceArray.empty((max(run.workspace_bytes, 1),), "u1")
    assert run(*there, out=out, workspace=workspace) is out
    assert_close(outs, want)
    assert run.explain().device == "cuda:0"


def training_case(name: str) -> Case:
    """One of DirectML's descriptors with arrays, and what it gives on the CPU."""
    desc = desc_of(name)
    tensors = {f: getattr(desc, f) for f in desc.__dataclass_fields__ if f.endswith("Tensor")}
    inputs = {}
    for seed, (field, tensor) in enumerate(tensors.items()):
        if not field.startswith("Output"):
            kind = "uint32" if field == "IndicesTensor" else "float32"
            inputs[field] = abs(data(tuple(tensor.Sizes), kind, seed))
    got = cudml.Operator(desc).compile("cpu")(*inputs.values())
    results = got if isinstance(got, tuple) else (got,)
    outputs = [field for field in tensors if field.startswith("Output")]
    fields = {f: getattr(desc, f) for f in desc.__dataclass_fields__ if f not in tensors}
    return Case(type(desc), inputs, dict(zip(outputs, results, strict=True)), fields)


@pytest.mark.parametrize("name", TRAINING)
def test_directml_s_on_the_device(device: Any, name: str) -> None:
    case = training_case(name)
    run = case.operator().compile("cuda")
    got = run(*(device.InterfaceArray.copy_of(a) for a in case.arrays()))
    assert_close([got] if len(case.outputs) == 1 else got, case.outputs.values())
