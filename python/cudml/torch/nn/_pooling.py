"""torch.nn's pooling and unpooling modules on cudml's operators.

Each derives from torch.nn's module of its name: constructor, attributes and `extra_repr` are
torch's own, and `isinstance` holds. What `cudml.torch.functional` takes beyond torch, as pads per
side, they take as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cudml.torch import functional as F


class MaxPool1d(torch.nn.MaxPool1d):
    """torch.nn.MaxPool1d."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            self.ceil_mode, self.return_indices,
        )  # fmt: skip


class MaxPool2d(torch.nn.MaxPool2d):
    """torch.nn.MaxPool2d."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            self.ceil_mode, self.return_indices,
        )  # fmt: skip


class MaxPool3d(torch.nn.MaxPool3d):
    """torch.nn.MaxPool3d."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            self.ceil_mode, self.return_indices,
        )  # fmt: skip


class AvgPool1d(torch.nn.AvgPool1d):
    """torch.nn.AvgPool1d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding,
            self.ceil_mode, self.count_include_pad,
        )  # fmt: skip


class AvgPool2d(torch.nn.AvgPool2d):
    """torch.nn.AvgPool2d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding,
            self.ceil_mode, self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class AvgPool3d(torch.nn.AvgPool3d):
    """torch.nn.AvgPool3d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(
            input, self.kernel_size, self.stride, self.padding,
            self.ceil_mode, self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class LPPool1d(torch.nn.LPPool1d):
    """torch.nn.LPPool1d; `norm_type` is a whole number, and absolute values are taken."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(torch.nn.LPPool2d):
    """torch.nn.LPPool2d; `norm_type` is a whole number, and absolute values are taken."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(torch.nn.LPPool3d):
    """torch.nn.LPPool3d; `norm_type` is a whole number, and absolute values are taken."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class MaxUnpool1d(torch.nn.MaxUnpool1d):
    """torch.nn.MaxUnpool1d; an index out of range is ignored."""

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(torch.nn.MaxUnpool2d):
    """torch.nn.MaxUnpool2d; an index out of range is ignored."""

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(torch.nn.MaxUnpool3d):
    """torch.nn.MaxUnpool3d; an index out of range is ignored."""

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
