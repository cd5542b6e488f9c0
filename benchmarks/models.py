"""Times blocks of models in PyTorch, as they are and with cudml's layers put in by convert.

    python benchmarks/models.py [--threads 1,2] [--only vae] [--compile] [--save]

A row is a block or its layers alone: normalization, activation, pooling and additions, where
convolutions give results that are there already. Both models compute the same in float32 on the
CPU, in training mode, and take turns, forward without gradients or forward and backward. The ratio
is PyTorch's time over cudml's, round by round: its median and middle four fifths. `share` is the
part of PyTorch's time that the layers take. With --compile both are timed in torch.compile, too,
which takes half a minute a row to compile.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import machine
import measure
import torch
from bar import Bar
from model_blocks import MODELS, Model, layers_alone
from torch import Tensor, nn

import cudml
from cudml.torch import convert

PARTS, PASSES = ("whole", "layers"), ("forward", "training")
RESULTS = Path(__file__).parent / "results"
SLOWER, LAYERS_GOAL = 0.98, 2.5  # the least ratio of any row, and that wanted of layers alone


@dataclass
class Row:
    """Milliseconds of each contender, and ratios of times to cudml's in the same rounds."""

    model: str
    part: str
    passes: str
    threads: int
    fused: int
    ms: dict[str, float]
    ratio: float
    p10: float
    p90: float
    share: float | None = None
    others: dict[str, float] = field(default_factory=dict)  # PyTorch's time over theirs
    goal: float | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.model, self.passes, self.threads

    def line(self) -> str:
        share = "" if self.share is None else f"{self.share:.0%}"
        more = "  ".join(f"{name} {ratio:.2f}" for name, ratio in self.others.items())
        return (
            f"{self.model:<13}{self.part:<8}{self.passes:<10}{self.threads:>3}"
            f"{self.ms['torch']:>10.2f}{self.ms['cudml']:>10.2f}{self.ratio:>8.2f}"
            f"  {self.p10:5.2f} - {self.p90:<5.2f}{share:>6}  {more}"
        ).rstrip()


HEADER = (
    f"{'model':<13}{'part':<8}{'pass':<10}{'thr':>3}{'torch ms':>10}{'cudml ms':>10}{'ratio':>8}"
    f"  {'p10 - p90':<13}{'share':>6}"
)


def forward(model: Any, x: Tensor) -> Callable[[], Any]:
    def call() -> Tensor:
        with torch.no_grad():
            result: Tensor = model(x)
            return result

    return call


def training(model: Any, x: Tensor) -> Callable[[], Any]:
    """A step without the optimizer; gradients are new tensors each time."""
    x = x.clone().requires_grad_()
    grad = torch.randn_like(forward(model, x)())
    leaves = [x, *model.parameters()]

    def call() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        model(x).backward(grad)
        return [leaf.grad for leaf in leaves]

    return call


CALLS = {"forward": forward, "training": training}


def check(models: dict[str, Any], x: Tensor) -> None:
    """What is timed computes the same: results, and the gradient of the input."""
    found = []
    for model in models.values():
        leaf = x.clone().requires_grad_()
        y = model(leaf)
        y.square().mean().backward()
        found.append((y.detach(), leaf.grad))
    for y, dx in found[1:]:
        torch.testing.assert_close(y, found[0][0], rtol=1e-3, atol=1e-3)
        if dx is not None:
            room = 1e-3 * float(found[0][1].abs().max())
            torch.testing.assert_close(dx, found[0][1], rtol=1e-3, atol=room)


def contenders(model: nn.Module, x: Tensor, is_compiled: bool) -> tuple[dict[str, Any], int]:
    """The models by name, and how many activations convert has fused."""
    report = convert(model)
    models: dict[str, Any] = {"torch": model, "cudml": report.model}
    if is_compiled:
        for name in tuple(models):
            models[f"{name} compiled"] = torch.compile(models[name])
    check(models, x)
    return models, report.count("fused")


