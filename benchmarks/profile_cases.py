"""The named cases that the profiling scripts run, and what they make of a profiler's numbers.

    python benchmarks/profile_cases.py list
    python benchmarks/profile_cases.py check CASE          status 2 and one line if there is none
    python benchmarks/profile_cases.py run CASE [--facts FILE]
    python benchmarks/profile_cases.py ratio CSV FACTS     DRAM bytes over compulsory bytes

`run` warms up, then starts the profiler's range for a few calls on different buffers, with `out=`,
so that within it only the library's kernels run.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALLS = 3  # inside the profiler's range


@dataclass(frozen=True)
class ProfileCase:
    """One call of an operator. `order` is "last" where dimension 1 lies innermost in memory."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    order: str = "first"
    vectors: tuple[int, ...] | None = None  # sizes of scale and bias
    grad: tuple[int, ...] | None = None  # sizes of the gradient


def _window(size: Any, strides: int, pad: int, **more: Any) -> dict[str, Any]:
    return {
        "window_size": size,
        "strides": strides,
        "start_padding": pad,
        "end_padding": pad,
        **more,
    }


_STEM, _LOW = (32, 64, 112, 112), (32, 64, 56, 56)
CASES = {
    "max-3x3s2": ProfileCase("max_pooling", _STEM, "float16", _window(3, 2, 1)),
    "max-3x3s2-last": ProfileCase("max_pooling", _STEM, "float16", _window(3, 2, 1), "last"),
    "max-3x3s2-indices": ProfileCase(
        "max_pooling", _STEM, "float16", _window(3, 2, 1, return_indices=True)
    ),
    "max-2x2s2": ProfileCase("max_pooling", (32, 64, 224, 224), "float16", _window(2, 2, 0)),
    "average-3x3s1": ProfileCase("average_pooling", (32, 192, 35, 35), "float16", _window(3, 1, 1)),
    "average-global": ProfileCase(
        "average_pooling", (64, 96, 112, 112), "float16", _window(112, 1, 0)
    ),
    "l2-3x3s2": ProfileCase("lp_pooling", (32, 512, 30, 40), "float32", _window(3, 2, 0, p=2)),
    "max-grad": ProfileCase("max_pooling_grad", _STEM, "float16", _window(3, 2, 1), grad=_LOW),
    "average-grad": ProfileCase(
        "average_pooling_grad", _STEM, "float16", _window(3, 2, 1), grad=_LOW
    ),
    "pad-constant": ProfileCase(
        "padding",
        (4, 512, 256, 256),
        "float16",
        {"start_padding": (0, 0, 0, 0), "end_padding": (0, 0, 1, 1)},
    ),
    "pad-reflection": ProfileCase(
        "padding",
        (64, 220_500),
        "float32",
        {"start_padding": (0, 1024), "end_padding": (0, 1024), "mode": "reflection"},
    ),
    "layer-norm": ProfileCase(
        "mean_variance_normalization", (8192, 4096), "float16", {"axes": 1}, vectors=(1, 4096)
    ),
    "layer-norm-short": ProfileCase(
        "mean_variance_normalization", (648_720, 128), "bfloat16", {"axes": 1}, vectors=(1, 128)
    ),
    "group-norm-silu": ProfileCase(
        "mean_variance_normalization",
        (1, 32, 8, 512, 512),
        "float16",
        {"axes": (2, 3, 4), "activation": "swish"},
        vectors=(1, 32, 8, 1, 1),
    ),
    "channel-norm-last": ProfileCase(
        "mean_variance_normalization",
        (8, 64, 256, 256),
        "float16",
        {"axes": (2, 3)},
        "last",
        (1, 64, 1, 1),
    ),
}


def _tensors(case: ProfileCase, torch: Any) -> dict[str, Any]:
    dtype = getattr(torch, case.dtype)

    def draw(shape: tuple[int, ...]) -> Any:
        t = torch.empty(shape, dtype=dtype, device="cuda").normal_()
        return t.movedim(1, -1).contiguous().movedim(-1, 1) if case.order == "last" else t

    arrays = {"x": draw(case.shape)} if case.op != "average_pooling_grad" else {}
    if case.vectors:
        arrays |= {name: draw(case.vectors) for name in ("scale", "bias")}
    if case.grad:
        arrays["grad"] = draw(case.grad)
    return arrays


def run(name: str, facts: Path | None) -> None:
    import torch

    import cudml

    case = CASES[name]
    operator, kwargs = getattr(cudml, case.op), dict(case.kwargs)
    if case.op == "average_pooling_grad":
        kwargs["input_sizes"] = case.shape
    sets = []
    for _ in range(CALLS):
        arrays = _tensors(case, torch)
        out = operator(**arrays, **kwargs)  # warms up, and gives the output its memory order
        sets.append((arrays, out))
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    with torch.cuda.nvtx.range(name):
        for arrays, out in sets:
            operator(**arrays, **kwargs, out=out)
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    explained = cudml.explain(case.op, **sets[0][0], **kwargs)
    if facts:
        said = {"kernel": explained.kernel, "bytes": explained.bytes}
        facts.write_text(json.dumps({"case": name, "calls": CALLS, **said}))


def rows_of(lines: Iterable[str]) -> list[dict[str, str]]:
    """The launches in Nsight Compute's raw page, in base units; its own messages are left out."""
    table = [line for line in lines if line.startswith('"')]
    return [row for row in csv.DictReader(table) if row["ID"].isdigit()]


def ratios(lines: Iterable[str], facts: dict[str, Any]) -> list[str]:
    """A line for each kernel of a call: DRAM bytes measured, and over the compulsory bytes."""
    measured: dict[str, float] = {}
    for row in rows_of(lines):
        moved = (row["dram__bytes_read.sum"], row["dram__bytes_write.sum"])
        size = sum(float(text.replace(",", "")) for text in moved)
        kernel = row["Kernel Name"].split("(")[0]
        measured[kernel] = measured.get(kernel, 0.0) + size / facts["calls"]
    if not measured:
        return [f"{facts['case']}: the profiler recorded no kernel"]
    whole = facts["bytes"]
    said = [f"{facts['case']}: {facts['kernel']}, {whole} compulsory bytes of a call"]
    said += [f"  {size:>16.0f} bytes {size / whole:7.3f}  {k}" for k, size in measured.items()]
    total = sum(measured.values())
    return [*said, f"  {total:>16.0f} bytes {total / whole:7.3f}  all kernels of a call"]


def unknown(name: str) -> str:
    return f"there is no case {name!r}; it must be one of {', '.join(CASES)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("check").add_argument("case")
    runner = commands.add_parser("run")
    runner.add_argument("case")
    runner.add_argument("--facts", type=Path)
    judge = commands.add_parser("ratio")
    judge.add_argument("csv", type=Path)
    judge.add_argument("facts", type=Path)
    options = parser.parse_args()
    if options.command == "list":
        for name, case in CASES.items():
            print(f"{name:<20}{case.op:<30}{'x'.join(map(str, case.shape)):<20}{case.dtype}")
    elif options.command == "ratio":
        facts = json.loads(options.facts.read_text())
        print("\n".join(ratios(options.csv.read_text().splitlines(), facts)))
    elif options.case not in CASES:
        print(unknown(options.case), file=sys.stderr)
        return 2
    elif options.command == "run":
        run(options.case, options.facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
