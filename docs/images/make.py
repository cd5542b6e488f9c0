"""Draws the README's figure: the demo's own, 1600 pixels wide and in a palette to keep it small.

Run it on a quiet machine, from anywhere: python docs/images/make.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from cudml.__main__ import main

DOTS_PER_INCH = 80
COLOURS = 208
# Small areas of pure colour would lose their place in the palette to the photographs.
KEPT = ("#ff3b30", "#34c759", "#0a84ff", "#e8590c", "#6d737d", "#20242b", "#fbfaf7", "#ffffff")


def in_palette(image: Image.Image) -> Image.Image:
    """The image in COLOURS colours, KEPT among them."""
    sample = Image.new("RGB", (image.width, image.height + 240))
    sample.paste(image, (0, 0))
    for number, colour in enumerate(KEPT):
        left = number * 200
        sample.paste(colour, (left, image.height, left + 200, image.height + 240))
    palette = sample.quantize(COLOURS, kmeans=4, dither=Image.Dither.NONE)
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


def draw(target: Path) -> int:
    """Run the demo at a lower resolution and write its figure to `target`."""
    save = Figure.savefig

    def smaller(self: Figure, *args: Any, **kwargs: Any) -> None:
        save(self, *args, **{**kwargs, "dpi": DOTS_PER_INCH})

    with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context({"text.hinting": "none"}):
        whole = Path(folder) / "cudml-demo.png"
        Figure.savefig = smaller  # type: ignore[method-assign]
        try:
            status = main(["demo", "--output", str(whole)])
        finally:
            Figure.savefig = save  # type: ignore[method-assign]
        if status == 0:
            with Image.open(whole) as image:
                in_palette(image.convert("RGB")).save(target, optimize=True)
    return status


if __name__ == "__main__":
    sys.exit(draw(Path(__file__).with_name("cudml-demo.png")))
