"""Max pooling with indices over planes that lie side by side, a vector of them or more, and over
short ones that are put side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import DTYPES, FLOATS, check, data
from layouts import BFLOAT16, dtype_of
from tests.pool.test_grad_turned import GEOMETRIES, short_rows_before

PATH, TURNED = "winners/lane_taps", "winners/turned"
INDICES = ("uint32", "uint64", "int64")
# At least a vector of any type, whole ones, one with one more plane, and several tasks.
LANES = [(2, 64), (1, 128), (3, 65), (1, 1030)]
WINDOWS = (
    *GEOMETRIES,
    ((2, 3, 4), {"window_size": (2, 3, 2), "strides": (1, 2, 3), "start_padding": (1, 2, 0)}),
    ((9, 8), {"window_size": (7, 6), "strides": (2, 1), "start_padding": (5, 0)}),
    ((4, 3), {"window_size": (4, 3)}),
    ((3, 2), {"window_size": 1, "strides": (1, 2), "start_padding": 2, "end_padding": (0, 3)}),
)  # fmt: skip


def side_by_side(x: np.ndarray, gap: int = 0) -> np.ndarray:
    """The same values in {N, spatial.., C} memory, with `gap` poisoned elements behind each C."""
    n, c, *sizes = x.shape
    memory = np.full((n, *sizes, c + gap), 99, x.dtype)
    view = np.moveaxis(memory[..., :c], -1, 1)
    view[...] = x
    return view


def found_one_by_one(x: np.ndarray, how: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Each plane by itself, in which no planes lie side by side; indices of the whole (D-MAX-1)."""
    n, c, *sizes = x.shape
    values, places = [], []
    for k, plane in enumerate(np.ascontiguousarray(x).reshape(n * c, *sizes)):
        y, i = cudml.max_pooling(plane[None, None], **how, return_indices=True, index_dtype="int64")
        values.append(y)
        places.append(np.where(i < 0, i, i + k * int(np.prod(sizes))))
    shape = (n, c, *values[0].shape[2:])
    return np.concatenate(values).reshape(shape), np.concatenate(places).reshape(shape)


def takes(dtype: str) -> bool:
    """Whether vectors are wide enough for the paths: 16 bytes are for 16-bit floats alone."""
    wide = cudml._core.build_info()["instruction_set"] in ("v3", "v4")
    return wide or dtype in ("float16", "bfloat16")


def path_of(x: np.ndarray, how: dict[str, Any], index_dtype: str) -> str | None:
    more = {"return_indices": True, "index_dtype": index_dtype, "device": "cpu"}
    return cudml.explain("max_pooling", x, **how, **more).kernel


def assert_winners(x: np.ndarray, how: dict[str, Any], index_dtype: str, gap: int) -> bool:
    """By bits those of planes one by one, written with gaps between the lanes' rows; whether the
    path took them."""
    want, places = found_one_by_one(x, how)
    y = side_by_side(np.full_like(want, 77), gap)
    index = side_by_side(np.full(want.shape, 77, index_dtype), gap)
    out = (y, index)
    cudml.max_pooling(x, **how, return_indices=True, index_dtype=index_dtype, out=out)
    assert y.copy("C").tobytes() == want.tobytes(), (x.shape, how, index_dtype)
    assert np.array_equal(index, places.astype(index_dtype)), (x.shape, how, index_dtype)
    for written in out:
        if written.base is not None and gap and written.size:
            assert (np.moveaxis(written.base, -1, 0)[-gap:] == 99).all(), "between the planes"
    return path_of(x, how, index_dtype) == PATH


@pytest.mark.core
@pytest.mark.decision("D-MAX-1", "D-MAX-2", "D-MAX-7", "D-TEN-9")
@pytest.mark.parametrize("lanes", LANES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES["max_pooling"])
def test_winners_of_neighbouring_planes(dtype: str, lanes: tuple[int, int]) -> None:
    """As the reference says, and by bits as planes one by one, wherever the results stand."""
    taken = 0
    for k, (sizes, how) in enumerate(WINDOWS):
        x = side_by_side(data((*lanes, *sizes), dtype, k), gap=k % 3)
        if lanes[1] < 1000:
            check(
                "max_pooling", x, **how, return_indices=True, layouts=("contiguous",), backend=CPU
            )
        taken += assert_winners(x, how, INDICES[k % 3], gap=k % 4)
    assert taken >= (10 if takes(dtype) else 0)


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-4", "D-MAX-5", "D-MAX-6")
@pytest.mark.parametrize("dtype", FLOATS)
def test_ties_zeros_and_nans_of_neighbours(dtype: str) -> None:
    """The first of equal taps, of zeros of either sign and of NaNs, whose bits are kept; windows of
    padding alone have no index."""
    numbers = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    kinds = (numbers, numbers[1:2], numbers[3:5], numbers[[0, 1]], numbers[3:])
    for k, (sizes, how) in enumerate(WINDOWS):
        for values in kinds:
            x = np.random.default_rng(k).choice(values, (2, 67, *sizes)).astype(dtype_of(dtype))
            mark_nans(x)
            assert_winners(side_by_side(x), how, INDICES[k % 3], gap=1)


