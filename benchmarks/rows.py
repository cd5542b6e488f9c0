"""One row of a run: contenders verified, the fastest way of each timed beside a copy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import machine
import numpy as np
import verify
from arrays import Arrays
from contenders import Contender, Field
from measure import (
    ALONE,
    COPY,
    FEWEST_ROUNDS,
    Call,
    Turns,
    estimate,
    interleaved,
    is_copy,
    is_peer,
    of_copy,
    spread,
)
from problems import Problem

_HOPELESS = 3.0  # times slower than the library's fastest way: not tried with more threads
_RIVALS = 1.3  # times slower than the fastest copy at first: may prove to be the fastest


@dataclass(frozen=True)
class Limits:
    """Of one row. Visits are far from each other in time: each sees the machine in another state.

    `rounds` and `seconds`, which end them early, are for all visits together.
    """

    rounds: int
    seconds: float
    visits: int = 1


@dataclass
class Seen:
    """What visits with one number of threads have shown, by library and for copies.

    `best` is the fastest way with about how many seconds it takes.
    """

    best: dict[str, tuple[str, float]]
    absent: dict[str, str]
    turns: dict[str, Turns] = field(default_factory=dict)
    others_cpus: list[float] = field(default_factory=list)
    timed_by: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, Any] | None = None  # on a GPU, by a model


@dataclass
class Known:
    """What is known of a problem; the first number of threads decides what the others try."""

    sample: np.ndarray | None = None  # of cudml's result, which threads must not change
    slow: set[tuple[str, str]] = field(default_factory=set)
    seen: dict[int, Seen] = field(default_factory=dict)  # by number of threads


def first_call(device: Any, contender: Contender) -> tuple[Any, float]:
    """The result and the seconds that it took."""
    results: list[Any] = []
    if device.compiles_at_first:
        contender.call()
    seconds = device.clock(lambda: results.append(contender.call()), 1)
    return results[0], seconds


def own_sample(
    device: Any, one: Contender, arrays: Arrays, result: Any, known: Known
) -> np.ndarray:
    """Of cudml's output, once it is verified; its first way is the one with out=."""
    sample: np.ndarray = device.sample(one, arrays, result)
    if known.sample is None:
        wrong = device.against_reference(arrays)
        known.sample = sample
    else:
        is_same = np.array_equal(sample, known.sample, equal_nan=True)
        wrong = "" if is_same else "the result depends on the way or the number of threads"
    if wrong:
        raise AssertionError(f"cudml: {wrong}")
    return sample


def verified(
    device: Any, field: Field, arrays: Arrays, known: Known
) -> list[tuple[Contender, float]]:
    """Runs every contender once on poisoned outputs; peers that differ or refuse are left out.

    Each with the seconds of that call. Raises where cudml itself is wrong.
    """
    kept: list[tuple[Contender, float]] = []
    want = np.empty(0)
    for one in field.contenders:
        if (one.library, one.way) in known.slow:
            continue
        device.poison(arrays)
        if one.library == "cudml":
            result, seconds = first_call(device, one)
            want = own_sample(device, one, arrays, result, known)
            kept.append((one, seconds))
            continue
        with field.trial(one.library):
            result, seconds = first_call(device, one)
            wrong = verify.against(arrays.problem, device.sample(one, arrays, result), want)
            if wrong:
                field.absent[one.library] = f"{one.way}: {wrong}"
            else:
                kept.append((one, seconds))
    if not kept:
        raise AssertionError(f"cudml: {field.absent['cudml']}")
    return kept


def fastest_ways(
    device: Any, contenders: list[tuple[Contender, float]], known: Known
) -> dict[str, tuple[str, Any, float]]:
    """By library: the way, its call, and about how many seconds it takes."""
    found: dict[str, list[tuple[float, str, Any]]] = {}
    for one, first in contenders:
        call = device.timed(one)
        seconds = estimate(call, device.clock, first)
        found.setdefault(one.library, []).append((seconds, one.way, call))
    best = {}
    for library, ways in found.items():
        seconds, way, call = min(ways, key=lambda w: w[0])
        known.slow |= {(library, w) for s, w, _ in ways if s > _HOPELESS * seconds}
        best[library] = (way, call, seconds)
    return best


def fast_copies(device: Any, problem: Problem, threads: int) -> dict[str, tuple[str, Any, float]]:
    """The two quickest ways to copy where a first trial cannot tell them apart, or the one."""
    calls = device.copies(problem, threads)
    times = {way: estimate(call, device.clock, tries=3) for way, call in calls.items()}
    quickest = sorted(times, key=times.__getitem__)[:2]
    rivals = [way for way in quickest if times[way] <= _RIVALS * times[quickest[0]]]
    return {COPY + way: (way, calls[way], times[way]) for way in rivals}


