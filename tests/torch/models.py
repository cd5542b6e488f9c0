"""Small models of well-known structure, as their authors write them, in torch.nn alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """ResNet's: one ReLU is called three times."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet50(nn.Module):
    """The structure of ResNet-50 with 3, 4, 6 and 3 blocks, of few channels."""

    def __init__(self, width: int = 2, classes: int = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 2 * width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(2 * width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        inputs, stages = 2 * width, []
        for i, blocks in enumerate((3, 4, 6, 3)):
            for k in range(blocks):
                stages.append(Bottleneck(inputs, width << i, 2 if i and not k else 1))
                inputs = 4 * (width << i)
        self.stages = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.stages(x)).flatten(1))


def double_convolution(inputs: int, outputs: int) -> nn.Sequential:
    """Twice convolution, GroupNorm and SiLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(2, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.SiLU(),
    )


class UNet(nn.Module):
    """Two levels down and up again, with average and max pooling."""

    def __init__(self, width: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.first = double_convolution(2, width)
        self.second = double_convolution(width, 2 * width)
        self.bottom = double_convolution(2 * width, 4 * width)
        self.halve = nn.MaxPool2d(2)
        self.smooth = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.up = nn.Upsample(scale_factor=2)
        self.third = double_convolution(6 * width, 2 * width)
        self.last = double_convolution(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.first(x)
        middle = self.second(self.halve(fine))
        bottom = self.bottom(self.smooth(middle))
        middle = self.third(torch.cat([self.up(bottom), middle], 1))
        return self.head(self.last(torch.cat([self.up(middle), fine], 1)))


class NnUNetBlock(nn.Module):
    """nnU-Net's convolution, InstanceNorm3d and LeakyReLU, with dropout between."""

    def __init__(self, inputs: int = 2, outputs: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, 3, padding=1)
        self.dropout = nn.Dropout3d(0.0)
        self.instnorm = nn.InstanceNorm3d(outputs, eps=1e-5, affine=True)
        self.lrelu = nn.LeakyReLU(1e-2, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lrelu(self.instnorm(self.dropout(self.conv(x))))


class ResidualBlock(nn.Module):
    """A diffusion model's decoder's: GroupNorm, SiLU, convolution, twice."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(2, channels, eps=1e-6)
        self.act1 = nn.SiLU()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.GroupNorm(4, channels, eps=1e-6)
        self.act2 = nn.SiLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(self.act1(self.norm1(x)))
        return x + self.conv2(self.act2(self.norm2(h)))


class VaeDecoder(nn.Module):
    """Latents to an image, with replicated edges."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 1),
            ResidualBlock(width),
            nn.Upsample(scale_factor=2),
            nn.ReplicationPad2d(1),
            nn.Conv2d(width, width, 3),
            ResidualBlock(width),
            nn.ReflectionPad2d((1, 1, 2, 2)),
        )
        self.norm_out = nn.GroupNorm(4, width)
        self.head = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        return self.head(nn.functional.silu(self.norm_out(self.body(z))))


MODELS = {
    "resnet50": (ResNet50, (4, 3, 40, 48)),
    "unet": (UNet, (2, 2, 12, 16)),
    "nnunet": (lambda: nn.Sequential(NnUNetBlock(), nn.AvgPool3d(2), NnUNetBlock(4, 6)),
               (2, 2, 6, 8, 10)),
    "vae": (VaeDecoder, (2, 3, 5, 6)),
}  # fmt: skip
