"""A DirectML program's descriptors, field by field: MAX_POOLING2, then a normalization on top."""

import numpy as np

import cudml
from cudml import directml as dml

sizes, pooled = [1, 4, 9, 9], [1, 4, 5, 5]
pool = dml.MaxPooling2OperatorDesc(
    InputTensor=dml.BufferTensorDesc("FLOAT16", sizes, TotalTensorSizeInBytes=648),
    OutputTensor=dml.BufferTensorDesc("FLOAT16", pooled),
    OutputIndicesTensor=dml.BufferTensorDesc("UINT32", pooled),
    Strides=[2, 2],
    WindowSize=[3, 3],
    StartPadding=[1, 1],
    EndPadding=[1, 1],
    Dilations=[1, 1],
)
normalize = dml.MeanVarianceNormalization1OperatorDesc(
    InputTensor=dml.BufferTensorDesc("FLOAT16", pooled),
    OutputTensor=dml.BufferTensorDesc("FLOAT16", pooled),
    Axes=[2, 3],
    NormalizeVariance=True,
    Epsilon=1e-5,
    FusedActivation=dml.ActivationReluOperatorDesc(),
)
x = np.random.default_rng(0).standard_normal(sizes).astype(np.float16)
y, indices = cudml.Operator(pool, feature_level="5_0").compile("cpu")(x)
z = cudml.Operator(normalize).compile("cpu")(y)
print(f"maxima {y.min():.2f} to {y.max():.2f}, the last at {indices[0, -1, -1, -1]}")
print(f"normalized, with the negative ones cut off: {z.min():.2f} to {z.max():.2f}")
