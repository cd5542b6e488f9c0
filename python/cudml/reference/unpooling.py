"""Max unpooling: values back at the places that indices name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import (
    any_type,
    array,
    fits,
    is_sequence,
    require,
    same_sizes,
    shown,
    wholes,
)

Array = NDArray[Any]
INDEX_TYPES = ("uint32", "uint64", "int32", "int64")


def max_unpooling(x: Array, indices: Array, output_sizes: Sequence[int]) -> Array:
    """Zeros of shape `output_sizes`, in which y.flat[indices.flat[k]] = x.flat[k], k ascending.

    Bits are copied. Indices out of range, the sentinel of empty windows and negative ones are
    ignored; of several the last source position stays (D-GRAD-32). An index counts over the whole
    output, so that an element may land in another plane.

    Parameters
    ----------
    x : ndarray, shape (N, C, [D, [H,]] W)
        Any of the twelve element types.
    indices : ndarray, x's shape
        uint32, uint64, int32 or int64: flat positions in the packed row-major output.
    output_sizes : sequence of int
        The full shape of the result; N and C are x's.

    Returns
    -------
    ndarray of x's type, shape `output_sizes`

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not belong together, or a number out of range.

    Notes
    -----
    States DML_MAX_UNPOOLING_OPERATOR_DESC.
    """
    op = "max_unpooling"
    any_type(op, "InputTensor", x)
    text = f"{op}: InputTensor.DimensionCount is {x.ndim}; it must be 3, 4 or 5"
    require(3 <= x.ndim <= 5, text)
    for d, size in enumerate(x.shape[2:], 2):
        require(size >= 1, f"{op}: InputTensor.Sizes[{d}] is 0; it must be at least 1")
    array(op, "IndicesTensor", indices, INDEX_TYPES)
    same_sizes(op, "IndicesTensor", indices, x.shape)
    sizes = unpooled_sizes(op, x, output_sizes)
    total, flat = math.prod(sizes), indices.reshape(-1)
    last = np.flatnonzero((flat >= 0) & (flat < total))[::-1]
    target, first = np.unique(flat[last].astype(np.int64), return_index=True)
    y = np.zeros(total, x.dtype)
    y[target] = x.reshape(-1)[last[first]]
    return y.reshape(sizes)


def unpooled_sizes(op: str, x: Array, output_sizes: Any) -> list[int]:
    """The output's sizes: x's N and C, and any spatial ones from 1 on (D-GRAD-31)."""
    field = "OutputTensor.Sizes"
    text = f"{op}: {field} (output_sizes) is {shown(output_sizes)}; it must be a shape"
    require(is_sequence(output_sizes), text, TypeError)
    require(len(output_sizes) == x.ndim, f"{text} of {x.ndim} sizes")
    sizes = wholes(op, field, output_sizes, x.ndim, 0, 2**63 - 1)
    for d, size in enumerate(sizes):
        text = f"{op}: {field}[{d}] is {size}; it must be "
        require(d > 1 or size == x.shape[d], f"{text}{x.shape[d]}" if d < 2 else "")
        require(d < 2 or size >= 1, f"{text}at least 1")
    fits(op, "OutputTensor", sizes, x.dtype)
    return sizes
