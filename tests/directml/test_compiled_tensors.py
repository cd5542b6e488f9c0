"""Compiled operators on tensors of PyTorch: the short way refuses what the long one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from directml_support import operator
from harness import data, refused

torch = pytest.importorskip("torch", reason="torch is not installed")
X = data((1, 2, 4, 5), "float32")
POOLED = (1, 2, 3, 4)


@pytest.fixture
def run() -> Any:
    """An operator whose plan and tensors' types are known from a call before."""
    made = operator("MaxPooling").compile("cpu")
    made(torch.from_numpy(X), out=torch.zeros(POOLED))
    made(X, out=np.zeros(POOLED, "f4"))
    return made


def without_memory() -> Any:
    x = torch.ones(X.shape)
    x.untyped_storage().resize_(0)
    return x


def inputs() -> dict[str, tuple[Any, Any, str]]:
    """What must be refused as an input, with the error and a part of its text."""
    x = torch.from_numpy(X.copy())
    return {
        "wants a gradient": (x.clone().requires_grad_(), BufferError, "detach"),
        "negative": (torch._neg_view(x), BufferError, "neg"),
        "zero": (torch._efficientzerotensor(X.shape), BufferError, "memory"),
        "freed": (without_memory(), BufferError, "memory"),
        "double": (x.double(), TypeError, "float64"),
        "int32": (x.view(torch.int32), TypeError, "int32"),
        "complex": (torch.zeros(X.shape, dtype=torch.complex64), TypeError, "complex64"),
        "fewer channels": (x[:, :1], ValueError, "Sizes[1]"),
        "transposed": (torch.zeros(1, 2, 5, 4).transpose(2, 3), ValueError, "Strides[2]"),
        "of rank 3": (x[0], ValueError, "Sizes"),
        "NumPy's": (X, TypeError, "torch"),
    }


def outputs() -> dict[str, tuple[Any, Any, str]]:
    y = torch.full(POOLED, -1.0)
    return {
        "wants a gradient": (y.clone().requires_grad_(), BufferError, "detach"),
        "negative": (torch._neg_view(y), BufferError, "neg"),
        "double": (y.double(), TypeError, "float64"),
        "too small": (y[:, :1], ValueError, "Sizes[1]"),
        "expanded": (torch.full((1,), -1.0).expand(POOLED), ValueError, "Strides"),
        "NumPy's": (y.numpy(), TypeError, "numpy"),
        "a tuple": ((y,), TypeError, "out"),
    }


@pytest.mark.parametrize("name", inputs())
def test_inputs_that_are_refused(name: str, run: Any) -> None:
    x, kind, text = inputs()[name]
    y = torch.full(POOLED, -1.0)
    for _ in range(2):
        with refused(kind, "MAX_POOLING: ", text):
            run(x, out=y)
    assert (y == -1).all()


@pytest.mark.parametrize("name", outputs())
def test_outputs_that_are_refused(name: str, run: Any) -> None:
    y, kind, text = outputs()[name]
    for _ in range(2):
        with refused(kind, "MAX_POOLING: ", text):
            run(torch.from_numpy(X), out=y)
    first = y[0] if isinstance(y, tuple) else y
    with torch.no_grad():
        assert abs(float(first.sum())) == np.prod(tuple(first.shape))


def test_overlap_is_refused(run: Any) -> None:
    memory = torch.zeros(100)
    for start, fits in ((30, False), (40, True), (39, False), (76, True)):
        x, y = memory[:40].view(X.shape), memory[start : start + 24].view(POOLED)
        if fits:
            assert run(x, out=y) is y
            continue
        with refused(ValueError, "MAX_POOLING: OutputTensor shares memory with InputTensor"):
            run(x, out=y)


def test_subclasses_speak_for_themselves(run: Any) -> None:
    """A type that overrides torch's functions is asked by its own methods."""

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise LookupError("the tensor's own words")

    y = torch.full(POOLED, -1.0)
    with refused(LookupError, "own words"):
        run(torch.from_numpy(X).as_subclass(Own), out=y)
    assert (y == -1).all()


def test_tensors_of_inference_mode(run: Any) -> None:
    with torch.inference_mode():
        x, y = torch.from_numpy(X.copy()) * 1, torch.zeros(POOLED)
        assert run(x, out=y) is y
    assert np.array_equal(run(x, out=y).numpy(), run(X))
