"""Padding in its five modes, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import (
    LARGEST,
    any_type,
    fits,
    floating,
    is_flag,
    is_sequence,
    real,
    require,
    shown,
    wholes,
)
from .numbers import padding_value
from .wide import Wide

Geometry = int | Sequence[int]
MODES = ("constant", "edge", "reflection", "symmetric", "wrap")

Array = NDArray[Any]


def padding(
    x: Array,
    start_padding: Geometry,
    end_padding: Geometry,
    *,
    mode: str | Sequence[str] = "constant",
    value: Any = 0,
) -> Array:
    """x with start_padding[d] elements before and end_padding[d] after, along every dimension d.

    x has rank 1 to 8 and any element type, whose bits are copied. `mode` is one name or one per
    dimension (D-PAD-14): an element is `value` if it lies outside x in any dimension whose mode is
    constant, otherwise each dimension's own rule gives its source.

    Parameters
    ----------
    x : ndarray of rank 1 to 8
        Any of the twelve element types.
    start_padding, end_padding : int or one int per dimension
        Elements before and after.
    mode : str or one str per dimension
        constant, edge, reflection, symmetric or wrap.
    value : number
        The constant; D-PAD-3 to D-PAD-5 convert it.

    Returns
    -------
    ndarray of x's type, shape ``x.shape[d] + start_padding[d] + end_padding[d]``

    Raises
    ------
    TypeError, ValueError
        Where `cudml.padding` raises them.

    Notes
    -----
    States DML_PADDING1_OPERATOR_DESC.
    """
    op = "padding"
    any_type(op, "InputTensor", x)
    start = wholes(op, "StartPadding", start_padding, x.ndim, 0, LARGEST)
    end = wholes(op, "EndPadding", end_padding, x.ndim, 0, LARGEST)
    modes = modes_of(op, mode, x.ndim)
    if "constant" in modes and (is_flag(value) or not hasattr(value, "__index__")):
        real(op, "PaddingValue", value)
    check_sizes(op, x, start, end)
    sources = [
        source_indices(m, n, b, e) for m, n, b, e in zip(modes, x.shape, start, end, strict=True)
    ]
    y = x[np.ix_(*(index for index, _ in sources))]
    if "constant" in modes:
        fill = padding_value(value, x.dtype)
        for d, (_, outside) in enumerate(sources):
            y[(slice(None),) * d + (outside,)] = fill
    return y


def padding_grad(
    grad: Array,
    input_sizes: Sequence[int],
    start_padding: Geometry,
    end_padding: Geometry,
    *,
    mode: str = "constant",
) -> NDArray[np.float64]:
    """result[i] = sum of grad[q] over the places q of the padded array that show element i.

    The exact transpose of padding's linear part, unrounded. In constant mode only the inner slice
    counts; the others fold periodically where the pads exceed the array.

    Parameters
    ----------
    grad : ndarray of rank 1 to 8, the padded shape
        float16, bfloat16, float32 or float64.
    input_sizes : sequence of int
        The shape of the array that was padded; 0 only where both pads are 0.
    start_padding, end_padding : int or one int per dimension
        Elements before and after.
    mode : str
        constant, edge, reflection, symmetric or wrap, for all dimensions.

    Returns
    -------
    ndarray of float64, shape `input_sizes`

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not belong together, or a number or a mode out of range.

    Notes
    -----
    The derivative of DML_PADDING1_OPERATOR_DESC, for which DirectML has no descriptor.
    """
    op = "padding_grad"
    text = f"{op}: PaddingMode is {shown(mode)}; it must be one of {', '.join(MODES)}"
    require(isinstance(mode, str), text, TypeError)
    require(mode in MODES, text)
    floating(op, "InputGradientTensor", grad)
    sizes, start, end = grad_sizes(op, grad, input_sizes, start_padding, end_padding)
    if mode == "constant":
        inner = tuple(slice(b, b + n) for b, n in zip(start, sizes, strict=True))
        return grad[inner].astype(np.float64)
    total = Wide.of(grad)
    with np.errstate(all="ignore"):
        for d, n in enumerate(sizes):
            total = _gathered(total, d, source_indices(mode, n, start[d], end[d])[0])
    return total.hi


def grad_sizes(
    op: str, grad: Array, input_sizes: Any, start_padding: Any, end_padding: Any
) -> tuple[list[int], list[int], list[int]]:
    """The sizes before padding and the pads, once they are known to make up grad's sizes."""
    field = "OutputGradientTensor.Sizes"
    text = f"{op}: {field} (input_sizes) is {shown(input_sizes)}; it must be a shape"
    require(is_sequence(input_sizes), text, TypeError)
    require(len(input_sizes) == grad.ndim, f"{text} of {grad.ndim} sizes")
    sizes = wholes(op, field, input_sizes, grad.ndim, 0, LARGEST)
    start = wholes(op, "StartPadding", start_padding, grad.ndim, 0, LARGEST)
    end = wholes(op, "EndPadding", end_padding, grad.ndim, 0, LARGEST)
    for d, (n, b, e) in enumerate(zip(sizes, start, end, strict=True)):
        text = f"{op}: {field}[{d}] is 0; a dimension with padding must not be empty"
        require(n > 0 or b + e == 0, text)
        text = f"{op}: InputGradientTensor.Sizes[{d}] is {grad.shape[d]}; it must be "
        require(grad.shape[d] == b + n + e, f"{text}{b} + {n} + {e} = {b + n + e}")
        require(grad.shape[d] <= LARGEST, f"{text}at most {LARGEST}")
    fits(op, "OutputGradientTensor", sizes, grad.dtype)
    return sizes, start, end


