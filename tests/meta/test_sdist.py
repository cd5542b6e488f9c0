"""The source distribution: complete, with a description whose links lead somewhere, and built with
one clear line where what it takes is missing."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from folders import ROOT


def built(folder: Path, **variables: str) -> Path:
    """An unpacked sdist of this tree."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(folder)]
    with (ROOT / "setup.py").open() as file:  # setuptools works in a folder of the tree
        fcntl.flock(file, fcntl.LOCK_EX)
        done = subprocess.run(
            [*command, "sdist", "--dist-dir", str(folder)],
            cwd=ROOT,
            env={**os.environ, "CUDML_CUDA": "off", **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        # Releases before 3.11.4 have no filters.
        file.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        file.extractall(folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sdist"))


def test_it_holds_every_tracked_file(sdist: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0, listed.stderr
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    assert len(tracked) > 300
    missing = sorted(name for name in tracked if not (sdist / name).exists())
    assert not missing, missing


def test_it_holds_what_its_documents_link_to(sdist: Path) -> None:
    for document in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "VALIDATION.md"):
        text = (sdist / document).read_text()
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            assert "://" in target or (sdist / target).exists(), f"{document}: {target}"


def description(sdist: Path) -> tuple[str, str]:
    """The metadata's header and the description that stands on a package's page."""
    head, _, body = (sdist / "PKG-INFO").read_text().partition("\n\n")
    return head, body


def test_the_description_has_no_link_that_leads_nowhere(sdist: Path) -> None:
    """Outside the repository there is nothing beside it: without an address, names stay as text."""
    head, body = description(sdist)
    assert "Description-Content-Type: text/markdown" in head and "Project-URL" not in head
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", body)
    assert all("://" in target for target in targets), targets
    assert "VALIDATION.md says" in body and "![" not in body
    assert body.startswith("# cudml") and "CUDML_STREAM_BYTES" in body


def test_the_description_links_to_the_repository_that_is_named(tmp_path: Path) -> None:
    address = "https://code.example/cudml"
    head, body = description(built(tmp_path, CUDML_REPOSITORY_URL=f"{address}/"))
    for name in ("Source", "Documentation", "Changelog"):
        assert f"Project-URL: {name}, {address}" in head
    assert f"[VALIDATION.md]({address}/blob/main/VALIDATION.md)" in body
    assert f"({address}/raw/main/docs/images/cudml-demo.png)" in body
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", body):
        path = re.sub(rf"^{address}/(blob|raw)/main/", "", target)
        assert path != target and (ROOT / path).exists(), target


# --- what a build needs ---


def build(**variables: str) -> subprocess.CompletedProcess[str]:
    """tools/native_build.py with other variables, stopped before it compiles anything."""
    script = "import native_build; native_build.check_tools()"
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def one_line(done: subprocess.CompletedProcess[str], *fragments: str) -> None:
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("cudml: ")
    for fragment in fragments:
        assert fragment in done.stderr


def test_a_build_without_a_compiler_says_what_to_install() -> None:
    one_line(build(CXX="no-such-c++ -m64"), '"no-such-c++"', "C++20", "apt install g++", "CXX")
    assert build().returncode == 0


def test_a_build_with_a_compiler_that_is_too_old_says_so(tmp_path: Path) -> None:
    old = tmp_path / "old-c++"
    old.write_text("#!/bin/sh\necho 'unrecognized option -std=c++20' >&2\nexit 1\n")
    old.chmod(0o755)
    one_line(build(CXX=str(old)), str(old), "C++20", "GCC 11")


@pytest.mark.parametrize("name", ["pybind11", "ninja"])
def test_a_build_without_its_packages_says_what_to_install(name: str) -> None:
    script = (
        f"import sys; sys.modules[{name!r}] = None; import native_build; native_build.check_tools()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
    )
    one_line(done, name, "pip install")


def test_a_build_without_pythons_headers_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sysconfig; sysconfig.get_path = lambda *_: '/nowhere'\n"
        "import native_build; native_build.check_tools()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
    )
    one_line(done, "Python.h", "python3-dev")
