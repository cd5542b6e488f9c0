"""The rows of a run as lines on a screen, and their geometric means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import predictions
from measure import geometric_mean
from problems import FAMILIES, cross

Row = dict[str, Any]

NOISY = 0.2  # CPUs' worth of other processes' work, from where a row says so
SLOW_AFTER = 1.15  # times as long as alone, from where the summary counts a row
SLOW_LAYOUT = 1.3  # times as long for a byte, from where the summary names a row
HEADER = (
    f"{'case':<56}{'run as':<20}{'thr':>3}{'ms':>10}{'GB/s':>8}{'copy':>8}"
    f"{'share':>7}  {'p10 - p90':<13}{'ratio':>7}  best peer"
)


MIXED_HEADER = HEADER.replace(f"{'ms':>10}", f"{'ms':>10}{'alone':>10}{'times':>7}")


def line(row: Row) -> str:
    own = row["contenders"]["cudml"]
    ran = "" if row["shape"] == row["full"] else cross(tuple(row["shape"]))
    peer = row["best_peer"]
    said = f"{peer}: {row['contenders'][peer]['way']}" if peer else "none"
    ratio = f"{row['ratio']:.2f}" if peer else ""
    times = row.get("times_alone")
    alone = f"{row['alone']['ms']:>10.3f}{times:>7.2f}" if times else ""
    if row["others_cpus"] > NOISY:
        said += f"  (others: {row['others_cpus']:.1f} CPUs)"
    interval = f"{own['share_p10']:.2f} - {own['share_p90']:.2f}"
    return (
        f"{row['name']:<56}{ran:<20}{row['threads']:>3}{own['ms']:>10.3f}{alone}{own['gb_s']:>8.1f}"
        f"{row['ceiling']['gb_s']:>8.1f}{own['share']:>7.2f}  {interval:<13}{ratio:>7}  {said}"
    )


def mean_of(rows: Iterable[Row], value: Callable[[Row], float | None]) -> float | None:
    """Geometric mean in which each case counts once, however many shapes and types it has."""
    cases: dict[int, list[float]] = {}
    for row in rows:
        found = value(row)
        if found:
            cases.setdefault(row["number"], []).append(found)
    return geometric_mean(geometric_mean(c) for c in cases.values()) if cases else None


def share_of(library: str) -> Callable[[Row], float | None]:
    def share(row: Row) -> float | None:
        found = row["contenders"].get(library)
        return found["share"] if found else None

    return share


def best_share(row: Row) -> float | None:
    peer = row["best_peer"]
    return row["contenders"][peer]["share"] if peer else None


def means(rows: list[Row]) -> list[dict[str, Any]]:
    """By number of threads and family; the family "all" is the whole suite."""
    found = []
    for threads in sorted({row["threads"] for row in rows}):
        for family in (*FAMILIES.values(), "all"):
            some = [r for r in rows if r["threads"] == threads and family in (r["family"], "all")]
            if some:
                found.append(
                    {
                        "threads": threads,
                        "family": family,
                        "rows": len(some),
                        "share": mean_of(some, share_of("cudml")),
                        "best_peer_share": mean_of(some, best_share),
                        "ratio": mean_of(some, lambda row: row["ratio"]),
                        "behind": sum(1 for r in some if r["ratio"] and r["ratio"] < 1),
                    }
                )
    return found


def channels_last(rows: list[Row]) -> list[tuple[Row, float]]:
    """Rows of that layout with their time for a byte over that of channels first."""

    def key(row: Row, layout: str) -> tuple[Any, ...]:
        return (row["number"], row["what"], *row["full"], row["dtype"], row["threads"], layout)

    speeds = {key(r, r["layout"]): r["contenders"]["cudml"]["gb_s"] for r in rows}
    last = [r for r in rows if r["layout"] == "L" and key(r, "C") in speeds]
    return [(r, speeds[key(r, "C")] / speeds[key(r, "L")]) for r in last]


def is_below_goal(row: Row) -> bool:
    """Of the share of a copy, as it is printed."""
    goal = row.get("goal")
    return goal is not None and round(row["contenders"]["cudml"]["share"], 2) < goal


def goals(rows: list[Row]) -> list[str]:
    """How many rows reach the share of a copy that is wanted of them on a CPU."""
    wanted: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["goal"] is not None:
            wanted.setdefault((row["threads"], row["family"], row["goal"]), []).append(row)
    lines = [f"{'share of a copy to reach':<32}{'thr':>4}{'rows':>6}{'goal':>8}{'below':>8}"]
    for (threads, family, goal), some in sorted(wanted.items()):
        below = sum(map(is_below_goal, some))
        lines.append(f"{family:<32}{threads:>4}{len(some):>6}{goal:>8.2f}{below:>8}")
    return ["", *lines] if wanted else []


def layouts(rows: list[Row]) -> list[str]:
    found = sorted(channels_last(rows), key=lambda pair: -pair[1])
    if not found:
        return []
    slow = [(row, times) for row, times in found if times > SLOW_LAYOUT]
    middle = geometric_mean(times for _, times in found)
    return [
        "",
        f"Channels last take {middle:.2f} times as long for a byte as channels first (geometric"
        f" mean of {len(found)} rows); above {SLOW_LAYOUT}: {len(slow)}",
        *(f"  {times:.2f}  {row['name']}, {row['threads']} threads" for row, times in slow),
    ]


def after_others(rows: list[Row]) -> list[str]:
    """How much longer calls take after another library's, where that was measured."""
    some = [row for row in rows if row.get("times_alone")]
    lines = []
    for threads in sorted({row["threads"] for row in some}):
        mine = [row for row in some if row["threads"] == threads]
        mean = mean_of(mine, lambda row: row["times_alone"])
        slow = sum(row["times_alone"] > SLOW_AFTER for row in mine)
        lines.append(
            f"After another library's operator calls take {mean:.2f} times as long as alone on"
            f" {threads} threads; above {SLOW_AFTER}: {slow} of {len(mine)} rows"
        )
    return ["", *lines] if lines else []


def summary(rows: list[Row]) -> list[str]:
    lines = [
        f"{'geometric means over the cases':<32}{'thr':>4}{'rows':>6}{'share':>8}"
        f"{'best peer':>11}{'ratio':>8}{'behind':>8}"
    ]
    for m in means(rows):
        numbers = (m["share"], m["best_peer_share"], m["ratio"])
        share, peer, ratio = (f"{n:.2f}" if n else "" for n in numbers)
        lines.append(
            f"{m['family']:<32}{m['threads']:>4}{m['rows']:>6}{share:>8}{peer:>11}{ratio:>8}"
            f"{m['behind']:>8}"
        )
    behind = sorted((r for r in rows if r["ratio"] and r["ratio"] < 1), key=lambda r: r["ratio"])
    if behind:
        lines += ["", "Behind the best peer:", *(f"  {line(row)}" for row in behind)]
    return lines + after_others(rows) + layouts(rows) + predictions.lines(rows)
