"""Every cell of the README's table of libraries is backed by a test that ran; this comes last."""

from __future__ import annotations

import cells

TABLE = """
| library | in | out | `out=` | stream | graph | types | on hardware |
|---|---|---|---|---|---|---|---|
| NumPy | tested | tested | tested: strided too | refused | – | tested | – |
| Numba | stand-in | – | stand-in | – | – | stand-in | not yet run on hardware |

Text.

| other | in |
|---|---|
| PyTorch | tested |
"""
RAN = {
    ("NumPy", "in"), ("NumPy", "out"), ("NumPy", "out="), ("NumPy", "stream"), ("NumPy", "types"),
    ("Numba", "in"), ("Numba", "out="), ("Numba", "types"),
}  # fmt: skip


def test_the_table_is_read() -> None:
    rows = cells.stated(TABLE)
    assert list(rows) == ["NumPy", "Numba"]
    assert rows["NumPy"]["out="] == "tested: strided too"
    assert cells.problem(TABLE, "", RAN) == ""


def test_what_is_wrong_is_said() -> None:
    for text, ran, wanted in [
        ("", RAN, "README.md has no table of libraries"),
        (TABLE, RAN - {("Numba", "in")}, "Numba: in is stand-in, but no test of it ran"),
        (TABLE, RAN | {("Numba", "out")}, "Numba: out is –, but a test of it ran"),
        (TABLE, RAN | {("CuPy", "in")}, "tests back CuPy: in, which the table lacks"),
        (
            TABLE.replace("| refused |", "| perhaps |"),
            RAN - {("NumPy", "stream")},
            "says 'perhaps'",
        ),
        (TABLE.replace("not yet run on hardware", "H100, 1234567"), RAN, "VALIDATION.md does not"),
        (TABLE.replace("| types |", "| kinds |"), RAN, "NumPy: the columns are"),
    ]:
        assert wanted in cells.problem(text, "", ran), wanted
    shown = TABLE.replace("not yet run on hardware", "H100, 1234567")
    assert cells.problem(shown, "validated 1234567 on an H100", RAN) == ""


def test_rows_that_cannot_run_are_left_out() -> None:
    device = {cell for cell in RAN if cell[0] == "Numba"}
    assert cells.problem(TABLE, "", RAN - device, has_simulation=False) == ""
    assert cells.why_left_out("NumPy", False) == ""


def test_every_cell_ran(cells_problem: str) -> None:
    assert not cells_problem, cells_problem
