"""Descriptors of max pooling."""

from __future__ import annotations

from dataclasses import dataclass

from ._shared import DilatedWindows, Gradients, Indexed, Input, Mapped, Windows
from ._types import BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class MaxPoolingOperatorDesc(Windows, Mapped):
    """Largest element of each window, `DML_MAX_POOLING_OPERATOR_DESC`.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        {N,C,H,W} or {N,C,D,H,W}.
    OutputTensor : BufferTensorDesc
        The result; its spatial sizes may exceed the floor rule up to the ceil rule.
    DimensionCount : int, optional
        Length of the sequences below; 2 for rank 4, 3 for rank 5.
    Strides : sequence of int
        Step of the window, {H,W} or {D,H,W} like all that follow.
    WindowSize : sequence of int
        Taps of the window.
    StartPadding : sequence of int
        Virtual elements before the first.
    EndPadding : sequence of int
        Virtual elements after the last.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = MaxPoolingOperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0],
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "MAX_POOLING"


@dataclass(frozen=True, kw_only=True)
class MaxPooling1OperatorDesc(Windows, Indexed):
    """Max pooling with indices, `DML_MAX_POOLING1_OPERATOR_DESC`.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        {N,C,H,W} or {N,C,D,H,W}.
    OutputTensor : BufferTensorDesc
        The result; its spatial sizes may exceed the floor rule up to the ceil rule.
    OutputIndicesTensor : BufferTensorDesc, optional
        UINT32 or UINT64: where each maximum stands in the whole input, flat, row-major.
    DimensionCount : int, optional
        Length of the sequences below; 2 for rank 4, 3 for rank 5.
    Strides : sequence of int
        Step of the window, {H,W} or {D,H,W} like all that follow.
    WindowSize : sequence of int
        Taps of the window.
    StartPadding : sequence of int
        Virtual elements before the first.
    EndPadding : sequence of int
        Virtual elements after the last.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = MaxPooling1OperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0],
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "MAX_POOLING1"


@dataclass(frozen=True, kw_only=True)
class MaxPooling2OperatorDesc(DilatedWindows, Indexed):
    """Max pooling with indices and dilations, `DML_MAX_POOLING2_OPERATOR_DESC`.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        {N,C,H,W} or {N,C,D,H,W}.
    OutputTensor : BufferTensorDesc
        The result; its spatial sizes may exceed the floor rule up to the ceil rule.
    OutputIndicesTensor : BufferTensorDesc, optional
        UINT32 or UINT64: where each maximum stands in the whole input, flat, row-major.
    DimensionCount : int, optional
        Length of the sequences below; 2 for rank 4, 3 for rank 5.
    Strides : sequence of int
        Step of the window, {H,W} or {D,H,W} like all that follow.
    WindowSize : sequence of int
        Taps of the window.
    StartPadding : sequence of int
        Virtual elements before the first.
    EndPadding : sequence of int
        Virtual elements after the last.
    Dilations : sequence of int
        Distance between taps; 1 is dense.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = MaxPooling2OperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1],
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "MAX_POOLING2"


@dataclass(frozen=True, kw_only=True)
class MaxPoolingGradOperatorDesc(DilatedWindows, Gradients, Input):
    """Gradient of max pooling, `DML_MAX_POOLING_GRAD_OPERATOR_DESC`.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        {N,C,H,W} or {N,C,D,H,W}.
    InputGradientTensor : BufferTensorDesc
        Gradient of the forward output.
    OutputGradientTensor : BufferTensorDesc
        Gradient of the forward input.
    DimensionCount : int, optional
        Length of the sequences below; 2 for rank 4, 3 for rank 5.
    Strides : sequence of int
        Step of the window, {H,W} or {D,H,W} like all that follow.
    WindowSize : sequence of int
        Taps of the window.
    StartPadding : sequence of int
        Virtual elements before the first.
    EndPadding : sequence of int
        Virtual elements after the last.
    Dilations : sequence of int
        Distance between taps; 1 is dense.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = MaxPoolingGradOperatorDesc(
    ...     InputTensor=x, InputGradientTensor=y, OutputGradientTensor=x, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1],
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "MAX_POOLING_GRAD"


@dataclass(frozen=True, kw_only=True)
class MaxUnpoolingOperatorDesc(Input):
    """`DML_MAX_UNPOOLING_OPERATOR_DESC`: values put back where max pooling took them from.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is put back: {N,C,H,W}.
    IndicesTensor : BufferTensorDesc
        InputTensor's sizes; UINT32, or UINT64 from feature level 5_0 on. Positions in OutputTensor
        as one row-major array; those out of range are ignored.
    OutputTensor : BufferTensorDesc
        The result: batch and channels of InputTensor, and any height and width; zeros elsewhere.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> desc = MaxUnpoolingOperatorDesc(
    ...     InputTensor=BufferTensorDesc("FLOAT32", [1, 2, 2, 2]),
    ...     IndicesTensor=BufferTensorDesc("UINT32", [1, 2, 2, 2]),
    ...     OutputTensor=BufferTensorDesc("FLOAT32", [1, 2, 4, 4]),
    ... )
    >>> desc.IndicesTensor.DataType
    TensorDataType.UINT32
    """

    _dml_name = "MAX_UNPOOLING"

    IndicesTensor: BufferTensorDesc
    OutputTensor: BufferTensorDesc
