"""CMake: programs on the package as a prefix, and one list of flags for CMake and for pip."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cudml
import simt_build
from folders import ROOT
from library_support import BARE, PREFIX, library

EXAMPLES = ROOT / "examples" / "cpp"

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


def bare(*words: str | Path) -> str:
    """What a command prints in an environment that names no Python."""
    done = subprocess.run(words, env=BARE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def configure(source: Path, build: Path, *words: str) -> None:
    bare("cmake", "-S", source, "-B", build, "-Wno-dev", "-Werror=dev", *words)


@pytest.mark.long
def test_the_examples_run_on_the_package(tmp_path: Path) -> None:
    """Found by its prefix; Python takes no part in building or running them."""
    library()
    configure(EXAMPLES, tmp_path, f"-DCMAKE_PREFIX_PATH={PREFIX}")
    bare("cmake", "--build", tmp_path)
    text = bare(tmp_path / "host")
    assert "maxima       9 6\n" in text and text.count("\n") == 7
    assert "reflected    3 1 4 1 4 1 3 5 9 2 6 2 9 5\n" in text
    text = bare(tmp_path / "pool")
    assert text.startswith(f"cudml {cudml.__version__}: 4.5 3.25\nrefused: AVERAGE_POOLING: Wind")


def test_the_program_of_the_readme(tmp_path: Path) -> None:
    """It and its project build as they stand, and it prints what it says."""
    library()
    text = (ROOT / "README.md").read_text().split("\n## C and C++\n")[1]
    for language, name in (("cpp", "pool.cpp"), ("cmake", "CMakeLists.txt")):
        (tmp_path / name).write_text(text.split(f"```{language}\n")[1].split("```")[0])
    configure(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={PREFIX}")
    bare("cmake", "--build", tmp_path / "build")
    said = bare(tmp_path / "build" / "pool").strip()
    assert said == "9 9 9 9" and f"// {said}\n" in (tmp_path / "pool.cpp").read_text()


def test_the_host_example_is_short() -> None:
    files = (EXAMPLES / "CMakeLists.txt", EXAMPLES / "host.cpp")
    assert sum(len(file.read_text().splitlines()) for file in files) <= 60


def config(*options: str) -> list[str]:
    words = [sys.executable, "-m", "cudml", "config", *options]
    environment = {**os.environ, "PYTHONPATH": str(PREFIX.parent)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_config_tells_a_compiler_what_it_needs(tmp_path: Path) -> None:
    library()
    includes, libs = config("--includes", "--libs")
    program = tmp_path / "pool"
    source = EXAMPLES / "pool.c"
    bare("gcc", *shlex.split(includes), str(source), "-o", program, *shlex.split(libs))
    assert "4.5 3.25" in bare(program)


def test_config_tells_cmake_where_the_package_is(tmp_path: Path) -> None:
    """A version of the same series is taken, another is not."""
    library()
    (folder,) = config("--cmake-dir")
    for wanted, is_found in (("0.1", True), ("0.1.0", True), ("0.2", False), ("0.0.9", False)):
        (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.20)
project(probe LANGUAGES CXX)
find_package(cudml {wanted} CONFIG QUIET)
message(NOTICE "found ${{cudml_FOUND}}")
""")
        words = [
            "cmake",
            "-S",
            str(tmp_path),
            "-B",
            str(tmp_path / "build"),
            f"-Dcudml_DIR={folder}",
        ]
        done = subprocess.run(words, env=BARE, capture_output=True, text=True)
        assert f"found {int(is_found)}" in done.stderr, (wanted, done.stderr)


def test_pkg_config_finds_the_package(tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folder = library().parent / "pkgconfig"
    words = ["pkg-config", "--cflags", "--libs", "cudml"]
    environment = {**BARE, "PKG_CONFIG_PATH": str(folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    program = tmp_path / "pool"
    rpath = f"-Wl,-rpath,{library().parent}"
    source = str(EXAMPLES / "pool.c")
    bare("gcc", source, "-o", program, *shlex.split(done.stdout), rpath)
    assert "4.5 3.25" in bare(program)


# --- the build of the library itself ---


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[str]]:
    """How CMake compiles each source, by instruction set, in a project that has cudml inside."""
    folder = tmp_path_factory.mktemp("subproject")
    (folder / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.20)
project(whole LANGUAGES C CXX)
add_subdirectory({ROOT} cudml)
add_executable(pool {EXAMPLES / "pool.c"})
target_link_libraries(pool PRIVATE cudml::cudml)
add_executable(pool_static {EXAMPLES / "pool.c"})
target_link_libraries(pool_static PRIVATE cudml::cudml_static)
""")
    configure(folder, folder / "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCUDML_CUDA=OFF")
    entries = json.loads((folder / "build" / "compile_commands.json").read_text())
    return by_source([entry for entry in entries if str(ROOT / "csrc") in entry["file"]])


def by_source(entries: list[dict[str, str]]) -> dict[tuple[str, str], list[str]]:
    found = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        level = next((word for word in words if word.startswith("-DCUDML_ISA=")), "")
        source = Path(entry["file"]).relative_to(ROOT / "csrc").as_posix()
        assert (source, level) not in found
        found[source, level] = flags(words)
    return found


def flags(words: list[str]) -> list[str]:
    """What tells one way to compile from another; files and the compiler's name do not."""
    visible = ("-fvisibility", "-fno-semantic-interposition")  # the bindings call into the library
    ignored = ("-I", "-o", "-c", "-M", "-include", *visible)  # headers that pip precompiles
    return [word for word in words if word[0] == "-" and not word.startswith(ignored)]


def last(words: list[str]) -> str:
    """The level of optimization that counts."""
    return [word for word in words if word in ("-O1", "-O2", "-O3", "-Os")][-1]


def test_cmake_and_pip_compile_alike(
    commands: dict[tuple[str, str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sources with the same flags, for every instruction set."""
    if importlib.util.find_spec("pybind11") is None:
        pytest.skip("pybind11 is not installed")
    monkeypatch.setenv("CUDML_CUDA", "off")
    native: Any = simt_build.native_build()
    native.ninja_of("_core", "", tmp_path).write(tmp_path)
    native.write_commands(tmp_path, tmp_path / "compile_commands.json")
    entries = json.loads((tmp_path / "compile_commands.json").read_text())
    rooms = str(ROOT / "csrc")
    of_pip = by_source([entry for entry in entries if entry["file"].startswith(rooms)])
    assert len(of_pip) > 80 and of_pip.keys() == commands.keys()
    for name, words in of_pip.items():
        assert sorted(words) == sorted(commands[name]), name
        assert last(words) == last(commands[name]), name
