"""What a run shows: a line that moves, and a table at the end."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None


@dataclass
class Row:
    """One family: what ran, and what was found, as (number, what is wrong)."""

    family: str
    seed: int
    first: int
    problems: int = 0
    calls: int = 0
    seconds: float = 0.0
    faults: list[tuple[int, str]] = field(default_factory=list)

    def take(self, lanes: list[Any], seconds: float) -> None:
        self.problems = sum(lane.problems for lane in lanes)
        self.calls = sum(lane.calls for lane in lanes)
        self.faults = sorted(f for lane in lanes for f in lane.faults)
        self.seconds = seconds

    def words(self) -> str:
        rate = self.calls / self.seconds if self.seconds else 0
        return f"{self.calls} calls, {rate:.0f}/s, {len(self.faults)} findings"


class Progress:
    """tqdm's bar where it is installed and there is a terminal, else a line every 10 seconds."""

    def __init__(self, family: str, seconds: float) -> None:
        self.family, self.total, self.shown = family, seconds, -10.0
        self.bar: Any = None
        self.told = 0  # findings
        if tqdm and sys.stderr.isatty():
            self.bar = tqdm(total=round(seconds), unit="s", desc=family)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()

    def show(self, row: Row) -> None:
        for number, fault in row.faults[self.told :]:
            print(f"{row.family} {row.seed}:{number} {fault}", file=sys.stderr, flush=True)
        self.told = len(row.faults)
        if self.bar is not None:
            self.bar.n = min(round(row.seconds), self.bar.total)
            self.bar.set_postfix_str(row.words())
        elif row.seconds - self.shown >= 10:
            self.shown = row.seconds
            share = f"{row.seconds:.0f} of {self.total:.0f} s"
            print(f"{self.family:14} {share:16} {row.words()}", file=sys.stderr, flush=True)


def summary(rows: list[Row]) -> None:
    print(f"\n{'family':14} {'seed':>6} {'first':>9} {'problems':>9} {'calls':>9} "
          f"{'calls/s':>8} {'findings':>8}")  # fmt: skip
    for r in rows:
        rate = r.calls / r.seconds if r.seconds else 0.0
        print(f"{r.family:14} {r.seed:6} {r.first:9} {r.problems:9} {r.calls:9} {rate:8.0f} "
              f"{len(r.faults):8}")  # fmt: skip
