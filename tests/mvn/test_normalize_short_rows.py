"""Given statistics of short packed rows that follow each other: of channels that come first, where
planes are of less than 16 elements."""

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
from pool_support import FLOATS, dtype_of

OP = "normalize"
PATH = "normalize/columns"
LENGTHS = (2, 3, 4, 7, 8, 9, 13, 15)
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", ("linear", {"alpha": -1.5, "beta": 1}), "tanh",
)  # fmt: skip
# Of {N, C, length}: the shapes of mean, variance, scale and bias; None where one is absent.
KINDS: dict[str, Any] = {
    "batch": ("c", "c", "c", "c"),
    "batch, alone": ("c", "c", None, None),
    "batch, scale": ("c", "c", "c", None),
    "batch, one bias": ("c", "c", "c", "1"),
    "instance": ("nc", "nc", "c", "c"),
    "mean": ("c", None, None, "c"),
    "variance": (None, "c", "c", None),
    "own parameters": ("c", "c", "nc", "nc"),
    "whole": ("n", "n", "c", "c"),
}


def arrays(n: int, channels: int, length: int, kind: str, dtype: str) -> dict[str, Any]:
    """Means of float64 are not what a float32 holds."""
    rng = np.random.default_rng([n, channels, length])
    given: dict[str, Any] = {"x": rng.standard_normal((n, channels, length)) * 3 + 1}
    for name, whose in zip(("mean", "variance", "scale", "bias"), KINDS[kind], strict=True):
        given[name] = None
        if whose is None:
            continue
        shape = (n if "n" in whose else 1, channels if "c" in whose else 1, 1)
        value = rng.standard_normal(shape)
        given[name] = value * value if name == "variance" else value
    wide = "float64" if channels % 2 else "float32"
    types = {"mean": wide, "variance": wide}
    return {
        name: a if a is None else a.astype(dtype_of(types.get(name, dtype)))
        for name, a in given.items()
    }


def takes(given: dict[str, Any]) -> bool:
    return str(cudml.explain(OP, **given, device="cpu").kernel) == PATH


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_length(kind: str, dtype: str) -> None:
    rotation = itertools.cycle(ACTIVATIONS)
    for length, (n, channels) in itertools.product(LENGTHS, ((1, 5), (3, 12), (4, 211), (2, 700))):
        given = arrays(n, channels, length, kind, dtype)
        assert takes(given)
        check(OP, **given, activation=next(rotation), layouts=("contiguous",), backend=CPU)


@pytest.mark.parametrize("dtype", FLOATS)
def test_in_every_layout(dtype: str) -> None:
    """Two dimensions of a plane, which other layouts tear apart."""
    for kind in ("batch", "instance"):
        given = arrays(3, 20, 6, kind, dtype)
        given = {
            name: a if a is None else a.reshape(*a.shape[:2], *((2, 3) if name == "x" else (1, 1)))
            for name, a in given.items()
        }
        check(OP, **given, activation="swish")


def test_rows_that_are_no_columns() -> None:
    """Rows that share nothing, that have gaps between them, or parameters for each element."""
    x, c, row = np.ones((3, 5, 7), "f4"), np.ones((1, 5, 1), "f4"), np.ones((1, 1, 7), "f4")
    assert takes({"x": x, "mean": c, "variance": c})
    assert not takes({"x": np.ones((3, 5, 8), "f4")[..., :7], "mean": c, "variance": c})
    assert not takes({"x": x, "mean": c, "variance": c, "scale": row, "bias": None})
    assert not takes({"x": np.ones((3, 5, 16), "f4"), "mean": c, "variance": c})


ALONE = """
from tests.mvn import test_normalize_short_rows
test_normalize_short_rows.same_among_others()
print("done")
"""


def same_among_others() -> None:
    """Images at once have the bits that each has alone, wherever they are written, and nothing else
    is: past the caches or through them, in place, by one thread or two."""
    for dtype, (channels, length), kind in itertools.product(
        FLOATS, ((5, 3), (21, 7), (600, 2), (301, 13)), ("batch", "instance", "whole")
    ):
        given = arrays(9, channels, length, kind, dtype)
        x = given["x"]
        cudml.set_num_threads(1)
        alone = np.concatenate([
            cudml.normalize(**{
                k: a[i : i + 1] if a is not None and len(a) > 1 else a for k, a in given.items()
            }) for i in range(9)
        ])  # fmt: skip
        for (offset, gap), threads in itertools.product(((0, 0), (1, 0), (7, 32), (16, 9)), (1, 2)):
            cudml.set_num_threads(threads)
            case = (dtype, channels, length, kind, offset, gap, threads)
            room, y = placed(x.shape, x.dtype, offset, gap)
            cudml.normalize(**given, out=y)
            assert (bits(y) == bits(alone)).all(), case
            y[...] = x
            cudml.normalize(**{**given, "x": y}, out=y)
            assert (bits(y) == bits(alone)).all(), ("in place", *case)
            y[...] = 7
            assert (room == 7).all(), case


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("limit", [pytest.param("0", marks=pytest.mark.core), "1000000000000"])
def test_images_come_out_the_same_among_others(limit: str) -> None:
    assert child_says(ALONE, CUDML_STREAM_BYTES=limit, limit=120) == "done"
