"""The command line where something around it is wrong: its outputs, names, folders, MPLBACKEND.

Each ends in one line on standard error and a status other than 0, and leaves no half figure.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import cudml
from cudml.__main__ import main
from tests.meta.test_cli import command, needs_matplotlib, one_line, picture, png_size

EXPLAIN = ["explain", "max_pooling", "--shape", "1,1,4,4", "window_size=2"]


def shell(line: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """The command with the shell's redirections; `cudml` stands for it."""
    folder = str(Path(cudml.__file__).parent.parent)
    path = os.pathsep.join(p for p in (folder, os.environ.get("PYTHONPATH")) if p)
    script = f'cudml() {{ "{sys.executable}" -m cudml "$@"; }}; set -o pipefail; {line}'
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=120, **more
    )


# --- arguments ---


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ([*EXPLAIN, "window_size=3"], "window_size is given twice"),
        ([*EXPLAIN, "--shape", "1,1,5,5"], "--shape is given twice"),
        ([*EXPLAIN, "--dtype=float16", "--dtype", "float32"], "--dtype is given twice"),
        ([*EXPLAIN, "x=1,1,5,5"], "'x=1,1,5,5'; --shape gives the sizes of x"),
        ([*EXPLAIN, "x"], "'x' is not NAME=VALUE with NAME one of window_size"),
        ([*EXPLAIN, "window_size"], "'window_size' is not NAME=VALUE"),
        ([*EXPLAIN, "strides"], "'strides' is not NAME=VALUE"),
        ([*EXPLAIN, "stream=0"], "'stream=0' is not NAME=VALUE"),
        ([*EXPLAIN, "q=1"], "return_indices, index_dtype, output_sizes, axes\n"),
        (["selfcheck", "--case", ""], "'' is none of max_pooling"),
        (["explain", "average_pooling_grad", "--shape", "1,1,2,2", "grad=1"], "sizes of grad"),
        (["selfcheck", "--seed", "1", "--seed", "1"], "--seed is given twice"),
        (["selfcheck", "--quick", "--quick"], "--quick is given twice"),
        (["demo", "--output", "a.png", "--output", "b.png"], "--output is given twice"),
        (["demo", "-photo.png"], "cudml demo: unrecognized arguments: -photo.png; a file of such"),
        (["demo", "a.png", "b.png"], "cudml demo: unrecognized arguments: b.png\n"),
        (["info", "more\nlines"], "cudml info: unrecognized arguments: more"),
        (["--more"], "cudml: unrecognized arguments: --more\n"),
        (["selfcheck", "--seed", "x\n"], "--seed"),
        (["explain", "pool\n", "--shape", "1"], "no operator"),
        (["explain"], "required: OPERATOR, --shape"),
    ],
)
def test_arguments_refused_in_one_line(
    words: list[str], fragment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: Any = main(words)
    except SystemExit as exit_:
        status = exit_.code
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1 and said.err.startswith("cudml") and fragment in said.err


@pytest.mark.parametrize("words", [["info"], ["config", "--libs"], EXPLAIN], ids=lambda w: w[0])
def test_a_variable_out_of_range(words: list[str]) -> None:
    """Every command says so before it does anything, by its own name."""
    done = command(*words, CUDML_THREADS="junk")
    one_line(done, f'cudml {words[0]}: CUDML_THREADS is "junk"; it must be')
    assert done.stderr.count(f"cudml {words[0]}: ") == 1


# --- where it writes ---


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "words", ["info", "--help", "--version", "selfcheck --case padding/int8/1"]
)
def test_a_full_standard_output(words: str) -> None:
    for buffer in ("unset PYTHONUNBUFFERED", "export PYTHONUNBUFFERED=1"):
        done = shell(f"{buffer}; cudml {words} > /dev/full")
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1 and "No space left" in done.stderr, done.stderr


@pytest.mark.parametrize("words", ["info", "--help", "selfcheck --case padding/int8/1"])
def test_a_closed_standard_output(words: str) -> None:
    done = shell(f"cudml {words} >&-")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "standard output" in done.stderr


@pytest.mark.parametrize("words", ["info", "--help", "selfcheck --case padding/int8/1"])
def test_a_reader_that_leaves(words: str) -> None:
    done = shell(f"cudml {words} | true")
    assert done.returncode != 0 and done.stderr == ""


def test_help_where_nothing_but_ascii_can_be_shown() -> None:
    done = command("explain", "--help", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "") and "N,N,\\u2026" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_standard_error() -> None:
    """The status is the command's, not that of an interpreter which cannot write at its end."""
    assert shell("cudml explain pool --shape 1 2> /dev/full").returncode == 2
    assert shell("cudml --nothing 2> /dev/full").returncode == 2


