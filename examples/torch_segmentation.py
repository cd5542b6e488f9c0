"""Trains a small U-Net that finds discs and squares, on the CPU or a GPU, and draws what it finds.

Pooling and normalization are cudml's, each GroupNorm with its SiLU in one pass. Takes the name of
the picture to write.
"""

import sys
import time

import torch
from torch import nn

import cudml.torch.nn as cnn

SIZE, STEPS, CLASSES = 32, 60, 3


def shapes(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images with a disc and a square, and the class of each pixel: 0, disc 1, square 2."""
    generator = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    place = torch.rand(count, 2, 2, 1, 1, generator=generator) * (SIZE - 12) + 6
    radius = torch.rand(count, 2, 1, 1, generator=generator) * 3 + 4
    dy, dx = (y - place[:, :, 0]).abs(), (x - place[:, :, 1]).abs()
    classes = (dy[:, 0].hypot(dx[:, 0]) < radius[:, 0]).long()
    classes[dy[:, 1].maximum(dx[:, 1]) < radius[:, 1]] = 2
    noise = torch.randn(count, SIZE, SIZE, generator=generator) * 0.2
    light = torch.tensor([0.0, 1.0, -1.0])[classes]
    return (light + noise)[:, None], classes


def block(inputs: int, outputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
    return nn.Sequential(convolution, cnn.GroupNorm(4, outputs, activation="silu"))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = block(1, 8), block(8, 16)
        self.halve, self.twice = cnn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        self.joined, self.head = block(24, 8), nn.Conv2d(8, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.fine(x)
        coarse = self.twice(self.coarse(self.halve(fine)))
        return self.head(self.joined(torch.cat([fine, coarse], 1)))


def iou(found: torch.Tensor, true: torch.Tensor) -> float:
    """Intersection over union, the mean of discs and squares."""
    pairs = [(found == c, true == c) for c in range(1, CLASSES)]
    return sum(float((a & b).sum() / (a | b).sum()) for a, b in pairs) / len(pairs)


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
net = UNet().to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-2)
start = time.perf_counter()
for step in range(1, STEPS + 1):
    images, classes = (t.to(device) for t in shapes(16, step))
    loss = nn.functional.cross_entropy(net(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bar = "#" * (30 * step // STEPS)
    print(f"\r[{bar:<30}] step {step}/{STEPS}, loss {loss.item():.4f}", end="", flush=True)

images, classes = shapes(64, 0)
with torch.no_grad():
    found = net(images.to(device)).argmax(1).cpu()
print(f"\n{time.perf_counter() - start:.1f} s, IoU on unseen images {iou(found, classes):.3f}")

name = sys.argv[1] if len(sys.argv) > 1 else "torch_segmentation.png"
rows = [images[:8, 0] / 2 + 0.5, classes[:8] / 2, found[:8] / 2]  # image, truth, prediction
picture = torch.cat([torch.cat(list(row), 1) for row in rows]).clamp(0, 1)
try:
    from matplotlib import image

    image.imsave(name, picture.repeat_interleave(4, 0).repeat_interleave(4, 1), cmap="viridis")
    print(f"{name}: images, true classes, predictions")
except ImportError:
    print("matplotlib is not installed: no picture")
