"""Where results lie in memory: as torch.empty_like's, in channels_last, or row-major."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch  # noqa: E402
import torch_support as ts  # noqa: E402

FORWARD, BACKWARD = tuple(ts.forward()), tuple(ts.backward())


@pytest.mark.decision("D-GRAD-38")
@pytest.mark.parametrize("layout", ts.LAYOUTS)
@pytest.mark.parametrize("name", FORWARD + BACKWARD)
def test_memory_formats_are_those_of_fake_tensors(name: str, layout: str) -> None:
    """Strides agree between the short way, the operator, and the operator on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    case = {**ts.forward(), **ts.backward()}[name]
    tensors = [ts.LAYOUTS[layout](t) for t in case.tensors().values()]
    short = ts.listed(case.on(*tensors))
    asking = [t.requires_grad_() if t.is_floating_point() else t for t in map(copied, tensors)]
    recorded = ts.listed(case.on(*asking))
    with FakeTensorMode() as mode:
        fake = ts.listed(case.on(*(mode.from_tensor(t) for t in tensors)))
    for own, through, without in zip(short, recorded, fake, strict=True):
        assert own.shape == through.shape == without.shape
        assert own.dtype == through.dtype == without.dtype
        assert own.stride() == through.stride() == without.stride()
    if layout == "channels_last" and short[0].shape == tensors[0].shape:
        assert short[0].is_contiguous(memory_format=torch.channels_last)


def copied(t: Any) -> Any:
    """A leaf with the same strides, those of 0 among them."""
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t) if 0 not in t.stride() \
        else t[:1].clone().expand(t.shape).detach()  # fmt: skip


def test_pooled_channels_last_stays_so() -> None:
    x = torch.rand(2, 3, 5, 7).contiguous(memory_format=torch.channels_last)
    one_channel = torch.rand(2, 1, 5, 7)  # is both; taken as row-major
    for t in (x, x.clone().requires_grad_()):
        y, indices = cudml.torch.max_pooling(t, 2, return_indices=True)
        for result in (y, indices, cudml.torch.padding(t, 1, 2)):
            assert result.is_contiguous(memory_format=torch.channels_last)
            assert not result.is_contiguous()
    assert cudml.torch.average_pooling(one_channel, 2).stride() == (24, 24, 6, 1)
    volume = torch.rand(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)
    y = cudml.torch.lp_pooling(volume, 2)
    assert y.is_contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.decision("D-GRAD-38")
@pytest.mark.parametrize("size", [(4, 1), (1, 4)])
@pytest.mark.parametrize("asks", [False, True])
def test_a_spatial_size_of_1_keeps_channels_last(size: tuple[int, int], asks: bool) -> None:
    """What such a dimension grows to stands between N and C in memory, and its stride says so."""
    wide = torch.rand(2, 3, 5, 6).contiguous(memory_format=torch.channels_last)
    x = wide[:, :, : size[0], : size[1]].contiguous(memory_format=torch.channels_last)
    x = torch.empty(x.shape, memory_format=torch.channels_last).copy_(x).requires_grad_(asks)
    grown = (2, 3, size[0] + 1, size[1] + 2)
    want = torch.empty(grown, memory_format=torch.channels_last).stride()
    assert x.stride() == (x[0].numel(), 1, 3 * size[1], 3)
    assert cudml.torch.padding(x, 0, [0, 0, 1, 2], mode="edge").stride() == want
    assert cudml.torch.average_pooling(x, 1, 1, 0, [1, 2]).stride() == want
    assert cudml.torch.max_unpooling(x, torch.zeros(x.shape).long(), grown).stride() == want
    assert all(t.stride() == x.stride() for t in of_its_shape(x))


