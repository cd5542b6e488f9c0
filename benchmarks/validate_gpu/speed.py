"""A first speed table: share of a device copy, and the ratio to PyTorch's eager operator.

Device events around batches of calls, of short ones replayed as a graph, on rotating buffers that
together exceed the L2 three times; contenders take turns; medians. Every output is verified before
it is timed. The clocks stay as they are.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contenders import quack
from device_time import DeviceClock, sets_for
from measure import estimate
from measure import interleaved as measured
from speed_cases import SpeedCase, Tensors, speed_cases, useful_bytes

ROUNDS = 15
COPY_BYTES = 1 << 30  # read; as many are written
TOLERANCE = {torch.float16: 4e-3, torch.float32: 1e-4}

Call = Callable[[Tensors], Any]


def interleaved(calls: dict[str, Call], sets: list[Tensors]) -> dict[str, list[float]]:
    """Milliseconds of each contender; they take turns, in alternating order."""
    turning = {name: itertools.cycle(sets) for name in calls}
    on_next = {name: lambda n=name: calls[n](next(turning[n])) for name in calls}
    clock = DeviceClock()
    expected = {name: estimate(call, clock) for name, call in on_next.items()}
    players = {name: (call, expected[name]) for name, call in on_next.items()}
    turns = measured(players, ROUNDS, math.inf, clock)
    return {name: [t * 1e3 for t in turn.seconds.values()] for name, turn in turns.items()}


def copy_rate() -> float:
    """Bytes per second of a large copy on the device, read and written."""
    a = torch.empty(COPY_BYTES // 4, dtype=torch.float32, device="cuda").normal_()
    sets = [{"x": a, "y": torch.empty_like(a)}]
    times = interleaved({"copy": lambda t: t["y"].copy_(t["x"])}, sets)
    return 2 * COPY_BYTES / (float(np.median(times["copy"])) * 1e-3)


def verify(case: SpeedCase, t: Tensors, dtype: torch.dtype) -> None:
    """The output, poisoned before, against PyTorch's."""
    t["y"].fill_(float("nan"))
    case.ours(t)
    got, want, allowed = t["y"].float(), case.torchs(t).float(), TOLERANCE[dtype]
    assert got.shape == want.shape, f"shape {tuple(got.shape)}, PyTorch's is {tuple(want.shape)}"
    gap = (got - want).abs()
    wrong = int((~(gap <= allowed * want.abs().clamp(min=1))).sum())
    assert not wrong, f"{wrong} of {gap.numel()} elements differ from PyTorch's"


def measure(case: SpeedCase, dtype: torch.dtype, rate: float) -> dict[str, Any]:
    first = case.make(dtype)
    verify(case, first, dtype)
    size = useful_bytes(first)
    sets = [first, *(case.make(dtype) for _ in range(sets_for(size) - 1))]
    times = interleaved({"ours": case.ours, "torch": case.torchs}, sets)
    low, middle, high = (float(q) * 1e3 for q in np.percentile(times["ours"], [10, 50, 90]))
    peer = float(np.median(times["torch"])) * 1e3
    return {
        "us": middle,
        "p10": low,
        "p90": high,
        "bytes": size,
        "of_copy": size / (middle * 1e-6) / rate,
        "torch_us": peer,
        "ratio": peer / middle,
    }


def main() -> int:
    torch.manual_seed(0)
    rate, rows = copy_rate(), []
    for case, dtype in itertools.product(speed_cases(), TOLERANCE):
        row: dict[str, Any] = {"case": case.name, "dtype": str(dtype).removeprefix("torch.")}
        try:
            row |= measure(case, dtype, rate)
        except Exception as error:
            row["problem"] = f"{type(error).__name__}: {error}".split("\n")[0]
        torch.cuda.empty_cache()
        rows.append(row)
        print(json.dumps(row), flush=True)
        found = {
            "copy_bytes": COPY_BYTES,
            "copy_gb_per_s": rate / 1e9,
            "quack": quack.said(),
            "rows": rows,
        }
        Path(os.environ["CUDML_STEP_JSON"]).write_text(json.dumps(found))
    return 1 if any("problem" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
