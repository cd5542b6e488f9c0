"""Calls as a program makes them: each after another library's operator, on buffers that have left
the caches, or, where that is asked for, that are in them still, while the other library's threads
wait in their own way."""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import machine
import numpy as np
from arrays import Arrays
from contenders import Contender, Field, cudml_calls
from device_cpu import Cpu
from measure import ALONE, TURN, Call
from problems import Problem

import cudml

AFTER = ("PyTorch", "ONNX Runtime", "sleep")
SLEEP = 0.005  # seconds between calls, after which threads and cores have gone to sleep
QUIET = 0.01  # seconds after which no library's threads spin any more
WARM = 0.002  # seconds of cudml's own calls that precede one that is timed alone
MOST_SETS = 8
LEAST_BYTES = 1 << 20  # of the operator that precedes: enough for all of its threads


@dataclass(frozen=True)
class Turn:
    """A library's call, once for each set of buffers, and what is done before it is timed; whether
    threads may go on spinning that are not those of the library between the calls."""

    calls: list[Call]
    before: Callable[[], None]
    spins: bool


class Predecessors:
    """What precedes a timed call, on so many `bytes` of buffers of its own, which rotate: half of
    them are read, half written."""

    def __init__(self, size: int, pool: int) -> None:
        n = size // 2 // 64 * 16  # floats
        count = max(1, pool // size)
        rng = np.random.default_rng(0)
        source = np.resize(rng.standard_normal(1 << 16, np.float32), (count, n))
        target = np.zeros((count, n), np.float32)
        self._pairs = list(zip(source, target, strict=True))

    def calls(self, after: str, threads: int) -> Iterator[Call]:
        made = {
            "PyTorch": self._torch,
            "ONNX Runtime": lambda: self._onnx(threads),
            "cudml": self._own,
        }
        return itertools.cycle(made.get(after, self._numpy)())

    def _numpy(self) -> list[Call]:
        """On the calling thread alone."""
        return [lambda x=x, y=y: np.copyto(y, x) for x, y in self._pairs]

    def _own(self) -> list[Call]:
        return [lambda x=x, y=y: cudml.padding(x, 0, 0, out=y) for x, y in self._pairs]

    def _torch(self) -> list[Call]:
        import torch

        pairs = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in self._pairs]
        return [lambda x=x, y=y: torch.clamp_min(x, 0, out=y) for x, y in pairs]

    def _onnx(self, threads: int) -> list[Call]:
        from contenders import onnx_calls

        return [onnx_calls.relu(x, y, threads) for x, y in self._pairs]


class MixedCpu(Cpu):
    """The CPU whose contenders call one after another, each after an operator of `after`; with
    `in_caches` on one set of buffers, beside which that operator's are small."""

    spins = True

    def __init__(
        self, most_bytes: int, peers: list[str], after: str, in_caches: bool = False
    ) -> None:
        super().__init__(most_bytes, peers)
        self._after, self._set = after, 0
        self._evicted = 0 if in_caches else 2 * machine.cache_bytes()

    def arrays(self, problem: Problem) -> Arrays:
        """The first set of buffers; so many others are made that it leaves the caches before it
        comes again, with what the operators in between read and write."""
        first = super().arrays(problem)
        count = min(max(-(-self._evicted // problem.bytes) + 1, 2), MOST_SETS)
        count = count if self._evicted else 1
        copies = [{name: a.copy() for name, a in first.base.items()} for _ in range(count - 1)]
        self._sets = [first, *(Arrays(problem, base) for base in copies)]
        size = max(LEAST_BYTES, self._evicted // count - problem.bytes)
        self._predecessors = Predecessors(size, self._evicted)
        return first

    def field(self, arrays: Arrays, threads: int) -> Field:
        """Contenders on the first set; `timed` gives their calls on all of them in turn."""
        self._calls = self._predecessors.calls(self._after, threads)
        self._own = self._predecessors.calls("cudml", threads)
        fields = [self._field(some, threads) for some in self._sets]
        self._ways = {}
        for one in itertools.chain(*(each.contenders for each in fields)):
            self._ways.setdefault((one.library, one.way), []).append(one.call)
        return fields[0]

    def _field(self, arrays: Arrays, threads: int) -> Field:
        found = super().field(arrays, threads)
        found.offer(
            "cudml", partial(cudml_calls.returning, arrays), partial(cudml_calls.returned, arrays)
        )
        found.offer(ALONE, partial(cudml_calls.ways, arrays), lambda _: arrays.results())
        found.offer(
            ALONE, partial(cudml_calls.returning, arrays), partial(cudml_calls.returned, arrays)
        )
        return found

    def timed(self, contender: Contender) -> Any:
        before = self._warm if contender.library == ALONE else self._precede
        spins = contender.library not in ("cudml", ALONE, self._after)
        return Turn(self._ways[contender.library, contender.way], before, spins)

    def clock(self, call: Call | Turn, count: int) -> float:
        """Seconds of one call, without what precedes it: of so many, or of as many as fill a
        turn together with what precedes them."""
        seconds, done, begin = 0.0, 0, time.perf_counter()
        while done < count:
            if isinstance(call, Turn):
                call.before()
                timed = self._next(call.calls)
            else:
                self._precede()
                timed = call
            start = time.perf_counter()
            timed()
            end = time.perf_counter()
            seconds += end - start
            done += 1
            if end - begin > TURN:
                break
        if isinstance(call, Turn) and call.spins:
            time.sleep(QUIET)
        return seconds / done

    def _next(self, calls: list[Call]) -> Call:
        """That on the next set of buffers, whoever had the one before."""
        self._set += 1
        return calls[self._set % len(calls)]

    def _precede(self) -> None:
        next(self._calls)()
        if self._after == "sleep":
            time.sleep(SLEEP)

    def _warm(self) -> None:
        """Nobody else's threads spin, and this library's own are awake."""
        time.sleep(QUIET)
        begin = time.perf_counter()
        while time.perf_counter() - begin < WARM:
            next(self._own)()


def problem_with(after: str, peers: list[str]) -> str:
    """Why no call can be made to follow that library's, or nothing."""
    module = {"PyTorch": "torch", "ONNX Runtime": "onnxruntime"}.get(after)
    if module is None:
        return ""
    if not importlib.util.find_spec(module):
        return f"--mixed {after}: {module} is not installed"
    return "" if after in peers else f"--mixed {after}: --peers leaves it out"
