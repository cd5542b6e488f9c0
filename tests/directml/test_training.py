"""MAX_UNPOOLING, BATCH_NORMALIZATION and its gradients: the functions' bits, and their rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from directml_support import NAMES, desc_of, operator, tensor
from harness import data, refused

pytestmark = pytest.mark.core

SIZES, CHANNELS = (2, 3, 4, 5), (1, 3, 1, 1)
GRADS = ("BatchNormalizationGrad", "BatchNormalizationTrainingGrad")
OUTPUTS = ("OutputGradientTensor", "OutputScaleGradientTensor", "OutputBiasGradientTensor")
EPSILON = float(np.float32(1e-5))  # as the descriptors carry it


def tensors(name: str, dtype: str, statistics: tuple[int, ...] = CHANNELS) -> dict[str, Any]:
    x, one = tensor(SIZES, dtype), tensor(statistics, dtype)
    fields = {"InputTensor": x, "MeanTensor": one, "VarianceTensor": one, "ScaleTensor": one}
    if name == "BatchNormalization":
        return fields | {"BiasTensor": one, "OutputTensor": x}
    fields |= {"InputGradientTensor": x, "OutputGradientTensor": x}
    return fields | {"OutputScaleGradientTensor": one, "OutputBiasGradientTensor": one}


def arrays(dtype: str, statistics: tuple[int, ...] = CHANNELS) -> list[np.ndarray]:
    """x, grad, mean, variance, scale and bias."""
    x, grad = data(SIZES, dtype, 1), data(SIZES, dtype, 2)
    mean, scale, bias = (data(statistics, dtype, seed) for seed in (3, 5, 6))
    variance = (np.abs(data(statistics, dtype, 4)) + 0.5).astype(dtype)
    return [x, grad, mean, variance, scale, bias]


def same_bits(got: Any, want: Any) -> None:
    for y, expected in zip(got, want, strict=True):
        assert y.dtype == expected.dtype and y.shape == expected.shape
        assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64"])
@pytest.mark.parametrize("index", ["uint32", "uint64"])
def test_unpooling(dtype: str, index: str) -> None:
    x = data(SIZES, dtype, 1)
    indices = np.arange(0, 240, 2, index).reshape(SIZES)
    indices[0, 1, 2, 3], indices[1, 0] = np.iinfo(index).max, 7
    want = cudml.max_unpooling(x, indices, (2, 3, 7, 6))
    run = operator(
        "MaxUnpooling", InputTensor=tensor(SIZES, dtype.upper()),
        IndicesTensor=tensor(SIZES, index.upper()),
        OutputTensor=tensor((2, 3, 7, 6), dtype.upper()),
    ).compile("cpu")  # fmt: skip
    same_bits([run(x, indices)], [want])
    out = np.full_like(want, 9)
    assert run(x, indices, out=out) is out
    same_bits([out], [want])


def test_unpooling_of_pooled_values() -> None:
    """The specification's UP1: what max pooling took, where it took it from."""
    x = np.array([[[[4.0, 4.0], [6.0, 7.0]]]], np.float32)
    indices = np.array([[[[4, 4], [7, 8]]]], np.uint32)
    run = operator(
        "MaxUnpooling", InputTensor=tensor((1, 1, 2, 2)),
        IndicesTensor=tensor((1, 1, 2, 2), "UINT32"), OutputTensor=tensor((1, 1, 3, 3)),
    ).compile()  # fmt: skip
    assert run(x, indices)[0, 0].tolist() == [[0, 0, 0], [0, 4, 0], [0, 6, 7]]


def test_sizes_of_unpooling() -> None:
    with refused(ValueError, "MAX_UNPOOLING: IndicesTensor.Sizes[3] is 4; it must be 5"):
        operator("MaxUnpooling", IndicesTensor=tensor([1, 2, 4, 4], "UINT32"))
    with refused(ValueError, "MAX_UNPOOLING: OutputTensor.Sizes[1] is 3; it must be 2"):
        operator("MaxUnpooling", OutputTensor=tensor([1, 3, 4, 4]))
    operator("MaxUnpooling", OutputTensor=tensor([1, 2, 1, 1]))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("statistics", [CHANNELS, (1, 1, 4, 5), SIZES, (1, 1, 1, 1)], ids=str)
def test_batch_normalization(statistics: tuple[int, ...], dtype: str) -> None:
    x, _, mean, variance, scale, bias = arrays(dtype, statistics)
    name = "BatchNormalization"
    run = operator(name, **tensors(name, dtype.upper(), statistics)).compile("cpu")
    want = cudml.normalize(x, mean, variance, scale, bias, epsilon=EPSILON)
    same_bits([run(x, mean, variance, scale, bias)], [want])
    assert run(x, mean, variance, scale, bias, out=x) is x  # in place
    same_bits([x], [want])


