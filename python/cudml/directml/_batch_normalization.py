"""Descriptors of batch normalization and its gradients."""

from __future__ import annotations

from dataclasses import dataclass

from ._shared import Input
from ._types import BufferTensorDesc, OperatorDesc


@dataclass(frozen=True, kw_only=True)
class BatchNormalizationOperatorDesc(Input):
    """`DML_BATCH_NORMALIZATION_OPERATOR_DESC`: normalization with given statistics.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is normalized.
    MeanTensor, VarianceTensor : BufferTensorDesc
        The statistics; each size is 1 or InputTensor's.
    ScaleTensor : BufferTensorDesc
        Multiplied after normalization; each size is 1 or InputTensor's.
    BiasTensor : BufferTensorDesc
        Added after scaling; each size is 1 or InputTensor's.
    OutputTensor : BufferTensorDesc
        The result, of InputTensor's sizes.
    Spatial : bool or int
        False: below feature level 4_0 the statistics have InputTensor's height and width. Without
        effect from then on.
    Epsilon : float
        Added to the variance; 1e-5 is usual.
    FusedActivation : OperatorDesc, optional
        An activation for the result, its own tensors None.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x = BufferTensorDesc("FLOAT32", [2, 3, 4, 5])
    >>> one = BufferTensorDesc("FLOAT32", [1, 3, 1, 1])
    >>> desc = BatchNormalizationOperatorDesc(
    ...     InputTensor=x, MeanTensor=one, VarianceTensor=one, ScaleTensor=one, BiasTensor=one,
    ...     OutputTensor=x, Spatial=True, Epsilon=1e-5,
    ... )
    >>> desc.FusedActivation is None
    True
    """

    _dml_name = "BATCH_NORMALIZATION"

    MeanTensor: BufferTensorDesc
    VarianceTensor: BufferTensorDesc
    ScaleTensor: BufferTensorDesc
    BiasTensor: BufferTensorDesc
    OutputTensor: BufferTensorDesc
    Spatial: bool | int
    Epsilon: float
    FusedActivation: OperatorDesc | None = None


@dataclass(frozen=True, kw_only=True)
class _Gradients(Input):
    InputGradientTensor: BufferTensorDesc
    MeanTensor: BufferTensorDesc
    VarianceTensor: BufferTensorDesc
    ScaleTensor: BufferTensorDesc
    OutputGradientTensor: BufferTensorDesc
    OutputScaleGradientTensor: BufferTensorDesc
    OutputBiasGradientTensor: BufferTensorDesc
    Epsilon: float


@dataclass(frozen=True, kw_only=True)
class BatchNormalizationGradOperatorDesc(_Gradients):
    """`DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC`: mean and variance are constants.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What was normalized.
    InputGradientTensor : BufferTensorDesc
        The gradient of the result, of InputTensor's sizes.
    MeanTensor : BufferTensorDesc
        The mean; each size is 1 or InputTensor's.
    VarianceTensor, ScaleTensor : BufferTensorDesc
        Of MeanTensor's sizes.
    OutputGradientTensor : BufferTensorDesc
        The gradient of the input, of InputTensor's sizes.
    OutputScaleGradientTensor, OutputBiasGradientTensor : BufferTensorDesc
        The gradients of scale and bias, of MeanTensor's sizes: sums over dimensions of size 1.
    Epsilon : float
        Added to the variance; 1e-5 is usual.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x = BufferTensorDesc("FLOAT32", [2, 3, 4, 5])
    >>> one = BufferTensorDesc("FLOAT32", [1, 3, 1, 1])
    >>> desc = BatchNormalizationGradOperatorDesc(
    ...     InputTensor=x, InputGradientTensor=x, MeanTensor=one, VarianceTensor=one,
    ...     ScaleTensor=one, OutputGradientTensor=x, OutputScaleGradientTensor=one,
    ...     OutputBiasGradientTensor=one, Epsilon=1e-5,
    ... )
    >>> desc.OutputBiasGradientTensor.Sizes
    (1, 3, 1, 1)
    """

    _dml_name = "BATCH_NORMALIZATION_GRAD"


@dataclass(frozen=True, kw_only=True)
class BatchNormalizationTrainingGradOperatorDesc(_Gradients):
    """`DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC`: statistics are the input's own.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What was normalized.
    InputGradientTensor : BufferTensorDesc
        The gradient of the result, of InputTensor's sizes.
    MeanTensor : BufferTensorDesc
        The mean of InputTensor over the dimensions of size 1 here; the other sizes are its.
    VarianceTensor, ScaleTensor : BufferTensorDesc
        Of MeanTensor's sizes.
    OutputGradientTensor : BufferTensorDesc
        The gradient of the input, of InputTensor's sizes.
    OutputScaleGradientTensor, OutputBiasGradientTensor : BufferTensorDesc
        The gradients of scale and bias, of MeanTensor's sizes: sums over dimensions of size 1.
    Epsilon : float
        Added to the variance; 1e-5 is usual.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x = BufferTensorDesc("FLOAT32", [2, 3, 4, 5])
    >>> one = BufferTensorDesc("FLOAT32", [1, 3, 1, 1])
    >>> desc = BatchNormalizationTrainingGradOperatorDesc(
    ...     InputTensor=x, InputGradientTensor=x, MeanTensor=one, VarianceTensor=one,
    ...     ScaleTensor=one, OutputGradientTensor=x, OutputScaleGradientTensor=one,
    ...     OutputBiasGradientTensor=one, Epsilon=1e-5,
    ... )
    >>> desc.OutputGradientTensor.Sizes
    (2, 3, 4, 5)
    """

    _dml_name = "BATCH_NORMALIZATION_TRAINING_GRAD"
