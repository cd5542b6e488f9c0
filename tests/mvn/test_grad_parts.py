"""The gradient of normalization on CUDA kernels that cut cells into parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import backends
import cudml
from cudml import bounds
from harness import check, data
from mvn_support import bits
from placed_gradients import arrays_of_gradient
from pool_support import FLOATS, dtype_of

OP = "mean_variance_normalization_grad"
GPU = "sm_90"
NEAR = ("contiguous", "misaligned")
INF = float("inf")
pytestmark = pytest.mark.device

# Axes and sizes of the parameters of planes of n elements.
PLANES: dict[str, Any] = {
    "group": lambda n: ((2, 3, 4, n), (2, 3), (1, 3, 4, 1)),
    "instance": lambda n: ((3, 2, n), (2,), (1, 2, 1)),
    "batch": lambda n: ((3, 2, n), (0, 2), (1, 2, 1)),
    "groups of every channel": lambda n: ((2, 3, 2, n), (1, 3), (1, 3, 1, 1)),
    "rows": lambda n: ((3, n), (1,), (1, n)),
}
# The same of n rows of channels, which are the fastest dimension.
COLUMNS: dict[str, Any] = {
    "batch last": lambda n: ((2, n, 24), (0, 1), (1, 1, 24)),
    "batch of odd channels": lambda n: ((2, n, 67), (0, 1), (1, 1, 67)),
    "three channels": lambda n: ((n, 3), (0,), (1, 3)),
    "group last": lambda n: ((2, n, 4, 10), (1, 3), (1, 1, 4, 10)),
    "one group last": lambda n: ((2, n, 40), (1, 2), (1, 1, 40)),
    "positions": lambda n: ((2, n, 65), (1,), (2, 1, 65)),
    "three dimensions kept": lambda n: ((2, 3, n, 5), (2,), (1, 3, 1, 5)),
}
KINDS = {**PLANES, **COLUMNS}
# Pieces of 4 to 32 lanes, of several runs and of parts of one, with and without whole vectors.
LENGTHS = (32, 49, 64, 196, 261, 513, 2049, 4104)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", ("leaky_relu", {"alpha": -0.5}), ("linear", {"alpha": -1.5, "beta": 1}),
)  # fmt: skip


def made(kind: str, n: int, dtype: str) -> tuple[dict[str, Any], Any]:
    shape, axes, sizes = KINDS[kind](n)
    return arrays_of_gradient(shape, sizes, dtype), axes


def kernel(given: dict[str, Any], **more: Any) -> str:
    op = more.pop("op", OP)
    return str(cudml.explain(op, **given, **more, device=GPU).kernel)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("kind", KINDS)
def test_of_two_lengths(kind: str) -> None:
    """What sanitizers and other orders of threads see, which take long."""
    lengths, name = ((49, 513), "pieces") if kind in PLANES else ((33, 130), "columns")
    check_lengths(kind, lengths, "float16", f"mvn_grad_{name}")


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("activation", [None, "relu"])
def test_parts_that_several_warps_join(activation: Any) -> None:
    """Runs of a cell in some hundred pieces: each step's sums take the same shared memory."""
    given = arrays_of_gradient((520, 2, 32), (1, 2, 1), "float16")
    check(OP, **given, axes=(0, 2), activation=activation, layouts=("contiguous",))
    assert kernel(given, axes=(0, 2), activation=activation) == "mvn_grad_pieces"


@pytest.mark.small
@pytest.mark.parametrize("activation", [None, "relu"])
def test_totals_along_rows_in_pieces(activation: Any) -> None:
    """Rows too long for one block, each element of which has a total of its own."""
    given = arrays_of_gradient((3, 9001), (1, 9001), "float16")
    check(OP, **given, axes=1, activation=activation, layouts=("contiguous",))
    assert kernel(given, axes=1, activation=activation) == "mvn_grad_pieces"


@pytest.mark.small
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", PLANES)
def test_planes_of_every_length(kind: str, dtype: str) -> None:
    check_lengths(kind, LENGTHS, dtype, "mvn_grad_pieces")


@pytest.mark.small
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_every_length(kind: str, dtype: str) -> None:
    check_lengths(kind, (5, 33, 130, 700), dtype, "mvn_grad_columns")


def taken_by(kind: str, x: np.ndarray, name: str) -> str:
    """The kernel of a call with given statistics: a row with parameters along it of at most 16 KiB
    is a block's."""
    if x.dtype == np.float64:
        return "mvn_grad_generic"
    is_row = kind == "rows" and x.shape[1] * x.itemsize <= 16384
    return "mvn_grad_row" if is_row else name


