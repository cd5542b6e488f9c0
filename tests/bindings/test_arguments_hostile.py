"""Integers and sequences that run code while they are read: once each, before any array."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from directml_support import desc_of
from harness import data, refused

X = data((2, 3, 5, 7), "float32")
POOLED = cudml.max_pooling(X, 2)


class Number:
    """An integer that counts how often it was asked, and does something first."""

    def __init__(self, value: Any, act: Callable[[], Any] = lambda: None) -> None:
        self.value, self.act, self.asked = value, act, 0

    def __index__(self) -> Any:
        self.asked += 1
        self.act()
        return self.value


# Every argument that takes integers: a call that hands a list of them over.
ARGUMENTS: dict[str, tuple[list[int], Callable[[list[Any], Any], Any]]] = {
    "window_size": ([2, 2], lambda v, y: cudml.max_pooling(X, v, out=y)),
    "strides": ([1, 1], lambda v, y: cudml.max_pooling(X, 2, v, out=y)),
    "start_padding": ([0, 0], lambda v, y: cudml.max_pooling(X, 2, 1, v, out=y)),
    "end_padding": ([0, 0], lambda v, y: cudml.max_pooling(X, 2, 1, 0, v, out=y)),
    "dilations": ([1, 1], lambda v, y: cudml.max_pooling(X, 2, 1, 0, 0, v, out=y)),
    "output_sizes": ([4, 6], lambda v, y: cudml.max_pooling(X, 2, output_sizes=v, out=y)),
    "axes": ([2, 3], lambda v, y: cudml.max_pooling(X, 2, axes=v, out=y)),
    "input_sizes": (
        [2, 3, 5, 7],
        lambda v, y: cudml.average_pooling_grad(POOLED, v, 2, out=y),
    ),
    "padding": ([0, 0, 1, 0], lambda v, y: cudml.padding(X, v, 0, out=y)),
    "axes of normalization": (
        [2, 3],
        lambda v, y: cudml.mean_variance_normalization(X, axes=v, out=y),
    ),
}
every_argument = pytest.mark.parametrize("name", ARGUMENTS)


def wanted(name: str) -> np.ndarray:
    values, call = ARGUMENTS[name]
    return call(values, None)


@every_argument
def test_each_integer_is_asked_once(name: str) -> None:
    values, call = ARGUMENTS[name]
    numbers = [Number(v) for v in values]
    before = [sys.getrefcount(n) for n in numbers]
    assert call(numbers, None).tobytes() == wanted(name).tobytes()
    assert [n.asked for n in numbers] == [1] * len(numbers)
    assert [sys.getrefcount(n) for n in numbers] == before


def fail() -> None:
    raise LookupError("the integer's own words")


@every_argument
def test_integers_that_raise(name: str) -> None:
    """The integer's own exception, whole, and nothing written."""
    values, call = ARGUMENTS[name]
    y = np.full_like(wanted(name), -1)
    with refused(LookupError, "own words"):
        call([*values[:-1], Number(values[-1], fail)], y)
    assert (y == -1).all()


@every_argument
@pytest.mark.parametrize("answer", [None, 1.0, "2", 10**30, -(10**30)], ids=repr)
def test_integers_that_give_something_else(name: str, answer: Any) -> None:
    values, call = ARGUMENTS[name]
    y = np.full_like(wanted(name), -1)
    with refused((TypeError, ValueError, OverflowError)) as caught:
        call([*values[:-1], Number(answer)], y)
    assert not isinstance(caught.value, OverflowError), caught.value
    assert (y == -1).all()


