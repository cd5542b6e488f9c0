"""The CPU: its contenders, each with the same number of threads, and its copies."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np
import verify
from arrays import Arrays, keep_touched_memory, numpy_arrays, poison
from contenders import Contender, Field, cudml_calls, numpy_calls
from copies import Copies
from measure import Call, wall_clock
from problems import Problem

import cudml


class Cpu:
    """What run.py asks of a device."""

    name = "cpu"
    compiles_at_first = False
    spins = False  # ONNX Runtime's threads after a call
    clock = staticmethod(wall_clock)

    def __init__(self, most_bytes: int, peers: list[str]) -> None:
        keep_touched_memory()
        self._peers = peers
        self._copies = Copies(most_bytes, "PyTorch" in peers)

    def arrays(self, problem: Problem) -> Arrays:
        return numpy_arrays(problem)

    def set_threads(self, threads: int) -> None:
        cudml.set_num_threads(threads)
        if "PyTorch" in self._peers and importlib.util.find_spec("torch"):
            import torch

            torch.set_num_threads(threads)

    def copies(self, problem: Problem, threads: int) -> dict[str, Call]:
        return self._copies.calls(problem.bytes, threads)

    def field(self, arrays: Arrays, threads: int) -> Field:
        found = Field()
        own = partial(cudml_calls.ways, arrays)
        found.offer("cudml", own, lambda _: arrays.results())
        if "PyTorch" in self._peers:
            _offer_torch(found, arrays)
        if "ONNX Runtime" in self._peers:
            _offer_onnx(found, arrays, threads, self.spins)
        if "NumPy" in self._peers:
            theirs = partial(numpy_calls.ways, arrays)
            found.offer("NumPy", theirs, lambda y: [arrays.from_memory(y)])
        return found

    def timed(self, contender: Contender) -> Call:
        return contender.call

    def timed_by(self, call: Call) -> str:
        return "wall clock"

    def predicted(self, arrays: Arrays) -> None:
        """There is no model of a processor."""

    def against_reference(self, arrays: Arrays) -> str:
        return verify.against_reference(arrays, np.asarray)

    def poison(self, arrays: Arrays) -> None:
        for name in arrays.problem.outputs:
            poison(arrays.base[name])

    def sample(self, contender: Contender, arrays: Arrays, result: Any) -> np.ndarray:
        return verify.sampled(arrays.problem, contender.logical(result), np.asarray)


def _offer_torch(found: Field, arrays: Arrays) -> None:
    if not importlib.util.find_spec("torch"):
        found.absent["PyTorch"] = "is not installed"
        return
    from contenders import torch_calls

    with found.trial("PyTorch"):
        theirs = torch_calls.tensors(arrays)

        def logical(result: Any) -> list[Any]:
            dense = torch_calls.dense_results(theirs, result)
            return [
                theirs.from_image(torch_calls.array(y), name)
                for name, y in zip(theirs.problem.compared, dense, strict=True)
            ]

        found.offer("PyTorch", partial(torch_calls.ways, theirs), logical)


def _offer_onnx(found: Field, arrays: Arrays, threads: int, spins: bool) -> None:
    """Ways that the runtime refuses, mostly for an element type, are left out one by one."""
    library = "ONNX Runtime"
    missing = [name for name in ("onnxruntime", "onnx") if not importlib.util.find_spec(name)]
    if missing:
        found.absent[library] = f"{' and '.join(missing)} not installed"
        return
    from contenders import onnx_calls

    models = onnx_calls.models(arrays)
    if not models:
        found.absent[library] = "has no such operator"
    for way, parts in models.items():
        with found.trial(library):
            call = onnx_calls.bound(parts, arrays, threads, spins)
            logical = partial(_written, arrays)
            found.offer(library, partial(dict, {way: call}), logical)


def _written(arrays: Arrays, _: Any) -> list[Any]:
    """What a bound model wrote; the call itself returns nothing."""
    return arrays.results()
