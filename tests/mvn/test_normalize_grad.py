"""The gradient of normalization in two phases: sums of parts, then the gradients of each part."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, data
from mvn_support import bits
from pool_support import FLOATS, dtype_of
from tests.mvn.test_normalization import SIZES, SMALL, pattern, subsets

SUMS, PART = "normalize_grad_sums", "normalize_grad"
TWO = ("contiguous", "permuted")
KINDS = ("float32", "float64")


def statistics(shape: tuple[int, ...], dtype: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return data(shape, dtype, seed), np.abs(data(shape, dtype, seed + 1))


def group_shape(shape: tuple[int, ...], axes: Any) -> tuple[int, ...]:
    over = {a % len(shape) for a in axes}
    return tuple(1 if a in over else n for a, n in enumerate(shape))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-1", "D-GRAD-16")
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_subset_of_axes(rank: int) -> None:
    for k, axes in enumerate(subsets(rank)):
        shape, dtype, kind = SIZES[:rank], FLOATS[k % 4], KINDS[k % 2]
        x, grad = data(shape, dtype, k), data(shape, dtype, k + 1)
        group = group_shape(shape, axes)
        mean, variance = statistics(group, kind, k + 2)
        scale = data(group, dtype, k + 4)
        activation = (None, "swish", "hard_swish", "softsign")[k % 4]
        given = (x, grad, mean, variance, scale, None)
        check(SUMS, *given, axes=axes, activation=activation, dtype=KINDS[k // 2 % 2],
              layouts=SMALL)  # fmt: skip
        sums = (data(group, "float64", k + 5), data(group, "float64", k + 6))
        count = np.full(group, 100.0)
        check(PART, *given, count=count, sums=sums, activation=activation, layouts=SMALL)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("present", list(itertools.product((True, False), repeat=3)), ids=str)
def test_statistics_and_sums_may_be_absent(present: tuple[bool, bool, bool], dtype: str) -> None:
    x, grad = data((3, 4, 50), dtype, 1), data((3, 4, 50), dtype, 2)
    mean, variance = statistics((1, 4, 1), "float64", 3)
    kind = dtype_of(dtype)
    given = (mean if present[0] else None, variance if present[1] else None)
    scale, bias = data((1, 4, 1), dtype, 5), data((1, 1, 50), dtype, 6)
    more: dict[str, Any] = {}
    if present[2]:
        sums = [data((1, 4, 1), dtype, 7), data((1, 4, 1), "float32", 8)]
        more = {"count": np.full((1, 4, 1), 96).astype(kind), "sums": sums}
    for activation in (None, "relu", "gelu"):
        check(PART, x, grad, *given, scale, bias, activation=activation, layouts=SMALL, **more)
        check(SUMS, x, grad, *given, scale, bias, activation=activation, axes=(0, 2),
              layouts=SMALL)  # fmt: skip


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_statistics_of_any_shape(dtype: str) -> None:
    """Mean, variance, count and both sums with sizes 1 in different dimensions."""
    shape = (3, 4, 5)
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    scale, bias = data((1, 4, 1), dtype, 3), data((3, 1, 5), dtype, 4)
    for k in range(8):
        mean = data(pattern(shape, k), "float64", 5)
        variance = np.abs(data(pattern(shape, (k + 3) % 8), "float32", 6))
        sums = (
            data(pattern(shape, (k + 5) % 8), "float32", 7),
            data(pattern(shape, 7 - k), dtype, 8),
        )
        count = np.full(pattern(shape, (k + 1) % 8), 60.0)
        given = (x, grad, mean, variance, scale, bias)
        check(PART, *given, count=count, sums=sums, activation="tanh", layouts=TWO)
        check(SUMS, *given, axes=(0, 2), activation="tanh", layouts=TWO)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-24", "D-GRAD-20")
@pytest.mark.parametrize("dtype", FLOATS)
def test_empty_parts(dtype: str) -> None:
    kind = dtype_of(dtype)
    for shape in ((0, 3), (2, 0)):
        x = np.zeros(shape, kind)
        mean, variance = np.zeros((1, 1)), np.ones((1, 1))
        for axes in ((), 0, 1, (0, 1)):
            check(SUMS, x, x, mean, variance, axes=axes, layouts=("contiguous",))
        sums = cudml.normalize_grad_sums(x, x, mean, variance, axes=(0, 1))
        assert [s.tolist() for s in sums] == [[[0]], [[0]]] and not bits(sums[0]).any()
        check(PART, x, x, mean, variance, np.ones((1, 1), kind), np.ones((1, shape[1]), kind),
              count=np.ones((1, 1)), sums=(mean, mean), layouts=("contiguous",))  # fmt: skip


@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_make_the_whole(dtype: str) -> None:
    """Sums of parts, added, give the parts of the gradient at once: within two bounds of it."""
    x, grad = data((6, 4, 80), dtype, 1), data((6, 4, 80), dtype, 2)
    scale, bias = data((1, 4, 1), dtype, 3), data((1, 4, 1), dtype, 4)
    more = {"activation": "swish", "epsilon": 0.01}
    wide = x.astype("f8")
    mean = wide.mean((0, 2), keepdims=True)
    variance = wide.var((0, 2), keepdims=True)
    whole = cudml.mean_variance_normalization_grad(x, grad, scale, bias, axes=(0, 2), **more)
    parts = [(slice(0, 1)), slice(1, 4), slice(4, 6)]
    found = [
        cudml.normalize_grad_sums(x[p], grad[p], mean, variance, scale, bias, axes=(0, 2), **more)
        for p in parts
    ]
    sums = tuple(np.sum([f[k] for f in found], axis=0) for k in range(2))
    count = np.full(mean.shape, 480.0)
    results = [
        cudml.normalize_grad(x[p], grad[p], mean, variance, scale, bias, count=count, sums=sums,
                             **more)
        for p in parts
    ]  # fmt: skip
    near = {"rtol": 0, "atol": 1e-4 if dtype == "float32" else 1e-12}
    np.testing.assert_allclose(np.concatenate([r[0] for r in results]), whole[0], **near)
    for k in (1, 2):
        np.testing.assert_allclose(sum(r[k] for r in results), whole[k], rtol=1e-5, atol=1e-4)


@pytest.mark.small
def test_types_and_shapes_of_sums() -> None:
    x = data((2, 3, 4), "float16", 1)
    for dtype in ("float32", "float64", np.float32, np.dtype("float64")):
        out = tuple(np.empty((2, 1, 4), dtype) for _ in range(2))
        got = cudml.normalize_grad_sums(x, x, None, None, axes=1, dtype=dtype, out=out)
        assert got is out
        other = cudml.normalize_grad_sums(x, x, None, None, axes=1, dtype=dtype)
        assert [o.dtype for o in other] == [np.dtype(dtype)] * 2
        assert [bits(a).tolist() for a in other] == [bits(a).tolist() for a in out]
    half = (None, np.empty((2, 1, 4)))
    got = cudml.normalize_grad_sums(x, x, None, None, axes=1, out=half)
    assert got[1] is half[1] and got[0].shape == (2, 1, 4)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-28", "D-GRAD-30")
def test_values_of_statistics_are_data() -> None:
    x, one = np.ones((1, 4), "f4"), np.ones((1, 1))
    got = cudml.normalize_grad(x, x, None, -2 * one)[0]
    assert np.isnan(got).all()
    sums = (0 * one, 0 * one)
    assert np.isnan(cudml.normalize_grad(x, x, one, one, count=0 * one, sums=sums)[0]).all()


FLAT_SOMEWHERE = (
    *("swish", ("swish", {"sigmoid_input_scale": -0.5}), "gelu", "tanh", "sigmoid", "elu"),
    *("softplus", "relu"),
)
GROUPED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    *(((9, 40), (0,)), ((9, 40), (1,)), ((9, 5), (0,)), ((70, 40), (0,))),
    *(((4, 3, 40), (0, 2)), ((3, 8, 33), (1,))),
)


@pytest.mark.core
@pytest.mark.parametrize("shape, axes", GROUPED, ids=str)
@pytest.mark.parametrize("activation", FLAT_SOMEWHERE, ids=str)
@pytest.mark.decision("D-GRAD-28")
def test_infinite_z(activation: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """A slope of exactly 0 times an infinite z is NaN, whether x or 1 / deviation is infinite."""
    x, grad = data(shape, "float32", 1), abs(data(shape, "float32", 2)) + 1
    group = group_shape(shape, axes)
    mean, variance = statistics(group, "float32", 3)
    scale = np.where(data(group, "float32", 4) < 0, np.float32(-2), np.float32(1.5))
    sign = np.where(np.arange(mean.size).reshape(group) % 3, 1, -1).astype("f4")
    far = x.copy()
    at = tuple(2 if a in axes else slice(None) for a in range(x.ndim))
    far[at] = np.broadcast_to(sign * np.inf, shape)[at]
    flat = sign * (abs(x) + 1)
    for array, center, square in ((far, mean, variance), (flat, None, np.zeros_like(variance))):
        given = array, grad, center, square, scale, None
        for dtype in KINDS:
            want = check(SUMS, *given, axes=axes, epsilon=0, activation=activation, dtype=dtype,
                         layouts=TWO)  # fmt: skip
            got = cudml.normalize_grad_sums(*given, axes=axes, epsilon=0, activation=activation,
                                            dtype=dtype)  # fmt: skip
            is_nan = np.isnan(want.values[1])
            assert is_nan.any() and (activation in ("tanh", "sigmoid") or not is_nan.all())
            for result, expected in zip(got, want.values, strict=True):
                np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
