"""The registered operators: their schemas, which exported programs depend on."""

from __future__ import annotations

import torch

_WINDOWS = (
    "int[] window_size, int[] strides, int[] start_padding, int[] end_padding, int[] dilations"
)
_SIZES = "SymInt[] output_sizes"
_ACTIVATION = "float epsilon, str activation, float[] parameters"
_NORMALIZATION = f"int[] axes, bool use_mean, bool use_variance, {_ACTIVATION}"
_GIVEN = "Tensor? mean, Tensor? variance, Tensor? scale, Tensor? bias"
_PADS = "SymInt[] start_padding, SymInt[] end_padding, str mode"

SCHEMAS = {
    "max_pooling": f"(Tensor x, {_WINDOWS}, {_SIZES}) -> Tensor",
    "max_pooling_with_indices": f"(Tensor x, {_WINDOWS}, {_SIZES}) -> (Tensor, Tensor)",
    "max_pooling_grad": f"(Tensor x, Tensor grad, {_WINDOWS}) -> Tensor",
    "average_pooling": f"(Tensor x, {_WINDOWS}, bool include_padding, {_SIZES}) -> Tensor",
    "average_pooling_grad": (
        f"(Tensor grad, SymInt[] input_sizes, {_WINDOWS}, bool include_padding) -> Tensor"
    ),
    "lp_pooling": f"(Tensor x, {_WINDOWS}, int p, {_SIZES}) -> Tensor",
    "lp_pooling_grad": f"(Tensor x, Tensor y, Tensor grad, {_WINDOWS}, int p) -> Tensor",
    "padding": f"(Tensor x, {_PADS}, Scalar value) -> Tensor",
    "padding_grad": f"(Tensor grad, SymInt[] input_sizes, {_PADS}) -> Tensor",
    "mean_variance_normalization": (
        f"(Tensor x, Tensor? scale, Tensor? bias, {_NORMALIZATION}) -> Tensor"
    ),
    "mean_variance_normalization_grad": (
        f"(Tensor x, Tensor grad, Tensor? scale, Tensor? bias, {_NORMALIZATION}, "
        "bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
    ),
    "normalization_statistics": (
        "(Tensor x, int[] axes, bool use_mean, ScalarType dtype) -> (Tensor, Tensor, Tensor)"
    ),
    "normalize": f"(Tensor x, {_GIVEN}, {_ACTIVATION}) -> Tensor",
    "normalize_grad_sums": (
        f"(Tensor x, Tensor grad, {_GIVEN}, int[] axes, {_ACTIVATION}) -> (Tensor, Tensor)"
    ),
    "normalize_grad": (
        f"(Tensor x, Tensor grad, {_GIVEN}, Tensor? count, Tensor? sum_w, Tensor? sum_wz, "
        f"{_ACTIVATION}, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
    ),
    "max_unpooling": f"(Tensor x, Tensor indices, {_SIZES}) -> Tensor",
}

# How many tensors each operator begins with; nothing behind them is one.
TENSORS = {
    name: sum(parameter.strip("( ").startswith("Tensor") for parameter in schema.split(","))
    for name, schema in ((n, s.split("->")[0]) for n, s in SCHEMAS.items())
}

library = torch.library.Library("cudml", "DEF")


def define() -> None:
    """Make the operators known to PyTorch."""
    for name, schema in SCHEMAS.items():
        library.define(name + schema)
