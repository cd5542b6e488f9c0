"""Descriptors of average and Lp pooling."""

from __future__ import annotations

from dataclasses import dataclass

from ._shared import DilatedWindows, Gradients, Mapped, Windows


@dataclass(frozen=True, kw_only=True)
class AveragePoolingOperatorDesc(Windows, Mapped):
    """Mean of each window, `DML_AVERAGE_POOLING_OPERATOR_DESC`.

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
    IncludePadding : bool or int
        Whether padding counts in the divisor.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = AveragePoolingOperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], IncludePadding=False,
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "AVERAGE_POOLING"

    IncludePadding: bool | int


@dataclass(frozen=True, kw_only=True)
class AveragePooling1OperatorDesc(DilatedWindows, Mapped):
    """Average pooling with dilations, `DML_AVERAGE_POOLING1_OPERATOR_DESC`.

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
    Dilations : sequence of int
        Distance between taps; 1 is dense.
    IncludePadding : bool or int
        Whether padding counts in the divisor.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = AveragePooling1OperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0],
    ...     Dilations=[1, 1], IncludePadding=False,
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "AVERAGE_POOLING1"

    IncludePadding: bool | int


@dataclass(frozen=True, kw_only=True)
class AveragePoolingGradOperatorDesc(Windows, Gradients):
    """Gradient of average pooling, `DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC`.

    Parameters
    ----------
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
    IncludePadding : bool or int
        Whether padding counts in the divisor.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = AveragePoolingGradOperatorDesc(
    ...     InputGradientTensor=y, OutputGradientTensor=x, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], IncludePadding=False,
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "AVERAGE_POOLING_GRAD"

    IncludePadding: bool | int


@dataclass(frozen=True, kw_only=True)
class LpPoolingOperatorDesc(Windows, Mapped):
    """P-norm of each window, a sum and no mean, `DML_LP_POOLING_OPERATOR_DESC`.

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
    P : int
        Exponent, at least 1.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = LpPoolingOperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], P=2,
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "LP_POOLING"

    P: int


@dataclass(frozen=True, kw_only=True)
class LpPooling1OperatorDesc(DilatedWindows, Mapped):
    """Lp pooling with dilations, `DML_LP_POOLING1_OPERATOR_DESC`.

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
    Dilations : sequence of int
        Distance between taps; 1 is dense.
    P : int
        Exponent, at least 1.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 1, 4, 4]), BufferTensorDesc("FLOAT32", [1, 1, 3, 3])
    >>> desc = LpPooling1OperatorDesc(
    ...     InputTensor=x, OutputTensor=y, Strides=[1, 1],
    ...     WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1], P=2,
    ... )
    >>> desc.DimensionCount
    2
    """

    _dml_name = "LP_POOLING1"

    P: int
