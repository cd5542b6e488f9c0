"""The gradient of normalization for short packed groups, which are put side by side."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import check, data
from mvn_support import bits
from placed_gradients import arrays_of_gradient, check_alone
from pool_support import FLOATS, dtype_of

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/turned"
gradient: Any = cudml.mean_variance_normalization_grad
FLAT = ("contiguous",)
NARROW = ["float32", "float16", "bfloat16"]
INF = float("inf")

# Shape, axes and sizes of scale and bias, of some groups of n elements: for each element, for each
# group, for each element of some groups.
KINDS: dict[str, Any] = {
    "elements": lambda groups, n: ((groups, n), (1,), (1, n)),
    "groups": lambda groups, n: ((groups, n), (1,), (groups, 1)),
    "channels": lambda groups, n: ((groups, 3, n), (2,), (1, 3, 1)),
    "elements of channels": lambda groups, n: ((groups, 3, n), (2,), (1, 3, n)),
}
# Without and with parts of a vector, of each size, and the longest.
LENGTHS = (2, 3, 4, 5, 8, 15, 16, 17, 30, 31)
# Fewer than a tile, one, with another, and of several blocks.
GROUPS = (1, 2, 7, 16, 31, 32, 33, 65, 400, 1100)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", "tanh", ("leaky_relu", {"alpha": -0.5}),
    ("linear", {"alpha": -1.5, "beta": 1}), ("swish", {"sigmoid_input_scale": 0.5}),
)  # fmt: skip


def made(kind: str, groups: int, n: int, dtype: str) -> tuple[dict[str, Any], Any]:
    shape, axes, sizes = KINDS[kind](groups, n)
    return arrays_of_gradient(shape, sizes, dtype), axes


def takes(given: dict[str, Any], **more: Any) -> bool:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel) == PATH


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_size(kind: str, dtype: str) -> None:
    for k, (groups, n) in enumerate(zip(GROUPS, LENGTHS, strict=True)):
        for length in (n, LENGTHS[-1 - k]):
            given, axes = made(kind, groups, length, dtype)
            for activation in (None, ACTIVATIONS[1 + k % 7]):
                assert takes(given, axes=axes) == (dtype != "float64")
                check(OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("kind", ["elements", "channels"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_and_statistics(activation: Any, kind: str) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers."""
    for dtype, n in (("float32", 19), ("float16", 7), ("bfloat16", 30)):
        given, axes = made(kind, 37, n, dtype)
        x, grad = given["x"].reshape(-1, n), given["grad"].reshape(-1, n)
        x[3, 5], x[36, n - 1], grad[4, 0], grad[21, 2] = INF, np.nan, -INF, np.nan
        sizes = (*given["x"].shape[:-1], 1)
        mean, variance = data(sizes, "float64", 7), np.abs(data(sizes, "float32", 8))
        for use_mean, use_variance in itertools.product((True, False), repeat=2):
            how = {"use_mean": use_mean, "use_variance": use_variance, "axes": axes}
            assert takes(given, **how) == (use_mean or use_variance)
            check(OP, activation=activation, layouts=FLAT, backend=CPU, **given, **how)
            how |= {"mean": mean} if use_mean else {}
            how |= {"variance": variance} if use_variance else {}
            check(OP, activation=activation, layouts=FLAT, backend=CPU, **given, **how)


@pytest.mark.decision("D-GRAD-19", "D-MVN-12")
@pytest.mark.parametrize("dtype", NARROW)
def test_groups_of_one_element(dtype: str) -> None:
    """Wherever they stand; with a scale and a bias for each, for all, or for each channel."""
    for shape, sizes in (((1, 1), (1, 1)), ((70, 5, 1), (1, 5, 1)), ((3, 40, 1), (3, 40, 1))):
        given = arrays_of_gradient(shape, sizes, dtype)
        axes = (len(shape) - 1,)
        for use_mean, activation in ((True, None), (False, "swish"), (False, "relu")):
            how = {"axes": axes, "use_mean": use_mean, "activation": activation}
            assert takes(given, **how)
            check(OP, backend=CPU, **given, **how)
            check_alone(given, how)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_wanted(kind: str) -> None:
    """The same bits as among others."""
    for activation, use_variance in itertools.product(ACTIVATIONS, (True, False)):
        given, axes = made(kind, 130, 21, "float32")
        check_alone(given, {"axes": axes, "activation": activation, "use_variance": use_variance})


@pytest.mark.decision("D-TEN-5", "D-GRAD-1")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", KINDS)
def test_groups_apart_and_results_apart(kind: str, dtype: str) -> None:
    """Other memory between groups, and between the elements of dx, which nothing is written to."""
    given, axes = made(kind, 45, 13, dtype)
    every = gradient(**given, axes=axes)
    for name in ("x", "grad"):
        v = given[name]
        room = np.full((*v.shape[:-1], 17), 7).astype(v.dtype)
        room[..., 2:15] = v
        given[name] = room[..., 2:15]
    assert takes(given, axes=axes)
    shape = given["x"].shape
    for step, last in ((1, 20), (2, 27)):
        room = np.full((*shape[:-1], last), 7).astype(every[0].dtype)
        out = (room[..., 1 : 1 + step * 13 : step], None, None)
        got = gradient(**given, axes=axes, out=out)
        for one, other in zip(got, every, strict=True):
            assert bits(np.ascontiguousarray(one)).tolist() == bits(other).tolist()
        room[..., 1 : 1 + step * 13 : step] = 7
        assert (room == 7).all()


