"""The gradients of max, average and Lp pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import (
    LARGEST,
    fits,
    flag,
    floating,
    is_sequence,
    require,
    same_sizes,
    same_type,
    shown,
    whole,
    wholes,
)
from .geometry import Geometry, Windows, pooled_axes
from .pooling import Axes, winners
from .wide import Wide

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def max_pooling_grad(
    x: Array,
    grad: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    axes: Axes = None,
) -> NDArray[np.float64]:
    """result[i] = sum over windows o whose winner is i of grad[o], unrounded; 0 elsewhere.

    x is the forward input, grad has the forward output's shape (any that D-POOL-2 permits), the
    result x's. Winners are those of max_pooling: ties go to the first, NaN to the first NaN.

    Parameters
    ----------
    x : ndarray, the forward input
        float16, bfloat16, float32 or float64.
    grad : ndarray, the shape of the forward output
        x's type.
    window_size, strides, start_padding, end_padding, dilations, axes
        As in `cudml.max_pooling_grad`.

    Returns
    -------
    ndarray of float64, x's shape

    Raises
    ------
    TypeError, ValueError
        Where `cudml.max_pooling_grad` raises them.

    Notes
    -----
    States DML_MAX_POOLING_GRAD_OPERATOR_DESC.
    """
    op = "max_pooling_grad"
    floating(op, "InputTensor", x)
    floating(op, "InputGradientTensor", grad)
    same_type(op, "InputGradientTensor", grad, x)
    fields = (window_size, strides, start_padding, end_padding, dilations, axes)
    windows = fitted(op, x.shape, grad, *fields)
    position, found = winners(windows, x)
    share = Wide.of(windows.planes(grad.astype(np.float64)))
    total = _Sums(*windows.planes(x).shape)
    with np.errstate(all="ignore"):
        for taps in windows.taps():
            won = taps.real & found[:, None] & (position[:, None] == taps.source)
            for t in np.flatnonzero(won.any(axis=(0, 2))):
                total.add(taps.source[t], share, won[:, t])
    return windows.restore(total.hi, x.shape)


def average_pooling_grad(
    grad: Array,
    input_sizes: Sequence[int],
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    include_padding: bool = False,
    axes: Axes = None,
) -> NDArray[np.float64]:
    """result[i] = sum over windows o with i as a real tap of grad[o] / divisor(o), unrounded.

    grad has the forward output's shape, the result the shape `input_sizes`; the divisor is that
    of average_pooling. Gradient that falls on padding disappears.

    Parameters
    ----------
    grad : ndarray, the shape of the forward output
        float16, bfloat16, float32 or float64.
    input_sizes : sequence of int
        The full shape of the forward input.
    window_size, strides, start_padding, end_padding, dilations, axes
        As in `cudml.average_pooling_grad`.
    include_padding : bool
        Whether padding counts in the divisor.

    Returns
    -------
    ndarray of float64, shape `input_sizes`

    Raises
    ------
    TypeError, ValueError
        Where `cudml.average_pooling_grad` raises them.

    Notes
    -----
    States DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC.
    """
    op = "average_pooling_grad"
    floating(op, "InputGradientTensor", grad)
    flag(op, "IncludePadding", include_padding)
    text = f"{op}: input_sizes is {shown(input_sizes)}; it must be the shape of the forward input"
    require(is_sequence(input_sizes), text, TypeError)
    shape = tuple(wholes(op, "input_sizes", input_sizes, grad.ndim, 0, 2**63 - 1))
    fields = (window_size, strides, start_padding, end_padding, dilations, axes)
    windows = fitted(op, shape, grad, *fields)
    divisor = windows.inside_count() if include_padding else windows.real_count()
    planes = windows.planes(grad.astype(np.float64))
    total = _Sums(len(planes), len(windows.coverage()))
    with np.errstate(all="ignore"):
        share = Wide.of(planes) / np.maximum(divisor, 1).astype(np.float64)
        for taps in windows.taps():
            for source, real in zip(taps.source, taps.real, strict=True):
                total.add(source, share, np.broadcast_to(real, planes.shape))
    return windows.restore(total.hi, shape)


def lp_pooling_grad(
    x: Array,
    y: Array,
    grad: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    p: int = 2,
) -> NDArray[np.float64]:
    """result[i] = sum over windows o with i as a real tap of grad[o] * sign(x[i]) * rho(i, o).

    ::

        rho(i, o) = 1                                if p = 1; y is not read
                  = min(|x[i]| / y[o], 1)^(p - 1)    if p > 1; NaN stays NaN

    Unrounded. The result is defined by the given y, whatever it is; a window with y = 0 passes
    nothing for p > 1, not even NaN. sign(+-0) is 0.

    Parameters
    ----------
    x : ndarray, shape (N, C, [D, [H,]] W), the forward input
        float16, bfloat16, float32 or float64.
    y : ndarray, the forward output
        grad's shape; x's type, or float32 where x has 16 bits.
    grad : ndarray, the shape of the forward output
        x's type.
    window_size, strides, start_padding, end_padding, dilations
        As in `cudml.lp_pooling`.
    p : int
        The exponent P, from 1 on.

    Returns
    -------
    ndarray of float64, x's shape

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not belong together, or a number out of range.

    Notes
    -----
    The derivative of DML_LP_POOLING1_OPERATOR_DESC, for which DirectML has no descriptor.
    """
    op = "lp_pooling_grad"
    floating(op, "InputTensor", x)
    floating(op, "InputGradientTensor", grad)
    same_type(op, "InputGradientTensor", grad, x)
    text = f"{op}: InputTensor.DimensionCount is {x.ndim}; it must be 3, 4 or 5"
    require(3 <= x.ndim <= 5, text)
    fields = (window_size, strides, start_padding, end_padding, dilations, None)
    windows = fitted(op, x.shape, grad, *fields)
    floating(op, "OutputTensor", y)
    same_type(op, "OutputTensor", y, x, *(["float32"] if x.dtype.itemsize == 2 else []))
    same_sizes(op, "OutputTensor", y, grad.shape)
    p = whole(op, "P", p, 1, LARGEST)
    size, norm, given = (windows.planes(a.astype(np.float64)) for a in (x, y, grad))
    total = _Sums(*size.shape)
    with np.errstate(all="ignore"):
        for taps in windows.taps():
            under = size[:, taps.source]  # batch x taps x outputs
            share = Wide.of(given[:, None]) * np.sign(under)
            if p > 1:
                share = share * lp_ratio(under, norm[:, None]).power(p - 1)
            chosen = taps.real & ((norm != 0) | (p == 1))[:, None]
            for t, source in enumerate(taps.source):
                total.add(source, Wide(share.hi[:, t], share.lo[:, t]), chosen[:, t])
    return windows.restore(total.hi, x.shape)


def lp_ratio(x: Array, y: Array) -> Wide:
    """min(|x| / y, 1), where NaN stays NaN (D-GRAD-5)."""
    ratio = Wide.of(np.abs(x)) / y
    beyond = (ratio.hi > 1) | ((ratio.hi == 1) & (ratio.lo > 0))
    return Wide(np.where(beyond, 1.0, ratio.hi), np.where(beyond, 0.0, ratio.lo))


class _Sums:
    """One wide sum for each element of each plane, starting at +0."""

    def __init__(self, batch: int, plane: int) -> None:
        self.hi = np.zeros((batch, plane))
        self.lo = np.zeros((batch, plane))

    def add(self, source: Ints, share: Wide, chosen: Bools) -> None:
        """Adds share[b, o] to the element source[o] under one tap of window o, where chosen[b, o].

        One tap never lies on the same element for two windows, so no element is met twice.
        """
        b, o = np.nonzero(chosen)
        i = source[o]
        total = Wide(self.hi[b, i], self.lo[b, i]) + Wide(share.hi[b, o], share.lo[b, o])
        self.hi[b, i], self.lo[b, i] = total.hi, total.lo


def fitted(
    op: str,
    shape: Sequence[int],
    grad: Array,
    window_size: Geometry,
    strides: Geometry,
    start_padding: Geometry,
    end_padding: Geometry,
    dilations: Geometry,
    axes: Axes,
) -> Windows:
    """The windows over an input of shape `shape` whose outputs are grad's elements (D-AVG-10)."""
    text = f"{op}: InputGradientTensor.DimensionCount is {grad.ndim}; it must be {len(shape)}"
    require(grad.ndim == len(shape), text)
    pooled = pooled_axes(op, len(shape), axes)
    sizes = [grad.shape[a] for a in pooled]
    fields = (window_size, strides, start_padding, end_padding, dilations, axes, sizes)
    windows = Windows(shape, *fields, op=op)
    text = f"{op}: InputGradientTensor.Sizes are {grad.shape}; they must be {windows.output_shape}"
    require(grad.shape == windows.output_shape, text)
    fits(op, "OutputGradientTensor", shape, grad.dtype)
    return windows
