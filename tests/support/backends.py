"""The back ends that tests run on, and the means to run a test written for NumPy on each."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cudml
from cudml import _backend
from device_array import CapsuleArray, DeviceArray, InterfaceArray, Memory, to_device

OPERATORS = (
    "average_pooling",
    "average_pooling_grad",
    "lp_pooling",
    "lp_pooling_grad",
    "max_pooling",
    "max_pooling_grad",
    "max_unpooling",
    "mean_variance_normalization",
    "mean_variance_normalization_grad",
    "merge_statistics",
    "normalization_statistics",
    "normalize",
    "normalize_grad",
    "normalize_grad_sums",
    "padding",
    "padding_grad",
)
TUPLES = ("sums", "a", "b")  # arguments that are tuples of arrays
ARRAYS = ("x", "y", "grad", "indices", "scale", "bias", "mean", "variance", "count")
EXACT = ("max_pooling", "max_unpooling", "padding")  # equal bits on every back end
MOST_THREADS = 10_000  # of a call that the interpreter of kernels runs, by a rough estimate
MOST_BYTES = 4 << 20  # of the memory that a call's arrays cover
# What a simulated device is given; all that lies along the memory as a CUDA library would have it.
SIMT_LAYOUTS = ("contiguous", "permuted", "sliced", "misaligned")
CUDA_LAYOUTS = (*SIMT_LAYOUTS, "column-major", "broadcast")

calls: Counter[str] = Counter()  # calls by the name of the back end that ran them
left: Counter[str] = Counter()  # calls that a back end left to the CPU, being too large for it


Receive = Callable[[np.ndarray, np.ndarray], tuple[Any, Callable[[], None]]]


def _same(array: Any) -> Any:
    return array


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Backend:
    """Where an operator runs: `to` makes its arrays from NumPy's, `back` brings results home.

    `receive` makes a stand-in for an output inside a buffer of bytes, and a function that brings
    the buffer's bytes home. `layouts` and `most_threads` say what it is asked to run; None is
    everything.
    """

    name: str
    to: Callable[[np.ndarray], Any] = _same
    back: Callable[[Any], np.ndarray] = _same
    receive: Receive = lambda view, raw: (view, _nothing)
    layouts: tuple[str, ...] | None = None
    most_threads: int | None = None

    def call(self, op: str, *args: Any, **kwargs: Any) -> Any:
        """Runs the public function `op`."""
        calls[self.name] += 1
        return getattr(cudml, op)(*args, **kwargs)

    def takes(self, op: str, call: dict[str, Any], outputs: int) -> bool:
        """Whether it is asked to run a call; some are too large for an interpreter."""
        if self.most_threads is None:
            return True
        if op == "merge_statistics":
            return outputs <= 3 * self.most_threads
        if op in ("normalize_grad_sums", "normalize_grad", "normalize"):
            return call["x"].size <= self.most_threads
        if not op.startswith(("mean_variance_normalization", "normalization_statistics")):
            return outputs <= self.most_threads
        x, axes = call["x"], call["axes"]
        axes = tuple(int(a) for a in (axes if np.iterable(axes) else (axes,)))
        groups = x.size // max(1, math.prod(x.shape[a] for a in axes))
        has_block = x.itemsize == 8 or op == "normalization_statistics"  # for each group
        has_block |= call.get("return_statistics", False)
        return outputs // 8 + groups * (256 if has_block else 32) <= 6 * self.most_threads


CPU = Backend("cpu")


def _receive_simulated(view: np.ndarray, raw: np.ndarray) -> tuple[DeviceArray, Any]:
    lead = raw.ctypes.data % 64
    memory = Memory(lead + raw.size)
    memory.bytes()[lead:] = raw
    offset = lead + view.ctypes.data - raw.ctypes.data
    kind = CapsuleArray if view.dtype.name == "bfloat16" else InterfaceArray
    array = kind(memory, offset, view.shape, view.strides, view.dtype)

    def fetch() -> None:
        memory.check()
        raw[...] = memory.bytes()[lead:]

    return array, fetch


def _home(y: Any) -> np.ndarray:
    return y if isinstance(y, np.ndarray) else y.home()


SIMT = Backend(
    "simt",
    to_device,
    _home,
    _receive_simulated,
    SIMT_LAYOUTS,
    MOST_THREADS,
)


@functools.cache
def simt() -> Any:
    """The module `cudml._simt`, built where it is not there yet."""
    return importlib.import_module("simt_build").module()


def why_no_cuda() -> str:
    """Why nothing can run on a GPU here, or nothing."""
    facts = cudml._core.build_info()["cuda"]
    if not facts["built"]:
        return f"cudml is built without CUDA: {facts['why']}"
    if not facts["devices"]:
        return f"no CUDA device: {facts['why']}"
    if importlib.util.find_spec("torch") is None:
        return "torch, whose arrays live on the GPU, is not installed"
    return ""


def _on_gpu(raw: np.ndarray, lead: int) -> Any:
    """The bytes on the GPU, `lead` bytes past an aligned address, as a tensor of uint8."""
    import torch

    whole = torch.full((lead + raw.size,), 0xFF, dtype=torch.uint8, device="cuda")
    whole[lead:] = torch.from_numpy(np.array(raw)).cuda()
    return whole[lead:]


def _typed(raw: Any, x: np.ndarray, offset: int) -> Any:
    """A tensor of x's type, sizes and strides, `offset` bytes into the tensor of bytes."""
    import torch

    item = x.itemsize
    kind = getattr(torch, x.dtype.name)
    start = raw.storage_offset() + offset
    whole = raw.as_strided((raw.untyped_storage().nbytes() // item * item,), (1,), 0).view(kind)
    return whole.as_strided(x.shape, [s // item for s in x.strides], start // item)


def _to_gpu(x: np.ndarray) -> Any:
    twin = DeviceArray.copy_of(x)
    raw = np.array(twin.memory.bytes())
    return _typed(_on_gpu(raw, 0), x, twin.offset)


def _from_gpu(y: Any) -> np.ndarray:
    import torch

    if isinstance(y, np.ndarray):
        return y
    home = y.cpu()
    if y.dtype is not torch.bfloat16:
        return home.numpy()
    import ml_dtypes

    return home.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _receive_on_gpu(view: np.ndarray, raw: np.ndarray) -> tuple[Any, Callable[[], None]]:
    there = _on_gpu(raw, raw.ctypes.data % 64)
    offset = view.ctypes.data - raw.ctypes.data

    def fetch() -> None:
        raw[...] = there.cpu().numpy()

    return _typed(there, view, offset), fetch


CUDA = Backend("cuda", _to_gpu, _from_gpu, _receive_on_gpu, CUDA_LAYOUTS)
BACKENDS = {backend.name: backend for backend in (CPU, SIMT, CUDA)}

_current = [CPU]


def current() -> Backend:
    """The back end that check() and the public functions run on."""
    return _current[-1]


@contextlib.contextmanager
def using(backend: Backend) -> Iterator[Backend]:
    """Runs check() and the public functions on `backend`, NumPy's arrays included."""
    with _core_of(backend), _public_functions_of(backend):
        _current.append(backend)
        try:
            yield backend
        finally:
            _current.pop()


@contextlib.contextmanager
def _core_of(backend: Backend) -> Iterator[None]:
    """For the interpreter `cudml._simt` runs in place of `cudml._core`."""
    before = _backend.core
    _backend.core = simt() if backend.name == "simt" else cudml._core
    try:
        yield
    finally:
        _backend.core = before


@contextlib.contextmanager
def _public_functions_of(backend: Backend) -> Iterator[None]:
    """The public functions take NumPy's arrays to `backend` and their results home."""
    if backend is CPU or isinstance(cudml.padding, functools.partial):
        yield
        return
    real = {op: getattr(cudml, op) for op in OPERATORS}
    for op, function in real.items():
        setattr(cudml, op, functools.partial(_transported, op, function))
    try:
        yield
    finally:
        for op, function in real.items():
            setattr(cudml, op, function)


def exact_bits(op: str, results: Sequence[np.ndarray]) -> list[bytes]:
    """What must equal on all back ends: all bits, but for D-MAX-6, if `op` is one of EXACT."""
    if op == "max_pooling" and len(results) == 1 and results[0].dtype.kind not in "iu":
        y = results[0].copy()
        y[np.isnan(y)] = np.nan
        y[y == 0] = 0
        results = [y]
    return [y.tobytes() for y in results]


def _is_movable(a: Any) -> bool:
    """A plain array that a CUDA library could hold, of a size that can be copied."""
    if type(a) is not np.ndarray or a.ndim == 0 or a.size == 0 or a.dtype.byteorder == ">":
        return False
    if a.dtype.kind not in "fiu" and a.dtype.name != "bfloat16":
        return False
    covered = sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True))
    aligned = all(s >= 0 and s % a.itemsize == 0 for s in a.strides)
    return aligned and a.ctypes.data % a.itemsize == 0 and covered < MOST_BYTES


def _place(a: np.ndarray) -> tuple[Any, ...]:
    return a.ctypes.data, a.shape, a.strides, a.dtype.name


def _entries(value: Any) -> list[Any]:
    """The arrays of a tuple or list, or the one that a value is; None is none."""
    values = value if isinstance(value, (tuple, list)) else [value]
    return [a for a in values if a is not None]


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """The function of an array, or of every one in a tuple; None stays."""
    if isinstance(value, (tuple, list)):
        return tuple(_each(function, a) for a in value)
    return None if value is None else function(value)


_signature = functools.lru_cache(maxsize=64)(inspect.signature)


def _transported(op: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call on the CPU, which refuses what must be, and then on the current back end.

    The results are those of the latter; where the operator only copies they equal the CPU's.
    """
    backend = current()
    if backend is CPU:
        return real(*args, **kwargs)
    try:
        call = _signature(real).bind(*args, **kwargs).arguments
    except TypeError:
        return real(*args, **kwargs)
    inputs = {k: call[k] for k in (*ARRAYS, *TUPLES) if call.get(k) is not None}
    outs = _entries(call.get("out"))
    arrays = [a for v in (*inputs.values(), outs) for a in _entries(v)]
    if not all(_is_movable(a) for a in arrays):
        left[backend.name] += 1
        return real(*args, **kwargs)
    places = {_place(a): a for a in arrays}
    moved = {place: backend.to(a) for place, a in places.items()}
    home = real(*args, **kwargs)
    expected = [np.array(y) for y in _entries(home)]
    if not backend.takes(op, call, sum(y.size for y in expected)):
        left[backend.name] += 1
        return home
    sent = dict(call)
    for k in (*inputs, *(["out"] if outs else [])):
        sent[k] = _each(lambda a: moved[_place(a)], call[k])
    calls[backend.name] += 1
    result = real(**sent)
    results = _each(backend.back, result)
    exact = op in EXACT
    same = not exact or exact_bits(op, _entries(results)) == exact_bits(op, expected)
    assert same, f"{op}: not the CPU's bits"
    if not outs:
        return results
    for a, got in zip(_entries(home), _entries(results), strict=True):
        a[...] = got
    return home