def mark_nans(x: np.ndarray) -> None:
    """Gives every NaN another payload and sign, quiet ones and signalling ones."""
    bits = x.view(f"u{x.itemsize}")
    exponent = bits.dtype.type({2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}[x.itemsize])
    if x.dtype == BFLOAT16:
        exponent = bits.dtype.type(0x7F80)
    nans = np.isnan(x.astype(np.float64))
    count = int(nans.sum())
    payloads = (np.arange(count) % 63 + 1).astype(bits.dtype)
    signs = (np.arange(count) % 2).astype(bits.dtype) << bits.dtype.type(8 * x.itemsize - 1)
    bits[nans] = exponent | payloads | signs


@pytest.mark.core
@pytest.mark.decision("D-MAX-1", "D-MAX-2", "D-MAX-3", "D-MAX-4", "D-TEN-9")
@pytest.mark.parametrize("planes", [(4, 8), (3, 11), (1, 67), (2, 150)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES["max_pooling"])
def test_winners_of_short_planes(dtype: str, planes: tuple[int, int]) -> None:
    """The same of planes that follow each other, with gaps or without, also where one is NaN."""
    taken = 0
    for k, (sizes, how) in enumerate(WINDOWS):
        x = data((*planes, *sizes), dtype, k)
        if dtype in FLOATS:
            x[0, 3] = np.nan
        index_dtype = INDICES[k % 3]
        more = {"return_indices": True, "index_dtype": index_dtype}
        check("max_pooling", x, **how, **more, layouts=("contiguous",), backend=CPU)
        want, places = found_one_by_one(x, how)
        y = short_rows_before(np.full_like(want, 77))
        index = short_rows_before(np.full(want.shape, 77, index_dtype))
        cudml.max_pooling(short_rows_before(x), **how, **more, out=(y, index))
        assert y.copy("C").tobytes() == want.tobytes(), (x.shape, how)
        assert np.array_equal(index, places.astype(index_dtype)), (x.shape, how)
        taken += path_of(x, how, index_dtype) == TURNED
    assert taken >= (4 if takes(dtype) else 0)


@pytest.mark.core
@pytest.mark.decision("D-MAX-10")
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_that_find_winners_first(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only indices are wanted, for both memory orders."""
    for k, (sizes, how) in enumerate(WINDOWS):
        packed = data((2, 67, *sizes), dtype, k)
        for x in (packed, side_by_side(packed)):
            grad = data(cudml.max_pooling(x, **how).shape, dtype, k + 1)
            monkeypatch.delenv("CUDML_KERNEL", raising=False)
            want = cudml.max_pooling_grad(x, grad, **how)
            monkeypatch.setenv("CUDML_KERNEL", "pool_grad/max_scatter")
            got = cudml.max_pooling_grad(x, grad, **how)
            assert got.copy("C").tobytes() == want.copy("C").tobytes(), (x.shape, how)


MANY = """
from tests.pool import test_lane_winners
test_lane_winners.run_many()
print("done")
"""


def run_many() -> None:
    for k, (sizes, how) in enumerate(WINDOWS):
        for dtype in ("float16", "float32", "int8", "float64"):
            x = side_by_side(data((2, 70, *sizes), dtype, k))
            for index_dtype in INDICES[:2]:
                assert_winners(x, how, index_dtype, gap=k % 2)
            assert_winners(x.copy("C"), how, INDICES[k % 3], gap=0)


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000"])
def test_several_threads_and_stores_past_the_caches(limit: str) -> None:
    """Results are the same, and nothing else is written, whichever way they are."""
    assert child_says(MANY, CUDML_NUM_THREADS="3", CUDML_STREAM_BYTES=limit, limit=180) == "done"
