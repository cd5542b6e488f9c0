"""The gradient of normalization for packed groups of short pieces with a scale and a bias each, as
group normalization of short sequences has them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from backends import CPU
from harness import check, data
from mvn_support import bits
from placed_gradients import arrays_of_gradient, check_alone
from pool_support import FLOATS

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/spread"
gradient: Any = cudml.mean_variance_normalization_grad
FLAT = ("contiguous",)
INF = float("inf")

# Shape, axes and sizes of scale and bias: of groups of c pieces of n elements, of several such
# groups of an image, and with parameters of each image's own.
KINDS: dict[str, Any] = {
    "images": lambda images, c, n: ((images, c, n), (1, 2), (1, c, 1)),
    "groups": lambda images, c, n: ((images, 3, c, n), (2, 3), (1, 3, c, 1)),
    "own": lambda images, c, n: ((images, c, n), (1, 2), (images, c, 1)),
    "own groups": lambda images, c, n: ((images, 3, c, n), (2, 3), (images, 3, c, 1)),
}
LENGTHS = (2, 3, 5, 7, 8, 9, 12, 15)
# Images, and pieces of a group: fewer and more elements than rows that are turned have.
COUNTS = ((1, 2), (5, 3), (70, 2), (4, 19), (33, 150), (2, 1000))
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", "tanh", ("leaky_relu", {"alpha": -0.5}),
    ("linear", {"alpha": -1.5, "beta": 1}),
)  # fmt: skip


def made(kind: str, images: int, c: int, n: int, dtype: str) -> tuple[dict[str, Any], Any]:
    shape, axes, sizes = KINDS[kind](images, c, n)
    return arrays_of_gradient(shape, sizes, dtype), axes


def takes(given: dict[str, Any], **more: Any) -> bool:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel) == PATH


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_length_of_pieces(kind: str, dtype: str) -> None:
    rotation = itertools.cycle(ACTIVATIONS)
    for n, (images, c) in itertools.product(LENGTHS, COUNTS):
        given, axes = made(kind, images, c, n, dtype)
        assert takes(given, axes=axes) == (dtype != "float64")
        check(OP, axes=axes, activation=next(rotation), layouts=FLAT, backend=CPU, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_and_statistics(activation: Any) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers, and one
    parameter without the other, of x's type and of a wider one."""
    for dtype, kind in (("float32", "groups"), ("float16", "images"), ("bfloat16", "own groups")):
        given, axes = made(kind, 37, 11, 6, dtype)
        x, grad = given["x"].reshape(-1, 66), given["grad"].reshape(-1, 66)
        x[3, 5], x[36, 65], grad[4, 0], grad[21, 2] = INF, np.nan, -INF, np.nan
        sizes = (*given["x"].shape[:-2], 1, 1)
        mean, variance = data(sizes, "float64", 7), np.abs(data(sizes, "float32", 8))
        for use_mean, use_variance in itertools.product((True, False), repeat=2):
            how: dict[str, Any] = {"use_mean": use_mean, "use_variance": use_variance}
            how |= {"axes": axes, "activation": activation}
            assert takes(given, **how) == (use_mean or use_variance)
            check(OP, layouts=FLAT, backend=CPU, **given, **how)
            how |= {"mean": mean} if use_mean else {}
            how |= {"variance": variance} if use_variance else {}
            check(OP, layouts=FLAT, backend=CPU, **given, **how)
        wide = {k: v.astype("f4") if k in ("scale", "bias") else v for k, v in given.items()}
        for absent in (None, "scale", "bias"):
            some = {name: a for name, a in wide.items() if name != absent}
            assert takes(some, axes=axes)
            check(OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, **some)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_wanted(kind: str) -> None:
    """The same bits as among others."""
    for activation, use_variance in itertools.product(ACTIVATIONS, (True, False)):
        given, axes = made(kind, 41, 7, 9, "float32")
        check_alone(given, {"axes": axes, "activation": activation, "use_variance": use_variance})


@pytest.mark.core
@pytest.mark.decision("D-TEN-5", "D-TEN-9", "D-GRAD-1")
@pytest.mark.parametrize("kind", KINDS)
def test_images_apart_and_among_others(kind: str) -> None:
    """dx has the bits it has alone, wherever images and results lie, by one thread or two; nothing
    is written between results. Gradients of scale and bias repeat."""
    before = cudml.get_num_threads()
    try:
        for dtype, (c, n) in itertools.product(("float32", "bfloat16"), ((3, 4), (40, 7))):
            given, axes = made(kind, 29, c, n, dtype)
            cudml.set_num_threads(1)
            every = gradient(**given, axes=axes, activation="swish")
            for i in (0, 13, 28):
                own = {k: a[i : i + 1] if len(a) > 1 else a for k, a in given.items()}
                alone = gradient(**own, axes=axes, activation="swish")[0]
                assert bits(alone).tolist() == bits(every[0][i : i + 1]).tolist()
            shape = every[0].shape
            far = np.full((58, *shape[1:]), 7).astype(every[0].dtype)
            wide = np.full((*shape[:-1], 2 * n), 7).astype(every[0].dtype)
            for threads, (room, dx) in itertools.product(
                (1, 2), ((far, far[::2]), (wide, wide[..., ::2]))
            ):
                cudml.set_num_threads(threads)
                apart = {**given, "x": np.repeat(given["x"], 2, axis=0)[1::2]}
                got = gradient(**apart, axes=axes, activation="swish", out=(dx, None, None))
                for one, other in zip(got, every, strict=True):
                    assert bits(one).tolist() == bits(other).tolist()
                dx[...] = 7
                assert (room == 7).all()
    finally:
        cudml.set_num_threads(before)


@pytest.mark.decision("D-GRAD-2", "D-MVN-4")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sums_that_cancel(dtype: str) -> None:
    """Gradients of scale and bias far below their terms, and groups far from 0."""
    for kind in ("images", "groups"):
        given, axes = made(kind, 60, 9, 8, dtype)
        given["grad"][30:] = -given["grad"][:30]
        given["x"] = (given["x"].astype("f8") + 50).astype(given["x"].dtype)
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)
        check(OP, axes=axes, activation="relu", layouts=FLAT, backend=CPU, **given)
