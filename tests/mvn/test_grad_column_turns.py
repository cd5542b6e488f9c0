"""The gradient of normalization by columns where a thread takes all passes over some cells before
the next ones: those of some samples, or of some channels of all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import cudml
from backends import CPU
from harness import check
from mvn_support import bits
from placed_gradients import arrays_of_gradient
from pool_support import FLOATS

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/columns"
gradient: Any = cudml.mean_variance_normalization_grad
THREADS = (1, 2, 3, 5)

# Shape, axes and sizes of scale and bias, for n samples: of channels that are stored last, of
# groups of these, and of planes of 9 elements; more rows than a part has, and fewer.
KINDS: dict[str, Any] = {
    "instance": lambda n: ((n, 9, 7, 40), (1, 2), (1, 1, 1, 40)),
    "instance, own": lambda n: ((n, 300, 24), (1,), (n, 1, 24)),
    "groups": lambda n: ((n, 33, 5, 6), (1, 3), (1, 1, 5, 6)),
    "long groups": lambda n: ((n, 270, 3, 12), (1, 3), (1, 1, 3, 12)),
    "batch": lambda n: ((n, 40, 700), (0, 1), (1, 1, 700)),
    "long batch": lambda n: ((n, 290, 261), (0, 1), (1, 1, 261)),
    "batch of groups": lambda n: ((n, 20, 300, 5), (0, 1, 3), (1, 1, 300, 5)),
    "batch of planes": lambda n: ((2 * n, 650, 9), (0, 2), (1, 650, 1)),
}
SAMPLES = ("instance", "instance, own", "groups", "long groups")
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", "tanh", ("linear", {"alpha": -1.5, "beta": 1}),
)  # fmt: skip


@pytest.fixture(autouse=True)
def threads() -> Any:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


def made(kind: str, n: int, dtype: str) -> tuple[dict[str, Any], Any]:
    shape, axes, sizes = KINDS[kind](n)
    given = arrays_of_gradient(shape, sizes, dtype)
    path = cudml.explain(OP, **given, axes=axes, device="cpu").kernel
    assert path == PATH, (kind, path)
    return given, axes


def same(one: Any, other: Any) -> bool:
    return all(
        bits(a).tolist() == bits(b).tolist()
        for a, b in zip(one, other, strict=True)
        if a is not None
    )


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_threads(kind: str, dtype: str) -> None:
    """Right, and the same bits whoever takes which cells."""
    rotation = itertools.cycle(ACTIVATIONS)
    for n in (1, 4, 5, 12):
        given, axes = made(kind, n, dtype)
        activation = next(rotation)
        for outputs in (("x", "scale", "bias"), ("x",), ("bias", "scale")):
            how = {"axes": axes, "activation": activation, "outputs": outputs}
            every = []
            for count in THREADS:
                cudml.set_num_threads(count)
                every.append(gradient(**given, **how))
            assert all(same(every[0], other) for other in every[1:]), (n, activation, outputs)
        check(OP, axes=axes, activation=activation, layouts=("contiguous",), backend=CPU, **given)


def shaken(given: dict[str, Any], samples: slice, share: int = 1) -> None:
    """Has some cells need more passes than others, of some samples and of a share of their columns:
    guesses, which rows at even distances give, are far from the means of every third one, and every
    fifth is so small or so large that factors must not be joined."""
    x = given["x"]
    cells = x.reshape(len(x), x.shape[1], -1).astype("f8")
    some = cells[samples, :, : cells.shape[2] // share]
    places = 1
    while places < 32 and places * 16 <= x.shape[1]:
        places *= 2
    some[:, :: x.shape[1] // places, ::3] += 3000
    some[..., ::5] *= 2.0**-40  # times grad these leave float32's range
    some[..., 1::5] *= 2.0**24
    given["x"] = cells.reshape(x.shape).astype(x.dtype)
    grad = given["grad"].reshape(cells.shape)
    grad[samples, :, : cells.shape[2] // share : 5] *= grad.dtype.type(2.0**-105)


@pytest.mark.core
@pytest.mark.decision("D-TEN-9", "D-GRAD-1")
@pytest.mark.parametrize("activation", [None, "relu", "swish"], ids=str)
@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_apart_and_among_others(kind: str, activation: Any) -> None:
    """Whatever other cells of the same turn need."""
    for dtype, n in itertools.product(("float32", "float64"), (3, 8)):
        given, axes = made(kind, n, dtype)
        shaken(given, slice(1, None, 2))
        how = {"axes": axes, "activation": activation, "epsilon": 2.0**-120}
        check(OP, layouts=("contiguous",), backend=CPU, **given, **how)
        for count in (1, 2):
            cudml.set_num_threads(count)
            every = gradient(**given, **how)
            for i in range(n):
                own = {k: a[i : i + 1] if len(a) > 1 else a for k, a in given.items()}
                alone = gradient(**own, **how)[0]
                assert bits(alone).tolist() == bits(every[0][i : i + 1]).tolist()


@pytest.mark.core
@pytest.mark.decision("D-TEN-9", "D-GRAD-1")
@pytest.mark.parametrize("activation", [None, "swish"], ids=str)
@pytest.mark.parametrize("kind", ["batch", "long batch", "batch of groups", "batch of planes"])
def test_channels_that_need_more_passes(kind: str, activation: Any) -> None:
    """Have no part in what is done with their neighbours, by one thread or by several."""
    for dtype in ("float32", "float64"):
        given, axes = made(kind, 3, dtype)
        plain = gradient(**given, axes=axes, activation=activation)
        shaken(given, slice(None), 5)
        how = {"axes": axes, "activation": activation, "epsilon": 2.0**-120}
        check(OP, layouts=("contiguous",), backend=CPU, **given, **how)
        every = []
        for count in THREADS:
            cudml.set_num_threads(count)
            every.append(gradient(**given, **how))
        assert all(same(every[0], other) for other in every[1:])
        assert not same(every[0], plain)
