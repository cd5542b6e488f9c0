"""Draws the demo's figure: the photograph beside each result, with calls, dots and outlines."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .call import Measured
from .gallery import Exhibit
from .picture import TONES, liveliest

Array = npt.NDArray[Any]
Shown = tuple[Exhibit, Measured]

_PAPER, _INK, _GREY, _ACCENT = "#fbfaf7", "#20242b", "#6d737d", "#e8590c"
_DOTS = ("#ff3b30", "#34c759", "#0a84ff")  # the winners of red, green and blue
_DOT_AREAS = (170, 72, 18)  # square points; smaller ones lie on the larger
_MONO, _SANS = "DejaVu Sans Mono", "DejaVu Sans"

# Everything below is in pixels of the figure, the origin at its top left.
_WIDTH, _MARGIN, _GUTTER, _GAP = 2000, 56, 56, 12
_HEADER, _TITLE, _CAPTION, _FOOTER = 136, 84, 92, 36
_TALLEST = 520
_COLUMN = (_WIDTH - 2 * _MARGIN - 2 * _GUTTER) // 3
_DPI = 100


@dataclass(frozen=True)
class _Cell:
    """One exhibit in a row: how many columns it takes and the pixel size of what stands in it."""

    shown: Shown
    span: int

    @property
    def width(self) -> int:
        return self.span * _COLUMN + (self.span - 1) * _GUTTER


class _Sheet:
    """A figure that is addressed in pixels from its top left corner."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.figure = Figure(figsize=(_WIDTH / _DPI, height / _DPI), dpi=_DPI, facecolor=_PAPER)
        FigureCanvasAgg(self.figure)

    def text(self, x: float, y: float, words: str, size: float, **style: Any) -> None:
        style = {"color": _INK, "family": _SANS, "va": "top", "parse_math": False, **style}
        words = words.encode(errors="backslashreplace").decode()
        points = size * 72 / _DPI
        self.figure.text(x / _WIDTH, 1 - y / self.height, words, fontsize=points, **style)

    def image(self, x: float, y: float, width: float, height: float, pixels: Array) -> Axes:
        box = (x / _WIDTH, 1 - (y + height) / self.height, width / _WIDTH, height / self.height)
        axes = self.figure.add_axes(box)
        rows, columns = pixels.shape[:2]
        smooth = rows > height or columns > width
        axes.imshow(pixels, aspect="auto", interpolation="hanning" if smooth else "nearest")
        axes.set_axis_off()
        return axes


def drawn(
    photo: Array, shown: list[Shown], headline: tuple[str, str]
) -> tuple[bytes, tuple[int, int]]:
    """The figure as PNG, and its width and height in pixels."""
    rows = _rows(shown)
    scales = [_scale(photo, row) for row in rows]
    heights = [
        max(_extent(photo, cell.shown)[0] for cell in row) * scale
        for row, scale in zip(rows, scales, strict=True)
    ]
    total = _HEADER + round(sum(heights)) + len(rows) * (_TITLE + _CAPTION) + _FOOTER
    sheet = _Sheet(total)
    sheet.text(_MARGIN, 46, "cudml", 54, weight="bold")
    sheet.text(_MARGIN + 206, 54, headline[0], 24)
    sheet.text(_MARGIN + 206, 88, headline[1], 19, color=_GREY)
    top = float(_HEADER)
    for row, scale, height in zip(rows, scales, heights, strict=True):
        left = _MARGIN
        for cell in row:
            _draw_cell(sheet, photo, cell, left, top, height, scale)
            left += cell.width + _GUTTER
        top += _TITLE + height + _CAPTION
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # of a file's name
        sheet.figure.savefig(file, format="png", dpi=_DPI, facecolor=_PAPER)
    return file.getvalue(), (_WIDTH, total)


def _rows(shown: list[Shown]) -> list[list[_Cell]]:
    """Three columns; a result with its winners takes two, for its detail."""
    rows: list[list[_Cell]] = [[]]
    for item in shown:
        span = 2 if item[0].winners else 1
        if sum(cell.span for cell in rows[-1]) + span > 3:
            rows.append([])
        rows[-1].append(_Cell(item, span))
    return rows


def _extent(photo: Array, item: Shown) -> tuple[int, int]:
    """Height and width of a result in photograph pixels."""
    rows, columns = item[0].pixels(item[1].results[0]).shape[:2]
    return max(rows * item[0].step, photo.shape[0]), columns * item[0].step


