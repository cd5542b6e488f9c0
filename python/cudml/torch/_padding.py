"""Padding and max unpooling of tensors: the public functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, get_args

import torch
from torch import Tensor

import cudml
from cudml._typing import Geometry, Mode, ModeName, Number
from cudml.torch._arguments import is_list, real, shape, wholes
from cudml.torch._dispatch import call, check_tensors, is_own
from cudml.torch._results import keeps_order

_MODES = get_args(ModeName)


def padding(
    x: Tensor,
    start_padding: Geometry,
    end_padding: Geometry,
    *,
    mode: Mode = "constant",
    value: Number = 0,
) -> Tensor:
    """`cudml.padding` with a gradient of any order; `value` is a constant to it.

    An int as `value` must fit into 64 bits with a sign.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> cudml.torch.padding(x, 2, 0, mode="edge").sum().backward()
    >>> x.grad.tolist()
    [3.0, 1.0, 1.0]
    """
    number = _scalar(value)
    if is_own(x) and keeps_order(x):
        try:
            return cudml.padding(x, start_padding, end_padding, mode=mode, value=number)
        except BufferError:  # the operator can, or says which device
            pass
    op = "padding"
    check_tensors(op, x=x)
    start = wholes(op, "StartPadding", start_padding, x.dim(), 0)
    end = wholes(op, "EndPadding", end_padding, x.dim(), 0)
    if not is_list(mode):
        return _padded(x, start, end, _mode(op, mode), number)
    modes = [_mode(op, m) for m in mode]
    if len(modes) != x.dim():
        raise ValueError(
            f"{op}: mode has {len(modes)} entries; it must be a name or have {x.dim()}"
        )
    # In any order: where the constant stands, the modes of other dimensions copy the constant.
    for each in sorted(set(modes)):
        chosen = [m == each for m in modes]
        x = _padded(x, _where(chosen, start), _where(chosen, end), each, number)
    return x


def _padded(x: Tensor, start: list[Any], end: list[Any], mode: str, value: Any) -> Tensor:
    result: Tensor = call("padding", x, start, end, mode, value)
    return result


def _where(chosen: Sequence[bool], pads: Sequence[Any]) -> list[Any]:
    return [pad if c else 0 for pad, c in zip(pads, chosen, strict=True)]


def _mode(op: str, mode: Any) -> str:
    if not isinstance(mode, str):
        raise TypeError(f"{op}: PaddingMode is {mode!r}; it must be a string")
    if mode not in _MODES:
        raise ValueError(f'{op}: PaddingMode is "{mode}"; it must be one of {", ".join(_MODES)}')
    return mode


def _scalar(value: Any) -> Any:
    """The pad value as a Scalar holds it: an int of 64 bits or a float."""
    if type(value) is float or isinstance(value, (torch.SymInt, torch.SymFloat)):
        return value
    try:
        number = operator.index(value)
    except TypeError:
        return real("padding", "PaddingValue", value)
    if isinstance(value, bool):
        raise TypeError(f"padding: PaddingValue is {value}; it must be a real number")
    if not -(2**63) <= number < 2**63:
        raise ValueError(
            f"padding: PaddingValue is {number}; as an int it must be between {-(2**63)} and "
            f"{2**63 - 1}, what PyTorch's Scalar holds"
        )
    return number


def padding_grad(
    grad: Tensor,
    input_sizes: Sequence[SupportsIndex],
    start_padding: Geometry,
    end_padding: Geometry,
    *,
    mode: ModeName = "constant",
) -> Tensor:
    """`cudml.padding_grad`; itself differentiable.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> cudml.torch.padding_grad(torch.ones(5), (3,), 2, 0, mode="edge").tolist()
    [3.0, 1.0, 1.0]
    """
    if is_own(grad) and keeps_order(grad):
        try:
            return cudml.padding_grad(grad, input_sizes, start_padding, end_padding, mode=mode)
        except BufferError:  # the operator can, or says which device
            pass
    op = "padding_grad"
    check_tensors(op, grad=grad)
    sizes = shape(op, "OutputGradientTensor.Sizes", input_sizes, grad.dim())
    start = wholes(op, "StartPadding", start_padding, grad.dim(), 0)
    end = wholes(op, "EndPadding", end_padding, grad.dim(), 0)
    dx: Tensor = call(op, grad, sizes, start, end, _mode(op, mode))
    return dx


def max_unpooling(x: Tensor, indices: Tensor, output_sizes: Sequence[SupportsIndex]) -> Tensor:
    """`cudml.max_unpooling` with a gradient: that of the elements that won their places.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, indices = torch.tensor([[[5.0, 6.0, 7.0]]]), torch.tensor([[[1, 3, 1]]])
    >>> cudml.torch.max_unpooling(x, indices, (1, 1, 4)).tolist()
    [[[0.0, 7.0, 0.0, 6.0]]]
    """
    if is_own(x, indices) and keeps_order(x):
        try:
            return cudml.max_unpooling(x, indices, output_sizes)
        except BufferError:  # the operator can, or says which device
            pass
    op = "max_unpooling"
    check_tensors(op, x=x, indices=indices)
    sizes = shape(op, "OutputTensor.Sizes", output_sizes, x.dim())
    y: Tensor = call(op, x, indices, sizes)
    return y
