"""Hostile `__cuda_array_interface__`s, buffers and integers: a right result or one clear error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _backend, _operators
from directml_support import operator
from exporters import CPU, CUDA, Exporter, Interface
from harness import data, refused
from tests.arrays.test_hostile import check_refusal

X = data((2, 3, 5, 7), "float32")
BYTES = X.strides


# --- __cuda_array_interface__ ---


class Lending:
    """Arrays on the simulated device: one that is good, and a poisoned output."""

    def __init__(self, device_array: Any) -> None:
        self.kind = device_array.InterfaceArray
        self.x, self.y = self.kind.copy_of(X), self.kind.empty(X.shape, "f4")

    def given(self, **changes: Any) -> Interface:
        return Interface(X, **{**self.x.__cuda_array_interface__, **changes})

    def is_untouched(self) -> bool:
        return bool((self.y.memory.bytes() == 0xFF).all())


@pytest.fixture
def lending(simulated: Any) -> Lending:
    return Lending(simulated)


# By the argument that is hostile: how an error begins, and the call.
ROLES: dict[str, tuple[str, Callable[[Lending, Any], Any]]] = {
    "x": (
        "mean_variance_normalization: InputTensor",
        lambda of, a: _operators.mean_variance_normalization(a, axes=3, out=of.y),
    ),
    "scale": (
        "mean_variance_normalization: ScaleTensor",
        lambda of, a: _operators.mean_variance_normalization(of.x, a, axes=3, out=of.y),
    ),
    "grad": (
        "max_pooling_grad: InputGradientTensor",
        lambda of, a: _operators.max_pooling_grad(of.x, a, 1, out=of.y),
    ),
    "out": (
        "average_pooling: OutputTensor",
        lambda of, a: _operators.average_pooling(of.x, 1, out=a),
    ),
}
every_role = pytest.mark.parametrize("role", ROLES)

Kind = type[BaseException] | tuple[type[BaseException], ...]
REFUSED: list[tuple[Kind, str, dict[str, Any]]] = [
    (BufferError, '"version"', {"version": None}),
    (BufferError, '"shape"', {"shape": None}),
    (BufferError, '"typestr"', {"typestr": None}),
    (BufferError, '"data"', {"data": None}),
    (BufferError, "version", {"version": 0}),
    (BufferError, "version", {"version": "3"}),
    (BufferError, "version", {"version": -(2**70)}),
    (TypeError, "<f3", {"typestr": "<f3"}),
    (TypeError, ">f4", {"typestr": ">f4"}),
    (TypeError, "O8", {"typestr": "|O8"}),
    (TypeError, "O8", {"typestr": "O8"}),
    (TypeError, "<V4", {"typestr": "<V4"}),
    (TypeError, "<c8", {"typestr": "<c8"}),
    (TypeError, "DataType", {"typestr": ""}),
    (TypeError, "DataType", {"typestr": "<f4" * 100}),
    ((TypeError, BufferError), "typestr", {"typestr": 4}),
    ((TypeError, BufferError), "typestr", {"typestr": b"<f4"}),
    (BufferError, "shape", {"shape": [2, 3, 5, 7]}),
    (BufferError, "shape", {"shape": 4}),
    (BufferError, "-3", {"shape": (2, -3, 5, 7)}),
    (BufferError, "shape", {"shape": (2, 3.0, 5, 7)}),
    (BufferError, "shape", {"shape": (2, "3", 5, 7)}),
    (BufferError, "shape", {"shape": (2, None, 5, 7)}),
    (BufferError, "shape", {"shape": (2, 2**70, 5, 7)}),
    (ValueError, "DimensionCount is 0", {"shape": (), "strides": None}),
    (ValueError, "DimensionCount is 9", {"shape": (1,) * 9, "strides": (4,) * 9}),
    (ValueError, "DimensionCount is 9", {"shape": (*[1] * 8, 2**70), "strides": None}),
    (ValueError, "DimensionCount is 70000", {"shape": (1,) * 70000, "strides": None}),
    (ValueError, "Sizes", {"shape": (2**40, 2**40, 2, 2), "strides": None}),
    (BufferError, "3 strides", {"strides": BYTES[:3]}),
    (BufferError, "strides", {"strides": list(BYTES)}),
    (BufferError, "strides", {"strides": (*BYTES[:3], 4.0)}),
    (BufferError, "strides", {"strides": (*BYTES[:3], 2**70)}),
    (BufferError, "29", {"strides": (BYTES[0], BYTES[1], 29, 4)}),
    (BufferError, "negative", {"strides": (BYTES[0], BYTES[1], -28, 4)}),
    (BufferError, "", {"strides": (BYTES[0], BYTES[1], -(2**63), 4)}),
    (ValueError, "Strides[0]", {"strides": (2**63 - 4, BYTES[1], 28, 4)}),
    (BufferError, "memory", {"data": (0, False)}),
    (BufferError, "data", {"data": 12}),
    (BufferError, "data", {"data": (256,)}),
    (BufferError, "data", {"data": [256, False]}),
    (BufferError, "address", {"data": (256.0, False)}),
    (BufferError, "address", {"data": (None, False)}),
    (BufferError, "address", {"data": (2**70, False)}),
    (BufferError, "", {"data": (-256, False)}),
    (BufferError, "", {"data": (2**63 - 256, False)}),
    (TypeError, "mask", {"mask": X}),
    (BufferError, "stream is 0", {"stream": 0}),
    (BufferError, "stream", {"stream": "1"}),
    (BufferError, "stream", {"stream": 1.0}),
    (BufferError, "stream", {"stream": 2**70}),
]


@pytest.mark.bug("RUN-03", "RUN-08")
@every_role
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: str(row[2])[:50])
def test_interfaces_that_are_refused(lending: Lending, role: str, row: Any) -> None:
    kind, fragment, changes = row
    begin, call = ROLES[role]
    of = lending.y if role == "out" else lending.x
    given = Interface(X, **{**of.__cuda_array_interface__, **changes})
    before = [sys.getrefcount(a) for a in (given, X, lending.x, lending.y)]
    check_refusal(lambda: call(lending, given), kind, begin, fragment)
    assert [sys.getrefcount(a) for a in (given, X, lending.x, lending.y)] == before
    assert given.reads == 1 and lending.is_untouched()


@every_role
def test_interfaces_that_are_no_dicts(lending: Lending, role: str) -> None:
    begin, call = ROLES[role]
    for found in (None, 3, "version", [("version", 3)], object()):
        odd = type("Own", (), {"__cuda_array_interface__": found})()
        check_refusal(partial(call, lending, odd), BufferError, begin, "dict")
    assert lending.is_untouched()


@every_role
def test_interfaces_that_raise(lending: Lending, role: str) -> None:
    """An AttributeError says that there is none; any other is the producer's own."""
    begin, call = ROLES[role]
    for kind, found in ((LookupError, LookupError), (AttributeError, TypeError)):

        class Own:
            @property
            def __cuda_array_interface__(self, kind: Any = kind) -> Any:
                raise kind("the producer's own words")

        words = "own words" if found is kind else begin
        check_refusal(partial(call, lending, Own()), found, words)
    assert lending.is_untouched()


