"""torch.nn's normalization modules on cudml's operators, with an activation on the way.

Each derives from torch.nn's module of its name: constructor, attributes, state_dict, `extra_repr`
and initialization are torch's own, and `isinstance` holds.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.modules import batchnorm, instancenorm

from cudml.torch import functional as F
from cudml.torch._activations import encode
from cudml.torch.functional._arguments import activation as activation_of

from ._shared import call_of, fused, is_traced


class _Activated(torch.nn.Module):
    """What the modules have beyond torch's: `activation`, a name or (name, {parameter: number}).

    Where it stands for the call of an activation of the model, `shared` holds what is in that
    one's place, and the name that the normalization itself has in the model.
    """

    activation: Any = None
    shared: tuple[Any, ...] = ()  # a module itself would be a child

    def __init__(self, *args: Any, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if activation is not None:
            encode(type(self).__name__, activation_of(activation))  # refused here, not in a call
            self.activation = activation

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Shows the arguments of torch's constructor and `activation`.

        Classes of others, as PyTorch's own of a module with a parametrization, are left alone.
        """
        super().__init_subclass__(**kwargs)
        if cls.__module__ != __name__:
            if "__init__" in vars(cls):
                cls.__signature__ = None  # type: ignore[attr-defined]  # but that of __init__
            return
        torchs = next(c for c in cls.__mro__ if c.__module__.startswith("torch.nn."))
        if torchs is not torch.nn.Module:
            given = inspect.signature(torchs).parameters.values()
            last = inspect.Parameter("activation", inspect.Parameter.KEYWORD_ONLY, default=None)
            cls.__signature__ = inspect.Signature([*given, last])  # type: ignore[attr-defined]

    def _activated(self, function: Callable[..., Tensor], *args: Any) -> Tensor:
        """What a function of torch's signature makes of these arguments and the activation."""
        if not self.shared:
            return function(*args, activation=self.activation)
        follower, name = self.shared
        return fused(
            self, follower, name, lambda own: function(*args, activation=own and self.activation)
        )

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.activation is None else f"{text}, activation={self.activation!r}"


class LayerNorm(_Activated, torch.nn.LayerNorm):
    """torch.nn.LayerNorm, with `activation`."""

    def forward(self, input: Tensor) -> Tensor:
        return self._activated(
            F.layer_norm, input, self.normalized_shape, self.weight, self.bias, self.eps
        )


class RMSNorm(_Activated, torch.nn.RMSNorm):
    """torch.nn.RMSNorm, with `activation`."""

    def forward(self, x: Tensor) -> Tensor:
        return self._activated(F.rms_norm, x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(_Activated, torch.nn.GroupNorm):
    """torch.nn.GroupNorm, with `activation`."""

    def forward(self, input: Tensor) -> Tensor:
        return self._activated(
            F.group_norm, input, self.num_groups, self.weight, self.bias, self.eps
        )


class _InstanceNorm(_Activated, instancenorm._InstanceNorm):
    """The forward pass of torch's instance normalization of one sample or a batch.

    It is written again because older releases compile torch's own only where it is inherited.
    """

    _sample_rank: int  # of one sample, {C,spatial}

    def forward(self, input: Tensor) -> Tensor:
        if is_traced(self, input):  # asks its input's shape, and may move statistics
            return call_of(self, input)
        self._check_input_dim(input)
        self._check_channels(input)
        if input.dim() == self._sample_rank:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _check_channels(self, input: Tensor) -> None:
        dimension = input.dim() - self._sample_rank
        if input.size(dimension) == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dimension} to match num_features"
                f" ({self.num_features}), but got: {input.size(dimension)}."
            )
        text = f"input's size at dim={dimension} does not match num_features, which is not used "
        warnings.warn(text + "because affine=False", stacklevel=3)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return self._activated(
            F.instance_norm,
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm, torch.nn.InstanceNorm1d):
    """torch.nn.InstanceNorm1d, with `activation`."""

    _sample_rank = 2


class InstanceNorm2d(_InstanceNorm, torch.nn.InstanceNorm2d):
    """torch.nn.InstanceNorm2d, with `activation`."""

    _sample_rank = 3


class InstanceNorm3d(_InstanceNorm, torch.nn.InstanceNorm3d):
    """torch.nn.InstanceNorm3d, with `activation`."""

    _sample_rank = 4


class _BatchNorm(_Activated, batchnorm._BatchNorm):
    """The forward pass of torch's batch normalization, in training and in evaluation."""

    def _step(self) -> float:
        """Counts a batch of training, and says how far the running statistics move."""
        if not (self.training and self.track_running_stats):
            return self.momentum or 0.0
        if self.num_batches_tracked is None:
            return self.momentum or 0.0
        self.num_batches_tracked.add_(1)
        if self.momentum is None:  # the mean over all batches
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum

    def forward(self, input: Tensor) -> Tensor:
        if is_traced(self, input):  # counts batches, and moves statistics
            return call_of(self, input)
        if self.training or not isinstance(input, fx.Proxy):  # of which nobody knows the shape
            self._check_input_dim(input)
        momentum = self._step()
        is_kept = not self.training or self.track_running_stats
        has_none = self.running_mean is None and self.running_var is None
        return self._activated(
            F.batch_norm,
            input,
            self.running_mean if is_kept else None,
            self.running_var if is_kept else None,
            self.weight,
            self.bias,
            self.training or has_none,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    """torch.nn.BatchNorm1d, with `activation`."""


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    """torch.nn.BatchNorm2d, with `activation`."""


class BatchNorm3d(_BatchNorm, torch.nn.BatchNorm3d):
    """torch.nn.BatchNorm3d, with `activation`."""
