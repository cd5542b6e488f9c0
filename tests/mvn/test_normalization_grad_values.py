"""The gradient of normalization: activations at their kinks, extremes, long sums, bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import reference
from cudml.reference.activations import resolve
from cudml.reference.derivatives import derivative
from harness import check, data
from mvn_support import bits
from pool_support import FLOATS, dtype_of
from tests.reference.test_gradients_normalization import BLOCKING, KINKS, SLOPES

inf, nan = np.inf, np.nan
OP = "mean_variance_normalization_grad"
gradient = cudml.mean_variance_normalization_grad
NEITHER: dict[str, Any] = {"axes": 0, "use_mean": False, "use_variance": False}
ONE = ("contiguous",)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-15")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name, parameters, values, limits", SLOPES, ids=str)
def test_slopes(name: str, parameters: Any, values: Any, limits: Any, dtype: str) -> None:
    """Without statistics and scale v is x: dx is grad * f'(x)."""
    kind = dtype_of(dtype)
    v = np.array([-inf, -2, -0.5, 0, 0.5, 1.5, inf, -1e4, 1e4]).astype(kind)
    grad = np.ones(9, kind)
    dx = gradient(v, grad, activation=(name, parameters), **NEITHER)[0].astype("f8")
    want = [limits[0], *values, limits[1], *limits]
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 2e-6)
    np.testing.assert_allclose(dx, want, rtol=unit, atol=unit)
    check(OP, v, data(9, dtype, 1), activation=(name, parameters), layouts=ONE, **NEITHER)


LARGE = {
    "scaled_elu": {"alpha": 1e30, "gamma": 1e30},
    "scaled_tanh": {"alpha": 1e30, "beta": 1e30},
    "parametric_softplus": {"alpha": 1e30, "beta": 1e30},
}


@pytest.mark.core
@pytest.mark.decision("D-GRAD-15")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", LARGE)
def test_parameters_whose_product_overflows_leave_a_slope_of_0(name: str, dtype: str) -> None:
    x = np.full(19, -1000).astype(dtype_of(dtype))
    dx = gradient(x, np.ones_like(x), activation=(name, LARGE[name]), **NEITHER)[0]
    assert not dx.any()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-14")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name, parameters, at, want", KINKS, ids=str)
def test_kinks(name: str, parameters: Any, at: float, want: float, dtype: str) -> None:
    x = np.array([at, at]).astype(dtype_of(dtype))
    dx = gradient(x, np.ones_like(x), activation=(name, parameters), **NEITHER)[0]
    assert dx.astype("f8").tolist() == [float(np.float64(want).astype(x.dtype))] * 2


@pytest.mark.core
@pytest.mark.decision("D-GRAD-12", "D-GRAD-13")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_infinite_gradients_and_nan(name: str, dtype: str) -> None:
    kind = dtype_of(dtype)
    given = {"alpha": 2.0, "beta": 1.0} if name == "linear" else {}
    v = np.tile([-9, -0.25, 0, 0.25, 9, -inf, inf, nan], 5).astype(kind)  # vectors, and a part
    slope = derivative(v.astype("f8"), *resolve((name, given), np.dtype("f8")))
    for value in (inf, -inf, nan):
        grad = np.full(v.size, value).astype(kind)
        dx = gradient(v, grad, activation=(name, given), **NEITHER)[0].astype("f8")
        with np.errstate(invalid="ignore"):
            want = value * slope
        if name in BLOCKING:
            want = np.where(slope == 0, 0.0, want)
            assert not np.signbit(dx[slope == 0]).any()
        np.testing.assert_array_equal(dx, want)
    finite = gradient(v, np.ones(v.size, kind), activation=(name, given), **NEITHER)[0]
    passes = name in ("identity", "linear")
    assert (np.isnan(finite.astype("f8")) == (np.isnan(v.astype("f8")) & (not passes))).all()


