"""Padding in its five modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import LARGEST, any_type, fits, is_flag, real, require, shown, wholes
from .numbers import padding_value

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
