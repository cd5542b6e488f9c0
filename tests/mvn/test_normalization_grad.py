"""The gradient of normalization: axes, flags, parameters, types, layouts, given statistics."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds
from harness import check, data
from mvn_support import bits
from pool_support import FLOATS, dtype_of
from tests.mvn.test_normalization import FLAGS, SIZES, SMALL, pattern, subsets

OP = "mean_variance_normalization_grad"
gradient = cudml.mean_variance_normalization_grad
TWO = ("contiguous", "permuted")


def parameters(shape: tuple[int, ...], axes: Any, dtype: str, seed: int) -> list[np.ndarray]:
    """A scale on the kept dimensions and a bias on the reduced ones."""
    over = {a % len(shape) for a in axes}
    kept = tuple(1 if a in over else n for a, n in enumerate(shape))
    reduced = tuple(n if a in over else 1 for a, n in enumerate(shape))
    return [data(kept, dtype, seed), data(reduced, dtype, seed + 1)]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-1", "D-GRAD-16")
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_subset_of_axes(rank: int) -> None:
    for k, axes in enumerate(subsets(rank)):
        shape, dtype = SIZES[:rank], FLOATS[k % 4]
        use_mean, use_variance = FLAGS[(k // 4) % 4] if k % 3 == 0 else (True, True)
        x, grad = data(shape, dtype, k), data(shape, dtype, k + 1)
        given = {"axes": axes, "use_mean": use_mean, "use_variance": use_variance}
        activation = ("gelu", None, "relu", "tanh")[k % 4]
        check(OP, x, grad, *parameters(shape, axes, dtype, k + 2), layouts=SMALL,
              activation=activation, **given)  # fmt: skip


# What the key says: shape, axes, sizes of scale, sizes of bias (None: absent).
CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "layer": ((4, 37), 1, (1, 37), (1, 37)),
    "layer without bias": ((3, 2, 64), -1, (1, 1, 64), None),
    "layer over two axes": ((3, 4, 5), (1, 2), (1, 4, 5), (1, 4, 5)),
    "long layer": ((3, 1500), 1, (1, 1500), (1, 1500)),
    "instance": ((2, 3, 5, 7), (2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "group": ((2, 2, 3, 10), (2, 3), (1, 2, 3, 1), (1, 2, 3, 1)),
    "batch": ((4, 3, 5, 2), (0, 2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "long batch": ((3, 2, 700), (0, 2), (1, 2, 1), (1, 2, 1)),
    "columns": ((19, 23), 0, (1, 23), (19, 1)),
    "the middle axis": ((3, 7, 5), 1, (1, 7, 1), (1, 1, 5)),
    "every other axis": ((2, 3, 4, 5, 2), (0, 2, 4), (1, 3, 1, 5, 1), (1, 1, 4, 1, 1)),
    "the whole array": ((3, 4, 5), (0, 1, 2), (1, 1, 1), (3, 4, 5)),
    "no axes": ((3, 4), (), (1, 4), (3, 1)),
    "axes of size 1": ((3, 1, 4, 1), (1, 3), (1, 1, 4, 1), (3, 1, 1, 1)),
    "one element": ((1,), 0, (1,), (1,)),
    "rank 8": ((2, 1, 3, 2, 1, 2, 2, 2), (7, 2, 4), (1, 1, 3, 1, 1, 2, 1, 2), (1,) * 8),
}


@pytest.mark.small
@pytest.mark.decision("D-GRAD-17", "D-TEN-8")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, dtype: str) -> None:
    shape, axes, scale_sizes, bias_sizes = CASES[case]
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    scale = None if scale_sizes is None else data(scale_sizes, dtype, 3)
    bias = None if bias_sizes is None else data(bias_sizes, dtype, 4)
    check(OP, x, grad, scale, bias, axes=axes)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-17")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float32_parameters_of_16_bit_data(dtype: str) -> None:
    x, grad = data((5, 3, 40), dtype, 1), data((5, 3, 40), dtype, 2)
    scale, bias = data((1, 3, 40), "float32", 3), data((1, 1, 40), "float32", 4)
    for activation in (None, "swish"):
        got = check(OP, x, grad, scale, bias, axes=2, activation=activation, layouts=SMALL)
        assert [d.name for d in got.dtypes] == [dtype, "float32", "float32"]


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("given", ["", "scale", "bias", "scale bias"])
@pytest.mark.parametrize(("use_mean", "use_variance"), FLAGS)
def test_flags_and_parameters(use_mean: bool, use_variance: bool, given: str, dtype: str) -> None:
    more = {name: data((1, 4, 1), dtype, k) for k, name in enumerate(given.split())}
    flags = {"use_mean": use_mean, "use_variance": use_variance}
    x, grad = data((2, 4, 9), dtype, 7), data((2, 4, 9), dtype, 8)
    check(OP, x, grad, axes=(2, 0), layouts=SMALL, **more, **flags)
    check(OP, x, grad, axes=2, layouts=SMALL, epsilon=0.5, activation="elu", **more, **flags)


@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_pattern_of_parameters(dtype: str) -> None:
    """Scale and bias of size 1 in any dimensions, which are then summed, reduced or kept."""
    shape = (3, 4, 5)
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    for k, axes in itertools.product(range(8), ((2,), (0, 1), (1,))):
        scale, bias = data(pattern(shape, k), dtype, k), data(pattern(shape, 7 - k), dtype, 9)
        check(OP, x, grad, scale, bias, axes=axes, layouts=TWO)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-16")
@pytest.mark.parametrize(
    "names", [n for k in (1, 2, 3) for n in itertools.permutations(("x", "scale", "bias"), k)]
)
def test_outputs(names: tuple[str, ...]) -> None:
    """Only what is named is computed, with the same bits as among others."""
    x, grad = data((6, 33), "float32", 1), data((6, 33), "float32", 2)
    scale, bias = data((1, 33), "float32", 3), data((6, 1), "float32", 4)
    check(OP, x, grad, scale, bias, axes=1, outputs=names, layouts=TWO)
    every = gradient(x, grad, scale, bias, axes=1)
    some = gradient(x, grad, scale, bias, axes=1, outputs=list(names))
    for name, one, other in zip(("x", "scale", "bias"), some, every, strict=True):
        assert (one is None) == (name not in names)
        assert one is None or bits(one).tolist() == bits(other).tolist()
    absent = gradient(x, grad, axes=1, outputs=names)
    assert absent[1] is None and absent[2] is None and (absent[0] is None) == ("x" not in names)


STATISTICS = [("float32", "float64"), ("float64", "float32"), ("float64", "float64")]


@pytest.mark.small
@pytest.mark.decision("D-GRAD-18", "D-GRAD-48")
@pytest.mark.parametrize("kinds", STATISTICS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_given_statistics(dtype: str, kinds: tuple[str, str]) -> None:
    x, grad = data((3, 4, 70), dtype, 1), data((3, 4, 70), dtype, 2)
    scale, bias = data((1, 4, 1), dtype, 3), data((1, 1, 70), dtype, 4)
    mean = data((3, 4, 1), kinds[0], 5)
    variance = np.abs(data((3, 4, 1), kinds[1], 6))
    for flags in FLAGS[:3]:
        how: dict[str, Any] = {"use_mean": flags[0], "use_variance": flags[1], "axes": 2}
        how |= {"mean": mean} if flags[0] else {}
        how |= {"variance": variance} if flags[1] else {}
        check(OP, x, grad, scale, bias, activation="swish", layouts=SMALL, **how)
    own = np.zeros((3, 4, 1)).astype(dtype_of(dtype))
    check(OP, x, grad, scale, bias, axes=2, mean=own, variance=own + own.dtype.type(1))


@pytest.mark.small
@pytest.mark.decision("D-GRAD-18")
def test_a_float64_mean_keeps_its_low_part() -> None:
    """A mean rounded to FLOAT32 would be off by half a deviation."""
    x = (1e8 + 8 * np.arange(64.0)).astype("f4").reshape(1, 64)
    grad = data((1, 64), "float32", 2)
    mean, variance = np.full((1, 1), 1e8 + 253.5), np.full((1, 1), 16.0)
    check(OP, x, grad, np.ones((1, 64), "f4"), axes=1, mean=mean, variance=variance)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-20", "D-TEN-4")
@pytest.mark.parametrize("dtype", FLOATS)
def test_zero_sizes(dtype: str) -> None:
    """VG7: sums over no element are +0."""
    kind = dtype_of(dtype)
    x, scale, bias = np.zeros((0, 3), kind), np.ones((1, 3), kind), np.ones((1, 1), kind)
    check(OP, x, x, scale, bias, axes=1, layouts=("contiguous",))
    dx, dscale, dbias = gradient(x, x, scale, bias, axes=1)
    assert dx.shape == (0, 3) and not bits(dscale).any() and not bits(dbias).any()
    out = (None, np.full((1, 3), 7).astype(kind), np.full((1, 1), 7).astype(kind))
    gradient(x, x, scale, bias, axes=1, out=out)
    assert not bits(out[1]).any() and not bits(out[2]).any()
    wide = gradient(x, x, np.ones((0, 3), kind), bias, axes=1)
    assert wide[1].shape == (0, 3)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-19")
def test_degenerate_groups() -> None:
    """VG5, VG6: NaN stays in its group, and where x is not read it does not spread."""
    inf, nan = np.inf, np.nan
    for dtype in FLOATS:
        kind = dtype_of(dtype)
        x = np.full((1, 3), 5).astype(kind)
        assert np.isnan(gradient(x, x, axes=1, epsilon=0)[0].astype("f4")).all()
        x = np.array([[1, 2, inf], [1, 2, 4], [nan, 1, 1]]).astype(kind)
        grad = np.arange(9.0).reshape(3, 3).astype(kind)
        check(OP, x, grad, np.ones((1, 3), kind), axes=1)
        dx = gradient(x, grad, axes=1)[0].astype("f4")
        assert np.isnan(dx).tolist() == [[True] * 3, [False] * 3, [True] * 3]
        plain = gradient(x, grad, axes=1, use_variance=False)[0].astype("f4")
        assert plain.tolist() == [[-1, 0, 1]] * 3
        neither = gradient(x, grad, axes=1, use_variance=False, use_mean=False)[0]
        assert bits(neither).tolist() == bits(grad).tolist()


@pytest.mark.decision("D-TEN-1", "D-GRAD-21")
def test_outputs_may_be_strided_and_partly_given() -> None:
    x, grad = data((4, 30), "float32", 1), data((4, 30), "float32", 2)
    scale, bias = data((1, 30), "float32", 3), data((4, 1), "float32", 4)
    want = gradient(x, grad, scale, bias, axes=1)
    room = np.full((9, 61), 7, "f4")
    dx, dscale = room[1::2, ::2][:4, :30], np.full((1, 60), 7, "f4")[:, ::2]
    got = gradient(x, grad, scale, bias, axes=1, out=[dx, dscale, None])
    assert isinstance(got, tuple) and got[0] is dx and got[1] is dscale
    for one, other in zip(got, want, strict=True):
        assert bits(np.array(one)).tolist() == bits(other).tolist()
    assert (room[::2] == 7).all() and (room[:, 1::2] == 7).all()
    out = tuple(np.empty_like(v) for v in want)
    assert gradient(x, grad, scale, bias, axes=1, out=out) is out


def test_reference_and_bounds_know_the_call() -> None:
    """The oracle can fail: a result one unit off is refused."""
    x, grad = data((2, 9), "float32", 1), data((2, 9), "float32", 2)
    want = bounds.expected(OP, x, grad, axes=1)
    dx = gradient(x, grad, axes=1)[0]
    assert bounds.compare([dx, None, None], want).ok
    assert not bounds.compare([dx * np.float32(1.0001), None, None], want).ok


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-2")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape, axes", [((40, 16), 0), ((6, 5, 40), (0, 2)), ((9, 70), 1)])
def test_parameters_that_are_broadcast_in_memory(
    shape: tuple[int, ...], axes: Any, dtype: str
) -> None:
    """Of the sizes of x, with strides of 0: their gradients have a share for every element."""
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    kept = tuple(n if d == 1 - (axes == 1) else 1 for d, n in enumerate(shape))
    for spread in ((True, False), (False, True), (True, True)):
        scale, bias = (
            np.broadcast_to(data(kept, dtype, seed), shape if is_spread else kept)
            for seed, is_spread in zip((3, 4), spread, strict=True)
        )
        got = cudml.mean_variance_normalization_grad(x, grad, scale, bias, axes=axes)
        want = cudml.mean_variance_normalization_grad(x, grad, scale.copy(), bias.copy(), axes=axes)
        for a, b, like in zip(got, want, (x, scale, bias), strict=True):
            assert a.shape == like.shape
            limits = (
                {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 2e-3, "atol": 2e-3}
            )
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), **limits)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("wide", [(0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("parameter", ["scale", "bias"])
def test_data_that_are_broadcast_in_memory(parameter: str, wide: tuple[int, ...]) -> None:
    """The gradient of a parameter that differs along dimensions which x does not tell apart."""
    shape = (2, 3, 5)
    x = np.broadcast_to(data([1 if d in wide else n for d, n in enumerate(shape)], "float32", 1),
                        shape)  # fmt: skip
    grad, mean = data(shape, "float32", 2), data((1, 3, 1), "float32", 3)
    kinds = {"scale": data((1, 3, 1), "float32", 4), "bias": data((1, 1, 5), "float32", 5)}
    full = {**kinds, parameter: data(shape, "float32", 6)}
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("normalize_grad", (x, grad, mean, None), full),
        ("normalize_grad", (x, grad, None, mean * mean), full),
        *(("mean_variance_normalization_grad", (x, grad), {**full, "axes": axes})
          for axes in (0, 1, 2, (0, 2))),
    ]  # fmt: skip
    for op, given, options in calls:
        got = getattr(cudml, op)(*given, **options)
        assert bounds.compare(got, bounds.expected(op, *given, **options)).ok, op