def first_visit(
    device: Any, field: Field, arrays: Arrays, threads: int, known: Known
) -> dict[str, tuple[Call, float]]:
    """Verifies all ways and finds each library's fastest one, and the fastest copies."""
    best = fastest_ways(device, verified(device, field, arrays, known), known)
    best |= fast_copies(device, arrays.problem, threads)
    ways = {who: (way, seconds) for who, (way, _, seconds) in best.items()}
    known.seen[threads] = Seen(ways, field.absent)
    return {who: (call, seconds) for who, (_, call, seconds) in best.items()}


def later_visit(
    device: Any, field: Field, problem: Problem, threads: int, seen: Seen
) -> dict[str, tuple[Call, float]]:
    """The calls that the first visit chose, each made once."""
    ways = {(one.library, one.way): partial(device.timed, one) for one in field.contenders}
    copies = device.copies(problem, threads)
    calls = {}
    for who, (way, seconds) in seen.best.items():
        call = copies[way] if is_copy(who) else ways[who, way]()
        device.clock(call, 1)
        calls[who] = (call, seconds)
    return calls


def visit(device: Any, arrays: Arrays, threads: int, limits: Limits, known: Known) -> None:
    """Times the fastest way of each library, and of copying, in turns."""
    load = machine.OthersLoad()
    device.set_threads(threads)
    field = device.field(arrays, threads)
    if threads in known.seen:
        calls = later_visit(device, field, arrays.problem, threads, known.seen[threads])
    else:
        calls = first_visit(device, field, arrays, threads, known)
    seen, visits = known.seen[threads], limits.visits
    turns = interleaved(
        calls,
        math.ceil(limits.rounds / visits),
        limits.seconds / visits,
        device.clock,
        steady=("cudml", ALONE, *filter(is_copy, calls)),
        least=limits.seconds / visits / 4,
        fewest=math.ceil(FEWEST_ROUNDS / visits),
    )
    seen.timed_by |= {who: device.timed_by(call) for who, (call, _) in calls.items()}
    seen.predicted = device.predicted(arrays)
    first = len(seen.turns["cudml"].seconds) if seen.turns else 0
    for who, taken in turns.items():
        seen.turns.setdefault(who, Turns()).add(taken, first)
    seen.others_cpus.append(load.cpus())


def contender_facts(turns: Turns, copies: Turns, way: str, size: int) -> dict[str, Any]:
    time_of = spread(turns.seconds.values())
    share = spread(of_copy(turns, copies))
    return {
        "way": way,
        "ms": time_of.median * 1e3,
        "p10": time_of.p10 * 1e3,
        "p90": time_of.p90 * 1e3,
        "gb_s": size / time_of.median / 1e9,
        "share": share.median,
        "share_p10": share.p10,
        "share_p90": share.p90,
        "turns": len(turns.seconds),
    }


def fastest_copy(seen: Seen) -> str:
    """By its median over all visits: one trial's choice could be another in the next run."""
    medians = {
        who: spread(turns.seconds.values()).median
        for who, turns in seen.turns.items()
        if is_copy(who)
    }
    return min(medians, key=medians.__getitem__)


def times_alone(seen: Seen) -> float:
    """How many times as long cudml takes after another library's operator as alone."""
    after, alone = (spread(seen.turns[who].seconds.values()) for who in ("cudml", ALONE))
    return after.median / alone.median


def row(problem: Problem, threads: int, seen: Seen) -> dict[str, Any]:
    copy = fastest_copy(seen)
    facts_of = partial(contender_facts, copies=seen.turns[copy], size=problem.bytes)
    ceiling = facts_of(seen.turns[copy], way=seen.best[copy][0])
    found = {
        who: {**facts_of(t, way=seen.best[who][0]), "timed_by": seen.timed_by[who]}
        for who, t in seen.turns.items()
        if not is_copy(who)
    }
    alone = found.pop(ALONE, None)
    peers = {who: facts["ms"] for who, facts in found.items() if is_peer(who)}
    peer = min(peers, key=peers.__getitem__) if peers else ""
    return {
        **described(problem),
        "threads": threads,
        "ceiling": ceiling,
        "contenders": found,
        **({"alone": alone, "times_alone": times_alone(seen)} if alone else {}),
        "absent": {w: why for w, why in seen.absent.items() if is_peer(w) and w not in found},
        **({"predicted": seen.predicted} if seen.predicted else {}),
        "best_peer": peer,
        "ratio": peers[peer] / found["cudml"]["ms"] if peer else None,
        "others_cpus": round(max(seen.others_cpus), 2),
    }


def described(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "number": problem.case.number,
        "what": problem.case.what,
        "family": problem.family,
        "origin": problem.case.origin,
        "full": problem.full,
        "shape": problem.image,
        "dtype": problem.dtype,
        "layout": problem.layout,
        "bytes": problem.bytes,
        "goal": problem.goal,
    }