@pytest.mark.decision("D-MVN-4", "D-GRAD-2", "D-MVN-21")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["elements", "channels"])
def test_numbers_of_other_sizes(kind: str, dtype: str) -> None:
    """Far from where their mean is guessed; products that leave the range, as no result does."""
    numbers = dtype_of(dtype)
    for n, size in itertools.product((9, 31), (60.0, 3e4)):
        given, axes = made(kind, 40, n, dtype)
        x = given["x"].astype("f8") + 10
        x[::3, ..., 0] = size
        given["x"] = x.astype(numbers)
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)
        check(OP, axes=axes, activation="relu", layouts=FLAT, backend=CPU, **given)
    for of_x, of_grad in ((12, 0), (-12, 0), (-9, -30), (9, 30), (0, 30), (0, -30), (-15, 9)):
        given, axes = made(kind, 33, 25, dtype)
        given["x"] = (given["x"].astype("f8") * 10.0**of_x).astype(numbers)
        given["grad"] = (given["grad"].astype("f8") * 10.0**of_grad).astype(numbers)
        for activation, size in itertools.product((None, "relu", "swish", "elu"), (1, 1e-30)):
            more = {**given, "scale": (given["scale"].astype("f8") * size).astype(numbers)}
            check(OP, axes=axes, activation=activation, epsilon=1e-30 if of_x else 1e-5,
                  layouts=FLAT, backend=CPU, **more)  # fmt: skip


@pytest.mark.decision("D-GRAD-17a")
@pytest.mark.parametrize("kind", ["elements", "channels"])
def test_totals_of_many_groups(kind: str) -> None:
    """As near as doubles would be, though equal terms of one sign are all rounded the same way."""
    given, axes = made(kind, 60_000, 5, "float32")
    given["grad"][...] = 0.1
    check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)


@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_groups(kind: str, dtype: str) -> None:
    before = cudml.get_num_threads()
    given, axes = made(kind, 5000, 29, dtype)
    assert takes(given, axes=axes)
    try:
        for activation in (None, "swish", "elu"):
            seen = set()
            for threads in (1, 2, 5):
                cudml.set_num_threads(threads)
                got = gradient(**given, axes=axes, activation=activation)
                seen.add(tuple(g.tobytes() for g in got))
            assert len(seen) == 1
    finally:
        cudml.set_num_threads(before)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_among_others(kind: str, dtype: str) -> None:
    """The groups beside it and what is special there count for nothing, nor where it stands."""
    for n, activation in itertools.product((6, 23), (None, "relu", "swish", "gelu")):
        given, axes = made(kind, 160, n, dtype)
        x, grad, scale = given["x"], given["grad"], given["scale"]
        x[7, ..., 3], x[5], grad[6, ..., 0] = INF, 9, np.nan
        how = {"axes": axes, "activation": activation, "outputs": ("x",)}
        every = gradient(x, grad, scale, **how)[0]
        for first, last in ((0, 33), (9, 17), (100, 160), (3, 4)):
            own = scale[first:last] if kind == "groups" else scale
            some = gradient(x[first:last], grad[first:last], own, **how)[0]
            assert bits(some).tolist() == bits(every[first:last]).tolist()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-24")
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_phases(dtype: str) -> None:
    for kind, n in (("elements", 11), ("channels", 30)):
        given, axes = made(kind, 21, n, dtype)
        sizes = (*given["x"].shape[:-1], 1)
        mean, variance = data(sizes, "float64", 5), np.abs(data(sizes, "float32", 6))
        sums = (data(sizes, "float64", 7), data(sizes, "float64", 8))
        count = np.full((1,) * len(sizes), float(n))
        for activation in ACTIVATIONS:
            call = (given["x"], given["grad"], mean, variance, given["scale"], given["bias"])
            how = {"activation": activation, "layouts": FLAT, "backend": CPU}
            check("normalize_grad_sums", *call, axes=axes, **how)
            check("normalize_grad", *call, count=count, sums=sums, **how)
            check("normalize_grad", *call, **how)
            check("normalize_grad", *call, outputs=("x",), **how)


PLACED = """
from placed_gradients import say_digests
problems = (((64, 30), 1, (1, 30)), ((2, 50, 16), 2, (1, 50, 1)), ((900, 3), 1, (1, 3)))
say_digests(("float32", "float16", "bfloat16"), problems, (0, 1, 9, 32))
"""


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_writing_past_the_caches_changes_nothing() -> None:
    """Nor does where dx begins in a line; nothing else is written."""
    never, always = (child_says(PLACED, CUDML_STREAM_BYTES=n) for n in (str(10**15), "0"))
    lines = never.splitlines()
    assert never == always and len(lines) == 144 and len(set(lines)) == 36
