"""Every row of the tables of peers' bugs that concerns pooling, and every rule, has a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).parent
BUGS = [
    *(f"POOL-{i:02}" for i in range(1, 21)),
    *(f"GRAD-{i:02}" for i in range(1, 10)),
    *(f"IDX-{i:02}" for i in (1, 2, 4, 5, 6, 7, 8, 9)),
    "RUN-12",
]
DECISIONS = [
    *(f"D-POOL-{i}" for i in range(1, 11)),
    *(f"D-MAX-{i}" for i in range(1, 12)),
    *(f"D-AVG-{i}" for i in range(1, 12)),
    *(f"D-LP-{i}" for i in range(1, 11)),
    *(f"D-VER-{i}" for i in (1, 2, 3, 6)),
    "D-TEN-4",
]


def marked(kind: str) -> set[str]:
    """The arguments of every `pytest.mark.<kind>(...)` in the pooling tests."""
    found: set[str] = set()
    for path in ROOM.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{kind}":
                found |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return found


@pytest.mark.parametrize(("kind", "wanted"), [("bug", BUGS), ("decision", DECISIONS)])
def test_every_row_has_a_test(kind: str, wanted: list[str]) -> None:
    assert not set(wanted) - marked(kind)
