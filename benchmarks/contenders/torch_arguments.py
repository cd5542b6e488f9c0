"""A problem's arguments in PyTorch's words and order."""

from __future__ import annotations

import itertools

from problems import Problem

MODES = {"constant": "constant", "edge": "replicate", "reflection": "reflect"}


def geometry(problem: Problem) -> tuple[list[int], list[int], list[int], list[int]]:
    """Windows, strides, pads and dilations."""
    return (
        list(problem.window),
        list(problem.strides),
        list(problem.pad),
        list(problem.dilations),
    )


def last_first(pairs: list[tuple[int, int]]) -> list[int]:
    """Last dimension first, as F.pad wants it."""
    return list(itertools.chain.from_iterable(reversed(pairs)))
