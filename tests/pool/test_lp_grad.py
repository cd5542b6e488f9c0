"""The gradient of Lp pooling: the specification's examples, decisions, geometries, and every way to
hand it memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds, reference
from harness import ALL, FLOATS, check, data, dtype_of, refused
from layouts import guarded
from pool_support import LIMIT, line, same_bits
from tests.pool.test_degenerate import GEOMETRIES, geometry
from tests.pool.test_forward import CASES
from tests.reference.test_gradients_pooling import EXAMPLES, PRINTED

NAN, INF = float("nan"), float("inf")
POWERS = (1, 2, 3, 4, 5, 7, 16, 1000, LIMIT)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def forward(x: np.ndarray, p: int, dtype: Any = None, **fields: Any) -> np.ndarray:
    """The norms, rounded once to `dtype` or x's own type."""
    with np.errstate(all="ignore"):
        return reference.lp_pooling(x, p=p, **fields).astype(dtype or x.dtype)


def problem(shape: Any, dtype: str, p: int, seed: int = 1, kind: str = "random", **fields: Any):
    """x, y and a gradient of one call; a tenth of x is zero."""
    x = data(shape, dtype, seed, kind)
    y = forward(x, p, **fields)
    return x, y, data(y.shape, dtype, seed + 1, kind="random" if kind == "special" else kind)


