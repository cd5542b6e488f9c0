"""20,000 refused calls and 20,000 good ones leave memory, references and lent tensors as they were.

Three measures, each with what it would miss alone. Python counts its own blocks: a leaked object is
at least one, so a kind of call that leaks shows as many as there were calls. The C library counts
the bytes it handed out: a leaked allocation is at least SMALLEST of them with its header. Caches
and free lists fill late, so a kind is tried again, and only one that grows by a quarter of this
every time leaks. And the resident memory of the whole process may grow by what 20,000 of the
smallest allocations would take, 640,000 bytes, but for one arena of Python's allocator, which it
takes from the system in one piece of 1 MiB.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, Problem, make
from cudml import _operators
from directml_support import operator
from exporters import READ_ONLY, Exporter
from harness import data
from leftovers import handed_out
from tests.bindings.test_process import resident

TOTAL = 20_000
SMALLEST, ARENA = 32, 1 << 20  # bytes
TRIES = 4
X = data((2, 3, 5, 7), "float32")
Y = np.empty((2, 3, 4, 6), "f4")
RUN = operator("MaxPoolingGrad").compile("cpu")
GRADS = data((1, 2, 4, 5), "float32"), data((1, 2, 3, 4), "float32")
lent: list[Exporter] = []  # what the last call was given


class Foreign(Exporter):
    """Of a library that makes arrays of memory."""

    @classmethod
    def from_dlpack(cls, memory: Any) -> Any:
        return np.from_dlpack(memory)


def lend(a: np.ndarray, **changes: Any) -> Exporter:
    lent.append(Exporter(a, **changes))
    return lent[-1]


class Thorn:
    def __index__(self) -> int:
        raise LookupError("own words")


def pool(x: Any = X, out: Any = None, window: Any = 2, **kwargs: Any) -> Any:
    return _operators.max_pooling(x, window, out=out, **kwargs)


def wrong_outputs(p: Problem) -> Callable[[], Any]:
    wrong = [np.zeros((1, 2, 3, 4, 5), "f4") for _ in p.outputs()]
    return lambda: p.into(wrong)


FAILING: dict[str, Callable[[], Any]] = {
    **{f"{label}, wrong output": wrong_outputs(make(label)) for label in LABELS},
    **{f"{label}, stream": partial(make(label), stream=1) for label in LABELS},
    "window of 0": lambda: pool(window=0),
    "window too large": lambda: pool(window=99),
    "window that raises": lambda: pool(window=[2, Thorn()]),
    "no array": lambda: pool(None),
    "a list": lambda: pool([[1.0]]),
    "complex": lambda: pool(np.zeros((1, 1, 3, 3), "c8")),
    "unknown index type": lambda: pool(return_indices=True, index_dtype="float99"),
    "no pair": lambda: pool(out=(Y,), return_indices=True),
    "overlap": lambda: _operators.padding(X, 0, 0, out=X),
    "unknown mode": lambda: cudml.padding(X, 0, 0, mode="none"),
    "unknown activation": lambda: cudml.mean_variance_normalization(X, axes=3, activation="none"),
    "unknown keyword": lambda: pool(no_such=1),
    "capsule of 2 lanes": lambda: pool(lend(X, lanes=2)),
    "capsule of version 2": lambda: pool(lend(X, version=(2, 0)), Y),
    "capsule without memory": lambda: pool(lend(X, data=0)),
    "capsule of another name": lambda: pool(lend(X, name=b"other")),
    "legacy capsule, negative stride": lambda: pool(
        lend(X, is_versioned=False, strides=(105, 35, -7, 1))
    ),
    "read-only output": lambda: pool(lend(X), lend(Y, flags=READ_ONLY)),
    "a good capsule before a bad one": lambda: _operators.mean_variance_normalization(
        lend(X), lend(X), lend(X, lanes=2), axes=3
    ),
    "no way to a result": lambda: pool(lend(X)),
    "compiled, wrong sizes": lambda: RUN(X, X),
    "compiled, one input": lambda: RUN(lend(GRADS[0])),
    "compiled, wrong output": lambda: RUN(*GRADS, out=Y),
    "compiled, bad capsule": lambda: RUN(lend(GRADS[0]), lend(GRADS[1], lanes=2)),
    "compiled, small workspace": lambda: RUN(*GRADS, workspace=bytearray(1)),
    "compiled, keyword": lambda: RUN(*GRADS, no_such=1),
    "descriptor": lambda: operator("MaxPooling", WindowSize=[0, 0]),
}


turns = itertools.cycle([(1, 1, h, w) for h in range(2, 60) for w in range(2, 60)])


def sizes_in_turn() -> Any:
    """A shape that no cache of a sensible size still knows."""
    return pool(np.zeros(next(turns), "f4"))


GOOD: dict[str, Callable[[], Any]] = {
    **{label: make(label).run for label in LABELS},
    **{f"{label}, out": partial(make(label).into, make(label).outputs()) for label in LABELS},
    "copied input": lambda: pool(X[:, ::-1]),
    "new sizes": sizes_in_turn,
    "capsule": lambda: pool(lend(X), Y),
    "legacy capsule": lambda: pool(lend(X, is_versioned=False), lend(Y)),
    "capsule with a null deleter": lambda: pool(Exporter(X, deleter=None), Y),
    "three capsules": lambda: _operators.mean_variance_normalization(
        lend(X), lend(X), lend(X), axes=3, out=np.empty_like(X)
    ),
    "a library's own result": lambda: pool(Foreign(X)),
    "compiled": lambda: RUN(*GRADS),
    "compiled, workspace": lambda: RUN(*GRADS, workspace=bytearray(RUN.workspace_bytes)),
    "compiled, capsules": lambda: RUN(lend(GRADS[0]), lend(GRADS[1]), out=np.empty_like(GRADS[0])),
    "compile": lambda: operator("MaxPooling").compile("cpu"),
    "explain": lambda: cudml.explain("max_pooling", X, 2),
}  # fmt: skip


def with_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    x, wants_gradient = torch.from_numpy(X.copy()), torch.ones(1, 1, 3, 3, requires_grad=True)
    FAILING["tensor that wants a gradient"] = lambda: pool(wants_gradient)
    FAILING["tensor, wrong output"] = lambda: pool(x, x)
    GOOD["tensor"] = lambda: pool(x)
    GOOD["tensor, out"] = partial(pool, x, torch.empty(Y.shape))
    GOOD["tensor of NHWC"] = lambda: pool(x.contiguous(memory_format=torch.channels_last))


def with_jax() -> None:
    if importlib.util.find_spec("jax") is None:
        return
    import jax

    x = jax.numpy.asarray(X)
    FAILING["JAX's array as output"] = lambda: pool(X[:, :, :4, :6], x, window=1)
    GOOD["JAX's array"] = lambda: pool(x)


def call(kind: Callable[[], Any], fails: bool) -> None:
    """One call; what it was lent is deleted exactly once."""
    if fails:
        try:
            kind()
        except (TypeError, ValueError, BufferError, LookupError):
            pass
        else:
            raise AssertionError("not refused")
    else:
        kind()
    assert all(x.is_settled() for x in lent), [(x.changes, x.deleted) for x in lent]
    lent.clear()


def references() -> list[int]:
    watched: list[Any] = [X, Y, *GRADS, RUN, type(RUN), np.dtype("f4"), Exporter, lend]
    watched += [a for label in LABELS for a in make(label).arrays.values()]
    return [sys.getrefcount(a) for a in watched]


def growth(kind: Callable[[], Any], fails: bool, calls: int) -> str:
    """What so many calls left behind, or nothing."""
    gc.collect()
    blocks, used = sys.getallocatedblocks(), handed_out()
    for _ in range(calls):
        call(kind, fails)
    gc.collect()
    more, bytes_more = sys.getallocatedblocks() - blocks, handed_out() - used
    is_flat = more < calls // 4 and bytes_more < calls * SMALLEST // 4
    return "" if is_flat else f"{more} blocks, {bytes_more} bytes"


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def check(kinds: dict[str, Callable[[], Any]], fails: bool) -> None:
    calls = -(-TOTAL // len(kinds))
    for kind in kinds.values():
        for _ in range(60):
            call(kind, fails)
    gc.collect()
    gc.freeze()  # what is there now need not be searched again after every kind
    counts, begin = references(), resident()
    problems = []
    for name, kind in kinds.items():
        grown = [growth(kind, fails, calls)]
        while grown[-1] and len(grown) < TRIES:
            grown.append(growth(kind, fails, calls))
        if grown[-1]:
            problems.append(f"{name}: {grown[-1]} in {calls} calls")
    assert not problems, "\n".join(problems)
    assert references() == counts
    assert resident() - begin < TOTAL * SMALLEST + ARENA


@pytest.mark.bug("RUN-08")
@pytest.mark.filterwarnings("ignore")
def test_refused_calls_leak_nothing() -> None:
    with_torch()
    with_jax()
    check(FAILING, True)


@pytest.mark.bug("RUN-08")
@pytest.mark.filterwarnings("ignore")
def test_good_calls_leak_nothing() -> None:
    with_torch()
    with_jax()
    check(GOOD, False)
