"""Libraries that are known by protocol alone: results go through their own `from_dlpack`."""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import Problem, bits, cases_of_type, every_operator, in_order, make
from cudml import _operators
from exporters import CPU, CUDA, READ_ONLY, Exporter, Versioned, capsule_name
from harness import data, refused

X = data((2, 3, 5, 7), "float32")
POOLED = (2, 3, 4, 6)


class Base:
    """An array of a library of its own; `source` keeps what lent the memory."""

    def __init__(self, array: np.ndarray, source: Any = None) -> None:
        self.array, self.source = array, source

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        return Exporter(self.array).__dlpack__(**keywords)


received: list[Any] = []


def taken(exporter: Any) -> np.ndarray:
    """What an exporter lends, by NumPy's own reading of DLPack."""
    received.append(exporter)
    return np.from_dlpack(exporter)


class ByType(Base):
    @classmethod
    def from_dlpack(cls, exporter: Any) -> ByType:
        return cls(taken(exporter), exporter)


def by_module() -> type[Base]:
    """A type whose module has the function, as JAX's and NumPy's do."""
    module = types.ModuleType("foreign_arrays")
    kind = type("ByModule", (Base,), {"__module__": "foreign_arrays.inner"})
    module.from_dlpack = lambda exporter: kind(taken(exporter), exporter)  # type: ignore[attr-defined]
    sys.modules["foreign_arrays"] = module
    sys.modules["foreign_arrays.inner"] = types.ModuleType("foreign_arrays.inner")
    return kind


class ByNamespace(Base):
    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return types.SimpleNamespace(from_dlpack=lambda e: ByNamespace(taken(e), e))


KINDS = {"type": lambda: ByType, "module": by_module, "namespace": lambda: ByNamespace}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[type[Base]]:
    received.clear()
    yield KINDS[request.param]()
    received.clear()
    for name in ("foreign_arrays", "foreign_arrays.inner"):
        sys.modules.pop(name, None)


def run(p: Problem, kind: type[Base], **changes: Any) -> list[Any]:
    arrays = [kind(changes.pop(k, a)) for k, a in p.arrays.items()]
    result = getattr(_operators, p.op)(*arrays, *p.args, **{**p.kwargs, **changes})
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.cell("any other, CPU", "in", "out")
@every_operator
def test_results_are_the_library_s(kind: type[Base], label: str) -> None:
    p = make(label)
    got, want = run(p, kind), p.run()
    assert [type(y) for y in got] == [kind] * len(want) and len(received) == len(want)
    assert [bits(y.array) for y in got] == [bits(y) for y in want]
    assert [y.array.shape for y in got] == [y.shape for y in want]
    nhwc = {k: in_order(a, (0, 2, 3, 1)) for k, a in p.arrays.items()}
    assert [bits(y.array) for y in run(p, kind, **nhwc)] == [bits(y) for y in p.run(**nhwc)]


@pytest.mark.cell("any other, CPU", "types")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_every_type(label: str, dtype: str) -> None:
    """NumPy's from_dlpack knows no bfloat16; the capsule is read by hand."""
    p = make(label, dtype=dtype)
    if dtype != "bfloat16":
        got = run(p, ByType)
        assert [bits(y.array) for y in got] == [bits(y) for y in p.run()]
        return

    class Raw(Base):
        @classmethod
        def from_dlpack(cls, exporter: Any) -> Any:
            capsule = exporter.__dlpack__(max_version=(1, 0))
            held = tensor_of(capsule)
            size = int(np.prod(held.tensor.shape[: held.tensor.ndim]))
            raw = ctypes.string_at(held.tensor.data + held.tensor.byte_offset, size * 2)
            return cls(np.frombuffer(raw, p.dtypes[0]), exporter)

    if label == "max_pooling+indices":
        p = make("max_pooling", dtype=dtype)
    got = run(p, Raw)
    assert [bits(y.array) for y in got] == [bits(y) for y in p.run()]


def tensor_of(capsule: Any) -> Versioned:
    assert capsule_name(capsule) == b"dltensor_versioned"
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Versioned.from_address(pointer(capsule, b"dltensor_versioned"))


