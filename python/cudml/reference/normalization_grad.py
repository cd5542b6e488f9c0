"""The gradient of mean-variance normalization, at once and in two phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations import Fused, resolve
from .arguments import choice, entries, floating, require, same_sizes, same_type, wide_type
from .derivatives import passed
from .normalization import checked, checked_arrays, checked_epsilon, group_axes, own_statistics
from .stages import Normalized, group_sum, normalized
from .two_phase import checked_statistics, wide_or_own, widened
from .wide import Wide

Array = NDArray[Any]
F64 = NDArray[np.float64]
Gradients = tuple[F64 | None, F64 | None, F64 | None]
OUTPUTS = ("x", "scale", "bias")


@dataclass(frozen=True)
class Backward:
    """What a gradient has become on its way down: h below the activation, w below the scale."""

    stages: Normalized
    h: Wide
    w: Wide


def mean_variance_normalization_grad(
    x: Array,
    grad: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: int | Sequence[int],
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: float = 1e-5,
    activation: Fused = None,
    mean: Array | None = None,
    variance: Array | None = None,
    outputs: Sequence[str] = OUTPUTS,
) -> Gradients:
    """The gradients with respect to x, scale and bias, unrounded; `grad` is that of the result.

    ::

        v      = s*z + b                          z, mean, variance as in the operator
        h      = grad * f'(v)
        w      = h * s
        dx     = r * (w - mean of w - z * (mean of w*z))      r = 1/sqrt(variance + epsilon)
        dscale = sum of h*z over every dimension in which scale has size 1
        dbias  = sum of h over every dimension in which bias has size 1

    Without use_mean the mean of w counts as 0, without use_variance the mean of w*z, and r as 1.

    Parameters
    ----------
    x : ndarray of rank 1 to 8
        float16, bfloat16, float32 or float64.
    grad : ndarray, x's shape
        x's type.
    scale, bias, axes, use_mean, use_variance, epsilon, activation
        As in `cudml.mean_variance_normalization`.
    mean, variance : ndarray or None
        Statistics that the forward call returned, taken as they are (D-GRAD-18): x's shape with
        size 1 in `axes`; x's type, float32 or float64. Both absent, or each given exactly if used.
    outputs : sequence of str
        Which of "x", "scale" and "bias" to compute.

    Returns
    -------
    tuple of three ndarrays of float64
        The shapes of x, scale and bias; None where not asked for, or where the tensor is absent.

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not belong together, or a number or a name out of range.

    Notes
    -----
    The derivative of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC, for which DirectML has no
    descriptor.
    """
    op = "mean_variance_normalization_grad"
    over = checked(op, x, scale, bias, axes, use_mean, use_variance)
    checked_gradient(op, x, grad)
    number = checked_epsilon(op, epsilon, x.dtype)
    name, parameters = resolve(activation, x.dtype, op)
    checked_given(op, x, over, (mean, use_mean), (variance, use_variance))
    chosen = choice(op, "outputs", outputs, OUTPUTS)
    given = widened(mean), widened(variance)
    if mean is None and variance is None:
        given = own_statistics(x, over, use_mean, use_variance)
    with np.errstate(all="ignore"):
        stages = normalized(x, *given, scale, bias, number)
        back = backward(grad, scale, stages, name, parameters)
        count = float(math.prod(x.shape[a] for a in over))
        dx = None
        if "x" in chosen:
            mean_w = group_sum(back.w, over) / count if use_mean else None
            mean_wz = group_sum(back.w * stages.normal, over) / count if use_variance else None
            dx = below(back, mean_w, mean_wz).hi
        return dx, *parameter_gradients(back, scale, bias, chosen)


def backward(
    grad: Array, scale: Array | None, stages: Normalized, name: str, parameters: list[float]
) -> Backward:
    """h = grad * f'(v) and w = h * s."""
    h = passed(grad.astype(np.float64), stages.affine.hi, name, parameters)
    return Backward(stages, h, h if scale is None else h * scale.astype(np.float64))


def below(back: Backward, mean_w: Wide | None, mean_wz: Wide | None) -> Wide:
    """r * (w - mean_w - z * mean_wz); None leaves its term out."""
    rest = back.w
    if mean_w is not None:
        rest = rest - mean_w
    if mean_wz is not None:
        rest = rest - back.stages.normal * mean_wz
    return rest / back.stages.deviation


def parameter_gradients(
    back: Backward, scale: Array | None, bias: Array | None, chosen: Sequence[str]
) -> tuple[F64 | None, F64 | None]:
    """The gradients of scale and bias, None where not chosen or where there is none of them."""
    dscale = dbias = None
    if "scale" in chosen and scale is not None:
        dscale = group_sum(back.h * back.stages.normal, shared_axes(scale)).hi
    if "bias" in chosen and bias is not None:
        dbias = group_sum(back.h, shared_axes(bias)).hi
    return dscale, dbias


def shared_axes(parameter: Array) -> list[int]:
    """The dimensions in which one entry of a parameter serves all elements of x."""
    return [a for a, n in enumerate(parameter.shape) if n == 1]


