"""The bounds are those that are written down: small calls, and E worked out beside them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cudml.bounds import compare, expected
from cudml.bounds.derivatives import slope_bound
from cudml.reference.numbers import FORMATS

U = 2.0**-24  # of FLOAT32
LARGEST = float(np.finfo(np.float32).max)


def row(*values: float) -> np.ndarray:
    """One row of one channel."""
    return np.array([[values]], np.float32)


def bound(op: str, *args: Any, **kwargs: Any) -> np.ndarray:
    """E of the first output, flattened."""
    error = expected(op, *args, **kwargs).bounds[0]
    assert error is not None
    return error.reshape(-1)


def near(got: Any, *want: float) -> bool:
    """Equal but for what stands for subnormal numbers, far below these."""
    return np.allclose(got, want, rtol=1e-5, atol=0)


def test_average_pooling() -> None:
    """(m + 1)*u*sum|x|/d of m terms."""
    assert near(bound("average_pooling", row(1, -3, 5), 2), 3 * U * 2, 3 * U * 4)
    # Of chains of 4096, whose sums are added by twos.
    assert near(bound("average_pooling", np.ones((1, 1, 8192), np.float32), 8192), U * 4110)
    padded = bound("average_pooling", row(1, -3), 2, 1, 1, include_padding=True)
    assert near(padded, 2 * U * 0.5, 3 * U * 2)
    # The middle element is in two windows, the others in one.
    grad = bound("average_pooling_grad", row(6, -4), (1, 1, 3), 2)
    assert near(grad, 2 * U * 3, 3 * U * 5, 2 * U * 2)


def test_average_gradients_of_subnormals() -> None:
    """A window's share may be rounded to a subnormal, once for each window that has one."""
    tiny = 2.0**-149
    got = bound("average_pooling_grad", row(*[4 * tiny] * 4), (1, 1, 5), 2)
    assert near(got, *(n * tiny for n in (1, 2, 2, 2, 1)))


def test_max_gradients() -> None:
    """(m - 1)*u*sum|grad| over the windows that chose the element."""
    grad = bound("max_pooling_grad", row(1, 9, 2), row(6, -4), 2)
    assert near(grad, 0, U * 10, 0)


@pytest.mark.parametrize("p, extra", [(1, 2 / 1 + 4), (2, 4 / 2 + 4), (3, None), (4, None)])
def test_lp_pooling(p: int, extra: float | None) -> None:
    """|y|*u*((m - 1 + q)/P + r + L), q = 2*ceil(log2 P) + 1; r = 4, L = 0 up to P = 2, else r = 12,
    L = |ln y| + ln m."""
    y = (3.0**p + 4.0**p) ** (1 / p)
    if extra is None:
        extra = (1 + 5) / p + 12 + math.log(y) + math.log(2)
    assert near(bound("lp_pooling", row(3, -4), 2, p=p), y * U * extra)


def test_lp_gradients() -> None:
    """u*sum t*(2(p - 1) + 8 + 2*|ln rho|) + (c - 1)*u*sum t, t = |grad|*rho of c terms."""
    rho = [0.6**3, 0.8**3]
    error = [U * 10 * r * (6 + 8 + 2 * abs(math.log(r))) for r in rho]
    assert near(bound("lp_pooling_grad", row(3, -4), row(5), row(-10), 2, p=4), *error)
    # One element in two windows of its own size and three times that.
    of_two = 2 * U * (1 / 3) * (2 + 8 + 2 * math.log(3)) + U * (2 / 3 + 5)
    got = bound("lp_pooling_grad", row(0, 1, 0), row(3, 1), row(2, 5), 2, p=2)
    assert near(got[1], of_two)
    assert near(bound("lp_pooling_grad", row(1, 1, 1), row(2, 2), row(2, -5), 2, p=1), 0, U * 7, 0)


def test_padding_gradients() -> None:
    """(c - 1)*u*sum|grad| of c terms; in constant mode the very values."""
    grad = np.array([1, -2, 4, 8], np.float32)
    assert near(bound("padding_grad", grad, (2,), 1, 1, mode="edge"), U * 3, U * 12)
    exact = expected("padding_grad", grad, (2,), 1, 1, mode="constant")
    assert exact.rules == ["equal"] and exact.exact == [True]
    assert exact.values[0].tolist() == [-2, 4] and exact.bounds[0].tolist() == [0, 0]


def test_given_statistics() -> None:
    """8u*|z| + u^2*|mean|*r, and |scale| of that and 3u*(|scale*z| + |bias|)."""
    mean = np.array([2.0**20], np.float32)
    x, variance = mean + 2, np.array([4], np.float32)
    z = 8 * U + U * U * 2.0**19
    assert near(bound("normalize", x, mean, variance, epsilon=0), z)
    assert near(bound("normalize", x, mean, None, epsilon=0), 16 * U + U * U * 2.0**20)
    affine = {"scale": np.array([-3], np.float32), "bias": np.array([2], np.float32)}
    assert near(bound("normalize", x, mean, variance, **affine, epsilon=0), 3 * z + 3 * U * 5)
    scale = {"scale": affine["scale"]}
    assert near(bound("normalize", x, mean, variance, **scale, epsilon=0), 3 * z + 9 * U)


