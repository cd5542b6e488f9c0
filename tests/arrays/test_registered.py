"""Libraries that are registered, and asked, while something else is asked of them."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _libraries
from exporters import Exporter
from harness import data, refused

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


def register(monkeypatch: pytest.MonkeyPatch, **what: Any) -> type[Exporter]:
    """A type of arrays whose library is so."""
    monkeypatch.setattr(_libraries, "_registry", dict(_libraries._registry))
    kind = type("Array", (Exporter,), {"__module__": "own.arrays"})
    _libraries.register(
        "own", _libraries.Library(what.pop("allocate", None), current_stream, **what)
    )
    return kind


def refuse(error: Exception) -> Any:
    def refuses(*given: Any) -> Any:
        raise error

    return refuses


@pytest.mark.parametrize("error", [AttributeError("no such"), TypeError("no such")], ids=repr)
def test_libraries_that_cannot_allocate(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by the library's name, and without a way where a type has none."""
    kind = register(monkeypatch, allocate=refuse(error))
    with refused(TypeError, "padding: own cannot hold float32 here (no such)") as caught:
        cudml.padding(kind(X), 1, 1)
    assert str(caught.value).endswith("(no such)")


ERRORS = (AttributeError, TypeError, RuntimeError, ValueError)


@pytest.mark.parametrize("error", ERRORS)
def test_libraries_that_cannot_import(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = register(monkeypatch, import_memory=refuse(error("no such")))
    with refused(TypeError, "padding: own cannot hold float32 here (no such)"):
        cudml.padding(kind(X), 1, 1)


def test_libraries_that_import_another_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(memory: Any) -> Any:
        return np.from_dlpack(memory).astype("f8")

    kind = register(monkeypatch, import_memory=wrong)
    with refused(TypeError, "own cannot hold float32 here (it makes float64 of it)"):
        cudml.padding(kind(X), 1, 1)


@pytest.mark.parametrize("is_row_major", [True, False, None])
def test_the_order_of_imported_results(
    is_row_major: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the first array, unless its library has none but one; None is no library."""
    kind = register(monkeypatch, is_row_major=bool(is_row_major))
    if is_row_major is None:
        monkeypatch.delitem(_libraries._registry, "own")
        _libraries._of_types.clear()
    kind.from_dlpack = np.from_dlpack  # type: ignore[attr-defined]
    x = np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    y = cudml.padding(kind(x), 1, 1)
    wanted = cudml.padding(X if is_row_major else x, 1, 1)
    assert y.strides == wanted.strides and np.array_equal(y, wanted)


def test_nothing_is_computed_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that no library would take is refused before there is one."""
    asked: list[Any] = []
    monkeypatch.setattr(_libraries, "import_memory", lambda *given: asked.append(given))
    with refused(TypeError, "padding: out is None; exporters.Exporter has no from_dlpack"):
        cudml.padding(Exporter(X), 1, 1)
    assert not asked


def test_which_from_dlpack_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the array's namespace, of its type, of its module; what cannot be called is none."""
    asked: list[str] = []

    def by(name: str) -> SimpleNamespace:
        return SimpleNamespace(from_dlpack=lambda memory: asked.append(name))

    kind = type("Array", (Exporter,), {"__module__": "elsewhere.arrays"})
    monkeypatch.setitem(sys.modules, "elsewhere", by("module"))
    for where in ("module", "type", "namespace"):
        if where == "type":
            kind.from_dlpack = by(where).from_dlpack  # type: ignore[attr-defined]
        if where == "namespace":
            kind.__array_namespace__ = lambda self: by("namespace")  # type: ignore[attr-defined]
        cudml.padding(kind(X), 1, 1)
    kind.__array_namespace__ = lambda self: SimpleNamespace(from_dlpack=3)  # type: ignore[attr-defined]
    cudml.padding(kind(X), 1, 1)
    assert asked == ["module", "type", "namespace", "type"]


def test_only_an_unknown_keyword_is_left_out() -> None:
    """A producer that fails for another reason is not asked again without it."""

    class Fails(Exporter):
        def __dlpack__(self, **keywords: Any) -> Any:
            if "max_version" in keywords:
                raise BufferError("the producer's own words")
            return super().__dlpack__(**keywords)

    with refused(BufferError, "own words"):
        cudml.padding(Fails(X), 1, 1, out=np.empty((3, 4, 7, 9), np.float32))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_tensors_that_nothing_records() -> None:
    """Taken where gradients are on within inference mode, too; exported without their history."""
    import torch

    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode(), torch.enable_grad():
        assert cudml.padding(x, 1, 0).tolist() == [0, 1, 1, 1]
    assert type(_libraries.export(x, None, None)).__name__ == "PyCapsule"
