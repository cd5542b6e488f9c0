"""Pooling on the CUDA kernels where a quicker way through must not be taken, or not to its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backends
import cudml
from harness import called, check, data
from kernel_case import environment

NEAR = ("contiguous", "permuted")
# Nine taps side by side, and what only looks like them.
WINDOWS = ((3, 3), (2, 3), (4, 3), (3, 2), (1, 3, 3), (2, 3, 3), (1, 2, 3), (1, 3, 4))


@pytest.mark.device
@pytest.mark.parametrize("op", ["average_pooling", "lp_pooling"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_of_nine_taps_and_others(window: tuple[int, ...], op: str) -> None:
    """Inside a plane, over each of its borders, and across several planes."""
    n = len(window)
    sizes, strides, dilations = (4, 9, 11), (2, 1, 3), (1, 2, 1)
    start, end = (1, 0, 1), (0, 2, 1)
    how = {"strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end}
    last: Any = {k: v[-n:] for k, v in how.items()}
    x = data((2, 3, *sizes[-n:]), "float32", 1)
    with environment(CUDML_KERNEL="pool_window"):
        check(op, x, window_size=window, **last, layouts=NEAR)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
@pytest.mark.parametrize("op", ["average_pooling", "max_pooling"])
@pytest.mark.parametrize("pads", [(1, 2), (0, 3), (0, 0), (0, 1)], ids=str)
@pytest.mark.parametrize("columns", [12, 13])
def test_every_second_slice(columns: int, pads: tuple[int, int], op: str) -> None:
    """Of four, between pads that give four outputs, two or three: none is that of its own slice,
    whether rows are whole vectors or not."""
    x = data((2, 3, 4, 7, columns), "float32", 2)
    start, end = (pads[0], 1, 1), (pads[1], 0, 1)
    how = {"strides": (2, 1, 1), "start_padding": start, "end_padding": end}
    with environment(CUDML_KERNEL="pool_tile_3x3_s1"):
        check(op, x, window_size=(1, 3, 3), **how, layouts=("contiguous",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
@pytest.mark.decision("D-POOL-5", "D-MAX-1")
@pytest.mark.parametrize("before", [2**28, 2**29])
def test_slices_behind_very_long_pads(before: int) -> None:
    """The taps of a window's real planes, counted from its first one, number more than 2^31."""
    x = data((1, 2, 3, 8, 9), "float16", 5)
    how = {"strides": (1, 2, 2), "start_padding": (before, 1, 1), "end_padding": (0, 1, 1)}
    with environment(CUDML_KERNEL="pool_tile_3x3_s2"):
        check("max_pooling", x, window_size=(before + 2, 3, 3), **how, return_indices=True,
              layouts=("contiguous",))  # fmt: skip


@pytest.mark.device
@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_powers_in_large_windows(p: int) -> None:
    """72 taps, which a warp shares, or eight warps where planes lie side by side."""
    x = data((2, 3, 17, 20), "float32", p)
    with environment(CUDML_KERNEL="pool_reduce"):
        check("lp_pooling", x, (8, 9), (9, 10), p=p, start_padding=(1, 0), layouts=NEAR)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
def test_powers_beyond_the_type_in_large_windows() -> None:
    """The largest tap, then a sum: each is joined in the same shared memory."""
    x = data((2, 3, 9, 10), "float32", 6) * np.float32(1e30)
    with environment(CUDML_KERNEL="pool_reduce"):
        check("lp_pooling", x, (8, 9), (9, 10), p=3, layouts=NEAR)


@pytest.mark.device
def test_planes_in_several_chunks() -> None:
    """Six planes of twelve thousand elements, of which a block keeps 8192."""
    z = data((3, 2, 100, 120), "float16", 3)
    x, indices = cudml.max_pooling(z, 2, 2, return_indices=True)
    call = {"x": x, "indices": indices, "output_sizes": z.shape}
    want = called(backends.CPU, "max_unpooling", call)
    device = backends.current()
    sent = {k: device.to(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
    with environment(CUDML_KERNEL="unpool_near"):
        y = device.back(called(device, "max_unpooling", sent))
    assert np.array_equal(y, want)


@pytest.mark.device("simt")
@pytest.mark.parametrize("seed", ["0", "2"])
def test_more_large_windows_than_blocks_at_once(seed: str) -> None:
    """A block's next outputs are joined in the same shared memory."""
    x = np.moveaxis(data((2, 96, 96, 128), "int8", 4), -1, 1)
    want = cudml.max_pooling(x, 8, 8)
    device = backends.current()
    with environment(CUDML_KERNEL="pool_reduce", CUDML_SIMT_SEED=seed):
        call = {"x": device.to(x), "window_size": 8, "strides": 8}
        y = device.back(called(device, "max_pooling", call))
    assert np.array_equal(y, want)
