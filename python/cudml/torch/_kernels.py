"""The operators on tensors that have memory: results are allocated here and written by `cudml`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import cudml
from cudml.torch._activations import decode
from cudml.torch._results import RESULTS, Ints, Triple, row_major
from cudml.torch._schemas import library

_OUTPUTS = ("x", "scale", "bias")


def _pooling(name: str) -> Callable[..., Tensor]:
    """The kernel of max, average and Lp pooling; the argument between is their own."""
    keyword = {"average_pooling": "include_padding", "lp_pooling": "p"}.get(name)

    def kernel(x: Tensor, *arguments: Any) -> Tensor:
        out = RESULTS[name](x, *arguments)
        windows, *own, sizes = arguments[:5], *arguments[5:]
        options = {keyword: own[0]} if keyword else {}
        getattr(cudml, name)(x, *windows, **options, output_sizes=sizes, out=out)
        return out

    return kernel


def _max_pooling_with_indices(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    out = RESULTS["max_pooling_with_indices"](x, *arguments)
    *windows, sizes = arguments
    cudml.max_pooling(
        x, *windows, return_indices=True, index_dtype="int64", output_sizes=sizes, out=out
    )
    return out[0], out[1]


def _max_pooling_grad(x: Tensor, grad: Tensor, *windows: Ints) -> Tensor:
    return cudml.max_pooling_grad(x, grad, *windows, out=torch.empty_like(x))


def _average_pooling_grad(grad: Tensor, input_sizes: Ints, *arguments: Any) -> Tensor:
    *windows, include_padding = arguments
    out = RESULTS["average_pooling_grad"](grad, input_sizes)
    cudml.average_pooling_grad(
        grad, input_sizes, *windows, include_padding=include_padding, out=out
    )
    return out


def _lp_pooling_grad(x: Tensor, y: Tensor, grad: Tensor, *arguments: Any) -> Tensor:
    *windows, p = arguments
    return cudml.lp_pooling_grad(x, y, grad, *windows, p=p, out=torch.empty_like(x))


def _padding(x: Tensor, start: Ints, end: Ints, mode: Any, value: Any) -> Tensor:
    out = RESULTS["padding"](x, start, end)
    cudml.padding(x, start, end, mode=mode, value=value, out=out)
    return out


def _padding_grad(grad: Tensor, sizes: Ints, start: Ints, end: Ints, mode: Any) -> Tensor:
    out = RESULTS["padding_grad"](grad, sizes)
    cudml.padding_grad(grad, sizes, start, end, mode=mode, out=out)
    return out


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
) -> Tensor:
    return cudml.mean_variance_normalization(
        x,
        scale,
        bias,
        axes=axes,
        use_mean=use_mean,
        use_variance=use_variance,
        epsilon=epsilon,
        activation=decode(activation, parameters),
        out=torch.empty_like(x),
    )


def normalized_with_statistics(x: Tensor, scale: Any, bias: Any, *arguments: Any) -> Any:
    """Mean-variance normalization, and its mean and variance as far as they are in use."""
    axes, use_mean, use_variance, epsilon, activation, parameters = arguments
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
        out=(torch.empty_like(x), None, None),
    )
    return row_major(*results)


def _chosen(out: Triple, tensors: Sequence[Any], mask: Sequence[bool]) -> dict[str, Any]:
    """`outputs` and `out` of a gradient for what the mask asks for and is there."""
    wanted = [m and t is not None for t, m in zip(tensors, mask, strict=True)]
    return {
        "outputs": [name for name, w in zip(_OUTPUTS, wanted, strict=True) if w],
        "out": tuple(t if w else None for t, w in zip(out, wanted, strict=True)),
    }


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
    name = "mean_variance_normalization_grad"
    out: Triple = RESULTS[name](x, grad, scale, bias, output_mask)
    chosen = _chosen(out, (x, scale, bias), output_mask)
    if chosen["outputs"]:
        cudml.mean_variance_normalization_grad(
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
    return out


def _normalization_statistics(
    x: Tensor, axes: Sequence[int], use_mean: bool, dtype: torch.dtype
) -> Triple:
    out: Triple = RESULTS["normalization_statistics"](x, axes, use_mean, dtype)
    cudml.normalization_statistics(x, axes=axes, use_mean=use_mean, dtype=dtype, out=out)
    return out


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
    fused = decode(activation, parameters)
    out = torch.empty_like(x)
    cudml.normalize(x, mean, variance, scale, bias, epsilon=epsilon, activation=fused, out=out)
    return out


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
    out: Triple = RESULTS["normalize_grad"](x, grad, *given, output_mask)
    chosen = _chosen(out, (x, scale, bias), output_mask)
    sums: Any = None if sum_w is None and sum_wz is None else (sum_w, sum_wz)
    if chosen["outputs"]:
        cudml.normalize_grad(
            x,
            grad,
            *given,
            count=count,
            sums=sums,
            epsilon=epsilon,
            activation=decode(activation, parameters),
            **chosen,
        )
    return out


def _max_unpooling(x: Tensor, indices: Tensor, output_sizes: Ints) -> Tensor:
    out = RESULTS["max_unpooling"](x, indices, output_sizes)
    cudml.max_unpooling(x, indices, output_sizes, out=out)
    return out


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


def detached(arguments: Sequence[Any]) -> list[Any]:
    """Arguments without gradients: with tensors that ask for one `cudml` takes longer to begin."""
    return [a.detach() if isinstance(a, Tensor) and a.requires_grad else a for a in arguments]


def register() -> None:
    """Give the operators their kernels; `cudml` finds by itself where the tensors lie."""
    for name, kernel in KERNELS.items():
        for device in ("CPU", "CUDA"):
            library.impl(name, kernel, device)
