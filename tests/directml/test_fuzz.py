"""Descriptors as an attacker writes them: taken and run, or refused in the library's own words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudml
from cudml import directml
from directml_support import LEVELS, NAMES, SINCE, desc_of
from repeat import keywords, line, noted

NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 4, 5, 7, 2**16, 2**31 - 1, 2**31, 2**32 - 1, -1, 2**32, 2**64, 1.5, True, None]
)
SEQUENCES = st.one_of(
    st.lists(st.integers(0, 4), max_size=9), st.lists(NUMBERS, max_size=9), NUMBERS, st.just("22")
)
TYPES = st.sampled_from([t.name for t in directml.TensorDataType])
TENSORS = st.builds(
    directml.BufferTensorDesc,
    TYPES,
    st.one_of(st.lists(st.integers(1, 5), max_size=6), SEQUENCES),
    st.one_of(st.none(), SEQUENCES),
    st.one_of(st.none(), NUMBERS),
    st.one_of(st.just(0), NUMBERS),
    st.one_of(st.just(0), NUMBERS),
)
REALS = st.one_of(st.floats(width=32), NUMBERS)
ACTIVATIONS = st.one_of(
    st.builds(directml.ActivationEluOperatorDesc, Alpha=REALS),
    st.builds(directml.ActivationSoftplusOperatorDesc, Steepness=REALS),
    st.builds(directml.ActivationTanhOperatorDesc, InputTensor=st.one_of(st.none(), TENSORS)),
    st.just(directml.ActivationSwishOperatorDesc()),
    NUMBERS,
)
GEOMETRY = {"Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations", "Axes"}


def hostile(field: str) -> st.SearchStrategy[Any]:
    """Values for a field, from plausible to absurd."""
    if field.endswith("Tensor"):
        return st.one_of(st.none(), TENSORS)
    if field in GEOMETRY:
        return st.one_of(st.lists(st.integers(0, 3), min_size=2, max_size=4), SEQUENCES)
    if field in ("Epsilon", "PaddingValue"):
        return st.one_of(REALS, st.binary(min_size=7, max_size=8))
    return {
        "PaddingMode": st.sampled_from(list(directml.PaddingMode)),
        "PaddingValueDataType": TYPES,
        "FusedActivation": ACTIVATIONS,
    }.get(field, NUMBERS)


def run_if_small(built: cudml.Operator) -> None:
    """Runs what was accepted, where its arrays are small."""
    inputs = []
    for field in built.desc.__dataclass_fields__:  # type: ignore[attr-defined]
        tensor = getattr(built.desc, field)
        if not isinstance(tensor, directml.BufferTensorDesc):
            continue
        sizes, strides = tensor.Sizes, tensor.Strides or (0,) * len(tensor.Sizes)
        span = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + int(np.prod(sizes))
        if span > 10**5:
            return
        if field.startswith("Output"):
            continue
        assert isinstance(tensor.DataType, directml.TensorDataType)
        array = np.ones(sizes, tensor.DataType.name.lower())
        if tensor.Strides is not None:
            memory, steps = np.ones(span, array.dtype), [s * array.itemsize for s in strides]
            array = np.lib.stride_tricks.as_strided(memory, sizes, steps)
        inputs.append(array)
    built.compile("cpu")(*inputs)


@pytest.mark.parametrize("name", SINCE)
@settings(max_examples=60)
@given(draw=st.data())
def test_hostile_descriptors(name: str, draw: st.DataObject) -> None:
    fields = list(desc_of(name).__dataclass_fields__)
    chosen = draw.draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique=True))
    changes = {field: draw.draw(hostile(field), label=field) for field in chosen}
    rank = draw.draw(st.sampled_from([4, 4, 4, 5, 2]))
    dtype = draw.draw(st.sampled_from(["FLOAT32", "FLOAT32", "FLOAT16", "UINT8"]))
    level = draw.draw(st.sampled_from([*LEVELS, *["6_4"] * 20]))
    try:
        again(name, level, dtype, rank, **changes)
    except Exception as error:
        call = f"again({name!r}, {level!r}, {dtype!r}, {rank}{keywords(changes)})"
        failure = AssertionError(f"{type(error).__name__}: {error}")
        raise noted(failure, line("tests.directml.test_fuzz", call, NAMESPACE)) from error


# What the reprs of descriptors and their fields say.
NAMESPACE = "from cudml.directml import *; from math import inf, nan; "


def again(name: str, level: str, dtype: str, rank: int, **changes: Any) -> None:
    """Builds a descriptor with changes; what is taken runs, what is refused is so in our words."""
    try:
        built = cudml.Operator(desc_of(name, dtype, rank, **changes), level)
    except (TypeError, ValueError) as error:
        assert str(error).startswith(f"{NAMES[name]}: "), str(error)
        return
    run_if_small(built)
