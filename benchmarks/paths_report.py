"""What forcing paths has shown: gains, regrets, and what each path earns.

python benchmarks/paths_report.py RUN.json [RUN.json ...]

prints the table of runs of `run.py --paths`, of the last of them where a row is in several; with
`--old RUN.json` what has become of another run's rows instead.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import geometric_mean, spread
from places import CPU, PLACES
from problems import cross

Row = dict[str, Any]
Goals = tuple[float, float]  # of regret: geometric mean and worst

LEAST_GAIN = 1.1  # over the next path, somewhere: what a path must earn
_NAMED = 12  # rows with the largest regret that are printed at least
HEADER = (
    f"{'case':<56}{'run as':<20}{'thr':>3}{'ms':>10}{'regret':>8}  {'chosen':<24}{'fastest':<24}"
    "gain over plain of each path"
)


def times_as_long(one: dict[int, float], other: dict[int, float]) -> float:
    """How many times as long as the other one a path takes: the median over the rounds in which
    both had a turn, or where there are none of their medians."""
    both = one.keys() & other.keys()
    if both:
        return spread(one[k] / other[k] for k in both).median
    return spread(one.values()).median / spread(other.values()).median


def measured(chosen: str, seconds: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Of seconds by path and round; the paths are in the order of their list, the plain one last.

    A gain is the other path's time over this one's; `next` is the path after this one in the list
    that takes the problem as well. All are relative to the chosen path, which has a turn in every
    round, so that they agree with each other.
    """
    names = list(seconds)
    times = {name: times_as_long(seconds[name], seconds[chosen]) for name in names}
    paths = {}
    for name, after in zip(names, [*names[1:], ""], strict=True):
        time_of = spread(seconds[name].values())
        paths[name] = {
            "ms": time_of.median * 1e3,
            "p10": time_of.p10 * 1e3,
            "p90": time_of.p90 * 1e3,
            "turns": len(seconds[name]),
            "over_plain": times[names[-1]] / times[name],
            "next": after,
            "over_next": times[after] / times[name] if after else None,
        }
    fastest = min(names, key=lambda name: (times[name], name != chosen))
    return {"chosen": chosen, "fastest": fastest, "regret": 1 / times[fastest], "paths": paths}


def line(row: Row) -> str:
    ran = "" if row["shape"] == row["full"] else cross(tuple(row["shape"]))
    paths = row["paths"]
    gains = ", ".join(f"{short(name)} {p['over_plain']:.2f}" for name, p in paths.items())
    fastest = "" if row["fastest"] == row["chosen"] else row["fastest"]
    return (
        f"{row['name']:<56}{ran:<20}{row['threads']:>3}{paths[row['chosen']]['ms']:>10.3f}"
        f"{row['regret']:>8.2f}  {row['chosen']:<24}{fastest:<24}{gains}"
    )


def short(path: str) -> str:
    return path.split("/")[-1]


@dataclass
class Earned:
    """What a path has shown; `gains` are over the next path where it was chosen, with the row."""

    applicable: int = 0
    chosen: int = 0
    fastest: int = 0
    is_last: bool = False  # of its list
    gains: list[tuple[float, str]] = field(default_factory=list)

    @property
    def most(self) -> tuple[float, str]:
        return max(self.gains, default=(0.0, ""))


def earned(rows: Iterable[Row], names: Iterable[str] = ()) -> dict[str, Earned]:
    """By path, in the order of the lists where `names` gives it."""
    found: dict[str, Earned] = {name: Earned() for name in names}
    for row in rows:
        for name, path in row["paths"].items():
            one = found.setdefault(name, Earned())
            one.applicable += 1
            one.chosen += row["chosen"] == name
            one.fastest += row["fastest"] == name
            one.is_last = not path["next"]
            if row["chosen"] == name and path["next"]:
                one.gains.append((path["over_next"], f"{row['name']}, {row['threads']} threads"))
    return found


def idle(found: dict[str, Earned]) -> list[str]:
    """Paths that earn less than they must wherever they are chosen; plain ones are not asked."""
    return [
        name + ("" if one.chosen else " (never)")
        for name, one in found.items()
        if not one.is_last and one.most[0] < LEAST_GAIN
    ]


