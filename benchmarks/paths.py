"""Every path, or kernel of a GPU, that takes a problem, forced and timed in turns with the others.

`run.py --paths` runs it; benchmarks/README.md says how to read what it prints.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import machine
import numpy as np
import paths_report as report
import verify
from arrays import Arrays
from bar import Bar
from contenders import cudml_calls
from measure import Call, Turns, estimate, interleaved
from places import CPU, PLACES
from problems import Problem
from rows import Limits, described
from visits import Plan, in_processes

import cudml

ROUNDS, SECONDS, VISITS = 9, 0.6, {"cpu": 2, "cuda": 1}
FEWEST = 5  # rounds of all visits, even where the time is up
_FORCE = "CUDML_KERNEL"


@dataclass(frozen=True)
class Forced:
    """The problem's call, by the path of that name."""

    path: str
    call: Call


@dataclass
class Tried:
    """What visits with one number of threads have shown. `seconds` has about how many each path
    takes, in the order of the list."""

    chosen: str
    seconds: dict[str, float]
    turns: dict[str, Turns] = field(default_factory=dict)
    others_cpus: list[float] = field(default_factory=list)


@dataclass
class Found:
    """What the visits so far have shown; `rows` come from the last one."""

    tried: dict[tuple[str, int], Tried] = field(default_factory=dict)  # by problem and threads
    failures: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


@contextlib.contextmanager
def forcing(path: str) -> Iterator[None]:
    """No path where the name is empty."""
    before = os.environ.get(_FORCE)
    os.environ[_FORCE] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FORCE]
        else:
            os.environ[_FORCE] = before


def explainer(arrays: Arrays) -> Callable[[], cudml.Explanation]:
    """Says on which path the problem's call would run."""
    inputs, kwargs = cudml_calls.arguments(arrays)
    kwargs["out"] = cudml_calls.outputs(arrays)
    return partial(cudml.explain, arrays.problem.case.op, *inputs, **kwargs)


def family_of(problem: Problem) -> str:
    """Whose list of paths the problem goes through."""
    return "winners" if problem.index else problem.case.op


def paths_of(arrays: Arrays, on: Any = CPU) -> tuple[str, list[str]]:
    """The path that the library chooses and all that take the problem, in the list's order, with as
    many threads as are set."""
    explain = explainer(arrays)
    with forcing(""):
        chosen = explain().kernel
    names = []
    for path in cudml.kernels(family_of(arrays.problem), device=on.name):
        # What is refused here is the path: the call itself has just been explained.
        with forcing(path.name), contextlib.suppress(ValueError):
            ran = explain().kernel
            assert ran == path.name, f"{ran} runs where {path.name} is forced"
            names.append(path.name)
    assert chosen in names, f"{chosen} is chosen and refused"
    return chosen, names


def single_calls(suite: list[Problem]) -> list[Problem]:
    """Without the steps of training: a path is forced on one call."""
    return [problem for problem in suite if not problem.case.step]


def listed(suite: list[Problem], device: str = "cpu") -> list[str]:
    """All paths of the problems' lists, in their order."""
    families = dict.fromkeys(map(family_of, single_calls(suite)))
    names = [p.name for family in families for p in cudml.kernels(family, device=device)]
    return list(dict.fromkeys(names))  # families of a GPU share kernels


def clock_on(on: Any) -> Callable[[Forced, int], float]:
    def clock(forced: Forced, count: int) -> float:
        with forcing(forced.path):
            return on.clock(forced.call, count)

    return clock


def outputs(arrays: Arrays, on: Any = CPU) -> dict[str, np.ndarray]:
    return {name: on.host(arrays.base[name]) for name in arrays.problem.outputs}


def difference(arrays: Arrays, want: dict[str, np.ndarray], on: Any = CPU) -> str:
    """What is wrong with the outputs just written beside the chosen path's, or nothing: bits count
    where the rules fix them, and the bounds of the arithmetic elsewhere."""
    got = outputs(arrays, on)
    different = [
        name for name, y in want.items() if not np.array_equal(y.view("u1"), got[name].view("u1"))
    ]
    if not different:
        return ""
    problem = arrays.problem
    if verify.is_exact(problem):
        return f"other bits of {' and '.join(different)} than the chosen path's"
    if wrong := verify.against_reference(arrays, on.host):
        return wrong
    both = [Arrays(problem, {**arrays.base, **written}) for written in (got, want)]
    samples = [verify.sampled(problem, a.results(), np.asarray) for a in both]
    return verify.against(problem, *samples)


