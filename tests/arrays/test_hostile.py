"""DLPack from producers that lie or fail: a right result or one clear error, nothing written.

Every row runs for each argument an operator takes, and ends with each tensor deleted once and each
reference count as it was. The rows whose addresses point nowhere run in a process of their own.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml import _operators
from directml_support import operator, tensor
from exporters import CPU, CUDA, CUDA_HOST, IS_COPIED, READ_ONLY, Exporter
from harness import data, named

X = data((2, 3, 5, 7), "float32")
AXES = (2, 3)
Kind = type[BaseException] | tuple[type[BaseException], ...]


def compiled() -> Any:
    sizes = list(X.shape)
    fields = {"InputTensor": tensor(sizes), "OutputTensor": tensor(sizes), "Axes": list(AXES)}
    return operator("MeanVarianceNormalization2", **fields).compile("cpu")


def normalize(x: Any, scale: Any, y: Any) -> Any:
    return _operators.mean_variance_normalization(x, scale, axes=AXES, out=y)


# By the argument that is hostile: how an error begins, and a call whose arrays all have one shape.
ROLES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "x": ("mean_variance_normalization: InputTensor", lambda a, y: normalize(a, None, y)),
    "scale": ("mean_variance_normalization: ScaleTensor", lambda a, y: normalize(X, a, y)),
    "grad": (
        "max_pooling_grad: InputGradientTensor",
        lambda a, y: _operators.max_pooling_grad(X, a, 1, out=y),
    ),
    "inputs[0]": (
        "MEAN_VARIANCE_NORMALIZATION2: InputTensor",
        lambda a, y: compiled()(a, out=y),
    ),
    "out": ("average_pooling: OutputTensor", lambda a, y: _operators.average_pooling(X, 1, out=a)),
    "compiled out": (
        "MEAN_VARIANCE_NORMALIZATION2: OutputTensor",
        lambda a, y: compiled()(X, out=a),
    ),
}
every_role = pytest.mark.parametrize("role", ROLES)
both_capsules = pytest.mark.parametrize("is_versioned", [True, False], ids=["versioned", "legacy"])


def refusal(call: Callable[[], Any]) -> tuple[type[BaseException], str]:
    """What a call raised, with no traceback that would keep its arguments."""
    try:
        call()
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("not refused")


def check_refusal(call: Callable[[], Any], kind: Kind, *fragments: str) -> None:
    found, text = refusal(call)
    assert issubclass(found, kind), f"{found.__name__}: {text}"
    for fragment in fragments:
        assert fragment in text, f"{fragment!r} is not in {text!r}"
    for foreign in ("incompatible function arguments", "pybind11", "(arg0"):
        assert foreign not in text, text


def hostile_call(role: str, is_versioned: bool, changes: Any) -> tuple[Exporter, np.ndarray, Any]:
    """The producer, the output's memory, and the call with both."""
    y = np.full(X.shape, -1, X.dtype)
    base = y if "out" in role else X
    made = changes(base) if callable(changes) else changes
    x = Exporter(base, is_versioned, **made)
    call = ROLES[role][1]
    return x, y, lambda: call(x, y)


def check_counts(x: Exporter, y: np.ndarray, call: Callable[[], Any]) -> None:
    """The call, whatever comes of it, and what it must leave as it was."""
    watched = (x, x.array, x.asked, y, X)
    before = [sys.getrefcount(a) for a in watched]
    call()
    assert x.is_settled(), [(e.name, e.deleted) for e in x.exports]
    x.exports.clear()
    assert [sys.getrefcount(a) for a in watched] == before


# --- what a capsule may say ---

