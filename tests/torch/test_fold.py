"""Any pooled dimensions over any order of memory: the bits of `cudml`, without needless copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from harness import data

torch = pytest.importorskip("torch", reason="torch is not installed")
dynamo = pytest.importorskip("torch._dynamo.config", reason="this torch has no dynamo")

import cudml  # noqa: E402
import cudml.torch  # noqa: E402
import torch_support as ts  # noqa: E402

# The shape, which dimension lies where in memory, and the pooled ones.
CASES = (
    ((9, 12, 13, 11), (2, 1, 3, 0), (0, 1)),
    ((12, 3, 6, 16), (1, 3, 2, 0), (0, 3)),
    ((3, 11, 9, 5), (0, 1, 2, 3), (1, 2)),  # an NHWC tensor, row-major
    ((3, 5, 11, 9), (0, 2, 3, 1), (1, 2)),  # channels last, by strides
    ((11, 9, 3), (0, 1, 2), (0, 1)),  # a photo
    ((11, 9, 3), (2, 1, 0), (0, 1)),
    ((7, 6, 7, 7, 5), (2, 1, 3, 4, 0), (0, 2, 3)),
    ((7, 5, 4, 6, 7), (4, 3, 2, 1, 0), (1, 4)),  # three pieces of a batch
    ((5, 4, 7, 1, 6), (0, 1, 4, 3, 2), (0, 2)),
    ((4, 6, 5, 7), (3, 1, 0, 2), (3,)),
    ((6, 7), (1, 0), (0, 1)),  # no batch
)
FUNCTIONS = ("average_pooling", "lp_pooling", "max_pooling")


def laid(shape: Sequence[int], order: Sequence[int], seed: int, cut: bool = False) -> Any:
    """An array whose dimensions follow each other in memory in this order, or a part of one."""
    more = [n + cut * (d % 2) for d, n in enumerate(shape)]
    whole = data([more[d] for d in order], "float32", seed).transpose(np.argsort(order))
    return whole[tuple(slice(n) for n in shape)]


@pytest.mark.decision("D-GRAD-38")
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "part"])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_of_pooling(name: str, case: Any, cut: bool) -> None:
    """Sums are added in the order of memory, which a copy in another order would not keep."""
    shape, order, axes = case
    x = laid(shape, order, 5, cut)
    window, strides, start = (3, 2, 4)[: len(axes)], (1, 2, 1)[: len(axes)], (1, 0, 2)[: len(axes)]
    options: dict[str, Any] = {"axes": axes}
    if name == "max_pooling":
        options |= {"return_indices": True, "index_dtype": "int64"}
    want = ts.listed(getattr(cudml, name)(x, window, strides, start, **options))
    for wants_grad in (False, True):
        t = torch.from_numpy(x).requires_grad_(wants_grad)
        results = ts.listed(getattr(cudml.torch, name)(t, window, strides, start, **options))
        assert len(results) == len(want)
        assert all(ts.equal(*pair) for pair in zip(results, want, strict=True))
        is_last = t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last)
        kept = torch.channels_last if is_last else torch.contiguous_format
        assert all(y.is_contiguous(memory_format=kept) for y in results)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case: Any) -> None:
    shape, order, axes = case
    window, strides = (3, 2, 4)[: len(axes)], (1, 2, 1)[: len(axes)]
    x = laid(shape, order, 6)
    g = data(cudml.max_pooling(x, window, strides, axes=axes).shape, "float32", 7)
    for name in ("max_pooling", "average_pooling"):
        t = torch.from_numpy(x).requires_grad_()
        getattr(cudml.torch, name)(t, window, strides, axes=axes).backward(ts.tensor(g))
        given = (x, g) if name == "max_pooling" else (g, x.shape)
        want = getattr(cudml, f"{name}_grad")(*given, window, strides, axes=axes)
        assert ts.equal(t.grad, want)
        for n, *steps in zip(shape, t.grad.stride(), t.stride(), strict=True):
            assert n == 1 or steps[0] == steps[1]


@pytest.mark.parametrize("case", [CASES[i] for i in (1, 2, 3, 4, 5, 9, 10)], ids=str)
def test_two_pieces_of_a_batch_are_no_copy(case: Any) -> None:
    """What backward keeps of x is x."""
    shape, order, axes = case
    t = torch.from_numpy(laid(shape, order, 8)).requires_grad_()
    kept: list[int] = []

    def keep(saved: Any) -> Any:
        kept.append(saved.untyped_storage().data_ptr())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        cudml.torch.max_pooling(t, 2, axes=axes)
    assert kept == [t.untyped_storage().data_ptr()]


def test_an_image_stays_as_it_lies() -> None:
    """Channels last, by their strides or by their axes: neither input nor result is copied."""
    photos = data((3, 11, 9, 5), "float32", 9)
    t = torch.from_numpy(photos).requires_grad_()
    y = cudml.torch.average_pooling(t, 3, axes=(1, 2))
    assert y.is_contiguous() and y._base is not None
    same = cudml.torch.average_pooling(t.permute(0, 3, 1, 2), 3)
    assert same.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y, same.permute(0, 2, 3, 1))


@pytest.mark.parametrize("axes", [(1, 2), (1, 3), (2,)])
def test_one_program_for_every_batch_size(axes: tuple[int, ...]) -> None:
    torch._dynamo.reset()

    def pooled(x: Any) -> Any:
        return cudml.torch.lp_pooling(x, 2, axes=axes, p=3)

    compiled = torch.compile(pooled, fullgraph=True, dynamic=True, backend="aot_eager")
    for i, n in enumerate((3, 4, 6)):
        x = torch.from_numpy(data((n, 6, 5, 4), "float32", n)).transpose(1, 2)
        with dynamo.patch(error_on_recompile=i > 0):
            y = compiled(x)
        assert ts.equal(y, cudml.lp_pooling(x.numpy(), 2, axes=axes, p=3))
