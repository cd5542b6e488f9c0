"""The forward poolings: max, average and Lp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import LARGEST, any_type, fits, flag, floating, require, shown, whole
from .geometry import Geometry, Windows
from .numbers import is_float
from .wide import Wide

Array = NDArray[Any]
Axes = int | Sequence[int] | None
OutputSizes = Sequence[int] | str | None


def winners(windows: Windows, x: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The position in its plane of each window's maximum, and whether the window has any.

    ::

        best = none
        for taps in row-major order, real taps only:
            if best is none                                            -> best = tap
            else if best is not NaN and (tap > best or tap is NaN)     -> best = tap

    The rule "later beats earlier" is associative, so the taps meet in a tournament between
    neighbours: the winner is that of the loop above. Both results are batch x outputs.
    """
    planes = windows.planes(x if not is_float(x.dtype) else x.astype(np.float64))
    shape = (len(planes), len(windows.real_count()))
    position, found = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    for taps in windows.taps():
        source = np.broadcast_to(taps.source[None], (len(planes), *taps.source.shape))
        real = np.broadcast_to(taps.real[None], source.shape)
        source = np.concatenate([position[:, None], source], axis=1)
        real = np.concatenate([found[:, None], real], axis=1)
        while source.shape[1] > 1:
            even = source.shape[1] // 2 * 2
            best, taken = _duel(
                planes, source[:, 0:even:2], real[:, 0:even:2],
                source[:, 1:even:2], real[:, 1:even:2],
            )  # fmt: skip
            source = np.concatenate([best, source[:, even:]], axis=1)
            real = np.concatenate([taken, real[:, even:]], axis=1)
        position, found = source[:, 0], real[:, 0]
    return position, found


def _duel(planes: Array, best: Array, found: Array, tap: Array, real: Array) -> tuple[Array, Array]:
    """The winner of an earlier candidate `best` and a later one `tap`, elementwise."""
    rows = np.arange(len(planes))[:, None, None]
    a, b = planes[rows, best], planes[rows, tap]
    a_is_nan, b_is_nan = a != a, b != b
    later = real & (~found | (~a_is_nan & ((b > a) | b_is_nan)))
    return np.where(later, tap, best), found | real


def max_pooling(
    x: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    return_indices: bool = False,
    index_dtype: str = "uint32",
    output_sizes: OutputSizes = None,
    axes: Axes = None,
) -> Array | tuple[Array, Array]:
    """The largest real tap of each window; of equals the first, and of NaNs the first NaN.

    x has any element type and its bits are copied. Returns y of x's type and the pooled shape,
    and with `return_indices` the winners' flat positions in the whole of x seen as one packed
    row-major array. A window without a real tap gives -inf (floats) or the type's minimum, and an
    index with all bits set (D-MAX-4).

    Parameters
    ----------
    x : ndarray, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        Any of the twelve element types.
    window_size, strides, start_padding, end_padding, dilations, output_sizes, axes
        As in `cudml.max_pooling`.
    return_indices : bool
        Return the winners' positions as well.
    index_dtype : str or dtype
        uint32, uint64 or int64.

    Returns
    -------
    ndarray, or a tuple of two
        The values, in x's type; the positions, in `index_dtype`.

    Raises
    ------
    TypeError, ValueError
        Where `cudml.max_pooling` raises them.

    Notes
    -----
    States DML_MAX_POOLING2_OPERATOR_DESC.
    """
    op = "max_pooling"
    any_type(op, "InputTensor", x)
    windows = Windows(
        x.shape, window_size, strides, start_padding, end_padding, dilations, axes, output_sizes,
        op=op,
    )  # fmt: skip
    fits(op, "OutputTensor", windows.output_shape, x.dtype)
    flag(op, "return_indices", return_indices)
    kind = index_type(op, index_dtype, x.size if return_indices else 0)
    position, found = winners(windows, x)
    rows = np.arange(len(position))[:, None]
    lowest = -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    y = windows.planes(x)[rows, position]
    y[~found] = np.array(lowest).astype(x.dtype)
    y = windows.restore(y, windows.output_shape)
    if not return_indices:
        return y
    flat = windows.planes(np.arange(x.size, dtype=np.int64).reshape(x.shape))
    indices = flat[rows, position].astype(kind)
    indices[~found] = kind.type(-1) if kind.kind == "i" else np.iinfo(kind).max
    return y, windows.restore(indices, windows.output_shape)


def index_type(op: str, index_dtype: Any, elements: int) -> np.dtype[Any]:
    """The type of indices into an array of so many elements (D-MAX-8, D-MAX-9)."""
    text = f"{op}: index_dtype is {shown(index_dtype)}; it must be uint32, uint64 or int64"
    try:
        kind: np.dtype[Any] = np.dtype(index_dtype)
    except TypeError:
        raise TypeError(text) from None
    is_known = index_dtype is not None and kind.name in ("uint32", "uint64", "int64")
    require(is_known and kind.isnative, text, TypeError)
    text = f"{op}: OutputIndicesTensor.DataType is uint32; InputTensor has {elements} elements"
    require(kind.name != "uint32" or elements < 2**32, f"{text}; at most {2**32 - 1} fit")
    return kind