no_memory = ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value
GOOD: dict[str, Any] = {
    "null strides are packed": {"strides": None},
    "numbers behind the last dimension": {
        "ndim": 4,
        "shape": (*X.shape, 5),
        "strides": (105, 35, 7, 1, -7),
    },
    "an offset in bytes": {"byte_offset": 64},
    # As large as the address allows: where Python is not position-independent, heaps begin low.
    "a large offset": lambda base: {"byte_offset": min(2**40, base.ctypes.data // 2)},
    "copied by the producer": {"flags": IS_COPIED},
    "read-only": {"flags": READ_ONLY},
    "flags to come": {"flags": 2**63 | 2**40 | 4},
    "a newer minor version": {"version": (1, 2**32 - 1)},
    "pinned memory": {"device": (CUDA_HOST, 3)},
    "pinned memory reported as the CPU's": {"device": (CUDA_HOST, 0), "reported": (CPU, 0)},
}
INPUTS_ONLY = ("copied by the producer", "read-only")
TAKEN = [(row, role) for row in GOOD for role in ROLES
         if "out" not in role or row not in INPUTS_ONLY]  # fmt: skip


@pytest.mark.bug("MEM-06", "RUN-08")
@both_capsules
@pytest.mark.parametrize(("row", "role"), TAKEN)
def test_capsules_that_are_taken(row: str, role: str, is_versioned: bool) -> None:
    x, y, call = hostile_call(role, is_versioned, GOOD[row])
    check_counts(x, y, call)
    _, wanted, plain = hostile_call(role, is_versioned, {})
    plain()
    assert y.tobytes() == wanted.tobytes() and not (y == -1).all()


@pytest.mark.bug("RUN-08")
@both_capsules
@every_role
@pytest.mark.parametrize("deleter", [None, no_memory], ids=["null", "leaves an exception"])
def test_odd_deleters(deleter: Any, role: str, is_versioned: bool) -> None:
    """A null one is not called; an exception that one leaves is nobody's."""
    x, y, call = hostile_call(role, is_versioned, {"deleter": deleter})
    for _ in range(3):
        call()
    assert not (y == -1).all() and x.deleted == 0
    assert all(name.startswith(b"used_") for name in x.capsule_names())


@pytest.mark.bug("RUN-08")
@pytest.mark.parametrize("deleter", [None, no_memory], ids=["null", "leaves an exception"])
def test_odd_deleters_of_refused_capsules(deleter: Any) -> None:
    _, y, call = hostile_call("x", True, {"deleter": deleter, "lanes": 2})
    for _ in range(3):
        check_refusal(call, TypeError, "InputTensor", "2 lanes")
    _, y, call = hostile_call("x", True, {"deleter": deleter, "version": (2, 0)})
    check_refusal(call, BufferError, "InputTensor", "2.0")
    assert (y == -1).all()


# --- what is refused ---


def at_odd_address(a: np.ndarray) -> dict[str, Any]:
    return {"data": a.ctypes.data + 2}


REFUSED: dict[str, tuple[Kind, tuple[str, ...], Any]] = {
    "another name": (BufferError, (), {"name": b"other"}),
    "no name": (BufferError, (), {"name": None}),
    "a name cut short": (BufferError, (), {"name": b"dltens"}),
    "used": (BufferError, (), {"name": b"used_dltensor"}),
    "used, versioned": (BufferError, (), {"name": b"used_dltensor_versioned"}),
    "null shape": (BufferError, (), {"shape": None, "ndim": 4}),
    "a thousand million dimensions": (
        ValueError,
        ("DimensionCount is 1000000000",),
        {"ndim": 10**9},
    ),
    "nine dimensions": (ValueError, ("DimensionCount is 9",), {"ndim": 9}),
    "no dimension": (ValueError, ("DimensionCount is 0",), {"ndim": 0}),
    "minus one dimensions": (ValueError, ("DimensionCount is -1",), {"ndim": -1}),
    "least dimensions": (ValueError, ("DimensionCount is -2147483648",), {"ndim": -(2**31)}),
    "no lanes": (TypeError, ("DataType",), {"lanes": 0}),
    "four lanes": (TypeError, ("DataType", "4 lanes"), {"lanes": 4}),
    "most lanes": (TypeError, ("DataType",), {"lanes": 2**16 - 1}),
    "no bits": (TypeError, ("DataType",), {"bits": 0}),
    "128 bits": (TypeError, ("DataType", "128"), {"bits": 128}),
    "4 bits": (TypeError, ("DataType",), {"bits": 4, "code": 1}),
    "bool": (TypeError, ("DataType", "bool"), {"bits": 8, "code": 6}),
    "an unknown code": (TypeError, ("DataType", "255"), {"code": 255}),
    "no memory": (BufferError, (), {"data": 0}),
    "an odd address": (BufferError, (), at_odd_address),
    "device type 0": (ValueError, ("device type 0",), {"device": (0, 0)}),
    "device type 99": (ValueError, ("device type 99",), {"device": (99, 0)}),
    "device type -1": (ValueError, (), {"device": (-1, 0)}),
    "a device that is not the reported one": (
        BufferError,
        ("device",),
        {"reported": (CPU, 0), "device": (CUDA, 0)},
    ),
    "a negative size": (BufferError, ("-3",), {"shape": (2, -3, 5, 7)}),
    "least size": (BufferError, (), {"shape": (2, -(2**63), 5, 7)}),
    "sizes that overflow": (
        ValueError,
        ("Sizes",),
        {"shape": (2**40, 2**40, 2, 2), "strides": None},
    ),
    "packed strides that overflow": (
        ValueError,
        ("Sizes",),
        {"shape": (2**31, 2**31, 2**31, 1), "strides": None},
    ),
    "a negative stride": (BufferError, ("-7",), {"strides": (105, 35, -7, 1)}),
    "least stride": (BufferError, (), {"strides": (105, 35, -(2**63), 1)}),
    "a stride of 2^62-1": (ValueError, ("Strides[0]",), {"strides": (2**62 - 1, 35, 7, 1)}),
    "a stride of 2^63-1": (ValueError, ("Strides[2]",), {"strides": (105, 35, 2**63 - 1, 1)}),
}
VERSIONED: dict[str, tuple[Kind, tuple[str, ...], Any]] = {
    "version 2": (BufferError, ("2.0",), {"version": (2, 0)}),
    "version 0": (BufferError, ("0.9",), {"version": (0, 9)}),
    "the last version": (BufferError, (), {"version": (2**32 - 1, 2**32 - 1)}),
}
BAD = [(row, kind) for row in REFUSED for kind in (True, False)] + [(r, True) for r in VERSIONED]


@pytest.mark.bug("MEM-02", "RUN-08")
@pytest.mark.decision("D-TEN-7")
@every_role
@pytest.mark.parametrize(("row", "is_versioned"), BAD)
def test_capsules_that_are_refused(row: str, role: str, is_versioned: bool) -> None:
    """The error names operator and tensor; the output's bytes stay; a good call follows."""
    kind, fragments, changes = (REFUSED | VERSIONED)[row]
    x, y, call = hostile_call(role, is_versioned, changes)
    check_counts(x, y, lambda: check_refusal(call, kind, ROLES[role][0], *fragments))
    assert (y == -1).all()
    good, z, plain = hostile_call(role, is_versioned, {})
    plain()
    assert good.is_settled() and not (z == -1).all()


@both_capsules
@pytest.mark.parametrize("role", ["out", "compiled out"])
def test_outputs_that_may_not_be_written(role: str, is_versioned: bool) -> None:
    for kind, flags in ((ValueError, READ_ONLY), (BufferError, IS_COPIED)):
        x, y, call = hostile_call(role, is_versioned, {"flags": flags})
        if is_versioned:
            check_counts(x, y, lambda c=call, k=kind: check_refusal(c, k, ROLES[role][0], "(out)"))
            assert (y == -1).all()
    x, y, call = hostile_call(role, is_versioned, {"strides": (105, 35, 7, 0)})
    check_counts(x, y, lambda: check_refusal(call, ValueError, ROLES[role][0], "Strides"))
    assert (y == -1).all()


WILD: dict[str, Any] = {
    "an offset of 2^63": lambda a: {"data": a.ctypes.data, "byte_offset": 2**63},
    "an offset of 2^64-4": lambda a: {"data": 8, "byte_offset": 2**64 - 4},
    "an offset that wraps": lambda a: {"data": a.ctypes.data, "byte_offset": 2**64 - 2**40},
    "an end beyond all memory": lambda a: {"data": 2**64 - 256},
    "memory of the kernel": lambda a: {"data": 2**63},
}


def wild_calls() -> None:
    """Sums that wrap, and addresses in the half of them that no process has."""
    for row, changes in WILD.items():
        for role, (begin, _) in ROLES.items():
            print(row, role, flush=True)
            x, y, call = hostile_call(role, True, changes)
            check_counts(x, y, lambda c=call, b=begin: check_refusal(c, BufferError, b))
            assert (y == -1).all()
    print("done")


@pytest.mark.bug("MEM-06")
def test_addresses_that_point_nowhere() -> None:
    script = "from tests.arrays import test_hostile; test_hostile.wild_calls()"
    assert child_says(script).splitlines()[-1] == "done"


# --- producers whose methods misbehave ---


class Odd:
    """A producer with these methods."""

    def __init__(self, act: Callable[..., Any], device: Any = (CPU, 0)) -> None:
        self.act, self.device = act, device

    def __dlpack_device__(self) -> Any:
        return self.device() if callable(self.device) else self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.act(**keywords)


def fail(**_: Any) -> Any:
    raise LookupError("the producer's own words")


@every_role
def test_methods_that_raise(role: str) -> None:
    """The producer's own exception, whole."""
    y = np.full(X.shape, -1, X.dtype)
    call = ROLES[role][1]
    for odd in (Odd(fail), Odd(lambda **_: None, fail)):
        before = sys.getrefcount(odd)
        check_refusal(lambda o=odd: call(o, y), LookupError, "own words")
        assert sys.getrefcount(odd) == before and (y == -1).all()


@every_role
@pytest.mark.parametrize("gift", [None, 7, X, b"dltensor", "dltensor", (), object()], ids=named)
def test_gifts_that_are_no_capsules(role: str, gift: Any) -> None:
    y = np.full(X.shape, -1, X.dtype)
    odd, (begin, call) = Odd(lambda **_: gift), ROLES[role]
    before = sys.getrefcount(odd)
    check_refusal(lambda: call(odd, y), BufferError, begin)
    assert sys.getrefcount(odd) == before and (y == -1).all()


@every_role
@pytest.mark.parametrize(
    "device",
    [None, 1, (1,), [1, 0], (1, 0, 0), "10", (None, 0), ("1", 0), (1.0, 0), (2**40, 0),
     (2**70, 0), (-(2**70), 0), (2, 2**31), (2, 2**70), (2, -1), (1, None)],
    ids=repr,
)  # fmt: skip
def test_devices_that_are_no_devices(role: str, device: Any) -> None:
    y = np.full(X.shape, -1, X.dtype)
    odd, (begin, call) = Odd(fail, device), ROLES[role]
    check_refusal(lambda: call(odd, y), (BufferError, ValueError), begin)
    assert (y == -1).all()


def test_attributes_that_raise_or_cannot_be_called() -> None:
    class Thorny:
        def __getattr__(self, name: str) -> Any:
            raise LookupError("the producer's own words")

    class Numbers:
        __dlpack__ = __dlpack_device__ = 5

    class Half:
        __dlpack__ = fail

    y = np.full(X.shape, -1, X.dtype)
    for role, (begin, call) in ROLES.items():
        check_refusal(lambda c=call: c(Thorny(), y), LookupError, "own words")
        check_refusal(lambda c=call: c(Numbers(), y), (TypeError, BufferError))
        check_refusal(lambda c=call, b=begin: c(Half(), y), TypeError, begin)
        assert (y == -1).all(), role


@both_capsules
def test_one_capsule_for_two_arguments(is_versioned: bool) -> None:
    """The second finds it used; it is deleted once."""
    y = np.full(X.shape, -1, X.dtype)
    x = Exporter(X, is_versioned)
    capsule = x.__dlpack__(**({"max_version": (1, 3)} if is_versioned else {}))
    odd = Odd(lambda **_: capsule)
    check_refusal(lambda: normalize(odd, odd, y), BufferError, "ScaleTensor (scale)")
    assert x.deleted == 1 and x.is_settled() and (y == -1).all()


def test_outputs_whose_list_changes_while_it_is_read() -> None:
    """The pair was taken before the first array of it speaks."""
    values, indices = np.full(X.shape, -1, "f4"), np.full(X.shape, 9, "u4")
    out: list[Any] = []

    class Clearing(Exporter):
        def __dlpack_device__(self) -> Any:
            out.clear()
            return CPU, 0

    first = Clearing(values)
    out += [first, indices]
    _operators.max_pooling(X, 1, return_indices=True, out=out)
    assert first.is_settled() and np.array_equal(values, X)
    assert np.array_equal(indices.ravel(), np.arange(X.size))


def test_one_bad_argument_frees_the_others() -> None:
    """Whichever argument is refused, the tensors of all the others are deleted."""
    for bad in range(3):
        y = np.full(X.shape, -1, X.dtype)
        arrays = [Exporter(a, lanes=2 if i == bad else 1) for i, a in enumerate([X, X, y])]
        check_refusal(lambda a=arrays: normalize(*a), TypeError, "2 lanes")
        assert all(a.is_settled() for a in arrays) and (y == -1).all()
        counts = [len(a.exports) for a in arrays]
        assert counts[bad] == 1 and max(counts) == 1, counts
    assert cudml.max_pooling(X, 1) is not X
