"""Compiled operators of the library's own descriptions: the functions' bits, wherever they go."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import descriptors, directml
from descriptor_cases import CASES, Case, tensor_of
from harness import FLOATS, refused

pytestmark = pytest.mark.core


def results_of(case: Case, got: Any) -> list[np.ndarray]:
    """As many arrays as the description has outputs: one, or a tuple."""
    if len(case.outputs) == 1:
        return [got]
    assert isinstance(got, tuple) and len(got) == len(case.outputs)
    return list(got)


def assert_bits(case: Case, got: list[np.ndarray]) -> None:
    for array, want in zip(got, case.outputs.values(), strict=True):
        assert array.dtype == want.dtype and array.shape == want.shape
        assert array.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CASES)
def test_the_bits_of_the_function(name: str, dtype: str) -> None:
    case = CASES[name](dtype)
    run = case.operator().compile("cpu")
    assert_bits(case, results_of(case, run(*case.arrays())))
    outs = tuple(np.full_like(want, 7) for want in case.outputs.values())
    out: Any = outs[0] if len(outs) == 1 else outs
    assert run(*case.arrays(), out=out) is out
    assert_bits(case, list(outs))
    assert repr(run).startswith(f"<cudml.CompiledOperator {name.split()[0]} on cpu: ")


@pytest.mark.parametrize("name", descriptors.__all__)
def test_defaults_are_the_functions(name: str) -> None:
    """What else has a default, tensors and counts, is absent by it."""
    kind = getattr(descriptors, name)
    names = {"UseMean": "use_mean", "UseVariance": "use_variance", "Epsilon": "epsilon"}
    parameters = inspect.signature(getattr(cudml, kind._dml_name)).parameters
    for field, given in kind.__dataclass_fields__.items():
        if field in names:
            default = parameters[names[field]].default
            assert given.default == default and type(given.default) is type(default)
        else:
            assert given.default is None or given.default is dataclasses.MISSING


@pytest.mark.parametrize("dtype", ["INT8", "UINT16", "INT32", "UINT64"])
def test_unpooling_takes_integers(dtype: str) -> None:
    case = CASES["max_unpooling"](dtype.lower())
    assert_bits(case, [case.operator().compile("cpu")(*case.arrays())])


@pytest.mark.parametrize("name", CASES)
def test_memory_in_another_order(name: str) -> None:
    """Strides of the description, inputs and outputs, are kept and change no bit of a copy."""
    case = CASES[name]("float64")
    turned = Case(
        case.kind,
        {n: np.asfortranarray(a) for n, a in case.inputs.items()},
        {n: np.asfortranarray(a) for n, a in case.outputs.items()},
        case.fields,
    )
    got = results_of(case, turned.operator().compile("cpu")(*turned.arrays()))
    for array, want in zip(got, turned.outputs.values(), strict=True):
        assert array.strides == want.strides
        np.testing.assert_allclose(array, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_memory_in_an_order_of_its_own(name: str, turned: int) -> None:
    """Every second tensor is stored the other way round: none has its neighbour's strides."""
    case = CASES[name]("float64")
    arrays = {**case.inputs, **case.outputs}
    mixed = {
        n: np.asfortranarray(a) if k % 2 == turned else a for k, (n, a) in enumerate(arrays.items())
    }
    inputs = {n: mixed[n] for n in case.inputs}
    turned_case = Case(case.kind, inputs, {n: mixed[n] for n in case.outputs}, case.fields)
    got = results_of(case, turned_case.operator().compile("cpu")(*turned_case.arrays()))
    for array, want in zip(got, turned_case.outputs.values(), strict=True):
        assert array.strides == want.strides
        np.testing.assert_allclose(array, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_descriptions_can_be_copied_and_pasted(name: str) -> None:
    desc = CASES[name]("float32").desc()
    text = repr(desc)
    names = vars(directml) | vars(descriptors)
    assert eval(text, names.copy()) == desc == pickle.loads(pickle.dumps(desc)) == copy.copy(desc)
    built = cudml.Operator(desc, "1_0")  # the level does not matter
    assert pickle.loads(pickle.dumps(built)).describe() == built.describe()
    lines = built.describe().splitlines()
    assert lines[0] == name.split()[0]
    for field in desc.__dataclass_fields__:
        if isinstance(getattr(desc, field), directml.BufferTensorDesc):
            assert any(line.startswith(f"  {field}: ") for line in lines)


@pytest.mark.parametrize("name", CASES)
def test_what_explains(name: str) -> None:
    run = CASES[name]("float32").operator().compile("cpu")
    explained = run.explain()
    assert explained.kernel and explained.bytes > 0
    assert str(explained)


def test_every_description_has_a_case() -> None:
    assert {case("float32").kind.__name__ for case in CASES.values()} == set(descriptors.__all__)
    for name in descriptors.__all__:
        assert callable(getattr(cudml, getattr(descriptors, name)._dml_name))


def test_three_outputs_are_a_tuple_of_three() -> None:
    case = CASES["normalization_statistics"]("float32")
    run = case.operator().compile("cpu")
    outs = [np.empty_like(a) for a in case.outputs.values()]
    assert run(*case.arrays(), out=outs) is outs
    assert_bits(case, outs)
    for wrong in (outs[0], outs[:2], (*outs, outs[0])):
        with refused(TypeError, "normalization_statistics: out is no triple; the descriptor has 3"):
            run(*case.arrays(), out=wrong)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        shared = list(outs)
        shared[second] = shared[first]
        names = list(case.outputs)
        with refused(ValueError, names[second], names[first]):
            run(*case.arrays(), out=shared)
    with refused(TypeError, "M2.DataType (out[2]) is float64; it must be float32"):
        run(*case.arrays(), out=(*outs[:2], outs[2].astype(np.float64)))


def test_normalize_may_write_where_it_reads() -> None:
    case = CASES["normalize"]("float32")
    run = case.operator().compile("cpu")
    x, *rest = (a.copy() for a in case.arrays())
    assert run(x, *rest, out=x) is x
    assert_bits(case, [x])
    grad = CASES["normalize_grad"]("float32")
    x, *rest = grad.arrays()
    outs = [np.empty_like(a) for a in grad.outputs.values()]
    with refused(ValueError, "normalize_grad: OutputGradientTensor", "InputTensor"):
        grad.operator().compile("cpu")(x, *rest, out=(x, *outs[1:]))


def test_inputs_are_counted_and_checked() -> None:
    case = CASES["normalize_grad"]("float32")
    run = case.operator().compile("cpu")
    arrays = case.arrays()
    with refused(TypeError, "normalize_grad: 8 inputs are given; the descriptor has 9"):
        run(*arrays[:-1])
    with refused(TypeError, "ProductSum.DataType of the array is float32; the descriptor says"):
        run(*arrays[:-1], arrays[-1].astype(np.float32))
    with refused(ValueError, "Count.Sizes[0] of the array is 1; the descriptor says 2"):
        run(*arrays[:6], arrays[6][:1], *arrays[7:])


def test_the_tensor_of_an_array() -> None:
    assert tensor_of(np.zeros((2, 3), "f4").T).Strides == (1, 3)
