"""Normalization of tensors in one phase: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import cudml
from cudml._typing import ActivationLike, Axes, Number
from cudml.torch._activations import encode
from cudml.torch._arguments import axes_of, flag
from cudml.torch._dispatch import call, check_tensors, is_plain
from cudml.torch._results import count_of, keeps_order, masked

OUTPUTS = ("x", "scale", "bias")
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def mean_variance_normalization(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
) -> Tensor:
    """`cudml.mean_variance_normalization` with gradients of x, scale and bias.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> bias = torch.zeros(1, 4, requires_grad=True)
    >>> y = cudml.torch.mean_variance_normalization(x, None, bias, axes=1, activation="relu")
    >>> y.sum().backward()
    >>> bias.grad.tolist()
    [[0.0, 0.0, 1.0, 1.0]]
    """
    if is_plain(x, scale, bias):
        return cudml.mean_variance_normalization(
            x,
            scale,
            bias,
            axes=axes,
            use_mean=use_mean,
            use_variance=use_variance,
            epsilon=epsilon,
            activation=activation,
            out=None if keeps_order(x) else torch.empty_like(x),
        )
    op = "mean_variance_normalization"
    check_tensors(op, "scale", "bias", x=x, scale=scale, bias=bias)
    flags = (flag(op, "UseMean", use_mean), flag(op, "UseVariance", use_variance))
    rest = (axes_of(op, axes, x.dim()), *flags, float(epsilon), *encode(op, activation))
    y: Tensor = call(op, x, scale, bias, *rest)
    return y


def chosen(op: str, outputs: Any) -> list[bool]:
    """Which of x, scale and bias `outputs` names."""
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise TypeError(f"{op}: outputs is {outputs!r}; it must be a sequence of names")
    names = list(outputs)
    if not names or any(n not in OUTPUTS or names.count(n) > 1 for n in names):
        raise ValueError(
            f"{op}: outputs is {outputs!r}; it must name some of {', '.join(OUTPUTS)}, each once"
        )
    return [name in names for name in OUTPUTS]


def present(
    gradients: Sequence[Tensor], tensors: Sequence[Tensor | None], mask: Sequence[bool]
) -> Gradients:
    """Gradients as the functions return them: None for what is not there or not asked for."""
    dx, dscale, dbias = (
        g if wanted and t is not None else None
        for g, t, wanted in zip(gradients, tensors, mask, strict=True)
    )
    return dx, dscale, dbias


def mean_variance_normalization_grad(
    x: Tensor,
    grad: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    outputs: Sequence[str] = OUTPUTS,
) -> Gradients:
    """`cudml.mean_variance_normalization_grad`; it has no gradient itself.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, grad = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> cudml.torch.mean_variance_normalization_grad(x, grad, axes=0, use_variance=False)
    (tensor([ 0.7500, -0.2500, -0.2500, -0.2500]), None, None)
    """
    op = "mean_variance_normalization_grad"
    optional = ("scale", "bias", "mean", "variance")
    given = {"scale": scale, "bias": bias, "mean": mean, "variance": variance}
    if is_plain(x, grad, *given.values()):
        mask = chosen(op, outputs)
        out = present(masked((x, scale, bias), mask, x), (x, scale, bias), mask)
        return cudml.mean_variance_normalization_grad(
            x,
            grad,
            **given,
            axes=axes,
            use_mean=use_mean,
            use_variance=use_variance,
            epsilon=epsilon,
            activation=activation,
            outputs=outputs,
            out=out,
        )
    check_tensors(op, *optional, x=x, grad=grad, **given)
    mask = chosen(op, outputs)
    flags = (flag(op, "UseMean", use_mean), flag(op, "UseVariance", use_variance))
    over, fused = axes_of(op, axes, x.dim()), (float(epsilon), *encode(op, activation))
    if mean is None and variance is None:
        result = call(op, x, grad, scale, bias, over, *flags, *fused, mask)
        return present(result, (x, scale, bias), mask)
    for field, t, used in (("Mean", mean, flags[0]), ("Variance", variance, flags[1])):
        if used != (t is not None):
            raise ValueError(
                f"{op}: {field} is {'absent' if used else 'given'}; with a statistic given, mean "
                "must be there exactly if use_mean, variance exactly if use_variance"
            )
    stored = (mean, variance, scale, bias)
    sums = call("normalize_grad_sums", x, grad, *stored, over, *fused)
    count = torch.full_like(sums[0], count_of(x, over))
    result = call("normalize_grad", x, grad, *stored, count, *sums, *fused, mask)
    return present(result, (x, scale, bias), mask)
