"""Modules with cudml's own arguments: pooling, padding, normalization and unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import cudml.torch as canonical
from cudml.torch._activations import encode


class _Canonical(torch.nn.Module):
    """A module that shows the arguments that it hands to its function."""

    ARGUMENTS: tuple[str, ...] = ()

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.ARGUMENTS}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._given().items())


class _Pooling(_Canonical):
    """The geometry that all poolings share: an int, or one per pooled dimension."""

    GEOMETRY = ("window_size", "strides", "start_padding", "end_padding", "dilations")

    def __init__(
        self,
        window_size: Any,
        strides: Any = 1,
        start_padding: Any = 0,
        end_padding: Any = 0,
        dilations: Any = 1,
        *,
        output_sizes: Any = None,
        axes: Any = None,
    ) -> None:
        super().__init__()
        self.window_size = window_size
        self.strides = strides
        self.start_padding = start_padding
        self.end_padding = end_padding
        self.dilations = dilations
        self.output_sizes = output_sizes
        self.axes = axes


class MaxPooling(_Pooling):
    """`cudml.torch.max_pooling`; gives (y, indices) with `return_indices`."""

    ARGUMENTS = (*_Pooling.GEOMETRY, "return_indices", "index_dtype", "output_sizes", "axes")

    def __init__(
        self,
        window_size: Any,
        strides: Any = 1,
        start_padding: Any = 0,
        end_padding: Any = 0,
        dilations: Any = 1,
        *,
        return_indices: bool = False,
        index_dtype: Any = "int64",
        output_sizes: Any = None,
        axes: Any = None,
    ) -> None:
        super().__init__(
            window_size, strides, start_padding, end_padding, dilations,
            output_sizes=output_sizes, axes=axes,
        )  # fmt: skip
        self.return_indices = return_indices
        self.index_dtype = index_dtype

    def forward(self, x: Tensor) -> Any:
        return canonical.max_pooling(x, **self._given())


class AveragePooling(_Pooling):
    """`cudml.torch.average_pooling`; padding does not count unless `include_padding` is given."""

    ARGUMENTS = (*_Pooling.GEOMETRY, "include_padding", "output_sizes", "axes")

    def __init__(
        self,
        window_size: Any,
        strides: Any = 1,
        start_padding: Any = 0,
        end_padding: Any = 0,
        dilations: Any = 1,
        *,
        include_padding: bool = False,
        output_sizes: Any = None,
        axes: Any = None,
    ) -> None:
        super().__init__(
            window_size, strides, start_padding, end_padding, dilations,
            output_sizes=output_sizes, axes=axes,
        )  # fmt: skip
        self.include_padding = include_padding

    def forward(self, x: Tensor) -> Tensor:
        return canonical.average_pooling(x, **self._given())


class LpPooling(_Pooling):
    """`cudml.torch.lp_pooling`: the p-norm of each window."""

    ARGUMENTS = (*_Pooling.GEOMETRY, "p", "output_sizes", "axes")

    def __init__(
        self,
        window_size: Any,
        strides: Any = 1,
        start_padding: Any = 0,
        end_padding: Any = 0,
        dilations: Any = 1,
        *,
        p: int = 2,
        output_sizes: Any = None,
        axes: Any = None,
    ) -> None:
        super().__init__(
            window_size, strides, start_padding, end_padding, dilations,
            output_sizes=output_sizes, axes=axes,
        )  # fmt: skip
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return canonical.lp_pooling(x, **self._given())


class Padding(_Canonical):
    """`cudml.torch.padding`: an int or one per dimension, the batch and channels included."""

    ARGUMENTS = ("start_padding", "end_padding", "mode", "value")

    def __init__(
        self, start_padding: Any, end_padding: Any, *, mode: Any = "constant", value: Any = 0
    ) -> None:
        super().__init__()
        self.start_padding = start_padding
        self.end_padding = end_padding
        self.mode = mode
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return canonical.padding(x, **self._given())


class MeanVarianceNormalization(_Canonical):
    """`cudml.torch.mean_variance_normalization`, with parameters of the shapes that are given.

    `scale_shape` and `bias_shape` have x's rank, with 1 where the parameter broadcasts. The scale
    starts as ones and the bias as zeros.
    """

    ARGUMENTS = ("axes", "use_mean", "use_variance", "epsilon", "activation")
    scale: torch.nn.Parameter | None
    bias: torch.nn.Parameter | None

    def __init__(
        self,
        *,
        axes: Any,
        use_mean: bool = True,
        use_variance: bool = True,
        epsilon: float = 1e-5,
        activation: Any = None,
        scale_shape: Sequence[int] | None = None,
        bias_shape: Sequence[int] | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        encode(type(self).__name__, activation)  # refused here, not in a call
        self.axes = axes
        self.use_mean = use_mean
        self.use_variance = use_variance
        self.epsilon = epsilon
        self.activation = activation
        for name, shape in (("scale", scale_shape), ("bias", bias_shape)):
            given = None if shape is None else torch.empty(*shape, device=device, dtype=dtype)
            self.register_parameter(name, None if given is None else torch.nn.Parameter(given))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the scale to ones and the bias to zeros."""
        if self.scale is not None:
            torch.nn.init.ones_(self.scale)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return canonical.mean_variance_normalization(x, self.scale, self.bias, **self._given())


class MaxUnpooling(_Canonical):
    """`cudml.torch.max_unpooling`; the full output shape is given here or in each call."""

    ARGUMENTS = ("output_sizes",)

    def __init__(self, output_sizes: Sequence[int] | None = None) -> None:
        super().__init__()
        self.output_sizes = output_sizes

    def forward(
        self, x: Tensor, indices: Tensor, output_sizes: Sequence[int] | None = None
    ) -> Tensor:
        sizes = self.output_sizes if output_sizes is None else output_sizes
        if sizes is None:
            text = "MaxUnpooling: output_sizes is None; it must be the output's shape, in the"
            raise ValueError(f"{text} constructor or in the call")
        return canonical.max_unpooling(x, indices, sizes)
