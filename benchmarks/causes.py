"""Says what bounds the rows of a run on the CPU: memory, computing, calls, waiting, or all in turn.

python benchmarks/causes.py RUN.json [--only PATTERN]

Beside cudml's time on each row, in the same rounds and on as many threads, it measures its floors:

  memory     reading the operator's input bytes while writing its output bytes, with no work
             between; normalization reads each group before it writes it, and reads it again then
  computing  the same operator where all data stay in the cores' caches, for as many bytes
  call       what is left of such a small problem's time for no bytes at all: checks and plans,
             and threads that are woken
  waiting    of cudml's own threads, for each other: what they leave of the processors' time

Each is printed as its part of cudml's time, and a row below the share of a copy that is wanted of
it with that goal. A row of which a floor is near 1 cannot be faster by
that road; where none is but their sum is, memory waits while the row is computed and the other way.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from arrays import keep_touched_memory, numpy_arrays
from bar import Bar
from cases import MVN
from contenders import cudml_calls
from copies import Moves, Traffic, lines
from measure import Call, estimate, interleaved, spread, wall_clock
from problems import ITEM, Problem, fitted, is_chosen, problems
from report import is_below_goal

import cudml

NEAR = 0.85  # a floor from here on is what the time goes into
CACHED = (200_000, 600_000)  # bytes of a problem in one core's second-level cache
FEWEST_BYTES = 64 << 10  # for each thread: fewer are not shared among threads
SHORT_GROUP = 4096  # bytes
COLUMNS = 4096
SHARED = 0.75  # of one thread's time: what two need at most of a problem that they share
ROUNDS, SECONDS = 11, 0.5
FLOORS = ("memory", "computing", "call", "waiting")
HEADER = (
    f"{'case':<56}{'thr':>3}{'ms':>10}{'share':>7}{'goal':>6}"
    f"{'memory':>8}{'computing':>11}{'call':>6}{'waiting':>9}  bound by"
)


def verdict(floors: dict[str, float]) -> str:
    """What bounds a row of which the floors are these parts."""
    most = max(floors, key=lambda name: floors[name])
    if floors[most] >= NEAR:
        return most
    return "all in turn" if sum(floors.values()) >= NEAR else "none of these"


def moves_of(problem: Problem) -> Moves:
    """The operator's reads and writes. Normalization reads whole groups before it writes any of
    their results, and then once more: COLUMNS of them at a time where their numbers take turns in
    memory, several where they are short. Its gradient, which reads both inputs twice, is taken as
    one that reads them once."""
    if problem.case.op != MVN:
        return Moves(written=lines(problem.written), read=lines(problem.read))
    order, axes, item = problem.memory_axes, set(problem.axes), ITEM[problem.dtype]
    first, last = (pick(order.index(a) for a in axes) for pick in (min, max))
    taken = math.prod(problem.shape[a] for a in order[first : last + 1])
    inner = math.prod(problem.shape[a] for a in order[last + 1 :])
    if last - first + 1 == len(axes) and inner > COLUMNS:
        sizes = {"run": COLUMNS * item, "rows": taken, "stride": lines(inner * item)}
        total = problem.written // (taken * inner * item) * taken * sizes["stride"]
    else:
        kept = math.prod(problem.shape[a] for a in order[first:] if a not in axes)
        together = taken * inner // kept * min(kept, COLUMNS) * item
        total = lines(problem.written)
        sizes = {"run": lines(max(together, SHORT_GROUP)), "rows": 1, "stride": total}
    return Moves(written=total, read=total, **sizes)


def cached(problem: Problem, threads: int = 1) -> tuple[Problem, Problem] | None:
    """The problem twice, small enough for the threads' caches; None if it cannot be smaller."""
    large = fitted(problem, CACHED[1] * threads)
    small = fitted(large, large.bytes * CACHED[0] // CACHED[1])
    enough = FEWEST_BYTES * threads if threads > 1 else 0
    return (small, large) if enough <= small.bytes < large.bytes else None


def own_call(problem: Problem) -> Call:
    return cudml_calls.ways(numpy_arrays(problem))["out="]


def on(threads: int, call: Call, otherwise: int) -> Call:
    """The call on so many threads where it is usual to have others."""

    def one() -> None:
        cudml.set_num_threads(threads)
        call()
        cudml.set_num_threads(otherwise)

    return call if threads == otherwise else one


class InCache:
    """A problem in the caches at two sizes: seconds for a byte, and for none."""

    def __init__(self, pair: tuple[Problem, Problem], threads: int, otherwise: int) -> None:
        self.threads, self._bytes = threads, [one.bytes for one in pair]
        self._names = [f"{n} bytes on {threads}" for n in self._bytes]
        calls = [on(threads, own_call(one), otherwise) for one in pair]
        self.calls = dict(zip(self._names, calls, strict=True))

    def of_byte(self, seconds: dict[str, float]) -> float:
        (small, large), (first, second) = self._names, self._bytes
        return (seconds[large] - seconds[small]) / (second - first)

    def of_call(self, seconds: dict[str, float]) -> float:
        return seconds[self._names[0]] - self.of_byte(seconds) * self._bytes[0]


class Idleness:
    """A call of some threads, and what they leave of the processors' time meanwhile."""

    def __init__(self, call: Call, threads: int) -> None:
        self._call, self._threads, self._busy, self._all = call, threads, 0.0, 0.0

    def __call__(self) -> None:
        busy, start = time.process_time(), time.perf_counter()
        self._call()
        self._all += (time.perf_counter() - start) * self._threads
        self._busy += time.process_time() - busy

    @property
    def part(self) -> float:
        return 1 - self._busy / self._all if self._threads > 1 else 0.0


class Floors:
    """The floors of one problem on some threads, and what was measured of them."""

    def __init__(self, problem: Problem, threads: int, traffic: Traffic) -> None:
        own = own_call(problem)
        self._bytes, self._idleness = problem.bytes, Idleness(own, threads)
        self._moving = traffic.calls(moves_of(problem), threads)
        self._calls = {"cudml": own, "waiting": self._idleness, **self._moving}
        self._calls["waking"] = next(iter(traffic.calls(Moves(), threads).values()))
        pairs = {n: cached(problem, n) for n in sorted({1, threads})}
        self._in_cache = [InCache(pair, n, threads) for n, pair in pairs.items() if pair]
        for one in self._in_cache:
            self._calls |= one.calls

    def measure(self) -> dict[str, float]:
        """Milliseconds of cudml's call, and the floors' parts of it: medians of all rounds."""
        players = {name: (call, estimate(call, wall_clock)) for name, call in self._calls.items()}
        turns = interleaved(players, ROUNDS, SECONDS, wall_clock, steady=tuple(players))
        seconds = {name: turn.seconds for name, turn in turns.items()}
        rounds = [self._parts({n: s[k] for n, s in seconds.items()}) for k in seconds["cudml"]]
        found = {"ms": spread(seconds["cudml"].values()).median * 1e3}
        for name in rounds[0]:
            found[name] = max(0.0, spread(one[name] for one in rounds).median)
        return {**found, "waiting": max(0.0, self._idleness.part)}

    def _parts(self, seconds: dict[str, float]) -> dict[str, float]:
        """Of one round. The faster way to write counts, without the waking of its threads."""
        own, alone = seconds["cudml"], self._in_cache[0]
        moving = min(seconds[way] for way in self._moving) - seconds["waking"]
        computing = alone.of_byte(seconds)
        for shared in self._in_cache[1:]:
            together = shared.of_byte(seconds)
            # What does not become faster has too few parts at this size to be shared; nothing
            # becomes faster than as many times.
            is_shared = together < SHARED * computing
            computing = max(together if is_shared else 0.0, computing / shared.threads)
        return {
            "memory": moving / own,
            "computing": computing * self._bytes / own,
            "call": alone.of_call(seconds) / own,
        }


def line(row: dict[str, Any], found: dict[str, float]) -> str:
    floors = {name: found[name] for name in FLOORS}
    memory, computing, call, waiting = (f"{part:.2f}" for part in floors.values())
    share = row["contenders"]["cudml"]["share"]
    goal = f"{row['goal']:.2f}" if is_below_goal(row) else "-"
    return (
        f"{row['name']:<56}{row['threads']:>3}{found['ms']:>10.3f}{share:>7.2f}{goal:>6}"
        f"{memory:>8}{computing:>11}{call:>6}{waiting:>9}  {verdict(floors)}"
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
        traffic = Traffic(max(max(m.read, m.written) for m in map(moves_of, suite)))
    except ImportError as error:
        print(f"causes: {error}", file=sys.stderr)
        return 2
    print(HEADER)
    with Bar(len(suite)) as bar:
        for problem in suite:
            bar.step(problem.name)
            said = []
            for row in rows[problem.name]:
                cudml.set_num_threads(row["threads"])
                said.append(line(row, Floors(problem, row["threads"], traffic).measure()))
            bar.done("\n".join(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
