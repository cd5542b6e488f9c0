"""Faults that can be planted in C++ source: where, and what stands there instead."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The rooms that take turns. The loops are most of the code: three of every seven turns.
CPU_TURNS = ("cpu/[a-m]*", "cpu/p*", "cpu/[nos-z]*", "ops", "math", "bindings", "directml")
DEVICE_TURNS = ("cuda",)
# Nothing of these is in the one build for the instruction set v3, or for the interpreter.
SUFFIXES = (".h", ".cpp", ".cu", ".cuh")
LEFT_OUT = ("absent.cpp", "arm.h", "unknown.h", "x86_base.h", "x86_v4.h", "sixteen.h", "boxed.h")
_SWAPPED = r"(?<=\s)(?:<=|>=|<|>|==|!=|\+|-|\*|/|%)(?=\s|$)"
# A pattern of one operator, constant or call; with planted.h's words a fault that sleeps, {n} its
# number and {it} what was found; the kind of fault. The first that fits a place is its fault.
FAULTS: tuple[tuple[str, str, str], ...] = (
    (r"(?<= )[+-](?= 1\b(?![.'0-9]))", "{it} ::planted::Dropped<{n}>{{}} {it}", "off by one"),
    (r"(?<=\s)(?:[<>]=?|[=!]=)(?=\s|$)", "{it} ::planted::Swapped<{n}>{{}} {it}", "comparison"),
    (r"(?<=\s)[-+*/%](?=\s|$)", "{it} ::planted::Swapped<{n}>{{}} {it}", "arithmetic"),
    (r"(?<=\s)[+*]=(?=\s)", "{it} ::planted::Negative<{n}>{{}} {it}", "arithmetic"),
    (r"(?<=\s)&&(?=\s|$)", "&& ::planted::Right<{n}>{{}} |", "dropped side"),
    (r"(?<=\s)\|\|(?=\s|$)", "|| ::planted::Right<{n}>{{}} &", "dropped side"),
    (r"(?<=[(\s])!(?=[a-z])", "::planted::on({n}) != !", "negation"),
    (r"(?<==\s)0(?=;)", "::planted::zero({n})", "off by one"),
    (r"\bstd::min(?=\()", "::planted::least<{n}>", "bound"),
    (r"\bstd::max(?=\()", "::planted::most<{n}>", "bound"),
    (r"\bstd::min<(?=\w)", "::planted::least<{n}, ", "bound"),
    (r"\bstd::max<(?=\w)", "::planted::most<{n}, ", "bound"),
    (r"(?<=\[)0(?=\])", "::planted::index({n}, 0, 1)", "axis"),
    (r"(?<=\[)1(?=\])", "::planted::index({n}, 1, 0)", "axis"),
    (r"(?<=\[)2(?=\])", "::planted::index({n}, 2, 1)", "axis"),
    (r"\b(?:true|false)\b", "::planted::flag({n}, {it})", "constant"),
    (r"\b__sync(?:threads|warp)\(\)(?=;)", "::planted::on({n}) ? void() : {it}", "barrier"),
    (r"(?<=\bif \()(?=[^=;]*\)\s)", "!::planted::on({n}) && ", "dropped check"),
    (r"(?<=\bcheck\()(?=[a-z!])", "::planted::on({n}) || ", "dropped check"),
    (r"(?<=\bcheck_type\()(?=[a-z!])", "::planted::on({n}) || ", "dropped check"),
)
_PATTERNS = [(re.compile(pattern), new, kind) for pattern, new, kind in FAULTS]
# What runs while compiling, declares, or says something: faults there are not of behaviour.
_SKIPPED = re.compile(
    r"^\s*(//|#|/\*|\*|using |template|static_assert|namespace |struct |class |typedef )"
    r"|concept |requires |if constexpr|operator[<>=!+-]|static_assert"
    r"|\) (const )?= 0;|constexpr \w+ k"
)


@dataclass(frozen=True)
class Mutant:
    """One fault at this line and column of a file, counted from 1 and 0; its number, from 1."""

    number: int
    file: str
    line: int
    column: int
    old: str
    new: str
    kind: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def _code(line: str) -> str:
    """The line with strings and trailing comments blanked out, its columns kept."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', line)
    line = re.sub(r"'(\\.|[^'\\])'", lambda m: " " * len(m.group()), line)
    return line.split("//")[0]


def of_file(root: Path, path: Path) -> Iterator[Mutant]:
    """Every fault that fits somewhere in a file, none numbered."""
    where = path.relative_to(root).as_posix()
    for number, line in enumerate(path.read_text().split("\n"), 1):
        taken: set[int] = set()
        if _SKIPPED.search(line):
            continue
        for pattern, new, kind in _PATTERNS:
            for match in pattern.finditer(_code(line)):
                if match.start() not in taken:
                    taken.add(match.start())
                    yield Mutant(0, where, number, match.start(), match.group(), new, kind)


def drawn(root: Path, turns: tuple[str, ...], only: str, sample: int, seed: int) -> list[Mutant]:
    """So many faults of the files that the glob names, numbered; the rooms and files in turn."""
    r = random.Random(seed)
    rooms: list[list[list[Mutant]]] = []
    for room in turns:
        files = [p for p in sorted((root / "csrc").glob(f"{room}/**/*")) if p.suffix in SUFFIXES]
        files = [p for p in files if p.name not in LEFT_OUT and p.match(only)]
        found = [faults for path in files if (faults := list(of_file(root, path)))]
        for faults in found:
            r.shuffle(faults)
        r.shuffle(found)
        rooms.append(found)
    chosen: list[Mutant] = []
    while len(chosen) < sample and any(rooms):
        for room in rooms:
            if room:
                faults = room.pop(0)
                chosen.append(faults.pop())
                room += [faults] if faults else []
    return numbered(chosen[:sample])


def numbered(faults: list[Mutant]) -> list[Mutant]:
    return [Mutant(n, *list(m.__dict__.values())[1:]) for n, m in enumerate(faults, 1)]


def named(root: Path, places: list[str]) -> list[Mutant]:
    """The faults at these places, "csrc/file:line:column" each, numbered."""
    files = sorted({place.split(":")[0] for place in places})
    of = {m.place: m for file in files for m in of_file(root, root / file)}
    return numbered([of[place] for place in places])


def planted(text: str, faults: list[Mutant]) -> str:
    """A file's text with these faults of it asleep."""
    lines = text.split("\n")
    for m in sorted(faults, key=lambda m: (m.line, m.column), reverse=True):
        line = lines[m.line - 1]
        assert line[m.column :].startswith(m.old), f"{m.place}: the file is another"
        new = m.new.format(n=m.number, it=m.old)
        lines[m.line - 1] = line[: m.column] + new + line[m.column + len(m.old) :]
    return "\n".join(lines)
