"""The suite's gradients and steps of training: what they write is judged, and peers agree."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

from folders import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
arrays_of, cudml_calls, device_cpu, problems, usual, verify = map(
    importlib.import_module,
    ("arrays", "contenders.cudml_calls", "device_cpu", "problems", "usual", "verify"),
)
sys.path.remove(str(BENCHMARKS))
HAS_BFLOAT16 = importlib.util.find_spec("ml_dtypes") is not None
Problem = Any

SMALL = {
    "53 LayerNorm + grad, 8192x4096, float32 C": (5, 70),
    "57 LayerNorm+GELU + grad, 8x16000x512, float32 C": (2, 3, 40),
    "59 RMSNorm + grad, 8192x4096, float32 C": (5, 70),
    "60 RMSNorm+SiLU grad, 1x96x4x480x832, bfloat16 L": (2, 6, 3, 4, 5),
    "62 GroupNorm+SiLU + grad, 2x320x64x64, float16 L": (2, 3, 4, 5, 6),
    "65 BatchNorm + grad, 32x64x112x112, float32 C": (3, 4, 5, 6),
    "69 InstanceNorm+LReLU + grad, 2x32x96x96x96, float32 C": (2, 3, 4, 5, 6),
    "71 max 3x3/2 + grad, 32x64x112x112, float32 L": (2, 3, 9, 8),
    "76 average 3x3/2 + grad, 64x240x28x28, float32 C": (2, 3, 9, 8),
    "80 L2 global + grad, 32x512x30x40, float32 C": (2, 3, 4, 5),
    "82 unpool+uint32 2x2/2, 16x64x256x256, float32 C": (3, 2, 6, 8),
    "84 edge 1 + grad, 2x32x48x96x96, float32 C": (2, 3, 4, 5, 6),
    "139 max grad 3/2, 2x512x128, float32 C": (2, 3, 9),
    "141 average grad 3/2, 2x512x128, float32 C": (2, 3, 10),
}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("52 LayerNorm grad, 8192x768, float32 C", 4 * (3 * 8192 * 768 + 2 * 8192 + 3 * 768)),
        ("59 RMSNorm + grad, 8192x4096, bfloat16 C", 2 * (5 * 2**25 + 3 * 4096) + 2 * 4 * 8192),
        (
            "69 InstanceNorm+LReLU + grad, 2x32x96x96x96, float16 C",
            2 * (5 * 64 * 96**3 + 6 * 32) + 4 * 4 * 64,
        ),
        ("73 max 2x2/2 + grad, 32x64x224x224, float32 C", 4 * 2048 * (3 * 224**2 + 2 * 112**2)),
        ("79 L2 grad global, 32x512x30x40, float16 C", 2 * 32 * 512 * (2 * 1200 + 2)),
        ("82 unpool+uint32 2x2/2, 16x64x256x256, float16 C", 2**10 * (2 * 2**16 + 6 * 2**14)),
    ],
)
def test_compulsory_bytes(name: str, size: int) -> None:
    (problem,) = (p for p in problems.problems() if p.name == name)
    assert problem.bytes == size


def smaller(name: str) -> Problem:
    all_ = (*problems.problems(), *problems.problems(cases=usual.usual()))
    (problem,) = (p for p in all_ if p.name == name)
    return dataclasses.replace(problem, shape=SMALL[name])


def written_by_cudml(problem: Problem) -> Any:
    arrays = arrays_of.numpy_arrays(problem)
    cudml_calls.ways(arrays)["out="]()
    return arrays


@pytest.mark.parametrize("name", SMALL)
def test_every_wrong_output_of_a_gradient_is_found(name: str) -> None:
    """Of each call of a step, and of the sums that no part of x shows."""
    problem = smaller(name)
    if problem.dtype == "bfloat16" and not HAS_BFLOAT16:
        pytest.skip("ml_dtypes is not installed")
    arrays = written_by_cudml(problem)
    assert verify.against_reference(arrays, np.asarray) == ""
    for output in problem.outputs:
        wrong = arrays.base[output].reshape(-1)[-1:]
        right = wrong.copy()
        wrong += wrong.dtype.type(1)
        assert "expected" in verify.against_reference(arrays, np.asarray), output
        arrays_of.poison(wrong)
        assert verify.against_reference(arrays, np.asarray), output
        wrong[...] = right
    assert verify.against_reference(arrays, np.asarray) == ""


@pytest.mark.parametrize("name", SMALL)
def test_pytorch_agrees_on_gradients(name: str) -> None:
    pytest.importorskip("torch")
    problem = smaller(name)
    arrays = written_by_cudml(problem)
    own = verify.sampled(problem, arrays.results(), np.asarray)
    found = device_cpu.Field()
    device_cpu._offer_torch(found, arrays)
    assert found.contenders and not found.absent, found.absent
    for one in found.contenders:
        theirs = verify.sampled(problem, one.logical(one.call()), np.asarray)
        assert verify.against(problem, theirs, own) == "", one.way
        assert verify.against(problem, theirs + 1, own), one.way
