"""Says what bounds the rows of a run on the CPU: memory, computing, or both in turn.

python benchmarks/causes.py RUN.json [--only PATTERN]

Beside cudml's time on each row, in the same rounds, it measures two floors of it:

  memory     reading the operator's input bytes while writing its output bytes, with no work
             between; x twice where normalization comes back to more of it than a core's cache holds
  computing  the same operator where all data stay in a core's cache, for as many bytes

Each is printed as its part of cudml's time. A row whose floor is near 1 cannot be faster by that
road; where neither is but their sum is, memory waits while the row is computed and the other way.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from arrays import keep_touched_memory, numpy_arrays
from bar import Bar
from cases import MVN
from contenders import cudml_calls
from copies import Traffic
from measure import Call, estimate, interleaved, spread, wall_clock
from problems import ITEM, Problem, fitted, is_chosen, problems

import cudml

NEAR, MOST = 0.85, 1.25  # a floor between these is what the time goes into
CACHED = (200_000, 600_000)  # bytes of a problem in a core's second-level cache
KEPT = 1 << 19  # bytes of x that such a cache still holds when they are read again
COLUMNS = 1024
ROUNDS, SECONDS = 7, 0.5
HEADER = f"{'case':<56}{'thr':>3}{'ms':>10}{'share':>7}{'memory':>8}{'computing':>11}  bound by"


def verdict(memory: float, computing: float) -> str:
    """What bounds a row of which the floors are these parts. A floor well above 1 is none: of few
    bytes it is the waking of its threads."""
    memory = memory if memory <= MOST else 0.0
    if max(memory, computing) >= NEAR:
        return "memory" if memory >= computing else "computing"
    return "both in turn" if memory + computing >= NEAR else "neither"


def read_bytes(problem: Problem) -> int:
    """Bytes that come from memory. Statistics are of whole groups, before any of them is written;
    groups whose numbers take turns in memory are read together, COLUMNS of them at a time."""
    if problem.case.op != MVN:
        return problem.read
    order, axes = problem.memory_axes, set(problem.axes)
    first = min(order.index(a) for a in axes)
    kept = math.prod(problem.shape[a] for a in order[first:] if a not in axes)
    together = math.prod(problem.shape[a] for a in axes) * min(kept, COLUMNS)
    again = together * ITEM[problem.dtype] > KEPT
    return problem.read + again * math.prod(problem.shape) * ITEM[problem.dtype]


def own_call(problem: Problem) -> Call:
    return cudml_calls.ways(numpy_arrays(problem))["out="]


def cached(problem: Problem) -> tuple[Problem, Problem] | None:
    """The problem twice, small enough for the cache; None if it is as small itself."""
    small, large = (fitted(problem, most) for most in CACHED)
    return (small, large) if small.bytes < large.bytes else None


def medians(calls: dict[str, Call]) -> dict[str, float]:
    """Seconds of each, in turns."""
    players = {name: (call, estimate(call, wall_clock)) for name, call in calls.items()}
    turns = interleaved(players, ROUNDS, SECONDS, wall_clock, steady=tuple(calls))
    return {name: spread(turn.seconds.values()).median for name, turn in turns.items()}


def computing_seconds(problem: Problem) -> float | None:
    """Of one thread on the problem's bytes if they were in the cache. From the difference of two
    sizes, which leaves out what a call costs by itself."""
    pair = cached(problem)
    if pair is None:
        return None
    cudml.set_num_threads(1)
    small, large = medians({str(p.bytes): own_call(p) for p in pair}).values()
    return (large - small) / (pair[1].bytes - pair[0].bytes) * problem.bytes


def causes(problem: Problem, threads: list[int], traffic: Traffic) -> dict[int, dict[str, Any]]:
    """The floors of a problem, by number of threads."""
    computing, found = computing_seconds(problem), {}
    call = own_call(problem)
    for n in threads:
        cudml.set_num_threads(n)
        moving = traffic.call(read_bytes(problem), problem.written, n)
        seconds = medians({"cudml": call, "memory": moving})
        own = seconds["cudml"]
        floors = (seconds["memory"] / own, computing and computing / n / own)
        found[n] = {"ms": own * 1e3, "memory": floors[0], "computing": floors[1]}
    return found


def line(row: dict[str, Any], found: dict[str, Any]) -> str:
    memory, computing = found["memory"], found["computing"]
    said = "" if computing is None else f"{computing:.2f}"
    what = "the call itself" if computing is None else verdict(memory, computing)
    share = row["contenders"]["cudml"]["share"]
    return (
        f"{row['name']:<56}{row['threads']:>3}{found['ms']:>10.3f}{share:>7.2f}{memory:>8.2f}"
        f"{said:>11}  {what}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a file that run.py --json wrote")
    parser.add_argument("--only", default="", metavar="PATTERN", help="as of run.py")
    options = parser.parse_args()
    run = json.loads(options.run.read_text())
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in run["rows"]:
        rows.setdefault(row["name"], []).append(row)
    suite = [p for p in problems(full=run["full"]) if p.name in rows and is_chosen(p, options.only)]
    if run["backend"] != "cpu" or not suite:
        print("causes: the file has no row of a CPU that was asked for", file=sys.stderr)
        return 2
    keep_touched_memory()
    try:
        traffic = Traffic(max(max(read_bytes(p), p.written) for p in suite))
    except ImportError as error:
        print(f"causes: {error}", file=sys.stderr)
        return 2
    print(HEADER)
    with Bar(len(suite)) as bar:
        for problem in suite:
            bar.step(problem.name)
            mine = rows[problem.name]
            found = causes(problem, [row["threads"] for row in mine], traffic)
            bar.done("\n".join(line(row, found[row["threads"]]) for row in mine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
