"""What tools/native_build.py writes: builds, what editors read, and the package as a prefix."""

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
    for target in ("module.so", "libcudml.so.0"):
        assert ("-s" in every.pop(target)) == (not kind)
    assert len(every) > 40
    for target, words in every.items():
        assert (set(words) >= CHECKED) == bool(kind), target
        assert bool(OPTIMIZED & set(words)) == (not kind), target


def test_nothing_stands_in_the_module_and_in_the_library(native: Any, tmp_path: Path) -> None:
    """The module has the bindings and is linked with the library, which has everything else."""
    every = commands(native, tmp_path, "")
    in_module, in_library = (
        {word for word in every[target] if word.endswith(".o")}
        for target in ("module.so", "libcudml.so.0")
    )
    objects = {target for target in every if target.endswith(".o")}
    assert in_module == {name for name in objects if name.startswith("bindings/")}
    assert in_library == objects - in_module and len(in_module) > 1
    assert "libcudml.so.0" in every["module.so"]
    assert "-Wl,-rpath,'$ORIGIN/lib'" in every["module.so"]


def test_the_package_is_laid_out_as_a_prefix(native: Any, tmp_path: Path) -> None:
    """What was there before is gone, and no name is left to be filled in."""
    import library_files

    built, package = tmp_path / "built", tmp_path / "package"
    (package / "include" / "cudml").mkdir(parents=True)
    (package / "include" / "cudml" / "old.h").touch()
    built.mkdir()
    (built / "libcudml.so.0").write_text("library")
    library_files.install(built, package)
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    headers = {f"include/cudml/{path.name}" for path in (ROOT / "include" / "cudml").iterdir()}
    found = {"lib/cmake/cudml/cudmlConfig.cmake", "lib/cmake/cudml/cudmlConfigVersion.cmake"}
    assert files == headers | found | {"lib/libcudml.so.0", "lib/pkgconfig/cudml.pc"}
    for name in sorted(files):
        assert "@" not in (package / name).read_text(), name


def test_a_recipe_holds_lists_alone(native: Any) -> None:
    import recipe

    text = "# why\nset(A b  # c\n    d)\nset(E)\nset(F -D)\n"
    assert recipe.read(text) == {"A": ["b", "d"], "E": [], "F": ["-D"]}
    with pytest.raises(SystemExit, match=r"more than set.*: if\(X\)"):
        recipe.read(f"{text}if(X)\n")


def test_commands_name_every_source(native: Any, tmp_path: Path) -> None:
    said = "\n".join(word for words in commands(native, tmp_path, "").values() for word in words)
    for room in ("core", "choose", "ops", "directml", "library", "cpu"):
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
