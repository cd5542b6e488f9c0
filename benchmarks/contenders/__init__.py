"""Who takes part: a library, its ways to do a problem, and why one does not."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Call = Callable[[], Any]
Ways = dict[str, Call]

COMPILED = "PyTorch compiled"
PEERS = {  # by backend
    "cpu": ["PyTorch", "ONNX Runtime", "NumPy"],
    "cuda": ["PyTorch", COMPILED, "CuPy"],
}


class AbsentError(Exception):
    """Raised by a library's ways: why it does not take part."""


@dataclass
class Contender:
    """One way of one library. `logical` makes of a call's result the outputs that are
    compared, in the operator's shapes."""

    library: str
    way: str
    call: Call
    logical: Callable[[Any], Any]


@dataclass
class Field:
    """All ways of all libraries for one problem, and what each absent library said."""

    contenders: list[Contender] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def offer(self, library: str, ways: Callable[[], Ways], logical: Callable[[Any], Any]) -> None:
        """Takes the ways that a library has; a failure to prepare them is its absence."""
        with self.trial(library):
            found = ways()
            self.contenders += [Contender(library, w, call, logical) for w, call in found.items()]
            if not found:
                self.absent[library] = "has no such operator"

    @contextlib.contextmanager
    def trial(self, library: str) -> Iterator[None]:
        """What goes wrong within is why the library, or one of its ways, is absent."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except AbsentError as error:
            self.absent[library] = str(error)
        except Exception as error:
            self.absent[library] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
