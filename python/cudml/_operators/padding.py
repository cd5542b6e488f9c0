"""Padding: its signature and meaning; the work is done in `_core`."""

from __future__ import annotations

from cudml import _backend
from cudml._typing import Array, ArrayT, Geometry, Mode, Number, Stream


def padding(
    x: ArrayT,
    start_padding: Geometry,
    end_padding: Geometry,
    *,
    mode: Mode = "constant",
    value: Number = 0,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Enlarge an array on either side of every dimension.

    ====================  ==========================================
    mode                  [a, b, c] with 3 on either side
    ====================  ==========================================
    ``"constant"``        v v v | a b c | v v v
    ``"edge"``            a a a | a b c | c c c
    ``"reflection"``      b c b | a b c | b a b  (edge not repeated)
    ``"symmetric"``       c b a | a b c | c b a  (edge repeated)
    ``"wrap"``            a b c | a b c | a b c
    ====================  ==========================================

    Pads may exceed the size: the pattern goes on periodically. Bits are copied, NaN payloads
    included. Follows DML_PADDING1_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        float16, bfloat16, float32, float64, or an integer of 8 to 64 bits.
    start_padding, end_padding : int or one int per dimension
        Elements before the first and after the last one, batch and channels included.
    mode : str, or a list or tuple with one per dimension
        With several, an element is the constant if it lies outside the input in any dimension
        whose mode is constant; otherwise each dimension follows its own rule.
    value : number, default 0
        The constant. An int is taken exactly and must fit an integer tensor; a float is truncated
        and saturated there, and NaN refused; for floating tensors it is rounded once.
    out : array
        Written and returned instead of a new array. Must not overlap `x`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Sizes ``x.shape[i] + start_padding[i] + end_padding[i]``; type and memory order of `x`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> cudml.padding(np.array([1, 2, 3]), 5, 0, mode="reflection").tolist()
    [2, 1, 2, 3, 2, 1, 2, 3]
    >>> cudml.padding(np.array([1, 2, 3]), 0, 4, mode="symmetric").tolist()
    [1, 2, 3, 3, 2, 1, 1]
    """
    return _backend.core.padding(x, start_padding, end_padding, mode, value, out, stream)
