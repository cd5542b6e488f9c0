"""Max unpooling: signature and meaning; the work is done in `_core`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from cudml import _backend
from cudml._typing import Array, ArrayT, Stream


def max_unpooling(
    x: ArrayT,
    indices: Array,
    output_sizes: Sequence[SupportsIndex],
    *,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Put values back where `max_pooling` took them from, by its indices; zeros elsewhere.

    ``y.flat[indices.flat[k]] = x.flat[k]`` for ascending k, bit for bit. An index counts over the
    whole result, batch and channels included, so that an element may land in another plane. Indices
    out of range are ignored, negative ones and the all-ones of empty windows among them; of several
    equal ones the last source position stays. Follows DML_MAX_UNPOOLING_OPERATOR_DESC; ranks other
    than 4, signed indices and float64 and bfloat16 data are extensions.

    Parameters
    ----------
    x : array, shape (N, C, [D, [H,]] W)
        Any of the twelve element types.
    indices : array, the shape of `x`
        uint32, uint64, int32 or int64: flat positions in the result as one row-major array.
    output_sizes : ints
        The full shape of the result: N and C of `x`, and any spatial sizes from 1 on.
    out : array
        Shape `output_sizes`, the type of `x`; written and returned. Must not overlap `x` or
        `indices`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Shape `output_sizes`, type and memory order of `x`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.array([[[4, 1, 2, 3]]], np.float32)
    >>> y, indices = cudml.max_pooling(x, 2, 2, return_indices=True)
    >>> cudml.max_unpooling(y, indices, x.shape).tolist()
    [[[4.0, 0.0, 0.0, 3.0]]]
    """
    return _backend.core.max_unpooling(x, indices, output_sizes, out, stream)
