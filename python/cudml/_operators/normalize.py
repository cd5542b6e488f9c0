"""Normalization with given statistics: its signature and meaning; the work is done in `_core`."""

from __future__ import annotations

from cudml import _backend
from cudml._typing import ActivationLike, Array, ArrayT, Number, Stream


def normalize(
    x: ArrayT,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Normalize with given statistics, then scale, shift and activate.

    ``activation(scale * (x - mean) / sqrt(variance + epsilon) + bias)``, for stored statistics and
    for those of parts that `merge_statistics` has joined. Computed in float32 (float64 for
    float64), rounded once; of a float64 mean, what float32 has no room for counts, too. The second
    phase of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        float16, bfloat16, float32 or float64. Sizes may be 0.
    mean, variance : array or None
        Rank of `x`, every size 1 or that of `x`; the type of `x`, float32 or float64. None: x is
        not shifted, or not divided. The variance is the biased one, as ``m2 / count``.
    scale, bias : array, optional
        Rank of `x`, every size equal to that of `x` or 1. The type of `x`, or float32 where `x` is
        float16 or bfloat16.
    epsilon : float, default 1e-5
        Added to the variance inside the root; finite, not negative.
    activation : str, or (str, {parameter: number})
        As in `mean_variance_normalization`.
    out : array
        Shape and type of `x`; written and returned. May be `x` itself, otherwise no overlap.
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
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> count, mean, m2 = cudml.normalization_statistics(x, axes=0)
    >>> cudml.normalize(x, mean, m2 / count).round(4).tolist()
    [-1.3416, -0.4472, 0.4472, 1.3416]
    """
    return _backend.core.normalize(x, mean, variance, scale, bias, epsilon, activation, out, stream)
