"""Layer, RMS, group, instance and batch normalization with torch's signatures.

Each takes `activation=`, which is applied on the way: a name ("relu", "silu", "gelu" in its erf
form, ...) or a pair (name, {parameter: number}).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

import cudml.torch as canonical
from cudml.torch._dispatch import is_recorded, is_within_transformation
from cudml.torch._kept import kept
from cudml.torch._normalization import broadcast, normalization_of_views
from cudml.torch._recorded_normalization import Views

from ._arguments import activation as activation_of
from ._arguments import is_sequence, rank, shaped, tensor, whole

MOST = 8  # dimensions of an operator's input
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _added_by_torch(dtype: torch.dtype) -> float:
    """What torch's rms_norm adds where no epsilon is given: the spacing at 1 of the type that it
    computes in, or in older releases of 16-bit data's own. It is tried, on a small number."""
    own = torch.finfo(dtype).eps
    with _disable_current_modes():
        x = torch.full((1,), own, dtype=dtype, device="cpu")
        is_wide = torch.nn.functional.rms_norm(x, (1,)).item() > 0.5
    return min(own, torch.finfo(torch.float32).eps) if is_wide else own


EPSILONS = {dtype: _added_by_torch(dtype) for dtype in TYPES}


class _Groups(NamedTuple):
    """What a function normalizes over, of an input of some shape."""

    axes: list[int]  # of the views
    views: Views
    weight: tuple[Any, ...]  # the shape of weight and bias
    count: Any  # elements of a group


def _groups(axes: list[int], sizes: Sequence[Any], views: Views, weight: Sequence[Any]) -> _Groups:
    return _Groups(axes, views, tuple(weight), math.prod([sizes[a] for a in axes]))


@kept
def _trailing(function: str, sizes: tuple[Any, ...], normalized_shape: Any) -> _Groups:
    """The last dimensions, which `normalized_shape` stands for."""
    given = normalized_shape if is_sequence(normalized_shape) else [normalized_shape]
    shape = [whole(function, f"normalized_shape[{i}]", n, 0) for i, n in enumerate(given)]
    first = rank(function, sizes, 1, MOST) - len(shape)
    is_end = shape and first >= 0 and list(sizes[first:]) == shape
    if not is_end:
        text = (
            f"{function}: normalized_shape is {tuple(shape)}; it must be the end of input's shape"
        )
        raise ValueError(f"{text} {sizes}")
    views = Views(parameters=[1] * first + shape)
    return _groups(list(range(first, len(sizes))), sizes, views, shape)


@kept
def _of_channels(sizes: tuple[Any, ...], num_groups: Any) -> _Groups:
    """Every sample of {N,C,...} by groups of channels."""
    function, more = "group_norm", rank("group_norm", sizes, 2, MOST - 1) - 2
    channels, groups = sizes[1], whole(function, "num_groups", num_groups, 1)
    if channels % groups != 0:
        text = f"{function}: num_groups is {groups}; it must divide the {channels} channels"
        raise ValueError(text)
    each = channels // groups
    _more_than_one(function, sizes, sizes[0] * each * math.prod(sizes[2:]))
    seen = [sizes[0], groups, each, *sizes[2:]]
    views = Views(seen, [1, groups, each, *[1] * more])
    return _groups(list(range(2, more + 3)), seen, views, [channels])


@kept
def _of_planes(function: str, sizes: tuple[Any, ...], is_of_batch: bool, is_own: bool) -> _Groups:
    """Each channel of {N,C,...}, of a sample or of all of them, by its own statistics or not."""
    more = rank(function, sizes, 2 if is_of_batch else 3, MOST) - 2
    axes = [*([0] if is_of_batch else []), *range(2, more + 2)]
    views = Views(parameters=[1, sizes[1], *[1] * more])
    found = _groups(axes, sizes, views, sizes[1:2])
    if is_own:
        _more_than_one(function, sizes, found.count)
    return found


