"""Statistics of parts and their merge: signatures and meaning; the work is done in `_core`."""

from __future__ import annotations

from collections.abc import Sequence

from cudml import _backend
from cudml._typing import Array, ArrayT, Axes, Stream, WideDtype


def normalization_statistics(
    x: ArrayT,
    *,
    axes: Axes,
    use_mean: bool = True,
    dtype: WideDtype = "float64",
    out: Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Count, mean and sum of squares about the mean, over any axes of a part of the data.

    What `merge_statistics` joins and `normalize` takes: ``variance = m2 / count``. Computed in
    float32 (float64 for float64) by a corrected two-pass method whose result keeps the digits that
    float32 has no room for. The first phase of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        The part: float16, bfloat16, float32 or float64. Sizes may be 0; statistics of nothing are
        all 0.
    axes : int or ints
        Dimensions the statistics are taken over, in any order, negative ones counted from the end.
        With none every element is its own group.
    use_mean : bool, default True
        Without it the mean is 0 and m2 the sum of the squares (RMS normalization).
    dtype : "float64" or "float32"
        Type of the results. float32 takes groups of at most 2**24 elements.
    out : tuple of three
        Arrays for the results, or None where one is to be allocated. No overlap with `x` or with
        each other.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    tuple of three arrays
        count, mean and m2: shape of `x` with size 1 in `axes`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 8.0]])
    >>> [s.ravel().tolist() for s in cudml.normalization_statistics(x, axes=1)]
    [[4.0, 4.0], [2.5, 2.0], [5.0, 48.0]]
    """
    return _backend.core.normalization_statistics(x, axes, use_mean, dtype, out, stream)


def merge_statistics(
    a: Sequence[ArrayT],
    b: Sequence[Array],
    *,
    out: Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> tuple[ArrayT, ArrayT, ArrayT]:
    """The statistics of two parts together, element by element.

    With ``n = na + nb`` and ``d = mb - ma`` the mean is ``ma + d * (nb / n)`` and m2 is
    ``m2a + m2b + d * d * (na * nb / n)``; a part of nothing leaves the other as it is, bit for bit
    (Chan, Golub and LeVeque), computed in the type of the statistics. Bits depend on the order:
    merge parts in ascending order. Between the two phases of
    DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    a, b : tuple or list of three arrays
        count, mean and m2, as `normalization_statistics` returns them: all of one shape, of rank 1
        to 8, and of one type, float32 or float64.
    out : tuple of three
        Arrays for the results, or None where one is to be allocated. No overlap with `a`, with `b`
        or with each other.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    tuple of three arrays
        count, mean and m2 of both parts, in the shape and type of theirs.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> parts = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    >>> a, b = (cudml.normalization_statistics(x, axes=0) for x in parts)
    >>> [s.tolist() for s in cudml.merge_statistics(a, b)]
    [[4.0], [2.5], [5.0]]
    """
    return _backend.core.merge_statistics(a, b, out, stream)
