"""Turns results into pictures: how numbers become colours, and which detail to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]


def _bytes(values: Array) -> Picture:
    """Clip [0, 1] and round to eight bits."""
    return np.asarray(np.clip(np.nan_to_num(values), 0.0, 1.0) * 255.0 + 0.5, np.uint8)


def _plain(values: Array) -> Picture:
    return values.astype(np.uint8) if values.dtype == np.uint8 else _bytes(values)


def _stretch(values: Array) -> Picture:
    return _bytes(values / max(float(np.percentile(values, 99.5)), 1e-30))


def _sigma(values: Array) -> Picture:
    """Two deviations below the mean are black, two above are white."""
    return _bytes(values / 4.0 + 0.5)


def _signed(values: Array) -> Picture:
    """Grey is 0; the largest two percent are white or black."""
    top = max(float(np.percentile(np.abs(values), 98.0)), 1e-30)
    return _bytes(values / (2.0 * top) + 0.5)


def _ink(values: Array) -> Picture:
    """Large values are dark, as on paper; the darkest half percent is saturated."""
    top = max(float(np.percentile(values, 99.5)), 1e-30)
    return _bytes(1.0 - np.sqrt(np.clip(values / top, 0.0, 1.0)) * 0.92)


def _widened(values: Array) -> Array:
    """Each pixel is drawn three wide, or it would vanish in print."""
    for axis in (0, 1):
        around = np.pad(values, [(1, 1) if a == axis else (0, 0) for a in range(values.ndim)])
        values = np.lib.stride_tricks.sliding_window_view(around, 3, axis=axis).max(axis=-1)
    return values


def _points(values: Array) -> Picture:
    """Single pixels on black."""
    return _plain(_widened(values))


def _heat(values: Array) -> Picture:
    """Counts from night to flame."""
    from matplotlib import colormaps

    counts = _widened(values.sum(axis=2))
    top = max(float(np.percentile(counts, 99.0)), 1e-30)
    coloured = colormaps["inferno"](np.sqrt(np.clip(counts / top, 0.0, 1.0)) * 0.96)
    return _bytes(np.asarray(coloured)[..., :3])


TONES: Mapping[str, Callable[[Array], Picture]] = {
    "plain": _plain,
    "stretch": _stretch,
    "sigma": _sigma,
    "signed": _signed,
    "points": _points,
    "ink": _ink,
    "heat": _heat,
}


def liveliest(photo: Array, rows: int, columns: int, step: int) -> tuple[int, int]:
    """Top left corner, on the grid of windows, of the rows x columns detail with most contrast.

    Contrast is weighted by nearness to the middle, a little above, where most faces are.
    """
    height, width = photo.shape[:2]
    grey = photo.mean(axis=2)
    best, corner = -1.0, (0, 0)
    for top in range(0, max(1, height - rows + 1), step):
        for left in range(0, max(1, width - columns + 1), step):
            y = (top + rows / 2) / height - 0.4
            x = (left + columns / 2) / width - 0.5
            worth = float(grey[top : top + rows, left : left + columns].std()) + 1e-3
            worth *= float(np.exp(-16.0 * (x * x + y * y)))
            if worth > best:
                best, corner = worth, (top, left)
    return corner
