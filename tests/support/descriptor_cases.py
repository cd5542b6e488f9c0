"""A call of every function that has a description of its own, and that description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cudml
from cudml import descriptors
from cudml.directml import BufferTensorDesc
from harness import data


def tensor_of(array: np.ndarray) -> BufferTensorDesc:
    """The tensor of an array with the strides that it has."""
    strides = [stride // array.itemsize for stride in array.strides]
    return BufferTensorDesc(array.dtype.name.upper(), array.shape, strides)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """Inputs and outputs in the description's order, and the function's results beside them."""

    kind: Any
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    fields: dict[str, Any]

    def desc(self, **changes: Any) -> Any:
        tensors = {name: tensor_of(array) for name, array in (self.inputs | self.outputs).items()}
        return self.kind(**(tensors | self.fields | changes))

    def operator(self, **changes: Any) -> cudml.Operator:
        return cudml.Operator(self.desc(**changes))

    def arrays(self) -> list[np.ndarray]:
        return list(self.inputs.values())


def _lp_pooling_grad(dtype: str) -> Case:
    x = data((2, 3, 7, 6), dtype, 1)
    window: tuple[Any, ...] = ((3, 2), (2, 1), (1, 0), (0, 1), (1, 2))
    y = cudml.lp_pooling(x, *window, p=3)
    grad = data(y.shape, dtype, 2)
    dx = cudml.lp_pooling_grad(x, y, grad, *window, p=3)
    names = ("WindowSize", "Strides", "StartPadding", "EndPadding", "Dilations")
    inputs = {"InputTensor": x, "OutputTensor": y, "InputGradientTensor": grad}
    fields = dict(zip(names, window, strict=True)) | {"P": 3}
    return Case(descriptors.LpPoolingGradDesc, inputs, {"OutputGradientTensor": dx}, fields)


def _max_unpooling(dtype: str) -> Case:
    x, indices = data((2, 3, 4), dtype, 1), np.arange(24, dtype=np.int64).reshape(2, 3, 4) * 2 - 5
    y = cudml.max_unpooling(x, indices, (2, 3, 7))
    inputs = {"InputTensor": x, "IndicesTensor": indices}
    return Case(descriptors.MaxUnpoolingDesc, inputs, {"OutputTensor": y}, {})


def _padding_grad(mode: str, dtype: str) -> Case:
    grad, start, end = data((2, 7, 9), dtype, 1), (0, 1, 3), (0, 2, 2)
    dx = cudml.padding_grad(grad, (2, 4, 4), start, end, mode=mode)  # type: ignore[arg-type]
    fields = {"PaddingMode": mode.upper(), "StartPadding": start, "EndPadding": end}
    inputs, outputs = {"InputGradientTensor": grad}, {"OutputGradientTensor": dx}
    return Case(descriptors.PaddingGradDesc, inputs, outputs, fields)


def _tensors(dtype: str) -> dict[str, np.ndarray]:
    """x, grad, scale and bias of a normalization over the last axis of {2,3,5}."""
    return {
        "InputTensor": data((2, 3, 5), dtype, 1),
        "InputGradientTensor": data((2, 3, 5), dtype, 2),
        "ScaleTensor": data((1, 3, 5), dtype, 3),
        "BiasTensor": data((1, 3, 1), dtype, 4),
    }


_GRADIENTS = ("OutputGradientTensor", "ScaleGradientTensor", "BiasGradientTensor")
_RELU = ("leaky_relu", {"alpha": 0.1})  # no float32


def _mvn_grad(dtype: str) -> Case:
    inputs = _tensors(dtype)
    results = cudml.mean_variance_normalization_grad(
        *inputs.values(), axes=2, epsilon=0.1, activation=_RELU
    )
    fields = {"Axes": [2], "Epsilon": 0.1, "FusedActivation": _RELU}
    outputs = dict(zip(_GRADIENTS, results, strict=True))
    return Case(descriptors.MeanVarianceNormalizationGradDesc, inputs, outputs, fields)  # type: ignore[arg-type]


def _mvn_grad_given(dtype: str) -> Case:
    """With the variance alone, and without the gradient of x."""
    inputs = _tensors(dtype)
    inputs["Variance"] = np.abs(data((2, 3, 1), "float64", 5)) + 0.5
    _, scale, bias = cudml.mean_variance_normalization_grad(
        *list(inputs.values())[:4], axes=2, use_mean=False, variance=inputs["Variance"],
        outputs=("scale", "bias"),
    )  # fmt: skip
    outputs = {"ScaleGradientTensor": scale, "BiasGradientTensor": bias}
    fields = {"Axes": [2], "UseMean": False}
    return Case(descriptors.MeanVarianceNormalizationGradDesc, inputs, outputs, fields)  # type: ignore[arg-type]


def _statistics(dtype: str) -> Case:
    x = data((2, 3, 5), dtype, 1)
    results = cudml.normalization_statistics(x, axes=(0, 2), use_mean=False, dtype="float32")
    outputs = dict(zip(("Count", "Mean", "M2"), results, strict=True))
    fields = {"Axes": [2, 0], "UseMean": False}
    return Case(descriptors.NormalizationStatisticsDesc, {"InputTensor": x}, outputs, fields)


def _merge(dtype: str) -> Case:
    kind = "float32" if dtype == "float32" else "float64"
    a, b = (
        cudml.normalization_statistics(data((n, 3, 2), dtype, n), axes=0, dtype=kind)  # type: ignore[arg-type]
        for n in (4, 7)
    )
    for count, *_ in (a, b):
        count += np.arange(6, dtype=kind).reshape(count.shape)  # none like its neighbours
    results = cudml.merge_statistics(a, b)
    names = ("CountA", "MeanA", "M2A", "CountB", "MeanB", "M2B")
    inputs = dict(zip(names, (*a, *b), strict=True))
    outputs = dict(zip(("Count", "Mean", "M2"), results, strict=True))
    return Case(descriptors.MergeStatisticsDesc, inputs, outputs, {})


def _given(dtype: str) -> dict[str, np.ndarray]:
    """x, grad, mean, variance, scale and bias, in the order of the functions' arguments."""
    tensors = _tensors(dtype)
    x, grad, scale, bias = tensors
    mean, variance = data((2, 3, 1), "float64", 6), np.abs(data((2, 1, 1), "float32", 7)) + 0.25
    return {
        x: tensors[x], grad: tensors[grad], "Mean": mean, "Variance": variance,
        scale: tensors[scale], bias: tensors[bias],
    }  # fmt: skip