@pytest.mark.decision("D-GRAD-38")
@pytest.mark.parametrize("shape, strides", [
    ((2, 1, 4, 5), (20, 1, 5, 1)), ((2, 3, 1, 1), (3, 1, 3, 3)), ((1, 3, 2), (1, 2, 1)),
])  # fmt: skip
@pytest.mark.parametrize("asks", [False, True])
def test_strides_of_sizes_of_1_are_kept(shape: Any, strides: Any, asks: bool) -> None:
    """Where a tensor is row-major as well, results of its shape have its strides all the same."""
    x = torch.empty_strided(shape, strides).copy_(torch.rand(shape)).requires_grad_(asks)
    assert x.is_contiguous() and torch.empty_like(x).stride() == strides
    assert [t.stride() for t in of_its_shape(x)] == [strides] * 7


def of_its_shape(x: Any) -> list[Any]:
    """Results of every operator that has some of x's shape."""
    ct, g = cudml.torch, torch.ones_like(x)
    y, *_ = ct.mean_variance_normalization(x, axes=1, return_statistics=True)
    return [
        y, ct.mean_variance_normalization(x, axes=1), ct.normalize(x, None, None),
        ct.max_pooling_grad(x, g, 1), ct.lp_pooling_grad(x, g, g, 1),
        ct.mean_variance_normalization_grad(x, g, axes=1)[0],
        ct.normalize_grad(x, g, None, None)[0],
    ]  # fmt: skip


def test_strides_of_parameters_of_1_are_kept() -> None:
    """Their gradients have them, recorded and by the function itself."""
    x, options = torch.rand(2, 3, 4, 5), {"axes": 1, "activation": "relu"}
    for strides in ((3, 1, 3, 3), (1, 1, 7, 1)):
        scale, bias = (torch.empty_strided((1, 3, 1, 1), strides).fill_(n) for n in (2, 3))
        assert scale.is_contiguous() and torch.empty_like(scale).stride() == strides
        _, *found = cudml.torch.mean_variance_normalization_grad(x, x, scale, bias, **options)
        for t in (scale, bias):
            t.requires_grad_()
        y = cudml.torch.mean_variance_normalization(x, scale, bias, **options)
        found += torch.autograd.grad(y.sum(), (scale, bias))
        assert [t.stride() for t in found] == [strides] * 4


@pytest.mark.decision("D-GRAD-38")
@pytest.mark.parametrize("layout", ["row-major", "channels_last", "others"])
@pytest.mark.parametrize("axes", [(1,), (0, 2), (1, 2), (1, 3)])
def test_pooled_axes_leave_the_memory_format(axes: Any, layout: str) -> None:
    """With a gradient, in a compiled program and for a vmap, too, where axes are moved about."""
    x = torch.rand(3, 4, 5, 6)
    if layout == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif layout == "others":
        x = x.permute(2, 0, 3, 1)
    torch._dynamo.reset()
    function = functools.partial(results_of_axes, axes=axes)
    results = function(x)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for found in (function(x.clone().requires_grad_()), compiled(x)):
        assert [t.stride() for t in found] == [t.stride() for t in results]
    of_parts = torch.vmap(function)(torch.stack([x, x]))
    for together, alone in zip(of_parts, results, strict=True):
        torch.testing.assert_close(together[1], alone)


@pytest.mark.decision("D-GRAD-38")
@pytest.mark.parametrize("x", [torch.rand(3, 5, 4).mT, torch.rand(3, 1, 4, 5)], ids=["3", "1"])
def test_pooled_axes_of_other_tensors_are_row_major(x: Any) -> None:
    """Of three dimensions there is no such format; what is in both counts as row-major."""
    axes = (0, x.dim() - 1)
    for t in (x, x.clone(memory_format=torch.preserve_format).requires_grad_()):
        assert t.stride() == x.stride()
        for result in results_of_axes(t, axes)[:-1]:
            assert result.stride() == torch.empty(result.shape).stride()


def results_of_axes(x: Any, axes: tuple[int, ...]) -> list[Any]:
    ct, options = cudml.torch, {"axes": axes}
    y, indices = ct.max_pooling(x, 2, return_indices=True, **options)
    dx = ct.average_pooling_grad(y, x.shape, 2, **options)
    results = [y, indices, ct.average_pooling(x, 2, **options), ct.lp_pooling(x, 2, **options), dx]
    return [*results, ct.max_pooling_grad(x, y.detach(), 2, **options)]
