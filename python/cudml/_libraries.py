"""What only an array's own library can do: allocate like it, name its stream, export it.

`register` adds a library; the key is the first part of the name of the module that defines the
type of its arrays.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudml._description import is_without_memory, type_name
from cudml._streams import cupy_scratch, number_of, torch_scratch, torch_used_on

MAX_VERSION = (1, 3)  # of DLPack


@dataclass(frozen=True)
class Library:
    """How arrays of one library are made and where its work goes.

    ``allocate(like, shape, strides, dtype, device)`` gives a new array with exactly these strides,
    which are in elements; `dtype` is a name, `device` a CUDA device's number or None for the CPU.
    AttributeError or TypeError says that there is no such dtype. Without it,
    ``import_memory(memory)`` gives an array of memory that has `__dlpack__`.
    ``current_stream(device)`` is the handle of the stream that the library enqueues work on.
    ``on_device(device)`` is a context in which the library exports arrays of that device.
    ``scratch(like, size, device, stream)`` gives memory of at least `size` bytes for work on that
    stream, as an object to be dropped when the work is enqueued, and its address.
    ``used_on(array, device, stream)`` says that work on a stream which is not the current one uses
    an array's memory, so that it is not handed out before that is done.
    ``reason_to_refuse(op, array)`` says why an operator cannot take an array, or nothing.
    ``written()`` gives what is to be called with each output that is about to be written.
    ``is_immutable`` says that nobody may write into its arrays, even where they are exported so.
    ``is_row_major`` says that its arrays have no other order in memory.
    """

    allocate: Callable[[Any, Sequence[int], Sequence[int], str, int | None], Any] | None
    current_stream: Callable[[int], int]
    on_device: Callable[[int], contextlib.AbstractContextManager[Any]] | None = None
    import_memory: Callable[[Any], Any] | None = None
    scratch: Callable[[Any, int, int, int], tuple[Any, int]] | None = None
    used_on: Callable[[Any, int, int], None] | None = None
    reason_to_refuse: Callable[[str, Any], str] | None = None
    written: Callable[[], Callable[[Any], None]] | None = None
    is_immutable: bool = False
    is_row_major: bool = False


_registry: dict[str, Library] = {}
_of_types: dict[type, tuple[Library | None, int]] = {}  # with how many were known then
_MOST_TYPES = 64
_ALIASES = {"jaxlib": "jax"}  # where types are defined elsewhere


def register(module: str, library: Library) -> None:
    """Make a library known, in place of what was known by that name."""
    _registry[module] = library
    _of_types.clear()


def name_of(array: Any) -> str:
    """The name that an array's library is registered by; empty where none is."""
    for kind in type(array).__mro__:
        module = kind.__module__.partition(".")[0]
        name = _ALIASES.get(module, module)
        if name in _registry:
            return name
    return ""


def find(array: Any) -> Library | None:
    """The library of an array, or of the nearest base of its type that belongs to one."""
    kind, count = type(array), len(_registry)  # others may register one meanwhile
    found = _of_types.get(kind)
    if found is None or found[1] != count:
        if len(_of_types) >= _MOST_TYPES:  # they are kept alive
            _of_types.clear()
        found = _of_types[kind] = _registry.get(name_of(array)), count
    return found[0]


def reason_to_refuse(op: str, array: Any) -> str:
    """Why an array's library knows that the array cannot be taken; empty where it knows nothing."""
    library = find(array)
    if library is None or library.reason_to_refuse is None:
        return ""
    return library.reason_to_refuse(op, array)


def written_hook(array: Any) -> Callable[[Any], None] | None:
    """What an array's library wants to be called with before its arrays are written."""
    library = find(array)
    return None if library is None or library.written is None else library.written()


def is_immutable(array: Any) -> bool:
    """Whether an array's library lets nobody write into its arrays."""
    library = find(array)
    return library is not None and library.is_immutable


def is_row_major(array: Any) -> bool:
    """Whether all arrays of an array's library are row-major."""
    library = find(array)
    return library is not None and library.is_row_major


