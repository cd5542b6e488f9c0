"""Equal bits from run to run, and from one batch of 8 to two of 4: forward and backward."""

import torch
from torch import nn

import cudml.torch.nn as cnn

torch.manual_seed(0)
net = nn.Sequential(
    cnn.SymmetricPad2d((3, 1, 0, 2)),
    cnn.GroupNorm(4, 32, activation="gelu"),
    cnn.MaxPool2d(3, 2, 1),
    cnn.LPPool2d(3, 2),
    cnn.InstanceNorm2d(32, affine=True),
    cnn.AvgPool2d(3, 1, 1),
)
images = torch.randn(8, 32, 40, 48)
grad = torch.randn(net(images).shape)


def step(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the gradient of the input."""
    x = x.clone().requires_grad_()
    y = net(x)
    return y.detach(), torch.autograd.grad(y, x, g)[0]


y, dx = step(images, grad)
again = step(images, grad)
assert torch.equal(y, again[0]) and torch.equal(dx, again[1])
print("two runs: equal bits")

halves = [step(images[i : i + 4], grad[i : i + 4]) for i in (0, 4)]
assert torch.equal(y, torch.cat([half[0] for half in halves]))
assert torch.equal(dx, torch.cat([half[1] for half in halves]))
print("one batch of 8, two of 4: equal bits, of results and of gradients")
