"""Results do not depend on the caller's rounding mode or on how it treats subnormals."""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says, every_operator, make, same
from cudml import directml

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the state is written as x86-64 has it"
)
libm = ctypes.CDLL("libm.so.6")
MXCSR = slice(28, 32)  # in glibc's fenv_t
STATES = {
    "up": 0x1F80 | 0x4000,
    "down": 0x1F80 | 0x2000,
    "to zero": 0x1F80 | 0x6000,
    "no subnormals": 0x1F80 | 0x8040,
    "no subnormals, down": 0x1F80 | 0x8040 | 0x2000,
}


def environment() -> ctypes.Array[ctypes.c_char]:
    now = ctypes.create_string_buffer(64)
    libm.fegetenv(now)
    return now


def control() -> int:
    """MXCSR without what was raised."""
    return int.from_bytes(environment().raw[MXCSR], "little") & 0xFFC0


@contextlib.contextmanager
def state(mxcsr: int) -> Iterator[None]:
    before, changed = environment(), environment()
    changed[MXCSR] = mxcsr.to_bytes(4, "little")
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(before)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = cudml.get_num_threads()
    cudml.set_num_threads(request.param)
    yield request.param
    cudml.set_num_threads(before)


def results(p: Any) -> list[np.ndarray]:
    y = p.run()
    return list(y) if isinstance(y, tuple) else [y]


@pytest.mark.core
@pytest.mark.bug("RUN-11")
@pytest.mark.parametrize("name", STATES)
@every_operator
def test_every_state_gives_the_same_bits(label: str, name: str, threads: int) -> None:
    p = make(label, (2, 3, 60, 70))
    want = results(p)
    with state(STATES[name]):
        assert control() == STATES[name]
        got = results(p)
        left = control()
    assert left == STATES[name], "the caller's state is not back"
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.core
@pytest.mark.bug("RUN-11")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_subnormals_are_values_like_others(dtype: str, threads: int) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = (np.arange(1, 2 * 3 * 64 * 64 + 1).reshape(2, 3, 64, 64) % 977 * tiny).astype(dtype)
    with state(STATES["no subnormals"]):
        largest = cudml.max_pooling(x, (2, 2), (2, 2))
        padded = cudml.padding(x, (0, 0, 1, 2), (0, 0, 3, 0), mode="reflection")
        average = cudml.average_pooling(x, (1, 2), (1, 2))
    blocks = x.reshape(2, 3, 32, 2, 32, 2)
    assert same(largest, blocks.max((3, 5))) and (largest > 0).any()
    assert same(padded, cudml.padding(x, (0, 0, 1, 2), (0, 0, 3, 0), mode="reflection"))
    assert same(average, cudml.average_pooling(x, (1, 2), (1, 2))) and (average > 0).any()


@pytest.mark.parametrize("name", ["up", "down"])
def test_numbers_of_a_call_are_rounded_to_nearest(name: str) -> None:
    """A padding value that float16 does not have, of the function and of a descriptor."""
    x = np.zeros((1, 1, 2, 2), "float16")

    def padded() -> list[np.ndarray]:
        tensor = lambda s: directml.BufferTensorDesc(DataType="FLOAT16", Sizes=s)  # noqa: E731
        desc = directml.PaddingOperatorDesc(
            InputTensor=tensor((1, 1, 2, 2)),
            OutputTensor=tensor((1, 1, 3, 4)),
            PaddingMode="CONSTANT",
            PaddingValue=0.1,
            StartPadding=(0, 0, 1, 0),
            EndPadding=(0, 0, 0, 2),
        )
        function = cudml.padding(x, (0, 0, 1, 0), (0, 0, 0, 2), mode="constant", value=0.1)
        return [function, cudml.Operator(desc).compile("cpu")(x)]

    want = padded()
    cudml.clear_cache()
    with state(STATES[name]):
        got = padded()
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


def test_workers_that_start_under_another_state() -> None:
    """They keep none of it: the first call of a process is made under it, the next one is not."""
    script = (
        "import ctypes, numpy as np, cudml\n"
        "libm = ctypes.CDLL('libm.so.6')\n"
        "cudml.set_num_threads(2)\n"
        "x = np.full((1, 1, 1500, 1500), 1e-40, 'f4')\n"
        "b = ctypes.create_string_buffer(64); libm.fegetenv(b)\n"
        "c = ctypes.create_string_buffer(b.raw, 64); c[28:32] = (0x9fc0).to_bytes(4, 'little')\n"
        "libm.fesetenv(c)\n"
        "y = cudml.max_pooling(x, 3, 2)\n"
        "libm.fesetenv(b)\n"
        "z = cudml.max_pooling(x, 3, 2)\n"
        "print(bool((y == x[0, 0, 0, 0]).all() and (z == x[0, 0, 0, 0]).all()))\n"
    )
    assert child_says(script) == "True"