def fields_of(case: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A geometry of ranks 3 to 5; sizes of the result are told by y."""
    shape, fields = CASES[case]
    return shape, {k: v for k, v in fields.items() if k != "axes"}


USUAL = [case for case, (shape, fields) in CASES.items() if "axes" not in fields]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-3")
@pytest.mark.parametrize("name", [*EXAMPLES, *PRINTED])
def test_examples(name: str) -> None:
    """LG1 to LG12, in float64 and float32."""
    (x, y, grad, *rest), more, want = {**EXAMPLES, **PRINTED}[name]
    fields = dict(zip(("window_size", "strides", "start_padding", "end_padding", "dilations"),
                      rest, strict=False))  # fmt: skip
    for dtype in ("float64", "float32"):
        a, g = (np.array(v, dtype)[None, None] for v in (x, grad))
        if y is None:
            norms = forward(a, more["p"], **fields, output_sizes=g.shape[2:])
        else:
            norms = np.array(y, dtype)[None, None]
        check("lp_pooling_grad", a, norms, g, **fields, **more)
        got = cudml.lp_pooling_grad(a, norms, g, **fields, **more)[0, 0]
        close = 1e-4 if dtype == "float32" and more["p"] > 100 else 2e-6
        np.testing.assert_allclose(got, want, rtol=close, atol=6e-7)


@pytest.mark.small
@pytest.mark.parametrize("case", USUAL)
@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_geometries(case: str, dtype: str, p: int) -> None:
    """Ranks 3 to 5, empty windows, ceil sizes, in every layout and with strided outputs."""
    shape, fields = fields_of(case)
    x, y, grad = problem(shape, dtype, p, **fields)
    fields.pop("output_sizes", None)
    check("lp_pooling_grad", x, y, grad, **fields, p=p)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-9")
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_powers(dtype: str, p: int) -> None:
    x, y, grad = problem((2, 3, 6, 7), dtype, p, window_size=(3, 2), strides=(2, 1))
    check("lp_pooling_grad", x, y, grad, (3, 2), (2, 1), p=p)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-9")
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_windows_of_one_hand_out_the_sign_bit_for_bit(dtype: str, p: int) -> None:
    x, grad = data((2, 3, 4, 5), dtype, 3), data((2, 3, 4, 5), dtype, 4)
    x[0, 0, 0] = 0
    want = (grad.astype("f8") * np.sign(x.astype("f8"))).astype(x.dtype)
    got = cudml.lp_pooling_grad(x, np.abs(x), grad, 1, p=p)
    assert (got == want).all() and same_bits(got[want != 0], want[want != 0])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-4", "D-GRAD-8")
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d not in ("float32", "float64")])
def test_wide_norms(dtype: str) -> None:
    """float32 norms of 16-bit data: in every layout, and of windows that overflow its type."""
    for p in (1, 2, 3, 6):
        for fields in ({"window_size": (3, 2), "strides": (2, 1)}, {"window_size": (5, 8)}):
            x, _, _ = problem((2, 9, 5, 8), dtype, p, **fields)
            y = forward(x, p, "float32", **fields)
            check("lp_pooling_grad", x, y, data(y.shape, dtype, 5), **fields, p=p)
    x = np.full((1, 1, 4), bounds.FORMATS[dtype].largest).astype(dtype_of(dtype))
    grad = line([3], dtype)
    lost = cudml.lp_pooling_grad(x, line([INF], dtype), grad, 4)
    assert (lost == 0).all()
    kept = cudml.lp_pooling_grad(x[..., :1], x[..., :1].astype("f4"), grad, 1)
    assert kept.ravel().astype("f8").tolist() == [3]
    if dtype == "float16":
        y = forward(x, 2, "float32", window_size=4)
        assert np.isfinite(y).all()
        got = cudml.lp_pooling_grad(x, y, grad, 4).astype("f8")
        np.testing.assert_allclose(got, 1.5, rtol=1e-3)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-5")
def test_ratios_are_limited() -> None:
    x, grad = line([2, -1, NAN]), line([5, 7])
    got = cudml.lp_pooling_grad(x, line([1, 4]), grad, 2, p=9)
    assert got[0, 0, 0] == 5 and np.isnan(got[0, 0, 2])
    assert got[0, 0, 1] == -(5 + 7 / 4**8)
    below = np.nextafter(np.float32(3), np.float32(0))
    got = cudml.lp_pooling_grad(line([3]), line([below]), line([1]), 1, p=LIMIT)
    assert got.tolist() == [[[1]]]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-6")
@pytest.mark.parametrize("dtype", FLOATS)
def test_windows_of_zeros_pass_nothing(dtype: str) -> None:
    x, grad = line([0.0, -0.0, 0.0, 3.0], dtype), line([NAN, INF, 2], dtype)
    y = line([0.0, -0.0, 3.0], dtype)
    for p in (2, 3, 4, 1000):
        got = cudml.lp_pooling_grad(x, y, grad, 2, p=p)
        assert got.astype("f4").tolist() == [[[0, 0, 0, 2]]]
        assert not np.signbit(got.astype("f4")).any()
    got = cudml.lp_pooling_grad(x, y, grad, 2, p=1).astype("f4")
    assert np.isnan(got[0, 0, :3]).all() and got[0, 0, 3] == 2


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-7")
def test_infinities_and_nan() -> None:
    x, y, grad = line([INF, 1, -2, NAN, 4]), line([INF, 5**0.5, NAN, NAN]), line([1, 2, 3, 4])
    got = cudml.lp_pooling_grad(x, y, grad, 2)[0, 0]
    assert np.isnan(got[[0, 2, 3, 4]]).all() and got[1] == pytest.approx(2 / 5**0.5)
    unread = line([NAN] * 4)
    got = cudml.lp_pooling_grad(x, unread, grad, 2, p=1)[0, 0]
    assert got[[0, 1, 2, 4]].tolist() == [1, 3, -5, 4] and np.isnan(got[3])


@pytest.mark.small
@pytest.mark.parametrize("p", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype: str, p: int) -> None:
    """NaN, infinities, zeros and subnormals in all three; y is what a forward pass made of x."""
    for seed, shape, fields in (
        (1, (2, 3, 5, 21), {"window_size": 2, "strides": 2}),
        (2, (2, 3, 7, 20), {"window_size": 3, "strides": 2, "start_padding": 1}),
        (3, (2, 19, 4, 5), {"window_size": (4, 5)}),
    ):
        x = data(shape, dtype, seed, "special")
        y = forward(x, p, **fields)
        check("lp_pooling_grad", x, y, data(y.shape, dtype, seed + 5, "special"), **fields, p=p)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-9a")
@pytest.mark.parametrize("p", [1, 3, 5, 7])
def test_odd_powers_of_negative_data(p: int) -> None:
    x = -np.abs(data((2, 3, 5, 6), "float64", 8))
    y, grad = forward(x, p, window_size=2), data((2, 3, 4, 5), "float64", 9)
    check("lp_pooling_grad", x, y, grad, 2, p=p)
    ours = cudml.lp_pooling_grad(x, y, grad, 2, p=p)
    assert np.isfinite(ours).all()
    assert same_bits(ours, -cudml.lp_pooling_grad(-x, y, grad, 2, p=p))


@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_degenerate_dimensions(dtype: str) -> None:
    for i, axes in enumerate(itertools.product(GEOMETRIES, repeat=2)):
        sizes, how = geometry(axes)
        p = (1, 2, 3, 6)[i % 4]
        x, y, grad = problem((2, 3, *sizes), dtype, p, i, **how)
        check("lp_pooling_grad", x, y, grad, **how, p=p, layouts=[ALL[i % len(ALL)]], seed=i)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_every_width(p: int) -> None:
    for width in [*range(2, 36), 63, 64, 65]:
        for fields in (
            {"window_size": (2, 2), "strides": (2, 2)},
            {"window_size": (3, 2), "strides": (1, 1), "start_padding": (0, 1)},
            {"window_size": (1, 2), "strides": (3, 3), "end_padding": (0, 1)},
            {"window_size": (2, width)},
        ):
            x, y, grad = problem((1, 2, 3, width), "float32", p, width, **fields)
            check("lp_pooling_grad", x, y, grad, **fields, p=p,
                  layouts=["contiguous", "misaligned", "permuted"])  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-2")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_windows_over_one_element(dtype: str, p: int) -> None:
    """All 10^6 windows hold the only element: one chain of float32 sums would be off by 1 %."""
    n = 10**6
    x, share = np.full((1, 2, 1), 3, dtype), np.array([0.1, -0.7], dtype).reshape(1, 2, 1)
    y, grad = np.full((1, 2, n), 3, dtype), np.repeat(share, n, axis=2)
    got = cudml.lp_pooling_grad(x, y, grad, n, 1, n - 1, n - 1, p=p).astype("f8")
    want = n * share.astype("f8")
    assert (np.abs(got - want) <= (4096 + 20) * np.finfo(dtype).eps / 2 * np.abs(want)).all()


LARGE = {
    "rows 2x2": ((40, 8, 40, 76), {"window_size": 2, "strides": 2}, False),
    "rows 3x3": ((21, 8, 41, 75), {"window_size": 3, "strides": 2, "start_padding": 1}, False),
    "global": ((8, 700, 7, 7), {"window_size": 7}, False),
    "channels last": ((4, 130, 17, 18), {"window_size": 3, "strides": 1}, True),
    "dilated": ((9, 8, 40, 60), {"window_size": 3, "strides": 9, "dilations": 4}, False),
}


@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize(("dtype", "p"), [("float32", 3), ("float16", 2), ("bfloat16", 5)])
def test_repetitions_threads_and_slices_have_equal_bits(case: str, dtype: str, p: int) -> None:
    shape, fields, is_last = LARGE[case]
    x, y, grad = problem(shape, dtype, p, **fields)
    if is_last:
        x, y, grad = (np.moveaxis(np.moveaxis(a, 1, -1).copy(), -1, 1) for a in (x, y, grad))
    found = []
    for threads in (1, 2, 5):
        cudml.set_num_threads(threads)
        found += [cudml.lp_pooling_grad(x, y, grad, **fields, p=p) for _ in range(3)]
    assert all(same_bits(found[0], other) for other in found[1:])
    want = bounds.expected("lp_pooling_grad", x, y, grad, **fields, p=p)
    verdict = bounds.compare(found[0], want)
    assert verdict.ok, verdict.message
    for at in (np.s_[:1], np.s_[3:5, 1:3], np.s_[-1:, -7:]):
        part = cudml.lp_pooling_grad(x[at], y[at], grad[at], **fields, p=p)
        assert same_bits(part, found[0][at])
        moved = [np.ascontiguousarray(a[at]) for a in (x, y, grad)]
        assert same_bits(cudml.lp_pooling_grad(*moved, **fields, p=p), found[0][at])


@pytest.mark.core
@pytest.mark.small
def test_scaling_the_gradient_scales_the_result() -> None:
    x, y, grad = problem((2, 3, 9, 8), "float32", 3, window_size=3, strides=2)
    one = cudml.lp_pooling_grad(x, y, grad, 3, 2, p=3)
    assert same_bits(4 * one, cudml.lp_pooling_grad(x, y, 4 * grad, 3, 2, p=3))


@pytest.mark.core
@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_finite_differences(p: int) -> None:
    """The derivative of what lp_pooling computes, in float64 and away from zeros."""
    x = data((2, 3, 5, 6), "float64", 6)
    x += np.where(x < 0, -0.25, 0.25)
    fields = {"window_size": (3, 2), "strides": (2, 1), "start_padding": (1, 0)}
    y, h = cudml.lp_pooling(x, **fields, p=p), 1e-6
    grad = data(y.shape, "float64", 7)
    got = cudml.lp_pooling_grad(x, y, grad, **fields, p=p)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        rise = cudml.lp_pooling(up, **fields, p=p) - cudml.lp_pooling(down, **fields, p=p)
        assert got[i] == pytest.approx(float((grad * rise).sum()) / (2 * h), abs=2e-7)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-20")
@pytest.mark.parametrize("shape", [(0, 3, 6), (2, 0, 4, 5), (0, 0, 3, 4, 5)])
def test_empty_batches(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, "f4")
    y = np.zeros((*shape[:2], *(n - 1 for n in shape[2:])), "f4")
    got = cudml.lp_pooling_grad(x, y, y, 2)
    assert got.shape == shape and got.dtype == x.dtype
    out = np.empty(shape, "f4")
    assert cudml.lp_pooling_grad(x, y, y, 2, out=out) is out


X, Y = data((2, 3, 5, 7), "float32", 1), data((2, 3, 4, 6), "float32", 2)
REFUSED: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "x is no array": (TypeError, "x", {"x": object()}),
    "integers": (TypeError, "InputTensor.DataType is int32", {"x": X.astype("i4")}),
    "rank 2": (ValueError, "InputTensor.DimensionCount is 2; it must be 3, 4", {"x": X[0, 0]}),
    "rank 6": (ValueError, "InputTensor.DimensionCount is 6", {"x": X[None, None]}),
    "rank of grad": (ValueError, "InputGradientTensor.DimensionCount is 3; it must be 4",
                     {"grad": Y[0], "y": Y[0]}),
    "type of grad": (TypeError, "InputGradientTensor.DataType is float16",
                     {"grad": Y.astype("f2")}),
    "batch of grad": (ValueError, "InputGradientTensor.Sizes[0] is 1; it must be 2",
                      {"grad": Y[:1], "y": Y[:1]}),
    "size of grad": (ValueError, "InputGradientTensor.Sizes[3] is 7; it must be between 1 and 6",
                     {"grad": X[:, :, :4], "y": X[:, :, :4]}),
    "type of y": (TypeError, "OutputTensor.DataType is float64; it must be that of InputTensor, "
                  "float32", {"y": Y.astype("f8")}),
    "narrow y": (TypeError, "OutputTensor.DataType is float16", {"y": Y.astype("f2")}),
    "sizes of y": (ValueError, "OutputTensor.Sizes[3] is 5; it must be 6, as in "
                   "InputGradientTensor", {"y": Y[..., :5]}),
    "rank of y": (ValueError, "OutputTensor.DimensionCount is 3", {"y": Y[0]}),
    "window": (ValueError, "WindowSize[0] is 6", {"window_size": 6}),
    "strides": (ValueError, "Strides", {"strides": 0}),
    "p of 0": (ValueError, "P is 0; it must be between 1 and 4294967295", {"p": 0}),
    "p of 2^32": (ValueError, "P is 4294967296", {"p": 2**32}),
    "p no integer": (TypeError, "P is 2.0", {"p": 2.0}),
    "out of another type": (TypeError, "OutputGradientTensor", {"out": np.zeros(X.shape, "f8")}),
    "out of another shape": (ValueError, "OutputGradientTensor", {"out": np.zeros(Y.shape, "f4")}),
}  # fmt: skip


@pytest.mark.core
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    error, text, changes = REFUSED[case]
    place = guarded(X.shape, X.dtype, "S")
    before = place.view.copy()
    call = {"x": X, "y": Y, "grad": Y, "window_size": 2, "out": place.view, **changes}
    with refused(error, "lp_pooling_grad: ", text):
        cudml.lp_pooling_grad(**call)
    assert not place.damage() and same_bits(place.view, before)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-21")
def test_out_shares_memory_with_no_input() -> None:
    room = np.zeros((2, 3, 5, 8), "f4")
    x, part = room[..., :7], room[:, :, :4, 1:7]
    for call in ({"x": x, "out": x}, {"y": part, "out": x}, {"grad": part, "out": x}):
        with refused(ValueError, "lp_pooling_grad: ", "OutputGradientTensor"):
            cudml.lp_pooling_grad(**{"x": X, "y": Y, "grad": Y, "window_size": 2, **call})
    assert not room.any()


def test_explained() -> None:
    e = cudml.explain("lp_pooling_grad", X, Y, Y, 2, p=3)
    assert e.kernel.startswith("pool_grad/lp_") and e.pooled_axes == (2, 3)
    assert e.bytes == 4 * (2 * X.size + 2 * Y.size) and e.workspace_bytes == 0
    assert cudml.explain("lp_pooling_grad", X, Y, Y, 2, p=1).bytes == e.bytes - 4 * Y.size
    wide = cudml.explain("lp_pooling_grad", X.astype("f2"), Y, Y.astype("f2"), 2)
    assert wide.bytes == 2 * (2 * X.size + Y.size) + 4 * Y.size
