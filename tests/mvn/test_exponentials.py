"""Activations that take an exponential, and their slopes, by vectors: over the whole range of their
argument, and the same bits wherever an element stands in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml import reference
from harness import check
from mvn_support import bits
from tests.cpu.test_isa import LEVELS, needs

NEITHER: dict[str, Any] = {"axes": 0, "use_mean": False, "use_variance": False}
ONE = ("contiguous",)
INF, NAN = np.inf, np.nan
KINDS: list[tuple[str, dict[str, float]]] = [
    ("gelu", {}), ("swish", {}), ("swish", {"sigmoid_input_scale": -1.5}), ("sigmoid", {}),
    ("tanh", {}), ("scaled_tanh", {"alpha": 2.0, "beta": 0.25}), ("softplus", {"steepness": 2.0}),
    ("parametric_softplus", {"alpha": 2.0, "beta": 0.5}), ("elu", {"alpha": 2.0}),
    ("scaled_elu", {}),
]  # fmt: skip
EDGES = [0.0, -0.0, INF, -INF, NAN, -3e38, 3e38, 1e-45, -1e-45, -14.5, -14.4, -13.2, 14.5, -88.5]


def arguments() -> np.ndarray:
    """Floats of every exponent, near numbers, and those where results end."""
    every = np.arange(0, 2**32, 2_097_143, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.linspace(-16, 16, 12001).astype(np.float32)
    far = np.linspace(-110, 110, 2001).astype(np.float32)
    return np.concatenate([every, near, far, np.array(EDGES, np.float32)])


@pytest.mark.core
@pytest.mark.decision("D-ACT-4", "D-ACT-5", "D-ACT-6", "D-ACT-8")
@pytest.mark.parametrize(("name", "parameters"), KINDS, ids=str)
def test_values(name: str, parameters: dict[str, float]) -> None:
    check("mean_variance_normalization", arguments(), activation=(name, parameters), layouts=ONE,
          **NEITHER)  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15")
@pytest.mark.parametrize(("name", "parameters"), KINDS, ids=str)
def test_slopes(name: str, parameters: dict[str, float]) -> None:
    x = arguments()
    check("mean_variance_normalization_grad", x, np.ones_like(x), activation=(name, parameters),
          layouts=ONE, **NEITHER)  # fmt: skip


def test_gelu_is_within_its_digits() -> None:
    """Eight units in the last place where x^2 does not magnify the rounding of x, and a slope
    within 3e-7."""
    x = np.linspace(-2, 8, 100_001).astype(np.float32)
    y, slope = (
        cudml.mean_variance_normalization(x, activation="gelu", **NEITHER),
        cudml.mean_variance_normalization_grad(x, np.ones_like(x), activation="gelu", **NEITHER)[0],
    )
    want = reference.mean_variance_normalization(x.astype("f8"), activation="gelu", **NEITHER)
    assert (np.abs(y - want) <= 8 * np.spacing(np.abs(want).astype("f4"))).all()
    steep = reference.mean_variance_normalization_grad(
        x.astype("f8"), np.ones(len(x)), activation="gelu", **NEITHER
    )[0]
    assert np.abs(slope - steep).max() <= 3e-7


# Rows of one number, of all lengths around whole vectors: one row of bits.
PLACES = """
import numpy as np
import cudml
from cudml import reference
from tests.mvn.test_exponentials import KINDS
def bits_of(x, kind):
    more = {"axes": 1, "use_mean": False, "use_variance": False, "activation": kind}
    y = cudml.mean_variance_normalization(x, **more)
    return y, cudml.mean_variance_normalization_grad(x, np.ones_like(x), **more)[0]
wrong = 0
for kind in KINDS:
    for value in (-0.3, 1.7, -6.2):
        want = [a.view("u4")[0, 0] for a in bits_of(np.full((1, 64), value, "f4"), kind)]
        for length in range(1, 67):
            for a, one in zip(bits_of(np.full((2, length), value, "f4"), kind), want):
                wrong += int((a.view("u4") != one).sum())
print(wrong)
"""


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("isa", LEVELS)
def test_every_place_of_a_row(isa: str) -> None:
    needs(isa)
    assert child_says(PLACES, CUDML_CPU_ISA=isa) == "0"


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "swish"])
def test_results_in_place(name: Any) -> None:
    x = np.linspace(-4, 4, 87).astype(np.float32)
    want = cudml.mean_variance_normalization(x, activation=name, **NEITHER)
    cudml.mean_variance_normalization(x, activation=name, out=x, **NEITHER)
    assert bits(x).tolist() == bits(want).tolist()