def average_pooling(
    x: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    include_padding: bool = False,
    output_sizes: OutputSizes = None,
    axes: Axes = None,
) -> NDArray[np.float64]:
    """Sum of the real taps / divisor, unrounded; 0 where the divisor is 0 (D-AVG-3).

    divisor = include_padding ? taps inside the padded extent : real taps.
    x is floating; the result is float64 of the pooled shape.

    Parameters
    ----------
    x : ndarray, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        float16, bfloat16, float32 or float64.
    window_size, strides, start_padding, end_padding, dilations, output_sizes, axes
        As in `cudml.average_pooling`.
    include_padding : bool
        Whether padding counts in the divisor.

    Returns
    -------
    ndarray of float64, the pooled shape

    Raises
    ------
    TypeError, ValueError
        Where `cudml.average_pooling` raises them.

    Notes
    -----
    States DML_AVERAGE_POOLING1_OPERATOR_DESC.
    """
    op = "average_pooling"
    floating(op, "InputTensor", x)
    windows = Windows(
        x.shape, window_size, strides, start_padding, end_padding, dilations, axes, output_sizes,
        op=op,
    )  # fmt: skip
    fits(op, "OutputTensor", windows.output_shape, x.dtype)
    flag(op, "IncludePadding", include_padding)
    planes = windows.planes(x.astype(np.float64))
    divisor = windows.inside_count() if include_padding else windows.real_count()
    total = Wide.of(np.zeros((len(planes), len(divisor))))
    with np.errstate(all="ignore"):
        for taps in windows.taps():
            terms = np.where(taps.real, planes[:, taps.source], 0.0)
            total = total + Wide.of(terms).sum(axis=1)
        mean = (total / np.maximum(divisor, 1).astype(np.float64)).hi  # of no tap 0 (D-AVG-3)
    return windows.restore(mean, windows.output_shape)


def lp_pooling(
    x: Array,
    window_size: Geometry,
    strides: Geometry = 1,
    start_padding: Geometry = 0,
    end_padding: Geometry = 0,
    dilations: Geometry = 1,
    *,
    p: int = 2,
    output_sizes: OutputSizes = None,
    axes: Axes = None,
) -> NDArray[np.float64]:
    """(sum over real taps of |x|^P)^(1/P), unrounded; a sum, not a mean.

    Evaluated as M * (sum (|x|/M)^P)^(1/P) with M = max|x|, so that nothing overflows (D-LP-6).
    A NaN tap gives NaN, else an infinite tap gives inf (D-LP-7); no real tap gives 0.

    Parameters
    ----------
    x : ndarray, shape (N, C, [D, [H,]] W), or of rank 1 to 8 with `axes`
        float16, bfloat16, float32 or float64.
    window_size, strides, start_padding, end_padding, dilations, output_sizes, axes
        As in `cudml.lp_pooling`.
    p : int
        The exponent P, from 1 on.

    Returns
    -------
    ndarray of float64, the pooled shape

    Raises
    ------
    TypeError, ValueError
        Where `cudml.lp_pooling` raises them.

    Notes
    -----
    States DML_LP_POOLING1_OPERATOR_DESC.
    """
    op = "lp_pooling"
    floating(op, "InputTensor", x)
    windows = Windows(
        x.shape, window_size, strides, start_padding, end_padding, dilations, axes, output_sizes,
        op=op,
    )  # fmt: skip
    fits(op, "OutputTensor", windows.output_shape, x.dtype)
    p = whole(op, "P", p, 1, LARGEST)
    size = windows.planes(np.abs(x.astype(np.float64)))
    shape = (len(size), len(windows.real_count()))
    has_nan, has_inf = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    largest = np.zeros(shape)
    for taps in windows.taps():
        terms = size[:, taps.source]
        has_nan |= (taps.real & np.isnan(terms)).any(axis=1)
        has_inf |= (taps.real & np.isinf(terms)).any(axis=1)
        usable = taps.real & np.isfinite(terms)
        largest = np.maximum(largest, np.where(usable, terms, 0.0).max(axis=1))
    with np.errstate(all="ignore"):
        norm = _scaled_norm(windows, size, largest, p)
    norm = np.where(has_nan, np.nan, np.where(has_inf, np.inf, norm))
    return windows.restore(norm, windows.output_shape)


def _scaled_norm(windows: Windows, size: Array, largest: Array, p: int) -> NDArray[np.float64]:
    """M * (sum (|x|/M)^P)^(1/P) over finite real taps, 0 where M is 0.

    Both |x| and M are first moved to M in [1/2, 1) by a power of two, which is exact.
    """
    fraction, exponent = np.frexp(np.where(largest == 0, 1.0, largest))
    total = Wide.of(np.zeros(largest.shape))
    for taps in windows.taps():
        terms = size[:, taps.source]
        terms = np.where(taps.real & np.isfinite(terms), terms, 0.0)
        ratio = Wide.of(np.ldexp(terms, -exponent[:, None])) / fraction[:, None]
        total = total + ratio.power(p).sum(axis=1)
    empty = largest == 0
    total = Wide(np.where(empty, 1.0, total.hi), np.where(empty, 0.0, total.lo))
    norm = np.ldexp((total.root(p) * fraction).hi, exponent)
    return np.where(empty, 0.0, norm)
