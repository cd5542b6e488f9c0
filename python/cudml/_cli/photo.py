"""Reads a photograph of any kind as an {H,W,C} array of uint8 with three channels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .failure import Failure

# Beyond this many pixels on the longer side the reference, not the operators, would take minutes.
LONGEST_SIDE = 1024

_NEEDS_DEMO = 'needs matplotlib: pip install "cudml[demo]"'


@dataclass(frozen=True)
class Photo:
    """Pixels {H,W,3}, a name for the caption, and what had to be done to them, if anything."""

    pixels: npt.NDArray[np.uint8]
    name: str
    note: str = ""


def load(path: str | None) -> Photo:
    """Read the user's image, or without a path the photograph that ships with matplotlib."""
    try:
        from matplotlib import cbook
        from PIL import Image
    except ImportError:
        raise Failure(_NEEDS_DEMO) from None
    except Exception as error:  # of its own settings, as a backend that MPLBACKEND makes up
        said = " ".join(str(error).split())
        raise Failure(f"matplotlib cannot be imported ({said})") from None
    if path is None:
        path = str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return _prepare(image, Path(path).name)
    except FileNotFoundError:
        raise Failure(f"{path}: no such file") from None
    except IsADirectoryError:
        raise Failure(f"{path}: is a directory, not an image") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).split())
        raise Failure(f"{path}: cannot be read as an image ({reason})") from None


def _prepare(image: Any, name: str) -> Photo:
    from PIL import Image, ImageOps

    width, height = image.size
    if max(width, height) > LONGEST_SIDE:
        image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # JPEG decodes at a fraction of the size
    image = ImageOps.exif_transpose(image)
    if (width > height) != (image.width > image.height):
        width, height = height, width
    image = _to_rgb(image)
    note = ""
    if max(width, height) > LONGEST_SIDE:
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
        note = f"{name}: {height}x{width} pixels, scaled down to {image.height}x{image.width}"
    return Photo(np.ascontiguousarray(np.asarray(image, dtype=np.uint8)), name, note)


def _to_rgb(image: Any) -> Any:
    from PIL import Image

    if image.mode[0] in "IF":  # 16 or 32 bits per pixel: stretch what there is over 8 bits
        values = np.nan_to_num(np.asarray(image, dtype=np.float64))
        low, high = float(values.min()), float(values.max())
        scaled = (values - low) * (255.0 / (high - low) if high > low else 0.0)
        return Image.fromarray(scaled.astype(np.uint8)).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
