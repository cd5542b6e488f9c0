"""Puts cudml into a model of torch.nn's: what was taken, the same numbers, and back."""

import copy

import torch
from torch import nn

import cudml.torch

torch.manual_seed(0)
net = nn.Sequential(
    nn.ReflectionPad2d(1),
    nn.Conv2d(3, 16, 3),
    nn.GroupNorm(4, 16),
    nn.SiLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.LeakyReLU(0.1),
    nn.AdaptiveAvgPool2d(1),
)
x = torch.randn(4, 3, 32, 32)
before = copy.deepcopy(net)(x)

report = cudml.torch.convert(net)  # a copy; inplace=True changes net itself
print(report)

after = report.model(x)
print(f"largest difference {(after - before).abs().max():.1e}, of values to {before.max():.2f}")
report.model.load_state_dict(net.state_dict())  # checkpoints fit both ways


def kept(model: nn.Module) -> int:
    """Bytes that the forward pass keeps for the backward pass."""
    sizes: dict[int, int] = {}

    def note(t: torch.Tensor) -> torch.Tensor:
        sizes[t.data_ptr()] = t.nbytes
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        model(x)
    return sum(sizes.values())


print(f"kept for backward: {kept(net) / 2**20:.2f} MiB, now {kept(report.model) / 2**20:.2f} MiB")
print(f"back again: {type(report.revert()[2]).__module__}.{type(report.model[2]).__name__}")
