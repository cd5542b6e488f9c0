"""The command line: exit statuses, JSON, the demo, and that selfcheck detects a fault."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from cudml.__main__ import main
from cudml._cli.call import Call, measure

PICTURED = (
    "max_pooling",
    "max_pooling_grad",
    "average_pooling",
    "average_pooling_grad",
    "lp_pooling",
    "lp_pooling_grad",
    "max_unpooling",
    "padding",
    "padding_grad",
    "mean_variance_normalization",
    "mean_variance_normalization_grad",
)
IN_PHASES = (  # the photograph does without these
    "normalization_statistics",
    "merge_statistics",
    "normalize",
    "normalize_grad_sums",
    "normalize_grad",
)
CHECKED = (*PICTURED, *IN_PHASES)
needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folder = str(Path(cudml.__file__).parent.parent)
    path = os.pathsep.join(p for p in (folder, os.environ.get("PYTHONPATH")) if p)
    return subprocess.run(
        [sys.executable, "-m", "cudml", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **environment},
        timeout=120,
    )


def one_line(done: subprocess.CompletedProcess[str], *fragments: str) -> None:
    """The command could not run: status 2, one line on standard error, nothing else."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for fragment in fragments:
        assert fragment in done.stderr


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def picture(path: Path, mode: str, **options: Any) -> str:
    """A small image of smooth stripes in this mode of Pillow's."""
    from PIL import Image

    y, x = np.mgrid[:40, :56]
    waves = [120 + 100 * np.sin(x / 5 + c) * np.cos(y / 4) for c in range(4)]
    pixels = np.stack(waves, axis=-1).astype(np.uint8)
    Image.fromarray(pixels).convert(mode).save(path, **options)
    return str(path)


def test_help_and_version() -> None:
    done = command()
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("demo", "info", "selfcheck"):
        assert word in done.stdout
    done = command("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"cudml {cudml.__version__}")


@pytest.mark.parametrize(
    "words",
    [
        ["unknown"],
        ["info", "--unknown"],
        ["selfcheck", "--seed", "-1"],
        ["selfcheck", "--seed", "x"],
        ["selfcheck", "--case", "unknown"],
        ["selfcheck", "--case", "max_pooling/complex64/1"],
        ["selfcheck", "--case", "max_pooling/int8/x"],
        ["selfcheck", "--case", "max_pooling/int8/" + "9" * 5000],
        ["selfcheck", "--seed", "9" * 5000],
    ],
)
def test_what_is_not_known_exits_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: Any = main(words)
    except SystemExit as exit_:
        status = exit_.code
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert words[-1] in said.err and "_seed" not in said.err


def test_info_as_json() -> None:
    done = command("info", "--json", CUDML_NUM_THREADS="3")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["version"] == cudml.__version__
    assert facts["cuda"]["built"] in (True, False)
    assert facts["threads"] == 3
    assert facts["instruction_set"] in facts["instruction_sets"]
    assert facts["libraries"]["numpy"] == np.__version__
    assert facts["cuda"]["built"] or facts["cuda"]["why"]


def test_info_as_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    page = capsys.readouterr().out
    for word in (cudml.__version__, "instruction sets", "threads", "CUDA", "devices", "numpy"):
        assert word in page


@pytest.mark.parametrize("devices", [0, 1])
def test_info_where_cuda_is_built_in(
    devices: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"name": "GPU Z", "compute_capability": "9.0", "memory_bytes": 80 << 30}
    cuda = {
        "built": True,
        "toolkit": "12.8",
        "architectures": ["sm_80", "sm_90"],
        "why": "" if devices else "no driver",
        "devices": [row] * devices,
    }
    facts = {**cudml._core.build_info(), "cuda": cuda}
    monkeypatch.setattr(cudml._core, "build_info", lambda: facts)
    assert main(["info"]) == 0
    page = capsys.readouterr().out
    assert "toolkit 12.8" in page and "sm_80, sm_90" in page
    assert ("GPU Z" in page and "80 GiB" in page) if devices else "no GPU: no driver" in page


@pytest.mark.long
def test_selfcheck_quick_passes() -> None:
    done = command("selfcheck", "--quick")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    for family in CHECKED:
        found = [line for line in lines if re.match(rf"cpu +{family} ", line)]
        assert len(found) == 1 and re.search(r"\d+ cases .* s$", found[0]), done.stdout


def test_selfcheck_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selfcheck", "--json", "--seed", "5", "--case", "padding/uint8/7"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ok"] is True and facts["seed"] == 5
    (row,) = facts["results"]
    assert (row["backend"], row["family"], row["types"]) == ("cpu", "padding", ["uint8"])
    assert row["cases"] == 1 and row["mismatches"] == []