def timed(calls: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> Any:
    """Turns of every contender, in each round."""
    clock = measure.wall_clock
    for call in calls.values():
        call()
    given = {name: (call, measure.estimate(call, clock)) for name, call in calls.items()}
    return measure.interleaved(given, rounds, seconds, clock, steady=tuple(calls))


def row_of(turns: Any, **facts: Any) -> Row:
    """Times and ratios of what has been measured."""
    seconds = {name: t.seconds for name, t in turns.items()}
    ours, torchs = seconds["cudml"], seconds["torch"]
    ratio = measure.spread(torchs[k] / ours[k] for k in ours)
    ms = {name: 1e3 * measure.spread(s.values()).median for name, s in seconds.items()}
    others = {
        name: measure.spread(torchs[k] / s[k] for k in s).median
        for name, s in seconds.items()
        if name not in ("torch", "cudml")
    }
    return Row(ms=ms, ratio=ratio.median, p10=ratio.p10, p90=ratio.p90, others=others, **facts)


def set_threads(count: int) -> None:
    torch.set_num_threads(count)
    cudml.set_num_threads(count)


def rows_of(model: Model, options: Any) -> Iterator[Row]:
    """The rows of a block: layers first, whose share the block's own row shows."""
    torch.manual_seed(0)
    x, block = torch.randn(model.shape), model.make()
    layers: dict[tuple[str, str, int], float] = {}
    for part in reversed(PARTS):
        made = block if part == "whole" else layers_alone(block, x)
        models, fused = contenders(made, x, options.compile)
        for threads in options.threads:
            set_threads(threads)
            torch.compiler.reset()  # programs hold the number of threads, and may be few
            for passes in options.passes:
                calls = {name: CALLS[passes](each, x) for name, each in models.items()}
                turns = timed(calls, options.rounds, options.seconds)
                goal = model.goal if part == "whole" else LAYERS_GOAL
                row = row_of(
                    turns, model=model.name, part=part, passes=passes, threads=threads,
                    fused=fused, goal=goal,
                )  # fmt: skip
                if part == "layers":
                    layers[row.key] = row.ms["torch"]
                else:
                    row.share = layers[row.key] / row.ms["torch"]
                yield row


def summary(rows: list[Row]) -> list[str]:
    """Means of the ratios, and the rows that miss what is wanted of them."""
    lines = []
    for part in PARTS:
        for passes in PASSES:
            ratios = [r.ratio for r in rows if (r.part, r.passes) == (part, passes)]
            if ratios:
                mean = measure.geometric_mean(ratios)
                lines.append(f"{part}, {passes}: {mean:.2f} times as fast, geometric mean")
    slow = [r for r in rows if r.ratio < SLOWER]
    below = [r for r in rows if r.goal and r.ratio < r.goal]
    wanted = [r for r in rows if r.goal]
    lines.append(f"{len(slow)} of {len(rows)} rows more than 2 % slower than PyTorch")
    lines.append(f"{len(wanted) - len(below)} of {len(wanted)} rows reach their goals")
    goals = ", ".join(f"{m.name} {m.goal}" for m in MODELS if m.goal)
    return [*lines, f"goals: {goals}, layers alone {LAYERS_GOAL}"]


def numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="numbers of threads (1,2)")
    parser.add_argument("--only", default="", metavar="TEXT", help="a part of models' names")
    parser.add_argument("--pass", dest="passes", choices=PASSES, nargs="*", default=PASSES)
    parser.add_argument("--rounds", type=int, default=15, help="of turns (15)")
    parser.add_argument("--seconds", type=float, default=3.0, help="after which a row ends (3)")
    parser.add_argument("--compile", action="store_true", help="both in torch.compile, too")
    help_text = "write models.json and models.txt, into benchmarks/results unless a folder is named"
    parser.add_argument(
        "--save", nargs="?", type=Path, const=RESULTS, metavar="DIR", help=help_text
    )
    return parser.parse_args()


def save(folder: Path, text: list[str], said: dict[str, Any], rows: list[Row]) -> None:
    """The table as it was printed, and JSON with a line for each row."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.txt").write_text("\n".join(text) + "\n")
    listed = ",\n".join(f"  {json.dumps(asdict(row))}" for row in rows)
    head = json.dumps({**said, "rows": []}, indent=1).removesuffix("[]\n}")
    (folder / "models.json").write_text(f"{head}[\n{listed}\n ]\n}}\n")


def main() -> int:
    options = arguments()
    chosen = [m for m in MODELS if options.only.lower() in m.name.lower()]
    if not chosen:
        names = ", ".join(m.name for m in MODELS)
        print(f"models: --only is {options.only!r}; it must be in one of {names}", file=sys.stderr)
        return 2
    facts, load, begin = machine.facts("cpu"), machine.OthersLoad(), time.perf_counter()
    head = [
        f"{facts['device']}; {', '.join(f'{k} {v}' for k, v in facts['versions'].items())}",
        *(f"{m.name}: {' x '.join(map(str, m.shape))}" for m in chosen), "", HEADER,
    ]  # fmt: skip
    print(*head, sep="\n")
    rows: list[Row] = []
    total = len(chosen) * len(PARTS) * len(options.threads) * len(options.passes)
    with Bar(total) as bar:
        for model in chosen:
            bar.step(model.name)
            for row in rows_of(model, options):
                rows.append(row)
                bar.done(row.line())
    took, others = time.perf_counter() - begin, load.cpus()
    tail = ["", *summary(rows), f"{took:.0f} s; other processes used {others:.2f} CPUs meanwhile"]
    print(*tail, sep="\n")
    if options.save:
        said = {**facts, "took": took, "others_cpus": others}
        save(options.save, [*head, *(r.line() for r in rows), *tail], said, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
