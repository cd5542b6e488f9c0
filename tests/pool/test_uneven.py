"""Work that does not divide evenly, positions far apart, and strides as large as pads: what loops
take for granted of usual calls."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import cudml
import harness
from backends import CPU
from expected import expected
from pool_support import dtype_of


def shuffled(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers that are exact in every type, none of them twice near each other."""
    count = int(np.prod(shape))
    numbers = np.random.default_rng(count).permutation(count) % 2039 - 1019
    return numbers.reshape(shape).astype(dtype_of(dtype))


@pytest.mark.decision("D-TEN-3", "D-GRAD-1")
@pytest.mark.parametrize("stream_bytes", ["", "0"])
@pytest.mark.parametrize(
    ("dtype", "batch"),
    [
        *(("float32", n) for n in (15_873, 15_887, 15_888, 16_385, 17_005)),
        *(("float16", n) for n in (31_745, 31_775, 33_001)),
        *(("float64", n) for n in (7937, 7940, 9003)),
    ],
)
def test_a_last_block_of_planes_of_less_than_a_vector(
    dtype: str, batch: int, stream_bytes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Max gradients of windows without overlap, planes side by side: one plane is left over."""
    if stream_bytes:
        monkeypatch.setenv("CUDML_STREAM_BYTES", stream_bytes)
    x = shuffled((4, 6, batch), dtype)
    grad = shuffled((2, 3, batch), dtype)
    call = {"x": x, "grad": grad, "window_size": 2, "strides": 2, "axes": (0, 1)}
    want = expected("max_pooling_grad", **call)
    for order in ("C", "A"):
        arrays = harness.arrays_of(call)
        harness.run(CPU, "max_pooling_grad", call, arrays, want, order)


@pytest.mark.decision("D-MAX-7")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16", "float32", "uint8"])
@pytest.mark.parametrize(
    ("channels", "window", "dilation"),
    [(512, 3, 1), (2047, 3, 1), (2048, 3, 1), (4096, 3, 1), (1500, 3, 3), (8192, 2, 3)],
)
def test_positions_of_planes_whose_dimensions_come_last_in_memory(
    dtype: str, channels: int, window: int, dilation: int
) -> None:
    """{H, W, C} of memory {C, H, W}: planes are short, and positions in them far apart."""
    x = shuffled((channels, 8, 8), dtype).transpose(1, 2, 0)
    given: dict[str, Any] = {"dilations": dilation, "axes": (0, 1), "return_indices": True}
    for index_dtype in ("uint32", "int64"):
        given["index_dtype"] = index_dtype
        call = {"x": x, "window_size": window, **given}
        want = expected("max_pooling", **call)
        harness.run(CPU, "max_pooling", call, {"x": x}, want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16"])
def test_planes_that_overlap_their_columns(dtype: str) -> None:
    """A step along the rows that is less than there are vectors of planes."""
    memory = shuffled((200_000,), dtype)
    item = memory.itemsize
    x = as_strided(memory, (4, 16_400, 136), (16_536 * item, item, item))
    for op in ("max_pooling", *(("average_pooling",) if dtype == "float16" else ())):
        y = getattr(cudml, op)(x, (2, 2), (2, 2), axes=(0, 1))
        whole = getattr(cudml, op)(x.copy(), (2, 2), (2, 2), axes=(0, 1))
        assert (y == whole).all(), op


@pytest.mark.decision("D-POOL-1")
@pytest.mark.parametrize("op", ["max_pooling", "average_pooling", "winners", "max_pooling_grad"])
@pytest.mark.parametrize("axes", [(2, 3), (1, 2)])
def test_strides_as_large_as_pads_ask_for_nothing_between(op: str, axes: Any) -> None:
    """A stride is bounded by the padded extent alone; few outputs take no time."""
    shape = (1, 1, 16_384, 300) if axes == (2, 3) else (1, 16_384, 48, 64)
    x = np.zeros(shape, np.float32)
    given: dict[str, Any] = {
        "strides": (16_384 + (1 << 30), 1), "end_padding": ((1 << 30) + 5, 0), "axes": axes,
    }  # fmt: skip
    begin = time.perf_counter()
    for window in ((1, 3), (2, 2), (3, 3)):
        if op == "max_pooling_grad":
            y = cudml.max_pooling(x, window, **given)
            assert cudml.max_pooling_grad(x, y + 1, window, **given).sum() > 0
        elif op == "winners":
            assert cudml.max_pooling(x, window, return_indices=True, **given)[1].shape[0] == 1
        else:
            assert not getattr(cudml, op)(x, window, **given).take(0, axes[0]).any()
    assert time.perf_counter() - begin < 5