@pytest.mark.long
def test_selfcheck_finds_a_planted_mismatch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line it prints, run again, finds the same; without the fault the case passes."""
    right = cudml.lp_pooling

    def wrong(*args: Any, **kwargs: Any) -> Any:
        result = right(*args, **kwargs)
        result.reshape(-1)[:1] += 1
        return result

    monkeypatch.setattr(cudml, "lp_pooling", wrong)
    assert main(["selfcheck", "--quick", "--seed", "3"]) == 1
    said = capsys.readouterr().out
    assert re.search(r"cpu +lp_pooling .* MISMATCH", said)
    assert len(re.findall("MISMATCH", said)) == 1, "only the family with the fault"
    again = re.search(r"python -m cudml (selfcheck --seed 3 --case lp_pooling/\w+/\d+)", said)
    assert again, said
    assert main(again[1].split()) == 1
    assert main([*again[1].split(), "--json"]) == 1
    monkeypatch.undo()
    assert main(again[1].split()) == 0


def test_selfcheck_counts_an_exception_as_a_mismatch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("out of order")

    monkeypatch.setattr(cudml, "padding", refuses)
    assert main(["selfcheck", "--case", "padding/int64/0"]) == 1
    assert "ValueError: out of order" in capsys.readouterr().out


def test_selfcheck_without_ml_dtypes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert main(["selfcheck", "--case", "padding/int64/0"]) == 0
    assert "bfloat16 is left out: ml_dtypes is not installed" in capsys.readouterr().out


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    import io

    from cudml._cli.progress import Progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, is_shown in ((Terminal(), True), (io.StringIO(), False)):
        with Progress(2, stream) as progress:
            progress.step("padding")
        assert ("padding" in stream.getvalue()) is is_shown


@pytest.mark.long
def test_what_a_measured_call_moves() -> None:
    """Each input read once and each output written once, in the time that it takes."""
    x, scale = np.ones((2, 3, 4), np.float32), np.ones((1, 3, 1), np.float32)
    options = {"axes": 2, "return_statistics": True}
    call = Call("mean_variance_normalization", {"x": x, "scale": scale}, (), options)
    measured = measure(call, budget=0)
    assert measured.moved == 4 * (24 + 3 + 24 + 6 + 6)
    assert 0 < measured.seconds < 1
    assert measured.rate == measured.moved / measured.seconds / 1e9


@needs_matplotlib
def test_demo_on_the_photograph_that_is_there(tmp_path: Path) -> None:
    target = tmp_path / "cudml-demo.png"
    done = command("demo", "--output", str(target))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    width, height = png_size(target)
    assert width >= 1600 and height >= 1600
    lines = [line for line in done.stdout.splitlines() if " GB/s " in line]
    for family in PICTURED:
        assert any(f" {family}(" in line for line in lines), done.stdout
    for mode in ("reflection", "symmetric", '("edge", "wrap", "constant")'):
        assert any(mode in line for line in lines), done.stdout
    for line in lines:
        assert re.search(r" \d+\.\d+ ms +\d+\.\d GB/s +(exact|error \S+, .* of its bound) ", line)
    assert len({line.index(" GB/s") for line in lines}) == 1, "columns are aligned"


@needs_matplotlib
@pytest.mark.parametrize("mode", ["RGBA", "L"])
def test_demo_on_an_image_of_ones_own(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = picture(tmp_path / "own.png", mode)
    target = tmp_path / "figure.png"
    assert main(["demo", source, "--output", str(target)]) == 0
    width, height = png_size(target)
    assert width >= 1600
    said = capsys.readouterr().out
    assert said.startswith("own.png: 40x56 pixels")
    assert said.endswith(f"\n{target}: {width}x{height} pixels\n")


@needs_matplotlib
def test_images_of_every_kind_become_rgb(tmp_path: Path) -> None:
    from PIL import Image

    from cudml._cli import photo

    for mode, name in (("P", "a.gif"), ("1", "b.png"), ("CMYK", "c.jpg"), ("I;16", "d.png")):
        if mode == "I;16":
            values = np.arange(40 * 56, dtype=np.uint16).reshape(40, 56) * 29
            Image.fromarray(values).save(tmp_path / name)
        else:
            picture(tmp_path / name, mode)
        found = photo.load(str(tmp_path / name)).pixels
        assert (found.shape, found.dtype) == ((40, 56, 3), np.uint8)
        assert found.max() > 200 > 60 > found.min(), mode
    turned = Image.Exif()
    turned[0x0112] = 6  # a camera held upright
    path = picture(tmp_path / "e.jpg", "RGB", exif=turned)
    assert photo.load(path).pixels.shape == (56, 40, 3)
    Image.new("RGB", (3000, 1500)).save(tmp_path / "f.png")
    large = photo.load(str(tmp_path / "f.png"))
    assert large.pixels.shape[1] == photo.LONGEST_SIDE and "scaled down" in large.note


@needs_matplotlib
def test_demo_refuses_in_one_line(tmp_path: Path) -> None:
    one_line(command("demo", "no-such-file.png"), "no-such-file.png", "no such file")


@needs_matplotlib
def test_demo_refuses_what_it_cannot_read_or_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.jpg").touch()
    good = picture(tmp_path / "good.png", "RGB")
    whole = Path(good).read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    for name in ("text.png", "empty.jpg", "half.png", "."):
        assert main(["demo", str(tmp_path / name)]) == 2
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1 and str(tmp_path) in said.err
    nowhere = tmp_path / "nowhere"
    for target, why in (
        (tmp_path, f"{tmp_path}: is a directory; name a file for the figure\n"),
        (nowhere / "a.png", f"{nowhere / 'a.png'}: there is no folder {nowhere}\n"),
    ):
        assert main(["demo", good, "--output", str(target)]) == 2
        assert capsys.readouterr().err == f"cudml demo: {why}"


@needs_matplotlib
def test_demo_tells_of_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = picture(tmp_path / "own.png", "RGB")
    right = cudml.lp_pooling
    monkeypatch.setattr(cudml, "lp_pooling", lambda *args, **kwargs: right(*args, **kwargs) * 2)
    assert main(["demo", source, "--output", str(tmp_path / "figure.png")]) == 1
    assert "MISMATCH lp_pooling(" in capsys.readouterr().out


def test_demo_without_matplotlib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1
    assert 'pip install "cudml[demo]"' in said.err
