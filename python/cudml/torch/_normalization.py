"""Normalization of tensors in one phase: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor

import cudml
from cudml._typing import ActivationLike, Axes, GradientName, Number
from cudml.torch._activations import encode
from cudml.torch._arguments import axes_of, flag, real
from cudml.torch._autograd import FORMULAS
from cudml.torch._dispatch import call, check_tensors, is_own, is_plain, is_recorded
from cudml.torch._kernels import OUTPUTS
from cudml.torch._recorded import normalized
from cudml.torch._recorded_normalization import Statistics, Views, as_results
from cudml.torch._results import count_of, keep_order, keeps_strides, new_like, row_major

_EVERY = [True, True, True]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


@overload
def mean_variance_normalization(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    return_statistics: Literal[False] = False,
) -> Tensor: ...
@overload
def mean_variance_normalization(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    return_statistics: Literal[True],
) -> tuple[Tensor, Tensor | None, Tensor | None]: ...
def mean_variance_normalization(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    return_statistics: bool = False,
) -> Any:
    """`cudml.mean_variance_normalization` with gradients of x, scale and bias.

    Going back through the statistics is an error; where more than autograd watches, as in a
    compiled program, they cost a pass over x. A compiled program returns their `detach()`.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> bias = torch.zeros(1, 4, requires_grad=True)
    >>> y = cudml.torch.mean_variance_normalization(x, None, bias, axes=1, activation="relu")
    >>> y.sum().backward()
    >>> bias.grad.tolist()
    [[0.0, 0.0, 1.0, 1.0]]
    """
    op = "mean_variance_normalization"
    if is_own(x, scale, bias):
        try:
            out: Any = None if keeps_strides(x) else new_like(x)
            result: Any = cudml.mean_variance_normalization(  # type: ignore[call-overload, misc]
                x,
                scale,
                bias,
                axes=axes,
                use_mean=use_mean,
                use_variance=use_variance,
                epsilon=epsilon,
                activation=activation,
                return_statistics=return_statistics,
                out=(out, None, None) if return_statistics and out is not None else out,
            )
            return row_major(*result) if return_statistics else result
        except BufferError:  # the operator can, or says which device
            pass
    check_tensors(op, "scale", "bias", x=x, scale=scale, bias=bias)
    flags = (flag(op, "UseMean", use_mean), flag(op, "UseVariance", use_variance))
    over = axes_of(op, axes, x.dim())
    rest = (over, *flags, real(op, "Epsilon", epsilon), *encode(op, activation))
    if not flag(op, "return_statistics", return_statistics):
        return call(op, x, scale, bias, *rest)
    if is_plain(x, scale, bias):
        return normalized((x, scale, bias), rest, statistics=as_results)
    return call(op, x, scale, bias, *rest), *_statistics(x, over, *flags)


def broadcast(views: Views, *parameters: Tensor | None) -> list[Tensor | None]:
    """Parameters in the shape that broadcasts."""
    sizes: Any = views.parameters
    return [t if t is None else t.reshape(*sizes) for t in parameters]


def normalization_of_views(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    views: Views,
    *,
    axes: list[int],
    use_mean: bool = True,
    epsilon: Number,
    activation: ActivationLike | None,
    statistics: Statistics = None,
) -> Tensor:
    """`mean_variance_normalization` of views of x and its parameters, as torch's functions have
    it, in the shape of x itself."""
    op = "mean_variance_normalization"
    if is_recorded(x, scale, bias):
        check_tensors(op, "scale", "bias", x=x, scale=scale, bias=bias)
        rest = (axes, use_mean, True, real(op, "Epsilon", epsilon), *encode(op, activation))
        y: Tensor = normalized((x, scale, bias), rest, views, statistics)
        return y
    scale, bias = broadcast(views, scale, bias)
    result: Any = mean_variance_normalization(  # type: ignore[call-overload, misc]
        x if views.x is None else x.view(*views.x),
        scale,
        bias,
        axes=axes,
        use_mean=use_mean,
        epsilon=epsilon,
        activation=activation,
        return_statistics=statistics is not None,
    )
    if statistics is not None:
        result, *found = result
        with torch.no_grad():
            statistics(*found)
    return result if views.x is None else result.reshape(*x.shape)


def _statistics(x: Tensor, axes: list[int], use_mean: bool, use_variance: bool) -> Any:
    """The mean and the biased variance, as far as they are in use."""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    count, mean, m2 = call("normalization_statistics", x, axes, use_mean, torch.float64)
    return mean.to(kind) if use_mean else None, (m2 / count).to(kind) if use_variance else None


def chosen(op: str, outputs: Any) -> list[bool]:
    """Which of x, scale and bias `outputs` names."""
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise TypeError(f"{op}: outputs is {outputs!r}; it must be a sequence of names")
    names = list(outputs)
    if not names or any(n not in OUTPUTS or n in names[:i] for i, n in enumerate(names)):
        raise ValueError(
            f"{op}: outputs is {outputs!r}; it must name some of {', '.join(OUTPUTS)}, each once"
        )
    return [name in names for name in OUTPUTS]


def present(
    gradients: Sequence[Tensor], tensors: Sequence[Tensor | None], mask: Sequence[bool]
) -> Gradients:
    """Gradients as the functions return them: None for what is not there or not asked for."""
    dx, dscale, dbias = (
        g if wanted and t is not None else None
        for g, t, wanted in zip(gradients, tensors, mask, strict=True)
    )
    return dx, dscale, dbias


def allocated(op: str, tensors: tuple[Tensor, Any, Any], outputs: Any) -> Gradients:
    """A tensor for each gradient of x, scale and bias that there is and is asked for."""
    mask = _EVERY if outputs is OUTPUTS else chosen(op, outputs)
    dx, dscale, dbias = [
        None if t is None or not wanted else new_like(t)
        for t, wanted in zip(tensors, mask, strict=True)
    ]
    return dx, dscale, dbias


def mean_variance_normalization_grad(
    x: Tensor,
    grad: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: Number = 1e-5,
    activation: ActivationLike | None = None,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    outputs: Sequence[GradientName] = OUTPUTS,
) -> Gradients:
    """`cudml.mean_variance_normalization_grad`; it has no gradient itself.

    Examples
    --------
    >>> import cudml.torch, torch
    >>> x, grad = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> cudml.torch.mean_variance_normalization_grad(x, grad, axes=0, use_variance=False)
    (tensor([ 0.7500, -0.2500, -0.2500, -0.2500]), None, None)
    """
    op = "mean_variance_normalization_grad"
    if is_own(x, grad, scale, bias, mean, variance):
        try:
            is_kept = keep_order(x, scale, bias)
            return cudml.mean_variance_normalization_grad(
                x,
                grad,
                scale,
                bias,
                axes=axes,
                use_mean=use_mean,
                use_variance=use_variance,
                epsilon=epsilon,
                activation=activation,
                mean=mean,
                variance=variance,
                outputs=outputs,
                out=None if is_kept else allocated(op, (x, scale, bias), outputs),
            )
        except BufferError:  # the operator can, or says which device
            pass
    tensors = (x, grad, scale, bias, mean, variance)
    given = {"scale": scale, "bias": bias, "mean": mean, "variance": variance}
    check_tensors(op, *given, x=x, grad=grad, **given)
    mask, has_own = chosen(op, outputs), mean is None and variance is None
    if not has_own and is_plain(*tensors):
        options: dict[str, Any] = {"use_mean": use_mean, "use_variance": use_variance}
        options |= {"epsilon": epsilon, "axes": axes, "activation": activation, "outputs": outputs}
        found: Gradients = _OfStored.apply(options, *tensors)
        return found
    flags = (flag(op, "UseMean", use_mean), flag(op, "UseVariance", use_variance))
    over, fused = (
        axes_of(op, axes, x.dim()),
        (real(op, "Epsilon", epsilon), *encode(op, activation)),
    )
    if has_own:
        result = call(op, x, grad, scale, bias, over, *flags, *fused, mask)
        return present(result, (x, scale, bias), mask)
    for field, t, used in (("Mean", mean, flags[0]), ("Variance", variance, flags[1])):
        if used != (t is not None):
            raise ValueError(
                f"{op}: {field} is {'absent' if used else 'given'}; with a statistic given, mean "
                "must be there exactly if use_mean, variance exactly if use_variance"
            )
    stored = (mean, variance, scale, bias)
    sums = call("normalize_grad_sums", x, grad, *stored, over, *fused)
    count = torch.full_like(sums[0], count_of(x, over))
    result = call("normalize_grad", x, grad, *stored, count, *sums, *fused, mask)
    return present(result, (x, scale, bias), mask)


class _OfStored(torch.autograd.Function):
    """Gradients with statistics that are given: there is no operator that takes them."""

    @staticmethod
    def forward(options: dict[str, Any], x: Tensor, grad: Tensor, *given: Any) -> Any:
        scale, bias, mean, variance = given
        return mean_variance_normalization_grad(
            x, grad, scale, bias, mean=mean, variance=variance, **options
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return FORMULAS["mean_variance_normalization_grad"][0](ctx, *grads)
