"""The gradient of Lp pooling: the specification's examples, loops in plain Python, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import harness
from cudml import bounds, reference

nan, inf = math.nan, math.inf
Y = [[1, -2, 3], [-4, 5, -6], [7, -8, 9]]
G = [[1, 2], [3, 4]]


def row(values: Any, dtype: str = "float64") -> np.ndarray:
    return np.array(values, dtype).reshape(1, 1, *np.shape(values))


def gradient(x: Any, y: Any, grad: Any, window: Any, *fields: Any, **more: Any) -> np.ndarray:
    """lp_pooling_grad of one plane; y of None is the forward result."""
    x, grad = row(x), row(grad)
    if y is None:
        more_sizes = {"output_sizes": grad.shape[2:]}
        y = reference.lp_pooling(x, window, *fields, **more, **more_sizes)
    else:
        y = row(y)
    return reference.lp_pooling_grad(x, y, grad, window, *fields, **more)[0, 0]


EXAMPLES = {
    "LG1": (([3, -4, 0, 0], [5, 4, 0], [10, 8, 7], 2), {"p": 2}, [6, -16, 0, 0]),
    "LG2": ((Y, None, G, 2), {"p": 1}, [[1, -3, 2], [-4, 10, -6], [3, -7, 4]]),
    "LG8": (([inf, 1], [inf], [1], 2), {"p": 2}, [nan, 0]),
    "LG8 p=1": (([inf, 1], [inf], [1], 2), {"p": 1}, [1, 1]),
    "LG9": (([nan, 1], [nan], [1], 2), {"p": 2}, [nan, nan]),
    "LG9 p=1": (([nan, 1], [nan], [1], 2), {"p": 1}, [nan, 1]),
    "LG10": (([2, 1], [1], [5], 2), {"p": 9}, [5, 5]),
    "LG11": (([0, 0, 3], [0, 3], [nan, 2], 2), {"p": 2}, [0, 0, 2]),
    "LG12": (([5], [0, 5, 5, 0], [9, 1, 2, 9], 2, 1, 2, 2), {"p": 2}, [3]),
    "a zero tap of a window that is not zero": (([0, 3], [3], [inf], 2), {"p": 2}, [nan, inf]),
    "zeros and p=1": (([0.0, -0.0], [0], [nan], 2), {"p": 1}, [nan, nan]),
}
PRINTED = {
    "LG3": (
        (Y, None, G, 2), {"p": 2},
        [[0.147442, -0.759874, 0.697486], [-1.556755, 4.501887, -3.067131],
         [1.692228, -4.163521, 2.508239]],
    ),
    "LG4": (
        (Y, None, G, 2), {"p": 3},
        [[0.029437, -0.271314, 0.345526], [-0.937405, 3.161028, -2.442720],
         [1.428402, -3.751207, 2.386386]],
    ),
    "LG5": (
        (Y, None, G, 2, 2, 1, 1), {"p": 2},
        [[1, -1.109400, 1.664101], [-1.488417, 1.393466, -1.672159],
         [2.604729, -2.229546, 2.508239]],
    ),
    "LG6": ((Y, None, [[11.832160]], 2, 1, 0, 0, 2), {"p": 2}, [[1, 0, 3], [0, 0, 0], [7, 0, 9]]),
    "LG7": (([1, 1], None, [1], 2), {"p": 1000}, [0.500347] * 2),
    "LG7 rounded y": (([1, 1], [1.0009765625], [1], 2), {"p": 1000}, [0.377151] * 2),
    "LG7 large": (([1e5] * 4, None, [1], 4), {"p": 8}, [0.297302] * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_exact_example(name: str) -> None:
    arguments, more, want = EXAMPLES[name]
    np.testing.assert_array_equal(gradient(*arguments, **more), want)


@pytest.mark.parametrize("name", PRINTED)
def test_printed_example(name: str) -> None:
    arguments, more, want = PRINTED[name]
    assert np.abs(gradient(*arguments, **more) - want).max() <= 0.5000001e-6


def loop(x: Any, y: Any, grad: Any, fields: Any, p: int) -> np.ndarray:
    """The definition, tap after tap."""
    window, strides, start, _, dilations = fields
    dx = np.zeros(x.shape)
    for o in itertools.product(*map(range, grad.shape)):
        for k in itertools.product(*map(range, window)):
            at = [
                o[i + 2] * strides[i] - start[i] + k[i] * dilations[i] for i in range(len(window))
            ]
            if all(0 <= c < n for c, n in zip(at, x.shape[2:], strict=True)) and (p == 1 or y[o]):
                i = (*o[:2], *at)
                rho = 1.0 if p == 1 else min(abs(x[i]) / y[o], 1.0) ** (p - 1)
                dx[i] += grad[o] * np.sign(x[i]) * rho
    return dx


def drawn(seed: int) -> tuple[np.ndarray, Any]:
    """Data of rank 3 to 5 with zeros, and fields that differ from axis to axis."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 4))
    while True:
        sizes, window, strides, dilations = (rng.integers(1, n, m) for n in (6, 4, 4, 4))
        start, end = rng.integers(0, 4, (2, m))
        if (1 + (window - 1) * dilations <= sizes + start + end).all():
            break
    x = rng.integers(-4, 5, (2, 3, *sizes)).astype(float)
    return x, tuple(f.tolist() for f in (window, strides, start, end, dilations))


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_plain_loops(seed: int) -> None:
    x, fields = drawn(seed)
    for p in (1, 2, 3, 4, 5, 7, 16, 1000):
        for rule in (None, "ceil"):
            y = reference.lp_pooling(x, *fields, p=p, output_sizes=rule)
            grad = np.random.default_rng(seed).standard_normal(y.shape)
            got = reference.lp_pooling_grad(x, y, grad, *fields, p=p)
            np.testing.assert_allclose(got, loop(x, y, grad, fields, p), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
def test_is_the_slope_of_lp_pooling(p: int) -> None:
    rng = np.random.default_rng(p)
    x = rng.uniform(0.5, 2, (2, 2, 4, 5)) * rng.choice([-1, 1], (2, 2, 4, 5))
    fields = ((3, 2), (2, 1), (1, 0), (0, 1), (1, 2))
    grad = rng.standard_normal(reference.lp_pooling(x, *fields, p=p).shape)
    y = reference.lp_pooling(x, *fields, p=p)
    dx = reference.lp_pooling_grad(x, y, grad, *fields, p=p)
    step = 2.0**-17
    for at in itertools.islice(np.ndindex(x.shape), 0, None, 7):
        up, down = x.copy(), x.copy()
        up[at], down[at] = x[at] + step, x[at] - step
        rise = reference.lp_pooling(up, *fields, p=p) - reference.lp_pooling(down, *fields, p=p)
        assert (rise * grad).sum() / (2 * step) == pytest.approx(dx[at], rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("p", [2, 3, 4, 7])
def test_agrees_with_torch_on_composed_operations(p: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(p)
    x, grad = rng.standard_normal((2, 3, 6, 7)), rng.standard_normal((2, 3, 2, 5))
    t = torch.tensor(x, requires_grad=True)
    windows = t.unfold(2, 3, 3).unfold(3, 3, 1)
    y = windows.abs().pow(p).sum((-2, -1)).pow(1 / p)
    y.backward(torch.tensor(grad))
    want = reference.lp_pooling(x, 3, (3, 1), p=p)
    got = reference.lp_pooling_grad(x, want, grad, 3, (3, 1), p=p)
    np.testing.assert_allclose(got, t.grad.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("p", [1, 2, 3, 16, 1000, 2**32 - 1])
def test_a_window_of_one_passes_the_gradient_with_the_sign(p: int) -> None:
    x = harness.data((2, 3, 4, 5), "float32", p % 7)
    grad = harness.data(x.shape, "float32", 3)
    got = reference.lp_pooling_grad(x, np.abs(x), grad, 1, p=p)
    assert got.astype("f4").tobytes() == (np.sign(x) * grad).tobytes()
    want = bounds.expected("lp_pooling_grad", x, np.abs(x), grad, 1, p=p)
    assert (want.bounds[0] == 0).all()


def test_four_times_the_gradient_gives_four_times_the_result() -> None:
    x, grad = harness.data((2, 3, 6, 5), "float64", 1), harness.data((2, 3, 5, 4), "float64", 2)
    y = reference.lp_pooling(x, 2, p=5)
    one = reference.lp_pooling_grad(x, y, grad, 2, p=5)
    assert (4 * one).tobytes() == reference.lp_pooling_grad(x, y, 4 * grad, 2, p=5).tobytes()


def test_y_is_data_and_may_be_wider() -> None:
    x, grad = np.ones((1, 1, 2), "f2"), np.ones((1, 1, 1), "f2")
    y = np.full((1, 1, 1), 2.0**0.5)
    wide = reference.lp_pooling_grad(x, y.astype("f4"), grad, 2)
    narrow = reference.lp_pooling_grad(x, y.astype("f2"), grad, 2)
    assert wide[0, 0, 0] == 1 / float(np.float32(2.0**0.5)) != narrow[0, 0, 0]
    overflowed = reference.lp_pooling_grad(x, np.full((1, 1, 1), inf, "f2"), grad, 2)
    assert (overflowed == 0).all()  # D-GRAD-8
    assert np.shape(reference.lp_pooling_grad(x, -y.astype("f4"), grad, 2)) == x.shape  # no fault


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4, 5)])
def test_empty_batches(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    y = reference.lp_pooling(x, 2)
    assert reference.lp_pooling_grad(x, y, y, 2).shape == shape


X, GRAD = harness.data((2, 3, 6, 7), "float16", 1), harness.data((2, 3, 5, 6), "float16", 2)
REFUSED = [
    (TypeError, "InputTensor", {"x": X.tolist()}),
    (TypeError, "InputTensor.DataType is int32", {"x": X.astype("i4")}),
    (ValueError, "InputTensor.DimensionCount is 2; it must be 3, 4 or 5",
     {"x": X[0, 0], "grad": GRAD[0, 0]}),
    (ValueError, "InputTensor.DimensionCount is 6", {"x": X[None, None], "grad": GRAD[None, None]}),
    (ValueError, "InputGradientTensor.DimensionCount is 3", {"grad": GRAD[0]}),
    (TypeError, "InputGradientTensor.DataType is float32", {"grad": GRAD.astype("f4")}),
    (ValueError, "InputGradientTensor.Sizes", {"grad": GRAD[:1]}),
    (ValueError, "OutputTensor.Sizes[2] is 6; it must be between 1 and 5", {"grad": X}),
    (TypeError, "OutputTensor.DataType is float64", {"y": GRAD.astype("f8")}),
    (TypeError, "OutputTensor is a NoneType", {"y": None}),
    (ValueError, "OutputTensor.Sizes are (1, 3, 5, 6); they must be (2, 3, 5, 6)", {"y": GRAD[:1]}),
    (ValueError, "WindowSize[0] is 0", {"window_size": 0}),
    (ValueError, "WindowSize[1] is 9 with", {"window_size": (2, 9)}),
    (TypeError, "Strides[0] is 1.5", {"strides": 1.5}),
    (ValueError, "StartPadding[1] is -1", {"start_padding": (0, -1)}),
    (ValueError, "EndPadding has 3 entries", {"end_padding": (0, 0, 0)}),
    (ValueError, "Dilations[0] is 0", {"dilations": 0}),
    (ValueError, "P is 0; it must be between 1 and 4294967295", {"p": 0}),
    (TypeError, "P is 2.0", {"p": 2.0}),
    (TypeError, "axes", {"axes": (2, 3)}),
]  # fmt: skip


@pytest.mark.parametrize("error, text, fields", REFUSED, ids=lambda v: v if type(v) is str else "")
def test_refusal(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    call = {"x": X, "y": GRAD, "grad": GRAD, "window_size": 2, **fields}
    prefix = "" if "axes" in fields else "lp_pooling_grad: "
    with harness.refused(error, prefix, text):
        reference.lp_pooling_grad(**call)
    with harness.refused(error, text):
        bounds.expected("lp_pooling_grad", **call)


def test_float32_has_no_wider_y() -> None:
    x, grad = X.astype("f4"), GRAD.astype("f4")
    reference.lp_pooling_grad(x, grad, grad, 2)
    reference.lp_pooling_grad(X, grad, GRAD, 2)
    with harness.refused(TypeError, "OutputTensor.DataType is float64; it must be float32"):
        reference.lp_pooling_grad(x, grad.astype("f8"), grad, 2)
