"""The gradient of normalization for groups side by side, with parameters along each group."""

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
from placed_gradients import check_alone
from pool_support import FLOATS, dtype_of

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/side_by_side"
gradient: Any = cudml.mean_variance_normalization_grad
FLAT = ("contiguous",)
NARROW = ["float32", "float16", "bfloat16"]
INF = float("inf")

# Groups of so many elements: fewer than a strip, one, with another, and the most that are taken.
ROWS = (1, 3, 40, 64, 65, 300, 1024)
# Groups beside each other: fewer than a tile, one, with others, and of several blocks.
GROUPS = (8, 9, 17, 31, 32, 33, 64, 101, 700)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", "tanh", ("leaky_relu", {"alpha": -0.5}),
    ("linear", {"alpha": -1.5, "beta": 1}), ("swish", {"sigmoid_input_scale": 0.5}),
)  # fmt: skip


def made(rows: int, n: int, dtype: str, several: bool = False) -> tuple[dict[str, Any], Any]:
    shape, sizes = ((2, rows, n), (1, rows, 1)) if several else ((rows, n), (rows, 1))
    given = {name: data(s, dtype, k) for k, (name, s) in enumerate(
        {"x": shape, "grad": shape, "scale": sizes, "bias": sizes}.items())}  # fmt: skip
    return given, (1,) if several else (0,)


def takes(given: dict[str, Any], **more: Any) -> bool:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel) == PATH


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("several", [False, True])
def test_every_size(several: bool, dtype: str) -> None:
    for k, n in enumerate(GROUPS):
        given, axes = made(ROWS[1 + k % 5], n, dtype, several)
        for activation in (None, ACTIVATIONS[1 + k % 7]):
            assert takes(given, axes=axes) == (dtype != "float64")
            check(
                OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, out=False, **given
            )


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("rows", ROWS)
def test_every_length(rows: int) -> None:
    for several, activation in itertools.product((True, False), (None, "swish", "elu")):
        given, axes = made(rows, 40, "float16", several)
        assert takes(given, axes=axes) == (rows > 1)
        check(OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, **given)


