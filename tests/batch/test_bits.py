"""A group's bits depend on the group: slices of a batch, as views and elsewhere, and the whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import backends
import batch_normalizations
import batch_support
import cudml

DRAWS = {"cpu": 2000, "simt": 200, "cuda": 200}
OPS = {**batch_support.DRAWS, **batch_normalizations.DRAWS}
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
@pytest.mark.parametrize("op", OPS)
@pytest.mark.usefixtures("threads")
def test_slices_have_the_bits_of_the_whole(op: str) -> None:
    name = backends.current().name
    for seed in range(DRAWS[name]):
        rng = np.random.default_rng([seed, len(op)])
        draw = OPS[op](rng, most_elements(name, seed))
        found = batch_support.differing(rng, draw)
        assert not found, (seed, draw.keywords, draw.places(), found)


@pytest.mark.small
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_a_group_do_not_count_the_others(axis: int, dtype: str) -> None:
    """One group as a view of all has the bits that it has among them, also where sums are wide."""
    rng = np.random.default_rng(7)
    shape = (700, 3) if axis == 0 else (3, 700)
    x, grad = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    mean, variance = (np.expand_dims(f(x.astype("f8"), axis), axis) for f in (np.mean, np.var))
    one = (slice(None), slice(1, 2)) if axis == 0 else (slice(1, 2),)
    every = cudml.normalize_grad_sums(x, grad, mean, variance, axes=axis)
    alone = cudml.normalize_grad_sums(x[one], grad[one], mean[one], variance[one], axes=axis)
    for among, single in zip(every, alone, strict=True):
        assert batch_support.bits(single).tolist() == batch_support.bits(among[one]).tolist()


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_a_group_are_cut_alike_among_thousands(dtype: str) -> None:
    """Each takes as much workspace for its parts, however many blocks all of them keep busy."""
    room = []
    for groups in (64, 2048):
        x, given = np.broadcast_to(np.zeros(1, dtype), (groups, 65_536)), np.zeros((groups, 1))
        e = cudml.explain("normalize_grad_sums", x, x, given, given, axes=1, device="sm_90")
        room.append(e.workspace_bytes / groups)
    assert room[0] == room[1]
