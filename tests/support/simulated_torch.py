"""PyTorch itself on the simulated device: its tensors of the CPU are taken as the device's.

All memory of the process is that device's, so that an exchange table which says so is enough, and
what a call costs PyTorch's users on a GPU is what it costs here, launches apart. `on_device` puts
names of `torch.cuda` and the device "cuda" of what makes tensors in PyTorch's place.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

import backends
from cudml import _backend

TABLE = "__dlpack_c_exchange_api__"
MAKERS = ("empty", "empty_strided", "full", "ones", "zeros", "tensor", "arange")
L2_BYTES = 1 << 10  # small, so that a few sets of small buffers rotate through more than it
_SOME_BYTES = 1 << 30


def has_table() -> bool:
    return TABLE in vars(torch.Tensor)


class Event:
    """An event of the host's clock: the stand-in's work is done when it is enqueued."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


class CUDAGraph:
    """Refuses: launches of PyTorch's own kernels are not the stand-in's."""

    def replay(self) -> None:
        raise NotImplementedError


@contextlib.contextmanager
def _no_graph(graph: CUDAGraph) -> Iterator[None]:
    raise RuntimeError("nothing is captured on the simulated device")
    yield


def _moved(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes tensors, on the CPU where it is asked for the device."""

    @functools.wraps(function)
    def made(*arguments: Any, **keywords: Any) -> Any:
        if str(keywords.get("device", "")).startswith("cuda"):
            del keywords["device"]
        return function(*arguments, **keywords)

    return made


def _to(function: Callable[..., Any]) -> Callable[..., Any]:
    def to(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
        if arguments and str(arguments[0]).startswith("cuda"):
            return function(tensor, *arguments[1:]).clone()
        return function(tensor, *arguments, **keywords)

    return to


def _cuda() -> dict[str, Any]:
    stream = SimpleNamespace(cuda_stream=0)
    return {
        "Event": Event,
        "CUDAGraph": CUDAGraph,
        "graph": _no_graph,
        "_sleep": lambda cycles: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "is_available": lambda: True,
        "current_stream": lambda device=None: stream,
        "current_device": lambda: 0,
        "get_device_properties": lambda device: SimpleNamespace(
            L2_cache_size=L2_BYTES, name="simulated device", total_memory=_SOME_BYTES
        ),
    }


@contextlib.contextmanager
def on_device() -> Iterator[Any]:
    """The module `cudml._simt`, in place of `cudml._core`, with PyTorch's tensors on its device."""
    core, before = backends.simt(), _backend.core
    table = vars(torch.Tensor)[TABLE]
    with contextlib.ExitStack() as stack:
        for name in MAKERS:
            stack.enter_context(mock.patch.object(torch, name, _moved(getattr(torch, name))))
        for name, stand_in in _cuda().items():
            stack.enter_context(mock.patch.object(torch.cuda, name, stand_in))
        tensor = torch.Tensor
        stack.enter_context(mock.patch.object(tensor, TABLE, core.simt_exchange_table(table)))
        stack.enter_context(mock.patch.object(tensor, "__dlpack_device__", lambda t: (2, 0)))
        stack.enter_context(mock.patch.object(tensor, "to", _to(tensor.to)))
        stack.enter_context(mock.patch.object(tensor, "cuda", lambda t: t.clone()))
        _backend.core = core
        try:
            yield core
        finally:
            _backend.core = before
