"""First speed: cudml beside PyTorch on the CPU, interleaved in one process, and its threads.

Run it on a quiet machine:

    python benchmarks/first_speed.py [--rounds 25] [--json FILE]

Contenders take turns in every round. Every case times the operation as PyTorch's own call does it,
with a fresh output each time. The rows marked "out=" are cudml alone, writing into memory that is
there already. A plain copy shows how much a second thread can bring on this machine at all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

import cudml

Call = Callable[[], Any]
MIN_ROUNDS = 15
CALLS_PER_TURN = 4
WARM_UP = 0.02


@dataclass(frozen=True)
class Row:
    """Milliseconds of one contender in one case: the median and the middle four fifths."""

    case: str
    threads: int
    who: str
    median: float
    p10: float
    p90: float
    gigabytes: float

    @property
    def rate(self) -> float:
        """Useful GB/s: input and output once each."""
        return self.gigabytes / self.median * 1e3

    def line(self, ratio: str) -> str:
        spread = f"{self.p10:8.2f} - {self.p90:<8.2f}"
        numbers = f"{self.median:9.2f}  {spread}  {self.rate:7.2f}"
        return f"{self.case:<34}{self.threads:>7}  {self.who:<12}{numbers}  {ratio:>7}"


HEADER = (
    f"{'case':<34}{'threads':>7}  {'':<12}{'ms':>9}  {'p10':>8} - {'p90':<8}"
    f"  {'GB/s':>7}  {'ratio':>7}"
)


def progress(text: str) -> None:
    """One line on the terminal that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def interleaved(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each call; contenders take turns, the order alternates from round to round.

    A turn begins with WARM_UP seconds untimed: the other library's threads go on spinning for some
    milliseconds after its call, on a core that this one needs, and this one's own are asleep.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(rounds):
        names = list(calls)
        for name in names if k % 2 == 0 else reversed(names):
            begin = time.perf_counter()
            while time.perf_counter() - begin < WARM_UP:
                calls[name]()
            for _ in range(CALLS_PER_TURN):
                start = time.perf_counter()
                call_result = calls[name]()
                times[name].append((time.perf_counter() - start) * 1e3)
                del call_result
    return times


def row(case: str, threads: int, who: str, times: list[float], size: int) -> Row:
    low, middle, high = np.percentile(times, [10, 50, 90])
    return Row(case, threads, who, float(middle), float(low), float(high), size / 1e9)


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random numbers; every page is written before anything is timed."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def pooling_case(torch: Any) -> tuple[str, dict[str, Call], int]:
    x = normal((32, 64, 112, 112), 0)
    t = torch.from_numpy(x)
    out = np.empty((32, 64, 56, 56), np.float32)
    out.fill(0)
    calls: dict[str, Call] = {
        "cudml": lambda: cudml.max_pooling(x, 3, 2, 1, 1),
        "PyTorch": lambda: torch.nn.functional.max_pool2d(t, 3, 2, 1),
        "cudml out=": lambda: cudml.max_pooling(x, 3, 2, 1, 1, out=out),
    }
    assert np.array_equal(calls["cudml"](), calls["PyTorch"]().numpy()), "max pooling differs"
    return "max pooling 3x3/2, 32x64x112x112", calls, x.nbytes + out.nbytes


def layer_norm_case(torch: Any) -> tuple[str, dict[str, Call], int]:
    x, scale, bias = normal((4096, 1024), 1), normal((1, 1024), 2), normal((1, 1024), 3)
    t, ts, tb = (torch.from_numpy(a) for a in (x, scale[0], bias[0]))
    out = np.zeros_like(x)
    calls: dict[str, Call] = {
        "cudml": lambda: cudml.mean_variance_normalization(x, scale, bias, axes=1),
        "PyTorch": lambda: torch.nn.functional.layer_norm(t, (1024,), ts, tb, 1e-5),
        "cudml out=": lambda: cudml.mean_variance_normalization(x, scale, bias, axes=1, out=out),
    }
    difference = np.abs(calls["cudml"]() - calls["PyTorch"]().numpy()).max()
    assert difference < 1e-4, f"layer normalization differs by {difference}"
    return "LayerNorm 4096x1024, scale, bias", calls, 2 * x.nbytes


def against_torch(torch: Any, rounds: int) -> list[Row]:
    rows = []
    for make in (pooling_case, layer_norm_case):
        case, calls, size = make(torch)
        for threads in (1, 2):
            progress(f"{case}, {threads} threads")
            cudml.set_num_threads(threads)
            torch.set_num_threads(threads)
            times = interleaved(calls, rounds)
            rows += [row(case, threads, who, t, size) for who, t in times.items()]
    return rows


def copy(to: np.ndarray, x: np.ndarray, threads: int) -> None:
    """A copy of {1, n} in equal parts, one for each thread."""
    parts = list(zip(np.split(to, threads, 1), np.split(x, threads, 1), strict=True))
    others = [Thread(target=np.copyto, args=part) for part in parts[1:]]
    for thread in others:
        thread.start()
    np.copyto(*parts[0])
    for thread in others:
        thread.join()


def one_against_two(rounds: int) -> list[Row]:
    """Shapes that offer a single plane or group; both thread counts take turns."""
    plane, group = normal((1, 1, 4096, 4096), 4), normal((1, 2**24), 5)
    pooled, normed = np.zeros((1, 1, 2048, 2048), np.float32), np.zeros_like(group)
    cases: dict[str, tuple[Call, int]] = {
        "max pooling 3x3/2, 1x1x4096x4096": (
            lambda: cudml.max_pooling(plane, 3, 2, 1, 1, out=pooled),
            plane.nbytes + pooled.nbytes,
        ),
        "normalization, one group of 2^24": (
            lambda: cudml.mean_variance_normalization(group, axes=1, out=normed),
            2 * group.nbytes,
        ),
    }
    rows = []
    for case, (call, size) in cases.items():
        progress(case)

        def on(threads: int, call: Call = call) -> None:
            cudml.set_num_threads(threads)
            call()

        times = interleaved({"1": lambda: on(1), "2": lambda: on(2)}, rounds)
        rows += [row(case, int(n), "cudml out=", t, size) for n, t in times.items()]
    copies: dict[str, Call] = {n: partial(copy, normed, group, int(n)) for n in ("1", "2")}
    rows += [
        row("copy, 2^24", int(n), "NumPy", t, 2 * group.nbytes)
        for n, t in interleaved(copies, rounds).items()
    ]
    return rows


def ratios(rows: list[Row]) -> list[str]:
    """PyTorch's median over cudml's in the same case; time on one thread over time on two."""
    found = []
    for r in rows:
        peers = [o for o in rows if (o.case, o.threads, o.who) == (r.case, r.threads, "PyTorch")]
        single = [o for o in rows if (o.case, o.threads, o.who) == (r.case, 1, r.who)]
        if r.who == "PyTorch":
            found.append("1.00")
        elif peers:
            found.append(f"{peers[0].median / r.median:.2f}")
        else:
            found.append(f"{single[0].median / r.median:.2f}")
    return found


def machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            n.split(":")[1].strip() for n in info.read_text().splitlines() if "model name" in n
        ]
        model = names[0] if names else model
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs"


