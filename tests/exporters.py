"""Producers of DLPack capsules and CUDA array interfaces that say what a test tells them to."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CPU, CUDA, CUDA_HOST, ROCM, CUDA_MANAGED = 1, 2, 3, 10, 13
READ_ONLY, IS_COPIED = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
BFLOAT16 = 4


class _Tensor(ctypes.Structure):
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


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]


class Exporter:
    """An array of NumPy's behind `__dlpack__`; keyword arguments change what the capsule says.

    `deleted` counts the deleter's calls, `asked` lists the keywords of every export.
    """

    def __init__(self, array: np.ndarray, is_versioned: bool = True, **changes: Any) -> None:
        self.array, self.is_versioned, self.changes = array, is_versioned, changes
        self.deleted = 0
        self.asked: list[dict[str, Any]] = []
        self.capsules: list[Any] = []
        self._deleter = _DELETER(self._delete)

    def _delete(self, _: int) -> None:
        self.deleted += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.changes.get("reported", self.changes.get("device", (CPU, 0)))

    def _tensor(self) -> _Tensor:
        a, say = self.array, self.changes.get
        is_brain = a.dtype.name == "bfloat16"
        code, bits = (BFLOAT16, 16) if is_brain else (CODES[a.dtype.kind], 8 * a.itemsize)
        shape = say("shape", a.shape)
        strides = say("strides", tuple(s // a.itemsize for s in a.strides))
        rank = len(shape)
        offset = say("byte_offset", 0)
        device = say("device", (CPU, 0))
        return _Tensor(
            say("data", a.ctypes.data - offset) or None,
            *device,
            say("ndim", rank),
            say("code", code),
            say("bits", bits),
            say("lanes", 1),
            (ctypes.c_int64 * max(rank, 1))(*shape),
            None if strides is None else (ctypes.c_int64 * max(rank, 1))(*strides),
            offset,
        )

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        if not self.is_versioned and "max_version" in keywords:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        deleter = ctypes.cast(self._deleter, ctypes.c_void_p)
        if self.is_versioned:
            major, minor = self.changes.get("version", (1, 0))
            flags = self.changes.get("flags", 0)
            managed: Any = _Versioned(major, minor, None, deleter, flags, self._tensor())
            name = b"dltensor_versioned"
        else:
            managed, name = _Managed(self._tensor(), None, deleter), b"dltensor"
        capsule = _api.PyCapsule_New(
            ctypes.addressof(managed), self.changes.get("name", name), None
        )
        self.capsules.append((capsule, managed))
        return capsule

    def capsule_names(self) -> list[bytes]:
        return [_api.PyCapsule_GetName(capsule) for capsule, _ in self.capsules]


class Interface:
    """A `__cuda_array_interface__` of an array's memory; a change to None takes the entry away."""

    def __init__(self, array: np.ndarray, **changes: Any) -> None:
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
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
