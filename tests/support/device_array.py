"""Arrays in the simulated device's memory: what a CUDA library hands to an operator."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cudml import _libraries
from exporters import CUDA, Export, Tensor, numbers, type_code

POISON = 0xFF
ALIGNMENT = 256  # of cudaMalloc
_libc = ctypes.CDLL(None)
_libc.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def _has_red_zones() -> bool:
    """Whether the allocator itself notices accesses beyond an allocation: AddressSanitizer's."""
    return hasattr(_libc, "__asan_init")


GUARD = 0 if _has_red_zones() else 256  # bytes before and after each allocation


class Memory:
    """A poisoned allocation of exactly `size` bytes, aligned as the device's are."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._raw = ctypes.c_void_p()
        whole = size + 2 * GUARD
        if _libc.posix_memalign(ctypes.byref(self._raw), ALIGNMENT, max(whole, 1)):
            raise MemoryError(f"{whole} bytes")
        assert self._raw.value is not None
        ctypes.memset(self._raw, POISON, whole)
        self.address = self._raw.value + GUARD

    def __del__(self) -> None:
        _libc.free(self._raw)

    def bytes(self) -> np.ndarray:
        """The memory itself as a NumPy array, which must not outlive it."""
        return _bytes_at(self.address, self.size)

    def check(self) -> None:
        """Nothing was written before it or after it."""
        for name, first in (("before", self.address - GUARD), ("after", self.address + self.size)):
            assert (_bytes_at(first, GUARD) == POISON).all(), f"written {name} the device's memory"


def _bytes_at(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_ubyte * size).from_address(address), np.uint8)


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First and last byte (exclusive) that such an array covers, from its first element."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + itemsize


class DeviceArray:
    """A strided view of device memory that no protocol offers; see the classes below."""

    memory_type: Any = Memory

    def __init__(
        self,
        memory: Memory,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        stream: int | None = None,
    ) -> None:
        self.memory, self.offset, self.stream = memory, offset, stream
        self.shape, self.strides, self.dtype = tuple(shape), tuple(strides), np.dtype(dtype)
        low, high = extent(self.shape, self.strides, self.dtype.itemsize)
        assert offset + low >= 0 and offset + high <= memory.size, "a view beyond its memory"

    @classmethod
    def empty(
        cls,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
        lead: int = 0,
    ) -> DeviceArray:
        """Poison; `strides` in bytes, row-major by default; `lead` bytes lie before it."""
        kind = np.dtype(dtype)
        if strides is None:
            steps = [math.prod(shape[a + 1 :]) * kind.itemsize for a in range(len(shape))]
            strides = tuple(steps)
        low, high = extent(tuple(shape), strides, kind.itemsize)
        memory = cls.memory_type(lead + high - low)
        return cls(memory, lead - low, tuple(shape), strides, kind)

    @classmethod
    def copy_of(cls, x: np.ndarray) -> DeviceArray:
        """x on the device, strides and its address's remainder kept; poison lies all around."""
        low, _ = extent(x.shape, x.strides, x.itemsize)
        lead = (x.ctypes.data + low) % 64 if x.size else 0
        result = cls.empty(x.shape, x.dtype, x.strides, lead)
        if x.size:  # once where a stride of 0 repeats it
            once = tuple(slice(0, 1) if s == 0 else slice(None) for s in x.strides)
            result.view()[once] = x[once]
        return result

    def view(self) -> np.ndarray:
        """The device's memory as a NumPy array, which must not outlive this one."""
        return np.ndarray(
            self.shape, self.dtype, self.memory.bytes().data, self.offset, self.strides
        )

    def home(self) -> np.ndarray:
        """A copy in the host's memory with the same strides."""
        self.memory.check()
        whole = self.memory.bytes().copy()
        return np.ndarray(self.shape, self.dtype, whole.data, self.offset, self.strides)

    @property
    def address(self) -> int:
        return self.memory.address + self.offset

    def data_ptr(self) -> int:
        """As torch calls it."""
        return self.address


class InterfaceArray(DeviceArray):
    """An array offered through `__cuda_array_interface__`, which has no bfloat16."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "stream": self.stream,
        }


class CapsuleArray(DeviceArray):
    """An array offered through DLPack."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, **_: Any) -> Any:
        return _capsule(self)


def to_device(x: np.ndarray) -> DeviceArray:
    """A copy of x on the device: strides kept, poison all around."""
    return (CapsuleArray if x.dtype.name == "bfloat16" else InterfaceArray).copy_of(x)


def _allocate(
    like: DeviceArray,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    device: int | None,
) -> DeviceArray:
    if dtype == "bfloat16":
        import ml_dtypes

        kind = np.dtype(ml_dtypes.bfloat16)
    else:
        kind = np.dtype(dtype)
    return type(like).empty(tuple(shape), kind, tuple(s * kind.itemsize for s in strides))


streams: list[int] = [0]  # the last one is the library's current stream
_libraries.register(__name__, _libraries.Library(_allocate, lambda device: streams[-1]))


def _capsule(x: DeviceArray) -> Any:
    """A legacy capsule that keeps x's memory until its consumer calls the deleter."""
    shape, strides = numbers(x.shape), numbers([s // x.dtype.itemsize for s in x.strides])
    tensor = Tensor(x.address, CUDA, 0, len(x.shape), *type_code(x.dtype), 1, shape, strides, 0)
    return Export(tensor, keep=x.memory).capsule()
