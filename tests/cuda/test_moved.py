"""Arrays described by `__cuda_array_interface__` that Python code moves while a call reads others.

They are read once more when all Python code of a call has run: what has moved is refused, and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _operators
from directml_support import desc_of
from harness import data, refused

SHAPE = (2, 3, 5, 8)
X = data(SHAPE, "float32")
CHANGED = "has been changed by Python code that ran while the call read its arguments"
ENTRIES = ("data", "shape", "strides", "typestr", "read-only")


class Moving:
    """An array whose interface says something else once it was moved; `act` runs at every read."""

    def __init__(self, of: Any, entry: str = "data") -> None:
        self.of, self.entry, self.is_moved = of, entry, False
        self.act: Callable[[], None] = lambda: None

    def move(self) -> None:
        self.is_moved = True

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.act()
        found = self.of.__cuda_array_interface__
        if not self.is_moved:
            return found
        a, b, c, d = found["shape"]
        changes = {
            "data": (found["data"][0] + 64, False),
            "shape": (a, b, c - 1, d),
            "strides": (0, *found["strides"][1:]),
            "typestr": "<i4",
        }
        if self.entry == "read-only":
            return {**found, "data": (found["data"][0], True)}
        return {**found, self.entry: changes[self.entry]}


class Number:
    def __init__(self, act: Callable[[], Any], value: int) -> None:
        self.act, self.value = act, value

    def __index__(self) -> int:
        self.act()
        return self.value


def untouched(y: Any) -> bool:
    return bool((y.memory.bytes() == 0xFF).all())


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("role", ["x", "grad"])
def test_inputs_that_integers_move(simulated: Any, role: str, entry: str) -> None:
    of = simulated.InterfaceArray
    x, grad, y = of.copy_of(X), of.copy_of(X), of.empty(SHAPE, "f4")
    moving = Moving({"x": x, "grad": grad}[role], entry)
    arrays = {"x": x, "grad": grad, role: moving}
    one = Number(moving.move, 1)
    with refused(ValueError, "max_pooling_grad: Input", f"Tensor ({role}", CHANGED):
        _operators.max_pooling_grad(arrays["x"], arrays["grad"], (one, 1), out=y)
    assert untouched(y)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("mover", ["scale", "out"])
def test_inputs_that_later_arrays_move(simulated: Any, mover: str, entry: str) -> None:
    of = simulated.InterfaceArray
    x, y = Moving(of.copy_of(X), entry), of.empty(SHAPE, "f4")
    arrays = {"scale": of.copy_of(X), "out": y}
    arrays[mover] = Moving(arrays[mover])
    arrays[mover].act = x.move
    with refused(ValueError, "mean_variance_normalization: InputTensor (x", CHANGED):
        _operators.mean_variance_normalization(x, arrays["scale"], axes=3, out=arrays["out"])
    assert untouched(y)


def test_outputs_that_the_last_reading_finds_elsewhere(simulated: Any) -> None:
    of = simulated.InterfaceArray
    y = of.empty(SHAPE, "f4")
    out = Moving(y)
    reads = []

    def act() -> None:
        reads.append(1)
        out.is_moved = len(reads) > 1

    out.act = act
    with refused(ValueError, "average_pooling: OutputTensor (out", CHANGED):
        _operators.average_pooling(of.copy_of(X), 1, out=out)
    assert untouched(y) and len(reads) == 2


@pytest.mark.parametrize("role", ["input", "gradient", "out", "workspace"])
def test_compiled_operators_read_again(simulated: Any, role: str) -> None:
    of = simulated.InterfaceArray
    desc = desc_of("MaxPoolingGrad")
    sizes = [tuple(t.Sizes) for t in (desc.InputTensor, desc.InputGradientTensor)]
    run = cudml.Operator(desc).compile("cuda")
    y = of.empty(sizes[0], "f4")
    arrays: dict[str, Any] = {
        "input": of.copy_of(data(sizes[0], "float32")),
        "gradient": of.copy_of(data(sizes[1], "float32")),
        "out": y,
        "workspace": of.empty((1, 1, 2, max(run.workspace_bytes, 1)), "u1"),
    }
    moving = arrays[role] = Moving(arrays[role], "data" if role != "workspace" else "read-only")
    reads = []

    def act() -> None:
        reads.append(1)
        moving.is_moved = len(reads) > 1

    moving.act = act
    with refused(ValueError, "MAX_POOLING_GRAD: ", CHANGED):
        run(arrays["input"], arrays["gradient"], out=arrays["out"], workspace=arrays["workspace"])
    assert untouched(y) and len(reads) == 2


def test_arrays_that_stay_are_taken(simulated: Any) -> None:
    """A description may be another object every time, and in other words."""
    of = simulated.InterfaceArray
    x, y = of.copy_of(X), of.empty(SHAPE, "f4")

    class Wordy(Moving):
        reads = 0

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            found, self.reads = super().__cuda_array_interface__, self.reads + 1
            if self.reads == 1:
                return found
            return {**found, "strides": None, "shape": tuple(map(np.int64, found["shape"]))}

    wordy = Wordy(x)
    assert _operators.average_pooling(wordy, 1, out=y) is y
    assert np.array_equal(y.home(), X) and wordy.reads == 2
