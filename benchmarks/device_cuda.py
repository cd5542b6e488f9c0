"""A GPU: contenders on sets of buffers that rotate through more than its L2, and its copies."""

from __future__ import annotations

import importlib.util
import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import predictions
import torch
import torch._functorch.config as functorch
import verify
from arrays import Arrays, numpy_arrays
from cases import GRADIENTS
from contenders import COMPILED, Contender, Field, Ways, cudml_calls, numpy_calls, torch_calls
from device_time import DeviceClock, sets_for
from measure import Call
from problems import Problem

import cudml


class Cuda:
    """What run.py asks of a device."""

    name = "cuda"
    compiles_at_first = True

    def __init__(self, peers: list[str]) -> None:
        self._peers = peers
        self.clock = DeviceClock()
        torch.set_grad_enabled(False)
        functorch.donated_buffer = False  # a gradient timed alone goes through its graph again
        logging.getLogger("torch").setLevel(logging.CRITICAL)  # what is refused stands in a row
        self._sets: list[Arrays] = []
        self._calls: dict[tuple[str, str], list[Call]] = {}

    def arrays(self, problem: Problem) -> Arrays:
        self._sets, self._calls = [], {}
        self.clock.forget()
        torch.cuda.empty_cache()
        first = torch_calls.tensors(numpy_arrays(problem), "cuda")
        self._sets = [first]
        for _ in range(sets_for(problem.bytes) - 1):
            self._sets.append(Arrays(problem, {k: t.clone() for k, t in first.base.items()}))
        return first

    def set_threads(self, threads: int) -> None:
        """There are none to set."""

    def copies(self, problem: Problem, threads: int) -> dict[str, Call]:
        n = max(problem.bytes // 8, 1)
        pairs = [
            (torch.zeros(n, device="cuda"), torch.ones(n, device="cuda"))
            for _ in range(sets_for(problem.bytes))
        ]
        return {
            "PyTorch": _rotating([partial(a.copy_, b) for a, b in pairs]),
            "cudml padding by zero": _rotating(
                [partial(cudml.padding, b, 0, 0, out=a) for a, b in pairs]
            ),
        }

    def field(self, arrays: Arrays, threads: int) -> Field:
        """Contenders on the first set; `timed` gives their calls on all of them in turn."""
        torch._dynamo.reset()  # or later problems run uncompiled, beyond its limit of versions
        fields = [_field(some, self._peers) for some in self._sets]
        for each in fields:
            for one in each.contenders:
                self._calls.setdefault((one.library, one.way), []).append(one.call)
        return fields[0]

    def timed(self, contender: Contender) -> Call:
        return _rotating(self._calls[contender.library, contender.way])

    def rotating(self, way: str) -> Call:
        """cudml's own calls on all sets in turn; the first one is on the first set."""
        return _rotating([cudml_calls.ways(some)[way] for some in self._sets])

    def timed_by(self, call: Call) -> str:
        return self.clock.used(call)

    def predicted(self, arrays: Arrays) -> dict[str, Any] | None:
        return predictions.of(arrays)

    def against_reference(self, arrays: Arrays) -> str:
        return verify.against_reference(arrays, host)

    def poison(self, arrays: Arrays) -> None:
        for name in arrays.problem.outputs:
            t = arrays.base[name]
            t.view(torch.uint8).fill_(0x5A if t.element_size() == 1 else 0xFF)

    def sample(self, contender: Contender, arrays: Arrays, result: Any) -> np.ndarray:
        return verify.sampled(arrays.problem, contender.logical(result), torch_calls.array)


def _rotating(calls: list[Call]) -> Call:
    turning = itertools.cycle(calls)
    return lambda: next(turning)()


def host(t: Any) -> np.ndarray:
    """With its type, bfloat16 too."""
    t = t.contiguous().cpu()
    if t.dtype == torch.bfloat16:
        import ml_dtypes

        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return t.numpy()


def _field(arrays: Arrays, peers: list[str]) -> Field:
    found = Field()
    found.offer("cudml", partial(cudml_calls.ways, arrays), lambda _: arrays.results())

    def logical(result: Any) -> list[Any]:
        dense = torch_calls.dense_results(arrays, result)
        named = zip(arrays.problem.compared, dense, strict=True)
        return [arrays.from_image(y, name) for name, y in named]

    if "PyTorch" in peers:
        found.offer("PyTorch", partial(torch_calls.ways, arrays), logical)
    if COMPILED in peers:
        found.offer(COMPILED, partial(_compiled, arrays), logical)
    if "CuPy" in peers:
        if importlib.util.find_spec("cupy"):
            found.offer("CuPy", *_cupy(arrays))
        else:
            found.absent["CuPy"] = "is not installed"
    return found


def _compiled(arrays: Arrays) -> Ways:
    """Of the ways that allocate their results: a compiled function writes its own anyway. Of
    gradients the forward functions are compiled, and with them what autograd makes of them."""
    if arrays.problem.case.op in GRADIENTS:
        from contenders.torch_grads import by_autograd

        return by_autograd(arrays, partial(torch.compile, dynamic=False))
    ways = torch_calls.ways(arrays)
    plain = {name: call for name, call in ways.items() if not name.endswith("=")}
    return {name: torch.compile(call, dynamic=False) for name, call in plain.items()}


def _cupy(arrays: Arrays) -> tuple[Callable[[], Ways], Callable[[Any], Any]]:
    def ways() -> Ways:
        import cupy

        def on_torchs_stream(call: Call) -> Any:  # which may be one that captures
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                return call()

        base = {name: cupy.from_dlpack(t) for name, t in arrays.base.items()}
        theirs = numpy_calls.ways(Arrays(arrays.problem, base), cupy)
        return {name: partial(on_torchs_stream, call) for name, call in theirs.items()}

    return ways, lambda y: [arrays.from_memory(torch.utils.dlpack.from_dlpack(y))]
