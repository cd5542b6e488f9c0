"""Layer, RMS, group, instance and batch normalization with torch's signatures.

Each takes `activation=`, which is applied on the way: a name ("relu", "silu", "gelu" in its erf
form, ...) or a pair (name, {parameter: number}).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import cudml.torch as canonical
from cudml.torch._normalization import broadcast, normalization_of_views
from cudml.torch._recorded_normalization import Views

from ._arguments import activation as activation_of
from ._arguments import is_sequence, rank, shaped, tensor, whole

MOST = 8  # dimensions of an operator's input


def _trailing(function: str, x: Tensor, normalized_shape: Any) -> tuple[list[Any], list[int]]:
    """`normalized_shape` as a list, and the dimensions that it stands for."""
    given = normalized_shape if is_sequence(normalized_shape) else [normalized_shape]
    shape = [whole(function, f"normalized_shape[{i}]", n, 0) for i, n in enumerate(given)]
    first = rank(function, x, 1, MOST) - len(shape)
    is_end = shape and first >= 0 and list(x.shape[first:]) == shape
    if not is_end:
        text = (
            f"{function}: normalized_shape is {tuple(shape)}; it must be the end of input's shape"
        )
        raise ValueError(f"{text} {tuple(x.shape)}")
    return shape, list(range(first, x.dim()))


def _of_shape(function: str, shape: Sequence[int], **given: Any) -> list[Tensor | None]:
    """Weight and bias, each of this shape or None."""
    return [shaped(function, name, value, shape) for name, value in given.items()]


def _over(
    x: Tensor, axes: list[int], parameters: list[Tensor | None], views: Views, **options: Any
) -> Tensor:
    """Normalizes views over `axes`. Where these hold no element there is nothing to normalize, as
    in torch; the operator refuses that."""
    sizes = x.shape if views.x is None else views.x
    if any(isinstance(sizes[a], int) and sizes[a] == 0 for a in axes):
        options.pop("use_mean", None)
        scale, bias = broadcast(views, *parameters)
        y = canonical.normalize(x.view(sizes), None, None, scale, bias, **options)
        return y.reshape(x.shape)
    scale, bias = parameters
    return normalization_of_views(x, scale, bias, views, axes=axes, **options)


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: Any = None,
) -> Tensor:
    """Normalizes over the last dimensions; `bias` may be given without `weight`."""
    x = tensor("layer_norm", "input", input)
    shape, axes = _trailing("layer_norm", x, normalized_shape)
    parameters = _of_shape("layer_norm", shape, weight=weight, bias=bias)
    views = Views(parameters=[1] * axes[0] + shape)
    return _over(x, axes, parameters, views, epsilon=eps, activation=activation_of(activation))


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    activation: Any = None,
) -> Tensor:
    """Divides by the root of the mean square over the last dimensions.

    Without `eps` it is the spacing of input's type at 1, as torch has it.
    """
    x = tensor("rms_norm", "input", input)
    shape, axes = _trailing("rms_norm", x, normalized_shape)
    return _over(
        x,
        axes,
        _of_shape("rms_norm", shape, weight=weight, bias=bias),
        Views(parameters=[1] * axes[0] + shape),
        use_mean=False,
        epsilon=torch.finfo(x.dtype).eps if eps is None else eps,
        activation=activation_of(activation),
    )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: Any = None,
) -> Tensor:
    """Normalizes {N,C,...} over groups of channels; channels-last memory is not copied."""
    x = tensor("group_norm", "input", input)
    rank("group_norm", x, 2, MOST - 1)
    channels = x.shape[1]
    groups = whole("group_norm", "num_groups", num_groups, 1)
    if channels % groups != 0:
        text = f"group_norm: num_groups is {groups}; it must divide the {channels} channels"
        raise ValueError(text)
    _more_than_one("group_norm", x, x.shape[0] * (channels // groups) * math.prod(x.shape[2:]))
    each = channels // groups
    return _over(
        x,
        list(range(2, x.dim() + 1)),
        _of_shape("group_norm", [channels], weight=weight, bias=bias),
        Views([x.shape[0], groups, each, *x.shape[2:]], [1, groups, each, *[1] * (x.dim() - 2)]),
        epsilon=eps,
        activation=activation_of(activation),
    )


def _more_than_one(function: str, x: Tensor, count: Any) -> None:
    """Refuse statistics of a single element, as torch does in training."""
    if count == 1:
        text = (
            f"{function}: input's shape is {tuple(x.shape)}; it must have more than one element for"
        )
        raise ValueError(text + " each mean")


def _updates(running: tuple[Any, Any], momentum: float, count: Any) -> Callable[[Any, Any], None]:
    """What moves running statistics towards those of `count` elements; variances are unbiased."""

    def update(*latest: Any) -> None:
        shares = (momentum, momentum * count / (count - 1))
        for stored, found, share in zip(running, latest, shares, strict=True):
            if stored is not None:
                per_channel = found.flatten() if found.shape[0] == 1 else found.flatten(1).mean(0)
                stored.mul_(1 - momentum).add_(per_channel, alpha=share)

    return update


def _with_stored(
    function: str, x: Tensor, running: tuple[Any, Any], parameters: list[Any], **options: Any
) -> Tensor:
    """Normalizes with running statistics, which both have to be there."""
    for name, value in zip(("running_mean", "running_var"), running, strict=True):
        if value is None:
            text = f"{function}: {name} is None; it must be a tensor where input's statistics"
            raise ValueError(text + " are not used")
    return canonical.normalize(x, *broadcast(_of_channels(x), *running, *parameters), **options)


def _of_channels(x: Tensor) -> Views:
    """What there is for each channel, as it broadcasts."""
    return Views(parameters=[1, x.shape[1], *[1] * (x.dim() - 2)])


def _per_channel(
    function: str, input: Any, running: tuple[Any, Any], weight: Any, bias: Any,
    is_own: bool, axes: list[int], momentum: float, eps: float, activation: Any,
) -> Tensor:  # fmt: skip
    """Batch and instance normalization, which differ in the axes alone."""
    x, shape = input, [input.shape[1]]
    options: dict[str, Any] = {"epsilon": eps, "activation": activation_of(activation)}
    parameters = _of_shape(function, shape, weight=weight, bias=bias)
    _of_shape(function, shape, running_mean=running[0], running_var=running[1])
    if not is_own:
        return _with_stored(function, x, running, parameters, **options)
    count = math.prod([x.shape[a] for a in axes])
    _more_than_one(function, x, count)
    views = _of_channels(x)
    if count != 0 and not (running[0] is None and running[1] is None):
        options["statistics"] = _updates(running, momentum, count)
    return _over(x, axes, parameters, views, **options)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
    *,
    activation: Any = None,
) -> Tensor:
    """Normalizes every channel of every sample of {N,C,...} by itself.

    Running statistics that are given are updated with the mean over the batch; without
    `use_input_stats` they take the place of input's own.
    """
    x = tensor("instance_norm", "input", input)
    rank("instance_norm", x, 3, MOST)
    return _per_channel(
        "instance_norm", x, (running_mean, running_var), weight, bias, use_input_stats,
        list(range(2, x.dim())), momentum, eps, activation,
    )  # fmt: skip


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
    *,
    activation: Any = None,
) -> Tensor:
    """Normalizes the channels of {N,C,...} over the batch, or with running statistics.

    In training the running statistics that are given are updated.
    """
    x = tensor("batch_norm", "input", input)
    rank("batch_norm", x, 2, MOST)
    return _per_channel(
        "batch_norm", x, (running_mean, running_var), weight, bias, training,
        [0, *range(2, x.dim())], momentum, eps, activation,
    )  # fmt: skip
