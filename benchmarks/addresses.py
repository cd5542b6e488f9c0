"""Times operators with their output at 16 distances from their input, modulo a page.

python benchmarks/addresses.py
python benchmarks/addresses.py --only 34,'average*float16' --threads 1,2

A processor that compares only the low 12 bits of addresses takes a load for one of what was just
stored where both stand at the same place of a page, and lets it wait. A row is a problem of the
suite, its numbers the time at each distance over that at the best one; `in x` is normalization in
place. Status: 1 if any distance is above the goal.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import machine
import numpy as np
from arrays import Arrays, keep_touched_memory, numpy_arrays
from bar import Bar
from cases import MVN
from contenders import cudml_calls
from measure import Call, wall_clock
from problems import Problem, cross, fitted, is_chosen, problems
from report import NOISY

import cudml

PAGE = 4096  # bytes
DISTANCES = (0, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 1536, 2048, 2560, 3072, 4032, 4064)
GOAL = 1.1  # times as long as at the best distance
ROUNDS = 8
TRIES = 3  # a row above the goal is measured again: what is slow only once is the machine's doing
MOST_BYTES = 64_000_000  # of a problem: no cache keeps it
USUAL = ",".join(
    (
        *("01 *32x64x112x112*C", "03 *", "05 *", "09 *35x35*", "10 *", "13 *float32*", "12 *"),
        *("18 *C", "22 reflect 1*", "24 *C", "34 *8192x768*", "34 *8192x4096*", "35 *56x56*"),
        *("36 *2041*", "37 *4096x65536*", "40 *512x128x128*", "42 *8x32x256*", "45 *1x96*bf*"),
    )
)


def placed(like: np.ndarray, distance: int) -> np.ndarray:
    """As many elements, so many bytes after the beginning of a page."""
    memory = np.zeros(like.nbytes + 2 * PAGE, np.uint8)
    begin = -memory.ctypes.data % PAGE + distance
    return memory[begin : begin + like.nbytes].view(like.dtype).reshape(like.shape)


def calls(problem: Problem) -> list[Call]:
    """One for each distance, all of which write the same memory, and perhaps one in place."""
    base = numpy_arrays(problem).base
    for name in ("x", "grad"):
        if name in base:
            x, base[name] = base[name], placed(base[name], 0)
            base[name][...] = x
    y = base["y"]
    memory = np.zeros(y.nbytes + 2 * PAGE, np.uint8)
    page = -memory.ctypes.data % PAGE

    def call(distance: int) -> Call:
        at = memory[page + distance :][: y.nbytes].view(y.dtype).reshape(y.shape)
        found: Call = cudml_calls.ways(Arrays(problem, {**base, "y": at}))["out="]
        return found

    found = [call(distance) for distance in DISTANCES]
    if problem.case.op == MVN:
        x = base["x"].copy()
        found += cudml_calls.ways(Arrays(problem, {**base, "x": x, "y": x})).values()
    return found


def times(problem: Problem, rounds: int) -> list[float]:
    """Lower quartiles of seconds by distance: what else runs makes some calls longer, and none
    shorter. In each round the distances take turns; what runs in place, on another array, comes
    last, or the call after it would find its input out of the caches."""
    ways, count = calls(problem), len(DISTANCES)
    seconds: list[list[float]] = [[] for _ in ways]
    turns = [(i + k) % count for k in range(rounds + 1) for i in range(count)]
    for at in turns + [count] * (rounds + 1) * (len(ways) - count):
        seconds[at].append(wall_clock(ways[at], 1))
    return [float(np.percentile(some[1:], 25)) for some in seconds]


def spread_of(found: list[float]) -> float:
    """The longest time over the shortest, of all distances."""
    return max(found[: len(DISTANCES)]) / min(found[: len(DISTANCES)])


def steady_times(problem: Problem, rounds: int) -> list[float]:
    """The least of a few tries, of which there is but one where all distances are alike."""
    found = times(problem, rounds)
    for _ in range(TRIES - 1):
        if spread_of(found) <= GOAL:
            break
        found = [min(pair) for pair in zip(found, times(problem, rounds), strict=True)]
    return found


def line(problem: Problem, threads: int, found: list[float]) -> str:
    best = min(found[: len(DISTANCES)])
    each = "".join(f"{seconds / best:>6.2f}" for seconds in found)
    each += " " * 6 * (1 + len(DISTANCES) - len(found))
    ran = cross(problem.image) if problem.image != problem.full else ""
    worst = f"{spread_of(found):>7.2f}{'  above' if spread_of(found) > GOAL else ''}"
    return f"{problem.name:<46}{ran:<18}{threads:>3}{best * 1e3:>8.3f}{each}{worst}"


def header() -> str:
    each = "".join(f"{distance:>6}" for distance in (*DISTANCES, "in x"))
    return f"{'case':<46}{'run as':<18}{'thr':>3}{'ms':>8}{each}{'worst':>7}"


def suite(only: str) -> list[Problem]:
    """Each once, as it fits."""
    found: dict[Any, Problem] = {}
    for whole in problems():
        if is_chosen(whole, only):
            problem = fitted(whole, MOST_BYTES)
            key = (problem.case.what, problem.shape, problem.dtype, problem.layout)
            found.setdefault(key, problem)
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=USUAL, metavar="PATTERN", help="as run.py takes it")
    parser.add_argument("--threads", default="1", help="numbers of threads (1)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"({ROUNDS})")
    options = parser.parse_args()
    threads = [int(n) for n in options.threads.split(",")]
    chosen = suite(options.only)
    if not chosen:
        print(f"addresses: no problem is {options.only!r}", file=sys.stderr)
        return 2
    keep_touched_memory()
    facts = machine.facts("cpu")
    print(f"{facts['device']}, {facts['instruction_set']}\n{header()}", flush=True)
    above, load = 0, machine.OthersLoad()
    with Bar(len(chosen) * len(threads)) as bar:
        for problem in chosen:
            for n in threads:
                bar.step(problem.name)
                cudml.set_num_threads(n)
                found = steady_times(problem, options.rounds)
                above += spread_of(found) > GOAL
                bar.done(line(problem, n, found))
    others = load.cpus()
    quiet = "" if others < NOISY else ": the machine was not quiet, measure again"
    print(f"\n{above} of {len(chosen) * len(threads)} rows above {GOAL}")
    print(f"other processes used {others:.2f} CPUs meanwhile{quiet}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
