"""The library's own descriptions as an attacker writes them: taken and run, or refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudml
from cudml.directml import BufferTensorDesc, TensorDataType
from descriptor_cases import CASES
from harness import dtype_of
from repeat import keywords, line, noted
from tests.directml.test_fuzz import NAMESPACE, NUMBERS, REALS, TENSORS, hostile

FLOATS = ("FLOAT32", "FLOAT64", "FLOAT16", "BFLOAT16")
TENSOR_FIELDS = ("Tensor", "Mean", "Variance", "Count", "Sum", "M2", "A", "B")
NAMES = st.one_of(
    st.sampled_from(["relu", "gelu", "swish", "no such name"]),
    st.tuples(st.just("elu"), st.dictionaries(st.sampled_from(["alpha", "beta"]), REALS)),
    NUMBERS,
)


def tensors(sizes: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Absent, near to what is right, or anything at all."""
    near = st.builds(
        BufferTensorDesc,
        st.sampled_from(FLOATS),
        st.tuples(*(st.sampled_from(sorted({size, 1, 2})) for size in sizes)),
    )
    return st.one_of(st.none(), near, near, TENSORS)


def run_if_small(built: cudml.Operator, outputs: set[str]) -> None:
    inputs = []
    for field in built.desc.__dataclass_fields__:  # type: ignore[attr-defined]
        tensor = getattr(built.desc, field)
        if not isinstance(tensor, BufferTensorDesc):
            continue
        strides = tensor.Strides or (0,) * len(tensor.Sizes)
        reach = sum((n - 1) * s for n, s in zip(tensor.Sizes, strides, strict=True))
        span = reach + int(np.prod(tensor.Sizes))
        if span > 10**5:
            return
        if field in outputs:
            continue
        assert isinstance(tensor.DataType, TensorDataType)
        array = np.ones(tensor.Sizes, dtype_of(tensor.DataType.name.lower()))
        if tensor.Strides is not None:
            memory, steps = np.ones(span, array.dtype), [s * array.itemsize for s in strides]
            array = np.lib.stride_tricks.as_strided(memory, tensor.Sizes, steps)
        inputs.append(array)
    built.compile("cpu")(*inputs)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)
@given(draw=st.data())
def test_hostile_descriptions(name: str, draw: st.DataObject) -> None:
    desc = CASES[name]("float32").desc()
    fields = list(desc.__dataclass_fields__)
    chosen = draw.draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique=True))
    changes = {}
    for field in chosen:
        values = hostile(field)
        if field.endswith(TENSOR_FIELDS):
            sizes = getattr(getattr(desc, field), "Sizes", (2, 3, 5))
            values = tensors(tuple(sizes))
        elif field == "FusedActivation":
            values = NAMES
        changes[field] = draw.draw(values, label=field)
    try:
        again(name, **changes)
    except Exception as error:
        failure = AssertionError(f"{type(error).__name__}: {error}")
        call = f"again({name!r}{keywords(changes)})"
        raise noted(failure, line("tests.descriptors.test_fuzz", call, NAMESPACE)) from error


def again(name: str, **changes: Any) -> None:
    """Builds a description with changes; what is taken runs, what is refused is so in our words."""
    case = CASES[name]("float32")
    try:
        built = case.operator(**changes)
    except (TypeError, ValueError) as error:
        assert str(error).startswith(f"{name.split()[0]}: "), str(error)
        return
    absent = {f"{kind}GradientTensor" for kind in ("Output", "Scale", "Bias")}
    run_if_small(built, {*case.outputs, *absent})
