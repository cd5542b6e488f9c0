"""Producers of DLPack capsules and CUDA array interfaces that say what a test tells them to."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

CPU, CUDA, CUDA_HOST, ROCM, CUDA_MANAGED = 1, 2, 3, 10, 13
READ_ONLY, IS_COPIED = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
BFLOAT16 = 4


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


def type_code(dtype: np.dtype) -> tuple[int, int]:
    """DLPack's code and bits."""
    is_brain = dtype.name == "bfloat16"
    return (BFLOAT16, 16) if is_brain else (CODES[dtype.kind], 8 * dtype.itemsize)


def numbers(values: Any) -> Any:
    """An array of int64, of at least one element, so that its address is good for rank 0."""
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class Export:
    """A tensor that a capsule lends: it lives until its deleter runs or nobody holds it.

    A null deleter is None, one of C's an address. `keep` lives as long as the tensor does.
    """

    OWN = -1  # the deleter that counts

    def __init__(
        self,
        tensor: Tensor,
        version: tuple[int, int] | None = None,
        flags: int = 0,
        deleter: int | None = OWN,
        keep: Any = None,
    ) -> None:
        self.keep = keep
        self.deleted = 0
        address = _address_of(_delete) if deleter == self.OWN else deleter
        if version is None:
            self.managed: Any = Managed(tensor, None, address)
        else:
            self.managed = Versioned(*version, None, address, flags, tensor)
        self.name = b"dltensor" if version is None else b"dltensor_versioned"
        _known[ctypes.addressof(self.managed)] = self

    def capsule(self, name: bytes | None = b"") -> Any:
        """A capsule of this name, by default the right one, that frees what nobody took."""
        if self.managed.deleter == _address_of(_delete):
            pending.add(self)
        self.name = name if name != b"" else self.name
        return _new_capsule(ctypes.addressof(self.managed), self.name, _destroy)

    def count(self) -> None:
        self.deleted += 1
        pending.discard(self)


def _address_of(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


_known: weakref.WeakValueDictionary[int, Export] = weakref.WeakValueDictionary()
pending: set[Export] = set()  # those whose deleter has not run
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@_CALLBACK
def _delete(managed: int) -> None:
    _known[managed].count()


@_CALLBACK
def _destroy(capsule: int) -> None:
    """As every producer's: a capsule that was not taken frees its tensor."""
    name = _name_of(capsule)
    if name is None or not name.startswith(b"used_"):
        found = _known[_pointer_of(capsule, name)]
        if found.managed.deleter:
            found.count()


_api = ctypes.pythonapi
# Addresses instead of objects: a capsule that is being destroyed must not be referred to again.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", _api))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _CALLBACK
)(("PyCapsule_New", _api))  # fmt: skip


def capsule_name(capsule: Any) -> bytes:
    return _name_of(id(capsule))


class Exporter:
    """An array of NumPy's behind `__dlpack__`; keyword arguments change what the capsule says.

    `deleted` counts the deleters' calls, `asked` lists the keywords of every export.
    """

    def __init__(self, array: np.ndarray, is_versioned: bool = True, **changes: Any) -> None:
        self.array, self.is_versioned, self.changes = array, is_versioned, changes
        self.asked: list[dict[str, Any]] = []
        self.capsules: list[Any] = []
        self.exports: list[Export] = []

    @property
    def deleted(self) -> int:
        return sum(export.deleted for export in self.exports)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.changes.get("reported", self.changes.get("device", (CPU, 0)))

    def tensor(self) -> Tensor:
        a, say = self.array, self.changes.get
        code, bits = type_code(a.dtype)
        shape = say("shape", a.shape)
        strides = say("strides", tuple(s // a.itemsize for s in a.strides))
        offset = say("byte_offset", 0)
        return Tensor(
            say("data", a.ctypes.data - offset) or None,
            *say("device", (CPU, 0)),
            say("ndim", 0 if shape is None else len(shape)),
            say("code", code),
            say("bits", bits),
            say("lanes", 1),
            None if shape is None else numbers(shape),
            None if strides is None else numbers(strides),
            offset,
        )

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        if not self.is_versioned and "max_version" in keywords:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        say = self.changes.get
        version = say("version", (1, 0)) if self.is_versioned else None
        export = Export(self.tensor(), version, say("flags", 0), say("deleter", Export.OWN))
        self.exports.append(export)
        self.capsules.append((export.capsule(say("name", b"")), export))
        return self.capsules[-1][0]

    def capsule_names(self) -> list[bytes]:
        return [capsule_name(capsule) for capsule, _ in self.capsules]

    def is_settled(self) -> bool:
        """Lets go of the capsules: every tensor was deleted once, or never where others used it."""
        self.capsules.clear()
        wanted = [0 if (e.name or b"").startswith(b"used_") else 1 for e in self.exports]
        return [e.deleted for e in self.exports] == wanted


class Interface:
    """A `__cuda_array_interface__` of an array's memory; a change to None takes the entry away.

    `reads` counts how often it was asked for.
    """

    def __init__(self, array: np.ndarray, **changes: Any) -> None:
        self.array, self.changes = array, changes
        self.reads = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.reads += 1
        a = self.array
        entries: dict[str, Any] = {
            "version": 3,
            "shape": a.shape,
            "typestr": a.dtype.str,
            "data": (a.ctypes.data, False),
            "strides": a.strides,
            **self.changes,
        }
        return {k: v for k, v in entries.items() if v is not None}