@pytest.mark.small
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_of_normalized_values(dtype: str, name: str) -> None:
    given = {"alpha": 2.0, "beta": 1.0} if name == "linear" else {}
    x, grad = data((3, 90), dtype, 1), data((3, 90), dtype, 2)
    scale, bias = data((1, 90), dtype, 3), data((3, 1), dtype, 4)
    check(OP, x, grad, scale, bias, axes=1, activation=(name, given), layouts=ONE)


@pytest.mark.small
@pytest.mark.parametrize("parameters", [
    ("leaky_relu", {"alpha": 0}), ("linear", {"alpha": 0, "beta": 3}),
    ("hard_sigmoid", {"alpha": 0}), ("hard_sigmoid", {"alpha": -1}), ("hard_swish", {"alpha": 0}),
    ("swish", {"sigmoid_input_scale": 0}), ("swish", {"sigmoid_input_scale": -1}),
    ("scaled_tanh", {"beta": 0}), ("parametric_softplus", {"beta": 0}),
    ("scaled_elu", {"gamma": 0}), ("celu", {"alpha": -2}), ("shrink", {"bias": 3, "threshold": -1}),
], ids=str)  # fmt: skip
def test_parameters_of_zero_and_below(parameters: Any) -> None:
    x = np.array([-inf, -3, -1, -0.25, 0, 0.25, 1, 3, inf, nan], "f4")
    for value in (1, 0.5, inf, nan):
        check(OP, x, np.full(10, value, "f4"), activation=parameters, layouts=ONE, **NEITHER)


@pytest.mark.decision("D-GRAD-12")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("activation", "ends"), [
    ("relu", [0]), (("thresholded_relu", {"alpha": 2}), [2]),
    (("hard_sigmoid", {"alpha": 0.5, "beta": 0.5}), [-1, 1]),
    (("shrink", {"threshold": 2}), [-2, 2]), (("hard_swish", {"alpha": 0.25, "beta": 0.5}), [-2]),
], ids=str)  # fmt: skip
def test_the_ends_of_what_blocks(activation: Any, ends: list[float], dtype: str) -> None:
    """Where a comparison just makes the slope 0 even an infinite gradient leaves +0."""
    x = np.resize(np.array(ends, dtype_of(dtype)), 40)
    dx = gradient(x, np.full(40, inf, x.dtype), activation=activation, **NEITHER)[0]
    assert dx.tobytes() == bytes(dx.nbytes)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-18", "D-MVN-4")
@pytest.mark.parametrize("ratio", [10, 1e3, 1e5])
@pytest.mark.parametrize("length", [7, 300, 5000])
def test_means_far_from_zero(length: int, ratio: float) -> None:
    x = (data((3, length), "float32", 1) + np.float32(ratio)).astype("f4")
    grad, scale = data((3, length), "float32", 2), data((1, length), "float32", 3)
    for flags in ((True, True), (True, False)):
        check(OP, x, grad, scale, axes=1, use_mean=flags[0], use_variance=flags[1], layouts=ONE)


@pytest.mark.decision("D-GRAD-2", "D-GRAD-17a")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_sums_over_many_rows(dtype: str) -> None:
    """One chain of FLOAT32 additions would be off by a hundredth."""
    rows = 2**20
    x = np.tile(np.array([[1, -1]]).astype(dtype), (rows, 1))
    grad = np.full((rows, 2), 0.1).astype(dtype)
    ones = np.ones((1, 2), "f4" if dtype == "float16" else dtype)
    more = {"axes": 1, "epsilon": 0, "outputs": ("scale", "bias")}
    _, dscale, dbias = gradient(x, grad, ones, ones, **more)
    want = float(grad[0, 0]) * rows
    # Sixteen rows are added in the computing type, the rest in more.
    room = 16 * (2.0**-24 if dtype != "float64" else 2.0**-53)
    np.testing.assert_allclose(dscale, [[want, -want]], rtol=room)
    np.testing.assert_allclose(dbias, [[want, want]], rtol=room)
    one = np.ones((1, 1), ones.dtype)
    _, dscale, dbias = gradient(x, grad, one, one, **more)
    np.testing.assert_allclose(dbias, [[2 * want]], rtol=room)
    assert dscale.tolist() == [[0]]


