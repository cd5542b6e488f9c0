"""One call that a CUDA kernel may take, and how one is forced."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cudml
from harness import FLOATS, data


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables for as long as the block runs; the library reads them at every call."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def needs_of(family: str) -> dict[str, tuple[str, ...]]:
    """The family's kernels, first choice first, and the predicates of each."""
    return {kernel.name: kernel.predicates for kernel in cudml.kernels(family)}


NEAR = ("contiguous", "permuted", "sliced", "misaligned")  # as a CUDA library would lay them out


@dataclass(frozen=True)
class Case:
    """A call of `op` without its arrays: their sizes by name, and the other arguments."""

    name: str
    op: str
    shapes: dict[str, tuple[int, ...]]
    arguments: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = tuple(FLOATS)
    layouts: tuple[str, ...] = NEAR
    kind: str = "random"

    def call(self, dtype: str) -> dict[str, Any]:
        """All arguments by name, with arrays of this type."""
        seed = zlib.crc32(self.name.encode())
        arrays: dict[str, Any] = {}
        for i, (name, shape) in enumerate(self.shapes.items()):
            of_type = "float32" if self.arguments.get(f"{name}_wide") else dtype
            arrays[name] = data(shape, of_type, seed + i, self.kind)
            if name in ("y", "variance"):
                arrays[name] = np.abs(arrays[name])  # norms, and what has a root
            if name == "indices":
                arrays[name] = indices(shape, self.arguments["output_sizes"], seed)
        rest = {k: v for k, v in self.arguments.items() if not k.endswith("_wide")}
        return {**arrays, **rest}


def indices(shape: tuple[int, ...], sizes: tuple[int, ...], seed: int) -> np.ndarray:
    """Positions in the whole result, many of them twice, and some out of range."""
    kind = ("uint32", "int64", "int32", "uint64")[seed % 4]
    drawn = np.random.default_rng(seed).integers(-3, np.prod(sizes) + 3, shape)
    return np.where(drawn < 0, -1, drawn).astype(kind)
