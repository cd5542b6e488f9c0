"""Operator descriptions of the functions that DirectML has no descriptor for, compiled like them.

Each class is named after its function (`cudml.padding_grad` is `PaddingGradDesc`) and has its
tensors first, inputs in the order of the function's arguments, then its parameters under DirectML's
names. `cudml.Operator` checks a description, at every feature level alike, and compiles it. The
compiled operator gives the function's bits.

>>> import numpy as np
>>> import cudml
>>> from cudml.descriptors import PaddingGradDesc
>>> from cudml.directml import BufferTensorDesc
>>> desc = PaddingGradDesc(
...     InputGradientTensor=BufferTensorDesc("FLOAT32", [6]),
...     OutputGradientTensor=BufferTensorDesc("FLOAT32", [3]),
...     PaddingMode="WRAP", StartPadding=[1], EndPadding=[2],
... )
>>> grad = cudml.Operator(desc).compile("cpu")
>>> grad(np.array([1, 2, 3, 4, 5, 6], np.float32)).tolist()
[7.0, 9.0, 5.0]
"""

from ._gradients import LpPoolingGradDesc, MaxUnpoolingDesc, PaddingGradDesc
from ._normalization import (
    MeanVarianceNormalizationGradDesc,
    NormalizeDesc,
    NormalizeGradDesc,
    NormalizeGradSumsDesc,
)
from ._statistics import MergeStatisticsDesc, NormalizationStatisticsDesc

__all__ = [
    "LpPoolingGradDesc",
    "MaxUnpoolingDesc",
    "MeanVarianceNormalizationGradDesc",
    "MergeStatisticsDesc",
    "NormalizationStatisticsDesc",
    "NormalizeDesc",
    "NormalizeGradDesc",
    "NormalizeGradSumsDesc",
    "PaddingGradDesc",
]