@pytest.mark.decision("D-GRAD-2")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_long_group(dtype: str) -> None:
    """Sums over 2^21 elements: of w alone, of w * z, and of the parameters' gradients."""
    n = 2**21
    x = np.tile(np.array([1, -1], dtype), n // 2).reshape(1, n)
    grad = np.full((1, n), 0.1, dtype)
    one = np.ones((1, 1), dtype)
    dx, dscale, dbias = gradient(x, grad, one, one, axes=1, epsilon=0)
    tiny = np.finfo(dtype).eps / 2
    room = {"rtol": 64 * tiny}  # a chain of so many additions, then some that are wider
    assert np.abs(dx).max() <= 64 * tiny
    np.testing.assert_allclose(dbias, [[float(grad[0, 0]) * n]], **room)
    assert dscale.tolist() == [[0]]
    sums = cudml.normalize_grad_sums(x, grad, 0 * one, one, axes=1, epsilon=0)
    np.testing.assert_allclose(sums[0], [[float(grad[0, 0]) * n]], **room)


@pytest.mark.decision("D-GRAD-2")
@pytest.mark.parametrize("sizes", [(16, 32768, 2), (16, 4096, 16), (512, 8192, 2)], ids=str)
def test_a_bias_beside_a_larger_scale(sizes: tuple[int, int, int]) -> None:
    """Many elements of x belong to each of the bias: chains of additions are as short where scale's
    gradient, of many more elements, is wanted, too, and where one group alone adds to some."""
    x, grad = data(sizes, "float32", 1), np.full(sizes, 0.1, np.float32)
    scale = np.ones((1, *sizes[1:]), np.float32)
    bias = np.zeros((sizes[0] if sizes[0] > 16 else 1, 1, sizes[2]), np.float32)
    alone = gradient(x, grad, scale, bias, axes=(1, 2), outputs=("bias",))[2]
    both = gradient(x, grad, scale, bias, axes=(1, 2), outputs=("scale", "bias"))[2]
    assert bits(alone).tolist() == bits(both).tolist()
    want = np.full(bias.shape, float(grad[0, 0, 0]) * (grad.size / bias.size))
    np.testing.assert_allclose(both, want, rtol=512 * 2.0**-24)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dx_adds_up_to_nothing(dtype: str) -> None:
    """With use_mean, in every group."""
    x, grad = data((5, 700), dtype, 1), data((5, 700), dtype, 2)
    scale = data((1, 700), dtype, 3)
    for use_variance in (True, False):
        dx = gradient(x, grad, scale, axes=1, use_variance=use_variance)[0].astype("f8")
        assert (np.abs(dx.sum(1)) < 8 * np.finfo(dtype).eps * np.abs(dx).sum(1)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", [None, "gelu", "relu"])
def test_four_times_the_gradient(activation: str | None, dtype: str) -> None:
    """Gives four times the results, bit for bit."""
    x, grad = data((7, 130), dtype, 1), data((7, 130), dtype, 2)
    scale, bias = data((1, 130), dtype, 3), data((7, 1), dtype, 4)
    more = {"axes": 1, "activation": activation}
    one, four = (gradient(x, g, scale, bias, **more) for g in (grad, 4 * grad))
    for a, b in zip(one, four, strict=True):
        assert bits(4 * a).tolist() == bits(b).tolist()


@pytest.mark.parametrize("activation", ["gelu", "tanh", "softplus", None])
def test_finite_differences(activation: str | None) -> None:
    x, grad = data((2, 3, 4), "float64", 1), data((2, 3, 4), "float64", 2)
    tensors = [x, data((1, 3, 1), "float64", 3), data((1, 1, 4), "float64", 4)]
    more: dict[str, Any] = {"axes": (0, 2), "activation": activation, "epsilon": 0.25}
    found = gradient(x, grad, *tensors[1:], **more)
    step = 2.0**-17
    for which, dt in enumerate(found):
        for at in np.ndindex(dt.shape):
            ends = []
            for sign in (1, -1):
                moved = [t.copy() for t in tensors]
                moved[which][at] += sign * step
                ends.append(cudml.mean_variance_normalization(*moved, **more))
            rise = ((ends[0] - ends[1]) * grad).sum() / (2 * step)
            assert rise == pytest.approx(dt[at], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("axes", [(2,), (0, 2), (1, 3), (0, 1, 2, 3), ()], ids=str)
def test_agrees_with_torch(axes: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    shape = (2, 3, 4, 5)
    x, grad = data(shape, "float64", 1), data(shape, "float64", 2)
    s = data([1 if a in axes else n for a, n in enumerate(shape)], "float64", 3)
    b = data([n if a in axes else 1 for a, n in enumerate(shape)], "float64", 4)
    for use_mean, use_variance in itertools.product((True, False), repeat=2):
        tensors = [torch.tensor(a, requires_grad=True) for a in (x, s, b)]
        t, scale, bias = tensors
        d = t - t.mean(axes, keepdim=True) if use_mean and axes else t - t if use_mean else t
        variance = (d * d).mean(axes, keepdim=True) if axes else d * d
        z = d / torch.sqrt(variance + 0.5) if use_variance else d
        torch.sigmoid(scale * z + bias).backward(torch.tensor(grad))
        got = gradient(x, grad, s, b, axes=axes, use_mean=use_mean, use_variance=use_variance,
                       epsilon=0.5, activation="sigmoid")  # fmt: skip
        for values, tensor in zip(got, tensors, strict=True):
            np.testing.assert_allclose(values, tensor.grad.numpy(), rtol=1e-11, atol=1e-12)


BITS: dict[str, tuple[Any, Any, Any, Any]] = {
    "layer": ((300, 257), 1, (1, 257), (1, 257)),
    "long layer": ((40, 5000), 1, (1, 5000), (1, 5000)),
    "batch": ((9, 6, 640), (0, 2), (1, 6, 1), (1, 6, 1)),
    "batch, channels last": ((9, 640, 6), (0, 1), (1, 1, 6), (1, 1, 6)),
    "group": ((4, 3, 4, 900), (2, 3), (1, 3, 4, 1), (1, 3, 4, 1)),
    "group, channels last": ((4, 900, 3, 4), (1, 3), (1, 1, 3, 4), (1, 1, 3, 4)),
    "one group": ((3, 70000), (0, 1), (1, 1), (3, 1)),
    "columns": ((700, 90), 0, (1, 90), (1, 90)),
}


@pytest.mark.decision("D-GRAD-1", "D-GRAD-17a", "D-TEN-9")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("case", BITS)
def test_threads_and_repetitions(case: str, dtype: str) -> None:
    shape, axes, scale_sizes, bias_sizes = BITS[case]
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    scale, bias = data(scale_sizes, dtype, 3), data(bias_sizes, dtype, 4)
    seen = set()
    before = cudml.get_num_threads()
    try:
        for threads in (1, 2, 5, 5, 1):
            cudml.set_num_threads(threads)
            got = gradient(x, grad, scale, bias, axes=axes, activation="swish")
            seen.add(tuple(g.tobytes() for g in got))
    finally:
        cudml.set_num_threads(before)
    assert len(seen) == 1


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", ["layer", "long layer", "group", "group, channels last"])
def test_a_batch_is_its_slices(case: str, dtype: str) -> None:
    """dx of a group is a function of the group, wherever it stands."""
    shape, axes, scale_sizes, bias_sizes = BITS[case]
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    scale, bias = data(scale_sizes, dtype, 3), data(bias_sizes, dtype, 4)
    whole = gradient(x, grad, scale, bias, axes=axes)[0]
    room = np.empty(x[0].size + 3, x.dtype)
    for i in (0, 1, shape[0] - 1):
        moved = room[3:].reshape(x[:1].shape)
        moved[...] = x[i : i + 1]
        one = gradient(moved, grad[i : i + 1], scale, bias, axes=axes)[0]
        assert one.tobytes() == whole[i : i + 1].tobytes()