def normalize_grad_sums(
    x: Array,
    grad: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    activation: Fused = None,
    dtype: Any = "float64",
) -> tuple[F64, F64]:
    """The sums of w and of w*z over `axes`, of one part, unrounded; of no elements they are 0.

    z, w as in mean_variance_normalization_grad, with the given mean and variance.

    Parameters
    ----------
    x, grad : ndarray of rank 1 to 8, of one shape and type
        float16, bfloat16, float32 or float64; zero sizes are permitted.
    mean, variance, scale, bias, epsilon, activation
        As in `cudml.reference.normalize`.
    axes : int or ints
        The dimensions that the sums run over.
    dtype : str or dtype
        float64 or float32: the type an operator returns.

    Returns
    -------
    tuple of two ndarrays of float64, x's shape with size 1 in `axes`, whatever `dtype` says

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not belong together, or a number out of range.

    Notes
    -----
    The first half of the derivative of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.
    """
    op = "normalize_grad_sums"
    back = checked_backward(op, x, grad, mean, variance, scale, bias, epsilon, activation)
    over = group_axes(op, x.ndim, axes)
    wide_type(op, "DataType", dtype)
    with np.errstate(all="ignore"):
        product = group_sum(back.w * back.stages.normal, over)
        return group_sum(back.w, over).hi, product.hi


def normalize_grad(
    x: Array,
    grad: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    count: Array | None = None,
    sums: Sequence[Array] | None = None,
    epsilon: float = 1e-5,
    activation: Fused = None,
    outputs: Sequence[str] = OUTPUTS,
) -> Gradients:
    """The gradients of normalize with respect to x, scale and bias, of one part, unrounded.

    ::

        dx = r * (w - [mean given] sum_w / count - [variance given] z * sum_wz / count)

    Without count and sums the statistics are constants: dx = r * w. dscale and dbias are those of
    the part; the caller adds them over the parts.

    Parameters
    ----------
    x, grad : ndarray of rank 1 to 8, of one shape and type
        float16, bfloat16, float32 or float64; zero sizes are permitted.
    mean, variance, scale, bias, epsilon, activation
        As in `cudml.reference.normalize`.
    count : ndarray or None
        Elements of the whole group; broadcasts to x; x's type, float32 or float64.
    sums : tuple or list of two ndarrays, or None
        The sums of w and of w*z over the whole group, like count. Both of count and sums, or none.
    outputs : sequence of str
        Which of "x", "scale" and "bias" to compute.

    Returns
    -------
    tuple of three ndarrays of float64
        The shapes of x, scale and bias; None where not asked for, or where the tensor is absent.

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not belong together, or a number or a name out of range.

    Notes
    -----
    The second half of the derivative of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC.
    """
    op = "normalize_grad"
    back = checked_backward(op, x, grad, mean, variance, scale, bias, epsilon, activation)
    checked_sums(op, x, count, sums)
    chosen = choice(op, "outputs", outputs, OUTPUTS)
    with np.errstate(all="ignore"):
        dx = None
        if "x" in chosen:
            mean_w = mean_wz = None
            if sums is not None and count is not None:
                shares = [Wide.of(total) / count.astype(np.float64) for total in sums]
                mean_w = shares[0] if mean is not None else None
                mean_wz = shares[1] if variance is not None else None
            dx = below(back, mean_w, mean_wz).hi
        return dx, *parameter_gradients(back, scale, bias, chosen)


def checked_backward(
    op: str,
    x: Array,
    grad: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    activation: Fused,
) -> Backward:
    """h and w with given statistics, once what leads to them is known to be permitted."""
    checked_arrays(op, x, scale, bias)
    checked_gradient(op, x, grad)
    checked_statistics(op, x, mean, variance)
    number = checked_epsilon(op, epsilon, x.dtype)
    name, parameters = resolve(activation, x.dtype, op)
    with np.errstate(all="ignore"):
        stages = normalized(x, widened(mean), widened(variance), scale, bias, number)
        return backward(grad, scale, stages, name, parameters)


def checked_gradient(op: str, x: Array, grad: Array) -> None:
    """Refuse a gradient of another type or shape than x's."""
    floating(op, "InputGradientTensor", grad)
    same_type(op, "InputGradientTensor", grad, x)
    same_sizes(op, "InputGradientTensor", grad, x.shape)


def checked_given(op: str, x: Array, over: list[int], *pairs: tuple[Array | None, bool]) -> None:
    """Refuse statistics that the flags do not ask for, that are missing, or of another shape."""
    if all(values is None for values, _ in pairs):
        return
    shape = [1 if a in over else n for a, n in enumerate(x.shape)]
    for field, (values, is_used) in zip(("Mean", "Variance"), pairs, strict=True):
        text = f"{op}: {field} is {'absent' if values is None else 'given'}; Use{field} is "
        rule = f"{is_used}, and statistics must be absent or given exactly where they are used"
        require((values is not None) == is_used, text + rule)
        if values is not None:
            wide_or_own(op, field, values, x)
            same_sizes(op, field, values, shape)


def checked_sums(op: str, x: Array, count: Any, sums: Any) -> None:
    """Refuse sums without a count, a count without sums, and what does not broadcast to x."""
    if count is None and sums is None:
        return
    text = f"{op}: Count is {'absent' if count is None else 'given'} and sums are "
    text += f"{'absent' if sums is None else 'given'}; both must be given, or neither"
    require(count is not None and sums is not None, text)
    pair = entries(op, "sums", sums, 2)
    for field, values in zip(("Count", "GradientSum", "ProductSum"), (count, *pair), strict=True):
        wide_or_own(op, field, values, x)
