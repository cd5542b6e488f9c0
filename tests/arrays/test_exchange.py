"""Arrays of other libraries on the CPU: DLPack in and out, and tensors of torch."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _libraries, _operators
from cudml.directml import BufferTensorDesc, PaddingOperatorDesc
from exporters import CPU, CUDA, CUDA_HOST, IS_COPIED, READ_ONLY, ROCM, Exporter
from harness import data, named, refused

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
X = data((2, 3, 5, 7), "float32")
POOLED = (2, 3, 4, 6)


def pool(x: Any, out: Any = None, **kwargs: Any) -> Any:
    return _operators.max_pooling(x, 2, out=out, **kwargs)


def into(x: Any) -> np.ndarray:
    """The pooling of x, written to an array of NumPy's."""
    y = np.empty(POOLED, X.dtype)
    assert pool(x, y) is y
    return y


@pytest.mark.parametrize("is_versioned", [True, False])
def test_capsules_of_the_cpu(is_versioned: bool) -> None:
    """Read where they lie, taken once, deleted once."""
    x = Exporter(X, is_versioned)
    assert np.array_equal(into(x), cudml.max_pooling(X, 2))
    assert x.deleted == 1
    assert x.asked[0] == {"max_version": (1, 3)}
    assert x.capsule_names() == [b"used_dltensor_versioned" if is_versioned else b"used_dltensor"]


@pytest.mark.bug("MEM-06")
@pytest.mark.parametrize(
    "changes",
    [
        {"strides": None},
        {"byte_offset": 64},
        {"flags": READ_ONLY},
        {"flags": IS_COPIED},
        {"version": (1, 99)},
        {"device": (CUDA_HOST, 0)},
    ],
    ids=str,
)
def test_what_capsules_may_say(changes: dict[str, Any]) -> None:
    x = Exporter(X, **changes)
    assert np.array_equal(into(x), cudml.max_pooling(X, 2))
    assert x.deleted == 1


def test_capsules_as_outputs() -> None:
    y = np.empty(POOLED, X.dtype)
    out = Exporter(y)
    assert pool(X, out) is out
    assert np.array_equal(y, cudml.max_pooling(X, 2)) and out.deleted == 1


