"""DirectML's own path: versioned descriptors, checked by `Operator`, compiled, called with arrays.

Each class is named after its struct (``DML_MAX_POOLING2_OPERATOR_DESC`` is
`MaxPooling2OperatorDesc`) and has DirectML's field names in its order.

>>> import numpy as np
>>> import cudml
>>> from cudml.directml import BufferTensorDesc, MaxPooling2OperatorDesc
>>> desc = MaxPooling2OperatorDesc(
...     InputTensor=BufferTensorDesc("FLOAT32", [1, 1, 3, 3]),
...     OutputTensor=BufferTensorDesc("FLOAT32", [1, 1, 2, 2]),
...     OutputIndicesTensor=BufferTensorDesc("UINT32", [1, 1, 2, 2]),
...     Strides=[1, 1], WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1],
... )
>>> pool = cudml.Operator(desc).compile("cpu")
>>> x = np.array([[1, 2, 3], [2, 4, 2], [5, 6, 7]], np.float32).reshape(1, 1, 3, 3)
>>> values, indices = pool(x)
>>> values[0, 0].tolist(), indices[0, 0].tolist()
([[4.0, 4.0], [6.0, 7.0]], [[4, 4], [7, 8]])
"""

from ._activations import (
    ActivationCeluOperatorDesc,
    ActivationDesc,
    ActivationEluOperatorDesc,
    ActivationGeluOperatorDesc,
    ActivationParametricSoftplusOperatorDesc,
    ActivationScaledEluOperatorDesc,
    ActivationScaledTanhOperatorDesc,
    ActivationSigmoidOperatorDesc,
    ActivationSoftplusOperatorDesc,
    ActivationSoftsignOperatorDesc,
    ActivationTanhOperatorDesc,
)
from ._batch_normalization import (
    BatchNormalizationGradOperatorDesc,
    BatchNormalizationOperatorDesc,
    BatchNormalizationTrainingGradOperatorDesc,
)
from ._max_pooling import (
    MaxPooling1OperatorDesc,
    MaxPooling2OperatorDesc,
    MaxPoolingGradOperatorDesc,
    MaxPoolingOperatorDesc,
    MaxUnpoolingOperatorDesc,
)
from ._normalization import (
    MeanVarianceNormalization1OperatorDesc,
    MeanVarianceNormalization2OperatorDesc,
    MeanVarianceNormalizationOperatorDesc,
    Padding1OperatorDesc,
    PaddingOperatorDesc,
)
from ._operator import (
    CompiledOperator,
    Operator,
)
from ._piecewise import (
    ActivationHardSigmoidOperatorDesc,
    ActivationIdentityOperatorDesc,
    ActivationLeakyReluOperatorDesc,
    ActivationLinearOperatorDesc,
    ActivationReluOperatorDesc,
    ActivationShrinkOperatorDesc,
    ActivationThresholdedReluOperatorDesc,
)
from ._pooling import (
    AveragePooling1OperatorDesc,
    AveragePoolingGradOperatorDesc,
    AveragePoolingOperatorDesc,
    LpPooling1OperatorDesc,
    LpPoolingOperatorDesc,
)
from ._types import (
    BufferTensorDesc,
    FeatureLevel,
    OperatorDesc,
    PaddingMode,
    TensorDataType,
    TensorFlags,
)
from ._unfused import (
    ActivationHardmax1OperatorDesc,
    ActivationHardmaxOperatorDesc,
    ActivationHardSwishOperatorDesc,
    ActivationLogSoftmax1OperatorDesc,
    ActivationLogSoftmaxOperatorDesc,
    ActivationParameterizedReluOperatorDesc,
    ActivationSoftmax1OperatorDesc,
    ActivationSoftmaxOperatorDesc,
    ActivationSwishOperatorDesc,
    ElementWiseClipOperatorDesc,
)

__all__ = [
    "ActivationCeluOperatorDesc",
    "ActivationDesc",
    "ActivationEluOperatorDesc",
    "ActivationGeluOperatorDesc",
    "ActivationHardSigmoidOperatorDesc",
    "ActivationHardSwishOperatorDesc",
    "ActivationHardmax1OperatorDesc",
    "ActivationHardmaxOperatorDesc",
    "ActivationIdentityOperatorDesc",
    "ActivationLeakyReluOperatorDesc",
    "ActivationLinearOperatorDesc",
    "ActivationLogSoftmax1OperatorDesc",
    "ActivationLogSoftmaxOperatorDesc",
    "ActivationParameterizedReluOperatorDesc",
    "ActivationParametricSoftplusOperatorDesc",
    "ActivationReluOperatorDesc",
    "ActivationScaledEluOperatorDesc",
    "ActivationScaledTanhOperatorDesc",
    "ActivationShrinkOperatorDesc",
    "ActivationSigmoidOperatorDesc",
    "ActivationSoftmax1OperatorDesc",
    "ActivationSoftmaxOperatorDesc",
    "ActivationSoftplusOperatorDesc",
    "ActivationSoftsignOperatorDesc",
    "ActivationSwishOperatorDesc",
    "ActivationTanhOperatorDesc",
    "ActivationThresholdedReluOperatorDesc",
    "AveragePooling1OperatorDesc",
    "AveragePoolingGradOperatorDesc",
    "AveragePoolingOperatorDesc",
    "BatchNormalizationGradOperatorDesc",
    "BatchNormalizationOperatorDesc",
    "BatchNormalizationTrainingGradOperatorDesc",
    "BufferTensorDesc",
    "CompiledOperator",
    "ElementWiseClipOperatorDesc",
    "FeatureLevel",
    "LpPooling1OperatorDesc",
    "LpPoolingOperatorDesc",
    "MaxPooling1OperatorDesc",
    "MaxPooling2OperatorDesc",
    "MaxPoolingGradOperatorDesc",
    "MaxPoolingOperatorDesc",
    "MaxUnpoolingOperatorDesc",
    "MeanVarianceNormalization1OperatorDesc",
    "MeanVarianceNormalization2OperatorDesc",
    "MeanVarianceNormalizationOperatorDesc",
    "Operator",
    "OperatorDesc",
    "Padding1OperatorDesc",
    "PaddingMode",
    "PaddingOperatorDesc",
    "TensorDataType",
    "TensorFlags",
]
