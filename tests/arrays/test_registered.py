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


@pytest.mark.parametrize("has_own", [True, False])
def test_who_makes_results(has_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's importer where one is registered, else the type's `from_dlpack`."""
    monkeypatch.setattr(_libraries, "_registry", dict(_libraries._registry))
    asked: list[str] = []

    class Array(Exporter):
        @classmethod
        def from_dlpack(cls, memory: Any) -> Array:
            asked.append("type")
            return cls(np.from_dlpack(memory))

    def own(memory: Any) -> Array:
        asked.append("library")
        return Array(np.from_dlpack(memory))

    Array.__module__ = "importing"
    library = _libraries.Library(None, current_stream, import_memory=own if has_own else None)
    _libraries.register("importing", library)
    y = cudml.padding(Array(X), 0, 1)
    assert type(y) is Array and asked == ["library" if has_own else "type"]
    assert np.array_equal(np.from_dlpack(y), cudml.padding(X, 0, 1))


def test_types_derived_from_a_library_s_are_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever module defines them, the nearest base that belongs to a library tells."""
    monkeypatch.setattr(_libraries, "_registry", dict(_libraries._registry))
    near, far = (_libraries.Library(None, current_stream) for _ in range(2))
    _libraries.register("far", far)
    _libraries.register("near", near)
    base = type("Base", (), {"__module__": "far.arrays"})
    middle = type("Middle", (base,), {"__module__": "near.arrays"})
    assert _libraries.find(type("Own", (base,), {})()) is far
    assert _libraries.find(type("Own", (middle,), {})()) is near
    assert _libraries.find(type("Other", (), {})()) is None


def test_few_types_are_kept_alive() -> None:
    for _ in range(200):
        _libraries.find(type("Once", (), {})())
        assert len(_libraries._of_types) <= 64
