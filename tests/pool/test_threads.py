"""Arrays large enough to be split among threads: right, and the same bits at every count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from harness import data
from pool_support import bits, channels_last, dtype_of, same_bits

RUNS = 20


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def plane_of(side: int) -> np.ndarray:
    return data((1, 1, side, side), "float32", seed=side)


Call = Callable[[np.ndarray], Any]
CASES: dict[str, tuple[Callable[[], np.ndarray], Call]] = {
    "average of a plane of 2048 x 2048": (
        lambda: plane_of(2048), lambda x: cudml.average_pooling(x, 2048)
    ),
    "maximum of a plane, with its index": (
        lambda: plane_of(2048), lambda x: cudml.max_pooling(x, 2048, return_indices=True)
    ),
    "norm of a plane": (lambda: plane_of(2048), lambda x: cudml.lp_pooling(x, 2048, p=3)),
    "average of a row of four million": (
        lambda: plane_of(2048).reshape(1, 1, -1), lambda x: cudml.average_pooling(x, 2**22)
    ),
    "norm of a row of four million": (
        lambda: plane_of(2048).reshape(1, 1, -1), lambda x: cudml.lp_pooling(x, 2**22)
    ),
    "few windows of half a row": (
        lambda: plane_of(2048).reshape(1, 1, -1),
        lambda x: cudml.average_pooling(x, 2**21, 2**19 + 1),
    ),
    "one plane, small windows": (
        lambda: plane_of(1536),
        lambda x: cudml.average_pooling(x, (3, 2), (2, 1), 1, 1, include_padding=True),
    ),
    "65536 small planes": (
        lambda: data((65536, 1, 6, 6), "float32", seed=1),
        lambda x: cudml.max_pooling(x, 3, 2, return_indices=True),
    ),
    "65536 planes in channels last": (
        lambda: channels_last(data((16, 4096, 6, 6), "float32", seed=1)),
        lambda x: cudml.average_pooling(x, 3, 2),
    ),
    "a volume": (
        lambda: data((1, 1, 128, 128, 150), "float32", seed=2),
        lambda x: cudml.lp_pooling(x, (2, 3, 2), 2),
    ),
    "columns of an image": (
        lambda: data((4_000_000, 3), "float16", seed=3),
        lambda x: cudml.average_pooling(x, 1000, 500, axes=0),
    ),
    "one column window over all rows": (
        lambda: data((1_000_000, 3), "float32", seed=3),
        lambda x: cudml.average_pooling(x, 1_000_000, axes=0),
    ),
    "maximum gradient of one plane": (
        lambda: plane_of(1536),
        lambda x: cudml.max_pooling_grad(x, x[:, :, 1:-1, 1:-1], 3),
    ),
    "average gradient of one plane": (
        lambda: plane_of(1536),
        lambda x: cudml.average_pooling_grad(x[:, :, 1:-1, 1:-1], x.shape, 3),
    ),
    "maximum gradient of a long row": (
        lambda: plane_of(1600).reshape(1, 1, -1),
        lambda x: cudml.max_pooling_grad(x, x[:, :, :-4], 5),
    ),
    "average gradient of one window": (
        lambda: plane_of(1),
        lambda x: cudml.average_pooling_grad(x, (1, 1, 1536, 1536), 1536),
    ),
}  # fmt: skip


def packed(result: Any) -> bytes:
    return b"".join(map(bits, result if isinstance(result, tuple) else (result,)))


@pytest.mark.decision("D-MAX-11")
@pytest.mark.parametrize("case", CASES)
def test_every_thread_count_and_run_gives_the_same_bits(case: str) -> None:
    make, call = CASES[case]
    x = make()
    cudml.set_num_threads(1)
    first = packed(call(x))
    for threads in (2, 3):
        cudml.set_num_threads(threads)
        assert packed(call(x)) == first, f"{threads} threads"
    repeats = RUNS if case.startswith(("few", "maximum gradient", "average of a plane")) else 3
    for run in range(repeats):
        assert packed(call(x)) == first, f"run {run}"


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_maximum_and_index_of_a_huge_window(threads: int, dtype: str) -> None:
    cudml.set_num_threads(threads)
    x = np.zeros((1, 1, 2048, 2048), dtype_of(dtype))
    for place in (0, 1, 2**21 - 1, 2**21, 2**22 - 1):
        flat = x.reshape(-1)
        flat[[place, 2**22 - 1]] = 3
        y, index = cudml.max_pooling(x, 2048, return_indices=True)
        assert (y.item(), index.item()) == (3, place)
        row = x.reshape(1, 1, 2**22)
        y, index = cudml.max_pooling(row, 2**22, return_indices=True)
        assert (y.item(), index.item()) == (3, place)
        assert cudml.max_pooling(row, 2**22).item() == 3
        flat[...] = 0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_first_nan_of_a_huge_window(threads: int) -> None:
    cudml.set_num_threads(threads)
    x = np.zeros((1, 1, 2048, 2048), np.float32)
    x.reshape(-1)[[2**20 + 3, 2**21 + 7, 2**22 - 2]] = np.nan
    x.reshape(-1)[5] = np.inf
    y, index = cudml.max_pooling(x, 2048, return_indices=True)
    assert np.isnan(y.item()) and index.item() == 2**20 + 3
    y = cudml.max_pooling(x, (1, 2048))
    assert np.flatnonzero(np.isnan(y)).tolist() == [512, 1024, 2047] and y[0, 0, 0, 0] == np.inf


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_exact_sums_of_huge_windows(threads: int, dtype: str) -> None:
    cudml.set_num_threads(threads)
    x = np.zeros((1, 1, 2048, 2048), dtype_of(dtype))
    x[0, 0, ::64, ::64] = 1
    x[0, 0, 2047, 2047] = -512
    assert cudml.average_pooling(x, 2048).item() == 512 * 2.0**-22
    assert cudml.lp_pooling(x, 2048, p=1).item() == 1536
    halves = cudml.average_pooling(x, (1024, 2048), (1024, 1)).ravel()
    assert (halves * 2.0**11).tolist() == [512 * 2.0**-10, 0]
    columns = cudml.lp_pooling(x, (2048, 1), p=1).ravel()
    assert columns[:2047:64].tolist() == [32] * 32 and columns[2047] == 512
    assert np.count_nonzero(columns) == 33


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_windows_over_many_planes(threads: int) -> None:
    cudml.set_num_threads(threads)
    x = data((65536, 1, 6, 6), "float32", seed=7, kind="exact")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    y, index = cudml.max_pooling(x, 3, 2, return_indices=True)
    np.testing.assert_array_equal(y, windows.max((4, 5)))
    np.testing.assert_array_equal(x.reshape(-1)[index], y)
    means = windows.sum((4, 5)) / np.float32(9)
    np.testing.assert_array_equal(cudml.average_pooling(x, 3, 2), means)
    grad = np.ones(y.shape, np.float32)
    spread = np.zeros(x.size, np.float32)
    np.add.at(spread, index.reshape(-1).astype(np.int64), 1)
    np.testing.assert_array_equal(cudml.max_pooling_grad(x, grad, 3, 2).reshape(-1), spread)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_windows_over_one_plane(threads: int) -> None:
    cudml.set_num_threads(threads)
    x = data((1, 1, 1601, 1603), "float32", seed=8, kind="exact")
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))
    y, index = cudml.max_pooling(x, (2, 3), return_indices=True)
    np.testing.assert_array_equal(y, windows.max((4, 5)))
    np.testing.assert_array_equal(x.reshape(-1)[index], y)
    np.testing.assert_array_equal(
        cudml.average_pooling(x, (2, 3)), windows.sum((4, 5)) / np.float32(6)
    )
    spread = np.zeros(x.size, np.float32)
    np.add.at(spread, index.reshape(-1).astype(np.int64), 1)
    grad = np.ones(y.shape, np.float32)
    np.testing.assert_array_equal(cudml.max_pooling_grad(x, grad, (2, 3)).reshape(-1), spread)
    shares = cudml.average_pooling_grad(grad * 6, x.shape, (2, 3))
    rows = np.minimum.reduce([np.arange(1601) + 1, 1601 - np.arange(1601), np.full(1601, 2)])
    columns = np.minimum.reduce([np.arange(1603) + 1, 1603 - np.arange(1603), np.full(1603, 3)])
    np.testing.assert_array_equal(shares[0, 0], np.outer(rows, columns))


def test_batch_of_large_images_is_each_image_alone() -> None:
    x = data((3, 1, 1200, 700), "float32", seed=9)
    for threads in (1, 3):
        cudml.set_num_threads(threads)
        for call in (
            lambda a: cudml.average_pooling(a, (600, 350), (300, 175)),
            lambda a: cudml.lp_pooling(a, (1200, 700)),
            lambda a: cudml.max_pooling_grad(a, a[:, :, ::2, ::2][:, :, :-1, :-1], 3, 2),
        ):
            assert same_bits(call(x)[1:2], call(x[1:2]))