def test_the_formula_of_batch_normalization() -> None:
    x, _, mean, variance, scale, bias = (a.astype(np.float64) for a in arrays("float32"))
    name = "BatchNormalization"
    run = operator(name, **tensors(name, "FLOAT32"), Epsilon=0.25, Spatial=0).compile("cpu")
    y = run(*(a.astype(np.float32) for a in (x, mean, variance, scale, bias)))
    want = scale * (x - mean) / np.sqrt(variance + 0.25) + bias
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("statistics", [CHANNELS, (2, 1, 4, 1), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("name", GRADS)
def test_gradients(name: str, statistics: tuple[int, ...], dtype: str) -> None:
    x, grad, mean, variance, scale, _ = arrays(dtype, statistics)
    desc = desc_of(name, **tensors(name, dtype.upper(), statistics))
    run = cudml.Operator(desc).compile("cpu")
    if name == "BatchNormalizationGrad":
        want = cudml.normalize_grad(x, grad, mean, variance, scale, scale, epsilon=EPSILON)
    else:
        want = cudml.mean_variance_normalization_grad(
            x, grad, scale, scale, axes=[d for d in range(4) if statistics[d] == 1],
            epsilon=EPSILON, mean=mean, variance=variance,
        )  # fmt: skip
    same_bits(run(x, grad, mean, variance, scale), want)
    out = tuple(np.full_like(y, 7) for y in want)
    assert run(x, grad, mean, variance, scale, out=out) is out
    same_bits(out, want)
    with refused(TypeError, f"{NAMES[name]}: out is no triple"):
        run(x, grad, mean, variance, scale, out=out[:2])


@pytest.mark.parametrize("name", GRADS)
def test_the_formulas_of_the_gradients(name: str) -> None:
    """DirectML's own, for statistics over batch and space."""
    x, grad, mean, variance, scale, _ = (a.astype(np.float64) for a in arrays("float32"))
    axes = (0, 2, 3)
    if name == "BatchNormalizationTrainingGrad":
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    root = np.sqrt(variance + 0.25)
    dx = grad * (scale / root)
    if name == "BatchNormalizationTrainingGrad":
        product = (grad * (x - mean)).mean(axes, keepdims=True)
        centred = grad - grad.mean(axes, keepdims=True)
        dx = scale / root * (centred - (x - mean) * product / (variance + 0.25))
    want = (
        dx,
        (grad * (x - mean) / root).sum(axes, keepdims=True),
        grad.sum(axes, keepdims=True),
    )
    run = operator(name, **tensors(name, "FLOAT32"), Epsilon=0.25).compile("cpu")
    got = run(*(a.astype(np.float32) for a in (x, grad, mean, variance, scale)))
    for y, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)


def test_sizes_of_batch_normalization() -> None:
    name, op = "BatchNormalization", "BATCH_NORMALIZATION"
    for field in ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor"):
        with refused(ValueError, f"{op}: {field}.Sizes[1] is 2; it must be 1 or 3, InputTensor's"):
            operator(name, **tensors(name, "FLOAT32") | {field: tensor([1, 2, 1, 1])})
    with refused(ValueError, f"{op}: OutputTensor.Sizes[0] is 1; it must be 2"):
        operator(name, **tensors(name, "FLOAT32") | {"OutputTensor": tensor([1, 3, 4, 5])})
    for value in (-1.0, float("nan"), float("inf")):
        with refused(ValueError, f"{op}: Epsilon is", "it must be finite"):
            operator(name, Epsilon=value)


@pytest.mark.parametrize("name", GRADS)
def test_sizes_of_the_gradients(name: str) -> None:
    good, op = tensors(name, "FLOAT32"), NAMES[name]
    with refused(ValueError, f"{op}: MeanTensor.Sizes[1] is 2; it must be 1 or 3, InputTensor's"):
        operator(name, **good | {"MeanTensor": tensor([1, 2, 1, 1])})
    for field in ("VarianceTensor", "ScaleTensor", *OUTPUTS[1:]):
        with refused(ValueError, f"{op}: {field}.Sizes[1] is 1; it must be 3"):
            operator(name, **good | {field: tensor([1, 1, 1, 1])})
        with refused(ValueError, f"{op}: {field}.Sizes[2] is 4; it must be 1"):
            operator(name, **good | {field: tensor([1, 3, 4, 1])})
    for field in ("InputGradientTensor", "OutputGradientTensor"):
        with refused(ValueError, f"{op}: {field}.Sizes[3] is 1; it must be 5"):
            operator(name, **good | {field: tensor([2, 3, 4, 1])})
    for field in OUTPUTS:
        strides = [0, 0, 0, 0]
        with refused(ValueError, f"{op}: {field}.Strides"):
            operator(name, **good | {field: tensor(good[field].Sizes, Strides=strides)})
    for value in (-1.0, float("nan"), float("inf")):
        with refused(ValueError, f"{op}: Epsilon is", "it must be finite"):
            operator(name, Epsilon=value)


@pytest.mark.parametrize("name", GRADS)
def test_gradients_overlap_nothing(name: str) -> None:
    x, grad, mean, variance, scale, _ = arrays("float32")
    run = operator(name, **tensors(name, "FLOAT32")).compile("cpu")
    out = [np.empty_like(x), np.empty_like(mean), np.empty_like(mean)]
    for shared in ((x, *out[1:]), (out[0], out[1], out[1]), (out[0], scale, out[2])):
        with refused(ValueError, f"{NAMES[name]}: Output", "GradientTensor"):
            run(x, grad, mean, variance, scale, out=shared)
