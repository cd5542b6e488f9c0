"""Converted models and torch's signatures inside torch.compile: one graph, any batch size."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from cudml.torch import convert, functional  # noqa: E402
from tests.torch.models import MODELS  # noqa: E402


def compiled(function: object) -> object:
    """Without a graph break, with sizes as symbols; the operators run as they are."""
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)


@pytest.mark.long
def test_every_function_in_one_graph() -> None:
    weight = torch.rand(6, dtype=torch.float64)

    def call(x: torch.Tensor) -> torch.Tensor:
        y, indices = functional.max_pool2d(x, (2, 3), 2, ((1, 0), 1), return_indices=True)
        y = functional.max_unpool2d(y, indices, (2, 3), 2, ((1, 0), 1))
        y = functional.pad(y, (-1, 2, 3, 0), "symmetric")
        y = functional.avg_pool2d(y, 2, 1) + functional.lp_pool2d(y, 3, 2, 1)
        y = functional.group_norm(y, 2, weight, activation="silu")
        y = functional.instance_norm(y, weight=weight)
        y = functional.batch_norm(y, None, None, training=True, activation="gelu")
        return functional.layer_norm(functional.rms_norm(y, y.shape[-1:]), y.shape[-2:])

    quick = compiled(call)
    for n in (2, 5):
        x = torch.randn(n, 6, 9, 8, dtype=torch.float64, requires_grad=True)
        got, want = quick(x), call(x)
        assert torch.equal(got, want)
        grad = torch.randn_like(want)
        pair = (torch.autograd.grad(y, x, grad)[0] for y in (got, want))
        torch.testing.assert_close(*pair, rtol=1e-12, atol=1e-12)


def test_a_converted_model_compiles() -> None:
    kind, shape = MODELS["nnunet"]
    net = convert(kind().double()).model
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(compiled(net)(x), net(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [nn.BatchNorm2d, nn.InstanceNorm2d])
def test_running_statistics_move_in_one_graph(kind: type) -> None:
    """In training, with gradients, as without compilation and as torch's own do."""
    own = kind(3, affine=True, track_running_stats=True).double()
    nets = [own, convert(own).model, convert(own).model]
    calls = [nets[0], nets[1], compiled(nets[2])]
    for n in (2, 5):
        x = torch.randn(n, 3, 4, 5, dtype=torch.float64, requires_grad=True)
        results = [call(x) for call in calls]
        grad = torch.randn_like(x)
        gradients = [torch.autograd.grad(y, x, grad)[0] for y in results]
        for found in (results, gradients, [net.running_mean for net in nets],
                      [net.running_var for net in nets]):  # fmt: skip
            for got in found[1:]:
                torch.testing.assert_close(got, found[0], rtol=1e-12, atol=1e-12)
