"""Libraries that are registered, and asked, while something else is asked of them."""

from __future__ import annotations

import pytest

from cudml import _libraries


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
