"""Normalization over axes, flags, parameters, element types and memory layouts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, data
from pool_support import FLOATS, bits, dtype_of, same_bits

SIZES = (2, 3, 1, 4, 2, 2, 1, 3)
FLAGS = list(itertools.product((True, False), repeat=2))
SMALL = ("contiguous", "permuted", "sliced")
OP = "mean_variance_normalization"


def subsets(rank: int) -> list[tuple[int, ...]]:
    """Every subset of the axes, in shuffled order and half of them counted from the end."""
    rng = np.random.default_rng(rank)
    every = [a for k in range(rank + 1) for a in itertools.combinations(range(rank), k)]
    if rank > 5:
        every = [every[i] for i in rng.choice(len(every), 20, replace=False)]
    shuffled = (rng.permutation(a).tolist() for a in every)
    return [tuple(d - rank if rng.random() < 0.5 else d for d in axes) for axes in shuffled]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("MVN-06")
@pytest.mark.decision("D-MVN-10", "D-MVN-11", "D-MVN-12")
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_subset_of_axes(rank: int) -> None:
    for k, axes in enumerate(subsets(rank)):
        dtype = FLOATS[k % 4]
        use_mean, use_variance = FLAGS[(k // 4) % 4] if k % 3 == 0 else (True, True)
        x = data(SIZES[:rank], dtype, k)
        scale = data(SIZES[:rank], dtype, k + 1)
        given = {"axes": axes, "use_mean": use_mean, "use_variance": use_variance}
        check(OP, x, scale, layouts=SMALL, **given)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("MVN-06")
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_axes_of_four(dtype: str) -> None:
    x = np.arange(16).reshape(2, 2, 2, 2).astype(dtype_of(dtype))
    y = cudml.mean_variance_normalization(x, axes=(2, 0), epsilon=0)
    row = np.array([[-1.2126781, -1.2126781], [-0.7276069, -0.7276069]])
    want = np.stack([np.stack([row, row]), np.stack([-row[::-1], -row[::-1]])])
    unit = {"float16": 2**-10, "bfloat16": 2**-7}.get(dtype, 1e-6)
    assert np.allclose(y.astype("float64"), want, rtol=0, atol=unit)


@pytest.mark.small
def test_order_and_sign_of_axes_are_irrelevant() -> None:
    x = data((3, 4, 5), "float32", 1)
    want = cudml.mean_variance_normalization(x, axes=(0, 2))
    for axes in ((2, 0), [2, 0], (-1, 0), (-3, 2), np.array([2, 0]), (np.int8(-1), 0)):
        assert same_bits(cudml.mean_variance_normalization(x, axes=axes), want)
    one = cudml.mean_variance_normalization(x, axes=(1,))
    for axis in (1, -2, np.uint8(1), [1]):
        assert same_bits(cudml.mean_variance_normalization(x, axes=axis), one)


# What the key says: shape, axes, sizes of scale, sizes of bias (None: absent).
CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "layer": ((4, 37), 1, (1, 37), (1, 37)),
    "layer without bias": ((3, 2, 64), -1, (1, 1, 64), None),
    "layer over two axes": ((3, 4, 5), (1, 2), (1, 4, 5), (1, 4, 5)),
    "instance": ((2, 3, 5, 7), (2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "group": ((2, 2, 3, 10), (2, 3), (1, 2, 3, 1), (1, 2, 3, 1)),
    "batch": ((4, 3, 5, 2), (0, 2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "cross channel": ((2, 3, 4, 5), (1, 2, 3), (1, 3, 1, 1), None),
    "columns": ((19, 23), 0, (1, 23), (19, 1)),
    "the middle axis": ((3, 7, 5), 1, (1, 7, 1), (1, 1, 5)),
    "the outer axes": ((3, 2, 9), (0, 1), None, (1, 1, 9)),
    "every other axis": ((2, 3, 4, 5, 2), (0, 2, 4), (1, 3, 1, 5, 1), (1, 1, 4, 1, 1)),
    "the whole array": ((3, 4, 5), (0, 1, 2), (1, 1, 1), (3, 4, 5)),
    "no axes": ((3, 4), (), (1, 4), (3, 1)),
    "axes of size 1": ((3, 1, 4, 1), (1, 3), (1, 1, 4, 1), (3, 1, 1, 1)),
    "one element": ((1,), 0, (1,), (1,)),
    "rank 1": ((17,), (0,), (17,), (1,)),
    "rank 8": ((2, 1, 3, 2, 1, 2, 2, 2), (7, 2, 4), (1, 1, 3, 1, 1, 2, 1, 2), (1,) * 8),
}


@pytest.mark.small
@pytest.mark.decision("D-MVN-3", "D-MVN-10", "D-MVN-12")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, dtype: str) -> None:
    shape, axes, scale_sizes, bias_sizes = CASES[case]
    x = data(shape, dtype, 1)
    scale = None if scale_sizes is None else data(scale_sizes, dtype, 2)
    bias = None if bias_sizes is None else data(bias_sizes, dtype, 3)
    check(OP, x, scale, bias, axes=axes)


@pytest.mark.small
@pytest.mark.decision("D-MVN-13", "D-MVN-14")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("given", ["", "scale", "bias", "scale bias"])
@pytest.mark.parametrize(("use_mean", "use_variance"), FLAGS)
def test_flags_and_parameters(use_mean: bool, use_variance: bool, given: str, dtype: str) -> None:
    parameters = {name: data((1, 4, 1), dtype, k) for k, name in enumerate(given.split())}
    flags = {"use_mean": use_mean, "use_variance": use_variance}
    x = data((2, 4, 9), dtype, 7)
    check(OP, x, axes=(2, 0), layouts=SMALL, **parameters, **flags)
    check(OP, x, axes=2, layouts=SMALL, epsilon=0.5, **parameters, **flags)


@pytest.mark.small
@pytest.mark.decision("D-MVN-13")
def test_flags_by_hand() -> None:
    x = np.array([[3, 4], [-6, 8]], np.float32)

    def run(**flags: bool) -> Any:
        return cudml.mean_variance_normalization(x, axes=1, epsilon=0, **flags).tolist()

    r = math.sqrt(12.5)
    near = {"rel": 1e-6}
    assert run(use_mean=False)[0] == pytest.approx([3 / r, 4 / r], **near)
    assert run(use_mean=False)[1] == pytest.approx([-6 / 2 / r, 8 / 2 / r], **near)
    assert run(use_variance=False) == [[-0.5, 0.5], [-7, 7]]
    assert run() == [[-1, 1], [-1, 1]]
    assert run(use_mean=False, use_variance=False) == x.tolist()


def pattern(shape: tuple[int, ...], k: int) -> tuple[int, ...]:
    """`shape` with size 1 in every dimension whose bit is set in k."""
    return tuple(1 if k >> d & 1 else n for d, n in enumerate(shape))


@pytest.mark.small
@pytest.mark.bug("MVN-13")
@pytest.mark.parametrize("axes", [(3,), (1, 2), (0, 2)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_broadcast_patterns_of_rank_4(dtype: str, axes: Any) -> None:
    """Every pattern for scale alone, for bias alone, and both with different patterns."""
    shape = (2, 3, 4, 5)
    x = data(shape, dtype, 1)
    for k in range(16):
        scale, bias = data(pattern(shape, k), dtype, 2), data(pattern(shape, k), dtype, 3)
        other = data(pattern(shape, k * 7 % 16), dtype, 4)
        check(OP, x, scale, axes=axes, layouts=("contiguous",), out=False)
        check(OP, x, None, bias, axes=axes, layouts=("contiguous",), out=False)
        check(OP, x, scale, other, axes=axes, layouts=("permuted",), out=False)


@pytest.mark.small
@pytest.mark.bug("MVN-13")
@pytest.mark.parametrize("axes", [(1,), (2, 0)], ids=str)
def test_every_pair_of_broadcast_patterns(axes: Any) -> None:
    shape = (2, 3, 4)
    x = data(shape, "float32", 1)
    for k, m in itertools.product(range(8), repeat=2):
        scale, bias = data(pattern(shape, k), "float32", 2), data(pattern(shape, m), "float32", 3)
        check(OP, x, scale, bias, axes=axes, layouts=("contiguous", "negative"), out=False)


@pytest.mark.small
@pytest.mark.bug("MVN-13")
@pytest.mark.parametrize("k", range(16))
def test_stride_0_equals_size_1(k: int) -> None:
    shape = (2, 3, 4, 5)
    x, scale = data(shape, "float32", 1), data(pattern(shape, k), "float32", 2)
    bias = data(pattern(shape, 15 - k), "float32", 3)
    want = cudml.mean_variance_normalization(x, scale, bias, axes=(1, 3))
    full = np.broadcast_to(scale, shape), np.broadcast_to(bias, shape)
    assert same_bits(cudml.mean_variance_normalization(x, *full, axes=(1, 3)), want)
    wide = np.broadcast_to(data((1, 1, 4, 1), "float32", 9), shape)
    check(OP, wide, scale, axes=(1, 3), layouts=("broadcast",))


@pytest.mark.small
@pytest.mark.decision("D-MVN-15")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kinds", [(1, 1), (1, 0), (0, 1), (1, None), (None, 1)], ids=str)
def test_float32_parameters_of_short_data(dtype: str, kinds: Any) -> None:
    """scale and bias may each be float32, and keep the bits that the data's type has not."""
    x = data((3, 40), dtype, 1)
    given = [
        None if kind is None else data((1, 40), "float32" if kind else dtype, 2 + k)
        for k, kind in enumerate(kinds)
    ]
    check(OP, x, *given, axes=1)


