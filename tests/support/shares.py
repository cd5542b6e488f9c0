"""Which variants of each test a run takes: all, or a share of them.

A test that runs for many types, layouts or lengths has hundreds of variants. A run of the whole
suite takes a fifth of them, spread over all parameters; `--share K/N` names the share, and
`--share 1/1` takes everything, as a selection of files or tests does by itself. Whatever the share,
each test has a variant in it, but those that take long, which are dealt out like variants of one,
and so has each rule of docs/semantics.md.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

T = TypeVar("T")


@dataclass(frozen=True)
class Share:
    """The `number`-th of `count` equal parts, from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def is_all(self) -> bool:
        return self.count == 1

    def part(self, things: Sequence[T]) -> list[T]:
        """Those of some things that belong to it: one at least, and each to some share."""
        first = self.number - 1
        return list(things[first :: self.count]) or list(things[first % len(things) :][:1])


USUAL = Share(1, 5)
ALL = Share(1, 1)


def parsed(text: str) -> Share:
    found = re.fullmatch(r"([1-9][0-9]?)/([1-9][0-9]?)", text)
    share = Share(int(found[1]), int(found[2])) if found else None
    if share is None or share.number > share.count:
        raise pytest.UsageError(f"--share: {text!r} is not K/N with 1 <= K <= N <= 99")
    return share


def of(config: pytest.Config) -> Share:
    """The run's share, as pytest_configure() has settled it."""
    return parsed(config.getoption("share"))


def without_backend(item: pytest.Item) -> tuple[str, str]:
    """A test and its variant: the same for those that ask it of other back ends."""
    spec = getattr(item, "callspec", None)
    parts = spec.id.split("-") if spec else []
    if spec and spec.params.get("backend") in parts:
        parts.remove(spec.params["backend"])
    return item.nodeid.partition("[")[0], "-".join(parts)


def marked(item: pytest.Item) -> set[tuple[Hashable, ...]]:
    """What of a document the item stands for: rules, rows of peers' bugs, cells of a table.

    Nothing where it wants a GPU: it is skipped where there is none.
    """
    if any("cuda" in m.args for m in item.iter_markers("device")):
        return set()
    ids = {
        (name, i) for name in ("decision", "bug") for m in item.iter_markers(name) for i in m.args
    }
    rows = [m.args for m in item.iter_markers("cell")]
    return ids | {("cell", row, column) for row, *columns in rows for column in columns}


def _dealt(item: pytest.Item) -> tuple[str, str]:
    """What shares deal out, and which of it the item is."""
    test, variant = without_backend(item)
    return ("", f"{test}[{variant}]") if item.get_closest_marker("long") else (test, variant)


def _mixed(test: str) -> bytes:
    """A place among a test's variants that follows no parameter's order, nor another test's."""
    return hashlib.sha256(test.encode()).digest()


def chosen(items: list[pytest.Item], share: Share) -> list[pytest.Item]:
    """The items that a share has, in their order."""
    if share.is_all:
        return items
    variants: dict[str, set[str]] = defaultdict(set)
    for item in items:
        name, variant = _dealt(item)
        variants[name].add(variant)
    taken = {
        (name, variant)
        for name, found in variants.items()
        for variant in share.part(sorted(found, key=lambda v: _mixed(f"{name}[{v}]")))
    }
    kept, held = set(), set()
    for item in items:
        if _dealt(item) in taken or item.get_closest_marker("whole"):
            kept.add(item)
            held |= marked(item)
    for item in items:
        if not marked(item) <= held:
            kept.add(item)
            held |= marked(item)
    return [item for item in items if item in kept]
