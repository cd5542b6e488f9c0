"""A group's bits depend on the group: slices of a batch, as views and elsewhere, and the whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import backends
import batch_support
import cudml

DRAWS = {"cpu": 2000, "simt": 200, "cuda": 200}
SMALL = 1500  # elements of a tensor that the kernels' interpreter takes in no time
EVERY = 25  # draws, one of which is as large as several threads and cuts of long groups ask for


@pytest.fixture
def threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def most_elements(name: str, seed: int) -> int:
    if name == "simt":
        return SMALL if seed % EVERY else 8 * SMALL
    return batch_support.MOST_ELEMENTS * (1 if seed % EVERY else 8)


@pytest.mark.small
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("op", batch_support.DRAWS)
@pytest.mark.usefixtures("threads")
def test_slices_have_the_bits_of_the_whole(op: str) -> None:
    name = backends.current().name
    for seed in range(DRAWS[name]):
        rng = np.random.default_rng([seed, len(op)])
        draw = batch_support.DRAWS[op](rng, most_elements(name, seed))
        found = batch_support.differing(rng, draw)
        assert not found, (seed, draw.keywords, draw.places(), found)
