"""Names PTX's registers anew, so that they compress: a wheel holds the text.

The compiler numbers a function's registers through, so that equal code in two kernels is not equal
text; the numbers are half of what a compressed text takes. Here registers that a stretch of
straight code alone uses are declared in a scope around it and begin at 0 in each. Nothing but names
changes: the assembler makes the same machine code of both texts.

    python tools/ptx_scopes.py IN OUT
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

DECLARED = re.compile(r"\.reg \.(\w+) %([a-z]+)<\d+>;")
REGISTER = re.compile(r"%([a-z]+)(\d+)\b")
# What a scope would hide from the rest of the function, or what is a scope itself.
OUTSIDE = re.compile(r"[.}]|\{|//|[$\w]+:")


def stretches(lines: list[str]) -> list[range]:
    """The longest runs of two and more instructions, outside of inner scopes."""
    found, begin, depth = [], 0, 0
    for i, line in enumerate([*lines, "}"]):
        step = line.count("{") - line.count("}")
        if depth or step or OUTSIDE.match(line):
            if i - begin > 1:
                found.append(range(begin, i))
            begin = i + 1
        depth += step
    return found


def homes(lines: list[str], parts: list[range], types: Mapping[str, str]) -> dict[str, int]:
    """The stretch that alone uses a register, by its number; -1 where there is none."""
    part_of = {i: number for number, part in enumerate(parts) for i in part}
    found: dict[str, int] = {}
    for i, line in enumerate(lines):
        here = part_of.get(i, -1)
        for match in REGISTER.finditer(line):
            if match[1] in types:
                found[match[0]] = here if found.get(match[0], here) == here else -1
    return found


def named(body: list[str]) -> list[str]:
    """A function's lines with other names; a scope's begin with a capital letter."""
    types = {match[2]: match[1] for line in body if (match := DECLARED.fullmatch(line))}
    lines = [line for line in body if not DECLARED.fullmatch(line)]
    parts = stretches(lines)
    home = homes(lines, parts, types)
    names: dict[str, str] = {}
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    upper = {kind.upper(): type_ for kind, type_ in types.items()}

    def name(match: re.Match[str]) -> str:
        before, kind = match[0], match[1]
        if before in home and before not in names:
            number = counts[home[before]]
            names[before] = f"%{kind if home[before] < 0 else kind.upper()}{number[kind]}"
            number[kind] += 1
        return names.get(before, before)

    lines = [REGISTER.sub(name, line) for line in lines]
    for number, part in enumerate(parts):
        if number in counts:
            scope = declared({kind.upper(): n for kind, n in counts[number].items()}, upper)
            lines[part[0]] = f"{{{scope}\n{lines[part[0]]}"
            lines[part[-1]] += "\n}"
    return [declared(counts[-1], types), *lines]


def declared(count: Mapping[str, int], types: Mapping[str, str]) -> str:
    return "".join(f".reg .{types[kind]} %{kind}<{n}>;" for kind, n in sorted(count.items()))


def rewritten(ptx: str) -> str:
    """The text with its registers named anew in each function, and without white space."""
    lines = [line for raw in ptx.splitlines() if (line := re.sub(r"\s+", " ", raw).strip())]
    out: list[str] = []
    body: list[str] = []
    depth = 0
    for line in lines:
        before, depth = depth, depth + line.count("{") - line.count("}")
        if before and depth:
            body.append(line)
            continue
        if before:
            out += named(body)
            body = []
        out.append(line)
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(rewritten(Path(sys.argv[1]).read_text()))
