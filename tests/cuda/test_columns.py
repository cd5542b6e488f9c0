"""Normalization and its gradient on the CUDA kernels that take columns side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds
from expected import expected
from harness import check, data
from kernel_case import environment

OP = "mean_variance_normalization"
PACKED = ("contiguous",)


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [31, 40, 64])
def test_groups_of_more_columns_than_a_warp_has_lanes(channels: int, dtype: str) -> None:
    """Three groups of channels, the channels fastest: a lane joins one, or two."""
    x = data((2, 9, 3, channels), dtype, 1)
    scale, bias = (data((1, 1, 3, channels), dtype, k) for k in (2, 3))
    with environment(CUDML_KERNEL="mvn_columns"):
        check(OP, x, scale, bias, axes=(1, 3), layouts=PACKED)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device("simt")
@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
@pytest.mark.parametrize("kernel", ["mvn_column_tile", "mvn_columns"])
def test_statistics_of_columns_that_fill_no_block(kernel: str, seed: str) -> None:
    """In whatever order blocks come, each image's are its own."""
    x = data((3, 7, 20), "float32", 4)
    with environment(CUDML_KERNEL=kernel, CUDML_SIMT_SEED=seed):
        check(OP, x, axes=1, return_statistics=True, layouts=PACKED)


def with_gap(x: np.ndarray, gap: int) -> np.ndarray:
    """The same values with `gap` elements behind each of the first dimension's."""
    room = np.full((len(x), x[0].size + gap), 7, x.dtype)
    view = room[:, : x[0].size].reshape(x.shape)
    view[...] = x
    return view


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_images_that_begin_between_vectors(dtype: str) -> None:
    """Channels side by side in whole vectors, of which the second image's begin elsewhere."""
    x, grad = (with_gap(data((3, 9, 24), dtype, k), 3) for k in (1, 2))
    scale, bias = (data((1, 1, 24), dtype, k) for k in (3, 4))
    call: dict[str, Any] = {"x": x, "scale": scale, "bias": bias, "axes": 1}
    for kernel in ("mvn_columns", "mvn_column_tile"):
        judge(kernel, OP, **call)
    for kernel in ("mvn_grad_columns", "mvn_grad_generic"):
        judge(kernel, f"{OP}_grad", **call, grad=grad)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_totals_of_rows_that_are_no_vectors(dtype: str) -> None:
    """Nine columns, whose rows begin where vectors do: none is read beyond the last one."""
    x, grad = (with_gap(data((40, 9), dtype, k), 3) for k in (1, 2))
    scale, bias = (data((1, 9), dtype, k) for k in (3, 4))
    call = {"x": x, "grad": grad, "scale": scale, "bias": bias, "axes": 1}
    for activation in (None, "sigmoid"):
        judge("mvn_grad_row", f"{OP}_grad", **call, activation=activation)


def judge(kernel: str, op: str, **call: Any) -> None:
    """Runs it on the arrays as they lie."""
    with environment(CUDML_KERNEL=kernel):
        found = getattr(cudml, op)(**call)
    results = list(found) if isinstance(found, tuple) else [found]
    verdict = bounds.compare(results, expected(op, **call))
    assert verdict.ok, f"{kernel}: {verdict.message}"


def views(batch: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """So many times the same images of channels that lie side by side: views of a few elements."""
    sizes = (batch, *shape)
    steps = [int(np.prod(shape[a:])) * np.dtype(dtype).itemsize for a in range(len(sizes))]
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), sizes, steps)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("op", [OP, "normalization_statistics"])
@pytest.mark.parametrize("pixels", [2, 512, 2**20])
def test_large_batches_take_the_kernel_of_small_ones(pixels: int, op: str) -> None:
    """2^30 rows and more: sums in another order would have other bits."""
    kernels = set()
    for batch in (3, 2**30 // pixels + 5):
        x = views(batch, (pixels, 3), "float16")
        kernels.add(cudml.explain(op, x, axes=1, device="sm_90").kernel)
    assert len(kernels) == 1, kernels


def test_more_parts_than_a_grid_counts() -> None:
    """Of statistics of a row that is broadcast: what no memory holds."""
    for rows, kernel in ((2**21, "statistics_split"), (2**22, "statistics_generic")):
        x = np.broadcast_to(views(1, (2**24,), "float16"), (rows, 2**24))
        explained = cudml.explain("normalization_statistics", x, axes=1, device="sm_90")
        assert explained.kernel == kernel


def test_runs_longer_than_32_bits_count() -> None:
    """Two of them in each of two cells: columns are numbered inside a run in 32 bits."""
    for run, kernel in ((2**31 - 1, "mvn_grad_columns"), (2**31, "mvn_grad_generic")):
        x = views(1, (2, 2, run), "float16")[0]
        x = np.lib.stride_tricks.as_strided(x, x.shape, (6 * run, 2 * run + 2, 2))
        explained = cudml.explain(f"{OP}_grad", x, x, axes=(1, 2), device="sm_90")
        assert explained.kernel == kernel
