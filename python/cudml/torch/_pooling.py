"""Pooling of tensors: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, overload

import torch
from torch import Tensor

import cudml
from cudml._typing import Axes, Geometry, IndexDtype, OutputSizes
from cudml.torch._arguments import flag, pooled, shape, whole, windows_of
from cudml.torch._dispatch import call, check_tensors, is_own, is_within_transformation
from cudml.torch._fold import Fold, fold
from cudml.torch._results import in_format_of, in_strides_of, keeps_order, keeps_strides

_INDEX_TYPES = ("uint32", "uint64", "int64")


@overload
def max_pooling(
    x: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: Literal[False] = False,
    index_dtype: IndexDtype = "int64",
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
) -> Tensor: ...
@overload
def max_pooling(
    x: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: Literal[True],
    index_dtype: IndexDtype = "int64",
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_pooling(
    x: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: bool = False,
    index_dtype: IndexDtype = "int64",
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
) -> Any:
    """`cudml.max_pooling` with a gradient; indices are int64 unless asked otherwise.

    Compiled code has int64 indices only. Those of other types have no gradient either.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x = torch.tensor([[[1.0, 3.0, 2.0, 2.0]]], requires_grad=True)
    >>> y, indices = cudml.torch.max_pooling(x, 2, 2, return_indices=True)
    >>> y.sum().backward()
    >>> indices.tolist(), x.grad.tolist()
    ([[[1, 2]]], [[[0.0, 1.0, 1.0, 0.0]]])
    """
    if is_own(x) and keeps_order(x):
        try:
            return cudml.max_pooling(  # type: ignore[call-overload, misc]
                x,
                window_size,
                strides,
                start_padding,
                end_padding,
                dilations,
                return_indices=return_indices,
                index_dtype=index_dtype,
                output_sizes=output_sizes,
                axes=axes,
            )
        except BufferError:  # the operator can, or says which device
            pass
    geometry = (window_size, strides, start_padding, end_padding, dilations)
    op = "max_pooling"
    check_tensors(op, x=x)
    windows, sizes = pooled(op, tuple(x.shape), axes, output_sizes, *geometry)
    folded, part = fold(x, windows.axes)
    arguments = (part, *windows.fields, sizes)
    if not flag(op, "return_indices", return_indices):
        return _unfolded(folded, call(op, *arguments), x)
    kind = _index_type(op, index_dtype, x)
    y, indices = call("max_pooling_with_indices", *arguments)
    indices = _unfolded(folded, folded.positions(indices, x.shape), x)
    return _unfolded(folded, y, x), indices.to(kind)


def _unfolded(folded: Fold, y: Tensor, x: Tensor, sizes: Sequence[Any] | None = None) -> Tensor:
    """A result with the batch sizes of x, or of `sizes`, and the memory format of x."""
    y = folded.undo(y, x.shape if sizes is None else sizes)
    return y if folded.is_canonical else in_format_of(y, x)


def _index_type(op: str, dtype: Any, x: Tensor) -> torch.dtype:
    """The type of indices; what PyTorch itself can hardly compute with stays outside of graphs."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    if name not in _INDEX_TYPES:
        raise TypeError(f"{op}: index_dtype is {dtype!r}; it must be uint32, uint64 or int64")
    if name != "int64" and torch.compiler.is_compiling():
        raise ValueError(f"{op}: index_dtype is {name}; in compiled code it must be int64")
    if name == "uint32" and x.numel() > 2**32 - 1:
        raise ValueError(f"{op}: index_dtype is uint32; {x.numel()} elements need uint64 or int64")
    found: torch.dtype = getattr(torch, name)
    return found


def max_pooling_grad(
    x: Tensor,
    grad: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    axes: Axes | None = None,
) -> Tensor:
    """`cudml.max_pooling_grad`; itself differentiable with respect to `grad`.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, grad = torch.tensor([[[1.0, 3.0, 2.0, 2.0]]]), torch.tensor([[[5.0, 7.0]]])
    >>> cudml.torch.max_pooling_grad(x, grad, 2, 2).tolist()
    [[[0.0, 5.0, 7.0, 0.0]]]
    """
    if is_own(x, grad) and keeps_strides(x):
        try:
            return cudml.max_pooling_grad(
                x, grad, window_size, strides, start_padding, end_padding, dilations, axes=axes
            )
        except BufferError:  # the operator can, or says which device
            pass
    geometry = (window_size, strides, start_padding, end_padding, dilations)
    op = "max_pooling_grad"
    check_tensors(op, x=x, grad=grad)
    windows = windows_of(op, x.dim(), axes, *geometry)
    same_rank(op, "grad", grad, x.dim())
    folded, part = fold(x, windows.axes)
    dx = folded.undo(call(op, part, folded.of(grad), *windows.fields), x.shape)
    # In a vmap a tensor of x's own may have no room for it.
    return dx if folded.is_canonical or is_within_transformation() else in_strides_of(dx, x)


def same_rank(op: str, name: str, t: Tensor, rank: int) -> None:
    """Refuse a tensor of another rank."""
    if t.dim() != rank:
        raise ValueError(f"{op}: {name} has {t.dim()} dimensions; it must have {rank}")


