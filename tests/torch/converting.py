"""Small models beside what convert makes of them."""

from __future__ import annotations

from typing import Any

import torch

from cudml.torch import convert
from cudml.torch.nn._shared import SharedActivation

nn = torch.nn


class Block(nn.Module):
    """A normalization and its activation, which its classes call in one way or another."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act, self.proj = nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv1d(4, 4, 1)


def inputs() -> torch.Tensor:
    return torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(2))


def assert_converted(net: Any, fused: int) -> None:
    """As many activations are fused as said, and the model computes the same in both modes."""
    report, x = convert(net), inputs()
    assert report.count("fused") == fused, str(report)
    found = [m for m in report.model.modules() if isinstance(m, SharedActivation)]
    assert len(found) == fused
    for is_training in (True, False):
        got, want = (m.train(is_training)(x) for m in (report.model, net))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