def _normalize(dtype: str) -> Case:
    inputs = _given(dtype)
    del inputs["InputGradientTensor"]
    y = cudml.normalize(*inputs.values(), epsilon=0.1, activation="swish")
    fields = {"Epsilon": 0.1, "FusedActivation": "swish"}
    return Case(descriptors.NormalizeDesc, inputs, {"OutputTensor": y}, fields)


def _normalize_grad_sums(dtype: str) -> Case:
    inputs = _given(dtype)
    results = cudml.normalize_grad_sums(*inputs.values(), axes=(1, 2), activation=_RELU)
    outputs = dict(zip(("GradientSum", "ProductSum"), results, strict=True))
    fields = {"Axes": [1, 2], "FusedActivation": _RELU}
    return Case(descriptors.NormalizeGradSumsDesc, inputs, outputs, fields)


def _normalize_grad(dtype: str) -> Case:
    inputs = _given(dtype)
    count, sums = (
        np.full((2, 1, 1), 15.0),
        (data((2, 1, 1), "float32", 8), data((2, 3, 1), "f8", 9)),
    )
    results = cudml.normalize_grad(*inputs.values(), count=count, sums=sums, activation="gelu")
    inputs |= {"Count": count, "GradientSum": sums[0], "ProductSum": sums[1]}
    outputs = dict(zip(_GRADIENTS, results, strict=True))
    return Case(descriptors.NormalizeGradDesc, inputs, outputs, {"FusedActivation": "gelu"})  # type: ignore[arg-type]


def _normalize_grad_constants(dtype: str) -> Case:
    """Without sums, mean, scale and bias."""
    given = _given(dtype)
    inputs = {name: given[name] for name in ("InputTensor", "InputGradientTensor", "Variance")}
    x, grad, variance = inputs.values()
    dx, _, _ = cudml.normalize_grad(x, grad, None, variance, outputs=("x",))
    outputs = {"OutputGradientTensor": dx}
    return Case(descriptors.NormalizeGradDesc, inputs, outputs, {})  # type: ignore[arg-type]


_MODES = ("constant", "edge", "reflection", "symmetric", "wrap")


def _of_mode(mode: str) -> Callable[[str], Case]:
    return lambda dtype: _padding_grad(mode, dtype)


CASES: dict[str, Callable[[str], Case]] = {
    "lp_pooling_grad": _lp_pooling_grad,
    "max_unpooling": _max_unpooling,
    **{f"padding_grad {mode}": _of_mode(mode) for mode in _MODES},
    "mean_variance_normalization_grad": _mvn_grad,
    "mean_variance_normalization_grad given": _mvn_grad_given,
    "normalization_statistics": _statistics,
    "merge_statistics": _merge,
    "normalize": _normalize,
    "normalize_grad_sums": _normalize_grad_sums,
    "normalize_grad": _normalize_grad,
    "normalize_grad constants": _normalize_grad_constants,
}  # fmt: skip
