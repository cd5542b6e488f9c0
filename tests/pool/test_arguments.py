"""Kinds of arguments of the pooling operators: arrays, integers, keywords, streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from harness import FLOATS, INTEGERS, dtype_of, refused
from pool_support import line, same_bits

FORWARD = ("max_pooling", "average_pooling", "lp_pooling")
X = np.arange(2 * 3 * 5 * 6, dtype=np.float32).reshape(2, 3, 5, 6)


class Counting:
    """An integer that counts how often it is asked for its value, and changes it afterwards."""

    def __init__(self, value: int, later: int) -> None:
        self.value, self.later, self.asked = value, later, 0

    def __index__(self) -> int:
        self.asked += 1
        return self.value if self.asked == 1 else self.later


class Raising:
    def __index__(self) -> int:
        raise RuntimeError("no number today")


@pytest.mark.small
@pytest.mark.parametrize(
    "kind",
    [int, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, lambda v: Counting(v, v)],
    ids=["int", "int8", "uint8", "int16", "uint32", "int64", "uint64", "__index__"],
)
def test_every_integer_is_accepted(kind: Any) -> None:
    expected = cudml.average_pooling(X, (2, 3), (1, 2), (1, 0), (0, 1), (2, 1))
    sequences: list[Any] = [tuple, list, lambda v: np.array([int(i.__index__()) for i in v])]
    for sequence in sequences:
        numbers = [
            sequence([kind(a), kind(b)]) for a, b in ((2, 3), (1, 2), (1, 0), (0, 1), (2, 1))
        ]
        assert same_bits(cudml.average_pooling(X, *numbers), expected)
    assert cudml.lp_pooling(X, kind(2), p=kind(3), output_sizes=(kind(4), 5)).shape == (2, 3, 4, 5)
    assert cudml.max_pooling(X, kind(2), axes=(kind(2), kind(3))).shape == (2, 3, 4, 5)
    grad = np.ones((2, 3, 4, 5), np.float32)
    sizes = [kind(n) for n in X.shape]
    assert cudml.average_pooling_grad(grad, sizes, kind(2)).shape == X.shape


def test_each_number_is_asked_once() -> None:
    window = Counting(2, 2**31)
    assert cudml.max_pooling(X, [window, 2]).shape == (2, 3, 4, 5)
    assert window.asked == 1
    stride = Counting(1, 0)
    assert cudml.max_pooling(X, 2, stride).shape == (2, 3, 4, 5)
    assert stride.asked == 1


def test_sequences_that_change_while_they_are_read() -> None:
    class Changing:
        def __init__(self, change: Callable[[], object]) -> None:
            self.change = change

        def __index__(self) -> int:
            self.change()
            return 2

    window: list[Any] = [2, 2]
    for change in (window.clear, lambda: window.extend([7] * 1000), window.pop):
        window[:] = [Changing(change), 2]
        assert cudml.max_pooling(X, window).shape == (2, 3, 4, 5)


@pytest.mark.parametrize("name", FORWARD)
def test_numbers_that_raise(name: str) -> None:
    out = np.full((2, 3, 4, 5), 9, np.float32)
    with pytest.raises((RuntimeError, TypeError)):
        getattr(cudml, name)(X, Raising(), out=out)
    with pytest.raises((RuntimeError, TypeError)):
        getattr(cudml, name)(X, 2, dilations=[1, Raising()], out=out)
    assert np.all(out == 9)


@pytest.mark.small
@pytest.mark.parametrize("name", FORWARD)
def test_element_types(name: str) -> None:
    allowed = [*FLOATS, *INTEGERS] if name == "max_pooling" else FLOATS
    for dtype in [*FLOATS, *INTEGERS]:
        x = np.ones((1, 1, 3, 3), dtype_of(dtype))
        if dtype in allowed:
            assert getattr(cudml, name)(x, 2).dtype == x.dtype
        else:
            with refused(TypeError, f"{name}: InputTensor.DataType is {dtype}", "float32"):
                getattr(cudml, name)(x, 2)
    for foreign in ("bool", "complex64", "complex128", "S4", "U1", "datetime64[s]", "O", "V8"):
        x = np.zeros((1, 1, 3, 3), foreign)
        with refused(TypeError, f"{name}:"):
            getattr(cudml, name)(x, 2)
    with refused(TypeError, f"{name}:"):
        getattr(cudml, name)(np.zeros((1, 1, 3, 3), [("a", "f4")]), 2)


def test_element_types_of_gradients() -> None:
    for dtype in INTEGERS:
        x = np.ones((1, 1, 3, 3), dtype)
        with refused(TypeError, "max_pooling_grad:", dtype):
            cudml.max_pooling_grad(x, x, 1)
        with refused(TypeError, "average_pooling_grad:", dtype):
            cudml.average_pooling_grad(x, x.shape, 1)
    for dtype in FLOATS:
        x = np.ones((1, 1, 3, 3), dtype_of(dtype))
        for other in [d for d in (*FLOATS, "int32") if d != dtype]:
            grad = np.ones((1, 1, 3, 3), dtype_of(other))
            with refused(TypeError, "max_pooling_grad:", dtype, other):
                cudml.max_pooling_grad(x, grad, 1)


@pytest.mark.parametrize("name", FORWARD)
def test_other_byte_orders_are_no_element_type(name: str) -> None:
    for dtype in (">f4", ">f2", ">f8"):
        with refused(TypeError, f"{name}:"):
            getattr(cudml, name)(np.ones((1, 1, 3, 3), dtype), 2)


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("wrong", [None, 3, 2.5, "x", [[[[1.0]]]], ..., {}], ids=repr)
def test_input_that_is_no_array(name: str, wrong: Any) -> None:
    with refused(TypeError, f"{name}:"):
        getattr(cudml, name)(wrong, 1)
    with refused(TypeError, "max_pooling_grad:"):
        cudml.max_pooling_grad(X, wrong, 1)
    with refused(TypeError, "average_pooling_grad:"):
        cudml.average_pooling_grad(wrong, X.shape, 1)


@pytest.mark.parametrize("name", FORWARD)
def test_masked_arrays_are_refused(name: str) -> None:
    with refused(TypeError, f"{name}:"):
        getattr(cudml, name)(np.ma.masked_array(X, X > 3), 2)


def test_keywords() -> None:
    for name in (*FORWARD, "max_pooling_grad", "average_pooling_grad"):
        operator = getattr(cudml, name)
        arrays = {"max_pooling_grad": (X, X), "average_pooling_grad": (X, X.shape)}.get(name, (X,))
        for unknown in ("stride", "padding", "kernel_size", "ceil_mode", "p_"):
            with refused(TypeError, unknown):
                operator(*arrays, 1, **{unknown: 1})
        with refused(TypeError, "window_size"):
            operator(*arrays)
        with refused(TypeError):
            operator(*arrays, 1, 1, 0, 0, 1, None)
        with refused(TypeError, "window_size"):
            operator(*arrays, 1, window_size=1)
    with refused(TypeError):
        cudml.max_pooling()


@pytest.mark.small
@pytest.mark.parametrize("stream", [0, 1, 2, 12345, ...])
def test_arrays_on_the_cpu_have_no_stream(stream: Any) -> None:
    grad = np.ones((2, 3, 4, 5), np.float32)
    for name in FORWARD:
        with refused(ValueError, f"{name}:", "stream"):
            getattr(cudml, name)(X, 2, stream=stream)
    with refused(ValueError, "max_pooling_grad:", "stream"):
        cudml.max_pooling_grad(X, grad, 2, stream=stream)
    with refused(ValueError, "average_pooling_grad:", "stream"):
        cudml.average_pooling_grad(grad, X.shape, 2, stream=stream)
    assert cudml.max_pooling(X, 2, stream=None).shape == (2, 3, 4, 5)


@pytest.mark.parametrize(
    ("sizes", "error", "fragments"),
    [
        ((2, 3, 5), ValueError, ("OutputGradientTensor", "3", "4")),
        ((2, 3, 5, 6, 1), ValueError, ("OutputGradientTensor", "5", "4")),
        ((), ValueError, ("OutputGradientTensor",)),
        ((2, 3, -5, 6), ValueError, ("OutputGradientTensor.Sizes[2]", "-5")),
        ((2, 3, 5, 2**64), ValueError, ("OutputGradientTensor.Sizes[3]",)),
        ((2, 3, 5, 6.0), TypeError, ("OutputGradientTensor.Sizes[3]", "float")),
        ((2, True, 5, 6), TypeError, ("OutputGradientTensor.Sizes[1]", "bool")),
        (5, TypeError, ("OutputGradientTensor",)),
        ("2356", TypeError, ("OutputGradientTensor",)),
        (None, TypeError, ("OutputGradientTensor",)),
    ],
    ids=str,
)
def test_refused_input_sizes(
    sizes: Any, error: type[Exception], fragments: tuple[str, ...]
) -> None:
    grad = np.ones((2, 3, 4, 5), np.float32)
    with refused(error, "average_pooling_grad:", *fragments):
        cudml.average_pooling_grad(grad, sizes, 2)


def test_huge_input_sizes_are_refused_before_anything_is_allocated() -> None:
    grad = np.ones((1, 1, 1, 1), np.float32)
    wide = 2**31 - 1
    with pytest.raises((ValueError, MemoryError)):
        cudml.average_pooling_grad(grad, (1, 1, wide, wide), 1, wide)


@pytest.mark.small
def test_flags() -> None:
    x = line([1, 2, 3])
    for wrong in ("yes", None, 2.5, []):
        with refused(TypeError, "average_pooling: IncludePadding"):
            cudml.average_pooling(x, 2, include_padding=wrong)
        with refused(TypeError, "max_pooling:", "return_indices"):
            cudml.max_pooling(x, 2, return_indices=wrong)
    assert isinstance(cudml.max_pooling(x, 2, return_indices=np.True_), tuple)
    assert cudml.average_pooling(x, 2, 1, 1, include_padding=np.True_)[0, 0, 0] == 0.5
