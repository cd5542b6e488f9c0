"""The texts that tools/native_build.py writes: builds for debugging, and what editors read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import simt_build
from folders import ROOT

CHECKED = {"-O1", "-g", "-D_GLIBCXX_ASSERTIONS"}
OPTIMIZED = {"-O2", "-O3", "-Os", "-DNDEBUG"}


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CUDML_CUDA", "off")
    return simt_build.native_build()


def commands(native: Any, folder: Path, kind: str) -> dict[str, list[str]]:
    """By source: the words that compile it, as compile_commands.json has them; and the link's."""
    native.ninja_of("_core", kind, folder).write(folder)
    native.write_commands(folder, folder / "compile_commands.json")
    entries = json.loads((folder / "compile_commands.json").read_text())
    return {entry["output"]: entry["command"].split() for entry in entries}


@pytest.mark.parametrize("kind", ["", "debug"])
def test_flags(native: Any, kind: str, tmp_path: Path) -> None:
    """Each source is checked and has symbols, or is optimized and has neither."""
    every = commands(native, tmp_path, kind)
    link = every.pop("module.so")
    assert ("-s" in link) == (not kind) and len(every) > 40
    for target, words in every.items():
        assert (set(words) >= CHECKED) == bool(kind), target
        assert bool(OPTIMIZED & set(words)) == (not kind), target


def test_commands_name_every_source(native: Any, tmp_path: Path) -> None:
    said = "\n".join(word for words in commands(native, tmp_path, "").values() for word in words)
    for room in ("core", "choose", "ops", "directml", "cpu"):
        for source in (ROOT / "csrc" / room).rglob("*.cpp"):
            assert str(source) in said, source


def test_builds_have_folders_of_their_own(native: Any) -> None:
    kinds = ("", "debug", "address,undefined")
    assert len({native.folder_of("_core", kind) for kind in kinds}) == len(kinds)


def test_a_kind_that_is_not_there(native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for wish, kind in (("release", ""), ("debug", "debug")):
        monkeypatch.setenv("CUDML_BUILD", wish)
        assert native.wished() == kind
    monkeypatch.setenv("CUDML_BUILD", "fast")
    with pytest.raises(SystemExit, match='CUDML_BUILD is "fast"; it must be release or debug'):
        native.wished()
