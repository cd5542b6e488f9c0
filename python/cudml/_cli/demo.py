"""``python -m cudml demo``: every operator family on a photograph, a line each, and a figure."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import cudml
from cudml import _core

from . import gallery, photo
from .call import Measured, measure
from .failure import Failure
from .progress import Progress


def run(image: str | None, output: str) -> int:
    """Run, compare, print and draw; 1 if any result is not what the reference says."""
    picture = photo.load(image)
    target = _writable(output)
    if picture.note:
        print(picture.note)
    height, width = picture.pixels.shape[:2]
    print(f"{picture.name}: {height}x{width} pixels, {_machine()}")
    shown, size = _perform(picture, target)
    measured = [item[1] for item in shown]
    print("\n".join(_table(measured)))
    wrong = [m for m in measured if not m.parity.ok]
    for m in wrong:
        print(f"MISMATCH {m.call.text()}: {m.parity.message}")
    print(f"{target}: {size[0]}x{size[1]} pixels")
    return 1 if wrong else 0


def _perform(
    picture: photo.Photo, target: Path
) -> tuple[list[tuple[gallery.Exhibit, Measured]], tuple[int, int]]:
    """Every exhibit with what was measured, and the size of the figure they were drawn into."""
    from . import figure  # matplotlib takes a while to import: not before the image was read

    exhibits = list(gallery.exhibits(picture.pixels))
    shown = []
    with Progress(len(exhibits) + 1) as progress:
        for exhibit in exhibits:
            progress.step(exhibit.call.name)
            shown.append((exhibit, measure(exhibit.call)))
        progress.step("figure")
        height, width = picture.pixels.shape[:2]
        name = picture.name if len(picture.name) <= 60 else picture.name[:57] + "..."
        title = (
            f"Every operator on one photograph: {name}, {height} \N{MULTIPLICATION SIGN} {width}"
        )
        under = (
            f"version {cudml.__version__}, {_machine()}; each result compared with the reference"
        )
        png, size = figure.drawn(picture.pixels, shown, (title, under))
        try:
            _write(target, png)
        except OSError as error:
            raise _unwritable(str(target), error) from None
    return shown, size


def _writable(output: str) -> Path:
    """The figure's path, refused before the work begins rather than after it."""
    path = Path(output)
    try:
        if path.is_dir():
            raise Failure(f"{output}: is a directory; name a file for the figure")
        if not path.parent.is_dir():
            raise Failure(f"{output}: there is no folder {path.parent}")
        needed = [path] if path.exists() else []
        if not _is_device(path):
            needed.append(_place(path).parent)
        if not all(os.access(part, os.W_OK) for part in needed):
            raise Failure(f"{output}: may not be written")
    except OSError as error:  # a folder that may not be entered, a name that is too long
        raise _unwritable(output, error) from None
    return path


def _unwritable(output: str, error: OSError) -> Failure:
    return Failure(f"{output}: cannot be written ({error.strerror or error})")


def _is_device(path: Path) -> bool:
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


def _place(path: Path) -> Path:
    """Where a link leads; the figure is made in that folder."""
    return Path(os.path.realpath(path))


def _write(target: Path, data: bytes) -> None:
    """Write the whole file or none: beside its place, and then there in one step.

    A device is written where it is, and a link is followed.
    """
    if _is_device(target):
        target.write_bytes(data)
        return
    place = _place(target)
    beside = place.with_name(f".cudml-{os.getpid()}.png")
    try:
        beside.write_bytes(data)
        os.replace(beside, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def _machine() -> str:
    threads = cudml.get_num_threads()
    plural = "" if threads == 1 else "s"
    return f"CPU, {_core.build_info()['instruction_set']} instructions, {threads} thread{plural}"


def _table(rows: list[Measured]) -> list[str]:
    """One aligned line per call: shapes, milliseconds, gigabytes per second, error and the call."""
    columns = [
        [row.shapes for row in rows],
        [f"{row.seconds * 1e3:.2f} ms" for row in rows],
        [f"{row.rate:.1f} GB/s" for row in rows],
        [row.verdict for row in rows],
    ]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row, shapes, time, rate, verdict in zip(rows, *columns, strict=True):
        figures = f"{time:>{widths[1]}}  {rate:>{widths[2]}}  {verdict:<{widths[3]}}"
        lines.append(f"{shapes:<{widths[0]}}  {figures}  {row.call.text()}")
    return lines