@pytest.mark.bug("MEM-05")
def test_strides_of_dimensions_of_one_element_do_not_count() -> None:
    a = X[:1, :, :, :]
    x = Exporter(a, strides=(2**62, *(s // 4 for s in a.strides[1:])))
    y = np.empty((1, *POOLED[1:]), X.dtype)
    assert np.array_equal(pool(x, y), cudml.max_pooling(a, 2))
    x = Exporter(a, strides=(-(2**62), *(s // 4 for s in a.strides[1:])))
    assert np.array_equal(pool(x, y), cudml.max_pooling(a, 2))


REFUSED: list[tuple[Any, tuple[str, ...], dict[str, Any]]] = [
    (BufferError, ("negative stride", "-7"), {"strides": (105, 35, -7, 1)}),
    (BufferError, ("no multiple",), {"byte_offset": 0, "data": X.ctypes.data + 2}),
    (BufferError, ("no memory",), {"data": 0}),
    (BufferError, ("negative size", "-3"), {"shape": (2, -3, 5, 7)}),
    (BufferError, ("version 2.0",), {"version": (2, 0)}),
    (BufferError, ("another device",), {"reported": (CUDA_HOST, 0), "device": (CUDA, 0)}),
    (ValueError, ("DimensionCount is 0",), {"shape": (), "strides": ()}),
    (ValueError, ("DimensionCount is 9",), {"shape": (1,) * 9, "strides": (1,) * 9}),
    (ValueError, ("Strides[0]", "2^62"), {"strides": (2**62 - 1, 35, 7, 1)}),
    (ValueError, ("device type 10",), {"device": (ROCM, 0)}),
    (ValueError, ("CPU",), {"device": (CUDA, -1)}),
    (TypeError, ("bool",), {"code": 6, "bits": 8}),
    (TypeError, ("complex64",), {"code": 5, "bits": 64}),
    (TypeError, ("4 lanes",), {"lanes": 4}),
    (TypeError, ("float8",), {"bits": 8}),
    (TypeError, ("type code",), {"code": 17}),
    (BufferError, ("fresh capsule",), {"name": b"used_dltensor_versioned"}),
    (BufferError, ("fresh capsule",), {"name": b"other"}),
]


@pytest.mark.bug("MEM-02", "RUN-08")
@pytest.mark.decision("D-TEN-7")
@pytest.mark.parametrize(
    ("kind", "fragments", "changes"), REFUSED, ids=[" ".join(words) for _, words, _ in REFUSED]
)
def test_capsules_that_are_refused(
    kind: Any, fragments: tuple[str, ...], changes: dict[str, Any]
) -> None:
    """Named by operator and field; what was taken is deleted once; nothing is written."""
    x, y = Exporter(X, **changes), np.full(POOLED, -1, X.dtype)
    with refused(kind, "max_pooling: ", "InputTensor", *fragments):
        pool(x, y)
    taken = [name for name in x.capsule_names() if "name" not in changes]
    assert x.deleted == len(taken)
    assert (y == -1).all()


def test_outputs_that_are_refused() -> None:
    y = np.full(POOLED, -1, X.dtype)
    for kind, fragment, changes in [
        (ValueError, "read-only", {"flags": READ_ONLY}),
        (BufferError, "copy", {"flags": IS_COPIED}),
        (BufferError, "negative", {"strides": (-72, 24, 6, 1)}),
        (ValueError, "Sizes", {"shape": (2, 3, 4, 5)}),
    ]:
        out = Exporter(y, **changes)
        with refused(kind, "max_pooling: OutputTensor", fragment):
            pool(X, out)
        assert out.deleted == 1 and (y == -1).all()


def test_overlap_across_libraries() -> None:
    memory = np.zeros((2, 3, 5, 7), "f4")
    with refused(ValueError, "padding: OutputTensor shares memory with InputTensor"):
        _operators.padding(Exporter(memory), 0, 0, out=memory)
    scaled = _operators.mean_variance_normalization(Exporter(memory), axes=(2, 3), out=memory)
    assert scaled is memory


def test_unknown_libraries_need_out() -> None:
    x = Exporter(X)
    with refused(TypeError, "max_pooling: ", "exporters.Exporter", "out"):
        pool(x)
    assert x.deleted == 1


class Odd:
    """What a producer's methods may do."""

    def __init__(self, act: Callable[..., Any], device: Any = (CPU, 0)) -> None:
        self.act, self.device = act, device

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.act(**keywords)


def _fail(**_: Any) -> Any:
    raise RuntimeError("the producer's own words")


def test_odd_producers() -> None:
    with refused(RuntimeError, "own words"):
        into(Odd(_fail))
    for gift in (None, 7, X, b"dltensor"):
        with refused(BufferError, "max_pooling: InputTensor (x)", "fresh capsule"):
            into(Odd(lambda gift=gift, **_: gift))
    for device in (None, (1,), [1, 0], (1, 0, 0)):
        with refused(BufferError, "max_pooling: InputTensor (x)", "pair"):
            into(Odd(_fail, device))
    with refused(ValueError, "device type"):
        into(Odd(_fail, (2**40, 0)))
    with refused(TypeError, "max_pooling: InputTensor (x) is type"):
        into(Exporter)


@pytest.mark.parametrize("thing", [None, [[1.0]], "x", 3, object(), np.float32(1)], ids=named)
def test_what_is_no_array(thing: Any) -> None:
    with refused(TypeError, "max_pooling: InputTensor (x) is ", "__cuda_array_interface__"):
        pool(thing)


def test_failing_calls_leak_nothing() -> None:
    x = Exporter(X, strides=(105, 35, -7, 1))
    before = sys.getrefcount(x)
    for _ in range(2000):
        with pytest.raises(BufferError):
            pool(x, X)
        x.capsules.clear()
        x.asked.clear()
    assert x.deleted == 2000 and sys.getrefcount(x) == before


# --- torch on the CPU ---


@needs_torch
@pytest.mark.decision("D-TEN-8")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8"])
def test_tensors_of_torch(dtype: str) -> None:
    """Tensors in, tensors out, in the memory order of the input."""
    import torch

    x = torch.from_numpy(data((2, 4, 6, 5), "int8")).to(getattr(torch, dtype))
    for order in (torch.contiguous_format, torch.channels_last):
        given = x.contiguous(memory_format=order)
        y, indices = pool(given, return_indices=True)
        assert isinstance(y, torch.Tensor) and y.dtype is given.dtype
        assert indices.dtype is torch.uint32
        assert y.is_contiguous(memory_format=order) and indices.is_contiguous(memory_format=order)
        wanted, places = cudml.max_pooling(x.double().numpy(), 2, return_indices=True)
        assert np.array_equal(y.double().numpy(), wanted)
        assert np.array_equal(indices.numpy(), places)
        padded = _operators.padding(given, 1, 0)
        assert padded.shape == (3, 5, 7, 6) and torch.equal(padded[1:, 1:, 1:, 1:], x)


@needs_torch
def test_torch_into_out_and_never_mixed_with_numpy() -> None:
    import torch

    x, out = torch.from_numpy(X), torch.empty(POOLED)
    assert pool(x, out) is out
    assert np.array_equal(out.numpy(), cudml.max_pooling(X, 2))
    mine = np.full(POOLED, -1, np.float32)
    with refused(
        TypeError,
        "max_pooling: OutputTensor (out) is an array of numpy and InputTensor (x) of torch",
    ):
        pool(x, mine)
    assert (mine == -1).all()
    with refused(TypeError, "ScaleTensor (scale) is an array of torch", "of one library"):
        _operators.mean_variance_normalization(X, torch.ones(1, 3, 1, 1), axes=(2, 3))
    indices = pool(x, return_indices=True, index_dtype=torch.int64)[1]
    assert indices.dtype is torch.int64


@needs_torch
def test_torch_with_what_it_refuses() -> None:
    import torch

    with refused(BufferError, "gradient"):
        pool(torch.from_numpy(X.copy()).requires_grad_())
    with refused(TypeError, "max_pooling: ", "bool"):
        pool(torch.zeros(1, 1, 3, 3, dtype=torch.bool))
    with refused(ValueError, "max_pooling: stream is 1; with CPU arrays it must be None"):
        pool(torch.from_numpy(X), stream=1)


@needs_torch
def test_subclasses_of_tensors() -> None:
    import torch

    class Own(torch.Tensor):
        pass

    assert isinstance(pool(torch.from_numpy(X).as_subclass(Own)), torch.Tensor)


@needs_torch
def test_compiled_operators_take_tensors() -> None:
    import torch

    desc = PaddingOperatorDesc(
        InputTensor=BufferTensorDesc("FLOAT32", [2, 3]),
        OutputTensor=BufferTensorDesc("FLOAT32", [4, 5], Strides=[16, 2]),
        PaddingMode="EDGE", PaddingValue=0, StartPadding=[1, 1], EndPadding=[1, 1],
    )  # fmt: skip
    pad = cudml.Operator(desc).compile("cpu")
    x = torch.arange(6.0).reshape(2, 3)
    y = pad(x)
    assert isinstance(y, torch.Tensor) and y.stride() == (16, 2)
    assert np.array_equal(y.numpy(), np.pad(x.numpy(), 1, mode="edge"))
    with refused(ValueError, "PADDING: InputTensor.Strides[0] of the array is 6"):
        pad(torch.zeros(2, 6)[:, ::2])


def test_a_library_without_the_element_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(like: Any, shape: Any, strides: Any, dtype: str, device: Any) -> Any:
        raise TypeError(f"no {dtype}")

    monkeypatch.setattr(_libraries, "_registry", {})
    _libraries.register("exporters", _libraries.Library(allocate, lambda device: 0))
    with refused(TypeError, "max_pooling: ", "uint32", 'index_dtype="int64"'):
        pool(Exporter(X), return_indices=True)


@pytest.mark.parametrize("changes", [
    {"flags": READ_ONLY}, {"flags": IS_COPIED}, {"shape": (1,), "strides": (1,)},
    {"strides": None}, {"code": 0}, {},
], ids=str)  # fmt: skip
def test_libraries_that_allocate_something_else(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """As it was asked for but in one respect; {} has the strides of another order."""

    def allocate(like: Any, shape: Any, strides: Any, dtype: str, device: Any) -> Any:
        return Exporter(np.empty(shape, dtype, "F" if changes else "C"), **changes)

    monkeypatch.setattr(_libraries, "_registry", {})
    _libraries.register("exporters", _libraries.Library(allocate, lambda device: 0))
    with refused(TypeError, "max_pooling: OutputTensor cannot be allocated like Exporter"):
        pool(Exporter(np.asfortranarray(X)))
