"""Reads the rules of docs/semantics.md and compares them with those that tests held."""

from __future__ import annotations

import re

IDENTIFIER = re.compile(r"\bD-[A-Z]+-\d+[a-z]?\b")
UNTESTABLE = "rules no test can hold"


def stated(document: str) -> tuple[set[str], set[str]]:
    """The rules that the document states, and those of them that it says no test can hold.

    A rule is stated by a heading or by the first cell of a table row that holds its identifier.
    """
    every: set[str] = set()
    exempt: set[str] = set()
    heading_depth = 0
    for line in document.splitlines():
        heading = re.match(r"(#+)\s*(.*)", line)
        if heading:
            depth = len(heading[1])
            if UNTESTABLE in heading[2].lower():
                heading_depth = depth
            elif heading_depth and depth <= heading_depth:
                heading_depth = 0
        row = line.strip().startswith("|")
        where = heading[2] if heading else line.strip().strip("|").split("|")[0] if row else ""
        found = set(IDENTIFIER.findall(where))
        every |= found
        if heading_depth:
            exempt |= found | set(IDENTIFIER.findall(line))
    return every | exempt, exempt


def problem(document: str, ran: set[str]) -> str:
    """Rules that are stated but did not run, and rules that ran but are not stated; or nothing."""
    every, exempt = stated(document)
    silent = sorted(every - exempt - ran, key=_number)
    unknown = sorted(ran - every, key=_number)
    parts = []
    if not every:
        parts.append("docs/semantics.md states no rule")
    if silent:
        parts.append(f"no test ran for {', '.join(silent)}")
    if unknown:
        parts.append(f"tests hold rules the document does not state: {', '.join(unknown)}")
    return "; ".join(parts)


def _number(identifier: str) -> tuple[str, int, str]:
    family, _, number = identifier.rpartition("-")
    digits = number.rstrip("abc")
    return family, int(digits), number[len(digits) :]
