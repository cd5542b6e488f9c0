"""Max, average and Lp pooling and max unpooling, with the signatures of torch.nn.functional."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

import cudml.torch as canonical
from cudml.torch._kept import kept
from cudml.torch._places import plane_bases

from ._arguments import LARGEST, flag, is_sequence, rank, sides, tensor, whole, wholes

Sizes: TypeAlias = int | Sequence[int]
Pads: TypeAlias = int | Sequence[int | tuple[int, int]]
Windows: TypeAlias = tuple[tuple[Any, ...], ...]  # five fields, of one entry per dimension


def _batched(function: str, count: int, input: Any) -> Tensor:
    """`input` as {N,C,spatial}: torch takes {C,spatial}, too."""
    x = tensor(function, "input", input)
    return x.unsqueeze(0) if rank(function, x.shape, count + 1, count + 2) == count + 1 else x


def _geometry(
    function: str, count: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any
) -> list[list[Any]]:
    """Window sizes, strides, start and end pads and dilations, one entry per dimension."""
    window = wholes(function, "kernel_size", kernel_size, count, 1)
    is_absent = stride is None or (is_sequence(stride) and len(stride) == 0)
    steps = window if is_absent else wholes(function, "stride", stride, count, 1)
    starts, ends = sides(function, padding, count)
    return [window, steps, starts, ends, wholes(function, "dilation", dilation, count, 1)]


@kept
def _windows(
    function: str, shape: Sequence[Any], ceil_mode: Any,
    kernel_size: Any, stride: Any, padding: Any, dilation: Any,
) -> tuple[Windows, Any]:  # fmt: skip
    """The windows on {N,C,spatial} of a shape, and torch's rounding of the number of their places,
    of which the ceiling drops windows that start in the end padding.

    It also gives a window that is longer than the padded input a single place: that window is cut
    to its taps inside, and its stride leads past the input.
    """
    geometry = _geometry(function, len(shape) - 2, kernel_size, stride, padding, dilation)
    is_ceil = flag(function, "ceil_mode", ceil_mode)
    windows, steps = list(geometry[0]), list(geometry[1])
    for i, (size, window, step, start, end, dilated) in enumerate(
        zip(shape[2:], *geometry, strict=True)
    ):
        extent, padded = (window - 1) * dilated + 1, size + start + end
        if extent <= padded:
            continue
        if not (is_ceil and size > 0 and extent - padded < step):
            text = f"{function}: kernel_size[{i}] is {window} and spans {extent} elements; it must"
            raise ValueError(f"{text} span at most the padded input's {padded}")
        windows[i], steps[i] = (padded - 1) // dilated + 1, size + start
    return tuple(map(tuple, (windows, steps, *geometry[2:]))), "ceil" if is_ceil else None


def _in_plane(indices: Tensor, x: Tensor, geometry: Windows) -> Tensor:
    """Positions within the plane of a channel, from positions in the whole input."""
    within = indices - plane_bases(indices, math.prod(x.shape[2:]))
    window, _, starts, ends, dilations = geometry
    is_dense = all(d == 1 for d in dilations)
    is_short = all(max(a, b) < w for w, a, b in zip(window, starts, ends, strict=True))
    if (is_dense and is_short) or not any(starts + ends):
        return within  # every window has an element
    return torch.where(indices < 0, indices, within)


def _max_pool(
    function: str, count: int, input: Any, sizes: tuple[Any, ...], ceil_mode: Any, with_indices: Any
) -> Any:
    x = _batched(function, count, input)
    geometry, rule = _windows(function, tuple(x.shape), ceil_mode, *sizes)
    is_single = input.dim() == count + 1
    if not flag(function, "return_indices", with_indices):
        y = canonical.max_pooling(x, *geometry, output_sizes=rule)
        return y.squeeze(0) if is_single else y
    y, indices = canonical.max_pooling(x, *geometry, output_sizes=rule, return_indices=True)
    indices = _in_plane(indices, x, geometry)
    return (y.squeeze(0), indices.squeeze(0)) if is_single else (y, indices)


def _sum_pool(
    function: str, count: int, input: Any, sizes: tuple[Any, ...], ceil_mode: Any,
    pooling: Callable[..., Tensor], **more: Any,
) -> Tensor:  # fmt: skip
    """Average or Lp pooling."""
    x = _batched(function, count, input)
    geometry, rule = _windows(function, tuple(x.shape), ceil_mode, *sizes)
    y = pooling(x, *geometry, output_sizes=rule, **more)
    return y.squeeze(0) if input.dim() == count + 1 else y


def _average(
    function: str, count: int, input: Any, sizes: tuple[Any, ...], ceil_mode: Any,
    count_include_pad: Any, divisor_override: Any = None,
) -> Tensor:  # fmt: skip
    if divisor_override is not None:
        text = (
            f"{function}: divisor_override is {divisor_override!r}; it must be None: multiply the"
        )
        text += " average by the window's number of elements and divide by the divisor"
        raise ValueError(text)
    include = flag(function, "count_include_pad", count_include_pad)
    return _sum_pool(
        function, count, input, sizes, ceil_mode, canonical.average_pooling, include_padding=include
    )


def _norm(
    function: str, count: int, input: Any, norm_type: Any, sizes: tuple[Any, ...], ceil_mode: Any
) -> Tensor:
    if isinstance(norm_type, float):
        # No text and no method of a float: of several norms a compiled program makes a symbol.
        if abs(norm_type) == math.inf:
            text = f"{function}: norm_type is {norm_type!r}; it must be finite: pool the maximum of"
            raise ValueError(f"{text} input.abs() instead")
        if norm_type % 1 != 0:
            text = f"{function}: norm_type is {norm_type!r}; it must be a whole number"
            raise ValueError(f"{text} between 1 and {LARGEST}")
        norm_type = int(norm_type)
    p = whole(function, "norm_type", norm_type, 1)
    return _sum_pool(function, count, input, sizes, ceil_mode, canonical.lp_pooling, p=p)


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows of {N,C,L} or {C,L}; `padding` may be a pair ((start, end),)."""
    sizes = (kernel_size, stride, padding, dilation)
    return _max_pool("max_pool1d", 1, input, sizes, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows of {N,C,H,W} or {C,H,W}.

    An entry of `padding` may be a pair (start, end), and pads may be of any size. Indices are
    int64 and count within the plane of a channel, as torch's; of several NaN in a window the first
    wins, and a window that lies wholly in padding gives -inf and the index -1.
    """
    sizes = (kernel_size, stride, padding, dilation)
    return _max_pool("max_pool2d", 2, input, sizes, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows of {N,C,D,H,W} or {C,D,H,W}; see `max_pool2d`."""
    sizes = (kernel_size, stride, padding, dilation)
    return _max_pool("max_pool3d", 3, input, sizes, ceil_mode, return_indices)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    dilation: Sizes = 1,
) -> Tensor:
    """Mean over windows of {N,C,L} or {C,L}; see `avg_pool2d`."""
    sizes = (kernel_size, stride, padding, dilation)
    return _average("avg_pool1d", 1, input, sizes, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Sizes = 1,
) -> Tensor:
    """Mean over windows of {N,C,H,W} or {C,H,W}.

    An entry of `padding` may be a pair (start, end), and pads may be of any size. There is no
    `divisor_override`: average * count / divisor is the same.
    """
    sizes = (kernel_size, stride, padding, dilation)
    return _average("avg_pool2d", 2, input, sizes, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Pads = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Sizes = 1,
) -> Tensor:
    """Mean over windows of {N,C,D,H,W} or {C,D,H,W}; see `avg_pool2d`."""
    sizes = (kernel_size, stride, padding, dilation)
    return _average("avg_pool3d", 3, input, sizes, ceil_mode, count_include_pad, divisor_override)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
    *,
    padding: Pads = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """p-norm over windows of {N,C,L} or {C,L}; see `lp_pool2d`."""
    sizes = (kernel_size, stride, padding, dilation)
    return _norm("lp_pool1d", 1, input, norm_type, sizes, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
    *,
    padding: Pads = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """p-norm over windows of {N,C,H,W} or {C,H,W}: ``(sum of |x|**p) ** (1/p)``.

    `norm_type` is a whole number. Absolute values are taken, where torch sums signed powers, and a
    window that `ceil_mode` lets reach beyond the input has the norm of what it holds, where torch
    scales it up to a full window.
    """
    sizes = (kernel_size, stride, padding, dilation)
    return _norm("lp_pool2d", 2, input, norm_type, sizes, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
    *,
    padding: Pads = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """p-norm over windows of {N,C,D,H,W} or {C,D,H,W}; see `lp_pool2d`."""
    sizes = (kernel_size, stride, padding, dilation)
    return _norm("lp_pool3d", 3, input, norm_type, sizes, ceil_mode)
