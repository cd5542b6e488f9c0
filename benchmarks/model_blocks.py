"""Blocks of well-known models as their authors write them, and the same without convolutions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

OTHERS = (nn.Conv2d, nn.Conv3d, nn.Upsample)  # what cudml has no part in


class UNetBlock(nn.Sequential):
    """A level of a U-Net: twice convolution, GroupNorm and SiLU, then half the size."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(8, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.GroupNorm(8, outputs),
            nn.SiLU(),
            nn.MaxPool2d(2),
        )


class ResidualBlock(nn.Module):
    """GroupNorm, SiLU and convolution, twice, beside the input; one SiLU is called twice."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(32, inputs, eps=1e-6)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2 = nn.GroupNorm(32, outputs, eps=1e-6)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.nonlinearity = nn.SiLU()
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(self.nonlinearity(self.norm1(x)))
        h = self.conv2(self.nonlinearity(self.norm2(h)))
        return h + (x if self.shortcut is None else self.shortcut(x))


class VaeDecoderBlock(nn.Sequential):
    """The last level of a diffusion model's decoder, and its head."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Upsample(scale_factor=2.0),
            nn.Conv2d(inputs, inputs, 3, padding=1),
            ResidualBlock(inputs, outputs),
            ResidualBlock(outputs, outputs),
            nn.GroupNorm(32, outputs, eps=1e-6),
            nn.SiLU(),
            nn.Conv2d(outputs, 3, 3, padding=1),
        )


class Bottleneck(nn.Module):
    """ResNet's, whose one ReLU is called three times."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(
            nn.Conv2d(inputs, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


class ResNetStem(nn.Sequential):
    """How ResNet-50 begins: stem, max pooling and the first bottleneck."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
            Bottleneck(64, 64),
        )


class NnUNetBlock(nn.Sequential):
    """A level of nnU-Net: twice convolution, InstanceNorm3d and LeakyReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv3d(inputs, outputs, 3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(1e-2, inplace=True),
            nn.Conv3d(outputs, outputs, 3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(1e-2, inplace=True),
        )


@dataclass(frozen=True)
class Model:
    """A block, and the shape of its input; `goal` is the speed-up wanted of the whole block."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    goal: float | None = None


MODELS = (
    Model("U-Net", lambda: UNetBlock(32, 32), (2, 32, 128, 128), 1.3),
    Model("VAE decoder", lambda: VaeDecoderBlock(64, 32), (1, 64, 64, 64), 1.3),
    Model("ResNet-50", ResNetStem, (4, 3, 128, 128)),
    Model("nnU-Net", lambda: NnUNetBlock(1, 32), (1, 1, 32, 48, 48)),
)


class _Known(torch.autograd.Function):
    """A result and a gradient that are there already."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
        ctx.grad = grad
        return y.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.grad.detach(), None, None  # a tensor of its own, which a leaf takes uncopied


class StandIn(nn.Module):
    """In the place of a layer: gives one of its results again, and takes no time for it."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__()
        self.register_buffer("y", y.detach().clone())
        self.register_buffer("grad", torch.randn_like(x))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _Known.apply(x, self.y, self.grad)
        return result


def layers_alone(model: nn.Module, x: Tensor) -> nn.Module:
    """A copy with stand-ins for all that cudml has no part in, but for additions."""
    model = copy.deepcopy(model)
    found: dict[str, StandIn] = {}
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, OTHERS):
            hooks.append(
                module.register_forward_hook(
                    lambda m, given, y, name=name: found.update({name: StandIn(given[0], y)})
                )
            )
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    for name, stand_in in found.items():
        parent, _, last = name.rpartition(".")
        model.get_submodule(parent)._modules[last] = stand_in
    return model
