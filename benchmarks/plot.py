"""Draws a run: the share of a plain copy that each contender reaches, case by case.

python benchmarks/plot.py RUN.json [--threads N] [--output docs/images/benchmark_cpu.svg]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from measure import geometric_mean
from problems import FAMILIES
from report import mean_of, share_of

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
INK, GRID = "#1f2328", "#d0d7de"
# Okabe and Ito's colours, told apart by every kind of colour vision, and by shape in grey.
STYLES = {
    "cudml": ("#0072B2", "o", 46),
    "PyTorch": ("#D55E00", "s", 26),
    "PyTorch compiled": ("#CC79A7", "D", 24),
    "ONNX Runtime": ("#009E73", "^", 28),
    "NumPy": ("#E69F00", "v", 26),
    "CuPy": ("#E69F00", "v", 26),
}


def cases_of(run: dict[str, Any], threads: int) -> list[dict[str, Any]]:
    """A line of the chart for each case: geometric means over its shapes, types and layouts."""
    found: dict[int, dict[str, Any]] = {}
    for row in run["rows"]:
        if row["threads"] != threads:
            continue
        line = found.setdefault(
            row["number"], {"what": row["what"], "family": row["family"], "shares": {}}
        )
        for library, facts in row["contenders"].items():
            line["shares"].setdefault(library, []).append(facts["share"])
    order = list(FAMILIES.values())
    lines = [
        {**line, "number": n, "shares": {k: geometric_mean(v) for k, v in line["shares"].items()}}
        for n, line in found.items()
    ]
    return sorted(lines, key=lambda line: (order.index(line["family"]), line["number"]))


def title(run: dict[str, Any], threads: int) -> str:
    rows = [row for row in run["rows"] if row["threads"] == threads]
    names = [name for name in STYLES if any(name in row["contenders"] for row in rows)]
    means = ((name, mean_of(rows, share_of(name))) for name in names)
    said = ", ".join(f"{name} {mean:.2f}" for name, mean in means if mean)
    on = f", {threads} thread{'s' * (threads != 1)}" if threads else ""
    return f"Share of a plain copy's speed on {run['device']}{on}\ngeometric means: {said}"


def draw(run: dict[str, Any], threads: int, output: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cudml"})
    from matplotlib import pyplot

    lines = cases_of(run, threads)
    half = -(-len(lines) // 2) if len(lines) > 12 else len(lines)
    columns = [lines[:half], lines[half:]] if half < len(lines) else [lines]
    size = (6.2 * len(columns), 1.5 + 0.27 * half)
    figure, axes = pyplot.subplots(1, len(columns), figsize=size, squeeze=False, sharex=True)
    handles: dict[str, Any] = {}
    for ax, some in zip(axes[0], columns, strict=True):
        handles |= _panel(ax, some, half)
    shares = [share for line in lines for share in line["shares"].values()]
    axes[0][0].set_xlim(max(0.8 * min(shares), 1e-3), max(1.3, 1.1 * max(shares)))
    figure.patch.set_facecolor("white")
    figure.suptitle(title(run, threads), fontsize=10, color=INK, x=0.02, ha="left")
    shown = [name for name in STYLES if name in handles]
    figure.legend([handles[name] for name in shown], shown, ncols=len(shown), frameon=False,
                  loc="lower center", fontsize=9, labelcolor=INK)  # fmt: skip
    figure.tight_layout(rect=(0, 0.035, 1, 0.995))
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=160, metadata={"Date": None} if output.suffix == ".svg" else None)
    pyplot.close(figure)


def _panel(ax: Any, lines: list[dict[str, Any]], height: int) -> dict[str, Any]:
    """One column of cases; a line joins cudml with the best of the others."""
    handles = {}
    for y, line in enumerate(lines):
        shares = line["shares"]
        peers = [s for name, s in shares.items() if name != "cudml"]
        if peers and "cudml" in shares:
            ax.plot([max(peers), shares["cudml"]], [y, y], color=GRID, linewidth=3, zorder=1)
        for name in reversed([n for n in STYLES if n in shares]):
            colour, marker, size = STYLES[name]
            handles[name] = ax.scatter(shares[name], y, s=size, color=colour, marker=marker,
                                       zorder=3 if name == "cudml" else 2)  # fmt: skip
    labels = [f"{line['family']}: {line['what']}  {line['number']:>2}" for line in lines]
    labels = [_short(label) for label in labels]
    ax.set_yticks(range(len(lines)), labels, fontsize=8, color=INK)
    ax.set_ylim(height - 0.4, -0.6)
    ax.set_xscale("log")
    ticks = [0.01, 0.03, 0.1, 0.3, 1]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks], fontsize=8, color=INK)
    ax.minorticks_off()
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.grid(axis="x", color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_xlabel("copy = 1", fontsize=8, color=INK)
    return handles


def _short(label: str) -> str:
    """Without the family where the operator's own name says it."""
    family, what = label.split(": ", 1)
    if family == FAMILIES["step"]:
        return what
    return what if family.split()[0].lower() in what.lower() or "Norm" in what else label


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--threads", type=int, help="which of the run's numbers (the largest)")
    parser.add_argument("--output", type=Path, help="docs/images/benchmark_<backend>.svg")
    options = parser.parse_args()
    run = json.loads(options.run.read_text())
    numbers = sorted({row["threads"] for row in run["rows"]})
    threads = numbers[-1] if options.threads is None else options.threads
    if threads not in numbers:
        print(f"plot: the run has {', '.join(map(str, numbers))} threads", file=sys.stderr)
        return 2
    output = options.output or IMAGES / f"benchmark_{run['backend']}.svg"
    draw(run, threads, output)
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
