"""A group's bits depend on the group: slices of a batch, as views and elsewhere, and the whole."""

from __future__ import annotations

import numpy as np
import pytest

import backends
import batch_support
import cudml

DRAWS = {"cpu": 2000, "simt": 12, "cuda": 200}
MOST = {"cpu": batch_support.MOST_ELEMENTS, "simt": 1500, "cuda": batch_support.MOST_ELEMENTS}


@pytest.mark.small
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("op", batch_support.DRAWS)
def test_slices_have_the_bits_of_the_whole(op: str) -> None:
    name = backends.current().name
    for seed in range(DRAWS[name]):
        rng = np.random.default_rng([seed, len(op)])
        draw = batch_support.DRAWS[op](rng, MOST[name])
        found = batch_support.differing(rng, draw)
        assert not found, (seed, draw.keywords, {k: (a.shape, a.strides, a.dtype) for k, a in draw.arrays.items()}, found)