def regrets(rows: list[Row], goals: Goals = CPU.goals) -> list[str]:
    """By number of threads and of all: geometric mean and worst, beside the goals."""
    mean, worst = goals
    lines = [
        f"{'regret (goals)':<32}{'thr':>4}{'rows':>6}"
        f"{f'mean ({mean})':>13}{f'worst ({worst:.2f})':>14}{'above':>8}"
    ]
    families = sorted({path.split("/")[0] for row in rows for path in row["paths"]})
    for threads in sorted({row["threads"] for row in rows}):
        for family in (*families, "all"):
            some = [
                row["regret"]
                for row in rows
                if row["threads"] == threads and family in (row["chosen"].split("/")[0], "all")
            ]
            if some:
                above = sum(r > worst for r in some)
                lines.append(
                    f"{family:<32}{threads:>4}{len(some):>6}{geometric_mean(some):>13.3f}"
                    f"{max(some):>14.2f}{above:>8}"
                )
    return lines


def earnings(found: dict[str, Earned]) -> list[str]:
    lines = [
        f"{'path':<32}{'takes':>6}{'chosen':>8}{'fastest':>9}{'mean gain':>11}{'largest':>9}"
        "  over the next one, in"
    ]
    for name, one in found.items():
        mean = f"{geometric_mean(g for g, _ in one.gains):.2f}" if one.gains else ""
        most, where = one.most
        lines.append(
            f"{name:<32}{one.applicable:>6}{one.chosen:>8}{one.fastest:>9}{mean:>11}"
            f"{f'{most:.2f}' if one.gains else '':>9}  {where}".rstrip()
        )
    return lines


def summary(rows: list[Row], names: Iterable[str] = (), goals: Goals = CPU.goals) -> list[str]:
    found, most = earned(rows, names), goals[1]
    worst = sorted((r for r in rows if r["regret"] > most), key=lambda r: -r["regret"])
    few = idle(found)
    return [
        *regrets(rows, goals),
        "",
        *earnings(found),
        "",
        f"Gain less than {LEAST_GAIN} wherever they are chosen: {', '.join(few) or 'none'}",
        *([f"Regret above {most:.2f}:", *(f"  {line(row)}" for row in worst)] if worst else []),
    ]


def joined(runs: list[dict[str, Any]]) -> list[Row]:
    rows = {(row["name"], row["threads"]): row for run in runs for row in run["rows"]}
    return sorted(rows.values(), key=lambda row: row["number"])


def changes(old: list[Row], new: list[Row], goals: Goals = CPU.goals) -> list[str]:
    """Rows of which another path is chosen than before, and those whose regret now exceeds the
    goal or no longer does."""
    before = {(row["name"], row["threads"]): row for row in old}
    common = [(before[key], row) for row in new if (key := (row["name"], row["threads"])) in before]
    lines = []
    for was, row in common:
        regrets = was["regret"], row["regret"]
        is_other = was["chosen"] != row["chosen"]
        if is_other or (regrets[0] > goals[1]) != (regrets[1] > goals[1]):
            chosen = f"{was['chosen']} -> {row['chosen']}" if is_other else row["chosen"]
            lines.append(
                f"{row['name']}, {row['threads']} threads: {chosen},"
                f" regret {regrets[0]:.2f} -> {regrets[1]:.2f}"
            )
    means = [geometric_mean(pair[k]["regret"] for pair in common) for k in (0, 1)]
    return [*lines, f"{len(common)} rows: mean regret {means[0]:.3f} -> {means[1]:.3f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.json")
    parser.add_argument("--old", type=Path, metavar="RUN.json", help="compare with that run")
    options = parser.parse_args()
    runs = [json.loads(path.read_text()) for path in options.runs]
    rows, goals = joined(runs), PLACES[runs[-1].get("backend", "cpu")].goals
    if options.old:
        print(*changes(json.loads(options.old.read_text())["rows"], rows, goals), sep="\n")
        return 0
    print(HEADER, *map(line, rows), "", *summary(rows, runs[-1]["listed"], goals), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
