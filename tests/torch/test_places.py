"""Elements at flat positions, whatever the order in memory: the gradients of unpooling, and of max
pooling's gradient."""

from __future__ import annotations

from typing import Any

import pytest

from harness import refused

torch = pytest.importorskip("torch")

import cudml.torch as ct  # noqa: E402
import cudml.torch.nn.functional as ours  # noqa: E402
from cudml.torch._places import taken  # noqa: E402

SHAPES = ((2, 3, 4, 6), (1, 5, 2, 4, 6), (3, 1, 4, 6), (2, 3, 8))


def last(x: Any) -> Any:
    """The same with channels last."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def places(shape: tuple[int, ...], kind: str) -> Any:
    """Of windows of two along each dimension, into a result twice as long along each."""
    planes, count = shape[0] * shape[1], 1
    for n in shape[2:]:
        count *= n
    plane = count * 2 ** len(shape[2:])
    within = torch.stack([torch.randperm(plane)[:count] for _ in range(planes)])
    if kind == "twice":
        within[:, 1::3] = within[:, :1]
    if kind == "of other planes":
        within[:, ::2] += plane
    flat = within + plane * torch.arange(planes)[:, None]
    if kind == "of other planes":
        flat[-1, ::2] -= 2 * plane * (planes > 1)
    if kind == "out of range":
        flat[:, 0], flat[-1, 1] = -1, planes * plane + 5
    return flat.reshape(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("kind", ["apart", "twice", "of other planes", "out of range"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_unpooling(shape: tuple[int, ...], kind: str, dtype: Any) -> None:
    """Those of a loop over the elements: the last of several with one place has won it."""
    torch.manual_seed(sum(shape))
    sizes = [*shape[:2], *(2 * n for n in shape[2:])]
    x, indices, grad = torch.randn(shape), places(shape, kind), torch.randn(sizes)
    x, grad = x.to(dtype), grad.to(dtype)
    winner = {flat: i for i, flat in enumerate(indices.reshape(-1).tolist())}
    want = torch.zeros(x.numel(), dtype=dtype)
    for flat, i in winner.items():
        if 0 <= flat < grad.numel():
            want[i] = grad.reshape(-1)[flat]
    for order in (lambda t: t, last):
        for order_of_grad in (lambda t: t, last):
            leaf = order(x).requires_grad_()
            y = ct.max_unpooling(leaf, order(indices), sizes)
            (dx,) = torch.autograd.grad(y, leaf, order_of_grad(grad))
            assert torch.equal(dx, want.reshape(shape))


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_indices_within_planes(shape: tuple[int, ...]) -> None:
    """Those of PyTorch, in either order, and there and back."""
    torch.manual_seed(7)
    pool = f"max_pool{len(shape) - 2}d"
    x = torch.randn(shape)
    want, there = getattr(torch.nn.functional, pool)(x, 2, return_indices=True)
    for order in (lambda t: t, last):
        y, indices = getattr(ours, pool)(order(x), 2, return_indices=True)
        assert torch.equal(y, want)
        assert torch.equal(indices, there)
        back = getattr(ours, pool.replace("pool", "unpool"))(y, indices, 2)
        assert torch.equal(getattr(ours, pool)(back.abs(), 2), want.abs())


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_second_gradients_of_max_pooling(shape: tuple[int, ...]) -> None:
    """In either order; elements at the winners."""
    torch.manual_seed(9)
    window = [2] * (len(shape) - 2)
    found = []
    for order in (lambda t: t, last):
        torch.manual_seed(9)
        x = order(torch.randn(shape)).requires_grad_()
        y = ct.max_pooling(x, window, window)
        grad = order(torch.randn(y.shape)).requires_grad_()
        (dx,) = torch.autograd.grad(y, x, grad, create_graph=True)
        (back,) = torch.autograd.grad(dx, grad, order(torch.randn(shape)))
        found.append(back)
    assert torch.equal(*found)
    assert found[0].count_nonzero() == found[0].numel()


def test_a_default_device_is_not_that_of_tensors() -> None:
    """Where pixels are looked up on the CPU, whatever device new tensors have by default."""
    torch.manual_seed(3)
    shape, sizes = (2, 3, 4, 6), (2, 3, 8, 12)
    values, flat = last(torch.randn(sizes)), last(places(shape, "apart"))
    with torch.device("meta"):
        found = taken(values, flat)
    assert torch.equal(found, values.reshape(-1)[flat])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_indices_whose_memory_was_freed(shape: tuple[int, ...], dtype: Any) -> None:
    """As those that FSDP takes from a module: refused, where reading them would end the process."""
    indices = torch.zeros(shape, dtype=dtype)
    indices.untyped_storage().resize_(0)
    unpool = getattr(ours, f"max_unpool{len(shape) - 2}d")
    for asks in (False, True):
        with refused(BufferError, "indices", "has no memory"):
            unpool(torch.ones(shape, requires_grad=asks), indices, 2)
