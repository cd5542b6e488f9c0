"""What the machine code of each kernel must reach, and must not lose: bytes of loads on their way
in a multiprocessor, instructions for each element.

tools/code_budget.json holds a line for each kernel, by its mangled name; docs/machine_code.md shows
the kernels beside their targets, and why one misses its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import machine_code
from kernel_budget import ROOT, Kernel

BUDGET = ROOT / "tools" / "code_budget.json"
TABLE = ROOT / "docs" / "machine_code.md"
MODEL = ROOT / "python" / "cudml" / "_cli" / "machine_code.json"
ARCHITECTURES = ["80", "90", "100"]
SHOWN = "90"
# Latency times bandwidth of an H100: what a multiprocessor must have asked for, to keep the memory
# busy.
BYTES_ON_THEIR_WAY = 40 * 1024
SLACK = 1.05  # more instructions than that times as many are worse
ITEM = {"8": 1, "16": 2, "32": 4, "64": 8}

# Instructions for an element at most: the ceiling of a full schedule at the memory's speed.
INSTRUCTIONS: Mapping[str, int] = {
    "mvn_warp_kernel": 16,
    "mvn_block_kernel": 16,
    "pool_tile_kernel": 30,
    "pool_lanes_kernel": 30,
    "max_pool_grad_lanes_kernel": 40,
    "max_pool_grad_row_kernel": 40,
    "max_pool_grad_strips_kernel": 40,
    "max_pool_grad_vector_strips_kernel": 40,
    "average_pool_grad_vector_strips_kernel": 30,
}
# Why a kernel function may have less on its way than it should, or more to do.
REASONS: Mapping[str, str] = json.loads((ROOT / "tools" / "code_reasons.json").read_text())


@dataclass
class Entry:
    """One kernel; lists have an entry for each of ARCHITECTURES, of those that were compiled."""

    name: str
    waits: list[list[int]] = field(default_factory=list)  # loads outstanding at each
    on_their_way: list[int] = field(default_factory=list)  # bytes, in a multiprocessor
    instructions: list[float] = field(default_factory=list)  # for each element
    wide: list[list[int]] = field(default_factory=list)  # 16-byte loads, 16-byte stores
    local: list[int] = field(default_factory=list)

    @property
    def function(self) -> str:
        return self.name.split("<")[0]


Codes = dict[str, Entry]  # by mangled name


def _item_size(kernel: Kernel) -> int:
    return ITEM[kernel.dtype.lstrip("abfilnotu")] if kernel.dtype != "-" else 4


def compiled(archs: list[str]) -> list[str]:
    """Those whose machine code is read, of those that were compiled."""
    return [arch for arch in ARCHITECTURES if arch in archs]


def entry_of(kernel: Kernel, archs: list[str], codes: Mapping[str, Any], block: int) -> Entry:
    """`codes` has what `machine_code.measured` says of the kernel on each architecture."""
    entry = Entry(kernel.name)
    for arch in compiled(archs):
        code = machine_code.Code(**codes[arch])
        at = archs.index(arch)
        threads = machine_code.resident_threads(
            arch, kernel.registers[at], kernel.shared[at], block
        )
        elements = max(1, code.stored // _item_size(kernel))
        entry.waits.append(code.waits)
        entry.on_their_way.append(code.in_flight * threads)
        entry.instructions.append(round(code.instructions / elements, 1))
        entry.wide.append([code.wide_loads, code.wide_stores])
        entry.local.append(code.local)
    return entry


def dump(codes: Codes) -> str:
    """JSON with one line for each kernel."""
    ordered = sorted(codes.items(), key=lambda item: (item[1].name, item[0]))
    body = ",\n".join(f"  {json.dumps(s)}: {json.dumps(asdict(entry))}" for s, entry in ordered)
    return f'{{\n"architectures": {json.dumps(ARCHITECTURES)},\n"kernels": {{\n{body}\n}}}}\n'


def model(codes: Codes) -> str:
    """What `python -m cudml explain` predicts times from: by kernel function and bytes of an
    element, bytes on their way and instructions an element, the medians of its instantiations."""
    at = ARCHITECTURES.index(SHOWN)
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for entry in codes.values():
        sizes = found.setdefault(entry.function, {})
        item = str(_item_size(Kernel("", entry.name)))
        sizes.setdefault(item, []).append((entry.on_their_way[at], entry.instructions[at]))
    lines = [
        f'"{function}": '
        + json.dumps({s: [median(c) for c in zip(*of[s], strict=True)] for s in sorted(of)})
        for function, of in sorted(found.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(text: str) -> Codes:
    return {symbol: Entry(**entry) for symbol, entry in json.loads(text)["kernels"].items()}


# --- what it must be


def missed(entry: Entry, archs: list[str] = ARCHITECTURES) -> list[str]:
    """The targets that a kernel misses on sm_90; `archs` are those of the entry."""
    at = archs.index(SHOWN)
    found = []
    if entry.on_their_way[at] < BYTES_ON_THEIR_WAY:
        found.append(f"{entry.on_their_way[at] / 1024:.0f} KB on their way")
    most = INSTRUCTIONS.get(entry.function)
    if most and entry.instructions[at] > most:
        found.append(f"{entry.instructions[at]:g} instructions an element, of {most}")
    return found


def unexplained(codes: Codes, archs: list[str] = ARCHITECTURES) -> list[str]:
    """Kernels that miss a target without a reason, and reasons that no kernel needs."""
    missing = {entry.name: missed(entry, archs) for entry in codes.values()}
    lines = [
        f"{name}: {', '.join(what)}, and tools/code_reasons.json says nothing of it"
        for name, what in sorted(missing.items())
        if what and name.split("<")[0] not in REASONS
    ]
    needed = {name.split("<")[0] for name, what in missing.items() if what}
    return lines + [f"{f}: a reason, and no kernel misses" for f in sorted(set(REASONS) - needed)]


def worse(budget: Codes, now: Codes, archs: list[str] = ARCHITECTURES) -> list[str]:
    """What has less on its way, more to do or a narrower access than the budget allows."""
    found = []
    for symbol, entry in now.items():
        allowed = budget.get(symbol)
        if not allowed:
            found.append(f"{entry.name} is new")
            continue
        for i, arch in enumerate(archs):
            at = ARCHITECTURES.index(arch)  # in the budget
            pairs = [
                ("bytes on their way", allowed.on_their_way[at], entry.on_their_way[i], False),
                ("16-byte loads", allowed.wide[at][0], entry.wide[i][0], False),
                ("16-byte stores", allowed.wide[at][1], entry.wide[i][1], False),
                ("accesses of local memory", allowed.local[at], entry.local[i], True),
                ("instructions", allowed.instructions[at] * SLACK, entry.instructions[i], True),
            ]
            found += [
                f"{entry.name}: sm_{arch}: {what} {before:g} -> {after:g}"
                for what, before, after, is_cost in pairs
                if (after > before if is_cost else after < before)
            ]
    gone = set(budget) - set(now)
    return found + [f"{budget[symbol].name} is no longer compiled" for symbol in sorted(gone)]


# --- docs/machine_code.md


def table(codes: Codes) -> str:
    """A row for each kernel function: the spread over its instantiations on sm_90."""
    at = ARCHITECTURES.index(SHOWN)
    lines = [
        "# The kernels' machine code",
        "",
        "Written by `python tools/kernel_report.py write`. A model made from the instructions of "
        f"sm_{SHOWN}: nothing here was measured.",
        "Along each kernel's vector path a scoreboard notes the loads outstanding when one is",
        "waited for; times the threads that a multiprocessor holds, these are the bytes on their",
        f"way. An H100 needs some {BYTES_ON_THEIR_WAY // 1024} KB.",
        "Instructions are those of the path for each element that it stores.",
        "",
        "| kernel | KB on their way | 16-byte loads | 16-byte stores | instructions an element |"
        " misses |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for function in sorted({entry.function for entry in codes.values()}):
        own = [entry for entry in codes.values() if entry.function == function]
        cells = [
            _spread([entry.on_their_way[at] // 1024 for entry in own]),
            _spread([entry.wide[at][0] for entry in own]),
            _spread([entry.wide[at][1] for entry in own]),
            _spread([entry.instructions[at] for entry in own]),
            f"{sum(bool(missed(entry)) for entry in own)} of {len(own)}",
        ]
        lines.append(f"| `{function}` | {' | '.join(cells)} |")
    lines += ["", "## Why some miss", ""]
    lines += [f"- `{function}`: {why}" for function, why in sorted(REASONS.items())]
    return "\n".join(lines) + "\n"


def _spread(values: list[Any]) -> str:
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g}–{most:g}"
