"""The gradient of normalization where groups consist of packed planes: lengths, sums, streams."""

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
PATH = "mvn_grad/planes"
SHORT = "mvn_grad/short_planes"  # see test_grad_short_planes.py
gradient: Any = cudml.mean_variance_normalization_grad
FLAT = ("contiguous",)
INF = float("inf")

# Axes and sizes of the parameters of planes of n elements.
KINDS: dict[str, Any] = {
    "group": lambda n: ((2, 3, 4, n), (2, 3), (1, 3, 4, 1)),
    "instance": lambda n: ((3, 2, n), (2,), (1, 2, 1)),
    "batch": lambda n: ((3, 2, n), (0, 2), (1, 2, 1)),
    "groups of every channel": lambda n: ((2, 3, 2, n), (1, 3), (1, 3, 1, 1)),
}
# Without and with parts of vectors of each size, of a stretch and of a slice.
LENGTHS = (16, 17, 31, 48, 63, 200, 2048, 2049, 4099)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", "tanh", ("leaky_relu", {"alpha": -0.5}),
    ("linear", {"alpha": -1.5, "beta": 1}), ("thresholded_relu", {"alpha": 0.25}),
    ("swish", {"sigmoid_input_scale": 0.5}), ("swish", {"sigmoid_input_scale": 0}),
)  # fmt: skip


def made(kind: str, n: int, dtype: str) -> tuple[dict[str, Any], Any]:
    shape, axes, sizes = KINDS[kind](n)
    return arrays_of_gradient(shape, sizes, dtype), axes


def path_of(given: dict[str, Any], **more: Any) -> str:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel)


def takes(given: dict[str, Any], **more: Any) -> bool:
    return path_of(given, **more) in (PATH, SHORT)


