"""Padding cases that broke other libraries, one test for each row of the table."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import backends
import cudml
from harness import check, refused
from pool_support import EVERY, LIMIT, bits, dtype_of, same_bits, sparse, strided

MODES = ("constant", "edge", "reflection", "symmetric", "wrap")


def line(values: Any, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype_of(dtype))


@pytest.mark.small
@pytest.mark.bug("PAD-01")
@pytest.mark.decision("D-PAD-13")
@pytest.mark.parametrize("dtype", EVERY)
def test_reflection_beyond_the_size(dtype: str) -> None:
    y = cudml.padding(line([1, 2, 3], dtype), 5, 7, mode="reflection")
    assert same_bits(y, line([2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2], dtype))
    y = cudml.padding(line([1, 2], dtype), [0], [5], mode="reflection")
    assert same_bits(y, line([1, 2, 1, 2, 1, 2, 1], dtype))


@pytest.mark.small
@pytest.mark.bug("PAD-02")
def test_both_sides_with_several_folds() -> None:
    y = cudml.padding(line([1, 2, 3]), 1, 8, mode="reflection")
    assert y.tolist() == [2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3]
    y = cudml.padding(line([1, 2]), 1, 8, mode="symmetric")
    assert y.tolist() == [1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2]


@pytest.mark.bug("PAD-03")
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("mode", MODES)
def test_one_element_and_none(mode: str) -> None:
    if mode != "constant":
        assert cudml.padding(line([5]), 2, 3, mode=mode).tolist() == [5.0] * 6
    with refused(ValueError, "padding", "InputTensor.Sizes[0] is 0"):
        cudml.padding(line([]), 2, 3, mode=mode)
    with refused(ValueError, "padding", "InputTensor.Sizes[1] is 0"):
        cudml.padding(np.empty((2, 0), np.int8), (0, 0), (0, 1), mode=mode)


# Columns and rows of the input that the published examples show, for pads 1, 2 and 3, 4.
PUBLISHED = {
    "edge": ([0, 0, 0, 1, 2, 3, 3, 3, 3, 3], [0, 0, 1, 2, 3, 3, 3, 3]),
    "reflection": ([2, 1, 0, 1, 2, 3, 2, 1, 0, 1], [1, 0, 1, 2, 3, 2, 1, 0]),
    "symmetric": ([1, 0, 0, 1, 2, 3, 3, 2, 1, 0], [0, 0, 1, 2, 3, 3, 2, 1]),
    "wrap": ([2, 3, 0, 1, 2, 3, 0, 1, 2, 3], [3, 0, 1, 2, 3, 0, 1, 2]),
}


@pytest.mark.small
@pytest.mark.bug("PAD-04")
@pytest.mark.parametrize("dtype", EVERY)
def test_published_examples_in_every_type(dtype: str) -> None:
    x = line([[1, 2, 3, 4], [5, 6, 7, 8]] * 2, dtype)[None, None]
    pads = (0, 0, 1, 2), (0, 0, 3, 4)
    for mode, (columns, rows) in PUBLISHED.items():
        want = x[:, :, rows][..., columns]
        assert same_bits(cudml.padding(x, *pads, mode=mode), want), mode
    want = np.full((1, 1, 8, 10), 9, x.dtype)
    want[:, :, 1:5, 2:6] = x
    assert same_bits(cudml.padding(x, *pads, value=9), want)


# Where a position outside [0, n) takes its element, for a pad of 1 and n > 1.
BEFORE = {"edge": 0, "reflection": 1, "symmetric": 0, "wrap": -1}
AFTER = {"edge": -1, "reflection": -2, "symmetric": -1, "wrap": 0}


def padded_by_one(x: np.ndarray, mode: str) -> np.ndarray:
    """Pads of 1 on every side, by concatenation."""
    for d, n in enumerate(x.shape):
        if mode == "constant":
            first = last = np.zeros_like(x.take([0], d))
        else:
            first, last = (x.take([p if n > 1 else 0], d) for p in (BEFORE[mode], AFTER[mode] % n))
        x = np.concatenate([first, x, last], d)
    return x


@pytest.mark.bug("PAD-05")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(65536, 2), (1, 65540, 2), (65536, 1, 2), (100000, 10)], ids=str)
def test_many_planes(shape: tuple[int, ...], mode: str) -> None:
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    assert same_bits(cudml.padding(x, 1, 1, mode=mode), padded_by_one(x, mode))


@pytest.mark.small
@pytest.mark.bug("PAD-08")
def test_corners_of_a_two_axis_constant() -> None:
    y = cudml.padding(np.ones((2, 3), np.int32), (1, 2), (2, 1), value=7)
    inside = np.zeros((5, 6), bool)
    inside[1:3, 2:5] = True
    assert (y[inside] == 1).all()
    assert (y[~inside] == 7).all()


@pytest.mark.bug("PAD-09")
@pytest.mark.decision("D-PAD-9")
@pytest.mark.parametrize("mode", MODES)
def test_negative_pads_are_refused(mode: str) -> None:
    x, out = np.arange(12.0).reshape(3, 4), np.full((3, 4), 5.0)
    for pad in (-1, -(2**32), -(2**64)):
        with refused(ValueError, "padding", "StartPadding[1]", str(pad), "slic"):
            cudml.padding(x, (0, pad), (0, 1), mode=mode, out=out)
        with refused(ValueError, "padding", "EndPadding[0]", str(pad), "slic"):
            cudml.padding(x, (1, 0), (pad, 0), mode=mode, out=out)
        with refused(ValueError, "padding", "StartPadding", str(pad)):
            cudml.padding(x, pad, 0, mode=mode)
    assert (out == 5).all()


@pytest.mark.bug("PAD-10")
@pytest.mark.decision("D-PAD-10")
@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_overflow(mode: str) -> None:
    x = np.ones((2, 2), np.uint8)
    for start, end in (
        (LIMIT, LIMIT),
        ((0, LIMIT), 0),
        (0, (0, LIMIT - 1)),
        ((0, 2**31), (0, 2**31 - 2)),
        ((0, 2**31), (0, 2**31)),
    ):
        with refused(ValueError, "padding", "4294967295"):
            cudml.padding(x, start, end, mode=mode)
    for pad in (1250999900000, 2**32, 2**64, 10**40):
        with refused(ValueError, "padding", "StartPadding", str(pad), "4294967295"):
            cudml.padding(x, (0, pad), 0, mode=mode)


PATTERNS = {
    "float16": ("u2", [0x7C01, 0xFC01, 0x7E55, 0x8000, 0x0001, 0x7C00]),
    "bfloat16": ("u2", [0x7F81, 0xFF81, 0x7FD5, 0x8000, 0x0001, 0x7F80]),
    "float32": ("u4", [0x7F800001, 0xFF800001, 0x7FC12345, 0x80000000, 1, 0x7F800000]),
    "float64": ("u8", [0x7FF0000000000001, 0xFFF8 << 48 | 77, 1 << 63, 1, 0x7FF << 52, 3]),
}


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("PAD-11")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", PATTERNS)
def test_bits_are_copied(dtype: str, mode: str) -> None:
    """Signalling NaN, payloads, -0 and subnormal numbers in short rows and in long ones."""
    unsigned, patterns = PATTERNS[dtype]
    for repeats in (1, 50):
        x = np.array(patterns * repeats, unsigned)
        y = cudml.padding(x.view(dtype_of(dtype)), 9, 5, mode=mode)
        assert same_bits(y.view(unsigned), cudml.padding(x, 9, 5, mode=mode))
        check("padding", x.view(dtype_of(dtype)), 9, 5, mode=mode)


@pytest.mark.small
@pytest.mark.bug("PAD-12")
@pytest.mark.parametrize("mode", MODES)
def test_rank_limits(mode: str) -> None:
    x = np.arange(256, dtype=np.int16).reshape((2,) * 8)
    start, end = (0, 1, 2, 0, 1, 0, 1, 3), (1, 0, 0, 2, 0, 1, 2, 1)
    check("padding", x, start, end, mode=mode)
    check("padding", x.ravel(), 3, 4, mode=mode)
    for rank in (0, 9, 32):
        with refused(ValueError, "padding", "DimensionCount", str(rank)):
            cudml.padding(np.ones((1,) * rank, np.int16), 1, 1, mode=mode)


def legal(size: int, start: int, end: int, mode: str) -> bool:
    """The second opinion: whether a row of `size` may be padded so."""
    for pad in (start, end):
        if pad < 0 or pad > LIMIT:
            return False
    if size == 0 and (start or end):
        return False
    return mode in MODES and size + start + end <= LIMIT


@pytest.mark.small
@pytest.mark.bug("PAD-13")
@pytest.mark.decision("D-PAD-9", "D-PAD-10", "D-PAD-11", "D-TEN-4")
def test_table_of_refusals() -> None:
    """Every small combination, for each of two dimensions, against an independent predicate."""
    sizes, pads = (0, 1, 3), (-1, 0, 1, 4, LIMIT, LIMIT + 1)
    modes = (*MODES, "mirror", "", "CONSTANT", "reflect")
    for size, start, end, mode in itertools.product(sizes, pads, pads, modes):
        for d in (0, 1):
            x = np.ones((size, 2) if d == 0 else (2, size), np.int8)
            pair = ((start, 0), (end, 0)) if d == 0 else ((0, start), (0, end))
            if legal(size, start, end, mode):
                grown = cudml.padding(x, *pair, mode=mode).shape
                assert grown[d] == size + start + end
                assert grown[1 - d] == 2
            else:
                with refused(ValueError, "padding"):
                    cudml.padding(x, *pair, mode=mode)


@pytest.mark.small
@pytest.mark.bug("PAD-14")
@pytest.mark.parametrize("mode", ["constant", "reflection"])
@pytest.mark.parametrize("dtype", EVERY)
def test_tails_and_misaligned_rows(dtype: str, mode: str) -> None:
    """Rows of 1 to 40 elements at every offset within 16 bytes, dense and one element apart.

    Where kernels are interpreted, distances take turns: every two of the three meet.
    """
    kind = dtype_of(dtype)
    is_slow = backends.current() is backends.SIMT
    raw = np.arange(1, 4001, dtype=np.uint8).astype(np.uint8).repeat(4).view(kind)
    guard = np.full(400, 0xEE, np.uint8).repeat(kind.itemsize).view(kind)
    for n, base, gap in itertools.product(range(1, 41), range(16 // kind.itemsize), (-1, 0, 1)):
        if is_slow and (n + base + gap) % 3:
            continue
        x = strided(raw[base:], (3, n), (max(n + gap, 1), 1))
        out = strided(guard[base:], (3, n + 3), (n + 3 + max(gap, 0), 1))
        cudml.padding(x, (0, 1), (0, 2), mode=mode, out=out)
        want = cudml.padding(x.copy(), (0, 1), (0, 2), mode=mode)
        assert bits(out) == bits(want), (n, base, gap)
        assert bits(want[:, 1:-2]) == bits(x), (n, base, gap)
        assert (guard[:base].view(np.uint8) == 0xEE).all()
        assert (guard[base + 3 * (n + 4) :].view(np.uint8) == 0xEE).all()
        if gap > 0:
            between = strided(guard[base + n + 3 :], (2, 1), (n + 4, 1))
            assert set(bits(between)) == {0xEE}, (n, base)
        guard.view(np.uint8)[:] = 0xEE


@pytest.mark.small
@pytest.mark.bug("IDX-02")
@pytest.mark.decision("D-TEN-6")
@pytest.mark.parametrize("mode", MODES)
def test_output_offsets_above_two_to_the_31(mode: str) -> None:
    x = np.arange(1, 9, dtype=np.uint8).reshape(2, 4)
    want = cudml.padding(x, (1, 2), (2, 1), mode=mode, value=9)
    out = strided(sparse(5 * 2**30, "uint8"), (5, 7), (2**30 + 1, 1))
    assert cudml.padding(x, (1, 2), (2, 1), mode=mode, value=9, out=out) is out
    assert same_bits(out.copy(), want)


@pytest.mark.small
@pytest.mark.bug("IDX-04")
@pytest.mark.decision("D-TEN-6")
@pytest.mark.parametrize("mode", MODES)
def test_input_offsets_above_two_to_the_31(mode: str) -> None:
    """The index width of a small output must follow the large input."""
    packed = np.arange(1, 13, dtype=np.int16).reshape(4, 3)
    for shape, strides in (((4, 3), (2**30 + 3, 1)), ((3, 4), (1, 2**30 + 3))):
        x = strided(sparse(3 * 2**30 + 64, "int16"), shape, strides)
        x[...] = packed if shape == (4, 3) else packed.T
        want = cudml.padding(x.copy(), (1, 5), (6, 2), mode=mode, value=9)
        assert same_bits(cudml.padding(x, (1, 5), (6, 2), mode=mode, value=9), want)


@pytest.mark.bug("IDX-05")
@pytest.mark.decision("D-PAD-10", "D-TEN-4")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(0, 1), (1, 0)], ids=str)
def test_largest_size_of_an_empty_result(shape: tuple[int, int], mode: str) -> None:
    """Loops over a dimension of 2**32 - 1 neither wrap around nor run."""
    x = np.empty(shape, np.int8)
    pads = tuple(LIMIT - 1 if n else 0 for n in shape)
    y = cudml.padding(x, pads, 0, mode=mode)
    assert y.shape == tuple(LIMIT if n else 0 for n in shape)


@pytest.mark.small
@pytest.mark.bug("PAD-10")
def test_a_refused_size_allocates_nothing() -> None:
    """The product of legal sizes may be far beyond any memory: an error, and no crash."""
    x = np.ones((1, 1, 1), np.float64)
    with pytest.raises((MemoryError, ValueError)):
        cudml.padding(x, LIMIT - 1, 0)
    assert cudml.padding(x, 1, 0).shape == (2, 2, 2)
