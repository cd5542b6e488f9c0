"""One call of an operator as it is written, run, timed and compared with the reference."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import cudml
from cudml import bounds

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Call:
    """``name(*arrays, *args, **kwargs)``; the keys of ``arrays`` are what its text calls them."""

    name: str
    arrays: Mapping[str, Array]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[int, str] = field(default_factory=dict)  # text of an argument, by position

    @property
    def positional(self) -> tuple[Any, ...]:
        return (*self.arrays.values(), *self.args)

    def run(self) -> Any:
        return getattr(cudml, self.name)(*self.positional, **self.kwargs)

    def text(self, width: int = 10_000) -> str:
        """The call in Python, broken before ``width`` columns and indented below its bracket."""
        words = [*self.arrays]
        words += [self.shown.get(i, _literal(a)) for i, a in enumerate(self.args)]
        words += [
            f"{key}={key if holds_arrays(value) else _literal(value)}"
            for key, value in self.kwargs.items()
        ]
        lines = [f"{self.name}("]
        for number, word in enumerate(words):
            piece = word + (")" if number == len(words) - 1 else ",")
            if number and len(lines[-1]) + len(piece) + 1 > width:
                lines.append("    " + piece)
            else:
                lines[-1] += piece if number == 0 else " " + piece
        return "\n".join(lines)


@dataclass(frozen=True)
class Measured:
    """What a call gave: its results, seconds, compulsory bytes and what the reference says."""

    call: Call
    results: tuple[Array, ...]
    seconds: float
    moved: int
    parity: bounds.Comparison

    @property
    def rate(self) -> float:
        """Compulsory gigabytes per second."""
        return self.moved / self.seconds / 1e9

    @property
    def shapes(self) -> str:
        source = next(iter(self.call.arrays.values()))
        return f"{source.dtype.name} {_shape(source)} -> {_shape(self.results[0])}"

    @property
    def verdict(self) -> str:
        if not self.parity.ok:
            return "MISMATCH"
        if self.parity.largest_error == 0:
            return "exact"
        error, share = self.parity.largest_error, self.parity.largest_bound_share
        part = f"{share:.2f}" if share >= 0.005 else "< 0.01"
        return f"error {error:.1e}, {part} of its bound"


def measure(call: Call, budget: float = 0.25, most: int = 25) -> Measured:
    """Run a call for about ``budget`` seconds (at least five times) and compare its result."""
    result = call.run()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < budget and len(times) < most):
        begin = time.perf_counter()
        result = call.run()
        times.append(time.perf_counter() - begin)
    results = result if isinstance(result, tuple) else (result,)
    operands = [a for a in (*call.positional, *call.kwargs.values()) if isinstance(a, np.ndarray)]
    moved = sum(a.nbytes for a in (*operands, *results))
    return Measured(call, results, statistics.median(times), moved, parity(call, result))


def parity(call: Call, result: Any) -> bounds.Comparison:
    """How a result compares with the reference of the same call."""
    expected = bounds.expected(call.name, *call.positional, **call.kwargs)
    return bounds.compare(result, expected)


def _shape(array: Array) -> str:
    return "x".join(map(str, array.shape))


def holds_arrays(value: Any) -> bool:
    """Whether an argument is an array or a tuple of arrays."""
    some = value[0] if isinstance(value, tuple) and value else value
    return isinstance(some, np.ndarray)


def _literal(value: Any) -> str:
    return repr(value).replace("'", '"')
