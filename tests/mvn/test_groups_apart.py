"""Groups of elements that stand a few apart in memory, and one group far from the next: rows of
several of their elements are summed as one, as many as the sums have room for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
import harness
from backends import CPU
from expected import expected
from pool_support import FLOATS, dtype_of

OPS: dict[str, dict[str, Any]] = {
    "mean_variance_normalization": {"return_statistics": True},
    "normalization_statistics": {},
}


def apart(groups: int, n: int, step: int, kept: int, dtype: str) -> np.ndarray:
    """{groups, n, kept}: of n packed pieces of `step` elements the first `kept`."""
    rng = np.random.default_rng([groups, n, step])
    whole = rng.standard_normal((groups, n, step)) * 2 + np.arange(groups)[:, None, None]
    return whole.astype(dtype_of(dtype))[:, :, :kept]


# Groups, elements, elements from one to the next, and of these how many belong to the group. Rows
# of 2048 bytes are summed as one where a group has eight or more of them.
SHAPES = [
    *[(9, n, 2, 1) for n in (4095, 4351, 4352, 8192, 10_007)],
    *[(16, n, 2, 1) for n in (2900, 4352)],
    *[(40, n, 3, 1) for n in (2816, 3001, 8192)],
    *[(33, n, step, 1) for n in (1500, 2500) for step in (4, 5, 8, 9)],
    *[(20, 8192, 3, 2), (17, 3000, 4, 3), (3, 9000, 2, 1), (1, 20_011, 2, 1), (20, 6000, 7, 4)],
]


@pytest.mark.decision("D-TEN-3", "D-MVN-6")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_elements_apart_are_summed_within_their_room(op: str, dtype: str) -> None:
    threads = cudml.get_num_threads()
    for groups, n, step, kept in SHAPES:
        x = apart(groups, n, step, kept, dtype)
        call = {"x": x, "axes": (1, 2), **OPS[op]}
        want = expected(op, **call)
        for count in (1, 3):
            cudml.set_num_threads(count)
            try:
                harness.run(CPU, op, call, {"x": x}, want, "C" if count == 1 else "")
            finally:
                cudml.set_num_threads(threads)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_few_groups_and_many_have_the_same_bits(dtype: str) -> None:
    """The columns beside each other are fewer where a group's elements are summed many at once."""
    for n, step in ((8192, 2), (8192, 3), (4352, 2)):
        x = apart(24, n, step, 1, dtype)
        whole = cudml.mean_variance_normalization(x, axes=(1, 2))
        for few in (slice(0, 1), slice(3, 11), slice(7, 24)):
            some = cudml.mean_variance_normalization(x[few], axes=(1, 2))
            assert some.tobytes() == whole[few].tobytes(), (n, step, few)
