"""The gradient of normalization where grad or dx stand in another order than x."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import in_order
from backends import CPU
from harness import check, data
from mvn_support import bits
from pool_support import FLOATS

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/copied"
gradient: Any = cudml.mean_variance_normalization_grad
FIRST, LAST, TURNED = (0, 1, 2, 3), (0, 2, 3, 1), (1, 3, 0, 2)
AXES = ((0, 2, 3), (2, 3), (1,), (1, 2, 3), (0,), (1, 3))
ACTIVATIONS: tuple[Any, ...] = (None, "relu", "swish", "gelu")
SHAPE = (3, 18, 5, 20)


def kernel(given: dict[str, Any], **how: Any) -> str:
    return str(cudml.explain(OP, **given, **how, device="cpu").kernel)


def arrays(dtype: str, axes: tuple[int, ...], has_parameters: bool) -> dict[str, Any]:
    """x, grad, and parameters of each channel."""
    given = {"x": data(SHAPE, dtype, 1), "grad": data(SHAPE, dtype, 2)}
    sizes = (1, SHAPE[1], 1, 1)
    if has_parameters:
        given |= {"scale": data(sizes, dtype, 3), "bias": data(sizes, dtype, 4)}
    return given


def same(got: Any, want: Any) -> None:
    for part, full in zip(got, want, strict=True):
        assert (part is None) == (full is None)
        if part is not None:
            np.testing.assert_array_equal(bits(part), bits(full))


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_the_bits_of_arrays_that_stand_alike(axes: tuple[int, ...], dtype: str) -> None:
    """Whatever order grad and dx have: the result is that of copies in x's order, and right."""
    paths = set()
    rotation = itertools.cycle(ACTIVATIONS)
    for of_x, of_grad, of_dx in itertools.product((FIRST, LAST, TURNED), repeat=3):
        given = arrays(dtype, axes, of_dx != LAST)
        given["x"], given["grad"] = (
            in_order(given["x"], of_x), in_order(given["grad"], of_grad),
        )  # fmt: skip
        how = {"axes": axes, "activation": next(rotation)}
        dx = in_order(np.full(SHAPE, 7, given["x"].dtype), of_dx)
        alike = {**given, "grad": in_order(given["grad"], of_x)}
        want = gradient(**alike, **how)
        got = gradient(**given, **how, out=(dx, None, None))
        assert got[0] is dx
        path = kernel(given, **how, out=(dx, None, None))
        if path == PATH:
            same(got[:1], want[:1])  # totals are added up in the order of all groups
        paths.add(path)
        if of_dx == FIRST:
            check(OP, layouts=("contiguous",), backend=CPU, out=False, **given, **how)
    assert len(paths) > 1 and PATH in paths


@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", [FIRST, LAST], ids=["first", "last"])
def test_gradients_that_repeat_one_element(order: tuple[int, ...], dtype: str) -> None:
    """As those of sums and means are, expanded along what was summed up."""
    given = arrays(dtype, (0, 2, 3), True)
    given["x"] = in_order(given["x"], order)
    count = 0
    for sizes in ((1, 1, 1, 1), (3, 18, 1, 1), (3, 1, 5, 20), (1, 18, 1, 20)):
        grad = np.broadcast_to(data(sizes, dtype, 5), SHAPE)
        for axes in AXES:
            repeated = {**given, "grad": grad}
            want = gradient(**{**given, "grad": in_order(grad.copy(), order)}, axes=axes)
            if kernel(repeated, axes=axes) == PATH:
                same(gradient(**repeated, axes=axes)[:1], want[:1])
                count += 1
            check(OP, layouts=("contiguous",), backend=CPU, out=False, axes=axes, **repeated)
    assert count > 4


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_groups_alone_and_among_others(dtype: str) -> None:
    """Views of some images, channels or columns have the bits of all: nothing tells what stands
    between the elements of a group."""
    for of_x, of_grad in ((FIRST, LAST), (LAST, FIRST), (TURNED, FIRST)):
        x, grad = data(SHAPE, dtype, 1), data(SHAPE, dtype, 2)
        x, grad = in_order(x, of_x), in_order(grad, of_grad)
        for axes, where in (
            ((0, 2, 3), np.s_[:, 4:5]), ((0, 2, 3), np.s_[:, 3:9]), ((2, 3), np.s_[1:2]),
            ((2, 3), np.s_[:, 17:]), ((1,), np.s_[:, :, 2:3, 7:8]), ((1,), np.s_[..., 3:12]),
            ((1, 2, 3), np.s_[2:]), ((1, 3), np.s_[:, :, 4:]),
        ):  # fmt: skip
            for activation in (None, "swish", "tanh"):
                how = {"axes": axes, "activation": activation, "outputs": ("x",)}
                whole = gradient(x, grad, **how)[0]
                np.testing.assert_array_equal(
                    bits(gradient(x[where], grad[where], **how)[0]), bits(whole[where])
                )


