"""Goes through the suite visit by visit, each visit of the CPU in a process of its own.

Where a process gets its memory, and what lies beside it in the caches, stays as it is for as long
as the process lives and can move a row's time by a fifth: one process would show one such draw.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import report
from bar import Bar
from cases import CASES, Case
from problems import Problem, problems
from rows import Known, Limits, row, visit


@dataclass(frozen=True)
class Plan:
    """What runs where: the problems chosen, on a backend, beside these peers."""

    backend: str
    full: bool
    only: str
    peers: list[str]
    threads: list[int]
    limits: Limits
    after: str = ""  # whose operator precedes each timed call
    in_caches: bool = False  # whether such calls find their buffers in the caches
    cases: tuple[Case, ...] = CASES

    @property
    def suite(self) -> list[Problem]:
        return problems(full=self.full or self.backend == "cuda", only=self.only, cases=self.cases)


@dataclass
class Found:
    """What the visits so far have shown, by problem; `rows` come from the last one."""

    known: dict[str, Known] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def opened(plan: Plan) -> Any:
    """The device, which runs the peers named."""
    if plan.backend == "cuda":
        from device_cuda import Cuda

        return Cuda(plan.peers)
    most = max(problem.bytes for problem in plan.suite)
    if plan.after:
        from mixed import MixedCpu

        return MixedCpu(most, plan.peers, plan.after, plan.in_caches)
    from device_cpu import Cpu

    return Cpu(most, plan.peers)


def one_visit(plan: Plan, number: int, found: Found) -> Found:
    """Visits every problem once; the last visit prints the rows."""
    device, suite = opened(plan), plan.suite
    visits, is_last = plan.limits.visits, number == plan.limits.visits - 1
    steps = len(suite) * len(plan.threads)
    with Bar(visits * steps, number * steps) as bar:
        for problem in suite:
            if problem.name in found.failures:
                continue
            known = found.known.setdefault(problem.name, Known())
            try:
                arrays = device.arrays(problem)
                for n in plan.threads:
                    bar.step(f"{problem.name}, {n} threads")
                    visit(device, arrays, n, plan.limits, known)
                    if is_last:
                        found.rows.append(row(problem, n, known.seen[n]))
                    bar.done(report.line(found.rows[-1]) if is_last else "")
            except (AssertionError, ImportError) as error:
                found.failures[problem.name] = f"{problem.name}: {error}"
                bar.done(f"! {found.failures[problem.name]}")
            finally:
                arrays = None
    return found


def all_visits(plan: Plan) -> Found:
    """Every visit of the plan."""
    print(report.MIXED_HEADER if plan.after else report.HEADER, flush=True)
    return in_processes(plan.limits.visits, partial(one_visit, plan), Found())


def in_processes(visits: int, one: Callable[[int, Any], Any], found: Any) -> Any:
    """Each visit, which is given its number and what those before it have found, in a process of
    its own; a single one needs none."""
    if visits == 1:
        return one(0, found)
    fresh = multiprocessing.get_context("spawn")
    for number in range(visits):
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            found = process.submit(one, number, found).result()
    return found