def busy() -> float:
    """Seconds of CPU time, idle time aside, that the whole machine has spent."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    ticks = sum(int(f) for i, f in enumerate(fields) if i not in (3, 4))
    return ticks / os.sysconf("SC_CLK_TCK")


def foreign_load(busy_before: float, own_before: float, wall: float) -> float:
    """CPUs' worth of work that other processes did meanwhile."""
    own = sum(os.times()[:2]) - own_before
    return max(0.0, (busy() - busy_before - own) / wall)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25, help=f"at least {MIN_ROUNDS}")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE as well")
    options = parser.parse_args()
    rounds = max(options.rounds, MIN_ROUNDS)
    try:
        import torch
    except ImportError:
        torch = None
        print("PyTorch is not installed: no comparison. Install it with  pip install torch\n")

    load, own, start = busy(), sum(os.times()[:2]), time.perf_counter()
    rows = against_torch(torch, rounds) if torch else []
    rows += one_against_two(rounds)
    others = foreign_load(load, own, time.perf_counter() - start)
    progress("")

    versions = f"cudml {cudml.__version__}, PyTorch {torch.__version__ if torch else 'not there'}"
    print(f"{machine()}; {versions}; median of {rounds} interleaved rounds")
    print("ratio: PyTorch's time over cudml's; of the last three cases, one thread over two\n")
    print(HEADER)
    for r, ratio in zip(rows, ratios(rows), strict=True):
        print(r.line(ratio))
    print(f"\nOther processes used {others:.2f} CPUs meanwhile" + ("." if others < 0.1 else
          ": the machine was not quiet, measure again."))  # fmt: skip
    if options.json:
        facts = {"machine": machine(), "versions": versions, "rounds": rounds, "foreign": others}
        content = {**facts, "rows": [{**asdict(r), "rate": r.rate} for r in rows]}
        Path(options.json).write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