def _scale(photo: Array, row: list[_Cell]) -> float:
    """Figure pixels per photograph pixel, one for the whole row."""
    limits = []
    for cell in row:
        tall, wide = _extent(photo, cell.shown)
        limits.append((_COLUMN - _GAP) / (photo.shape[1] + wide))
        limits.append(_TALLEST / tall)
    return float(min(limits))


def _draw_cell(
    sheet: _Sheet, photo: Array, cell: _Cell, left: float, top: float, height: float, scale: float
) -> None:
    exhibit, measured = cell.shown
    title = exhibit.call.text(width=(cell.width - 8) // 12)
    sheet.text(left, top + _TITLE - 14, title, 19.5, family=_MONO, va="bottom", linespacing=1.25)
    y = top + _TITLE
    x_height, x_width = photo.shape[0] * scale, photo.shape[1] * scale
    result = exhibit.pixels(measured.results[0])
    tall, wide = (n * exhibit.step * scale for n in result.shape[:2])
    offset = exhibit.pads[0][0] * scale if exhibit.pads else 0.0
    source = sheet.image(left, y + offset, x_width, x_height, photo)
    picture = TONES[exhibit.tone](result)
    axes = sheet.image(left + x_width + _GAP, y, wide, tall, picture)
    if exhibit.pads:
        _outline(axes, exhibit.pads[0][1], exhibit.pads[0][0], photo.shape[1], photo.shape[0])
    if exhibit.winners:
        x = left + x_width + wide + 2 * _GAP
        _detail(sheet, source, photo, cell.shown, (x, y, left + cell.width - x, x_height))
        _legend(sheet, left + cell.width, y + height + 12)
    y += height + 12
    figures = f"{measured.seconds * 1e3:.2f} ms    {measured.rate:.1f} GB/s"
    sheet.text(left, y, figures, 19, weight="bold")
    verdict = _GREY if measured.parity.ok else _ACCENT
    sheet.text(left + 250, y, measured.verdict, 19, color=verdict)
    sheet.text(left, y + 28, exhibit.remark, 18, color=_GREY)


def _outline(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    style: dict[str, Any] = {"fill": False, "linewidth": 1.8}
    axes.add_patch(Rectangle((x - 0.5, y - 0.5), width, height, edgecolor=_ACCENT, **style))


def _detail(
    sheet: _Sheet,
    source: Axes,
    photo: Array,
    item: Shown,
    box: tuple[float, float, float, float],
) -> None:
    """A few windows enlarged, their grid, and a dot per channel on the pixel that won."""
    step, (_, indices) = item[0].step, item[1].results[:2]
    x, y, width, height = box
    down = min(5, indices.shape[0])
    zoom = height / (down * step)
    across = min(math.ceil(width / (step * zoom)), indices.shape[1])
    width = min(width, across * step * zoom)
    top, left = liveliest(photo[: indices.shape[0] * step], down * step, across * step, step)
    crop = photo[top : top + down * step, left : left + across * step]
    axes = sheet.image(x, y, width, height, crop)
    axes.set_xlim(-0.5, width / zoom - 0.5)
    axes.set_ylim(down * step - 0.5, -0.5)
    _outline(source, left, top, width / zoom, down * step)
    for line in range(1, across):
        axes.axvline(line * step - 0.5, color="white", alpha=0.55, linewidth=0.9)
    for line in range(1, down):
        axes.axhline(line * step - 0.5, color="white", alpha=0.55, linewidth=0.9)
    chosen = indices[top // step : top // step + down, left // step : left // step + across]
    rows, columns, channels = np.unravel_index(chosen, photo.shape)
    for channel, (colour, size) in enumerate(zip(_DOTS, _DOT_AREAS, strict=True)):
        at = channels == channel
        axes.scatter(
            columns[at] - left, rows[at] - top, s=size, c=colour, edgecolors="white", linewidths=0.8
        )


def _legend(sheet: _Sheet, right: float, y: float) -> None:
    """What the dots mean, ending at ``right``."""
    x = right - 336
    sheet.text(x, y, "winners of", 18, color=_GREY)
    x += 112
    for colour, word, width in zip(_DOTS, ("red", "green", "blue"), (66, 84, 60), strict=True):
        sheet.text(x, y - 1, "\N{BLACK CIRCLE}", 18, color=colour)
        sheet.text(x + 20, y, word, 18, color=_GREY)
        x += width + 8