@every_argument
def test_a_list_that_changes_while_it_is_read(name: str) -> None:
    """What it held at the start counts, or an exception says that it changed: never a crash."""
    values, call = ARGUMENTS[name]
    for change in ("clear", "grow", "replace"):
        numbers: list[Any] = []

        def act(numbers: list[Any] = numbers, change: str = change) -> None:
            if change == "clear":
                numbers.clear()
            elif change == "grow":
                numbers.extend([7] * 1000)
            else:
                numbers[:] = ["no integer"] * len(numbers)

        numbers += [Number(values[0], act), *values[1:]]
        y = np.full_like(wanted(name), -1)
        try:
            result = call(numbers, y)
        except (TypeError, ValueError) as error:
            assert "pybind11" not in str(error) and (y == -1).all()
        else:
            assert result.tobytes() == wanted(name).tobytes()


class Lying:
    """A sequence whose length and items do not agree."""

    def __init__(self, length: int, items: list[int]) -> None:
        self.length, self.items = length, items

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> int:
        return self.items[i]

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)


@every_argument
def test_sequences_that_lie_about_their_length(name: str) -> None:
    values, call = ARGUMENTS[name]
    for length in (0, 1, len(values) - 1, len(values) + 1, 2**31, sys.maxsize):
        y = np.full_like(wanted(name), -1)
        try:
            result = call(Lying(length, values), y)  # type: ignore[arg-type]
        except (TypeError, ValueError, IndexError):
            assert (y == -1).all()
        else:  # no axes at all, or one of them, may be meant
            meant = values[:length] if name.startswith("axes of") else values
            assert result.tobytes() == call(meant, None).tobytes()


@pytest.mark.bug("MEM-10")
def test_a_list_that_another_thread_changes() -> None:
    shared: list[Any] = [2, 2]
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            shared.append(3)
            shared[:] = [2, 2]

    other = threading.Thread(target=turn)
    other.start()
    try:
        for _ in range(3000):
            try:
                assert cudml.max_pooling(X, shared).tobytes() == POOLED.tobytes()
            except (TypeError, ValueError) as error:
                assert "max_pooling: " in str(error)
    finally:
        stop.set()
        other.join()


RESIZED = """
import numpy as np
import cudml
from tests.bindings.test_arguments_hostile import X, POOLED, Number

def outcome(y, act):
    try:
        cudml.max_pooling(x, [Number(2, act), 2], out=y)
    except ValueError as error:
        assert 'max_pooling: ' in str(error) or 'resize' in str(error), error
        return
    assert y.shape == POOLED.shape and y.tobytes() == POOLED.tobytes()

for target in ('x', 'y'):
    for way in ('resize', 'shape', 'transposed', 'read-only'):
        x, y = X.copy(), np.full_like(POOLED, -1)
        a = {'x': x, 'y': y}[target]
        def act():
            if way == 'resize':
                a.resize((1, 1, 1, 1))  # refused while the call holds it
            elif way == 'shape':
                a.shape = (a.size,)
            elif way == 'transposed':
                a.shape = a.shape[::-1]
            else:
                a.setflags(write=False)
        print(target, way, flush=True)
        outcome(y, act)
print('ok')
"""


@pytest.mark.filterwarnings("ignore")
def test_integers_that_change_the_arrays() -> None:
    """Shapes, strides and flags count as they are before or after; memory cannot go away."""
    assert child_says(RESIZED, PYTHONWARNINGS="ignore").splitlines()[-1] == "ok"


@pytest.mark.parametrize("field", ["WindowSize", "Strides", "StartPadding", "EndPadding"])
def test_descriptors_read_once(field: str) -> None:
    values = [2, 2] if field == "WindowSize" else [1, 1] if field == "Strides" else [0, 0]
    numbers = [Number(v) for v in values]
    desc = desc_of("MaxPooling", **{field: numbers})
    read = [n.asked for n in numbers]
    run = cudml.Operator(desc).compile("cpu")
    x = data((1, 2, 4, 5), "float32")
    assert run(x).tobytes() == cudml.max_pooling(x, 2).tobytes()
    assert all(n.asked - before <= 1 for n, before in zip(numbers, read, strict=True))
    with refused(LookupError, "own words"):
        cudml.Operator(desc_of("MaxPooling", **{field: [1, Number(1, fail)]}))
