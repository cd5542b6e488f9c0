"""Libraries that are registered, and asked, while something else is asked of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _libraries
from exporters import Exporter
from harness import data

X = data((1, 2, 5, 7), "float32")


def current_stream(device: int) -> int:
    return 0


def test_a_library_that_is_registered_during_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_libraries, "_registry", dict(_libraries._registry))
    late = _libraries.Library(None, current_stream)

    class Kind(type):
        asked = 0

        @property
        def __module__(cls) -> str:  # type: ignore[override]
            Kind.asked += 1
            _libraries.register("late", late)
            return "late" if Kind.asked > 1 else "early"

    array = Kind("Array", (), {})()
    assert _libraries.find(array) is None
    assert _libraries.find(array) is late


def test_a_hook_that_writes_as_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library hears of its own arrays alone."""
    monkeypatch.setattr(_libraries, "_registry", dict(_libraries._registry))
    told: list[tuple[str, Any]] = []

    def write(out: Exporter) -> None:
        cudml.padding(type(out)(X), [0] * 4, [0] * 4, out=out)

    class Hook:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, array: Any) -> None:
            told.append((self.name, type(array).__name__))

        def __del__(self) -> None:
            if self.name == "First":
                write(outs["First"])

    outs: dict[str, Exporter] = {}
    for name in ("First", "Second"):
        kind = type(name, (Exporter,), {"__module__": name})
        _libraries.register(
            name, _libraries.Library(None, current_stream, written=lambda name=name: Hook(name))
        )
        outs[name] = kind(np.empty_like(X))
    write(outs["First"])
    _libraries.register("First", _libraries.Library(None, current_stream))  # which has no hook
    write(outs["Second"])
    assert told == [("First", "First"), ("Second", "Second")]
