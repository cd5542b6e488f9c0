"""Padding over shapes, modes, element types and memory layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
import simt_build
from harness import check, data
from pool_support import EVERY, dtype_of, same_bits

MODES = ("constant", "edge", "reflection", "symmetric", "wrap")

# What the key says: shape, pads before, pads after (outermost dimension first).
CASES: dict[str, tuple[tuple[int, ...], Any, Any]] = {
    "rank 1": ((5,), (2,), (3,)),
    "rank 2": ((3, 4), (1, 2), (3, 0)),
    "rank 3": ((2, 3, 4), (0, 1, 2), (3, 2, 1)),
    "rank 4, space only": ((2, 3, 4, 5), (0, 0, 1, 2), (0, 0, 3, 4)),
    "rank 4, everywhere": ((2, 3, 2, 5), (1, 0, 2, 3), (0, 2, 1, 4)),
    "rank 5": ((2, 1, 3, 2, 4), (1, 2, 0, 1, 2), (0, 1, 2, 3, 1)),
    "rank 6": ((2, 1, 2, 3, 1, 2), (0, 1, 1, 0, 2, 1), (1, 0, 2, 1, 0, 3)),
    "rank 7": ((1, 2, 1, 2, 2, 1, 3), (1, 0, 2, 0, 1, 1, 2), (0, 1, 0, 1, 0, 1, 1)),
    "rank 8": ((2, 1, 2, 1, 2, 1, 1, 2), (0, 1, 0, 0, 1, 0, 1, 3), (1, 0, 0, 1, 0, 1, 0, 2)),
    "before only": ((4, 3), (2, 5), (0, 0)),
    "after only": ((4, 3), (0, 0), (3, 1)),
    "inner dimension passes": ((3, 4, 5), (2, 1, 0), (1, 3, 0)),
    "outer dimensions pass": ((3, 4, 5), (0, 0, 2), (0, 0, 1)),
    "middle dimension alone": ((3, 4, 5), (0, 6, 0), (0, 2, 0)),
    "an int for every dimension": ((2, 3, 4), 2, 3),
    "pads beyond the size": ((2, 3), (5, 7), (9, 4)),
    "pads equal to the size": ((3, 2), (3, 2), (2, 3)),
    "sizes of 1": ((1, 3, 1), (2, 1, 3), (1, 2, 4)),
    "sizes of 2": ((2, 2), (3, 5), (4, 1)),
    "no pads": ((3, 4), (0, 0), (0, 0)),
    "one element": ((1,), (3,), (2,)),
    "rows longer than a vector": ((3, 67), (1, 16), (2, 35)),
    "pads longer than a vector": ((2, 5), (0, 130), (0, 77)),
}
SHORT = "pad/short_lines"
# Races depend on an element's size: ThreadSanitizer, the slowest build, takes one type of each.
ONE_OF_EACH_SIZE = ("uint8", "bfloat16", "float32", "int64")
TYPES = ONE_OF_EACH_SIZE if simt_build.VARIANT == "tsan" else EVERY
CORE = ("rank 2", "rank 3", "pads beyond the size", "sizes of 1")


def value_for(dtype: str) -> float:
    """A constant that is exact in `dtype` and in no position of the data by chance."""
    return 77 if np.issubdtype(dtype_of(dtype), np.integer) else -2.5


@pytest.mark.small
@pytest.mark.decision("D-PAD-2", "D-PAD-8", "D-PAD-13")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.core] if c in CORE else []) for c in CASES]
)
def test_every_case_mode_and_type(case: str, mode: str) -> None:
    shape, start, end = CASES[case]
    layouts = {} if case in CORE else {"layouts": ("contiguous",)}
    for seed, dtype in enumerate(TYPES):
        x = data(shape, dtype, seed, kind="special" if seed % 2 else "random")
        check("padding", x, start, end, mode=mode, value=value_for(dtype), **layouts)


def source(mode: str, i: int, n: int) -> int:
    """The modular formula: where position `i`, perhaps outside [0, n), takes its element."""
    if mode == "edge":
        return min(max(i, 0), n - 1)
    if mode == "wrap":
        return i % n
    if mode == "symmetric":
        r = i % (2 * n)
        return r if r < n else 2 * n - 1 - r
    r = i % (2 * n - 2) if n > 1 else 0
    return r if r < n else 2 * n - 2 - r


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-PAD-1", "D-PAD-2", "D-PAD-13")
@pytest.mark.bug("PAD-02")
@pytest.mark.parametrize("mode", MODES[1:])
def test_modular_formula(mode: str) -> None:
    """Every size up to 6 with every pair of pads up to 13."""
    for n in range(1, 7):
        x = np.arange(10, 10 + n, dtype=np.int32)
        line = [10 + source(mode, i, n) for i in range(-13, n + 13)]
        for start in range(14):
            for end in range(14):
                y = cudml.padding(x, start, end, mode=mode)
                assert y.tolist() == line[13 - start : 13 + n + end], (n, start, end)


@pytest.mark.small
@pytest.mark.decision("D-PAD-1")
@pytest.mark.parametrize("dtype", EVERY)
def test_reflecting_one_element_repeats_it(dtype: str) -> None:
    x = np.array([[3], [4]], dtype_of(dtype))
    y = cudml.padding(x, (0, 2), (0, 3), mode="reflection")
    assert y.dtype == x.dtype
    assert y.astype("float64").tolist() == [[3.0] * 6, [4.0] * 6]


@pytest.mark.small
@pytest.mark.decision("D-PAD-8")
@pytest.mark.parametrize("mode", MODES)
def test_no_pads_copy(mode: str) -> None:
    x = data((3, 4, 5), "float32", 1, kind="special")
    y = cudml.padding(x, 0, 0, mode=mode)
    assert same_bits(x, y)
    assert not np.shares_memory(x, y)


MIXED: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]] = {
    "video: edge in time, reflection in space": (
        (3, 2, 4, 5),
        (2, 0, 3, 6),
        (1, 0, 5, 2),
        ("edge", "constant", "reflection", "reflection"),
    ),
    "constant outside, wrap inside": ((3, 4), (2, 5), (1, 3), ("constant", "wrap")),
    "wrap outside, constant inside": ((3, 4), (2, 5), (1, 3), ("wrap", "constant")),
    "all five": (
        (2, 3, 2, 3, 2),
        (1, 4, 3, 1, 2),
        (2, 1, 2, 5, 1),
        ("wrap", "symmetric", "constant", "reflection", "edge"),
    ),
    "two constants around an edge": (
        (2, 3, 2),
        (1, 2, 3),
        (2, 1, 1),
        ("constant", "edge", "constant"),
    ),
    "rank 8": (
        (2, 1, 2, 1, 2, 1, 2, 3),
        (1, 2, 0, 1, 0, 1, 1, 4),
        (0, 1, 1, 0, 1, 0, 2, 2),
        ("edge", "wrap", "constant", "edge", "symmetric", "reflection", "wrap", "reflection"),
    ),
    "rank 1": ((3,), (4,), (5,), ("symmetric",)),
}


@pytest.mark.small
@pytest.mark.decision("D-PAD-14")
@pytest.mark.parametrize("form", [tuple, list])
@pytest.mark.parametrize("case", MIXED)
def test_mode_per_dimension(case: str, form: Any) -> None:
    shape, start, end, modes = MIXED[case]
    for seed, dtype in enumerate(("uint8", "float16", "float32", "int64")):
        x = data(shape, dtype, seed)
        check("padding", x, start, end, mode=form(modes), value=value_for(dtype))


@pytest.mark.small
@pytest.mark.decision("D-PAD-14")
def test_mixed_modes_by_hand() -> None:
    """The constant wins wherever a constant dimension is outside, corners included."""
    x = np.array([[1, 2], [3, 4]], np.int32)
    y = cudml.padding(x, (1, 1), (0, 2), mode=["constant", "reflection"], value=9)
    assert y.tolist() == [[9] * 5, [2, 1, 2, 1, 2], [4, 3, 4, 3, 4]]
    y = cudml.padding(x, (1, 1), (0, 2), mode=("edge", "constant"), value=9)
    assert y.tolist() == [[9, 1, 2, 9, 9], [9, 1, 2, 9, 9], [9, 3, 4, 9, 9]]


@pytest.mark.small
@pytest.mark.decision("D-PAD-14")
@pytest.mark.parametrize("mode", MODES)
def test_one_name_equals_that_name_everywhere(mode: str) -> None:
    x = data((2, 3, 4), "int16", 5)
    one = cudml.padding(x, (1, 2, 3), (4, 0, 5), mode=mode, value=3)
    many = cudml.padding(x, (1, 2, 3), (4, 0, 5), mode=[mode] * 3, value=3)
    assert same_bits(one, many)


@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("mode", MODES)
def test_zero_sized_kept_dimension_gives_an_empty_result(mode: str) -> None:
    x = np.empty((0, 3, 2), np.float32)
    y = cudml.padding(x, (0, 1, 2), (0, 2, 0), mode=mode)
    assert (y.shape, y.dtype) == ((0, 6, 4), x.dtype)
    out = np.empty((0, 6, 4), np.float32)
    assert cudml.padding(x, (0, 1, 2), (0, 2, 0), mode=mode, out=out) is out


@pytest.mark.small
@pytest.mark.decision("D-TEN-8")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_result_keeps_the_memory_order(order: tuple[int, ...]) -> None:
    sizes = (2, 3, 4, 5)
    packed = np.arange(120, dtype=np.float32).reshape([sizes[d] for d in order])
    x = packed.transpose(np.argsort(order))
    y = cudml.padding(x, (1, 0, 2, 0), (0, 1, 1, 3), mode="edge")
    assert y.transpose(order).flags.c_contiguous


@pytest.mark.small
def test_result_of_a_call_with_out_is_out() -> None:
    x = np.arange(3, dtype=np.int8)
    out = np.empty(6, np.int8)
    assert cudml.padding(x, 1, 2, out=out) is out
    assert out.tolist() == [0, 0, 1, 2, 0, 0]


@pytest.mark.small
def test_defaults_are_constant_zero() -> None:
    x = np.array([5.0, -0.0], np.float32)
    y = cudml.padding(x, 1, 1)
    assert y.tolist() == [0.0, 5.0, 0.0, 0.0]
    assert np.signbit(y).tolist() == [False, False, True, False]


@pytest.mark.small
@pytest.mark.parametrize("kind", [np.int8, np.uint32, np.int64])
def test_pads_are_any_object_with_index(kind: Any) -> None:
    x = np.arange(3, dtype=np.uint8)
    y = cudml.padding(x, kind(1), [kind(2)], mode="edge")
    assert y.tolist() == [0, 0, 1, 2, 2, 2]
    pads = np.array([1], kind)
    assert cudml.padding(x, pads, pads, mode="edge").tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", MODES)
def test_short_lines_under_padded_rows(rows: str, mode: str) -> None:
    """Channels that are padded, and images around them: pads of rows that are longer than these,
    too, and rows of more than one block."""
    for shape, start, end in (
        ((2, 5, 20, 3), (1, 2, 3, 0), (0, 1, 4, 1)),
        ((2, 150, 3), (0, 3, 1), (0, 0, 2)),
        ((2, 3, 3), (1, 40, 2), (0, 70, 0)),
    ):
        x = data(shape, "float16", 3)
        modes = (rows,) * (x.ndim - 1) + (mode,)
        assert cudml.explain("padding", x, start, end, mode=modes, value=7).kernel == SHORT
        check("padding", x, start, end, mode=modes, value=7)
