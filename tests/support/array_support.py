"""One small call of every operator, child processes and memory maps, for the array tests."""

from __future__ import annotations

import functools
import mmap
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds
from folders import IMPORTS
from harness import DTYPES, data

LABELS = (
    "max_pooling",
    "max_pooling+indices",
    "max_pooling_grad",
    "average_pooling",
    "average_pooling_grad",
    "lp_pooling",
    "lp_pooling_grad",
    "max_unpooling",
    "padding",
    "padding_grad",
    "mean_variance_normalization",
)
SHAPE = (2, 3, 5, 7)
WINDOW, STEPS, BEFORE, AFTER = (2, 3, 2), (2, 1, 2), (1, 0, 1), (0, 2, 1)
every_operator = pytest.mark.parametrize("label", LABELS)


@dataclass(frozen=True)
class Problem:
    """A call: `arrays` come first, by name, then `args`; `first` decides the memory order."""

    op: str
    arrays: dict[str, np.ndarray]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def first(self) -> str:
        return next(iter(self.arrays))

    def run(self, **changes: Any) -> list[np.ndarray]:
        """The results; `changes` are other arrays, or `out` and further keywords."""
        result = self(**changes)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def __call__(self, **changes: Any) -> Any:
        arrays = [changes.pop(name, a) for name, a in self.arrays.items()]
        return getattr(cudml, self.op)(*arrays, *self.args, **{**self.kwargs, **changes})

    def problem(self, outputs: list[np.ndarray]) -> str:
        """What is wrong with `outputs`, or nothing."""
        verdict = bounds.compare(outputs, self.expected)
        return "" if verdict.ok else verdict.message

    @functools.cached_property
    def expected(self) -> bounds.Expected:
        return bounds.expected(self.op, *self.arrays.values(), *self.args, **self.kwargs)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [v.shape for v in self.expected.values]

    @property
    def dtypes(self) -> list[np.dtype]:
        return [np.dtype(d) for d in self.expected.dtypes]

    def outputs(self) -> list[np.ndarray]:
        """Poisoned row-major arrays for the results."""
        pairs = zip(self.shapes, self.dtypes, strict=True)
        return [np.frombuffer(bytearray(b"\xff") * (np.prod(s) * d.itemsize), d).reshape(s)
                for s, d in pairs]  # fmt: skip

    def into(self, outputs: list[np.ndarray], **changes: Any) -> Any:
        """The call with these outputs, given in the form that the operator takes."""
        return self(out=outputs[0] if len(outputs) == 1 else tuple(outputs), **changes)

    def with_arrays(self, **arrays: np.ndarray) -> Problem:
        return replace(self, arrays={**self.arrays, **arrays})


def output_size(n: int, axis: int) -> int:
    return (n + BEFORE[axis] + AFTER[axis] - WINDOW[axis]) // STEPS[axis] + 1


@functools.lru_cache(4096)
def make(label: str, shape: tuple[int, ...] = SHAPE, dtype: str = "float32") -> Problem:
    """The call of this label on arrays of random numbers; pooled from dimension 2 on."""
    op, _, indices = label.partition("+")
    m, x = len(shape) - 2, data(shape, dtype, sum(shape))
    geometry = (WINDOW[:m], STEPS[:m], BEFORE[:m], AFTER[:m])
    pooled = shape[:2] + tuple(output_size(n, a) for a, n in enumerate(shape[2:5]))
    if op == "max_pooling_grad":
        return Problem(op, {"x": x, "grad": data(pooled, dtype, 1)}, geometry, {})
    if op == "lp_pooling_grad":
        y, grad = np.abs(data(pooled, dtype, 2)), data(pooled, dtype, 1)
        return Problem(op, {"x": x, "y": y, "grad": grad}, geometry, {})
    if op == "max_unpooling":
        sizes = (*shape[:2], *(n + 2 for n in shape[2:]))
        places = np.arange(x.size).reshape(shape)[::-1] * 7 % np.prod(sizes)
        return Problem(op, {"x": x, "indices": places}, (sizes,), {})
    if op == "average_pooling_grad":
        return Problem(op, {"grad": data(pooled, dtype, 1)}, (shape, *geometry), {})
    if op in ("padding", "padding_grad"):
        pads = [(a % 3, (a + 1) % 2 + a // 2) for a in range(len(shape))]
        start, end = zip(*pads, strict=True)
        if op == "padding":
            return Problem(op, {"x": x}, (start, end), {"mode": "symmetric"})
        padded = tuple(n + a + b for n, (a, b) in zip(shape, pads, strict=True))
        arrays = {"grad": data(padded, dtype, 1)}
        return Problem(op, arrays, (shape, start, end), {"mode": "symmetric"})
    if op == "mean_variance_normalization":
        scale = tuple(n if a == 1 else 1 for a, n in enumerate(shape))
        bias = tuple(n if a == len(shape) - 1 else 1 for a, n in enumerate(shape))
        arrays = {"x": x, "scale": data(scale, dtype, 2), "bias": data(bias, dtype, 3)}
        return Problem(op, arrays, (), {"axes": list(range(2, len(shape))) or [0]})
    kwargs = {"return_indices": True} if indices else {}
    return Problem(op, {"x": x}, geometry, kwargs)


def cases_of_type() -> list[tuple[str, str]]:
    """Every operator with every element type it takes."""
    return [(label, t) for label in LABELS for t in DTYPES[label.partition("+")[0]]]


def bits(a: np.ndarray) -> bytes:
    return np.ascontiguousarray(a).tobytes()


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """Equal bit for bit, with equal types and shapes."""
    pairs = list(zip(a, b, strict=True))
    return all(p.dtype == q.dtype and p.shape == q.shape and bits(p) == bits(q) for p, q in pairs)


def in_order(a: np.ndarray, order: Any) -> np.ndarray:
    """A dense copy whose dimensions lie in memory in this order, outermost first."""
    packed = np.ascontiguousarray(a.transpose(order))
    return packed.transpose(np.argsort(order))


def steps(raw: np.ndarray, shape: Any, strides: Any, offset: int = 0) -> np.ndarray:
    """A view of the one-dimensional `raw` with strides in elements."""
    size = raw.itemsize
    return np.lib.stride_tricks.as_strided(raw[offset:], shape, [s * size for s in strides])


def packed_strides(shape: Any) -> list[int]:
    """Row-major strides in elements."""
    return [int(np.prod(shape[a + 1 :])) for a in range(len(shape))]


def sparse(elements: int, dtype: Any) -> np.ndarray:
    """Zeros that take memory only where they are touched."""
    size = elements * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype)
    except (OSError, ValueError) as error:
        pytest.skip(f"{size} bytes of address space are not to be had: {error}")


SLOWER = 5 if "libasan" in os.environ.get("LD_PRELOAD", "") else 1  # than the product


def child(script: str, *args: str, limit: float = 60, **variables: str | None):
    """Runs a script in a new interpreter; a variable of None is taken out of the environment."""
    environment = dict(os.environ)
    for name in ("CUDML_NUM_THREADS", "OMP_NUM_THREADS"):
        environment.pop(name, None)
    environment["PYTHONPATH"] = os.pathsep.join(IMPORTS)
    for name, value in variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    command = [sys.executable, "-c", script, *args]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SLOWER * limit
    )


def child_says(script: str, *args: str, limit: float = 60, **variables: str | None) -> str:
    """What a script printed that ended well and wrote nothing to stderr."""
    done = child(script, *args, limit=limit, **variables)
    shown = f"status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0 and not done.stderr, shown
    return done.stdout.strip()
