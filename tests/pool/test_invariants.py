"""Properties of the pooling operators that need no reference, bit for bit where they can be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cudml
from harness import FLOATS, INTEGERS, data
from pool_support import EVERY, channels_last, same_bits

FORWARD = ("max_pooling", "average_pooling", "lp_pooling")
ODD: dict[str, Any] = {
    "window_size": (2, 3),
    "strides": (2, 1),
    "start_padding": (1, 0),
    "end_padding": (0, 2),
    "dilations": (1, 2),
}


def swapped(geometry: dict[str, Any]) -> dict[str, Any]:
    return {
        **geometry,
        "start_padding": geometry["end_padding"],
        "end_padding": geometry["start_padding"],
    }


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, t) for n in FORWARD for t in EVERY if n == "max_pooling" or t in FLOATS],
)
def test_window_of_one_is_the_identity(name: str, dtype: str) -> None:
    kind = "exact" if name == "lp_pooling" else "random"
    x = data((2, 3, 5, 7), dtype, seed=1, kind=kind)
    p = {"p": 1} if name == "lp_pooling" else {}
    result = getattr(cudml, name)(x, 1, **p)
    wanted = np.abs(x) if name == "lp_pooling" else x
    if name == "average_pooling":
        wanted = x + 0  # -0 may come out as +0
        result = result + 0
    assert same_bits(result, wanted.astype(x.dtype))


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_window_of_one_keeps_every_bit(dtype: str) -> None:
    x = data((2, 3, 5, 7), dtype, seed=1, kind="special")
    y, index = cudml.max_pooling(x, 1, return_indices=True)
    assert same_bits(y, x) and index.ravel().tolist() == list(range(x.size))


@pytest.mark.small
@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_permuting_batches_and_channels_permutes_the_result(name: str, dtype: str) -> None:
    x = data((4, 5, 7, 9), dtype, seed=2)
    y = getattr(cudml, name)(x, **ODD)
    batches, channels = [2, 0, 3, 1], [4, 2, 0, 1, 3]
    moved = np.ascontiguousarray(x[batches][:, channels])
    assert same_bits(getattr(cudml, name)(moved, **ODD), y[batches][:, channels])


@pytest.mark.small
@pytest.mark.parametrize("name", FORWARD)
def test_changing_one_plane_changes_no_other(name: str) -> None:
    for layout in (np.ascontiguousarray, channels_last, np.asfortranarray):
        x = data((3, 17, 7, 9), "float32", seed=3)
        before = getattr(cudml, name)(layout(x), **ODD)
        x[1, 7] = np.nan
        after = getattr(cudml, name)(layout(x), **ODD)
        untouched = np.ones((3, 17), bool)
        untouched[1, 7] = False
        assert same_bits(after[untouched], before[untouched])


@pytest.mark.parametrize("name", FORWARD)
def test_one_image_of_many(name: str) -> None:
    x = data((64, 3, 7, 9), "float32", seed=4)
    whole = getattr(cudml, name)(x, **ODD)
    for image in (0, 13, 63):
        assert same_bits(
            getattr(cudml, name)(x[image : image + 1], **ODD), whole[image : image + 1]
        )
    grad = data(whole.shape, "float32", seed=5)
    spread = cudml.max_pooling_grad(x, grad, **ODD)
    shares = cudml.average_pooling_grad(grad, x.shape, **ODD)
    one = slice(13, 14)
    assert same_bits(cudml.max_pooling_grad(x[one], grad[one], **ODD), spread[one])
    assert same_bits(cudml.average_pooling_grad(grad[one], (1, *x.shape[1:]), **ODD), shares[one])


@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", *INTEGERS])
def test_reversing_an_axis_reverses_the_maxima(dtype: str) -> None:
    x = data((2, 3, 7, 10), dtype, seed=6)
    # The last window ends at the padded end, so that the reversed windows are the same ones.
    geometry = dict(ODD, strides=(2, 3), end_padding=(0, 1))
    y = cudml.max_pooling(x, **geometry)
    back = cudml.max_pooling(np.ascontiguousarray(x[:, :, ::-1, ::-1]), **swapped(geometry))
    assert same_bits(back[:, :, ::-1, ::-1], y)


@pytest.mark.small
@pytest.mark.parametrize("name", FORWARD)
def test_moving_by_a_stride_moves_the_result(name: str) -> None:
    x = data((2, 2, 3, 40), "float32", seed=7)
    geometry: dict[str, Any] = {"window_size": (2, 3), "strides": (1, 4), "dilations": (1, 2)}
    y = getattr(cudml, name)(x, **geometry)
    shifted = getattr(cudml, name)(np.ascontiguousarray(x[..., 8:]), **geometry)
    padded = getattr(cudml, name)(x, **geometry, start_padding=(0, 8))
    for moved, still in ((shifted, y[..., 2:]), (padded[..., 2:], y)):
        if name == "max_pooling":
            assert same_bits(moved, still)
        np.testing.assert_allclose(moved, still, rtol=0, atol=2e-6 * np.abs(x).max())


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_maximum_average_and_norms_are_ordered(dtype: str) -> None:
    x = data((2, 3, 8, 9), dtype, seed=8)
    largest = cudml.max_pooling(x, (3, 2)).astype(np.float64)
    mean = cudml.average_pooling(x, (3, 2)).astype(np.float64)
    slack = 1 + 2.0 ** {"float16": -10, "bfloat16": -7}.get(dtype, -21)
    assert np.all(mean <= largest + (slack - 1) * np.abs(x.astype(np.float64)).max())
    magnitude = cudml.max_pooling(np.abs(x), (3, 2)).astype(np.float64)
    norms = [cudml.lp_pooling(x, (3, 2), p=p).astype(np.float64) for p in (1, 2, 3, 4, 8, 50)]
    for high, low in pairwise([*norms, magnitude]):
        assert np.all(low <= high * slack)


@pytest.mark.small
def test_average_gradient_is_the_transpose() -> None:
    for include in (False, True):
        x = data((2, 3, 8, 9), "float64", seed=9)
        y = cudml.average_pooling(x, **ODD, include_padding=include)
        grad = data(y.shape, "float64", seed=10)
        back = cudml.average_pooling_grad(grad, x.shape, **ODD, include_padding=include)
        np.testing.assert_allclose((y * grad).sum(), (x * back).sum(), rtol=1e-12)


@pytest.mark.small
def test_gradients_keep_the_sum() -> None:
    x = data((2, 3, 8, 9), "float32", seed=11)
    y = cudml.max_pooling(x, **ODD)
    grad = data(y.shape, "float32", seed=12, kind="exact")
    assert cudml.max_pooling_grad(x, grad, **ODD).sum() == grad.sum()
    shares = cudml.average_pooling_grad(grad, x.shape, **ODD)
    np.testing.assert_allclose(shares.sum(dtype=np.float64), grad.sum(), atol=1e-4)


@pytest.mark.core
@pytest.mark.small
def test_finite_differences_of_the_maximum() -> None:
    rng = np.random.default_rng(13)
    x = rng.permutation(2 * 5 * 6).astype(np.float64).reshape(1, 2, 5, 6)
    y = cudml.max_pooling(x, **ODD)
    grad = rng.standard_normal(y.shape)
    back = cudml.max_pooling_grad(x, grad, **ODD)
    step = 2.0**-10
    for place in np.ndindex(x.shape):
        moved = x.copy()
        moved[place] += step
        change = ((cudml.max_pooling(moved, **ODD) - y) * grad).sum() / step
        np.testing.assert_allclose(back[place], change, atol=1e-9)


@pytest.mark.small
@pytest.mark.parametrize("name", FORWARD)
def test_layouts_of_the_same_values(name: str) -> None:
    x = data((2, 16, 9, 11), "float32", seed=14, kind="exact")
    expected = getattr(cudml, name)(x, **ODD)
    for layout in (channels_last, np.asfortranarray):
        y = getattr(cudml, name)(layout(x), **ODD)
        if name == "lp_pooling":
            np.testing.assert_allclose(y, expected, rtol=3e-7)
        else:
            assert same_bits(y, expected)
