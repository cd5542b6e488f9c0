"""The gradient of normalization where elements of a group stand apart: counts of columns, sums."""

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
PATH = "mvn_grad/columns"
gradient: Any = cudml.mean_variance_normalization_grad
FLAT = ("contiguous",)
INF = float("inf")

# Axes and sizes of the parameters of rows of n columns.
KINDS: dict[str, Any] = {
    "batch": lambda rows, n: ((rows, n), (0,), (1, n)),
    "instance": lambda rows, n: ((2, rows, n), (1,), (1, 1, n)),
    "group": lambda rows, n: ((2, rows, 3, n), (1, 3), (1, 1, 3, n)),
    "whole": lambda rows, n: ((2, rows, n), (1, 2), (1, 1, n)),
}
# Less than a tile, one, with others, and of several blocks.
COLUMNS = (1, 3, 7, 8, 9, 16, 17, 31, 32, 33, 48, 63, 64, 95, 128, 515, 1030)
# Less than a strip, one, with another, and of several parts.
ROWS = (2, 63, 64, 65, 257)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", "tanh", ("leaky_relu", {"alpha": -0.5}),
    ("linear", {"alpha": -1.5, "beta": 1}), ("thresholded_relu", {"alpha": 0.25}),
    ("swish", {"sigmoid_input_scale": 0.5}), ("swish", {"sigmoid_input_scale": 0}),
)  # fmt: skip


def made(kind: str, rows: int, n: int, dtype: str) -> tuple[dict[str, Any], Any]:
    shape, axes, sizes = KINDS[kind](rows, n)
    given = {name: data(s, dtype, k) for k, (name, s) in enumerate(
        {"x": shape, "grad": shape, "scale": sizes, "bias": sizes}.items())}  # fmt: skip
    return given, axes


def takes(given: dict[str, Any], **more: Any) -> bool:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel) == PATH


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_count_of_columns(kind: str, dtype: str) -> None:
    for k, n in enumerate(COLUMNS):
        rows = ROWS[k % 5] if n < 1000 else ROWS[2]  # several parts have blocks beside them below
        is_wide = n > 1 and (rows >= 8 or (kind == "group" and n <= 128))
        is_apart = n >= 8 or (n == 7 and rows == 64)  # of which four make up a row
        is_taken = is_apart if kind in ("batch", "instance") else is_wide
        given, axes = made(kind, rows, n, dtype)
        for activation in (None, ACTIVATIONS[1 + k % 9]):
            assert takes(given, axes=axes) == is_taken
            check(
                OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, out=False, **given
            )


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("rows", ROWS)
def test_every_count_of_rows(rows: int) -> None:
    for kind, activation in itertools.product(KINDS, (None, "swish", "elu")):
        given, axes = made(kind, rows, 40, "float16")
        assert takes(given, axes=axes) == (kind != "whole" or rows >= 8)
        check(OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, **given)


@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize(
    "rows, n, dtype, activation",
    [
        (520, 1030, "float64", "relu"),
        (2000, 600, "float32", None),
        (30_001, 40, "float16", "relu"),  # parts of 448 rows
        (70_003, 17, "float32", "swish"),  # the longest parts there are
    ],
)
def test_parts_of_rows_beside_blocks_of_columns(
    rows: int, n: int, dtype: str, activation: str | None
) -> None:
    given, axes = made("batch", rows, n, dtype)
    assert takes(given, axes=axes, activation=activation)
    check(OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, out=False, **given)


