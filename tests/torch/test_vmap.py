"""torch.vmap: the results of a loop, whatever is mapped, and along whatever dimension."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402

NAMES = (*ts.forward(), *ts.backward())
pytestmark = pytest.mark.decision("D-GRAD-36")


@pytest.fixture(autouse=True)
def _without_a_fallback() -> Iterator[None]:
    """PyTorch says so when it loops for want of a rule."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop.*")
        yield


def several(t: Any, place: int, size: int = 3) -> Any:
    """Tensors stacked along a dimension: each has other values."""
    parts = [t] + [t.roll(i + 1, -1).flip(0) for i in range(size - 1)]
    return torch.stack(parts, place)


def compared(case: Any, tensors: list[Any], places: list[int | None]) -> None:
    got = ts.listed(torch.vmap(case.on, tuple(places))(*tensors))
    size = next(t.shape[p] for t, p in zip(tensors, places, strict=True) if p is not None)
    for i in range(size):
        part = [t if p is None else t.select(p, i) for t, p in zip(tensors, places, strict=True)]
        want = ts.listed(case.on(*part))
        for mapped, alone in zip(got, want, strict=True):
            assert mapped[i].shape == alone.shape and mapped.dtype == alone.dtype
            assert torch.allclose(mapped[i], alone, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("place", [0, 2, -1])
@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_is_mapped(name: str, place: int) -> None:
    case = {**ts.forward("float64"), **ts.backward("float64")}[name]
    tensors = [several(t, place) for t in case.tensors().values()]
    compared(case, tensors, [place] * len(tensors))


@pytest.mark.parametrize("name", NAMES)
def test_one_tensor_is_mapped(name: str) -> None:
    case = {**ts.forward("float64"), **ts.backward("float64")}[name]
    given = list(case.tensors().values())
    for chosen in range(len(given)):
        tensors = [several(t, 1) if i == chosen else t for i, t in enumerate(given)]
        compared(case, tensors, [1 if i == chosen else None for i in range(len(given))])


@pytest.mark.parametrize("name", ["max_pooling", "padding wrap", "normalize"])
def test_nested(name: str) -> None:
    case = ts.forward("float64")[name]
    given = list(case.tensors().values())
    tensors = [several(several(t, 0), 0, 2) for t in given]
    got = torch.vmap(torch.vmap(case.on))(*tensors)
    for i in range(2):
        for k in range(3):
            want = case.on(*(t[i, k] for t in tensors))
            assert torch.allclose(got[i, k], want, rtol=1e-12, atol=1e-12)


def test_more_dimensions_than_an_operator_takes() -> None:
    x = torch.rand(3, 1, 2, 1, 2, 1, 2, 1, 2)
    padded = lambda t: ct.padding(t, 1, 0, mode="edge")  # noqa: E731
    assert torch.equal(torch.vmap(padded)(x), torch.stack([padded(t) for t in x]))
    stats = lambda t: ct.normalization_statistics(t, axes=(1, 7))  # noqa: E731
    for got, *want in zip(torch.vmap(stats)(x), *[stats(t) for t in x], strict=True):
        assert torch.equal(got, torch.stack(want))


def test_one_operator_with_its_gradients() -> None:
    """Gradients of mapped calls, and mapped gradients, with parameters that are not mapped."""
    x, scale = torch.rand(4, 2, 3, dtype=torch.float64), torch.rand(1, 3, dtype=torch.float64)
    loss = lambda v, s: ct.mean_variance_normalization(v, s, axes=1).pow(3).sum()  # noqa: E731
    each = torch.func.vmap(torch.func.grad(loss, (0, 1)), (0, None))(x, scale)
    for i, v in enumerate(x):
        for got, want in zip(each, torch.func.grad(loss, (0, 1))(v, scale), strict=True):
            assert torch.allclose(got[i], want, rtol=1e-12, atol=1e-13)
    leaf = scale.clone().requires_grad_()
    torch.vmap(loss, (0, None))(x, leaf).sum().backward()
    assert torch.allclose(leaf.grad, each[1].sum(0), rtol=1e-12, atol=1e-13)


def test_registered_operators_have_the_rules() -> None:
    """Also where they are called by their own names, as programs do that were exported."""
    x = torch.rand(3, 2, 4, 5)
    operator = torch.ops.cudml.padding.default
    pad = lambda t: operator(t, [1, 0, 2], [0, 3, 1], "reflection", 0)  # noqa: E731
    assert torch.equal(torch.vmap(pad)(x), torch.stack([pad(t) for t in x]))


def test_an_index_out_of_range_does_not_reach_the_next_sample() -> None:
    x = torch.arange(1.0, 5).reshape(2, 1, 1, 2)
    indices = torch.tensor([[[[3, 1]]], [[[-1, 0]]]])
    got = torch.vmap(lambda v, i: ct.max_unpooling(v, i, (1, 1, 3)))(x, indices)
    assert got.tolist() == [[[[0.0, 2.0, 0.0]]], [[[4.0, 0.0, 0.0]]]]