def test_memory_that_is_not_on_the_device(lending: Lending, simulated: Any) -> None:
    """What the driver says of a pointer counts, not what the producer says."""
    core, there = _backend.core, lending.x.address
    for device, kind, text in ((-1, BufferError, "device"), (1, ValueError, "cuda:1")):
        core.simt_place(there, X.nbytes, device)
        try:
            for role in ("scale", "grad", "out"):
                call = ROLES[role][1]
                other = Lending(simulated)
                check_refusal(partial(call, other, lending.x), kind, text)
                assert other.is_untouched()
        finally:
            core.simt_unplace(there)


def test_interfaces_that_are_taken(lending: Lending) -> None:
    """Version 2 has no stream; null strides are packed; a newer version keeps what 3 says."""
    wanted = _operators.average_pooling(lending.x, 2).home()
    odd = {"shape": (np.int64(2), *X.shape[1:]), "data": (np.uint64(lending.x.address), 0)}
    changes: list[dict[str, Any]] = [
        {"version": 2, "stream": None}, {"version": 99}, {"strides": None}, {"stream": 1},
        {"stream": 2}, {"mask": None}, {"data": (lending.x.address, True)}, {"descr": [("", "?")]},
        {"typestr": "=f4"}, odd,
    ]  # fmt: skip
    for row in changes:
        given, y = lending.given(**row), lending.kind.empty(wanted.shape, "f4")
        assert _operators.average_pooling(given, 2, out=y) is y
        assert y.home().tobytes() == wanted.tobytes(), row
        assert given.reads == 2, row  # the second time when no more Python code runs


def test_nothing_is_needed_for_empty_arrays(lending: Lending) -> None:
    empty = lending.kind.empty((0, 3, 5, 7), "f4")
    entries = {**empty.__cuda_array_interface__, "data": (0, False)}
    y = _operators.average_pooling(
        Interface(X, **entries), 2, out=lending.kind.empty((0, 3, 4, 6), "f4")
    )
    assert y.shape == (0, 3, 4, 6)


def test_an_interface_that_changes_between_two_reads(lending: Lending) -> None:
    """It is read once, and its dict's values are copied before any other code runs."""
    entries = dict(lending.x.__cuda_array_interface__)

    class Shrinking:
        def __index__(self) -> int:
            entries.update(shape=(10**6,) * 4, strides=None, data=(0, False))
            entries.clear()
            return 2

    class Own:
        __cuda_array_interface__ = entries

    entries["shape"] = (Shrinking(), *X.shape[1:])
    try:
        y = _operators.average_pooling(Own(), 2, out=lending.kind.empty((2, 3, 4, 6), "f4"))
    except BufferError as error:
        assert "average_pooling: InputTensor" in str(error)
    else:
        assert y.home().tobytes() == _operators.average_pooling(lending.x, 2).home().tobytes()