@pytest.mark.cell("any other, CPU", "out")
def test_the_exporter_follows_the_protocol() -> None:
    """Device, versions, flags, copies, refusals: what any consumer may ask of it."""
    _operators.max_pooling(ByType(X), 2)
    exporter = received.pop()
    want = cudml.max_pooling(X, 2)
    assert tuple(int(n) for n in exporter.__dlpack_device__()) == (CPU, 0)
    assert capsule_name(exporter.__dlpack__()) == b"dltensor"
    assert capsule_name(exporter.__dlpack__(max_version=None)) == b"dltensor"
    assert capsule_name(exporter.__dlpack__(max_version=(0, 8))) == b"dltensor"
    for version in ((1, 0), (1, 3), (2, 0)):
        held = tensor_of(capsule := exporter.__dlpack__(max_version=version))
        assert held.major == 1 and not held.flags & READ_ONLY
        assert held.tensor.ndim == 4 and bool(held.tensor.strides)
        assert tuple(held.tensor.shape[:4]) == POOLED
        assert (held.tensor.code, held.tensor.bits, held.tensor.lanes) == (2, 32, 1)
        del capsule
    same = np.from_dlpack(exporter)
    assert bits(same) == bits(want)
    for keywords in ({"stream": None}, {"dl_device": (CPU, 0)}, {"copy": False}, {"copy": None}):
        exporter.__dlpack__(**keywords)
    with pytest.raises(BufferError):
        exporter.__dlpack__(dl_device=(CUDA, 0))
    for wrong in ({"stream": 1}, {"no_such": 1}, {"dl_device": "cpu"}, {"copy": True}):
        with refused((BufferError, TypeError, ValueError), "__dlpack__"):
            exporter.__dlpack__(**wrong)


@pytest.mark.bug("RUN-08")
def test_memory_lives_as_long_as_any_view_of_it() -> None:
    """Capsules taken and not taken, the exporter gone first or last."""
    want = cudml.max_pooling(X, 2)
    views = []
    for _ in range(20):
        _operators.max_pooling(ByType(X), 2)
        exporter = received.pop()
        views.append(np.from_dlpack(exporter))
        unused = [exporter.__dlpack__(), exporter.__dlpack__(max_version=(1, 0))]
        del exporter
        views.append(np.from_dlpack(Once(unused.pop())))
    gc.collect()
    noise = [np.full(POOLED, 9, "f4") for _ in range(100)]
    assert all(bits(v) == bits(want) for v in views)
    del noise


class Once:
    """A capsule as a producer."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def test_from_dlpack_that_fails() -> None:
    """The library's own exception; nothing of the result remains."""

    class Failing(Base):
        @classmethod
        def from_dlpack(cls, exporter: Any) -> Any:
            raise LookupError("the library's own words")

    x = Failing(X)
    before = sys.getrefcount(x)
    for _ in range(20):
        with pytest.raises(LookupError, match="own words"):
            _operators.max_pooling(x, 2)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_libraries_that_have_none() -> None:
    """The error names operator, type and `out`, which is the way."""
    for _ in range(2):
        with refused(TypeError, "max_pooling: ", "Base", "out"):
            _operators.max_pooling(Base(X), 2)
    y = np.empty(POOLED, "f4")
    assert _operators.max_pooling(Base(X), 2, out=y) is y
    assert bits(y) == bits(cudml.max_pooling(X, 2))


@pytest.mark.cell("any other, CPU", "out=")
def test_out_needs_no_library() -> None:
    received.clear()
    y = np.full(POOLED, -1, "f4")
    out = ByType(y)
    assert _operators.max_pooling(ByType(X), 2, out=out) is out and not received
    assert bits(y) == bits(cudml.max_pooling(X, 2))
    with refused(ValueError, "max_pooling: OutputTensor (out) is read-only"):
        _operators.max_pooling(ByType(X), 2, out=Exporter(y, flags=READ_ONLY))


@pytest.mark.cell("any other, CPU", "stream")
def test_a_stream_is_refused() -> None:
    for stream in (0, 1, object()):
        with refused(ValueError, "max_pooling: stream is"):
            _operators.max_pooling(ByType(X), 2, stream=stream)
