"""Times cudml and its peers on the suite's cases, beside a plain copy of as many bytes.

python benchmarks/run.py --backend cpu --threads 1,2 --json FILE

benchmarks/README.md says what is measured, how the time is budgeted and how to read the table.
"""

from __future__ import annotations

import os
import sys

# Another library's threads that spin after a call take the core that the next contender needs. In
# the mixed mode they do so as in a program that sets nothing.
if not any(word.startswith("--mixed") for word in sys.argv):
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    os.environ.setdefault("KMP_BLOCKTIME", "0")

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gpu
import machine
import mixed
import paths
import paths_report
import report
from cases import CASES
from contenders import PEERS, quack
from mixed import AFTER
from places import PLACES
from problems import MOST_BYTES, Problem, cross
from rows import Limits
from usual import usual
from visits import Plan, all_visits

ROUNDS, SECONDS = 15, 2.0
_MIXED = f"each timed call after an operator of another library ({AFTER[0]}), on rotating buffers"
MIXED_VISITS = 2  # the operators in between take part of the time
VISITS = {"cpu": 6, "cuda": 1}  # with PyTorch's compiler a visit is dear, and a GPU is steady


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", default="1,2", help="numbers of threads on the CPU (1,2)")
    parser.add_argument("--mixed", nargs="?", const=AFTER[0], choices=AFTER, help=_MIXED)
    parser.add_argument("--in-caches", action="store_true", help="with --mixed: on one set of them")
    every = "time every path or kernel that takes a problem, instead of cudml beside its peers"
    parser.add_argument("--paths", action="store_true", help=every)
    grid = "a grid of usual calls in all types, numbers 101 on, instead of the suite"
    parser.add_argument("--usual", action="store_true", help=grid)
    words = "numbers, ranges (1-51) or parts of names, with * and ?, separated by commas"
    parser.add_argument("--only", default="", metavar="PATTERN", help=words)
    parser.add_argument("--peers", default="all", metavar="NAMES", help="libraries beside cudml")
    whole = f"shapes as they are, also above {MOST_BYTES // 10**6} MB"
    parser.add_argument("--full", action="store_true", help=whole)
    turns = f"of turns ({ROUNDS}, with --paths {paths.ROUNDS})"
    parser.add_argument("--rounds", type=int, help=turns)
    late = f"after which a row's rounds end early ({SECONDS}, with --paths {paths.SECONDS})"
    parser.add_argument("--seconds", type=float, help=late)
    parser.add_argument(
        "--visits", type=int, help="to each case, in which it has part of its rounds"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to FILE")
    parser.add_argument("--list", action="store_true", help="print the problems and stop")
    return parser.parse_args()


def rounded(value: Any) -> Any:
    """Floats to five significant digits, which is more than any of them is worth."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def written(said: dict[str, Any]) -> str:
    """JSON with a line for each row, so that a difference of two files can be read."""
    rows = ",\n".join(f"  {json.dumps(rounded(row))}" for row in said["rows"])
    head = json.dumps({**rounded(said), "rows": []}, indent=1)
    return head.removesuffix("[]\n}") + f"[\n{rows}\n ]\n}}\n"


def listed(suite: list[Problem]) -> None:
    for problem in suite:
        ran = cross(problem.image) if problem.image != problem.full else ""
        print(f"{problem.name:<56}{ran:<20}{problem.bytes / 1e6:10.2f} MB  {problem.case.origin}")


def chosen_peers(said: str, known: list[str]) -> list[str]:
    names = [name.strip() for name in said.split(",")]
    if names in (["all"], ["none"]):
        return known if names == ["all"] else []
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"--peers: {unknown[0]!r} is none of {', '.join(known)}, all, none")
    return names


def plan_of(options: argparse.Namespace) -> Plan:
    """Raises ValueError for a peer that the backend does not have, and a mode it has not."""
    backend, after = options.backend, options.mixed or ""
    peers = chosen_peers(options.peers, PEERS[backend])
    if after and backend != "cpu":
        raise ValueError("--mixed: on a GPU calls of all libraries wait in one queue")
    if options.in_caches and not after:
        raise ValueError("--in-caches goes with --mixed")
    if options.paths and after:
        raise ValueError("--paths: not between another library's calls")
    if why := mixed.problem_with(after, peers):
        raise ValueError(why)
    return Plan(
        backend,
        options.full,
        options.only,
        peers,
        [int(n) for n in options.threads.split(",")] if backend == "cpu" else [0],
        limits_of(options),
        after,
        options.in_caches,
        usual() if options.usual else CASES,
    )


def limits_of(options: argparse.Namespace) -> Limits:
    rounds, seconds, visits = ROUNDS, SECONDS, VISITS[options.backend]
    if options.mixed:
        visits = MIXED_VISITS
    if options.paths:
        rounds, seconds, visits = paths.ROUNDS, paths.SECONDS, paths.VISITS[options.backend]
    given = (options.rounds, options.seconds, options.visits)
    usual = (rounds, seconds, visits)
    return Limits(*(u if g is None else g for g, u in zip(given, usual, strict=True)))


def summed_up(plan: Plan, rows: list[dict[str, Any]], with_paths: bool) -> list[str]:
    if with_paths:
        goals = PLACES[plan.backend].goals
        return paths_report.summary(rows, paths.listed(plan.suite, plan.backend), goals)
    has_goals = plan.backend == "cpu" and not plan.after  # the copies do not stay in caches either
    return [*report.summary(rows), *(report.goals(rows) if has_goals else [])]


def overall(plan: Plan, rows: list[dict[str, Any]], with_paths: bool) -> dict[str, Any]:
    if with_paths:
        return {"listed": paths.listed(plan.suite, plan.backend)}
    return {"means": report.means(rows)}


def main() -> int:
    options = arguments()
    try:
        plan = plan_of(options)
    except ValueError as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    if options.list or not plan.suite:
        listed(plan.suite)
        return 0 if plan.suite else 2
    if plan.backend == "cuda" and (why := gpu.problem()):
        print(f"run: {why}", file=sys.stderr)
        return 2
    begin, load = time.perf_counter(), machine.OthersLoad()
    facts = machine.facts(plan.backend)
    print(f"{facts['device']}; {', '.join(f'{k} {v}' for k, v in facts['versions'].items())}\n")
    found = paths.all_visits(plan) if options.paths else all_visits(plan)
    if plan.backend == "cuda":
        facts["quack"] = quack.said()
        print(f"\nQuACK {facts['quack']}")
    failed = list(found.failures.values())
    others, seconds = load.cpus(), time.perf_counter() - begin
    print("", *summed_up(plan, found.rows, options.paths), sep="\n")
    quiet = "" if others < report.NOISY else ": the machine was not quiet, measure again"
    print(f"\n{seconds:.0f} s; other processes used {others:.2f} CPUs meanwhile{quiet}")
    if failed:
        print("\nNot measured:", *failed, sep="\n  ")
    if options.json:
        said = {
            **facts,
            "backend": plan.backend,
            "after": plan.after,
            "in_caches": plan.in_caches,
            "took": seconds,
            "others_cpus": others,
            **asdict(plan.limits),
            "full": plan.full,
            "failed": failed,
            **overall(plan, found.rows, options.paths),
            "rows": found.rows,
        }
        options.json.write_text(written(said))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
