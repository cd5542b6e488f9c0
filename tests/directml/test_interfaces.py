"""Operators through DirectML's interfaces: the specification's numbers, and Python's bits."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from cudml.directml import BufferTensorDesc
from directml_support import LEVELS, NAMES, SINCE, TRAINING, desc_of
from examples import EXAMPLES, Example
from tests.directml.programs import (
    HERE,
    POISON,
    Case,
    build,
    bytes_of,
    dtype_of,
    inputs_of,
    memory_of,
    outputs_of,
    run,
    view_of,
)
from tests.directml.test_program import operators
from tests.directml.versions import DESCRIBED, versions_of

FLOATS = ("FLOAT32", "FLOAT16")
INTEGERS = ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(HERE / "interfaces.cpp", tmp_path_factory.mktemp("interfaces"))


def example_cases(example: Example) -> list[Case]:
    arrays = [a for a in example.args if isinstance(a, np.ndarray)]
    described = versions_of(example)
    return [
        Case(desc, [memory_of(t, a) for t, a in zip(inputs_of(desc), arrays, strict=True)])
        for desc in described
    ]


def is_right(got: np.ndarray, want: np.ndarray, digits: int | None) -> bool:
    """As exact as printed, and as float32 is."""
    if got.dtype.kind == "u":
        return np.array_equal(got, want.astype(got.dtype))
    if digits is None:
        return np.array_equal(got, want.astype(got.dtype), equal_nan=True)
    room = 0.5000001 * 10.0**-digits + 4 * np.finfo(np.float32).eps * np.abs(want)
    return bool((np.abs(got.astype(np.float64) - want) <= room).all())


@pytest.mark.decision("D-VER-4")
@pytest.mark.parametrize("op", sorted({example.op for example in EXAMPLES} & {*DESCRIBED}))
def test_the_specifications_examples(program: Path, op: str) -> None:
    cases = [(e, case) for e in EXAMPLES if e.op == op for case in example_cases(e)]
    results = run(program, [case for _, case in cases])
    for (example, case), outputs in zip(cases, results, strict=True):
        for got, described, want in zip(
            outputs, outputs_of(case.desc), example.expected, strict=False
        ):
            values = view_of(described, got)
            label = f"{case.desc._dml_name} of {example.id}"
            assert is_right(values, want, example.digits), f"{label}: {values} for {want}"


def test_the_examples_are_of_every_version() -> None:
    described = {desc._dml_name for example in EXAMPLES for desc in versions_of(example)}
    assert described == {NAMES[name] for name in SINCE if name not in TRAINING}


def random_memory(tensor: BufferTensorDesc, rng: np.random.Generator) -> np.ndarray:
    """Values everywhere, in the gaps between strided elements too."""
    dtype, size = dtype_of(tensor), bytes_of(tensor)
    if dtype.kind == "f":
        values = rng.normal(0.5, 3, size // dtype.itemsize).astype(dtype)
    else:
        values = rng.integers(0, 256, size // dtype.itemsize * dtype.itemsize, np.uint8)
    memory = np.zeros(size, np.uint8)
    written = np.frombuffer(values.tobytes(), np.uint8)
    memory[: len(written)] = written
    return memory


def random_case(desc: Any, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    return Case(desc, [random_memory(tensor, rng) for tensor in inputs_of(desc)])


def by_python(case: Case) -> list[np.ndarray]:
    """The bytes of every output, what lies between its elements included."""
    memories = [np.full(bytes_of(tensor), POISON, np.uint8) for tensor in outputs_of(case.desc)]
    views = [view_of(t, m) for t, m in zip(outputs_of(case.desc), memories, strict=True)]
    inputs = [view_of(t, m) for t, m in zip(inputs_of(case.desc), case.inputs, strict=True)]
    compiled = cudml.Operator(case.desc).compile("cpu")
    compiled(*inputs, out=views[0] if len(views) == 1 else tuple(views))
    return memories


def check_bits(program: Path, cases: list[Case]) -> None:
    for case, outputs in zip(cases, run(program, cases), strict=True):
        for got, want in zip(outputs, by_python(case), strict=True):
            assert got.tobytes() == want.tobytes(), repr(case.desc)


def types_of(name: str) -> tuple[str, ...]:
    if name.startswith("Padding"):
        return (*FLOATS, "FLOAT64", *INTEGERS)
    if name in ("MaxPooling", "MaxPooling1", "MaxPooling2", "MaxUnpooling"):
        return (*FLOATS, *INTEGERS)
    return FLOATS


def ranks_of(name: str) -> range:
    if name in ("MeanVarianceNormalization", "MaxUnpooling"):
        return range(4, 5)
    return range(4, 6) if "Pooling" in name else range(1, 9)


@pytest.mark.parametrize("name", SINCE)
def test_bits_are_pythons(program: Path, name: str) -> None:
    described = itertools.product(types_of(name), ranks_of(name))
    check_bits(
        program,
        [random_case(desc_of(name, *kind), seed) for seed, kind in enumerate(described)],
    )


def test_bits_of_wider_descriptors_are_pythons(program: Path) -> None:
    """Indices, dilations, strided outputs, broadcast scales, activations."""
    described = [operator.desc for operator in operators()]
    check_bits(program, [random_case(desc, seed) for seed, desc in enumerate(described)])


def test_tensors_owned_by_the_operator(program: Path) -> None:
    """They are handed over once, and the program overwrites them before it executes."""
    cases = []
    for seed, operator in enumerate(operators()):
        names = [n for n in operator.desc.__dataclass_fields__ if n.endswith("Tensor")]
        given = [n for n in names if getattr(operator.desc, n) and not n.startswith("Output")]
        for count in range(1, len(given) + 1):
            for chosen in itertools.combinations(given, count):
                owned = {
                    name: dataclasses.replace(getattr(operator.desc, name), Flags=1)
                    for name in chosen
                }
                cases.append(random_case(dataclasses.replace(operator.desc, **owned), seed))
    assert len(cases) > len(operators())
    check_bits(program, cases)


@pytest.mark.decision("D-FL-1")
def test_operators_take_what_the_newest_level_takes(program: Path) -> None:
    """WRAP came with it."""
    assert LEVELS[-1] == "6_4"
    check_bits(program, [random_case(desc_of("Padding", PaddingMode="WRAP"), 1)])
