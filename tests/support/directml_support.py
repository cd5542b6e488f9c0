"""Valid descriptors of every operator, for tests to change one field of."""

from __future__ import annotations

from typing import Any

import cudml
from cudml import directml
from cudml.directml import BufferTensorDesc

LEVELS = (
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2"),
    *("6_0", "6_1", "6_2", "6_3", "6_4"),
)
SINCE = {
    "MaxPooling": "1_0",
    "MaxPooling1": "2_0",
    "MaxPooling2": "2_1",
    "MaxPoolingGrad": "3_0",
    "AveragePooling": "1_0",
    "AveragePooling1": "6_2",
    "AveragePoolingGrad": "3_0",
    "LpPooling": "1_0",
    "LpPooling1": "6_2",
    "Padding": "1_0",
    "Padding1": "5_0",
    "MeanVarianceNormalization": "1_0",
    "MeanVarianceNormalization1": "2_1",
    "MeanVarianceNormalization2": "6_3",
    "MaxUnpooling": "2_0",
    "BatchNormalization": "1_0",
    "BatchNormalizationGrad": "3_1",
    "BatchNormalizationTrainingGrad": "4_1",
}
# Whose results tests/directml/test_training.py looks at.
TRAINING = (
    *("MaxUnpooling", "BatchNormalization", "BatchNormalizationGrad"),
    "BatchNormalizationTrainingGrad",
)
NAMES = {
    "MaxPooling": "MAX_POOLING",
    "MaxPooling1": "MAX_POOLING1",
    "MaxPooling2": "MAX_POOLING2",
    "MaxPoolingGrad": "MAX_POOLING_GRAD",
    "AveragePooling": "AVERAGE_POOLING",
    "AveragePooling1": "AVERAGE_POOLING1",
    "AveragePoolingGrad": "AVERAGE_POOLING_GRAD",
    "LpPooling": "LP_POOLING",
    "LpPooling1": "LP_POOLING1",
    "Padding": "PADDING",
    "Padding1": "PADDING1",
    "MeanVarianceNormalization": "MEAN_VARIANCE_NORMALIZATION",
    "MeanVarianceNormalization1": "MEAN_VARIANCE_NORMALIZATION1",
    "MeanVarianceNormalization2": "MEAN_VARIANCE_NORMALIZATION2",
    "MaxUnpooling": "MAX_UNPOOLING",
    "BatchNormalization": "BATCH_NORMALIZATION",
    "BatchNormalizationGrad": "BATCH_NORMALIZATION_GRAD",
    "BatchNormalizationTrainingGrad": "BATCH_NORMALIZATION_TRAINING_GRAD",
}


def reaches(level: str, other: str) -> bool:
    """Whether `level` is `other` or newer."""
    return LEVELS.index(level) >= LEVELS.index(other)


def tensor(sizes: Any, dtype: str = "FLOAT32", **fields: Any) -> BufferTensorDesc:
    return BufferTensorDesc(dtype, sizes, **fields)


def sizes_of_rank(rank: int) -> list[int]:
    """Last sizes 4 and 5, the others 1 to 3: small for every rank."""
    return [1, 2, 1, 3, 1, 2, 4, 5][8 - rank :]


def _pooling_fields(name: str, dtype: str, rank: int) -> dict[str, Any]:
    m = max(rank - 2, 0)
    x = sizes_of_rank(rank)
    y = x[: rank - m] + [size - 1 if size > 1 else 1 for size in x[rank - m :]]
    fields: dict[str, Any] = {
        "Strides": [1] * m,
        "WindowSize": [min(size, 2) for size in x[rank - m :]],
        "StartPadding": [0] * m,
        "EndPadding": [0] * m,
    }
    if name.endswith("Grad"):
        fields["InputGradientTensor"] = tensor(y, dtype)
        fields["OutputGradientTensor"] = tensor(x, dtype)
        if name == "MaxPoolingGrad":
            fields["InputTensor"] = tensor(x, dtype)
    else:
        fields["InputTensor"] = tensor(x, dtype)
        fields["OutputTensor"] = tensor(y, dtype)
    if name in ("MaxPooling2", "MaxPoolingGrad", "AveragePooling1", "LpPooling1"):
        fields["Dilations"] = [1] * m
    if name.startswith("Average"):
        fields["IncludePadding"] = False
    if name.startswith("Lp"):
        fields["P"] = 2
    return fields


def _padding_fields(name: str, dtype: str, rank: int) -> dict[str, Any]:
    x = sizes_of_rank(rank)
    fields: dict[str, Any] = {
        "InputTensor": tensor(x, dtype),
        "OutputTensor": tensor([*x[:-1], x[-1] + 3], dtype),
        "PaddingMode": "CONSTANT",
        "PaddingValue": 1,
        "StartPadding": [0] * (rank - 1) + [1],
        "EndPadding": [0] * (rank - 1) + [2],
    }
    if name == "Padding1":
        fields["PaddingValueDataType"] = dtype
    return fields


def _normalization_fields(name: str, dtype: str, rank: int) -> dict[str, Any]:
    x = tensor(sizes_of_rank(rank), dtype)
    fields: dict[str, Any] = {"InputTensor": x, "OutputTensor": x, "Epsilon": 1e-5}
    if name == "MeanVarianceNormalization":
        return fields | {"CrossChannel": False, "NormalizeVariance": True}
    if name == "MeanVarianceNormalization1":
        return fields | {"Axes": [rank - 1], "NormalizeVariance": True}
    return fields | {"Axes": [rank - 1], "UseMean": True, "UseVariance": True}


def _unpooling_fields(name: str, dtype: str, rank: int) -> dict[str, Any]:
    x = sizes_of_rank(rank)
    return {
        "InputTensor": tensor(x, dtype),
        "IndicesTensor": tensor(x, "UINT32"),
        "OutputTensor": tensor([*x[:-1], x[-1] + 3], dtype),
    }


def _batch_fields(name: str, dtype: str, rank: int) -> dict[str, Any]:
    """Statistics over all dimensions but the second, or the only one."""
    sizes = sizes_of_rank(rank)
    x = tensor(sizes, dtype)
    one = tensor([size if d == min(1, rank - 1) else 1 for d, size in enumerate(sizes)], dtype)
    given = dict.fromkeys(("MeanTensor", "VarianceTensor", "ScaleTensor"), one)
    if name == "BatchNormalization":
        given |= {"BiasTensor": one, "OutputTensor": x, "Spatial": True}
    else:
        given |= {"InputGradientTensor": x, "OutputGradientTensor": x}
        given |= dict.fromkeys(("OutputScaleGradientTensor", "OutputBiasGradientTensor"), one)
    return {"InputTensor": x, "Epsilon": 1e-5, **given}


def desc_of(name: str, dtype: str = "FLOAT32", rank: int = 4, **changes: Any) -> Any:
    """A descriptor that is right where type and rank are, with some fields changed."""
    make = (
        _pooling_fields
        if "Pooling" in name
        else _unpooling_fields
        if "Unpooling" in name
        else _batch_fields
        if "Batch" in name
        else _padding_fields
        if "Padding" in name
        else _normalization_fields
    )
    fields = make(name, dtype, rank) | changes
    return getattr(directml, f"{name}OperatorDesc")(**fields)


def operator(name: str, level: str = "6_4", **fields: Any) -> cudml.Operator:
    return cudml.Operator(desc_of(name, **fields), level)
