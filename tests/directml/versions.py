"""The specification's worked examples as versioned descriptors: every version that can say one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cudml import directml
from directml_support import tensor
from examples import Example


def per_axis(value: Any, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else [int(entry) for entry in value]


def float32(array: np.ndarray) -> directml.BufferTensorDesc:
    return tensor(array.shape)


def _desc(name: str, **fields: Any) -> Any:
    return getattr(directml, f"{name}OperatorDesc")(**fields)


def _window(example: Example, window: Any, rank: int) -> dict[str, Any]:
    fields = {"strides": 1, "start_padding": 0, "end_padding": 0} | example.kwargs
    return {
        "Strides": per_axis(fields["strides"], rank),
        "WindowSize": per_axis(window, rank),
        "StartPadding": per_axis(fields["start_padding"], rank),
        "EndPadding": per_axis(fields["end_padding"], rank),
    }


def _dilations(example: Example, rank: int) -> dict[str, Any]:
    return {"Dilations": per_axis(example.kwargs.get("dilations", 1), rank)}


def _is_dilated(example: Example) -> bool:
    return set(per_axis(example.kwargs.get("dilations", 1), 2)) != {1}


def _max_pooling(example: Example) -> Iterator[Any]:
    x, window = example.args
    m, y = x.ndim - 2, example.expected[0]
    fields = {"InputTensor": float32(x), "OutputTensor": float32(y), **_window(example, window, m)}
    indices = [tensor(y.shape, dtype) for dtype in ("UINT32", "UINT64")]
    dilated = fields | _dilations(example, m)
    yield _desc("MaxPooling2", **dilated)
    for found in indices:
        yield _desc("MaxPooling2", **dilated, OutputIndicesTensor=found)
        if not _is_dilated(example):
            yield _desc("MaxPooling1", **fields, OutputIndicesTensor=found)
    if not _is_dilated(example):
        yield _desc("MaxPooling1", **fields)
        yield _desc("MaxPooling", **fields)


def _max_pooling_grad(example: Example) -> Iterator[Any]:
    x, grad, window = example.args
    yield _desc(
        "MaxPoolingGrad", InputTensor=float32(x), InputGradientTensor=float32(grad),
        OutputGradientTensor=float32(x), **_window(example, window, 2), **_dilations(example, 2),
    )  # fmt: skip


def _linear_pooling(example: Example, name: str, own: dict[str, Any]) -> Iterator[Any]:
    x, window = example.args
    y = example.expected[0]
    fields = {"InputTensor": float32(x), "OutputTensor": float32(y), **own}
    fields |= _window(example, window, 2)
    yield _desc(f"{name}1", **fields, **_dilations(example, 2))
    if not _is_dilated(example):
        yield _desc(name, **fields)


def _average_pooling(example: Example) -> Iterator[Any]:
    own = {"IncludePadding": example.kwargs["include_padding"]}
    return _linear_pooling(example, "AveragePooling", own)


def _lp_pooling(example: Example) -> Iterator[Any]:
    return _linear_pooling(example, "LpPooling", {"P": example.kwargs["p"]})


def _average_pooling_grad(example: Example) -> Iterator[Any]:
    grad, sizes, window = example.args
    yield _desc(
        "AveragePoolingGrad", InputGradientTensor=float32(grad), OutputGradientTensor=tensor(sizes),
        IncludePadding=example.kwargs.get("include_padding", False), **_window(example, window, 2),
    )  # fmt: skip


def _padding(example: Example) -> Iterator[Any]:
    x, start, end = example.args
    fields = {
        "InputTensor": float32(x), "OutputTensor": float32(example.expected[0]),
        "PaddingMode": example.kwargs["mode"].upper(), "PaddingValue": example.kwargs["value"],
        "StartPadding": per_axis(start, x.ndim), "EndPadding": per_axis(end, x.ndim),
    }  # fmt: skip
    yield _desc("Padding1", **fields, PaddingValueDataType="FLOAT32")
    yield _desc("Padding", **fields)


def _mean_variance_normalization(example: Example) -> Iterator[Any]:
    x, scale, bias = example.args
    kwargs = example.kwargs
    fields: dict[str, Any] = {"InputTensor": float32(x), "OutputTensor": float32(x)}
    for name, array in (("ScaleTensor", scale), ("BiasTensor", bias)):
        fields[name] = None if array is None else float32(array)
    fields["Epsilon"] = kwargs.get("epsilon", 1e-5)
    if kwargs.get("activation") == "relu":
        fields["FusedActivation"] = directml.ActivationReluOperatorDesc()
    axes = [kwargs["axes"]] if isinstance(kwargs["axes"], int) else list(kwargs["axes"])
    mean, variance = kwargs.get("use_mean", True), kwargs.get("use_variance", True)
    newest = fields | {"UseMean": mean, "UseVariance": variance, "Axes": axes}
    yield _desc("MeanVarianceNormalization2", **newest)
    if not mean:
        return
    fields["NormalizeVariance"] = variance
    yield _desc("MeanVarianceNormalization1", **fields, Axes=axes)
    if axes in ([2, 3], [1, 2, 3]):
        yield _desc("MeanVarianceNormalization", **fields, CrossChannel=len(axes) == 3)


DESCRIBED = {
    "max_pooling": _max_pooling,
    "max_pooling_grad": _max_pooling_grad,
    "average_pooling": _average_pooling,
    "average_pooling_grad": _average_pooling_grad,
    "lp_pooling": _lp_pooling,
    "padding": _padding,
    "mean_variance_normalization": _mean_variance_normalization,
}


def versions_of(example: Example) -> list[Any]:
    """None where DirectML has no descriptor for the operator, or none here."""
    return list(DESCRIBED[example.op](example)) if example.op in DESCRIBED else []
