"""Large new results lie on large pages: the system clears what is first written page by page."""

from __future__ import annotations

import importlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from cudml.directml import AveragePooling1OperatorDesc, BufferTensorDesc

SMAPS, PAGES = Path("/proc/self/smaps"), Path("/sys/kernel/mm/transparent_hugepage/enabled")
pytestmark = pytest.mark.skipif(not PAGES.exists(), reason="this system has no large pages")
# float32: above what C libraries keep for themselves, so that all of it is new.
SHAPE = (9, 1 << 20)


def flags_at(address: int) -> set[str]:
    """What the system was told of the memory that an address is in."""
    is_there = False
    for line in SMAPS.read_text().splitlines():
        head, *rest = line.split()
        if head == "VmFlags:" and is_there:
            return {*rest}
        if "-" in head and not head.endswith(":"):
            first, end = (int(part, 16) for part in head.split("-"))
            is_there = first <= address < end
    raise AssertionError(f"{address:#x} is in no memory of this process")


def middle(result: Any) -> int:
    """An address amid a result."""
    return int(np.from_dlpack(result).ctypes.data) + result.size // 2 * 4


def fresh(torch: Any) -> Any:
    """A tensor of memory that nobody has told the system anything of; malloc's may be used."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, SHAPE[0] * SHAPE[1] * 4, flags=private)
    return torch.frombuffer(memory, dtype=torch.float32).reshape(SHAPE)


@pytest.mark.core
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x = fresh(torch)
    assert "hg" not in flags_at(x.data_ptr() + x.nbytes // 2)
    halve = AveragePooling1OperatorDesc(
        InputTensor=BufferTensorDesc("FLOAT32", [1, 1, 18, 1 << 20]),
        OutputTensor=BufferTensorDesc("FLOAT32", [1, 1, 9, 1 << 20]),
        Strides=[2, 1],
        WindowSize=[2, 1],
        StartPadding=[0, 0],
        EndPadding=[0, 0],
        Dilations=[1, 1],
        IncludePadding=False,
    )
    compiled = cudml.Operator(halve).compile("cpu")
    group_norm = importlib.import_module("cudml.torch.nn.functional").group_norm
    photos = torch.zeros(9, 16, 256, 256).contiguous(memory_format=torch.channels_last)
    results = {
        "function": cudml.padding(x, (1, 0), (0, 1)),
        "compiled": compiled(torch.zeros(1, 1, 2 * SHAPE[0], SHAPE[1])),
        "grouped": group_norm(photos, 4),
        "strided": cudml.mean_variance_normalization(x.T, axes=1),
    }
    for name, result in results.items():
        assert "hg" in flags_at(result.data_ptr() + result.nbytes // 2), name


@pytest.mark.core
def test_jax() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(SHAPE)
    assert "hg" in flags_at(middle(cudml.padding(x, (1, 0), (0, 1))))


@pytest.mark.core
def test_given_memory_stays_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.zeros(SHAPE), fresh(torch)
    assert cudml.mean_variance_normalization(x, axes=1, out=out) is out
    assert "hg" not in flags_at(out.data_ptr() + out.nbytes // 2)
