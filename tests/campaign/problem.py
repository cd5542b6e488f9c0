"""One call as the campaign draws it: it can be written as a line of JSON and run again."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from pages import Layout

# Further calls with the same values, beside the plain one and the one with `out`.
EXTRAS = ("copy", "pair", "state", "threads", "dlpack", "lie", "refusal", "path")


@dataclass(frozen=True)
class Problem:
    """An operator with its arguments.

    arrays holds the layout of each array argument and outs those of `out`; types their element
    types, kind and first what they hold (see `values`). poison is the byte that outputs start as.
    extras names the further calls, each with a number that it draws from.
    """

    op: str
    arrays: dict[str, Layout]
    types: dict[str, str]
    how: dict[str, Any]
    outs: tuple[Layout, ...]
    kind: str = "exact"
    first: int = 0
    poison: int = 0xFF
    extras: dict[str, int] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The element type of the first array."""
        return next(iter(self.types.values()))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Problem:
        read = json.loads(text)
        arrays = {k: _layout(v) for k, v in read.pop("arrays").items()}
        outs = tuple(_layout(v) for v in read.pop("outs"))
        how = {k: _tuples(v) for k, v in read.pop("how").items()}
        return Problem(arrays=arrays, outs=outs, how=how, **read)

    def __str__(self) -> str:
        """The call as one would write it."""
        arrays = [
            f"{k}={self.types[k]}{list(v.shape)} steps {list(v.steps)} at {v.at}+{v.shift}"
            for k, v in self.arrays.items()
        ]
        how = [f"{k}={v!r}" for k, v in self.how.items()]
        outs = f"; out steps {[list(o.steps) for o in self.outs]} at {self.outs[0].at}"
        extras = f"; {', '.join(self.extras)}" if self.extras else ""
        return f"{self.op}({', '.join(arrays + how)}) of {self.kind} values{outs}{extras}"


def _tuples(value: Any) -> Any:
    """Lists of JSON as the tuples they were; a dictionary within stays one."""
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    return value


def _layout(read: dict[str, Any]) -> Layout:
    return Layout(tuple(read["shape"]), tuple(read["steps"]), read["at"], read["shift"])
