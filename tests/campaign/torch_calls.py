"""What an eager call takes more than `cudml`'s: `pytest tests/campaign/torch_calls.py`, idle."""

from __future__ import annotations

from timeit import Timer

import pytest

import cudml
import cudml.torch as ct
import torch_support as ts

CASES = {**ts.forward(), **ts.backward()}
MOST = 3e-6  # seconds
CALLED = ts.called_layouts(CASES)
CALLS, FEWEST, ROUNDS = 25, 20, 2000  # a turn has some 0.1 ms, which others leave alone at times


def both(name: str, layout: str) -> tuple[Timer, Timer]:
    """The call of `cudml` on tensors, and that of `cudml.torch`."""
    case = CASES[name]
    args, kwargs = case.arguments(*map(ts.LAYOUTS[layout], case.tensors().values()))
    space = {
        "args": args,
        "kwargs": kwargs,
        "own": getattr(cudml, case.op),
        "ours": getattr(ct, case.op),
    }
    if space["kwargs"].get("return_indices"):
        space["kwargs"]["index_dtype"] = "int64"
    own, ours = (Timer(f"{f}(*args, **kwargs)", globals=space) for f in ("own", "ours"))
    return own, ours


@pytest.mark.parametrize(("name", "layout"), CALLED)
def test_what_a_call_takes_more(name: str, layout: str) -> None:
    """The shortest turns of either, which take turns until one of each was left alone."""
    timers, least = both(name, layout), [float("inf")] * 2
    for k in range(ROUNDS):
        for i, timer in enumerate(timers):
            least[i] = min(least[i], timer.timeit(CALLS) / CALLS)
        if k >= FEWEST and least[1] - least[0] <= MOST:
            return
    pytest.fail(f"{least[1] * 1e6:.2f} us, and {least[0] * 1e6:.2f} us without PyTorch's rules")
