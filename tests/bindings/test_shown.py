"""How the package's own messages show values, and what its exception holds."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cudml
from harness import refused


class Shaped:
    """Something with a shape of its own, and a long text."""

    shape: Any = "square"

    def __repr__(self) -> str:
        return "s" * 300


class Square(Shaped):
    shape = (2, 2)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a" * 158, f"'{'a' * 158}'; it must be one of"),
        ("a" * 159, f"'{'a' * 159}…; it must be one of"),
        (np.arange(3), "array([0, 1, 2]) (ndarray)"),
        (np.zeros((2, 2)), "an array of shape (2, 2) (ndarray)"),
        (Square(), "an array of shape (2, 2) (Square)"),
        (Shaped(), f"{'s' * 160}… (Shaped)"),
        (type("K" * 161, (), {"__repr__": lambda self: "k"})(), f"k ({'K' * 160}…)"),
    ],
)
def test_long_values_are_cut(value: Any, said: str) -> None:
    with refused((TypeError, ValueError), f"explain: name is {said}"):
        cudml.explain(value)


class LateCudaError(cudml.CudaError):
    """One of a caller's own."""


@pytest.mark.parametrize("kind", [cudml.CudaError, LateCudaError])
def test_errors_of_cuda_say_what_failed(kind: type[cudml.CudaError]) -> None:
    error = kind("no memory", 2, "cudaErrorMemoryAllocation", "cudaMalloc")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert type(found) is kind and str(found) == "no memory"
        assert (found.code, found.name, found.call) == (
            2,
            "cudaErrorMemoryAllocation",
            "cudaMalloc",
        )
    assert (kind("no device").code, kind("no device").call) == (None, None)
    assert cudml.CudaError.__module__ == "cudml"