def current_stream(array: Any, device: int) -> int:
    """The stream that `array`'s library enqueues on; the legacy default one if it is not known."""
    library = find(array)
    return 0 if library is None else int(library.current_stream(device))


def scratch(like: Any, size: int, device: int, stream: int) -> tuple[Any, int] | None:
    """Memory of `like`'s library for work on a stream, with its address; None if it has none."""
    library = find(like)
    if library is None or library.scratch is None:
        return None
    return library.scratch(like, size, device, stream)


def used_on(arrays: Sequence[Any], device: int, stream: int) -> None:
    """Tell the arrays' libraries that work on `stream` uses them, where they would not know."""
    for array in arrays:
        library = find(array)
        if library is None or library.used_on is None:
            continue
        if number_of(library.current_stream(device)) != number_of(stream):
            library.used_on(array, device, stream)


def export(array: Any, device: int | None, stream: int | None) -> Any:
    """The capsule of an array, versioned where its library can do that."""
    library = find(array)
    if device is None or library is None or library.on_device is None:
        return _capsule(array, stream)
    with library.on_device(device):
        return _capsule(array, stream)


def _capsule(array: Any, stream: int | None) -> Any:
    """Libraries from before DLPack 1.0 refuse the keyword; some refuse any stream for the CPU."""
    keywords = {} if stream is None else {"stream": stream}
    if getattr(array, "requires_grad", None) is True:  # refused by torch, under no_grad as well
        array = array.detach()
    try:
        return array.__dlpack__(**keywords, max_version=MAX_VERSION)
    except TypeError:
        return array.__dlpack__(**keywords)


def allocate(
    op: str,
    like: Any,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    device: int | None,
) -> Any:
    """A new array of `like`'s library; None where the library imports results instead."""
    library = find(like)
    if library is None or library.allocate is None:
        _importer(op, like)
        return None
    try:
        return library.allocate(like, shape, strides, dtype, device)
    except (AttributeError, TypeError) as error:
        raise _cannot_hold(op, like, dtype, str(error)) from error


def import_memory(op: str, like: Any, memory: Any, dtype: str) -> Any:
    """The array that `like`'s library makes of a result's memory, without a copy where it can."""
    try:
        result = _importer(op, like)(memory)
    except (AttributeError, TypeError, RuntimeError, ValueError) as error:
        raise _cannot_hold(op, like, dtype, str(error)) from error
    found = type_name(getattr(result, "dtype", dtype))
    if found != dtype:
        raise _cannot_hold(op, like, dtype, f"it makes {found} of it")
    return result


def _cannot_hold(op: str, like: Any, dtype: str, why: str) -> TypeError:
    index = "index_dtype=" + ('"uint32"' if why.startswith("it makes") else '"int64"')
    ways = {"float64": 'dtype="float32"', **dict.fromkeys(("int64", "uint64", "uint32"), index)}
    hint = f"; {ways[dtype]} is the way" if dtype in ways else ""
    module = type(like).__module__.partition(".")[0]
    return TypeError(f"{op}: {module} cannot hold {dtype} here ({why}){hint}")


def _importer(op: str, like: Any) -> Callable[[Any], Any]:
    """How `like`'s library imports: as it is registered, else a `from_dlpack` that it has."""
    library = find(like)
    if library is not None and library.import_memory is not None:
        return library.import_memory
    kind = type(like)
    spaces = [kind, sys.modules.get(kind.__module__.partition(".")[0])]
    if hasattr(like, "__array_namespace__"):
        spaces.insert(0, like.__array_namespace__())
    for space in spaces:
        found = getattr(space, "from_dlpack", None)
        if callable(found):
            importer: Callable[[Any], Any] = found
            return importer
    raise TypeError(
        f"{op}: out is None; {kind.__module__}.{kind.__qualname__} has no from_dlpack to return "
        "a result by, so out must be given"
    )


def _torch_allocate(
    like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str, device: int | None
) -> Any:
    torch = sys.modules["torch"]
    kind = getattr(torch, dtype)
    return torch.empty_strided(shape, strides, dtype=kind, device=like.device)


def _torch_stream(device: int) -> int:
    torch = sys.modules["torch"]
    return int(torch.cuda.current_stream(device).cuda_stream)


