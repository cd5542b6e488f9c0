"""What the pooling operators refuse, by message; a refused call leaves `out` as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from harness import refused
from pool_support import line, same_bits, strided

X = np.arange(2 * 3 * 5 * 6, dtype=np.float32).reshape(2, 3, 5, 6)
SIZES = (2, 3, 4, 5)  # of X under a window of 2


def grad_of(dtype: Any = np.float32, shape: tuple[int, ...] = SIZES) -> np.ndarray:
    return np.ones(shape, dtype)


CALLS: dict[str, Callable[..., Any]] = {
    "max_pooling": lambda **k: cudml.max_pooling(X, **({"window_size": 2} | k)),
    "average_pooling": lambda **k: cudml.average_pooling(X, **({"window_size": 2} | k)),
    "lp_pooling": lambda **k: cudml.lp_pooling(X, **({"window_size": 2} | k)),
    "max_pooling_grad": lambda **k: cudml.max_pooling_grad(
        X, grad_of(), **({"window_size": 2} | k)
    ),
    "average_pooling_grad": lambda **k: cudml.average_pooling_grad(
        grad_of(), X.shape, **({"window_size": 2} | k)
    ),
}
GRADIENTS = ("max_pooling_grad", "average_pooling_grad")
FIELDS = {
    "window_size": "WindowSize",
    "strides": "Strides",
    "start_padding": "StartPadding",
    "end_padding": "EndPadding",
    "dilations": "Dilations",
}


def result_shape(name: str) -> tuple[int, ...]:
    return X.shape if name in GRADIENTS else SIZES


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("argument", FIELDS)
@pytest.mark.parametrize("place", [0, 1])
def test_range_of_every_number(name: str, argument: str, place: int) -> None:
    out = np.full(result_shape(name), 9, np.float32)
    field = f"{name}: {FIELDS[argument]}[{place}]"
    good = 0 if "padding" in argument else 1
    wrong = [-1, -(2**31), 2**32, 2**63, 2**64, 2**64 + 1, 10**30]
    for value in [*wrong, *([] if "padding" in argument else [0])]:
        numbers = [good, good]
        numbers[place] = value
        with refused(ValueError, f"{field} is {value}", f"{good}", "4294967295"):
            CALLS[name](**{argument: numbers}, out=out)
    assert np.all(out == 9)


@pytest.mark.parametrize("argument", FIELDS)
@pytest.mark.parametrize(
    "value", [True, 1.0, np.float32(1), "1", None, 1j, b"1", np.bool_(True), [1], ...], ids=repr
)
def test_kind_of_every_number(argument: str, value: Any) -> None:
    for name, call in CALLS.items():
        field = f"{name}: {FIELDS[argument]}"
        if not isinstance(value, list):
            with refused(TypeError, field, type(value).__name__):
                call(**{argument: value})
        with refused(TypeError, f"{field}[1]", type(value).__name__):
            call(**{argument: (1, value)})


@pytest.mark.parametrize("argument", FIELDS)
@pytest.mark.parametrize("count", [0, 1, 3, 9, 1000])
def test_length_of_every_sequence(argument: str, count: int) -> None:
    for name, call in CALLS.items():
        with refused(ValueError, f"{name}: {FIELDS[argument]}", f"{count}", "2"):
            call(**{argument: [1] * count})


@pytest.mark.small
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_declared_output_sizes(name: str) -> None:
    for wrong in ((0, 5), (4, 0), (5, 5), (4, 6), 6, 0, -1, (4, 2**32), 2**70):
        with refused(ValueError, f"{name}: OutputTensor.Sizes["):
            CALLS[name](output_sizes=wrong)
    with refused(ValueError, f"{name}: output_sizes", "flor", "ceil"):
        CALLS[name](output_sizes="flor")
    for wrong in (b"ceil", True, 1.0, (4, 5.0), (4, None), (4, "5"), 4.0j, object()):
        with refused(TypeError, f"{name}: OutputTensor.Sizes"):
            CALLS[name](output_sizes=wrong)
    assert CALLS[name](output_sizes=[np.uint8(4), 5]).shape == SIZES


@pytest.mark.parametrize("name", CALLS)
def test_window_that_does_not_fit(name: str) -> None:
    with refused(ValueError, f"{name}: WindowSize[1] is 7", "6"):
        CALLS[name](window_size=(2, 7))
    with refused(ValueError, f"{name}: WindowSize[0] is 3", "Dilations", "3", "5"):
        CALLS[name](window_size=(3, 2), dilations=(3, 1))


@pytest.mark.parametrize("name", CALLS)
def test_out_of_another_type(name: str) -> None:
    shape = result_shape(name)
    for dtype in (np.float64, np.float16, np.int32, np.bool_, np.complex64, object):
        with refused(TypeError, f"{name}:", np.dtype(dtype).name, "float32"):
            CALLS[name](out=np.zeros(shape, dtype))
    for wrong in ([0.0], 3, "out", np.zeros(shape).tolist(), object()):
        with refused(TypeError, f"{name}:", "out"):
            CALLS[name](out=wrong)
    with refused(TypeError, f"{name}:"):
        CALLS[name](out=np.ma.zeros(shape, np.float32))
    with refused(TypeError, f"{name}:"):
        CALLS[name](out=np.zeros(shape, ">f4"))


@pytest.mark.parametrize("name", CALLS)
def test_out_of_another_shape(name: str) -> None:
    shape = result_shape(name)
    for place in range(4):
        for change in (-1, 1):
            wrong = list(shape)
            wrong[place] += change
            out = np.full(wrong, 9, np.float32)
            with refused(
                ValueError, f"{name}:", f"[{place}]", f"{wrong[place]}", f"{shape[place]}"
            ):
                CALLS[name](out=out)
            assert np.all(out == 9)
    for wrong in (shape[1:], (1, *shape), (int(np.prod(shape)),)):
        with refused(ValueError, f"{name}:"):
            CALLS[name](out=np.full(wrong, 9, np.float32))


@pytest.mark.parametrize("name", CALLS)
def test_out_that_cannot_be_written(name: str) -> None:
    shape = result_shape(name)
    locked = np.full(shape, 9, np.float32)
    locked.flags.writeable = False
    with refused(ValueError, f"{name}:", "read-only"):
        CALLS[name](out=locked)
    assert np.all(locked == 9)
    one = np.full((2, 3, 1, 1), 9, np.float32)
    with refused(ValueError, f"{name}:"):
        CALLS[name](out=strided(one, shape, (3, 1, 0, 0)))
    folded = np.full(64, 9, np.float32)
    with refused(ValueError, f"{name}:", "Strides"):
        CALLS[name](out=strided(folded, shape, (12, 4, 2, 1)))
    assert np.all(one == 9) and np.all(folded == 9)
    with refused(ValueError, f"{name}:"):
        CALLS[name](out=np.full(shape, 9, np.float32)[..., ::-1])


@pytest.mark.small
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_out_over_the_input(name: str) -> None:
    operator = getattr(cudml, name)
    memory = np.arange(400, dtype=np.float32)
    x = memory[:180].reshape(2, 3, 5, 6)
    before = memory.copy()
    for out in (x, memory[100:280].reshape(x.shape), memory[179:359].reshape(x.shape)):
        with refused(ValueError, f"{name}:", "overlap"):
            operator(x, 1, out=out)
    assert same_bits(memory, before)
    apart = memory[180:360].reshape(x.shape)
    operator(x, 1, out=apart)
    assert np.array_equal(apart, np.abs(x) if name == "lp_pooling" else x)
    even, odd = memory[0::2][:30].reshape(1, 1, 5, 6), memory[1::2][:30].reshape(1, 1, 5, 6)
    operator(even, 1, out=odd)
    assert np.array_equal(even, odd)


@pytest.mark.small
def test_gradient_over_its_inputs() -> None:
    memory = np.arange(90, dtype=np.float32)
    x, grad = memory[:30].reshape(1, 1, 5, 6), memory[30:60].reshape(1, 1, 5, 6)
    before = memory.copy()
    for out in (x, grad, memory[15:45].reshape(x.shape), memory[59:89].reshape(x.shape)):
        with refused(ValueError, "max_pooling_grad:", "overlap"):
            cudml.max_pooling_grad(x, grad, 1, out=out)
    with refused(ValueError, "average_pooling_grad:", "overlap"):
        cudml.average_pooling_grad(grad, x.shape, 1, out=grad)
    assert same_bits(memory, before)
    cudml.max_pooling_grad(x, x, 1, out=memory[60:].reshape(x.shape))
    assert np.array_equal(memory[60:], memory[:30])


@pytest.mark.small
def test_indices_over_values_or_input() -> None:
    memory = np.arange(120, dtype=np.float32)
    x = memory[:30].reshape(1, 1, 5, 6)
    values = memory[30:60].reshape(x.shape)
    before = memory.copy()
    words = memory.view(np.uint32)
    for start in (0, 29, 30, 59):
        index = words[start : start + 30].reshape(x.shape)
        with refused(ValueError, "max_pooling:", "overlap"):
            cudml.max_pooling(x, 1, return_indices=True, out=(values, index))
    with refused(ValueError, "max_pooling:", "overlap"):
        index = words[60:90].reshape(x.shape)
        cudml.max_pooling(x, 1, return_indices=True, out=(x, index))
    assert same_bits(memory, before)
    cudml.max_pooling(x, 1, return_indices=True, out=(values, words[60:90].reshape(x.shape)))
    assert words[60:90].tolist() == list(range(30))


@pytest.mark.small
def test_shape_of_the_pair() -> None:
    x = line([1, 3, 2])
    y, index = np.full((1, 1, 2), 9, np.float32), np.full((1, 1, 2), 9, np.uint32)
    pairs: list[tuple[type[Exception], Any]] = [
        (TypeError, y),
        (TypeError, (y,)),
        (TypeError, (y, index, index)),
        (TypeError, (y, None)),
        (TypeError, (y, index.astype(np.int64))),
        (TypeError, (y, index.astype(np.int32))),
        (TypeError, (y.astype(np.float64), index)),
        (ValueError, (y, np.zeros((1, 1, 3), np.uint32))),
        (ValueError, (np.zeros((1, 1, 1), np.float32), index)),
        (ValueError, (y, np.zeros((2,), np.uint32))),
    ]
    for error, out in pairs:
        with refused((error, ValueError) if isinstance(out, tuple) else error, "max_pooling:"):
            cudml.max_pooling(x, 2, return_indices=True, out=out)
    for out, words in (
        (y, "(ndarray); with"),
        ((y,), "has 1 entry; with"),
        (3, "is 3 (int); with"),
    ):
        with refused(TypeError, "max_pooling: out ", f"{words} return_indices it must be (y, ind"):
            cudml.max_pooling(x, 2, return_indices=True, out=out)
    with refused(TypeError, "max_pooling:", "out"):
        cudml.max_pooling(x, 2, out=(y, index))
    assert np.all(y == 9) and np.all(index == 9)
    locked = index.copy()
    locked.flags.writeable = False
    with refused(ValueError, "max_pooling:", "read-only"):
        cudml.max_pooling(x, 2, return_indices=True, out=(y, locked))
    assert np.all(y == 9)
    back = cudml.max_pooling(x, 2, return_indices=True, out=(y, index))
    assert back[0] is y and back[1] is index
    wide = np.full((1, 1, 2), 9, np.int64)
    cudml.max_pooling(x, 2, return_indices=True, index_dtype="int64", out=(y, wide))
    assert wide.ravel().tolist() == [1, 1]
