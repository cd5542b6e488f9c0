"""Compares two runs: names every case whose speed differs by more than noise explains.

python benchmarks/compare.py OLD.json NEW.json

A case is named where the medians of its time differ by more than 5 % while the intervals from p10
to p90 of its ratio to the copy have nothing in common: the machine's own speed, which moves the
copy as well, is not held against it. Status: 1 if any case is slower, 2 if nothing can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import mean_of, share_of

LEAST = 0.05
_ORDER = ("SLOWER", "unclear", "faster")
Key = tuple[str, int]


@dataclass(frozen=True)
class Change:
    """`times` is the new time over the old one; shares are medians of the ratio to the copy."""

    name: str
    threads: int
    times: float
    old_share: float
    new_share: float

    @property
    def verdict(self) -> str:
        """ "unclear" where time and share disagree: the copy has changed more than the case."""
        is_slower = self.times > 1
        if is_slower != (self.new_share < self.old_share):
            return "unclear"
        return "SLOWER" if is_slower else "faster"

    def line(self) -> str:
        shares = f"share of copy {self.old_share:.2f} -> {self.new_share:.2f}"
        where = f"{self.name}, {self.threads} threads"
        return f"{self.verdict:<9}{where}: time x {self.times:.2f}, {shares}"


def by_case(run: dict[str, Any]) -> dict[Key, dict[str, Any]]:
    return {(row["name"], row["threads"]): row["contenders"]["cudml"] for row in run["rows"]}


def is_disjoint(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["share_p90"] < b["share_p10"] or b["share_p90"] < a["share_p10"])


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Slower ones first, then unclear ones; the largest change first."""
    before, after = by_case(old), by_case(new)
    found = []
    for key in before.keys() & after.keys():
        a, b = before[key], after[key]
        if abs(b["ms"] / a["ms"] - 1) > LEAST and is_disjoint(a, b):
            found.append(Change(*key, b["ms"] / a["ms"], a["share"], b["share"]))
    return sorted(found, key=lambda c: (_ORDER.index(c.verdict), c.new_share / c.old_share, c.name))


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Facts that make two runs hard to compare, and cases that only one of them has."""
    facts = ("device", "backend", "instruction_set", "full")
    said = [
        f"{name}: {old.get(name)} before, {new.get(name)} now"
        for name in facts
        if old.get(name) != new.get(name)
    ]
    before, after = by_case(old), by_case(new)
    for label, missing in (("before", before.keys() - after), ("now", after.keys() - before)):
        if missing:
            some = ", ".join(f"{name} ({n})" for name, n in sorted(missing)[:3])
            said.append(f"only {label}: {len(missing)} rows, {some}{' …' * (len(missing) > 3)}")
    return said


def overall(run: dict[str, Any], other: dict[str, Any]) -> float | None:
    """Geometric mean of the share of copy, over the rows that both have."""
    common = by_case(run).keys() & by_case(other).keys()
    rows = [row for row in run["rows"] if (row["name"], row["threads"]) in common]
    return mean_of(rows, share_of("cudml"))


def after_others(run: dict[str, Any]) -> float | None:
    """How many times as long calls take after another library's, where that was measured."""
    return mean_of(run["rows"], lambda row: row.get("times_alone"))


def mode_of(run: dict[str, Any]) -> str:
    """How a run's calls were made."""
    if not run.get("after"):
        return "the usual one"
    return f"--mixed {run['after']}" + " --in-caches" * bool(run.get("in_caches"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
    if "listed" in old or "listed" in new:
        print("compare: runs of --paths are compared by paths_report.py --old", file=sys.stderr)
        return 2
    common = by_case(old).keys() & by_case(new).keys()
    for difference in differences(old, new):
        print(f"note     {difference}")
    modes = [mode_of(run) for run in (old, new)]
    if modes[0] != modes[1]:
        print(f"compare: the runs' modes differ: {modes[0]}, {modes[1]}", file=sys.stderr)
        return 2
    if not common:
        print("compare: the runs have no case in common", file=sys.stderr)
        return 2
    found = changes(old, new)
    for change in found:
        print(change.line())
    verdicts = [change.verdict for change in found]
    slower, faster = verdicts.count("SLOWER"), verdicts.count("faster")
    unclear = len(found) - slower - faster
    before, after = overall(old, new), overall(new, old)
    print(
        f"{len(common)} rows: {slower} slower, {faster} faster, {unclear} unclear;"
        f" mean share of copy {before:.3f} -> {after:.3f}"
    )
    before, after = after_others(old), after_others(new)
    if before and after:
        print(f"times as long as alone: {before:.2f} -> {after:.2f}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