def _gathered(values: Wide, axis: int, source: NDArray[np.int64]) -> Wide:
    """The sum, for each source index, of the values along an axis that have it.

    Neighbours of equal source meet first; every index from 0 to the largest is met.
    """
    order = np.argsort(source, kind="stable")
    hi, lo = (np.moveaxis(part, axis, 0)[order] for part in (values.hi, values.lo))
    source = source[order]
    while len(source) and (source[1:] == source[:-1]).any():
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        first = np.flatnonzero((rank[:-1] % 2 == 0) & (source[1:] == source[:-1]))
        pairs = Wide(hi[first], lo[first]) + Wide(hi[first + 1], lo[first + 1])
        hi[first], lo[first] = pairs.hi, pairs.lo
        hi, lo, source = (part[rank % 2 == 0] for part in (hi, lo, source))
    return Wide(np.moveaxis(hi, 0, axis), np.moveaxis(lo, 0, axis))


def modes_of(op: str, mode: Any, rank: int) -> list[str]:
    """One mode for each dimension: a name stands for all of them (D-PAD-14)."""
    listed = list(mode) if isinstance(mode, (list, tuple)) else [mode] * rank
    text = f"{op}: PaddingMode has {len(listed)} entries; it must be one name or have {rank}"
    require(len(listed) == rank, text)
    for name in listed:
        text = f"{op}: PaddingMode is {shown(name)}; it must be one of {', '.join(MODES)}"
        require(isinstance(name, str), text, TypeError)
        require(name in MODES, text)
    return listed


def check_sizes(op: str, x: Array, start: list[int], end: list[int]) -> None:
    """Refuse results that are too large, and pads of a dimension that is empty (D-PAD-10)."""
    sizes = [n + b + e for n, b, e in zip(x.shape, start, end, strict=True)]
    for d, size in enumerate(sizes):
        text = f"{op}: OutputTensor.Sizes[{d}] is {size}; it must be at most {LARGEST}"
        require(size <= LARGEST, text)
        text = f"{op}: InputTensor.Sizes[{d}] is 0; a dimension with padding must not be empty"
        require(x.shape[d] > 0 or size == 0, text)
    fits(op, "OutputTensor", sizes, x.dtype)


def source_indices(
    mode: str, n: int, start: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The input index at each position of a padded dimension, and where the constant stands.

    n is the dimension's size. edge repeats the outermost element; the other modes repeat one period
    for ever, drawn here: wrap a b c, symmetric a b c c b a, reflection a b c b (D-PAD-1: of one
    element alone, a).
    """
    at = np.arange(-start, n + end)
    outside = np.zeros(len(at), np.bool_)
    a = np.arange(n)
    if mode == "constant":
        outside = (at < 0) | (at >= n)
        return np.where(outside, 0, at), outside
    if mode == "edge":
        return np.minimum(np.maximum(at, 0), n - 1), outside
    period = {
        "wrap": a,
        "symmetric": np.concatenate([a, a[::-1]]),
        "reflection": np.concatenate([a, a[1 : n - 1][::-1]]),
    }[mode]
    return period[at % max(len(period), 1)], outside
