"""Every rule of docs/semantics.md is held by a test that ran; conftest runs this last."""

from __future__ import annotations

import rules

DOCUMENT = """
# Meaning
| Rule | Text |
|---|---|
| D-MAX-1 | as D-ZZZ-9 says |
## D-PAD-12: a heading
Prose about D-YYY-8.
# Rules no test can hold
- D-AVG-8: the sign of a zero.
| D-AVG-9 | why |
# Next
| D-MVN-3, D-MVN-4 | two |
"""


def test_rules_are_read_from_headings_and_first_cells():
    every, exempt = rules.stated(DOCUMENT)
    assert exempt == {"D-AVG-8", "D-AVG-9"}
    assert every == {"D-MAX-1", "D-PAD-12", "D-AVG-8", "D-AVG-9", "D-MVN-3", "D-MVN-4"}


def test_a_rule_without_a_test_and_a_test_without_a_rule_are_reported():
    ran = {"D-MAX-1", "D-PAD-12", "D-MVN-3", "D-LP-1"}
    assert rules.problem(DOCUMENT, ran) == (
        "no test ran for D-MVN-4; tests hold rules the document does not state: D-LP-1"
    )
    assert rules.problem(DOCUMENT, ran - {"D-LP-1"} | {"D-MVN-4"}) == ""
    assert "states no rule" in rules.problem("", set())


def test_every_rule_ran(rules_problem):
    assert not rules_problem, rules_problem