def path_wanted(kind: str, n: int, dtype: str, activation: Any) -> str:
    """Groups of one plane are rows, unless they are long or of float64."""
    if kind == "instance" and n <= 2048 and dtype != "float64":
        return "mvn_grad/rows" if n >= 32 else "mvn_grad/turned"
    slow = activation in ("gelu", "tanh", ACTIVATIONS[6], ACTIVATIONS[9])
    return PATH if slow or n > 1024 or dtype == "float64" else SHORT


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_planes_of_every_length(kind: str, dtype: str) -> None:
    for k, n in enumerate(LENGTHS):
        given, axes = made(kind, n, dtype)
        for activation in (None, ACTIVATIONS[1 + k % 9]):
            got = path_of(given, axes=axes, activation=activation)
            assert got == path_wanted(kind, n, dtype, activation)
            check(
                OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, out=False, **given
            )


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_and_statistics(activation: Any, dtype: str) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers."""
    given, axes = made("group", 49, dtype)
    given["x"][0, 1, 2, 5], given["x"][1, 0, 3, 48] = INF, np.nan
    given["grad"][0, 0, 1, 3], given["grad"][1, 2, 0, 17] = -INF, np.nan
    mean, variance = data((2, 3, 1, 1), "float64", 7), np.abs(data((2, 3, 1, 1), "float32", 8))
    for use_mean, use_variance in itertools.product((True, False), repeat=2):
        how = {"use_mean": use_mean, "use_variance": use_variance, "axes": axes}
        assert takes(given, **how) == (use_mean or use_variance)
        check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)
        how |= {"mean": mean} if use_mean else {}
        how |= {"variance": variance} if use_variance else {}
        check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)


# Planes of a group: fewer than are summed up together, as many, one more, and two lots of them.
MANY = ((16, (63, 64, 65, 128)), (49, (19, 20, 21, 41)), (300, (3, 4, 7)), (513, (2,)))


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2", "D-GRAD-13")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n,counts", MANY, ids=str)
def test_planes_that_share_their_scale(n: int, counts: tuple[int, ...], dtype: str) -> None:
    """Each of them counts once, whatever stands between them."""
    for k, planes in enumerate(counts):
        given = arrays_of_gradient((planes, 2, n), (1, 2, 1), dtype)
        given["x"][planes - 1, 1, n - 1] = 9
        for activation in (None, "swish", ACTIVATIONS[1 + (k + n) % 9]):
            assert takes(given, axes=(0, 2))
            check(OP, axes=(0, 2), activation=activation, backend=CPU, layouts=FLAT, **given)
        given["grad"][planes // 2, 0, 3] = np.nan
        check(OP, axes=(0, 2), mean=data((1, 2, 1), "float64", 7), layouts=FLAT, backend=CPU,
              variance=np.abs(data((1, 2, 1), "float32", 8)), **given)  # fmt: skip


@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize(("dtype", "activation"), [("float16", "swish"), ("bfloat16", "tanh")])
def test_a_group_too_large_to_keep_slopes_of(dtype: str, activation: str) -> None:
    given = arrays_of_gradient((3, 1, 700_001), (1, 1, 1), dtype)
    assert takes(given, axes=(0, 2))
    check(OP, axes=(0, 2), activation=activation, layouts=FLAT, backend=CPU, out=False, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
def test_only_what_is_wanted() -> None:
    """The same bits as among others; x is not read where no result depends on it."""
    for activation, use_variance in itertools.product(ACTIVATIONS, (True, False)):
        given, axes = made("group", 200, "float32")
        how = {"axes": axes, "activation": activation, "use_variance": use_variance}
        every = check_alone(given, how)
        if activation is None and not use_variance:
            given["x"][...] = np.nan
            got = gradient(**given, **how, outputs=("x", "bias"))
            assert bits(got[0]).tolist() == bits(every[0]).tolist()
            assert bits(got[2]).tolist() == bits(every[2]).tolist()


@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_groups_far_from_where_their_mean_is_guessed(kind: str, dtype: str) -> None:
    """Numbers at the beginning and at eight places are not like the others."""
    for n, size in itertools.product((40, 1600), (60.0, 3e4)):
        given, axes = made(kind, n, dtype)
        x = given["x"].astype("f8") + 10
        x[..., :5] = size
        x[..., :: n // 8] = x[..., 1 :: n // 8] = size
        given["x"] = x.astype(dtype_of(dtype))
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)
        check(OP, axes=axes, activation="relu", layouts=FLAT, backend=CPU, **given)


@pytest.mark.decision("D-MVN-4")
def test_small_numbers_far_from_where_their_mean_is_guessed() -> None:
    """The guess is 1 where the standard deviation is 0.01: far off, though not by much."""
    n = 2**17
    x, grad = data((1, 1, n), "float32", 1) * np.float32(1e-5), data((1, 1, n), "float32", 2)
    for k in range(8):
        x[..., n // 8 * k : n // 8 * k + 4] = 1
    check(OP, x, grad, np.ones((1, 1, 1), "f4"), axes=2, layouts=FLAT, backend=CPU, out=False)


@pytest.mark.decision("D-GRAD-2", "D-MVN-21")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_where_exponents_end(dtype: str) -> None:
    """Products of numbers, gradients and factors that leave the range, though no result does."""
    top = 280 if dtype == "float64" else 30
    for of_x, of_grad in ((12, 0), (-12, 0), (-9, -top), (9, top), (0, top), (0, -top), (-15, 9)):
        given, axes = made("group", 75, dtype)
        kind = dtype_of(dtype)
        given["x"] = (given["x"].astype("f8") * 10.0**of_x).astype(kind)
        given["grad"] = (given["grad"].astype("f8") * 10.0**of_grad).astype(kind)
        for activation, size in itertools.product((None, "relu", "swish", "elu"), (1, 1e-30)):
            more = {**given, "scale": (given["scale"].astype("f8") * size).astype(kind)}
            check(OP, axes=axes, activation=activation, epsilon=1e-30 if of_x else 1e-5,
                  layouts=FLAT, backend=CPU, out=False, **more)  # fmt: skip


LARGE: dict[str, tuple[Any, Any, Any]] = {
    "one group": ((2, 3, 30001), (0, 1, 2), (1, 3, 1)),
    "two groups of many planes": ((2, 700, 200), (1, 2), (1, 700, 1)),
    "planes of several slices": ((1, 2, 70001), (2,), (1, 2, 1)),
    "far apart": ((500, 2, 300), (0, 2), (1, 2, 1)),
}


@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("case", LARGE)
def test_threads_that_share_a_group(case: str, dtype: str) -> None:
    shape, axes, sizes = LARGE[case]
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    scale, bias = data(sizes, dtype, 3), data(sizes, dtype, 4)
    given = {"x": x, "grad": grad, "scale": scale, "bias": bias}
    assert takes(given, axes=axes)
    before = cudml.get_num_threads()
    try:
        for activation in (None, "relu", "elu"):
            seen = set()
            for threads in (1, 2, 5):
                cudml.set_num_threads(threads)
                got = gradient(x, grad, scale, bias, axes=axes, activation=activation)
                seen.add(tuple(g.tobytes() for g in got))
            assert len(seen) == 1
    finally:
        cudml.set_num_threads(before)
    if dtype == "float32":
        check(OP, x, grad, scale, bias, axes=axes, layouts=FLAT, backend=CPU, out=False)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_group_among_others(dtype: str) -> None:
    """Whatever stands beside it, and wherever it stands in memory."""
    for n, activation in itertools.product((17, 700), (None, "relu", "swish", "gelu")):
        x, grad = data((7, 3, n), dtype, 1), data((7, 3, n), dtype, 2)
        how = {"scale": data((1, 3, 1), dtype, 3), "axes": (1, 2), "outputs": ("x",)}
        every = gradient(x, grad, activation=activation, **how)[0]
        for i in range(7):
            room = np.full(2 * 3 * n + 1, 7).astype(x.dtype)
            own = room[1 : 3 * n + 1].reshape(1, 3, n)
            own[...] = x[i : i + 1]
            one = gradient(own, grad[i : i + 1], activation=activation, **how)[0]
            assert bits(one).tolist() == bits(every[i : i + 1]).tolist()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-24")
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_phases(dtype: str) -> None:
    x, grad = data((2, 3, 5, 49), dtype, 1), data((2, 3, 5, 49), dtype, 2)
    scale, bias = data((1, 3, 5, 1), dtype, 3), data((1, 3, 5, 1), dtype, 4)
    mean, variance = data((2, 3, 1, 1), "float64", 5), np.abs(data((2, 3, 1, 1), "float32", 6))
    sums = (data((2, 3, 1, 1), "float64", 7), data((2, 3, 1, 1), "float64", 8))
    count = np.full((1, 1, 1, 1), 245.0)
    for activation in ACTIVATIONS:
        call = (x, grad, mean, variance, scale, bias)
        how = {"activation": activation, "layouts": FLAT, "backend": CPU}
        check("normalize_grad_sums", *call, axes=(2, 3), **how)
        check("normalize_grad", *call, count=count, sums=sums, **how)
        check("normalize_grad", *call, **how)
        check("normalize_grad", *call, outputs=("x",), **how)


PLACED = """
from placed_gradients import say_digests
problems = (
    ((2, 3, 5000), (1, 2), (1, 3, 1)), ((3, 2, 9001), (0, 2), (1, 2, 1)),
    ((2, 40, 17), (1, 2), (1, 40, 1)), ((70, 2, 49), (0, 2), (1, 2, 1)),
)
say_digests(("float32", "float16", "bfloat16", "float64"), problems, (0, 1, 9, 33))
"""


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_writing_past_the_caches_changes_nothing() -> None:
    """Nor does where dx begins in a line; nothing else is written."""
    never, always = (child_says(PLACED, CUDML_STREAM_BYTES=n) for n in (str(10**15), "0"))
    lines = never.splitlines()
    assert never == always and len(lines) == 256 and len(set(lines)) == 64
