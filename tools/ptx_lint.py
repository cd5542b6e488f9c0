"""Refuses PTX instructions that break the arithmetic the library promises.

Float atomics (results would depend on the order of threads), flushing of subnormals, approximate
division, roots and functions: each use needs an entry in ALLOWED, with its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Uses = dict[str, dict[str, int]]  # function (mangled) -> instruction -> how often


class Allowed(NamedTuple):
    function: str  # a regular expression, found in the mangled name
    instruction: str  # a regular expression, the whole instruction
    reason: str


ALLOWED = [
    Allowed(
        r"activate_valuesId",
        r"rcp\.approx\.ftz\.f64",
        "CUDA's erfc, log1p and tanh of double: the start of a quotient that Newton steps correct",
    ),
    Allowed(
        r"pass_values?Id",
        r"rcp\.approx\.ftz\.f64",
        "CUDA's erfc of double, for the slope of GELU: the start of a quotient, likewise",
    ),
    Allowed(
        r"activate_valuesId",
        r"ex2\.approx\.ftz\.f32",
        "CUDA's tanh of double: two to a small whole number, which is exact",
    ),
    Allowed(
        r"activate_valuesIf|pass_values?If|pool_",
        r"rcp\.approx\.ftz\.f32",
        "near_quotient: a reciprocal that Newton steps correct",
    ),
]

FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\(|$)")
INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_]*(?:[.:]+[a-z0-9_]+)+)[\s;]")
FORBIDDEN = {
    "a float atomic": re.compile(r"(?:atom|red)\b.*\.(?:f16|f16x2|bf16|bf16x2|f32|f64)\b.*"),
    "flushes subnormals": re.compile(r".*\.ftz\b.*"),
    "approximate": re.compile(r".*\.(?:approx|full)\b.*"),
}


def why_forbidden(instruction: str) -> str:
    """What is wrong with an instruction, or nothing."""
    return ", ".join(what for what, rule in FORBIDDEN.items() if rule.fullmatch(instruction))


def uses(ptx: str) -> Uses:
    """The forbidden instructions of each function in the text of a PTX file."""
    found: dict[str, Counter[str]] = {}
    function = ""
    for line in ptx.splitlines():
        begin = FUNCTION.search(line)
        if begin:
            function = begin.group(1)
            continue
        match = INSTRUCTION.match(line)
        if match and why_forbidden(match.group(1)):
            found.setdefault(function, Counter())[match.group(1)] += 1
    return {name: dict(counts) for name, counts in found.items()}


def problems(
    all_uses: Iterable[Mapping[str, Mapping[str, int]]], allowed: list[Allowed] | None = None
) -> list[str]:
    """A line for each forbidden instruction of a function, and for each entry without a use."""
    allowed = ALLOWED if allowed is None else allowed
    needed: set[Allowed] = set()
    found: dict[str, None] = {}
    for functions in all_uses:
        for function, counts in functions.items():
            for instruction in counts:
                fits = [
                    entry
                    for entry in allowed
                    if re.search(entry.function, function)
                    and re.fullmatch(entry.instruction, instruction)
                ]
                needed.update(fits)
                if not fits:
                    found[f"{function}: {instruction} ({why_forbidden(instruction)})"] = None
    unused = [entry for entry in allowed if entry not in needed]
    return [
        *found,
        *(f"ALLOWED has {e.instruction} in {e.function}, which nothing uses" for e in unused),
    ]
