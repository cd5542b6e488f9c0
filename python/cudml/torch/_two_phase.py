"""Normalization of tensors in two phases: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import cudml
from cudml._errors import kind_of
from cudml._typing import ActivationLike, Axes, GradientName, Number, WideDtype
from cudml.torch._activations import encode
from cudml.torch._arguments import axes_of, flag, real
from cudml.torch._dispatch import call, check_tensors, is_own
from cudml.torch._kernels import OUTPUTS
from cudml.torch._normalization import Gradients, allocated, chosen, present
from cudml.torch._results import (
    Triple,
    count_of,
    is_row_major,
    keep_order,
    keeps_strides,
    new_like,
)

_STATISTICS = ("Count", "Mean", "M2")
_GIVEN = ("mean", "variance", "scale", "bias")


def _wide(op: str, dtype: Any) -> torch.dtype:
    """The type of statistics and sums."""
    for kind in (torch.float64, torch.float32):
        name = str(kind).removeprefix("torch.")
        if dtype is kind or dtype == name or getattr(dtype, "__name__", "") == name:
            return kind
    raise TypeError(f'{op}: DataType is {dtype!r}; it must be "float32" or "float64"')


def normalization_statistics(
    x: Tensor, *, axes: Axes, use_mean: bool = True, dtype: WideDtype = "float64"
) -> Triple:
    """`cudml.normalization_statistics`; going back through it is an error.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> count, mean, m2 = cudml.torch.normalization_statistics(torch.arange(1.0, 5.0), axes=0)
    >>> count.item(), mean.item(), m2.item()
    (4.0, 2.5, 5.0)
    """
    op = "normalization_statistics"
    if is_own(x) and is_row_major(x):
        try:
            return cudml.normalization_statistics(x, axes=axes, use_mean=use_mean, dtype=dtype)
        except BufferError:  # the operator can, or says which device
            pass
    check_tensors(op, x=x)
    over, kind = axes_of(op, axes, x.dim()), _wide(op, dtype)
    count = count_of(x, over)
    if kind is torch.float32 and isinstance(count, int) and count > 2**24:
        raise ValueError(f"{op}: Count is {count}; float32 holds counts to {2**24}, float64 more")
    result: Triple = call(op, x, over, flag(op, "UseMean", use_mean), kind)
    return result


def merge_statistics(a: Sequence[Tensor], b: Sequence[Tensor]) -> Triple:
    """The statistics of two parts together, elementwise; made of PyTorch's own operators.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> a, b = ([torch.tensor([n]) for n in part] for part in ((2.0, 1.5, 0.5), (2.0, 3.5, 0.5)))
    >>> [t.item() for t in cudml.torch.merge_statistics(a, b)]
    [4.0, 2.5, 5.0]
    """
    _check_triples(a, b)
    (na, ma, sa), (nb, mb, sb) = a, b
    n, d = na + nb, mb - ma
    divisor = torch.where(n == 0, torch.ones_like(n), n)  # 0/0 would be NaN in the gradient
    merged = (n, ma + d * (nb / divisor), sa + sb + d * d * (na * nb / divisor))
    count, mean, m2 = (
        torch.where(nb == 0, first, torch.where(na == 0, second, both))
        for both, first, second in zip(merged, a, b, strict=True)
    )
    return count, mean, m2


def _check_triples(a: Any, b: Any) -> None:
    op = "merge_statistics"
    for name, triple in (("a", a), ("b", b)):
        is_list = isinstance(triple, (tuple, list))
        if not is_list or len(triple) != 3:
            what = f"has {len(triple)} entries" if is_list else f"is a {kind_of(triple)}"
            raise TypeError(f"{op}: {name} {what}; it must be a tuple or list of three tensors")
        named = zip(_STATISTICS, triple, strict=True)
        check_tensors(op, **{f"{name}.{field}": t for field, t in named})
        for field, t in zip(_STATISTICS, triple, strict=True):
            like = a[0]
            if t.dtype not in (torch.float32, torch.float64) or t.dtype != like.dtype:
                raise TypeError(
                    f"{op}: {name}.{field}.DataType is {t.dtype}; all must be float32 or float64"
                )
            if t.shape != like.shape:
                raise ValueError(
                    f"{op}: {name}.{field}.Sizes are {tuple(t.shape)}; they must be "
                    f"{tuple(like.shape)}, those of a.Count"
                )


def normalize(
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
) -> Tensor:
    """`cudml.normalize` with gradients of x, scale and bias; mean and variance are constants.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, mean = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2.5])
    >>> cudml.torch.normalize(x, mean, None, activation="relu").tolist()
    [0.0, 0.0, 0.5, 1.5]
    """
    op = "normalize"
    if is_own(x, mean, variance, scale, bias):
        try:
            return cudml.normalize(
                x,
                mean,
                variance,
                scale,
                bias,
                epsilon=epsilon,
                activation=activation,
                out=None if keeps_strides(x) else new_like(x),
            )
        except BufferError:  # the operator can, or says which device
            pass
    given = (mean, variance, scale, bias)
    check_tensors(op, *_GIVEN, x=x, **dict(zip(_GIVEN, given, strict=True)))
    y: Tensor = call(op, x, *given, real(op, "Epsilon", epsilon), *encode(op, activation))
    return y


def normalize_grad_sums(
    x: Tensor,
    grad: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    dtype: WideDtype = "float64",
) -> tuple[Tensor, Tensor]:
    """`cudml.normalize_grad_sums`; it has no gradient itself.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, mean = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2.5])
    >>> sums = cudml.torch.normalize_grad_sums(x, x, mean, None, axes=0)
    >>> [t.tolist() for t in sums]
    [[10.0], [5.0]]
    """
    if is_own(x, grad, mean, variance, scale, bias) and is_row_major(x):
        try:
            return cudml.normalize_grad_sums(
                x,
                grad,
                mean,
                variance,
                scale,
                bias,
                axes=axes,
                epsilon=epsilon,
                activation=activation,
                dtype=dtype,
            )
        except BufferError:  # the operator can, or says which device
            pass
    op, given = "normalize_grad_sums", (mean, variance, scale, bias)
    named = dict(zip(_GIVEN, given, strict=True))
    check_tensors(op, *_GIVEN, x=x, grad=grad, **named)
    kind, over = _wide(op, dtype), axes_of(op, axes, x.dim())
    sum_w, sum_wz = call(
        op, x, grad, *given, over, real(op, "Epsilon", epsilon), *encode(op, activation)
    )
    return sum_w.to(kind), sum_wz.to(kind)


def normalize_grad(
    x: Tensor,
    grad: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    count: Tensor | None = None,
    sums: Sequence[Tensor] | None = None,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    outputs: Sequence[GradientName] = OUTPUTS,
) -> Gradients:
    """`cudml.normalize_grad`; it has no gradient itself.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, variance = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])
    >>> cudml.torch.normalize_grad(x, x, None, variance, epsilon=0)
    (tensor([0.5000, 1.0000, 1.5000]), None, None)
    """
    op = "normalize_grad"
    if sums is not None and (not isinstance(sums, (tuple, list)) or len(sums) != 2):
        raise TypeError(f"{op}: sums is a {type(sums).__name__}; it must be a tuple of two tensors")
    sum_w, sum_wz = (None, None) if sums is None else sums
    if is_own(x, grad, mean, variance, scale, bias, count, sum_w, sum_wz):
        try:
            is_kept = keep_order(x, scale, bias)
            return cudml.normalize_grad(
                x,
                grad,
                mean,
                variance,
                scale,
                bias,
                count=count,
                sums=sums,
                epsilon=epsilon,
                activation=activation,
                outputs=outputs,
                out=None if is_kept else allocated(op, (x, scale, bias), outputs),
            )
        except BufferError:  # the operator can, or says which device
            pass
    given = (mean, variance, scale, bias)
    if (count is None) != (sums is None):
        there, missing = ("sums", "count") if count is None else ("count", "sums")
        raise ValueError(f"{op}: {there} is given without {missing}; they go together")
    optional = {**dict(zip(_GIVEN, given, strict=True)), "count": count}
    optional |= {"GradientSum": sum_w, "ProductSum": sum_wz} if sums is not None else {}
    check_tensors(op, *_GIVEN, "count", x=x, grad=grad, **optional)
    mask, fused = chosen(op, outputs), (real(op, "Epsilon", epsilon), *encode(op, activation))
    gradients = call(op, x, grad, *given, count, sum_w, sum_wz, *fused, mask)
    return present(gradients, (x, scale, bias), mask)