def _torch_device(device: int) -> contextlib.AbstractContextManager[Any]:
    """Torch exports arrays of its current device only."""
    torch = sys.modules["torch"]
    if torch.cuda.current_device() == device:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[Any] = torch.cuda.device(device)
    return context


def _torch_reason(op: str, tensor: Any) -> str:
    """What no protocol says of a tensor and would make results wrong without a word."""
    torch = sys.modules["torch"]
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return (
            "stands for other tensors inside of a transformation of torch.func (vmap, grad, jvp, "
            "functionalize); call outside of it"
        )
    is_wanted = tensor.requires_grad and not torch.is_inference_mode_enabled()
    if is_wanted and torch.is_grad_enabled():
        way = f"use cudml.torch.{op}, " if op.islower() else ""  # a descriptor's name is not
        return f"requires a gradient; {way}pass its detach(), or call under torch.no_grad()"
    if torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        way = "pass the primal that torch.autograd.forward_ad.unpack_dual gives"
        return f"has a tangent of forward-mode differentiation; {way}"
    if tensor.is_nested:
        return "is nested; pass its tensors one by one, or torch.nested.to_padded_tensor of it"
    if tensor.is_quantized:
        return f"holds quantized numbers ({tensor.dtype}); pass its dequantize()"
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; pass its to_dense()"
    if is_without_memory(tensor):
        return (
            f"is a {type(tensor).__name__} on {tensor.device} that has no memory; pass a tensor "
            "that has, or ask cudml.explain"
        )
    return ""


def _torch_written() -> Callable[[Any], None]:
    """Autograd refuses to go back through a tensor that was written after it was saved."""
    told: Callable[[Any], None] = sys.modules["torch"].autograd.graph.increment_version
    return told


def _numpy_name(dtype: str) -> Any:
    """The dtype as NumPy has it, bfloat16 with the help of ml_dtypes."""
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def _cupy_allocate(
    like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str, device: int | None
) -> Any:
    cupy = sys.modules["cupy"]
    kind = _numpy_name(dtype)
    steps = [step * kind.itemsize for step in strides]
    elements = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    with cupy.cuda.Device(device):
        memory = cupy.cuda.alloc(kind.itemsize * (elements if math.prod(shape) else 0))
        return cupy.ndarray(tuple(shape), kind, memptr=memory, strides=tuple(steps))


def _cupy_stream(device: int) -> int:
    cupy = sys.modules["cupy"]
    return int(cupy.cuda.get_current_stream(device).ptr)


def _cupy_device(device: int) -> contextlib.AbstractContextManager[Any]:
    cupy = sys.modules["cupy"]
    context: contextlib.AbstractContextManager[Any] = cupy.cuda.Device(device)
    return context


def _numba_allocate(
    like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str, device: int | None
) -> Any:
    cuda = sys.modules["numba"].cuda
    kind = np.dtype(dtype)
    steps = tuple(step * kind.itemsize for step in strides)
    with cuda.gpus[device]:
        return cuda.device_array(tuple(shape), kind, strides=steps)


def _numba_stream(device: int) -> int:
    """Numba has no current stream: its work goes to the default one unless told otherwise."""
    return 0


def _jax_import(memory: Any) -> Any:
    return sys.modules["jax"].dlpack.from_dlpack(memory)


def _jax_stream(device: int) -> int:
    """JAX has no current stream; it orders itself with the default one."""
    return 0


# An array of a library is at hand whenever one of these is asked, so that it is imported.
_torch = Library(
    _torch_allocate,
    _torch_stream,
    _torch_device,
    scratch=torch_scratch,
    used_on=torch_used_on,
    reason_to_refuse=_torch_reason,
    written=_torch_written,
)
register("torch", _torch)
register("cupy", Library(_cupy_allocate, _cupy_stream, _cupy_device, scratch=cupy_scratch))
register("numba", Library(_numba_allocate, _numba_stream))
_jax = Library(None, _jax_stream, import_memory=_jax_import, is_immutable=True, is_row_major=True)
register("jax", _jax)