@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rows_at_uneven_distances(dtype: str) -> None:
    """Rows along several dimensions, columns of which some stand between others' elements."""
    for n, step in itertools.product((17, 24, 40, 72), (1, 2)):
        wide = [data((3, 5, 9, 2 * n), dtype, k) for k in range(2)]
        x, grad = wide[0][:, :, ::2, :n], wide[1][:, :, ::2, : n * step : step]
        scale = data((1, 1, 1, n), dtype, 3)
        given = {"x": x, "grad": grad, "scale": scale, "bias": scale}
        assert takes(given, axes=(0, 1, 2))
        for activation in (None, "swish", "tanh"):
            check(OP, axes=(0, 1, 2), activation=activation, layouts=FLAT, backend=CPU, **given)
            got = gradient(x, grad, scale, scale, axes=(0, 1, 2), activation=activation)
            packed = [np.ascontiguousarray(a) for a in (x, grad)]
            want = gradient(*packed, scale, scale, axes=(0, 1, 2), activation=activation)
            assert [bits(g).tolist() for g in got] == [bits(w).tolist() for w in want]


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_and_statistics(activation: Any, dtype: str) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers."""
    given, axes = made("instance", 70, 49, dtype)
    given["x"][0, 1, 5], given["x"][1, 69, 48] = INF, np.nan
    given["grad"][0, 3, 0], given["grad"][1, 2, 17] = -INF, np.nan
    mean, variance = data((2, 1, 49), "float64", 7), np.abs(data((2, 1, 49), "float32", 8))
    for use_mean, use_variance in itertools.product((True, False), repeat=2):
        how = {"use_mean": use_mean, "use_variance": use_variance, "axes": axes}
        if use_mean or use_variance:
            assert takes(given, **how)
        check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)
        how |= {"mean": mean} if use_mean else {}
        how |= {"variance": variance} if use_variance else {}
        check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", [*ACTIVATIONS, "elu", "sigmoid"], ids=str)
def test_columns_among_others(activation: Any, dtype: str) -> None:
    """Whether slopes are kept, between a pass and the next one, depends on all columns together."""
    given, axes = made("instance", 70, 64, dtype)
    given["x"][0, 1, 5], given["x"][1, 69, 48] = INF, np.nan
    given["grad"][0, 3, 0], given["grad"][1, 2, 17] = -INF, np.nan
    how = {"axes": axes, "activation": activation}
    check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)
    every = gradient(**given, **how)
    some = gradient(**{name: np.ascontiguousarray(a[..., :49]) for name, a in given.items()}, **how)
    for whole, part in zip(every, some, strict=True):
        assert bits(whole[..., :49]).tolist() == bits(part).tolist()


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("activation", ["swish", "gelu"])
def test_a_sample_among_many(activation: str) -> None:
    """The caches hold what is kept of one, and not of all."""
    shape = (66, 257, 64)
    given = {name: data(shape, "float32", k) for k, name in enumerate(("x", "grad"))}
    given |= {name: data((1, 1, 64), "float32", k) for k, name in enumerate(("scale", "bias"), 2)}
    assert takes(given, axes=1)
    every, _, _ = gradient(**given, axes=1, activation=activation)
    one = {name: a[-1:] for name, a in given.items()}
    check(OP, axes=1, activation=activation, layouts=FLAT, backend=CPU, **one)
    alone, _, _ = gradient(**one, axes=1, activation=activation)
    np.testing.assert_array_equal(bits(every[-1:]), bits(alone))


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_long_rows_of_columns(dtype: str) -> None:
    """Blocks are longer where there are samples enough to share: bits are a sample's own."""
    for samples, rows, n in ((16, 70, 1030), (5, 9, 2049), (17, 66, 2062), (6, 65, 1553)):
        shape, sizes = (samples, rows, n), (samples, 1, n)
        given = {name: data(shape, dtype, k) for k, name in enumerate(("x", "grad"))}
        given |= {name: data(sizes, dtype, k) for k, name in enumerate(("scale", "bias"), 2)}
        given["x"][1, 3, n - 1], given["grad"][0, 2, 513] = INF, np.nan
        how = {"axes": 1, "activation": "relu" if samples == 6 else None}
        assert takes(given, **how)
        check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)
        every = gradient(**given, **how)
        for k in (0, samples - 1):
            alone = gradient(**{name: a[k : k + 1] for name, a in given.items()}, **how)
            for whole, part in zip(every, alone, strict=True):
                assert bits(whole[k : k + 1]).tolist() == bits(part).tolist()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
