"""Calls of every operator on the simulated device, and what they asked of its runtime."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cudml
from array_support import LABELS, Problem, make
from cudml import _backend, _operators
from device_array import InterfaceArray
from directml_support import desc_of, tensor
from harness import data

LAUNCH = "cudaLaunchKernelExC"
TAKEN = "cudaMallocFromPoolAsync"
ALLOCATING = {"cudaMalloc", "cudaMallocAsync", TAKEN, "cudaFree", "cudaFreeAsync"}
WAITING = {
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy",
    "cudaMemset",
}  # fmt: skip
SHAPE = (2, 3, 5, 7)
COMPILED = ("MaxPooling2", "MaxPoolingGrad", "AveragePooling1", "AveragePoolingGrad",
            "LpPooling1", "Padding1", "MeanVarianceNormalization2")  # fmt: skip


class Noted(NamedTuple):
    """A call of the runtime: see csrc/simt/streams.h."""

    call: str
    stream: int
    device: int
    object: int


class Log(list[Noted]):
    def of(self, *calls: str) -> list[Noted]:
        return [noted for noted in self if noted.call in calls]

    @property
    def launches(self) -> list[Noted]:
        return self.of(LAUNCH)

    def first(self, call: str) -> int:
        return [noted.call for noted in self].index(call)


@contextlib.contextmanager
def logged() -> Iterator[Log]:
    """What the block asked of the runtime, and no collector of garbage, which drops operators."""
    core, log = _backend.core, Log()
    was_enabled = gc.isenabled()
    gc.disable()
    core.simt_log(True)
    try:
        yield log
    finally:
        log.extend(Noted(*noted) for noted in core.simt_calls())
        core.simt_log(False)
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def none_loaded() -> Iterator[None]:
    """The block finds no kernel loaded, as a new process does.

    What was loaded before is so again afterwards: the library loads a kernel once.
    """
    core = _backend.core
    kernels = core.simt_forget_loaded()
    try:
        yield
    finally:
        core.simt_remember_loaded(kernels)


class Lent:
    """A call of a public function on the device, with its outputs there."""

    def __init__(self, label: str, shape: tuple[int, ...] = SHAPE, kind: Any = InterfaceArray):
        self.problem: Problem = make(label, shape)
        self.kind = kind
        self.arrays = {k: kind.copy_of(a) for k, a in self.problem.arrays.items()}
        pairs = zip(self.problem.shapes, self.problem.dtypes, strict=True)
        self.outputs = [kind.empty(s, d) for s, d in pairs]

    def __call__(self, **changes: Any) -> Any:
        p = self.problem
        arrays = [changes.pop(k, a) for k, a in self.arrays.items()]
        out = self.outputs[0] if len(self.outputs) == 1 else tuple(self.outputs)
        keywords = {**p.kwargs, "out": out, **changes}
        return getattr(_operators, p.op)(*arrays, *p.args, **keywords)

    def all(self) -> list[Any]:
        return [*self.arrays.values(), *self.outputs]

    def poison(self) -> None:
        for y in self.outputs:
            y.memory.bytes()[:] = 0xFF

    def is_poison(self) -> bool:
        return all((y.memory.bytes() == 0xFF).all() for y in self.outputs)

    def fill(self, seed: int) -> None:
        """Other numbers in the inputs' memory."""
        for i, a in enumerate(self.arrays.values()):
            a.view()[...] = data(a.shape, a.dtype, 100 * seed + i)

    def results(self) -> list[bytes]:
        return [y.home().tobytes() for y in self.outputs]


class Run(Lent):
    """A compiled operator's call on the device, with a workspace of its own where asked."""

    def __init__(self, name: str, device: str = "cuda:0", workspace: bool = False, **fields: Any):
        desc = desc_of(name, **fields)
        self.run = cudml.Operator(desc).compile(device)
        inputs = ("InputTensor", "InputGradientTensor", "ScaleTensor", "BiasTensor")
        given = [getattr(desc, f).Sizes for f in inputs if getattr(desc, f, None) is not None]
        name_of_output = "OutputGradientTensor" if name.endswith("Grad") else "OutputTensor"
        sizes = getattr(desc, name_of_output).Sizes
        self.arrays = {str(i): InterfaceArray.copy_of(data(tuple(s), "float32", i))
                       for i, s in enumerate(given)}  # fmt: skip
        self.outputs = [InterfaceArray.empty(tuple(sizes), np.dtype("f4"))]
        size = max(self.run.workspace_bytes, 1)
        self.workspace = InterfaceArray.empty((size,), "u1") if workspace else None

    def __call__(self, **changes: Any) -> Any:
        keywords = {"out": self.outputs[0], "workspace": self.workspace, **changes}
        return self.run(*self.arrays.values(), **keywords)

    def all(self) -> list[Any]:
        return [*super().all(), *([] if self.workspace is None else [self.workspace])]


def with_workspace(**options: Any) -> list[Run]:
    """Operators that need memory of their own on the device."""
    one = [1, 1, 64, 1024]
    group = tensor(one)
    runs = [
        Run("MaxPoolingGrad", **options),
        Run("MeanVarianceNormalization2", InputTensor=group, OutputTensor=group,
            Axes=[1, 2, 3], **options),
    ]  # fmt: skip
    found = [run for run in runs if run.run.workspace_bytes]
    assert found, "none of them needs memory"
    return found


def every_call(**options: Any) -> dict[str, Callable[[], Lent]]:
    """By name: what makes each operator's call, as a function and compiled."""
    made: dict[str, Callable[[], Lent]] = {label: lambda n=label: Lent(n) for label in LABELS}
    for name in COMPILED:
        made[f"compiled {name}"] = lambda n=name: Run(n, **options)
        made[f"compiled {name}, workspace"] = lambda n=name: Run(n, workspace=True, **options)
    return made


CALLS = every_call()


@contextlib.contextmanager
def stream() -> Iterator[int]:
    """A stream of the current device."""
    handle = _backend.core.simt_stream()
    try:
        yield handle
    finally:
        _backend.core.simt_destroy_stream(handle)


@contextlib.contextmanager
def placed(arrays: list[Any], device: int) -> Iterator[None]:
    """The arrays' memory is on that device."""
    core = _backend.core
    for a in arrays:
        core.simt_place(a.memory.address, max(a.memory.size, 1), device)
    try:
        yield
    finally:
        for a in arrays:
            core.simt_unplace(a.memory.address)