def check_lengths(kind: str, lengths: tuple[int, ...], dtype: str, name: str) -> None:
    for k, n in enumerate(lengths):
        given, axes = made(kind, n, dtype)
        mean, variance = (data(tuple(1 if a in axes else s for a, s in enumerate(
            given["x"].shape)), "float64", j) for j in (5, 6))  # fmt: skip
        stats = {"mean": mean, "variance": np.abs(variance)}
        many = {**given, **stats}
        assert kernel(many, axes=axes) == taken_by(kind, given["x"], name)
        for activation in (None, ACTIVATIONS[1 + k % 4]):
            check(OP, axes=axes, activation=activation, layouts=NEAR, **given)
            check(OP, axes=axes, activation=activation, layouts=NEAR[:1], **many)
            check("normalize_grad_sums", axes=axes, activation=activation, layouts=NEAR[:1], **many)
            check("normalize_grad", activation=activation, layouts=NEAR[:1], **many)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize(
    "kind", ["group", "batch", "groups of every channel", "batch last", "group last"]
)
def test_infinite_numbers(kind: str, activation: Any, dtype: str) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers."""
    for where in range(3):
        given, axes = made(kind, 49, dtype)
        width = given["x"].shape[-1] if kind in PLANES else 24 if kind == "batch last" else 40
        x, grad = (given[name].reshape(-1, width) for name in ("x", "grad"))
        if where != 1:
            x[0, 5], x[-1, 8] = INF, np.nan
        if where != 0:
            grad[1, 3], grad[-2, 17] = -INF, np.nan
        for use_mean, use_variance in itertools.product((True, False), repeat=2):
            how = {"use_mean": use_mean, "use_variance": use_variance, "axes": axes}
            check(OP, activation=activation, layouts=NEAR[:1], **given, **how)


@pytest.mark.small
@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_groups_far_from_where_their_mean_is_guessed(kind: str, dtype: str) -> None:
    """Numbers at the beginning and at eight places are not like the others."""
    for n, size in itertools.product((40, 1600), (60.0, 3e4)):
        given, axes = made(kind, n, dtype)
        x = given["x"].astype("f8") + 10
        along = (
            x
            if kind in PLANES
            else x.swapaxes({"three channels": 0, "three dimensions kept": 2}.get(kind, 1), -1)
        )
        along[..., :5] = size
        along[..., :: n // 8] = along[..., 1 :: n // 8] = size
        given["x"] = x.astype(dtype_of(dtype))
        for activation in (None, "relu"):
            check(OP, axes=axes, activation=activation, layouts=NEAR[:1], **given)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-16")
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_wanted(kind: str) -> None:
    """The same bits as among others; x is not read where no result depends on it."""
    for activation, use_variance in itertools.product(ACTIVATIONS[:3], (True, False)):
        given, axes = made(kind, 4200 if kind in ("instance", "rows") else 200, "float32")
        how = {"axes": axes, "activation": activation, "use_variance": use_variance}
        every = cudml.mean_variance_normalization_grad(**given, **how)
        for outputs in (("x",), ("scale",), ("bias",), ("scale", "bias"), ("x", "bias")):
            some = cudml.mean_variance_normalization_grad(**given, **how, outputs=outputs)
            for one, other in zip(some, every, strict=True):
                assert one is None or bits(one).tolist() == bits(other).tolist()


@pytest.mark.small
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "kind",
    [
        "group",
        "instance",
        "rows",
        "batch",
        "batch last",
        "three channels",
        "group last",
        "positions",
    ],
)
def test_a_cell_is_the_same_among_others(kind: str, dtype: str) -> None:
    for n, activation in itertools.product((49, 600), (None, "swish")):
        given, axes = made(kind, n, dtype)
        kept = {"batch": 1, "three channels": 1, "batch last": 2, "group last": 2}.get(kind, 0)
        at = tuple(slice(1, 2) if d == kept else slice(None) for d in range(given["x"].ndim))
        some = {k: a[tuple(s if m > 1 else slice(None) for s, m in zip(at, a.shape, strict=True))]
                for k, a in given.items()}  # fmt: skip
        every = cudml.mean_variance_normalization_grad(**given, axes=axes, activation=activation)[0]
        alone = cudml.mean_variance_normalization_grad(**some, axes=axes, activation=activation)[0]
        assert bits(alone).tolist() == bits(every[at]).tolist()


@pytest.mark.small
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize(
    ("shape", "dtype"), [((20000, 4), "float32"), ((3000, 40), "float16"), ((700, 3), "float64")]
)
def test_totals_of_many_rows(shape: tuple[int, int], dtype: str) -> None:
    """So many parts that several lanes join those of an element, and the last one has fewer."""
    device = backends.current()
    given = arrays_of_gradient(shape, (1, shape[1]), dtype)
    mean, variance = (data((shape[0], 1), "float64", seed) for seed in (5, 6))
    call = {**given, "axes": 1, "mean": mean, "variance": np.abs(variance)}
    sent = {k: device.to(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
    results = [device.back(y) for y in device.call(OP, **sent)]
    verdict = bounds.compare(results, bounds.expected(OP, **call))
    assert verdict.ok, verdict.message