def test_a_closed_standard_error() -> None:
    done = shell("cudml explain pool --shape 1 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert shell("cudml selfcheck --case padding/int8/1 2>&-").returncode == 0


# --- names and folders ---


@pytest.fixture
def short_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo with one exhibit, which takes a fraction of a second."""
    from cudml._cli import gallery

    every = gallery.exhibits
    monkeypatch.setattr(gallery, "exhibits", lambda photo: itertools.islice(every(photo), 1))


NAMES = ["-фото 写真 📷", "$\\frac{x\nb.png", os.fsdecode(b"caf\xe9.png")]


@needs_matplotlib
@pytest.mark.usefixtures("short_demo")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_every_kind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """They are read, drawn and written; nothing is said on standard error."""
    picture(tmp_path / "good.png", "RGB")
    (tmp_path / "good.png").rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["demo", f"--output=of {name}", "--", name]) == 0
    assert capfd.readouterr().err == ""
    assert png_size(tmp_path / f"of {name}")[0] >= 1600
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"of {name}"])


@needs_matplotlib
def test_folders_that_cannot_be_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for root, to whom no folder is closed: the system's answer is planted."""
    good = picture(tmp_path / "good.png", "RGB")
    too_long = str(tmp_path / ("x" * 300) / "a.png")
    right = os.stat

    def closed(path: Any, *args: Any, **kwargs: Any) -> Any:
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return right(path, *args, **kwargs)

    for image, output in (
        (too_long, str(tmp_path / "a.png")),
        (good, too_long),
        (good, str(tmp_path / "closed" / "a.png")),
    ):
        monkeypatch.setattr(os, "stat", closed)
        status = main(["demo", image, "--output", output])
        monkeypatch.undo()
        said = capsys.readouterr()
        assert (status, said.out) == (2, "")
        assert len(said.err.splitlines()) == 1 and "Traceback" not in said.err
    assert os.listdir(tmp_path) == ["good.png"]


@needs_matplotlib
@pytest.mark.parametrize("name", ["there.png", "new.png", "link.png"])
def test_a_folder_that_may_not_be_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before the work: the figure is made in the folder, also where a file may be written."""
    good, closed = picture(tmp_path / "good.png", "RGB"), tmp_path / "closed"
    closed.mkdir()
    (closed / "there.png").touch()
    (tmp_path / "link.png").symlink_to(closed / "there.png")
    right = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and right(path, mode))
    target = tmp_path / name if name == "link.png" else closed / name
    assert main(["demo", good, "--output", str(target)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"cudml demo: {target}: may not be written\n")


@needs_matplotlib
def test_a_junk_backend_of_matplotlib(tmp_path: Path) -> None:
    done = command("demo", "--output", str(tmp_path / "a.png"), MPLBACKEND="junk")
    one_line(done, "cudml demo: ", "matplotlib", "junk")
    assert os.listdir(tmp_path) == []


# --- figures are whole or not there ---


@needs_matplotlib
@pytest.mark.usefixtures("short_demo")
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_no_half_figure_stays(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood there before stays, and nothing beside it."""
    from cudml._cli import demo

    good, target = picture(tmp_path / "good.png", "RGB"), tmp_path / "figure.png"
    target.write_text("before")
    right = os.replace

    def fails(*args: Any) -> None:
        assert len(os.listdir(tmp_path)) == 3  # it is written beside
        raise fault

    monkeypatch.setattr(demo.os, "replace", fails)
    assert main(["demo", good, "--output", str(target)]) in (2, 130)
    assert target.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["figure.png", "good.png"]
    monkeypatch.setattr(demo.os, "replace", right)
    assert main(["demo", good, "--output", str(target)]) == 0
    assert png_size(target)[0] >= 1600
    assert sorted(os.listdir(tmp_path)) == ["figure.png", "good.png"]


@needs_matplotlib
@pytest.mark.usefixtures("short_demo")
def test_what_is_no_plain_file_is_written_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device stays one, and a link leads where it did."""
    good = picture(tmp_path / "good.png", "RGB")
    (tmp_path / "link.png").symlink_to("real.png")
    assert main(["demo", good, "--output", str(tmp_path / "link.png")]) == 0
    assert (tmp_path / "link.png").is_symlink()
    assert png_size(tmp_path / "real.png")[0] >= 1600
    capsys.readouterr()
    if os.path.exists("/dev/full"):
        assert main(["demo", good, "--output", "/dev/full"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "No space left" in said
        assert Path("/dev/full").is_char_device()
