"""Reads the README's table of libraries and compares its cells with those that tests backed."""

from __future__ import annotations

import importlib.util
import re

COLUMNS = ("in", "out", "out=", "stream", "graph", "types")
HARDWARE = "on hardware"
STATES = ("tested", "stand-in", "refused")  # each backed by a test; nothing else but NOTHING
NOTHING = "–"
NOT_YET = "not yet run on hardware"
LIBRARIES = {"PyTorch, CPU": "torch", "JAX, CPU": "jax"}  # whose tests need the library itself
COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b")

Cell = tuple[str, str]


def stated(document: str) -> dict[str, dict[str, str]]:
    """The table by row and column; empty where there is none."""
    rows: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for line in document.splitlines():
        cells = [c.strip().replace("`", "") for c in line.strip().strip("|").split("|")]
        if not line.strip().startswith("|"):
            columns = []
        elif cells[0] == "library":
            columns = cells[1:]
        elif columns and set(cells[0]) - set("-: "):
            rows[cells[0]] = dict(zip(columns, cells[1:], strict=False))
    return rows


def why_left_out(row: str, has_simulation: bool) -> str:
    """Why this run cannot be expected to back a row, or nothing."""
    library = LIBRARIES.get(row)
    if library and importlib.util.find_spec(library) is None:
        return f"{library} is not installed"
    is_device = "CPU" not in row and row != "NumPy"
    return "" if has_simulation or not is_device else "--backend leaves simt out"


def problem(document: str, validation: str, ran: set[Cell], has_simulation: bool = True) -> str:
    """What is wrong between the table and the tests that ran, or nothing."""
    rows = stated(document)
    if not rows:
        return "README.md has no table of libraries"
    parts = []
    for row, cells in rows.items():
        if tuple(cells) != (*COLUMNS, HARDWARE):
            parts.append(f"{row}: the columns are {', '.join(cells)}")
        is_left_out = bool(why_left_out(row, has_simulation))
        for column in COLUMNS:
            parts += cell_problems(row, column, cells.get(column, ""), ran, is_left_out)
        parts += hardware_problems(row, cells.get(HARDWARE, ""), validation)
    unknown = sorted(c for c in ran if c[0] not in rows or c[1] not in COLUMNS)
    parts += [f"tests back {row}: {column}, which the table lacks" for row, column in unknown]
    return "; ".join(parts)


def cell_problems(row: str, column: str, text: str, ran: set[Cell], is_left_out: bool) -> list[str]:
    state = next((s for s in STATES if text.startswith(s)), "")
    if not state and text != NOTHING:
        return [f"{row}: {column} says {text!r}, which is none of {', '.join(STATES)}, {NOTHING}"]
    if state and (row, column) not in ran and not is_left_out:
        return [f"{row}: {column} is {state}, but no test of it ran"]
    if not state and (row, column) in ran:
        return [f"{row}: {column} is {NOTHING}, but a test of it ran"]
    return []


def hardware_problems(row: str, text: str, validation: str) -> list[str]:
    """A row of a GPU names the commit that was validated, or that none was yet."""
    if text in (NOTHING, NOT_YET):
        return []
    commit = COMMIT.search(text)
    if commit and commit[0] in validation:
        return []
    return [f"{row}: {HARDWARE} says {text!r}; VALIDATION.md does not"]