@pytest.mark.small
@pytest.mark.decision("D-MVN-15")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float32_parameters_are_not_rounded(dtype: str) -> None:
    x = np.ones((1, 2), dtype_of(dtype))
    scale = np.array([[1 + 2.0**-20]], np.float32)
    bias = np.array([[-1]], np.float32)
    flags = {"axes": (), "use_mean": False, "use_variance": False}
    y = cudml.mean_variance_normalization(x, scale, bias, **flags)
    assert y.dtype == x.dtype
    assert y.astype("float64").tolist() == [[2.0**-20] * 2]


@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("dtype", FLOATS)
def test_zero_sized_kept_dimension_gives_an_empty_result(dtype: str) -> None:
    x = np.empty((0, 3, 4), dtype_of(dtype))
    scale = np.ones((1, 3, 1), dtype_of(dtype))
    y = cudml.mean_variance_normalization(x, scale, axes=(1, 2))
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    out = np.empty_like(x)
    assert cudml.mean_variance_normalization(x, axes=2, out=out) is out
    assert cudml.mean_variance_normalization(x, axes=(), epsilon=1).shape == x.shape


@pytest.mark.small
@pytest.mark.decision("D-TEN-8")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_result_keeps_the_memory_order(order: tuple[int, ...]) -> None:
    sizes = (2, 3, 4, 5)
    packed = data([sizes[d] for d in order], "float32", 1)
    y = cudml.mean_variance_normalization(packed.transpose(np.argsort(order)), axes=(1, 3))
    assert y.transpose(order).flags.c_contiguous