def test_only_what_is_wanted() -> None:
    """The same bits as among others; x is not read where no result depends on it."""
    for activation, use_variance, n in itertools.product(ACTIVATIONS, (True, False), (17, 70)):
        given, axes = made("instance", 130, n, "float32")
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
    """Numbers at the places of the guess are not like the others."""
    for rows, size in itertools.product((40, 1600), (60.0, 3e4)):
        given, axes = made(kind, rows, 24, dtype)
        x = given["x"].astype("f8") + 10
        along = np.moveaxis(x, axes[0], 0)
        along[:: max(1, rows // 32)] = size
        along[0] = size
        given["x"] = x.astype(dtype_of(dtype))
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)
        check(OP, axes=axes, activation="relu", layouts=FLAT, backend=CPU, **given)


@pytest.mark.decision("D-GRAD-2", "D-MVN-21")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_where_exponents_end(dtype: str) -> None:
    """Products of numbers, gradients and factors that leave the range, though no result does."""
    top = 280 if dtype == "float64" else 30
    for of_x, of_grad in ((12, 0), (-12, 0), (-9, -top), (9, top), (0, top), (0, -top), (-15, 9)):
        given, axes = made("batch", 75, 40, dtype)
        kind = dtype_of(dtype)
        given["x"] = (given["x"].astype("f8") * 10.0**of_x).astype(kind)
        given["grad"] = (given["grad"].astype("f8") * 10.0**of_grad).astype(kind)
        for activation, size in itertools.product((None, "relu", "swish", "elu"), (1, 1e-30)):
            more = {**given, "scale": (given["scale"].astype("f8") * size).astype(kind)}
            check(OP, axes=axes, activation=activation, epsilon=1e-30 if of_x else 1e-5,
                  layouts=FLAT, backend=CPU, out=False, **more)  # fmt: skip


LARGE: dict[str, tuple[Any, Any, Any]] = {
    "few columns": ((30001, 9), (0,), (1, 9)),
    "several blocks": ((300, 1100), (0,), (1, 1100)),
    "groups": ((2, 1500, 3, 20), (1, 3), (1, 1, 3, 20)),
    "instances": ((3, 700, 64), (1,), (1, 1, 64)),
}


@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", LARGE)
def test_threads_that_share_columns(case: str, dtype: str) -> None:
    shape, axes, sizes = LARGE[case]
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    scale, bias = data(sizes, dtype, 3), data(sizes, dtype, 4)
    assert takes({"x": x, "grad": grad, "scale": scale, "bias": bias}, axes=axes)
    before = cudml.get_num_threads()
    try:
        for activation in (None, "relu", "swish", "elu"):
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
    """The columns beside it, the groups before it and what is special there count for nothing."""
    for n, activation in itertools.product((40, 70), (None, "relu", "swish", "gelu")):
        x, grad = data((4, 300, n), dtype, 1), data((4, 300, n), dtype, 2)
        x[1, 7, 3], x[2, :, 5], grad[3, 0, 6] = INF, 9, np.nan
        how = {"axes": (1,), "activation": activation}
        scale = data((1, 1, n), dtype, 3)
        every = gradient(x, grad, scale, **how, outputs=("x",))[0]
        for i in range(4):
            one = gradient(x[i : i + 1], grad[i : i + 1], scale, **how, outputs=("x",))[0]
            assert bits(one).tolist() == bits(every[i : i + 1]).tolist()
        for first, last in ((0, 33), (9, 17), (n - 32, n), (3, 12)):
            room = np.full((4, 300, 2 * n + 1), 7).astype(x.dtype)
            own = room[..., 1 : 1 + last - first]
            own[...] = x[..., first:last]
            some = gradient(own, grad[..., first:last], scale[..., first:last], **how,
                            outputs=("x",))[0]  # fmt: skip
            assert bits(some).tolist() == bits(every[..., first:last]).tolist()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-24")
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_phases(dtype: str) -> None:
    for n in (20, 49):
        x, grad = data((2, 70, n), dtype, 1), data((2, 70, n), dtype, 2)
        scale, bias = data((1, 1, n), dtype, 3), data((1, 1, n), dtype, 4)
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
    ((300, 64), 0, (1, 64)), ((2, 70, 3, 32), (1, 3), (1, 1, 1, 32)), ((2, 90, 50), 1, (1, 1, 50)),
)
say_digests(("float32", "float16", "bfloat16", "float64"), problems, (0, 1, 9, 32))
"""


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_writing_past_the_caches_changes_nothing() -> None:
    """Nor does where dx begins in a line; nothing else is written."""
    never, always = (child_says(PLACED, CUDML_STREAM_BYTES=n) for n in (str(10**15), "0"))
    lines = never.splitlines()
    assert never == always and len(lines) == 192 and len(set(lines)) == 48


@pytest.mark.decision("D-GRAD-12", "D-GRAD-13")
@pytest.mark.parametrize("a", [1.0, 1.702, -0.75, 1e-3, 300.0, 1e-30, 1e30])
def test_the_slope_of_swish_everywhere(a: float) -> None:
    """Near 0, where it has its extremes, where it is 0 or 1, and at infinity; by planes, too."""
    ends = np.array([0.0, -0.0, 1e-38, -1e-30, 1e30, -1e30, INF, -INF, np.nan, 87.4, -87.4, 88.1])
    v = np.concatenate([np.linspace(-24, 24, 1401), np.linspace(-130, 130, 523), ends])
    x = np.repeat(v.astype("f4")[:, None], 40, 1)
    grad = data(x.shape, "float32", 3)
    how = {"activation": ("swish", {"sigmoid_input_scale": a}), "epsilon": 0.0,
           "layouts": FLAT, "backend": CPU, "out": False}  # fmt: skip
    mean, variance = np.zeros((1, 40), "f4"), np.ones((1, 40), "f4")
    check("normalize_grad", x, grad, mean, variance, **how)
    check("normalize_grad", x.T.copy()[None], grad.T.copy()[None], mean.T[None], variance.T[None],
          **how)  # fmt: skip
