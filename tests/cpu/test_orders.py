"""The order in which the CPU's pooling adds a window's taps: that of all paths that may take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import cudml
from batch_support import bits, regrouped

KEPT = (0, 1)
LARGE = (364, 362)  # a window of two pieces, whichever path takes it
Both = tuple[np.ndarray, Callable[[], list[np.ndarray]]]
POOLINGS = ["average_pooling", "lp_pooling"]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def values(shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random values whose dimensions follow each other in memory as `order`, outermost first."""
    packed = np.random.default_rng(5).standard_normal([shape[d] for d in order])
    return np.moveaxis(packed.astype(dtype), range(len(shape)), order)


def path(op: str, x: np.ndarray, *args: object) -> str:
    return str(cudml.explain(op, x, *args).kernel)


LAST, APART, FIRST = (0, 2, 3, 1), (1, 3, 2, 0), (0, 1, 2, 3)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("op", POOLINGS)
@pytest.mark.parametrize(
    ("order", "batch", "whole", "alone"),
    [
        (LAST, (2, 9), "pool/side_by_side", "pool/plain"),
        (APART, (3, 7), "pool/plain", "pool/plain"),
        (FIRST, (2, 9), "pool/plain", "pool/plain"),
    ],
    ids=["channels last", "columns apart", "rows"],
)
def test_large_windows_are_cut_alike(
    op: str, order: tuple[int, ...], batch: tuple[int, int], whole: str, alone: str
) -> None:
    """Few windows, whose pieces threads share, and many, a task for each."""
    x = values((*batch, *LARGE), order, "float32")
    cudml.set_num_threads(2)
    want = bits(getattr(cudml, op)(x, LARGE))
    assert path(op, x, LARGE) == whole
    for n, c in ((0, 0), (batch[0] - 1, batch[1] - 1)):
        part = regrouped(x[n : n + 1, c : c + 1], KEPT)
        assert path(op, part, LARGE) == alone
        assert np.array_equal(bits(getattr(cudml, op)(part, LARGE)), want[n : n + 1, c : c + 1])


SHAPE = (2, 16, 12, 25)
ALIKE = {  # path: window, strides, start and end padding, order in memory
    "pool/taps": ((2, 2), 2, 0, 0, LAST),
    "pool/taps, nine": (3, 2, (1, 0), (1, 2), LAST),
    "pool/plane_thirds": (3, 1, 1, 1, FIRST),
    "pool/packed_planes": (5, 1, 2, 2, FIRST),
    "pool/fourths": ((12, 5), (1, 4), 0, 0, FIRST),
    "pool/pairs": ((12, 3), 2, (0, 1), 0, FIRST),
    "pool/strips": ((11, 3), 2, 1, 1, LAST),
    "pool/side_by_side": ((12, 25), 1, 0, 0, LAST),
}


@pytest.fixture(params=ALIKE)
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    """An array, and what gives the bits of its averages by a path and by pool/plain."""
    name = request.param.split(",")[0]
    window, strides, start, end, order = ALIKE[request.param]
    x = values(SHAPE, order, "float32")
    pads = {"start_padding": start, "end_padding": end}
    kernel = cudml.explain("average_pooling", x, window, strides, **pads)
    if kernel.kernel != name:
        assert f"not {name}, which needs that the processor has" in kernel.reason

    def averages() -> list[np.ndarray]:
        found = []
        for forced in (kernel.kernel, "pool/plain"):
            monkeypatch.setenv("CUDML_KERNEL", forced)
            found.append(bits(cudml.average_pooling(x, window, strides, **pads)))
        return found

    yield x, averages


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_a_path_adds_as_the_plain_one_does(both: Both) -> None:
    _, averages = both
    first, plain = averages()
    assert np.array_equal(first, plain)


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_sums_of_negative_zeros_are_alike(both: Both) -> None:
    """They begin at +0, whether or not a path has had padding to add."""
    x, averages = both
    x[...] = -0.0
    for found in averages():
        assert not found.any()
