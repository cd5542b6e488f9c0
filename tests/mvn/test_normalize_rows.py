"""Given statistics of packed rows, which are brought for blocks of rows: more rows than a block
has, and a last block of fewer, shared out among turns and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
import harness
from backends import CPU
from expected import expected
from pool_support import dtype_of

OP = "normalize"
PATH = "normalize/rows"
BLOCK = 1024  # rows
ROWS = (BLOCK - 1, BLOCK, BLOCK + 1, 1280, 2 * BLOCK - 3, 2 * BLOCK + 600, 4000)
LENGTHS = (16, 17, 31, 49, 300)  # 49: the last planes of many image networks


def call_of(rows: int, length: int, dtype: str, activation: Any) -> dict[str, Any]:
    """Two samples of `rows` channels, each with its own statistics, scale and bias."""
    rng = np.random.default_rng([rows, length])
    kind, shape = dtype_of(dtype), (1, rows, 1)
    return {
        "x": (rng.standard_normal((2, rows, length)) * 3).astype(kind),
        "mean": rng.standard_normal(shape),
        "variance": rng.standard_normal(shape) ** 2,
        "scale": rng.standard_normal(shape).astype(kind),
        "bias": rng.standard_normal(shape).astype(kind),
        "activation": activation,
        "epsilon": 0.01,
    }


@pytest.mark.decision("D-TEN-3")
@pytest.mark.parametrize("activation", [None, "swish", "tanh"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_no_row_beyond_the_last_block_is_written(dtype: str, activation: Any) -> None:
    """Guard bytes around `out` stay whole, and rows of the next sample are its own."""
    threads = cudml.get_num_threads()
    for rows in ROWS:
        for length in LENGTHS[:: 1 if rows in (1280, BLOCK + 1) else 2]:
            call = call_of(rows, length, dtype, activation)
            assert cudml.explain(OP, **call, device="cpu").kernel == PATH
            want = expected(OP, **call)
            for count in (1, 3):
                cudml.set_num_threads(count)
                try:
                    harness.run(CPU, OP, call, harness.arrays_of(call), want, "A")
                finally:
                    cudml.set_num_threads(threads)