@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("dtype", NARROW)
def test_parameters_of_other_shapes(dtype: str) -> None:
    """Along groups and beside them; elements along several dimensions; groups apart in memory."""
    for sizes in ((1, 6, 1, 5, 1), (1, 6, 1, 5, 40), (3, 6, 1, 5, 1), (1, 1, 1, 5, 1)):
        shape = (3, 6, 2, 5, 40)
        x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
        scale, bias = data(sizes, dtype, 3), data(sizes, dtype, 4)
        moved = np.ascontiguousarray(np.moveaxis(grad, -1, 0))
        for g, path in ((grad, PATH), (np.moveaxis(moved, 0, -1), "mvn_grad/copied")):
            given = {"x": x, "grad": g, "scale": scale, "bias": bias}
            assert cudml.explain(OP, **given, axes=(1, 3), device="cpu").kernel == path
            for activation in (None, "swish", "tanh"):
                check(OP, axes=(1, 3), activation=activation, layouts=FLAT, backend=CPU, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_and_statistics(activation: Any, dtype: str) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers."""
    given, axes = made(70, 49, dtype)
    given["x"][1, 5], given["x"][69, 48] = INF, np.nan
    given["grad"][3, 0], given["grad"][2, 17] = -INF, np.nan
    mean, variance = data((1, 49), "float64", 7), np.abs(data((1, 49), "float32", 8))
    for use_mean, use_variance in itertools.product((True, False), repeat=2):
        how = {"use_mean": use_mean, "use_variance": use_variance, "axes": axes}
        if use_mean or use_variance:
            assert takes(given, **how)
        check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)
        how |= {"mean": mean} if use_mean else {}
        how |= {"variance": variance} if use_variance else {}
        check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
def test_only_what_is_wanted() -> None:
    """The same bits as among others."""
    for activation, use_variance, n in itertools.product(ACTIVATIONS, (True, False), (17, 70)):
        given, axes = made(130, n, "float32")
        how = {"axes": axes, "activation": activation, "use_variance": use_variance}
        check_alone(given, how)


@pytest.mark.decision("D-MVN-4", "D-GRAD-2", "D-MVN-21")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_of_other_sizes(dtype: str) -> None:
    """Far from where their mean is guessed; products that leave the range, as no result does."""
    kind = dtype_of(dtype)
    for rows, size in itertools.product((40, 600), (60.0, 3e4)):
        given, axes = made(rows, 24, dtype)
        x = given["x"].astype("f8") + 10
        x[:: max(1, rows // 32)] = size
        given["x"] = x.astype(kind)
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)
        check(OP, axes=axes, activation="relu", layouts=FLAT, backend=CPU, **given)
    for of_x, of_grad in ((12, 0), (-12, 0), (-9, -30), (9, 30), (0, 30), (0, -30), (-15, 9)):
        given, axes = made(75, 40, dtype)
        given["x"] = (given["x"].astype("f8") * 10.0**of_x).astype(kind)
        given["grad"] = (given["grad"].astype("f8") * 10.0**of_grad).astype(kind)
        for activation, size in itertools.product((None, "relu", "swish", "elu"), (1, 1e-30)):
            more = {**given, "scale": (given["scale"].astype("f8") * size).astype(kind)}
            check(OP, axes=axes, activation=activation, epsilon=1e-30 if of_x else 1e-5,
                  layouts=FLAT, backend=CPU, out=False, **more)  # fmt: skip


@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
def test_threads_that_share_groups(dtype: str) -> None:
    before = cudml.get_num_threads()
    for rows, n, several in ((96, 5000, False), (50, 1700, True), (1000, 900, False)):
        given, axes = made(rows, n, dtype, several)
        assert takes(given, axes=axes)
        try:
            for activation in (None, "relu", "swish", "elu"):
                seen = set()
                for threads in (1, 2, 5):
                    cudml.set_num_threads(threads)
                    got = gradient(**given, axes=axes, activation=activation)
                    seen.add(tuple(g.tobytes() for g in got))
                assert len(seen) == 1
        finally:
            cudml.set_num_threads(before)
        if dtype == "float32":
            check(OP, axes=axes, layouts=FLAT, backend=CPU, out=False, **given)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
def test_a_group_among_others(dtype: str) -> None:
    """The groups beside it and what is special there count for nothing, nor where it stands."""
    for rows, activation in itertools.product((30, 300), (None, "relu", "swish", "gelu")):
        given, axes = made(rows, 160, dtype)
        x, grad, scale = given["x"], given["grad"], given["scale"]
        x[7, 3], x[:, 5], grad[0, 6] = INF, 9, np.nan
        how = {"axes": axes, "activation": activation, "outputs": ("x",)}
        every = gradient(x, grad, scale, **how)[0]
        for first, last in ((0, 33), (9, 17), (100, 160), (3, 4)):
            room = np.full((rows, 321), 7).astype(x.dtype)
            own = room[:, 1 : 1 + last - first]
            own[...] = x[:, first:last]
            some = gradient(own, grad[:, first:last], scale, **how)[0]
            assert bits(some).tolist() == bits(every[:, first:last]).tolist()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-24")
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_phases(dtype: str) -> None:
    for n in (20, 49):
        x, grad = data((2, 70, n), dtype, 1), data((2, 70, n), dtype, 2)
        scale, bias = data((1, 70, 1), dtype, 3), data((1, 70, 1), dtype, 4)
        mean, variance = data((2, 1, n), "float64", 5), np.abs(data((2, 1, n), "float32", 6))
        sums = (data((2, 1, n), "float64", 7), data((2, 1, n), "float64", 8))
        count = np.full((1, 1, 1), 70.0)
        for activation in ACTIVATIONS:
            call = (x, grad, mean, variance, scale, bias)
            how = {"activation": activation, "layouts": FLAT, "backend": CPU}
            check("normalize_grad_sums", *call, axes=(1,), **how)
            check("normalize_grad", *call, count=count, sums=sums, **how)
            check("normalize_grad", *call, **how)
            check("normalize_grad", *call, outputs=("x",), **how)


PLACED = """
from placed_gradients import say_digests
problems = (
    ((30, 64), 0, (30, 1)), ((2, 300, 50), 1, (1, 300, 1)), ((2, 9, 1000), 1, (1, 9, 1)),
)
say_digests(("float32", "float16", "bfloat16"), problems, (0, 1, 9, 32))
"""


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_writing_past_the_caches_changes_nothing() -> None:
    """Nor does where dx begins in a line; nothing else is written."""
    never, always = (child_says(PLACED, CUDML_STREAM_BYTES=n) for n in (str(10**15), "0"))
    lines = never.splitlines()
    assert never == always and len(lines) == 144 and len(set(lines)) == 36