def first_calls(
    problem: Problem, forced: list[Forced], arrays: Arrays, on: Any = CPU
) -> dict[str, float]:
    """Seconds of a call by each path, on poisoned outputs; the chosen one comes first, and what it
    has written is held against the reference, what the others have written against that."""
    want: dict[str, np.ndarray] = {}
    seconds = {}
    for one in forced:
        on.poison(arrays)
        seconds[one.path] = clock_on(on)(one, 1)
        if want:
            wrong = difference(arrays, want, on)
        else:
            wrong = verify.against_reference(arrays, on.host)
            want = {name: y.copy() for name, y in outputs(arrays, on).items()}
        if wrong:
            raise AssertionError(f"{one.path}: {wrong}")
    return seconds


def first_visit(arrays: Arrays, checked: set[str], on: Any = CPU) -> Tried:
    """Finds the paths, checks those that are not `checked`, and tries each one."""
    chosen, names = paths_of(arrays, on)
    clock = clock_on(on)
    calls = {name: Forced(name, on.call(arrays)) for name in names}
    new = [name for name in names if name not in checked]
    seconds = {}
    if new:
        ordered = [chosen, *(name for name in new if name != chosen)]
        seconds = first_calls(arrays.problem, [calls[name] for name in ordered], arrays, on)
        checked.update(new)
    if len(names) == 1:  # there is nothing to compare it with, but its time is printed
        return Tried(chosen, {chosen: estimate(calls[chosen], clock)})
    return Tried(chosen, {n: estimate(calls[n], clock, seconds.get(n, 0.0)) for n in names})


def visit(arrays: Arrays, tried: Tried, limits: Limits, on: Any = CPU) -> None:
    """Times the paths in turns."""
    load, visits = machine.OthersLoad(), limits.visits
    players = {name: (Forced(name, on.call(arrays)), s) for name, s in tried.seconds.items()}
    alone = len(players) == 1
    turns = interleaved(
        players,
        math.ceil(limits.rounds / visits),
        0.0 if alone else limits.seconds / visits,
        clock_on(on),
        steady=(tried.chosen,),
        least=0.0 if alone else limits.seconds / visits / 4,
        fewest=1 if alone else math.ceil(FEWEST / visits),
    )
    first = len(tried.turns[tried.chosen].seconds) if tried.turns else 0
    for name, taken in turns.items():
        tried.turns.setdefault(name, Turns()).add(taken, first)
    tried.others_cpus.append(load.cpus())


def row(problem: Problem, threads: int, tried: Tried) -> dict[str, Any]:
    seconds = {name: turns.seconds for name, turns in tried.turns.items()}
    return {
        **described(problem),
        "threads": threads,
        **report.measured(tried.chosen, seconds),
        "others_cpus": round(max(tried.others_cpus), 2),
    }


def one_visit(plan: Plan, number: int, found: Found) -> Found:
    """Visits every problem once; the first visit checks results, the last one prints the rows."""
    on = PLACES[plan.backend]()
    on.begin()
    suite, visits = single_calls(plan.suite), plan.limits.visits
    steps = len(suite) * len(plan.threads)
    with Bar(visits * steps, number * steps) as bar:
        for problem in suite:
            if problem.name in found.failures:
                continue
            try:
                _visit_problem(plan, problem, number, found, bar, on)
            except (AssertionError, ImportError) as error:
                found.failures[problem.name] = f"{problem.name}: {error}"
                bar.done(f"! {found.failures[problem.name]}")
    return found


def _visit_problem(
    plan: Plan, problem: Problem, number: int, found: Found, bar: Bar, on: Any
) -> None:
    arrays, checked = on.arrays(problem), set[str]()
    for threads in plan.threads:
        bar.step(f"{problem.name}, {threads} threads")
        on.set_threads(threads)
        if number == 0:
            found.tried[problem.name, threads] = first_visit(arrays, checked, on)
        tried = found.tried[problem.name, threads]
        visit(arrays, tried, plan.limits, on)
        line = ""
        if number == plan.limits.visits - 1:
            found.rows.append(row(problem, threads, tried))
            line = report.line(found.rows[-1])
        bar.done(line)


def all_visits(plan: Plan) -> Found:
    print(report.HEADER, flush=True)
    return in_processes(plan.limits.visits, partial(one_visit, plan), Found())
