"""Interleaved timing of contenders, and what is made of the numbers."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Call = Callable[[], Any]
Clock = Callable[[Call, int], float]  # seconds of one call, over so many in a row
TURN = 0.003  # seconds of calls in a turn
SHORT = 0.005  # a call shorter than this is preceded by an untimed one in its turn
MOST_CALLS = 500
LONG = 0.02  # a call as long as this is not repeated to estimate it
FEWEST_TURNS = 3
SLOW = 8.0  # times the quickest one's: a single turn is enough to say so
FEWEST_ROUNDS = 5  # of all visits, even where the time is up
ALONE = "cudml alone"  # beside calls of cudml that follow another library's
COPY = "copy: "  # begins the name of a way to copy among the contenders


def wall_clock(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


@dataclass
class Turns:
    """Seconds of a call in the rounds in which it had its turn."""

    seconds: dict[int, float] = field(default_factory=dict)  # by round

    def add(self, later: Turns, first: int) -> None:
        """Takes rounds that were counted from 0 again; the first of them is now number `first`."""
        self.seconds |= {first + number: s for number, s in later.seconds.items()}


@dataclass
class Player:
    """One who takes turns: in every `every`-th round, `count` calls timed as one."""

    call: Call
    estimate: float
    count: int = 1
    every: int = 1
    turns: Turns = field(default_factory=Turns)

    def take(self, clock: Clock, number: int) -> None:
        if self.estimate < SHORT:
            clock(self.call, 1)  # wakes its threads, and puts its code in the caches
        self.turns.seconds[number] = clock(self.call, self.count)


@dataclass(frozen=True)
class Spread:
    """The median and the middle four fifths."""

    median: float
    p10: float
    p90: float


def spread(values: Iterable[float]) -> Spread:
    low, middle, high = np.percentile(np.fromiter(values, float), [10, 50, 90])
    return Spread(float(middle), float(low), float(high))


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def estimate(call: Call, clock: Clock, first: float = 0.0, tries: int = 2) -> float:
    """Seconds of one call, roughly; `first` is what one took, and is believed if it was long."""
    first = first or clock(call, 1)
    if first > LONG:
        return first
    count = calls_in_a_turn(first)
    return min(clock(call, count) for _ in range(tries))


def is_peer(who: str) -> bool:
    return who not in ("cudml", ALONE) and not is_copy(who)


def is_copy(who: str) -> bool:
    return who.startswith(COPY)


def calls_in_a_turn(expected: float) -> int:
    return max(1, min(MOST_CALLS, math.ceil(TURN / max(expected, 1e-7))))


def interleaved(
    calls: dict[str, tuple[Call, float]],
    rounds: int,
    seconds: float,
    clock: Clock,
    steady: tuple[str, ...] = (),
    least: float = 0.0,
    fewest: int = FEWEST_ROUNDS,
) -> dict[str, Turns]:
    """Times calls, given with their estimates, in turns whose order is drawn for each round: what
    one leaves behind (spinning threads, full caches) meets every other as often.

    Ends after `rounds` that took `least` seconds or four times as many, or after `seconds` and
    `fewest` rounds. One that would take more than its
    share of the time takes a turn in every second, third … round, at least FEWEST_TURNS in all
    unless it is SLOW; those that are `steady` take one in each.
    """
    share = max(seconds, 1e-9) / len(calls)  # of the time, for each
    quickest = min(expected for who, (_, expected) in calls.items() if not is_copy(who))
    players = {}
    for name, (call, expected) in calls.items():
        count = calls_in_a_turn(expected)
        turn = expected * (count + (expected < SHORT))
        turns = min(FEWEST_TURNS, fewest) if expected < SLOW * quickest else 1
        every = min(math.ceil(turn * rounds / share), math.ceil(rounds / turns))
        players[name] = Player(call, expected, count, 1 if name in steady else max(every, 1))
    names, draw, begin = list(players), random.Random(0), time.perf_counter()
    for k in range(4 * rounds):
        spent = time.perf_counter() - begin
        if (spent > seconds and k >= fewest) or (spent >= least and k >= rounds):
            break
        draw.shuffle(names)
        for name in names:
            if k % players[name].every == 0:
                players[name].take(clock, k)
    return {name: player.turns for name, player in players.items()}


def of_copy(turns: Turns, copies: Turns) -> list[float]:
    """The copy's time over this one's in the same round: its share of the ceiling."""
    return [copies.seconds[k] / t for k, t in turns.seconds.items() if k in copies.seconds]