def average_pooling(
    x: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    include_padding: bool = False,
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
) -> Tensor:
    """`cudml.average_pooling` with a gradient of any order.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x = torch.tensor([[[1.0, 3.0, 2.0, 2.0]]], requires_grad=True)
    >>> cudml.torch.average_pooling(x, 2).sum().backward()
    >>> x.grad.tolist()
    [[[0.5, 1.0, 1.0, 0.5]]]
    """
    if is_own(x) and keeps_order(x):
        try:
            return cudml.average_pooling(
                x,
                window_size,
                strides,
                start_padding,
                end_padding,
                dilations,
                include_padding=include_padding,
                output_sizes=output_sizes,
                axes=axes,
            )
        except BufferError:  # the operator can, or says which device
            pass
    geometry = (window_size, strides, start_padding, end_padding, dilations)
    op = "average_pooling"
    check_tensors(op, x=x)
    windows, sizes = pooled(op, tuple(x.shape), axes, output_sizes, *geometry)
    own = (flag(op, "IncludePadding", include_padding), sizes)
    folded, part = fold(x, windows.axes)
    return _unfolded(folded, call(op, part, *windows.fields, *own), x)


def average_pooling_grad(
    grad: Tensor,
    input_sizes: Any,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    include_padding: bool = False,
    axes: Axes | None = None,
) -> Tensor:
    """`cudml.average_pooling_grad`; itself differentiable.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> cudml.torch.average_pooling_grad(torch.ones(1, 1, 3), (1, 1, 4), 2).tolist()
    [[[0.5, 1.0, 1.0, 0.5]]]
    """
    if is_own(grad) and keeps_order(grad):
        try:
            return cudml.average_pooling_grad(
                grad,
                input_sizes,
                window_size,
                strides,
                start_padding,
                end_padding,
                dilations,
                include_padding=include_padding,
                axes=axes,
            )
        except BufferError:  # the operator can, or says which device
            pass
    geometry = (window_size, strides, start_padding, end_padding, dilations)
    op = "average_pooling_grad"
    check_tensors(op, grad=grad)
    input_sizes = shape(op, "OutputGradientTensor.Sizes", input_sizes, grad.dim())
    windows = windows_of(op, grad.dim(), axes, *geometry)
    is_counted = flag(op, "IncludePadding", include_padding)
    folded, part = fold(grad, windows.axes)
    dx = call(op, part, folded.sizes(input_sizes), *windows.fields, is_counted)
    return _unfolded(folded, dx, grad, input_sizes)


def lp_pooling(
    x: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    p: SupportsIndex = 2,
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
) -> Tensor:
    """`cudml.lp_pooling` with a gradient.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x = torch.tensor([[[3.0, -4.0, 0.0]]], requires_grad=True)
    >>> cudml.torch.lp_pooling(x, 2).backward(torch.tensor([[[10.0, 8.0]]]))
    >>> x.grad.tolist()
    [[[6.0, -16.0, 0.0]]]
    """
    if is_own(x) and keeps_order(x):
        try:
            return cudml.lp_pooling(
                x,
                window_size,
                strides,
                start_padding,
                end_padding,
                dilations,
                p=p,
                output_sizes=output_sizes,
                axes=axes,
            )
        except BufferError:  # the operator can, or says which device
            pass
    geometry = (window_size, strides, start_padding, end_padding, dilations)
    op = "lp_pooling"
    check_tensors(op, x=x)
    windows, sizes = pooled(op, tuple(x.shape), axes, output_sizes, *geometry)
    own = (whole(op, "P", p, 1), sizes)
    folded, part = fold(x, windows.axes)
    return _unfolded(folded, call(op, part, *windows.fields, *own), x)


def lp_pooling_grad(
    x: Tensor,
    y: Tensor,
    grad: Tensor,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    p: SupportsIndex = 2,
) -> Tensor:
    """`cudml.lp_pooling_grad`; it has no gradient itself.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, y, grad = (torch.tensor([[values]]) for values in ([3.0, -4.0], [5.0], [10.0]))
    >>> cudml.torch.lp_pooling_grad(x, y, grad, 2).tolist()
    [[[6.0, -8.0]]]
    """
    if is_own(x, y, grad) and keeps_strides(x):
        try:
            return cudml.lp_pooling_grad(
                x, y, grad, window_size, strides, start_padding, end_padding, dilations, p=p
            )
        except BufferError:  # the operator can, or says which device
            pass
    geometry = (window_size, strides, start_padding, end_padding, dilations)
    op = "lp_pooling_grad"
    check_tensors(op, x=x, y=y, grad=grad)
    if not 3 <= x.dim() <= 5:  # there is no `axes` to name others by
        raise ValueError(f"{op}: InputTensor.DimensionCount is {x.dim()}; it must be 3, 4 or 5")
    windows = windows_of(op, x.dim(), None, *geometry)
    same_rank(op, "y", y, x.dim())
    same_rank(op, "grad", grad, x.dim())
    dx: Tensor = call(op, x, y, grad, *windows.fields, whole(op, "P", p, 1))
    return dx