@pytest.mark.decision("D-GRAD-1", "D-GRAD-13")
@pytest.mark.parametrize("dtype", FLOATS)
def test_given_statistics_and_fewer_outputs(dtype: str) -> None:
    given = arrays(dtype, (0, 2, 3), True)
    given["x"], grad = in_order(given["x"], LAST), given["grad"]
    sizes = (1, SHAPE[1], 1, 1)
    statistics = {"mean": data(sizes, "float32", 5), "variance": abs(data(sizes, "float64", 6))}
    for outputs in (("x",), ("scale",), ("bias",), ("x", "bias"), ("scale", "bias")):
        how = {"axes": (0, 2, 3), "outputs": outputs, "activation": "relu", **statistics}
        alike = {**given, "grad": in_order(grad, LAST)}
        same(gradient(**given, **how)[:1], gradient(**alike, **how)[:1])
        check(OP, layouts=("contiguous",), backend=CPU, out=False, **given, **how)


def overlapping(dtype: str) -> list[tuple[np.ndarray, tuple[int, ...], Any]]:
    """x whose groups share places in memory, the axes of a group, and where one of them is."""
    cells = in_order(data((1, 18, 5, 20), dtype, 1), LAST)
    flat = data((400,), dtype, 2)
    windows = np.lib.stride_tricks.sliding_window_view(flat, 40)[:30]
    return [
        (np.broadcast_to(cells, SHAPE), (1, 2, 3), np.s_[1:2]),
        (np.broadcast_to(cells, SHAPE), (2, 3), np.s_[2:, 4:5]),
        (np.broadcast_to(cells.copy(), SHAPE), (1, 3), np.s_[:1, :, 2:3]),
        (windows, (1,), np.s_[7:8]),
        (windows.T, (0,), np.s_[:, 7:8]),
        (np.lib.stride_tricks.sliding_window_view(flat, 10)[::9].T, (1,), np.s_[3:4]),
    ]


@pytest.mark.decision("D-TEN-9", "D-GRAD-1")
@pytest.mark.parametrize("dtype", FLOATS)
def test_groups_of_x_that_overlap(dtype: str) -> None:
    """A group's bits do not tell whether another one has some of its elements."""
    paths = set()
    for x, axes, where in overlapping(dtype):
        for order in itertools.permutations(range(x.ndim)):
            grad = in_order(data(x.shape, dtype, 3), order)
            for activation in (None, "swish"):
                how = {"axes": axes, "activation": activation, "outputs": ("x",)}
                whole = gradient(x, grad, **how)[0]
                part = gradient(x[where], grad[where], **how)[0]
                np.testing.assert_array_equal(bits(part), bits(whole[where]))
            paths.add(kernel({"x": x, "grad": grad}, axes=axes))
            check(OP, layouts=("as given",), backend=CPU, out=False, x=x, grad=grad, axes=axes)
    assert len(paths) > 1 and PATH in paths


@pytest.mark.decision("D-TEN-9", "D-TEN-8")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_new_result_of_few_channels(dtype: str) -> None:
    """It is dense, so that the elements of a group are near in it and apart in x: as they are not
    in the result of all channels."""
    x = in_order(data(SHAPE, dtype, 1), LAST)
    for order in (LAST, (3, 1, 0, 2), (3, 1, 2, 0)):
        grad = in_order(data(SHAPE, dtype, 2), order)
        for channels in (1, 2, 7):
            where = np.s_[:, 3 : 3 + channels]
            for axes in ((0, 3), (0, 2, 3)):
                how = {"axes": axes, "activation": "swish", "outputs": ("x",)}
                whole = gradient(x, grad, **how)[0]
                given = {"x": x[where], "grad": grad[where]}
                np.testing.assert_array_equal(bits(gradient(**given, **how)[0]), bits(whole[where]))
                assert kernel(given, **how) != PATH  # grad is apart as x is, and dx is new


@pytest.mark.decision("D-GRAD-1")
def test_copies_are_no_larger_than_the_gradient() -> None:
    """However far apart the elements of x are, of which there may be more than memory."""
    with tempfile.TemporaryFile() as file:  # of which nearly all is never there
        x = np.memmap(file, np.float32, "w+", shape=(40, 1 << 30))[:, :: 1 << 26]
        x[...] = data(x.shape, "float32", 1)
        grad = in_order(data(x.shape, "float32", 2), (1, 0))
        assert kernel({"x": x, "grad": grad}, axes=0) == PATH
        given = {"x": x.view(np.ndarray), "grad": grad}
        check(OP, layouts=("as given",), backend=CPU, out=False, axes=0, **given)
