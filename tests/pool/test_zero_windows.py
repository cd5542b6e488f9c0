"""Windows of zeros beside windows of values whose powers underflow: behind a ReLU most of a plane
may be 0, and a sum of 0 is the norm of zeros alone (D-LP-6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
import harness
from backends import CPU
from expected import expected
from pool_support import FLOATS, dtype_of

GEOMETRIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "3x3, two apart": ((2, 3, 40, 62), {"window_size": 3, "strides": 2}),
    "3x3, padded": (
        (2, 2, 30, 45),
        {"window_size": 3, "start_padding": (1, 0), "end_padding": (0, 2)},
    ),
    "2x2, two apart": ((3, 2, 28, 66), {"window_size": 2, "strides": 2}),
    "wide": ((1, 2, 31, 90), {"window_size": (5, 17)}),
    "dilated": ((1, 2, 25, 40), {"window_size": (2, 3), "dilations": (3, 2), "strides": (2, 1)}),
    "whole planes": ((3, 70, 6, 9), {"window_size": (6, 9)}),
    "volumes": ((1, 2, 9, 14, 24), {"window_size": (2, 3, 2), "strides": (1, 2, 2)}),
}
# The p-th power of each is below the least number of its type.
SMALL = {"float16": 2.0**-24, "bfloat16": 1e-30, "float32": 1e-30, "float64": 1e-200}


def planes(shape: tuple[int, ...], dtype: str, has_small: bool) -> np.ndarray:
    """Nearly all 0, with small elements among the last ones, after many windows of zeros."""
    x = np.zeros(shape, dtype_of(dtype))
    rng = np.random.default_rng(shape)
    few = rng.random(shape) < 0.01
    x[few] = rng.standard_normal(int(few.sum())).astype(x.dtype)
    if has_small:
        tail = x.reshape(-1)[-x.size // 3 :]
        tail[tail == 0] = SMALL[dtype] * np.sign(rng.standard_normal(int((tail == 0).sum())))
    return x


@pytest.mark.decision("D-LP-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [2, 3, 6])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_norms_of_zeros_are_0_and_of_small_values_are_not(name: str, p: int, dtype: str) -> None:
    shape, windows = GEOMETRIES[name]
    threads = cudml.get_num_threads()
    for has_small in (False, True):
        x = planes(shape, dtype, has_small)
        call = {"x": x, "p": p, **windows}
        want = expected("lp_pooling", **call)
        for layout, count in (("contiguous", 1), ("permuted", 3), ("sliced", 1)):
            cudml.set_num_threads(count)
            try:
                moved = {"x": harness.LAYOUTS[layout](x)}
                harness.run(CPU, "lp_pooling", call, moved, want, "A")
            finally:
                cudml.set_num_threads(threads)
        y = cudml.lp_pooling(x, p=p, **windows)
        if has_small:
            assert y.reshape(-1)[-1] > 0


@pytest.mark.decision("D-LP-6", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_lies_in_gaps_changes_nothing(dtype: str) -> None:
    whole = np.zeros((4, 2, 30, 128), dtype_of(dtype))
    whole[:, :, ::2, 5::7] = 3
    packed = whole[..., :64].copy()
    whole[..., 64:] = SMALL[dtype]
    for strides in (1, 2):
        call = {"window_size": (1, 3), "strides": strides, "p": 2}
        y = cudml.lp_pooling(packed, **call)
        assert cudml.lp_pooling(whole[..., :64], **call).tobytes() == y.tobytes()
        assert (y == 0).any() and (y > 0).any()
