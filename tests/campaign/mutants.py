"""Faults that can be planted in C++ source: where, and what stands there instead."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("math", "ops", "cpu", "bindings", "directml")
# A pattern of one operator, constant or call, what takes its place, and the kind of fault.
FAULTS: tuple[tuple[str, str, str], ...] = (
    (r"(?<=\s)<=(?=\s)", "<", "comparison"),
    (r"(?<=\s)>=(?=\s)", ">", "comparison"),
    (r"(?<=\s)<(?=\s)", "<=", "comparison"),
    (r"(?<=\s)>(?=\s)", ">=", "comparison"),
    (r"(?<=\s)==(?=\s)", "!=", "comparison"),
    (r"(?<=\s)!=(?=\s)", "==", "comparison"),
    (r"(?<=\s)&&(?=\s)", "||", "logic"),
    (r"(?<=\s)\|\|(?=\s)", "&&", "logic"),
    (r"(?<=[(\s])!(?=[a-z])", "", "logic"),
    (r"(?<=\s)\+(?=\s)", "-", "arithmetic"),
    (r"(?<=\s)-(?=\s)", "+", "arithmetic"),
    (r"(?<=\s)\*(?=\s)", "+", "arithmetic"),
    (r"(?<=\s)/(?=\s)", "*", "arithmetic"),
    (r"(?<=\s)%(?=\s)", "/", "arithmetic"),
    (r"(?<=\s)\+=(?=\s)", "-=", "arithmetic"),
    (r"(?<=\s)\*=(?=\s)", "+=", "arithmetic"),
    (r" \+ 1\b(?![.'0-9])", "", "off by one"),
    (r" - 1\b(?![.'0-9])", "", "off by one"),
    (r"(?<==\s)0(?=;)", "1", "off by one"),
    (r"\bstd::min\b", "std::max", "bound"),
    (r"\bstd::max\b", "std::min", "bound"),
    (r"\[0\]", "[1]", "axis"),
    (r"\[1\]", "[0]", "axis"),
    (r"\[2\]", "[1]", "axis"),
    (r"\btrue\b", "false", "constant"),
    (r"\bfalse\b", "true", "constant"),
    (r"(?<=\bif \()(?=[^)]*\)\s)", "false && ", "dropped check"),
    (r"(?<=\bcheck\()(?=[a-z!])", "true || ", "dropped check"),
)
_PATTERNS = [(re.compile(pattern), new, kind) for pattern, new, kind in FAULTS]
# What runs while compiling, declares, or says something: faults there are not of behaviour.
_SKIPPED = re.compile(
    r"^\s*(//|#|/\*|\*|using |template|static_assert|namespace |struct |class |typedef )"
    r"|concept |requires |if constexpr|operator[<>=!+-]|static_assert"
)


@dataclass(frozen=True)
class Mutant:
    """One fault: `old` at this line and column of a file, counted from 1 and 0, becomes `new`."""

    file: str
    line: int
    column: int
    old: str
    new: str
    kind: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.old.strip() or '·'} → {self.new!r}"

    def applied(self, text: str) -> str:
        """The file's text with the fault in it."""
        lines = text.split("\n")
        line = lines[self.line - 1]
        assert line[self.column :].startswith(self.old), f"{self.name}: the file is another"
        lines[self.line - 1] = line[: self.column] + self.new + line[self.column + len(self.old) :]
        return "\n".join(lines)


def _code(line: str) -> str:
    """The line with strings and trailing comments blanked out, its columns kept."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', line)
    line = re.sub(r"'(\\.|[^'\\])'", lambda m: " " * len(m.group()), line)
    return line.split("//")[0]


def of_file(root: Path, path: Path) -> Iterator[Mutant]:
    """Every fault that fits somewhere in a file."""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if _SKIPPED.search(line):
            continue
        code = _code(line)
        for pattern, new, kind in _PATTERNS:
            for match in pattern.finditer(code):
                where = path.relative_to(root).as_posix()
                yield Mutant(where, number, match.start(), match.group(), new, kind)


def drawn(root: Path, only: str, sample: int, seed: int) -> list[Mutant]:
    """So many faults of the files that the glob names, the rooms in turn, the files alike."""
    r = random.Random(seed)
    rooms: dict[str, list[Mutant]] = {}
    for room in ROOMS:
        files = [p for p in sorted((root / "csrc" / room).rglob("*")) if p.suffix in (".h", ".cpp")]
        for path in files:
            if path.match(only):
                rooms.setdefault(room, []).extend(of_file(root, path))
    for found in rooms.values():
        r.shuffle(found)
    # The loops are most of the code: two of every six.
    turns = [
        room for room in ("cpu", "ops", "math", "cpu", "bindings", "directml") if room in rooms
    ]
    chosen: list[Mutant] = []
    while len(chosen) < sample and any(rooms.values()):
        for room in turns:
            if rooms[room]:
                chosen.append(rooms[room].pop())
    return chosen[:sample]