@pytest.mark.small
def test_defaults() -> None:
    """Mean and variance are used, epsilon is 1e-5, nothing else."""
    x = data((3, 5), "float64", 1)
    y = cudml.mean_variance_normalization(x, axes=1)
    spelled = {"use_mean": True, "use_variance": True, "epsilon": 1e-5, "activation": None}
    assert same_bits(y, cudml.mean_variance_normalization(x, None, None, axes=1, **spelled))


@pytest.mark.small
@pytest.mark.decision("D-MVN-10")
@pytest.mark.parametrize("dtype", FLOATS)
def test_empty_axes_by_hand(dtype: str) -> None:
    x = np.array([[2, -3], [0, 100]], dtype_of(dtype))
    bias = np.array([[-1, 2]], dtype_of(dtype))
    y = cudml.mean_variance_normalization(x, None, bias, axes=())
    assert y.astype("float64").tolist() == [[-1, 2]] * 2
    y = cudml.mean_variance_normalization(x, x, bias, axes=(), activation="relu")
    assert y.astype("float64").tolist() == [[0, 2]] * 2
    y = cudml.mean_variance_normalization(x, axes=(), epsilon=0)
    assert np.isnan(y.astype("float64")).all()
    rms = cudml.mean_variance_normalization(x, axes=(), use_mean=False, epsilon=5)
    assert rms.astype("float64")[0].tolist() == pytest.approx([2 / 3, -3 / 14**0.5], rel=2**-8)
    assert bits(rms[1, :1]) == bits(np.zeros(1, x.dtype))


@pytest.mark.small
@pytest.mark.decision("D-MVN-12")
def test_axes_of_size_1_act_like_empty_axes() -> None:
    x = data((1, 4, 1, 5), "float32", 3)
    bias = data((1, 4, 1, 1), "float32", 4)
    for flags in ({}, {"use_mean": False}, {"use_variance": False}):
        want = cudml.mean_variance_normalization(x, None, bias, axes=(), **flags)
        for axes in ((0,), (2, 0), 2):
            got = cudml.mean_variance_normalization(x, None, bias, axes=axes, **flags)
            assert same_bits(got, want)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("channels", [7, 64, 256])
def test_rows_that_follow_each_other_in_pieces(channels: int, dtype: str) -> None:
    """Of a group's rows of channels 40 follow each other; others stand between those in x and y."""
    x = data((3, 50, channels), dtype)[:, :40]
    room = np.full((3, 60, channels), 7, x.dtype)
    cudml.mean_variance_normalization(x, axes=(0, 1), out=room[:, :40])
    want = cudml.mean_variance_normalization(x.copy(), axes=(0, 1))
    near = {"float64": 1e-13, "float32": 1e-5}.get(dtype, 1e-2)
    got, want = room[:, :40].astype("f8"), want.astype("f8")
    np.testing.assert_allclose(got, want, rtol=near, atol=near)
    assert (room[:, 40:] == 7).all()
