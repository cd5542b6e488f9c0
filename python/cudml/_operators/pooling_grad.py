"""Gradients of pooling: signatures and their meaning; the work is done in `_core`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from cudml import _backend
from cudml._typing import Array, ArrayT, Axes, Geometry, Stream


def max_pooling_grad(
    x: ArrayT,
    grad: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    axes: Axes | None = None,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Gradient of max pooling: each window hands its gradient to the element that won it.

    Winners are found again from `x`, by the rules of `max_pooling`; ties give everything to the
    first element in row-major order. Sums are kept in float32 and rounded once; repeated runs give
    the same bits. Follows DML_MAX_POOLING_GRAD_OPERATOR_DESC.

    Parameters
    ----------
    x : array, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        The input of the forward pooling: float16, bfloat16, float32 or float64.
    grad : array
        Gradient with respect to the forward output: its sizes, the type of `x`. The floor rule,
        the ceil rule and every size between 1 and the ceil rule's are taken.
    window_size, strides, start_padding, end_padding, dilations, axes
        As in the forward call; see `max_pooling`.
    out : array
        Shape and type of `x`; written and returned. Must not overlap `x` or `grad`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Shape, type and memory order of `x`; zero where an element won nowhere.

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
    >>> grad = np.array([[1, 2], [4, 5]], np.float32)
    >>> cudml.max_pooling_grad(x, grad, 2, axes=(0, 1)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 4.0, 5.0]]
    """
    return _backend.core.max_pooling_grad(
        x, grad, window_size, strides, start_padding, end_padding, dilations, axes, out, stream
    )


def average_pooling_grad(
    grad: ArrayT,
    input_sizes: Sequence[SupportsIndex],
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    include_padding: bool = False,
    axes: Axes | None = None,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Gradient of average pooling: the exact transpose of `average_pooling`.

    Each element receives the sum, over the windows that contain it, of their gradient divided by
    their divisor; what falls on padding disappears. Deterministic.
    Follows DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC; dilations are an extension.

    Parameters
    ----------
    grad : array, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        Gradient with respect to the forward output: float16, bfloat16, float32 or float64.
    input_sizes : ints
        The full shape of the forward input, batch and channels included.
    window_size, strides, start_padding, end_padding, dilations, include_padding, axes
        As in the forward call; see `average_pooling`.
    out : array
        Shape `input_sizes`, the type of `grad`; written and returned. Must not overlap `grad`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Shape `input_sizes`, type and memory order of `grad`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> grad = np.array([[1, 2], [3, 4]], np.float32)
    >>> cudml.average_pooling_grad(grad, (3, 3), 2, axes=(0, 1)).tolist()
    [[0.25, 0.75, 0.5], [1.0, 2.5, 1.5], [0.75, 1.75, 1.0]]
    """
    return _backend.core.average_pooling_grad(
        grad,
        input_sizes,
        window_size,
        strides,
        start_padding,
        end_padding,
        dilations,
        include_padding,
        axes,
        out,
        stream,
    )


def lp_pooling_grad(
    x: ArrayT,
    y: Array,
    grad: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    p: SupportsIndex = 2,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Gradient of Lp pooling: each window hands its gradient to its elements by their share in it.

    An element receives the sum, over the windows that contain it, of
    ``grad * sign(x) * min(|x| / y, 1)**(p - 1)``. A window with y = 0 passes nothing, unless p is
    1, which reads no y. The result is defined by the given y, whatever it is; windows with y < 0
    give no particular values. Sums are kept in float32 (float64 for float64) in a fixed order and
    rounded once; repeated runs give the same bits. The derivative of
    DML_LP_POOLING1_OPERATOR_DESC, for which DirectML has no descriptor.

    Parameters
    ----------
    x : array, shape (N, C, [D, [H,]] W)
        The input of the forward pooling: float16, bfloat16, float32 or float64.
    y : array
        The forward output, sizes of `grad`: the type of `x`, or float32 where that has 16 bits,
        which keeps the digits that rounding y takes away and windows that overflow.
    grad : array
        Gradient with respect to y: its sizes, the type of `x`. The floor rule, the ceil rule and
        every size between 1 and the ceil rule's are taken.
    window_size, strides, start_padding, end_padding, dilations, p
        As in the forward call; see `lp_pooling`.
    out : array
        Shape and type of `x`; written and returned. Must not overlap `x`, `y` or `grad`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Shape, type and memory order of `x`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.array([[[3, -4, 0, 0]]], np.float32)
    >>> y = cudml.lp_pooling(x, 2)
    >>> cudml.lp_pooling_grad(x, y, np.array([[[10, 8, 7]]], np.float32), 2).tolist()
    [[[6.0, -16.0, 0.0, 0.0]]]
    """
    return _backend.core.lp_pooling_grad(
        x, y, grad, window_size, strides, start_padding, end_padding, dilations, p, out, stream
    )
