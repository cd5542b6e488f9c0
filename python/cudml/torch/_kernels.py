"""The operators on tensors that have memory: `cudml` computes them.

It allocates the results as well, where they get the memory format of `RESULTS` from it: that takes
half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import cudml
from cudml._typing import GradientName
from cudml.torch._activations import decode
from cudml.torch._kept import kept
from cudml.torch._results import (
    RESULTS,
    Ints,
    Triple,
    is_row_major,
    keep_order,
    keeps,
    masked,
    row_major,
)
from cudml.torch._schemas import library

OUTPUTS: tuple[GradientName, ...] = ("x", "scale", "bias")


def _out(like: Tensor, name: str, *arguments: Any) -> Any:
    """What an operator writes to; None where `cudml` allocates the same by itself."""
    return None if keeps(name, like) else RESULTS[name](*arguments)


def _pooling(name: str) -> Callable[..., Tensor]:
    """The kernel of max, average and Lp pooling; the argument between is their own."""
    keyword = {"average_pooling": "include_padding", "lp_pooling": "p"}.get(name)

    def kernel(x: Tensor, *arguments: Any) -> Tensor:
        out = _out(x, name, x, *arguments)
        windows, *own, sizes = arguments[:5], *arguments[5:]
        options = {keyword: own[0]} if keyword else {}
        y: Tensor = getattr(cudml, name)(x, *windows, **options, output_sizes=sizes, out=out)
        return y

    return kernel


def _max_pooling_with_indices(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    out = _out(x, "max_pooling_with_indices", x, *arguments)
    *windows, sizes = arguments
    return cudml.max_pooling(
        x, *windows, return_indices=True, index_dtype="int64", output_sizes=sizes, out=out
    )


def _max_pooling_grad(x: Tensor, grad: Tensor, *windows: Ints) -> Tensor:
    return cudml.max_pooling_grad(x, grad, *windows, out=_out(x, "max_pooling_grad", x))


def _average_pooling_grad(grad: Tensor, input_sizes: Ints, *arguments: Any) -> Tensor:
    *windows, include_padding = arguments
    out = _out(grad, "average_pooling_grad", grad, input_sizes)
    return cudml.average_pooling_grad(
        grad, input_sizes, *windows, include_padding=include_padding, out=out
    )


def _lp_pooling_grad(x: Tensor, y: Tensor, grad: Tensor, *arguments: Any) -> Tensor:
    *windows, p = arguments
    return cudml.lp_pooling_grad(x, y, grad, *windows, p=p, out=_out(x, "lp_pooling_grad", x))


def _padding(x: Tensor, start: Ints, end: Ints, mode: Any, value: Any) -> Tensor:
    out = _out(x, "padding", x, start, end)
    return cudml.padding(x, start, end, mode=mode, value=value, out=out)


def _padding_grad(grad: Tensor, sizes: Ints, start: Ints, end: Ints, mode: Any) -> Tensor:
    out = _out(grad, "padding_grad", grad, sizes)
    return cudml.padding_grad(grad, sizes, start, end, mode=mode, out=out)


def _mean_variance_normalization(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    axes: Sequence[int],
    use_mean: bool,
    use_variance: bool,
    epsilon: float,
    activation: str,
    parameters: Sequence[float],
    out: Tensor | None = None,
) -> Tensor:
    """The public operator has no `out`; others in this package may give it one."""
    return cudml.mean_variance_normalization(
        x,
        scale,
        bias,
        axes=axes,
        use_mean=use_mean,
        use_variance=use_variance,
        epsilon=epsilon,
        activation=decode(activation, parameters),
        out=_out(x, "mean_variance_normalization", x) if out is None else out,
    )


def normalized_with_statistics(
    x: Tensor, scale: Any, bias: Any, *arguments: Any, out: Tensor | None = None
) -> Any:
    """Mean-variance normalization, and its mean and variance as far as they are in use."""
    axes, use_mean, use_variance, epsilon, activation, parameters = arguments
    out = _out(x, "mean_variance_normalization", x) if out is None else out
    results = cudml.mean_variance_normalization(
        x,
        scale,
        bias,
        axes=axes,
        use_mean=use_mean,
        use_variance=use_variance,
        epsilon=epsilon,
        activation=decode(activation, parameters),
        return_statistics=True,
        out=None if out is None else (out, None, None),
    )
    return row_major(*results)


@kept
def names_of(mask: tuple[bool, ...]) -> tuple[GradientName, ...]:
    """The gradients that a mask asks for."""
    return tuple(name for name, wanted in zip(OUTPUTS, mask, strict=True) if wanted)


def _chosen(tensors: tuple[Any, Any, Any], mask: Sequence[bool]) -> dict[str, Any]:
    """`outputs` and `out` of a gradient for what the mask asks for and is there."""
    wanted = tuple(bool(m) and t is not None for t, m in zip(tensors, mask, strict=True))
    out = None
    if not keep_order(*tensors):
        made = masked(tensors, mask, tensors[0])
        out = tuple(t if w else None for t, w in zip(made, wanted, strict=True))
    return {"outputs": names_of(wanted), "out": out}


def _every(gradients: Sequence[Tensor | None], like: Tensor) -> Triple:
    """Gradients as operators return them: an empty tensor for each that is not there."""
    dx, dscale, dbias = (like.new_empty(0) if g is None else g for g in gradients)
    return dx, dscale, dbias


def _mean_variance_normalization_grad(
    x: Tensor,
    grad: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    axes: Sequence[int],
    use_mean: bool,
    use_variance: bool,
    epsilon: float,
    activation: str,
    parameters: Sequence[float],
    output_mask: Sequence[bool],
) -> Triple:
    chosen = _chosen((x, scale, bias), output_mask)
    found: Sequence[Tensor | None] = (None, None, None)
    if chosen["outputs"]:
        found = cudml.mean_variance_normalization_grad(
            x,
            grad,
            scale,
            bias,
            axes=axes,
            use_mean=use_mean,
            use_variance=use_variance,
            epsilon=epsilon,
            activation=decode(activation, parameters),
            **chosen,
        )
    return _every(found, x)


def _normalization_statistics(
    x: Tensor, axes: Sequence[int], use_mean: bool, dtype: torch.dtype
) -> Triple:
    out = None if is_row_major(x) else RESULTS["normalization_statistics"](x, axes, use_mean, dtype)
    return cudml.normalization_statistics(x, axes=axes, use_mean=use_mean, dtype=dtype, out=out)


def _normalize(
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
    activation: str,
    parameters: Sequence[float],
) -> Tensor:
    fused, out = decode(activation, parameters), _out(x, "normalize", x)
    return cudml.normalize(
        x, mean, variance, scale, bias, epsilon=epsilon, activation=fused, out=out
    )


def _normalize_grad_sums(
    x: Tensor,
    grad: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None,
    bias: Tensor | None,
    axes: Sequence[int],
    epsilon: float,
    activation: str,
    parameters: Sequence[float],
) -> tuple[Tensor, Tensor]:
    given = (mean, variance, scale, bias)
    out = RESULTS["normalize_grad_sums"](x, grad, *given, axes)
    fused = decode(activation, parameters)
    options = {"axes": axes, "epsilon": epsilon, "activation": fused, "dtype": "float64"}
    cudml.normalize_grad_sums(x, grad, *given, **options, out=out)
    return out[0], out[1]


def _normalize_grad(
    x: Tensor,
    grad: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    scale: Tensor | None,
    bias: Tensor | None,
    count: Tensor | None,
    sum_w: Tensor | None,
    sum_wz: Tensor | None,
    epsilon: float,
    activation: str,
    parameters: Sequence[float],
    output_mask: Sequence[bool],
) -> Triple:
    given = (mean, variance, scale, bias)
    chosen = _chosen((x, scale, bias), output_mask)
    found: Sequence[Tensor | None] = (None, None, None)
    sums: Any = None if sum_w is None and sum_wz is None else (sum_w, sum_wz)
    if chosen["outputs"]:
        found = cudml.normalize_grad(
            x,
            grad,
            *given,
            count=count,
            sums=sums,
            epsilon=epsilon,
            activation=decode(activation, parameters),
            **chosen,
        )
    return _every(found, x)


def _max_unpooling(x: Tensor, indices: Tensor, output_sizes: Ints) -> Tensor:
    out = _out(x, "max_unpooling", x, indices, output_sizes)
    return cudml.max_unpooling(x, indices, output_sizes, out=out)


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pooling": _pooling("max_pooling"),
    "max_pooling_with_indices": _max_pooling_with_indices,
    "max_pooling_grad": _max_pooling_grad,
    "average_pooling": _pooling("average_pooling"),
    "average_pooling_grad": _average_pooling_grad,
    "lp_pooling": _pooling("lp_pooling"),
    "lp_pooling_grad": _lp_pooling_grad,
    "padding": _padding,
    "padding_grad": _padding_grad,
    "mean_variance_normalization": _mean_variance_normalization,
    "mean_variance_normalization_grad": _mean_variance_normalization_grad,
    "normalization_statistics": _normalization_statistics,
    "normalize": _normalize,
    "normalize_grad_sums": _normalize_grad_sums,
    "normalize_grad": _normalize_grad,
    "max_unpooling": _max_unpooling,
}


def detached(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Tensors without gradients: with those that ask for one `cudml` takes longer to begin."""
    return [t if t is None or not t.requires_grad else t.detach() for t in tensors]


def register() -> None:
    """Give the operators their kernels; `cudml` finds by itself where the tensors lie."""
    for name, kernel in KERNELS.items():
        for device in ("CPU", "CUDA"):
            library.impl(name, kernel, device)
