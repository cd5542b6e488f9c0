"""Normalization: its signature and meaning; the work is done in `_core`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from cudml import _backend
from cudml._typing import ActivationLike, Array, ArrayT, Axes, Number, Stream


@overload
def mean_variance_normalization(
    x: ArrayT,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    return_statistics: Literal[False] = False,
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT: ...
@overload
def mean_variance_normalization(
    x: ArrayT,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    return_statistics: Literal[True],
    out: Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> tuple[ArrayT, ArrayT | None, ArrayT | None]: ...
def mean_variance_normalization(
    x: ArrayT,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    return_statistics: bool = False,
    out: Array | Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> Any:
    """Normalize over any axes, then scale, shift and activate.

    ``activation(scale * (x - mean) / sqrt(variance + epsilon) + bias)`` with the mean and the
    biased variance of the elements that share all coordinates outside `axes`. Computed in float32
    (float64 for float64) by a corrected two-pass method, rounded once.
    Follows DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        float16, bfloat16, float32 or float64.
    scale, bias : array, optional
        Rank of `x`, every size equal to that of `x` or 1. The type of `x`, or float32 where `x` is
        float16 or bfloat16.
    axes : int or ints
        Dimensions the statistics are taken over, in any order, negative ones counted from the end.
        With none every element is its own group.
    use_mean : bool, default True
        Subtract the mean. Without it the variance is the mean square (RMS normalization).
    use_variance : bool, default True
        Divide by the deviation.
    epsilon : float, default 1e-5
        Added to the variance inside the root; finite, not negative. 0 makes a constant group NaN.
    activation : str, or (str, {parameter: number})
        identity, linear, relu, leaky_relu, thresholded_relu, elu, celu, scaled_elu, sigmoid,
        hard_sigmoid, tanh, scaled_tanh, softplus, parametric_softplus, softsign, shrink, gelu;
        beyond DirectML swish and hard_swish. Parameters are DirectML's in snake_case.
    return_statistics : bool, default False
        Return the mean and the variance as well. The normalized array has the same bits.
    out : array, or tuple of three
        Shape and type of `x`; written and returned. May be `x` itself, otherwise no overlap. With
        `return_statistics` arrays for all results, None where one is to be allocated or is None.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array, or tuple of three
        Shape, type and memory order of `x`. With `return_statistics` also the mean and the biased
        variance, before epsilon is added: shape of `x` with size 1 in `axes`, float32 (float64 for
        float64). None without `use_mean` or `use_variance`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> cudml.mean_variance_normalization(x, axes=1).round(4).tolist()
    [[-1.3416, -0.4472, 0.4472, 1.3416]]
    >>> cudml.mean_variance_normalization(x, axes=1, activation="relu").round(4).tolist()
    [[0.0, 0.0, 0.4472, 1.3416]]
    >>> y, mean, variance = cudml.mean_variance_normalization(x, axes=1, return_statistics=True)
    >>> mean.tolist(), variance.tolist()
    ([[2.5]], [[1.25]])
    """
    return _backend.core.mean_variance_normalization(
        x,
        scale,
        bias,
        axes,
        use_mean,
        use_variance,
        epsilon,
        activation,
        return_statistics,
        out,
        stream,
    )
