"""Arguments whose own Python code changes or misstates what they hold while a call reads them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml import directml
from directml_support import tensor
from harness import refused


class Erasing:
    """A number that empties a container when it is asked for its value."""

    def __init__(self, erase: Callable[[], Any], value: float) -> None:
        self.erase, self.value = erase, value

    def __float__(self) -> float:
        self.erase()
        [object() for _ in range(1000)]
        return self.value


def test_parameters_of_an_activation_that_are_erased_while_they_are_read() -> None:
    x = np.linspace(-2, 2, 24, dtype="float32").reshape(2, 12)
    want = cudml.mean_variance_normalization(
        x, axes=1, activation=("hard_sigmoid", {"alpha": 0.3, "beta": 0.25})
    )
    for _ in range(20):
        d: dict[str, Any] = {}
        d["alpha"] = Erasing(d.clear, 0.3)
        d["beta"] = Erasing(d.clear, 0.25)
        y = cudml.mean_variance_normalization(x, axes=1, activation=("hard_sigmoid", d))
        assert not d and np.array_equal(y, want)


class Lying(np.ndarray):
    """A subclass whose copies are much smaller than it is."""

    def copy(self, order: Any = "C") -> np.ndarray:
        return np.zeros((2,) * self.ndim, self.dtype)

    __copy__ = __array__ = copy  # type: ignore[assignment]


@pytest.mark.decision("D-TEN-7")
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_subclass_that_copies_itself_wrongly(order: str) -> None:
    plain = np.asarray(np.arange(2 * 3 * 5 * 7, dtype="float32").reshape(2, 3, 5, 7), order=order)
    flipped = plain[:, ::-1, :, ::-1]
    lying = flipped.view(Lying)
    assert lying.copy().shape == (2, 2, 2, 2)
    calls: list[Callable[[Any], np.ndarray]] = [
        lambda x: cudml.padding(x, (0, 1, 0, 2), (1, 0, 3, 0), mode="edge"),
        lambda x: cudml.max_pooling(x, (2, 3)),
        lambda x: cudml.mean_variance_normalization(x, axes=(1, 3)),
    ]
    for call in calls:
        assert np.array_equal(call(lying), call(flipped))


def compiled_gradient() -> tuple[Any, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """A compiled operator that needs a workspace, its inputs and its result."""
    sizes, pooled = (1, 2, 9, 9), (1, 2, 4, 4)
    tensor = lambda s: directml.BufferTensorDesc(DataType="FLOAT32", Sizes=s)  # noqa: E731
    desc = directml.MaxPoolingGradOperatorDesc(
        InputTensor=tensor(sizes),
        InputGradientTensor=tensor(pooled),
        OutputGradientTensor=tensor(sizes),
        Strides=(2, 2),
        WindowSize=(3, 3),
        StartPadding=(0, 0),
        EndPadding=(0, 0),
        Dilations=(1, 1),
    )
    compiled = cudml.Operator(desc).compile("cpu")
    draw = np.random.default_rng(3)
    inputs = (draw.random(sizes, "float32"), draw.random(pooled, "float32"))
    return compiled, inputs, cudml.max_pooling_grad(*inputs, 3, strides=2)


class Unnamed(np.ndarray):
    """A subclass that says it holds bytes."""

    dtype = np.dtype("uint8")


def test_a_workspace_of_objects_is_refused_and_left_alone() -> None:
    compiled, inputs, want = compiled_gradient()
    n = compiled.workspace_bytes // 8 + 64
    mine = object()
    objects = np.full(n, mine, object)
    pointers = (ctypes.py_object * n)(*[mine] * n)
    records = np.zeros(n, [("number", "i8"), ("thing", object)])
    count = sys.getrefcount(mine)
    for workspace in (objects, memoryview(objects), pointers, records, objects.view(Unnamed)):
        out = np.full(want.shape, 7, "float32")
        with pytest.raises(TypeError, match=r"workspace holds objects or pointers"):
            compiled(*inputs, out=out, workspace=workspace)
        assert (out == 7).all()
    assert sys.getrefcount(mine) == count
    arrays = [
        np.zeros(8 * n, "uint8"),
        np.zeros(n),
        np.zeros(n, complex),
        np.zeros(n, [("P", "i8")]),
    ]
    buffers = [bytearray(8 * n), (ctypes.c_int64 * n)(), *map(memoryview, arrays)]
    for plain in (*arrays, *buffers):
        assert np.array_equal(compiled(*inputs, workspace=plain), want)


INTERRUPTED = """
import numpy as np
import cudml

class Interrupted:
    def __init__(self, a):
        self.a = a
    def is_neg(self):
        raise KeyboardInterrupt
    def __dlpack__(self, **how):
        return self.a.__dlpack__(**how)
    def __dlpack_device__(self):
        return self.a.__dlpack_device__()

try:
    cudml.max_pooling(Interrupted(np.ones((1, 1, 4, 4), 'f4')), 2)
    print('swallowed')
except KeyboardInterrupt:
    print('raised')
"""


def test_an_interrupt_while_an_array_is_asked_is_not_swallowed() -> None:
    assert child_says(INTERRUPTED) == "raised"


def test_a_descriptor_that_counts_otherwise_when_it_is_asked_again() -> None:
    """Entries that a count speaks of are never read beyond those that there are."""

    class Counting(directml.MaxPooling2OperatorDesc):
        def __getattribute__(self, name: str) -> Any:
            if name != "DimensionCount" or not counts:
                return super().__getattribute__(name)
            return counts.pop(0)

    counts: list[int] = []
    sizes = tensor([1, 1, 4, 4, 4])
    window = {"WindowSize": [1, 1], "Strides": [1, 1], "Dilations": [1, 1]}
    desc = Counting(
        InputTensor=sizes, OutputTensor=sizes, StartPadding=[0, 0], EndPadding=[0, 0], **window
    )
    for first in range(3):
        counts[:] = [2] * first + [3] + [2] * 20
        with refused(ValueError, "MAX_POOLING2: ", "DimensionCount is "):
            cudml.Operator(desc)
