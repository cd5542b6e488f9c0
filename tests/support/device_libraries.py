"""Stand-ins for libraries with arrays on a GPU: their names, their protocols, their allocators."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from cudml import _libraries
from device_array import CapsuleArray, DeviceArray, InterfaceArray, Memory, extent
from exporters import CUDA, Managed, Versioned, capsule_name
from layouts import dtype_of

PYTORCH, CUPY, NUMBA, JAX = "PyTorch, CUDA", "CuPy", "Numba", "JAX, CUDA"
OTHER = "any other, CUDA"
DTYPES = ("float32", "float16", "float64", "uint8", "uint16", "uint32", "uint64", "int8", "int16",
          "int32", "int64")  # fmt: skip


@dataclass
class Made:
    """A library: how NumPy's arrays get there, the type of its arrays, and what was asked of it."""

    name: str
    to: Any
    kind: type
    stream: int = 0  # its current one
    device: int = 0
    allocated: list[Any] = field(default_factory=list)
    entered: list[int] = field(default_factory=list)  # devices that were made current
    written: list[Any] = field(default_factory=list)  # outputs it was told of
    scratch: list[int] = field(default_factory=list)  # streams that working memory was taken on
    recorded: list[tuple[int, int]] = field(default_factory=list)  # addresses and streams

    def home(self, y: Any) -> np.ndarray:
        return y.home()


@contextlib.contextmanager
def _on(made: Made, device: int) -> Iterator[None]:
    before, made.device = made.device, device
    made.entered.append(device)
    try:
        yield
    finally:
        made.device = before


@contextlib.contextmanager
def _current(made: Made, stream: int) -> Iterator[None]:
    before, made.stream = made.stream, stream
    try:
        yield
    finally:
        made.stream = before


class Block:
    """Memory of an allocator that hands it out again as soon as its last array is dropped, unless
    it was told of other streams."""

    free: ClassVar[dict[int, list[Memory]]] = {}
    waiting: ClassVar[list[Memory]] = []  # for other streams, as long as the allocator is there

    def __init__(self, size: int) -> None:
        free = self.free.get(size)
        self.memory = free.pop() if free else Memory(size)
        self.size, self.address = size, self.memory.address
        self.bytes, self.check = self.memory.bytes, self.memory.check
        self.streams: set[int] = set()

    def __del__(self) -> None:
        if self.streams:
            self.waiting.append(self.memory)
        else:
            self.free.setdefault(self.size, []).append(self.memory)


def torch_like(patch: pytest.MonkeyPatch) -> Made:
    """`torch.empty_strided`, a current stream and device, arrays by DLPack alone."""
    made = Made(PYTORCH, None, CapsuleArray)

    def record_stream(tensor: Any, stream: Any) -> None:
        made.recorded.append((tensor.address, stream.cuda_stream))
        tensor.memory.streams.add(stream.cuda_stream)

    names = {"__module__": "torch", "device": "cuda:0", "record_stream": record_stream}
    blocks = type("Block", (Block,), {"free": {}, "waiting": []})
    kind = type("Tensor", (CapsuleArray,), {**names, "memory_type": blocks})
    made.to, made.kind = kind.copy_of, kind

    def empty_strided(shape: Any, strides: Any, dtype: Any, device: Any) -> Any:
        assert device == "cuda:0"
        made.allocated.append(made.stream)
        return kind.empty(tuple(shape), dtype, tuple(s * dtype.itemsize for s in strides))

    def empty(size: int, dtype: Any, device: Any) -> Any:
        assert device == "cuda:0" and dtype == np.uint8
        made.scratch.append(made.stream)
        return kind.empty((size,), dtype)

    cuda = SimpleNamespace(
        default_stream=lambda device: SimpleNamespace(cuda_stream=0),
        ExternalStream=lambda handle, device: SimpleNamespace(cuda_stream=handle),
        stream=lambda stream: _current(made, stream.cuda_stream),
        current_stream=lambda device: SimpleNamespace(cuda_stream=made.stream),
        current_device=lambda: made.device,
        device=lambda device: _on(made, device),
    )
    types = {name: dtype_of(name) for name in (*DTYPES, "bfloat16")}
    undifferentiated = SimpleNamespace(tangent=None)
    autograd = SimpleNamespace(
        graph=SimpleNamespace(increment_version=made.written.append),
        forward_ad=SimpleNamespace(unpack_dual=lambda tensor: undifferentiated),
    )
    functorch = SimpleNamespace(is_functorch_wrapped_tensor=lambda tensor: False)
    kind.requires_grad, kind.layout = False, "strided"
    kind.is_nested = kind.is_quantized = False
    patch.setitem(
        sys.modules,
        "torch",
        SimpleNamespace(
            empty_strided=empty_strided,
            empty=empty,
            cuda=cuda,
            autograd=autograd,
            strided=kind.layout,
            _C=SimpleNamespace(_functorch=functorch),
            **types,
        ),
    )
    return made


