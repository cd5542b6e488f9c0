"""A call in eager mode of which no gradient is wanted: `cudml`'s own, and at most 3 us more."""

from __future__ import annotations

from timeit import Timer
from typing import Any

import pytest

from array_support import SLOWER

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml  # noqa: E402
import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402
from cudml.torch import _normalization, _padding, _pooling, _two_phase  # noqa: E402

CASES = {**ts.forward(), **ts.backward()}
MOST = 3e-6 * SLOWER  # seconds
# Statistics and sums are row-major in whatever order x is, for which it is looked at first.
ROW_MAJOR = ("normalization_statistics", "normalize_grad_sums")
CALLED = [
    (name, layout)
    for name in CASES
    for layout in ("contiguous", "channels_last")
    if layout == "contiguous" or name not in ROW_MAJOR
]
CALLS, FEWEST, ROUNDS = 25, 20, 2000  # a turn has some 0.1 ms, which others leave alone at times
pytestmark = pytest.mark.decision("D-GRAD-33")


def both(name: str, layout: str) -> tuple[Timer, Timer]:
    """The call of `cudml` on tensors, and that of `cudml.torch`."""
    case = CASES[name]
    space = {
        "args": (*map(ts.LAYOUTS[layout], case.tensors().values()), *case.args),
        "kwargs": dict(case.kwargs),
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


@pytest.mark.parametrize(("name", "layout"), CALLED)
def test_it_goes_straight_to_the_extension(name: str, layout: str, monkeypatch: Any) -> None:
    """No operator is looked up; tensors that ask for a gradient make no difference in no_grad."""

    def fail(*arguments: Any) -> Any:
        raise AssertionError("an operator was called")

    for module in (_normalization, _padding, _pooling, _two_phase):
        monkeypatch.setattr(module, "call", fail)
    case = CASES[name]
    plain = list(map(ts.LAYOUTS[layout], case.tensors().values()))
    case.on(*plain)
    asking = [t.clone().requires_grad_(t.is_floating_point()) for t in plain]
    with torch.no_grad():
        case.on(*asking)
    with torch.inference_mode():
        case.on(*plain)
    with pytest.raises(AssertionError, match="an operator"):
        case.on(*asking)
