"""Gradients of normalization: signatures and their meaning; the work is done in `_core`."""

from __future__ import annotations

from collections.abc import Sequence

from cudml import _backend
from cudml._typing import (
    ActivationLike,
    Array,
    ArrayT,
    Axes,
    GradientName,
    Gradients,
    Number,
    Stream,
    WideDtype,
)


def mean_variance_normalization_grad(
    x: ArrayT,
    grad: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    mean: Array | None = None,
    variance: Array | None = None,
    outputs: Sequence[GradientName] = ("x", "scale", "bias"),
    out: Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> Gradients[ArrayT]:
    """Gradients of `mean_variance_normalization` with respect to x, scale and bias.

    With ``z = (x - mean) * r``, ``r = 1 / sqrt(variance + epsilon)`` and ``v = scale * z + bias``::

        h      = grad * f'(v)                  w = h * scale
        dx     = r * (w - mean(w) - z * mean(w * z))
        dscale = sum of h * z over every dimension in which scale has size 1
        dbias  = sum of h over every dimension in which bias has size 1

    Means are over each group; without `use_mean` that of w counts as 0, without `use_variance` that
    of w * z, and r as 1. Computed in float32 (float64 for float64) and rounded once; repeated runs
    give the same bits. The derivative of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        The input of the forward call: float16, bfloat16, float32 or float64.
    grad : array
        Gradient with respect to the forward output: shape and type of `x`.
    scale, bias, axes, use_mean, use_variance, epsilon, activation
        As in the forward call; see `mean_variance_normalization`.
    mean, variance : array, optional
        Statistics of the groups, taken as they are: the shape of `x` with size 1 in `axes`; the
        type of `x`, float32 or float64. Both absent, or each given exactly where it is used.
    outputs : sequence of "x", "scale" and "bias"
        Which gradients to compute; the others cost nothing.
    out : tuple of three
        Arrays for the results, or None where one is to be allocated or there is none: shapes and
        types of `x`, `scale` and `bias`. No overlap with an input or with each other.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    tuple of three
        The gradients of x, scale and bias in their shapes and types; None where `outputs` does not
        name one, or where there is no such tensor.

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
    >>> grad = np.array([1.0, 0.0, 0.0, 0.0])
    >>> dx, dscale, dbias = cudml.mean_variance_normalization_grad(x, grad, np.ones(1), axes=0)
    >>> dx.round(4).tolist(), dscale.round(4).tolist(), dbias
    ([0.2683, -0.3578, -0.0894, 0.1789], [-1.3416], None)
    """
    return _backend.core.mean_variance_normalization_grad(
        x,
        grad,
        scale,
        bias,
        axes,
        use_mean,
        use_variance,
        epsilon,
        activation,
        mean,
        variance,
        outputs,
        out,
        stream,
    )


def normalize_grad_sums(
    x: ArrayT,
    grad: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Axes,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    dtype: WideDtype = "float64",
    out: Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> tuple[ArrayT, ArrayT]:
    """Sums of w and of w * z over a part of the data: what `normalize_grad` needs of all parts.

    ``z = (x - mean) / sqrt(variance + epsilon)`` and w as in `mean_variance_normalization_grad`,
    with the statistics of the whole group. The sums of all parts are added by the caller. Follows
    DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        The part: float16, bfloat16, float32 or float64. Sizes may be 0.
    grad : array
        Gradient with respect to the normalized part: shape and type of `x`.
    mean, variance : array or None
        Rank of `x`, every size 1 or that of `x`; the type of `x`, float32 or float64. None: x is
        not shifted, or not divided.
    scale, bias, epsilon, activation
        As in `mean_variance_normalization`.
    axes : int or ints
        Dimensions the sums run over.
    dtype : "float64" or "float32"
        Type of the sums.
    out : tuple of two
        Arrays for the sums, or None where one is to be allocated. No overlap with an input or with
        each other.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    tuple of two arrays
        The sums of w and of w * z: shape of `x` with size 1 in `axes`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x, grad = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    >>> mean, variance = np.array([2.5]), np.array([1.25])
    >>> sums = cudml.normalize_grad_sums(x, grad, mean, variance, axes=0)
    >>> [s.round(4).tolist() for s in sums]
    [[1.0], [-1.3416]]
    """
    return _backend.core.normalize_grad_sums(
        x, grad, mean, variance, scale, bias, axes, epsilon, activation, dtype, out, stream
    )


def normalize_grad(
    x: ArrayT,
    grad: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    count: Array | None = None,
    sums: Sequence[Array] | None = None,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    outputs: Sequence[GradientName] = ("x", "scale", "bias"),
    out: Sequence[Array | None] | None = None,
    stream: Stream = None,
) -> Gradients[ArrayT]:
    """Gradients of normalization with given statistics, with respect to x, scale and bias.

    With `count` and `sums` the statistics are those of groups that `x` is a part of::

        dx = r * (w - sums[0] / count - z * sums[1] / count)

    where a term is left out without its statistic. Without both they are constants, as stored ones
    are: ``dx = r * w``. dscale and dbias are those of the part, to be added by the caller. Follows
    DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.

    Parameters
    ----------
    x : array of rank 1 to 8
        The part: float16, bfloat16, float32 or float64. Sizes may be 0.
    grad : array
        Gradient with respect to the normalized part: shape and type of `x`.
    mean, variance : array or None
        Rank of `x`, every size 1 or that of `x`; the type of `x`, float32 or float64. None: x is
        not shifted, or not divided.
    scale, bias, epsilon, activation
        As in `mean_variance_normalization`.
    count : array, optional
        Elements of the whole group, like `mean`.
    sums : tuple or list of two arrays, optional
        What `normalize_grad_sums` returns, added over all parts; like `mean`. Both of `count` and
        `sums`, or neither.
    outputs : sequence of "x", "scale" and "bias"
        Which gradients to compute; the others cost nothing.
    out : tuple of three
        Arrays for the results, or None where one is to be allocated or there is none: shapes and
        types of `x`, `scale` and `bias`. No overlap with an input or with each other.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    tuple of three
        The gradients of x, scale and bias in their shapes and types; None where `outputs` does not
        name one, or where there is no such tensor.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x, grad = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    >>> mean, variance, count = np.array([2.5]), np.array([1.25]), np.array([4.0])
    >>> cudml.normalize_grad(x, grad, mean, variance)[0].round(4).tolist()
    [0.8944, 0.0]
    >>> sums = cudml.normalize_grad_sums(x, grad, mean, variance, axes=0)
    >>> dx, _, _ = cudml.normalize_grad(x, grad, mean, variance, count=count, sums=sums)
    >>> dx.round(4).tolist()
    [0.2683, -0.3578]
    """
    return _backend.core.normalize_grad(
        x,
        grad,
        mean,
        variance,
        scale,
        bias,
        count,
        sums,
        epsilon,
        activation,
        outputs,
        out,
        stream,
    )