def cupy_like(patch: pytest.MonkeyPatch) -> Made:
    """`cupy.ndarray` over `cupy.cuda.alloc`; arrays by both protocols."""

    class ndarray(CapsuleArray, InterfaceArray):
        def __init__(self, shape: Any, dtype: Any, memptr: Memory, strides: Any) -> None:
            low, _ = extent(shape, strides, np.dtype(dtype).itemsize)
            DeviceArray.__init__(self, memptr, -low, shape, strides, dtype)

    ndarray.__module__ = "cupy"
    made = Made(CUPY, None, ndarray)

    def alloc(size: int) -> Memory:
        made.scratch.append(made.stream)
        memory = Memory(size)
        memory.ptr = memory.address  # type: ignore[attr-defined]
        return memory

    def to(a: np.ndarray) -> Any:
        low, high = extent(a.shape, a.strides, a.itemsize)
        made_of = ndarray(a.shape, a.dtype, Memory(high - low), a.strides)
        if a.size:
            made_of.view()[...] = a
        return made_of

    made.to = to
    cuda = SimpleNamespace(
        alloc=alloc,
        get_current_stream=lambda device: SimpleNamespace(ptr=made.stream),
        ExternalStream=lambda handle, device: _current(made, handle),
        Device=lambda device: _on(made, device),
    )

    def new(*arguments: Any, **keywords: Any) -> Any:
        made.allocated.append(made.scratch.pop())  # that memory is an array's
        return ndarray(*arguments, **keywords)

    patch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=new, cuda=cuda))
    return made


def numba_like(patch: pytest.MonkeyPatch) -> Made:
    """`numba.cuda.device_array`; arrays by the CUDA array interface alone, no current stream."""
    names = {"__module__": "numba.cuda.cudadrv.devicearray"}
    kind = type("DeviceNDArray", (InterfaceArray,), names)
    made = Made(NUMBA, kind.copy_of, kind)

    def device_array(shape: Any, dtype: Any, strides: Any) -> Any:
        made.allocated.append(made.stream)
        return kind.empty(tuple(shape), dtype, strides)

    gpus = {0: _Reentrant(made, 0)}
    cuda = SimpleNamespace(device_array=device_array, gpus=gpus)
    patch.setitem(sys.modules, "numba", SimpleNamespace(cuda=cuda))
    return made


class _Reentrant:
    """A device that can be made current again and again."""

    def __init__(self, made: Made, device: int) -> None:
        self.made, self.device = made, device

    def __enter__(self) -> None:
        self.made.entered.append(self.device)

    def __exit__(self, *_: Any) -> None:
        pass


def jax_like(patch: pytest.MonkeyPatch) -> Made:
    """`jax.dlpack.from_dlpack` of objects; immutable arrays by legacy capsules alone."""
    kind = type("ArrayImpl", (CapsuleArray,), {"__module__": "jaxlib._jax"})
    made = Made(JAX, kind.copy_of, kind)

    def from_dlpack(lender: Any) -> Any:
        assert tuple(int(n) for n in lender.__dlpack_device__()) == (CUDA, 0)
        made.allocated.append(made.stream)
        capsule = lender.__dlpack__(stream=made.stream or 1, max_version=(1, 0))
        return kind.copy_of(_memory_of(capsule))  # while nothing runs any more

    dlpack = SimpleNamespace(from_dlpack=from_dlpack)
    patch.setitem(sys.modules, "jax", SimpleNamespace(dlpack=dlpack))
    return made


def _memory_of(capsule: Any) -> np.ndarray:
    """What a capsule lends, where device memory is the host's."""
    import ctypes

    name = capsule_name(capsule)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    held = (Versioned if name == b"dltensor_versioned" else Managed).from_address(
        pointer(capsule, name)
    )
    t = held.tensor
    assert (t.device_type, t.device_id) == (CUDA, 0)
    kinds = {(DTYPE.kind, DTYPE.itemsize * 8): DTYPE for DTYPE in map(np.dtype, DTYPES)}
    dtype = dtype_of("bfloat16") if t.code == 4 else kinds["iuf"[t.code], t.bits]
    shape, strides = tuple(t.shape[: t.ndim]), tuple(t.strides[: t.ndim])
    steps = tuple(s * dtype.itemsize for s in strides)
    _, high = extent(shape, steps, dtype.itemsize)
    raw = (ctypes.c_ubyte * max(high, 1)).from_address(t.data + t.byte_offset)
    return np.ndarray(shape, dtype, bytes(raw), 0, steps)


def other_like(patch: pytest.MonkeyPatch) -> Made:
    """A type that nobody registered, with a `from_dlpack` of its own."""
    kind = type("Array", (CapsuleArray,), {"__module__": "elsewhere"})
    made = Made(OTHER, kind.copy_of, kind)

    def from_dlpack(lender: Any) -> Any:
        made.allocated.append(made.stream)
        return kind.copy_of(_memory_of(lender.__dlpack__(stream=1, max_version=(1, 3))))

    kind.from_dlpack = staticmethod(from_dlpack)
    patch.delitem(_libraries._registry, "device_array")  # its base's
    return made


LIBRARIES = {
    PYTORCH: torch_like,
    CUPY: cupy_like,
    NUMBA: numba_like,
    JAX: jax_like,
    OTHER: other_like,
}