def test_gradients_of_a_scale() -> None:
    """sum(Eh*|z| + |h|*Ez + u*|h*z|) + (k - 1)*u*sum|h*z| with Eh = 16u*|f'|, of k = 3 terms.

    Ez = u*(|z| + (k + 2)*mean|z|) + (k*u)^2*|mean| without variance, u*(k/2 + 6)*|z| without mean.
    """
    x, one = np.array([1, 5, 6], np.float32), np.ones(1, np.float32)
    options = {"axes": 0, "activation": ("linear", {"alpha": 2, "beta": 0}), "epsilon": 0}

    def of_scale(**more: bool) -> Any:
        grad = np.ones(3, np.float32)
        return expected("mean_variance_normalization_grad", x, grad, one, **options, **more)

    size = 12 / math.sqrt(62 / 3)  # of all z together
    assert near(of_scale(use_mean=False).bounds[1], U * size * (32 + 2 * 7.5 + 2 + 2 * 2))
    own = 6 + 3 * 5 * 2  # sum|z| is 6
    assert near(of_scale(use_variance=False).bounds[1], U * (32 * 6 + 2 * own + 12 + 2 * 12))


def test_what_stands_for_subnormal_numbers() -> None:
    """It widens the bound, also where z is 0: the mean and the inverse root may be so small."""
    x, variance = np.array([0], np.float32), np.array([0.25], np.float32)
    assert bound("normalize", x, x, variance, epsilon=0).tolist() == [2.0**-149 * (1 + 2 / 0.5)]


def test_statistics() -> None:
    """mean: u*(c + 2)*mean|x - mean| + (u*c)^2*|mean|; M2: u*(c + 8)*M2 + N*((u*c)^2*|mean|)^2."""
    x = np.array([1, 5, 6], np.float32)
    count, mean, squares = expected("normalization_statistics", x, axes=0).bounds
    assert count.tolist() == [0]
    assert near(mean, U * 5 * 2 + 9 * U * U * 4)
    assert near(squares, U * 11 * 14 + 3 * (9 * U * U * 4) ** 2)


@pytest.mark.parametrize("dtype, u", [("float32", U), ("float64", 2.0**-53)])
def test_merges(dtype: str, u: float) -> None:
    """mean: 4u*(|ma| + |mb|); M2: 8u*M2 + 4u*|d|*(|ma| + |mb|)*na*nb/n."""
    a, b = ([np.array([v], dtype) for v in part] for part in ((2, -1.5, 0.5), (6, 2.5, 4)))
    count, mean, squares = expected("merge_statistics", a, b).bounds
    assert count.tolist() == [0] and near(mean, 4 * u * 4)
    assert near(squares, 8 * u * (4.5 + 16 * 1.5) + 4 * u * 4 * 4 * 1.5)


@pytest.mark.parametrize("mean, is_claimed", [(1e18, True), (-3e19, False)])
def test_merges_whose_distance_has_no_square(mean: float, is_claimed: bool) -> None:
    """9e38 is beyond FLOAT32: what becomes of it and a weight of 1 is left open."""
    a, b = ([np.array([v], np.float32) for v in part] for part in ((2, 0, 1), (2, mean, 1)))
    _, of_mean, of_squares = expected("merge_statistics", a, b).bounds
    assert np.isfinite(of_mean).all() and np.isfinite(of_squares).tolist() == [is_claimed]


def test_sums_that_may_overflow() -> None:
    """No claim from the largest number on, less a thousandth, in which a chain's errors lie."""
    for share, is_claimed in ((0.498, True), (0.4997, False), (0.5, False), (0.6, False)):
        error = bound("average_pooling", row(share * LARGEST, share * LARGEST), 2)
        assert np.isfinite(error).tolist() == [is_claimed]
    for share, is_claimed in ((0.498, True), (0.4997, False)):
        x, line = np.array([share * LARGEST], np.float32), {"alpha": 2, "beta": -LARGEST / 2}
        error = bound("normalize", x, None, None, activation=("linear", line))
        assert np.isfinite(error).tolist() == [is_claimed]


def test_only_steps_have_another_side() -> None:
    def others(name: Any) -> list[Any]:
        x = np.array([0.5, 1, 3], np.float32)
        return expected("mean_variance_normalization", x, axes=0, activation=name).others

    for name in ("relu", "sigmoid", "hard_sigmoid", ("linear", {"alpha": 1, "beta": 0}), None):
        assert others(name) == []
    for name in ("thresholded_relu", "shrink"):
        assert len(others(name)) == 2


def test_a_slope_between_two_kinks() -> None:
    """v is left of both, where hard_swish is flat; between them its slope goes down to -beta."""
    v, error = np.array([-0.03]), np.array([0.025])
    parameters = [100.0, 2.0]  # the kinks are at -0.02 and -0.01, and 1 is the slope after them
    own = 1e-6 * 100**2  # of the slope's evaluation
    for reach, jump in ((error, 2), (error / 5, 0)):
        assert near(slope_bound(v, reach, "hard_swish", parameters, FORMATS["float32"]), jump + own)


def test_the_largest_error_of_an_exact_result() -> None:
    """Of the finite ones: an infinity or a NaN in the wrong place has no size."""
    want = expected("padding", np.array([1, 2, 4], np.float32), 0, 0)
    verdict = compare(np.array([np.inf, 2.25, np.nan], np.float32), want)
    assert not verdict.ok and verdict.largest_error == 0.25
    verdict = compare(np.array([np.inf, 2, np.nan], np.float32), want)
    assert not verdict.ok and verdict.largest_error == 0