def test_capsules_that_say_another_device_than_reported(lending: Lending) -> None:
    for changes in ({"reported": (CUDA, 0), "device": (CPU, 0)},
                    {"reported": (CUDA, 0), "device": (CUDA, 1)}):  # fmt: skip
        x = Exporter(X, data=lending.x.address, **changes)
        for role in ("x", "scale", "grad"):
            begin, call = ROLES[role]
            check_refusal(partial(call, lending, x), BufferError, begin, "device")
        assert x.is_settled() and lending.is_untouched()


# --- buffers, __array_interface__, __array__ ---


class Pretender:
    """What NumPy would take, and the library does not: none of it is asked for."""

    @property
    def __array_interface__(self) -> Any:
        raise LookupError("asked for")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise LookupError("asked for")


@pytest.mark.parametrize(
    "thing",
    [bytearray(96), bytes(96), memoryview(X), memoryview(X.astype("f2")), Pretender()],
    ids=["bytearray", "bytes", "memoryview", "memoryview of halves", "__array_interface__"],
)
def test_buffers_are_no_arrays(thing: Any) -> None:
    y = np.full(X.shape, -1, X.dtype)
    for x, out in ((thing, y), (X, thing)):
        with refused(TypeError, "average_pooling: ", "Tensor ("):
            _operators.average_pooling(x, 1, out=out)
    assert (y == -1).all()


def test_arrays_of_numpy_s_that_claim_another_memory() -> None:
    """The array itself counts, not what a subclass says of it."""

    class Own(np.ndarray):
        @property
        def __array_interface__(self) -> Any:
            raise LookupError("asked for")

        def __dlpack__(self, **_: Any) -> Any:
            raise LookupError("asked for")

    x = X.copy().view(Own)
    assert cudml.average_pooling(x, 2).tobytes() == cudml.average_pooling(X, 2).tobytes()


def test_numpy_arrays_over_buffers() -> None:
    """Of halves, of read-only bytes, of another exporter's memory: NumPy's rules, once over."""
    halves = X.astype("f2")
    assert np.array_equal(cudml.max_pooling(np.asarray(memoryview(halves)), 1), halves)
    fixed = np.frombuffer(X.tobytes(), "f4").reshape(X.shape)
    assert np.array_equal(cudml.max_pooling(fixed, 1), X)
    with refused(ValueError, "max_pooling: OutputTensor (out) is read-only"):
        cudml.max_pooling(X, 1, out=fixed)
    assert fixed.tobytes() == X.tobytes()


def grad_operator() -> Any:
    return operator("MaxPoolingGrad").compile("cpu")


GRAD = [data((1, 2, 4, 5), "float32", 1), data((1, 2, 3, 4), "float32", 2)]


def test_workspaces_with_suboffsets_and_odd_formats() -> None:
    """Any contiguous bytes will do, whatever their format; pointers to rows will not."""
    testbuffer = pytest.importorskip("_testbuffer")
    run = grad_operator()
    x, grad = GRAD
    wanted = run(x, grad)
    size = run.workspace_bytes
    flags = testbuffer.ND_WRITABLE
    for format_, item in (("e", 2), ("d", 8), ("B", 1)):
        memory = np.zeros(-(-size // item) + 8, f"V{item}")
        view = testbuffer.ndarray(
            [0] * len(memory), shape=[len(memory)], format=format_, flags=flags
        )
        assert run(x, grad, workspace=view).tobytes() == wanted.tobytes()
    rows = testbuffer.ndarray(
        [0] * (2 * size), shape=[2, size], format="B", flags=flags | testbuffer.ND_PIL
    )
    with refused(ValueError, "MAX_POOLING_GRAD: workspace", "not contiguous"):
        run(x, grad, workspace=rows)


def test_a_workspace_is_held_while_it_is_used() -> None:
    """A buffer cannot be resized during the call, and is free again after it, refused or not."""
    run = grad_operator()
    x, grad = GRAD
    memory = bytearray(run.workspace_bytes)
    wanted = run(x, grad)
    stop = threading.Event()
    clashes: list[type[BaseException]] = []

    def resize() -> None:
        while not stop.is_set():
            try:
                memory.append(0)
                memory.pop()
            except BufferError as error:
                clashes.append(type(error))

    other = threading.Thread(target=resize)
    other.start()
    try:
        for _ in range(300):
            assert run(x, grad, workspace=memory).tobytes() == wanted.tobytes()
    finally:
        stop.set()
        other.join()
    check_refusal(lambda: run(x, workspace=memory), TypeError, "inputs")
    check_refusal(lambda: run(x, grad, out=x, workspace=memory), ValueError, "OutputGradientTensor")
    memory.append(0)
    assert set(clashes) <= {BufferError}
