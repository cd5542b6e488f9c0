"""Packed groups along which a scale and a bias come again, as those of channels that are stored
last and make up one group, or that are the same over each of several short pieces."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import check
from mvn_support import bits, placed
from pool_support import dtype_of

OP = "mean_variance_normalization"
PATH = "mvn/rows"
NARROW = ("float16", "bfloat16", "float32")
INF = float("inf")

# Divisors of lines and others, and more than one row of parameters has.
CHANNELS = (2, 3, 8, 15, 16, 24, 31, 96, 1025, 2048, 2049)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", ("linear", {"alpha": -1.5, "beta": 1}),
    ("leaky_relu", {"alpha": -0.5}), "tanh",
)  # fmt: skip
LENGTHS = (2, 3, 7, 8, 13, 16, 31, 64, 65)  # of pieces, the last of which are taken one by one
# What of the parameters is there, and whose: of all, of each group, or of no channel.
PARAMETERS: dict[str, Any] = {
    "both": ("all", "all"),
    "scale": ("all", None),
    "bias": (None, "all"),
    "a scale of all": ("one", "all"),
    "a bias of all": ("all", "one"),
    "own": ("own", "own"),
    "own bias": ("all", "own"),
    "own scale": ("own", None),
}


def arrays(
    n: int,
    positions: int,
    channels: int,
    parts: str,
    dtype: str,
    of: str | None = None,
    first: bool = False,
) -> dict[str, Any]:
    """Groups near 0, far from it, and of small numbers; parameters of type `of`. The channels are
    the last dimension, or the one in the middle."""
    rng = np.random.default_rng([n, positions, channels])
    x = rng.standard_normal((n, channels, positions) if first else (n, positions, channels))
    x[1::3] += 40
    x[2::3] *= 2.0**-9
    given: dict[str, Any] = {"x": x.astype(dtype_of(dtype))}
    for name, whose in zip(("scale", "bias"), PARAMETERS[parts], strict=True):
        count = 1 if whose == "one" else channels
        shape = (n if whose == "own" else 1, *((count, 1) if first else (1, count)))
        value = rng.standard_normal(shape).astype(dtype_of(of or dtype))
        given[name] = value if whose else None
    return given


def normalized(given: dict[str, Any], **how: Any) -> Any:
    return cudml.mean_variance_normalization(**given, axes=(1, 2), **how)


def takes(given: dict[str, Any]) -> bool:
    return str(cudml.explain(OP, **given, axes=(1, 2), device="cpu").kernel) == PATH


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("parts", PARAMETERS)
def test_every_count_of_channels(parts: str, dtype: str) -> None:
    rotation = itertools.cycle(ACTIVATIONS)
    for channels, positions in itertools.product(CHANNELS, (2, 7, 64, 333)):
        given = arrays(4, positions, channels, parts, dtype)
        assert takes(given) or channels * positions < 16
        check(OP, **given, axes=(1, 2), activation=next(rotation), layouts=("contiguous",))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("parts", PARAMETERS)
def test_every_length_of_pieces(parts: str, dtype: str) -> None:
    rotation = itertools.cycle(ACTIVATIONS)
    for length, channels in itertools.product(LENGTHS, (2, 7, 64, 333)):
        given = arrays(4, length, channels, parts, dtype, first=True)
        assert takes(given) or channels * length < 16
        check(OP, **given, axes=(1, 2), activation=next(rotation), layouts=("contiguous",))


@pytest.mark.parametrize("dtype", NARROW)
def test_in_every_layout(dtype: str) -> None:
    """Three dimensions of a group; parameters of another type, and formulas with parts missing."""
    of = "float32" if dtype != "float32" else None
    for channels, how in itertools.product(
        (3, 10, 32), ({}, {"use_mean": False}, {"use_variance": False}, {"activation": "swish"})
    ):
        given = arrays(3, 84, channels, "both", dtype, of)
        given["x"] = given["x"].reshape(3, 7, 12, channels)
        for name in ("scale", "bias"):
            given[name] = given[name].reshape(1, 1, 1, channels)
        check(OP, **given, axes=(1, 2, 3), **how)


@pytest.mark.core
def test_groups_that_take_no_part() -> None:
    """A scale or bias that changes from position to position, and pieces with gaps between them."""
    x = np.ones((2, 9, 5), "f4")
    one = np.ones((1, 1, 5), "f4")
    own = np.ones((1, 9, 5), "f4")
    assert takes({"x": x, "scale": one, "bias": one})
    assert takes({"x": x, "scale": own, "bias": own})  # one row as long as the group
    assert takes({"x": x, "scale": own[..., :1], "bias": own[..., :1]})
    assert not takes({"x": x, "scale": one, "bias": own[..., :1]})
    assert not takes({"x": np.ones((2, 9, 6), "f4")[..., :5], "scale": one, "bias": one})
    assert not takes({"x": x[:, :3], "scale": one, "bias": one})  # of 15 elements
    assert not takes({"x": x.astype("f8"), "scale": one.astype("f8"), "bias": one.astype("f8")})


@pytest.mark.parametrize("dtype", NARROW)
def test_statistics_beside_the_result(dtype: str) -> None:
    """They are right, and change no bit of it."""
    for channels in (3, 16, 40):
        given = arrays(5, 70, channels, "own", dtype)
        check(OP, **given, axes=(1, 2), return_statistics=True, layouts=("contiguous",))
        y, *_ = normalized(given, return_statistics=True)
        np.testing.assert_array_equal(bits(y), bits(normalized(given)))


# Where a group is written, in place or past the caches, what surrounds it and how many threads
# there are do not reach its bits; nothing else is written.
ALONE = """
from tests.mvn import test_repeated_parameters
test_repeated_parameters.same_among_others()
print("done")
"""


def same_among_others() -> None:
    for dtype, (channels, positions, first), parts in itertools.product(
        NARROW,
        ((3, 43, False), (12, 43, False), (16, 43, False), (50, 43, False), (1025, 5, False),
         (43, 3, True), (300, 13, True), (9, 31, True), (40, 64, True)),
        ("both", "own", "scale"),
    ):  # fmt: skip
        given = arrays(9, positions, channels, parts, dtype, first=first)
        x = given["x"]
        x[3, 1, 2], x[5, 0, 0] = INF, np.nan
        cudml.set_num_threads(1)
        own = [{k: v[i : i + 1] if v is not None and len(v) > 1 else v for k, v in given.items()}
               for i in range(9)]  # fmt: skip
        alone = np.concatenate([normalized(one) for one in own])
        is_nan = np.isnan(alone.astype("f4")).any((1, 2))
        assert np.flatnonzero(is_nan).tolist() == [3, 5]
        for (offset, gap), threads in itertools.product(((0, 0), (1, 0), (7, 32), (16, 9)), (1, 2)):
            cudml.set_num_threads(threads)
            case = (dtype, channels, positions, parts, offset, gap, threads)
            room, y = placed(x.shape, x.dtype, offset, gap)
            normalized(given, out=y)
            assert (bits(y) == bits(alone)).all(), case
            y[...] = x
            normalized({**given, "x": y}, out=y)
            assert (bits(y) == bits(alone)).all(), ("in place", *case)
            y[...] = 7
            assert (room == 7).all(), case


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("limit", [pytest.param("0", marks=pytest.mark.core), "1000000000000"])
def test_groups_come_out_the_same_among_others(limit: str) -> None:
    assert child_says(ALONE, CUDML_STREAM_BYTES=limit, limit=120) == "done"


@pytest.mark.decision("D-TEN-9")
def test_long_groups_that_threads_share() -> None:
    """One group and several threads: pieces begin anywhere in a row of parameters."""
    before = cudml.get_num_threads()
    try:
        for dtype, channels, first in itertools.product(NARROW, (3, 7, 48), (False, True)):
            sizes = (channels, 30011) if first else (30011, channels)
            given = arrays(1, *sizes, "both", dtype, first=first)
            cudml.set_num_threads(1)
            want = normalized(given, activation="relu")
            check(OP, **given, axes=(1, 2), activation="relu", layouts=("contiguous",), backend=CPU)
            for threads in (2, 5):
                cudml.set_num_threads(threads)
                got = normalized(given, activation="relu")
                np.testing.assert_array_equal(bits(got), bits(want))
    finally:
        cudml.set_num_threads(before)


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
def test_where_results_are_stored_reaches_no_bit(dtype: str) -> None:
    """Results with other strides than a packed group: apart from each other, turned, or with gaps
    between their pieces. Nothing is written between them."""
    rotation = itertools.cycle(ACTIVATIONS)
    for (sizes, first), parts in itertools.product(
        (((3, 7, 3), False), ((3, 40, 33), False), ((2, 3, 1025), False), ((3, 31, 9), True),
         ((3, 5, 40), True), ((1, 30011, 7), False)),
        ("both", "own", "bias"),
    ):  # fmt: skip
        given = arrays(*sizes, parts, dtype, first=first)
        x, activation = given["x"], next(rotation)
        rows = {k: a if a is None else np.array(np.broadcast_to(a, x.shape))
                for k, a in given.items()}  # fmt: skip
        n, one, two = x.shape
        rooms = [
            np.full(shape, 7).astype(x.dtype)
            for shape in (
                (n, one, 2 * two),
                (n, two, one),
                (n, one + 1, two + 3),
                (n, 2 * one, two),
            )
        ]
        results = (
            rooms[0][..., 1::2], rooms[1].transpose(0, 2, 1), rooms[2][:, 1:, :two],
            rooms[3][:, ::2],
        )  # fmt: skip
        for each in (given, rows):
            want = normalized(each, activation=activation)
            for k, (room, y) in enumerate(zip(rooms, results, strict=True)):
                normalized(each, activation=activation, out=y)
                assert (bits(y) == bits(want)).all(), (sizes, first, parts, k)
                y[...] = 7
                assert (room == 7).all(), (sizes, first, parts, k)
