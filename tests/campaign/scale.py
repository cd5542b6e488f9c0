"""How large problems are: small ones by the thousand, or fewer that pass the loops' own limits, of
rows kept at once, of columns beside each other, of what a thread takes in a turn."""

from __future__ import annotations

import os
from dataclasses import dataclass

IS_LARGE = "CUDML_CAMPAIGN_LARGE"  # set where large problems are drawn


@dataclass(frozen=True)
class Scale:
    """What sizes are drawn from, and how many elements may come of them."""

    sizes: tuple[int, ...]  # of dimensions that something is done along
    batches: tuple[int, ...]  # of the others
    longest: dict[int, int]  # pooled dimension, by their number, most often
    work: tuple[int, ...]  # taps of all windows: most problems are small, some reach the main parts
    padded: tuple[int, ...]  # elements of a padded result
    normalized: tuple[int, ...]  # of normalization
    unpooled: tuple[int, ...]
    room: int  # bytes that an array may extend over


USUAL = Scale(
    sizes=(1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65),
    batches=(1, 1, 1, 2, 2, 3, 4, 5, 8, 9, 16, 17, 33),
    longest={1: 65, 2: 33, 3: 17},
    work=(1500, 1500, 6000, 6000, 25_000),
    padded=(2000, 2000, 9000, 60_000),
    normalized=(600, 2000, 2000, 8000),
    unpooled=(2000, 9000, 60_000),
    room=1 << 22,
)
LARGE = Scale(
    sizes=(*USUAL.sizes, 96, 257, 1000, 1025, 1280, 2049, 4097, 4999, 8193, 16_385, 40_001),
    batches=(*USUAL.batches, 40, 64, 200, 1025, 1500, 4099, 20_000),
    longest={1: 20_000, 2: 600, 3: 100},
    work=(100_000, 500_000, 1_000_000),
    padded=(100_000, 500_000, 1_000_000),
    normalized=(100_000, 400_000, 1_000_000),
    unpooled=(100_000, 1_000_000),
    room=1 << 26,
)


def scale() -> Scale:
    return LARGE if os.environ.get(IS_LARGE) else USUAL
