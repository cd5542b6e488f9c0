"""Max, average and Lp pooling: signatures and their meaning; the work is done in `_core`."""

from __future__ import annotations

from typing import Any, Literal, SupportsIndex, overload

from cudml import _backend
from cudml._typing import Array, ArrayT, Axes, Geometry, IndexDtype, OutputSizes, Stream


@overload
def max_pooling(
    x: ArrayT,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: Literal[False] = False,
    index_dtype: IndexDtype = "uint32",
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT: ...
@overload
def max_pooling(
    x: ArrayT,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: Literal[True],
    index_dtype: IndexDtype = "uint32",
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
    out: tuple[Array, Array] | list[Any] | None = None,
    stream: Stream = None,
) -> tuple[ArrayT, Any]: ...
def max_pooling(
    x: ArrayT,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: bool = False,
    index_dtype: IndexDtype = "uint32",
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
    out: Array | tuple[Array, Array] | list[Any] | None = None,
    stream: Stream = None,
) -> Any:
    """Maximum over sliding windows, with the positions of the winners if asked for.

    Padding never wins. Of equal values the first in row-major order wins, a NaN wins over any
    number, and a window without a single input element gives -inf (the type's minimum for
    integers) and the index with all bits set. Values are copied, never computed.
    Follows DML_MAX_POOLING2_OPERATOR_DESC.

    Parameters
    ----------
    x : array, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        float16, bfloat16, float32, float64, or an integer of 8 to 64 bits.
    window_size : int or one int per pooled dimension
        Taps of the window, 1 to 2**32 - 1.
    strides : int or ints, default 1
        Elements from one window to the next. The default is 1, not the window's size.
    start_padding, end_padding : int or ints, default 0
        Virtual elements before the first and after the last one.
    dilations : int or ints, default 1
        Elements from one tap to the next; 1 is a dense window.
    return_indices : bool
        Return the winners' positions as well.
    index_dtype : "uint32", "uint64" or "int64", or a dtype
        Element type of the indices. int64 shows the empty window's index as -1, and PyTorch can
        index with it: ``x.reshape(-1)[indices]``.
    output_sizes : None, "ceil", int or ints
        None is the floor rule, ``(in + pads - ((w - 1) * d + 1)) // stride + 1``; "ceil" also keeps
        a last window that starts inside the input or its start padding; ints are taken as given.
    axes : int or ints, ascending, negative ones counted from the end
        The pooled dimensions; every other one is batch. None means the dimensions from 2 on: an
        array of rank 3 is {N,C,W}, and its last dimension alone is pooled. For one image {C,H,W}
        name them, ``axes=(1, 2)``, for {H,W,C} ``axes=(0, 1)``.
    out : array, or (y, indices) with `return_indices`
        Written and returned instead of new arrays. Must not overlap `x` or each other.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array, or (y, indices)
        `y` has the type and the memory order of `x`. Indices count elements of the whole of `x`
        as one packed row-major array, batch and channels included.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.array([[1, 2, 3], [2, 4, 2], [5, 6, 7]], np.float32)
    >>> y, indices = cudml.max_pooling(x, 2, axes=(0, 1), return_indices=True)
    >>> y.tolist(), indices.tolist()
    ([[4.0, 4.0], [6.0, 7.0]], [[4, 4], [7, 8]])
    """
    return _backend.core.max_pooling(
        x,
        window_size,
        strides,
        start_padding,
        end_padding,
        dilations,
        return_indices,
        index_dtype,
        output_sizes,
        axes,
        out,
        stream,
    )


def average_pooling(
    x: ArrayT,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    include_padding: bool = False,
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Mean over sliding windows.

    The divisor is the number of input elements in the window or, with `include_padding`, of
    elements within the padded input; a window that counts none gives 0. Sums are kept in float32
    (float64 for float64) and rounded once. Follows DML_AVERAGE_POOLING1_OPERATOR_DESC.

    Parameters
    ----------
    x : array, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        float16, bfloat16, float32 or float64.
    window_size, strides, start_padding, end_padding, dilations, output_sizes, axes
        As in `max_pooling`; strides default to 1.
    include_padding : bool
        Count padding in the divisor. The default is False, unlike PyTorch's.
    out : array
        Written and returned instead of a new array. Must not overlap `x`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Type and memory order of `x`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    >>> cudml.average_pooling(x, 2, axes=(0, 1)).tolist()
    [[3.0, 4.0], [6.0, 7.0]]
    """
    return _backend.core.average_pooling(
        x,
        window_size,
        strides,
        start_padding,
        end_padding,
        dilations,
        include_padding,
        output_sizes,
        axes,
        out,
        stream,
    )


def lp_pooling(
    x: ArrayT,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    p: SupportsIndex = 2,
    output_sizes: OutputSizes | None = None,
    axes: Axes | None = None,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """p-norm over sliding windows: ``(sum of |x|**p) ** (1/p)``, a sum and not a mean.

    Absolute values are taken, padding adds nothing, and a window without input elements gives 0.
    Intermediate powers neither overflow nor vanish. Follows DML_LP_POOLING1_OPERATOR_DESC.

    Parameters
    ----------
    x : array, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        float16, bfloat16, float32 or float64.
    window_size, strides, start_padding, end_padding, dilations, output_sizes, axes
        As in `max_pooling`; strides default to 1.
    p : int, default 2
        The exponent, 1 to 2**32 - 1; large ones tend to the maximum of ``|x|``.
    out : array
        Written and returned instead of a new array. Must not overlap `x`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Type and memory order of `x`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.array([[1, -2, 3], [-4, 5, -6], [7, -8, 9]], np.float32)
    >>> cudml.lp_pooling(x, 2, p=1, axes=(0, 1)).tolist()
    [[12.0, 16.0], [24.0, 28.0]]
    """
    return _backend.core.lp_pooling(
        x,
        window_size,
        strides,
        start_padding,
        end_padding,
        dilations,
        p,
        output_sizes,
        axes,
        out,
        stream,
    )