def _over(
    x: Tensor, groups: _Groups, weight: Tensor | None, bias: Tensor | None, **options: Any
) -> Tensor:
    """Normalizes views. Where groups hold no element there is nothing to normalize, as in torch;
    the operator refuses that."""
    views = groups.views
    if isinstance(groups.count, int) and groups.count == 0:
        options.pop("use_mean", None)
        seen = x if views.x is None else x.view(views.x)
        y = canonical.normalize(seen, None, None, *broadcast(views, weight, bias), **options)
        return y.reshape(x.shape)
    return normalization_of_views(x, weight, bias, views, axes=groups.axes, **options)


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: Any = None,
) -> Tensor:
    """Normalizes over the last dimensions; `bias` may be given without `weight`.

    `activation` is applied on the way: one of `cudml.mean_variance_normalization`'s, as "relu",
    "gelu" in its erf form, or ("leaky_relu", {"alpha": 0.1}); torch's name "silu" is one, too.
    """
    x = tensor("layer_norm", "input", input)
    groups = _trailing("layer_norm", tuple(x.shape), normalized_shape)
    shaped("layer_norm", groups.weight, weight=weight, bias=bias)
    return _over(x, groups, weight, bias, epsilon=eps, activation=activation_of(activation))


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

    Without `eps` it is torch's: the spacing at 1 of the type that it computes in, which for 16-bit
    data is float32; in older releases, of input's type. `activation` is as in `layer_norm`.
    """
    x = tensor("rms_norm", "input", input)
    groups = _trailing("rms_norm", tuple(x.shape), normalized_shape)
    shaped("rms_norm", groups.weight, weight=weight, bias=bias)
    return _over(
        x,
        groups,
        weight,
        bias,
        use_mean=False,
        epsilon=EPSILONS.get(x.dtype, 0.0) if eps is None else eps,
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
    """Normalizes {N,C,...} over groups of channels; channels-last memory is not copied.

    `activation` is as in `layer_norm`.
    """
    x = tensor("group_norm", "input", input)
    groups = _of_channels(tuple(x.shape), num_groups)
    shaped("group_norm", groups.weight, weight=weight, bias=bias)
    return _over(x, groups, weight, bias, epsilon=eps, activation=activation_of(activation))


def _more_than_one(function: str, sizes: tuple[Any, ...], count: Any) -> None:
    """Refuse statistics of a single element, as torch does in training."""
    if count == 1:
        text = f"{function}: input's shape is {sizes}; it must have more than one element for"
        raise ValueError(text + " each mean")


def _move(stored: Tensor, found: Tensor, momentum: float, share: float) -> None:
    """Moves a running statistic towards that of the latest elements."""
    per_channel = found.flatten() if found.shape[0] == 1 else found.flatten(1).mean(0)
    stored.mul_(1 - momentum).add_(per_channel, alpha=share)


class _Moved(torch.autograd.Function):
    """The same in a transformation of torch.func, which lets its own operators alone write to a
    tensor from outside of it: what is in a function is outside, too."""

    @staticmethod
    def forward(stored: Tensor, found: Tensor, momentum: float, share: float) -> None:
        _move(stored, found, momentum, share)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, places: Any, stored: Tensor, found: Tensor, momentum: float, share: float
    ) -> tuple[None, None]:
        """Each part of a batch has statistics of its own, or there is no place for theirs."""
        if places[1] is None:
            found = found.expand(info.batch_size, *found.shape)
        elif places[0] is None:
            raise RuntimeError(
                "running statistics are one for all that torch.vmap maps over; each needs its own, "
                "or none"
            )
        parts = zip(stored.unbind(places[0]), found.unbind(places[1] or 0), strict=True)
        for part in parts:
            _Moved.apply(*part, momentum, share)
        return None, None


def _updates(running: tuple[Any, Any], momentum: float, count: Any) -> Callable[[Any, Any], None]:
    """What moves running statistics towards those of `count` elements; variances are unbiased."""

    def update(*latest: Any) -> None:
        move: Any = _Moved.apply if is_within_transformation() else _move
        shares = (momentum, momentum * count / (count - 1))
        for stored, found, share in zip(running, latest, shares, strict=True):
            if stored is not None:
                move(stored, found, momentum, share)

    return update


def _with_stored(
    function: str, x: Tensor, views: Views, mean: Any, variance: Any, *parameters: Any,
    **options: Any,
) -> Tensor:  # fmt: skip
    """Normalizes with running statistics, which both have to be there."""
    for name, value in (("running_mean", mean), ("running_var", variance)):
        if value is None:
            text = f"{function}: {name} is None; it must be a tensor where input's statistics"
            raise ValueError(text + " are not used")
    if is_recorded(x, *parameters):  # going back takes what they were: training may move them first
        mean, variance = mean.clone(), variance.clone()
    return canonical.normalize(x, *broadcast(views, mean, variance, *parameters), **options)


def _per_channel(
    function: str, x: Tensor, mean: Any, variance: Any, weight: Any, bias: Any,
    is_own: bool, is_of_batch: bool, momentum: float, **options: Any,
) -> Tensor:  # fmt: skip
    """Batch and instance normalization, which differ in the axes alone."""
    groups = _of_planes(function, tuple(x.shape), is_of_batch, bool(is_own))
    shaped(
        function, groups.weight, weight=weight, bias=bias, running_mean=mean, running_var=variance
    )
    if not is_own:
        return _with_stored(function, x, groups.views, mean, variance, weight, bias, **options)
    if groups.count != 0 and not (mean is None and variance is None):
        options["statistics"] = _updates((mean, variance), momentum, groups.count)
    return _over(x, groups, weight, bias, **options)


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
    `use_input_stats` they take the place of input's own. `activation` is as in `layer_norm`.
    """
    x = tensor("instance_norm", "input", input)
    return _per_channel(
        "instance_norm", x, running_mean, running_var, weight, bias, use_input_stats, False,
        momentum, epsilon=eps, activation=activation_of(activation),
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

    In training the running statistics that are given are updated. `activation` is as in
    `layer_norm`.
    """
    x = tensor("batch_norm", "input", input)
    return _per_channel(
        "batch_norm", x, running_mean, running_var, weight, bias, training, True,
        momentum, epsilon=eps, activation=activation_of(activation),
    )  # fmt: skip
