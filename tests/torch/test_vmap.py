"""torch.vmap: the results of a loop, whatever is mapped, and along whatever dimension."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from harness import refused

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


@pytest.mark.parametrize("name", ["max_pooling", "average_pooling_grad", "max_unpooling"])
def test_a_batch_of_one(name: str) -> None:
    case = {**ts.forward("float64"), **ts.backward("float64")}[name]
    tensors = [t.unsqueeze(1) for t in case.tensors().values()]
    compared(case, tensors, [1] * len(tensors))


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
    assert torch.equal(torch.vmap(padded, 4)(x.movedim(0, 4)), torch.vmap(padded)(x))
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


def test_gradients_with_given_statistics() -> None:
    """There is no operator that takes them: the sums of two operators stand for it."""
    x, grad = torch.rand(4, 2, 3, 5, dtype=torch.float64), torch.rand(4, 2, 3, 5).double()
    scale, mean, variance = torch.rand(1, 3, 1).double(), *torch.rand(2, 2, 1, 5).double()
    for options in ({"mean": mean, "variance": variance}, {"mean": mean, "use_variance": False}):
        options |= {"axes": 1, "activation": "gelu"}
        run = lambda v, g, o=options: ct.mean_variance_normalization_grad(v, g, scale, **o)[:2]  # noqa: E731
        each = zip(*(run(v, g) for v, g in zip(x, grad, strict=True)), strict=True)
        for got, want in zip(torch.vmap(run)(x, grad), each, strict=True):
            assert torch.allclose(got, torch.stack(want), rtol=1e-12, atol=1e-13)
    with refused(ValueError, "Mean is given; with a statistic given, mean must be there exactly"):
        torch.vmap(lambda v, g: run(v, g, {**options, "use_mean": False}))(x, grad)


@pytest.mark.parametrize("wanted", ["scale", "bias"])
def test_a_shared_parameter_has_a_gradient_of_each_part(wanted: Any) -> None:
    """Where the gradient of the other one is not asked for."""
    x, grad = torch.rand(2, 4, 2, 3).double()
    scale, bias, variance = torch.rand(3, 1, 3).double()
    at = ("x", "scale", "bias").index(wanted)
    asked = {"outputs": (wanted,), "activation": "swish"}

    def own(v: Any, g: Any) -> Any:
        return ct.mean_variance_normalization_grad(v, g, scale, bias, axes=1, **asked)[at]

    def given(v: Any, g: Any) -> Any:
        return ct.normalize_grad(v, g, None, variance, scale, bias, **asked)[at]

    for run in (own, given):
        want = torch.stack([run(v, g) for v, g in zip(x, grad, strict=True)])
        assert torch.allclose(torch.vmap(run)(x, grad), want, rtol=1e-12, atol=1e-13)
        assert torch.vmap(run)(x[:0], grad[:0]).shape == (0, 1, 3)


def test_statistics_of_half_precision_are_wide() -> None:
    x = torch.rand(4, 3, 5).half()
    run = lambda v: ct.mean_variance_normalization(v, axes=1, return_statistics=True)  # noqa: E731
    for got, want in zip(torch.vmap(run)(x), zip(*map(run, x), strict=True), strict=True):
        torch.testing.assert_close(got, torch.stack(want), rtol=1e-6, atol=1e-7)


def test_registered_operators_have_the_rules() -> None:
    """Also where they are called by their own names, as programs do that were exported."""
    x = torch.rand(3, 2, 4, 5)
    operator = torch.ops.cudml.padding.default
    pad = lambda t: operator(t, [1, 0, 2], [0, 3, 1], "reflection", 0)  # noqa: E731
    assert torch.equal(torch.vmap(pad)(x), torch.stack([pad(t) for t in x]))
    statistics = torch.ops.cudml.normalization_statistics.default
    count = lambda t: statistics(t, [-1, 0], True, torch.float64)  # noqa: E731
    for got, *want in zip(torch.vmap(count)(x), *map(count, x), strict=True):
        assert torch.equal(got, torch.stack(want))
    normalization = torch.ops.cudml.mean_variance_normalization.default
    normal = lambda t: normalization(t, None, None, [-1], True, True, 1e-5, "", [])  # noqa: E731
    assert torch.allclose(torch.vmap(normal)(x), torch.stack([normal(t) for t in x]), atol=1e-6)


def test_an_index_out_of_range_does_not_reach_the_next_sample() -> None:
    x = torch.arange(1.0, 5).reshape(2, 1, 1, 2)
    indices = torch.tensor([[[[3, 1]]], [[[-1, 2]]]])
    got = torch.vmap(lambda v, i: ct.max_unpooling(v, i, (1, 1, 3)))(x, indices)
    assert got.tolist() == [[[[0.0, 2.0, 0.0]]], [[[0.0, 0.0, 4.0]]]]


def test_a_window_without_elements_has_no_place_in_any_sample() -> None:
    x = torch.rand(3, 1, 2, 4)
    pool = lambda v: ct.max_pooling(v, 2, 2, 2, return_indices=True)  # noqa: E731
    for got, want in zip(torch.vmap(pool)(x), zip(*map(pool, x), strict=True), strict=True):
        assert torch.equal(got, torch.stack(want))
    assert (pool(x[2])[1][..., 0] == -1).all()
