"""Memory and streams that are not a library's current ones, in PyTorch's and CuPy's own words."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def number_of(stream: int) -> int:
    """The legacy default stream has two numbers."""
    return 0 if stream == 1 else int(stream)


def _torch_stream_of(stream: int, device: int) -> Any:
    torch = sys.modules["torch"]
    if number_of(stream) == 0:
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(stream, device=device)


def torch_scratch(like: Any, size: int, device: int, stream: int) -> tuple[Any, int]:
    torch = sys.modules["torch"]
    on = contextlib.nullcontext()
    if number_of(torch.cuda.current_stream(device).cuda_stream) != number_of(stream):
        on = torch.cuda.stream(_torch_stream_of(stream, device))
    with on:
        memory = torch.empty(size, dtype=torch.uint8, device=like.device)
    return memory, int(memory.data_ptr())


def torch_used_on(tensor: Any, device: int, stream: int) -> None:
    tensor.record_stream(_torch_stream_of(stream, device))


def cupy_scratch(like: Any, size: int, device: int, stream: int) -> tuple[Any, int]:
    """CuPy's pool hands memory out again on the stream that it was taken on."""
    cuda = sys.modules["cupy"].cuda
    with cuda.Device(device):
        on = contextlib.nullcontext()
        if number_of(cuda.get_current_stream(device).ptr) != number_of(stream):
            on = cuda.ExternalStream(stream, device)
        with on:
            memory = cuda.alloc(size)
    return memory, int(memory.ptr)
