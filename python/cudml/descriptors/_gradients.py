"""Descriptions of the gradients of Lp pooling and padding, and of max unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cudml.directml import BufferTensorDesc, OperatorDesc
from cudml.directml import PaddingMode as Mode
from cudml.directml._types import PaddingModeName


@dataclass(frozen=True, kw_only=True)
class LpPoolingGradDesc(OperatorDesc):
    """`cudml.lp_pooling_grad`, of Lp pooling over the dimensions from 2 on.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What was pooled, of rank 3 to 5; a float type.
    OutputTensor : BufferTensorDesc
        The forward result, an input here: InputGradientTensor's sizes; InputTensor's type, or
        FLOAT32 beside 16-bit data.
    InputGradientTensor : BufferTensorDesc
        The gradient of the forward result; InputTensor's type.
    OutputGradientTensor : BufferTensorDesc
        The gradient of what was pooled: InputTensor's sizes and type.
    DimensionCount : int, optional
        Pooled dimensions, length of the sequences below.
    Strides : sequence of int
        Steps between neighbouring windows.
    WindowSize : sequence of int
        Taps of a window.
    StartPadding : sequence of int
        Elements before each dimension.
    EndPadding : sequence of int
        Elements after each dimension.
    Dilations : sequence of int
        Steps between neighbouring taps.
    P : int
        The exponent, at least 1.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, y = BufferTensorDesc("FLOAT32", [1, 2, 4]), BufferTensorDesc("FLOAT32", [1, 2, 2])
    >>> desc = LpPoolingGradDesc(
    ...     InputTensor=x, OutputTensor=y, InputGradientTensor=y, OutputGradientTensor=x,
    ...     Strides=[2], WindowSize=[2], StartPadding=[0], EndPadding=[0], Dilations=[1], P=2,
    ... )
    >>> desc.DimensionCount
    1
    """

    _dml_name = "lp_pooling_grad"

    InputTensor: BufferTensorDesc
    OutputTensor: BufferTensorDesc
    InputGradientTensor: BufferTensorDesc
    OutputGradientTensor: BufferTensorDesc
    DimensionCount: int | None = None
    Strides: Sequence[int]
    WindowSize: Sequence[int]
    StartPadding: Sequence[int]
    EndPadding: Sequence[int]
    Dilations: Sequence[int]
    P: int


@dataclass(frozen=True, kw_only=True)
class MaxUnpoolingDesc(OperatorDesc):
    """`cudml.max_unpooling`, with the ranks and types that go beyond DirectML's descriptor.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        What is put back, of rank 3 to 5 and any type.
    IndicesTensor : BufferTensorDesc
        Flat positions in OutputTensor, of InputTensor's sizes; UINT32, UINT64, INT32 or INT64.
    OutputTensor : BufferTensorDesc
        The result: InputTensor's type, batch and channels, and any spatial sizes.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> desc = MaxUnpoolingDesc(
    ...     InputTensor=BufferTensorDesc("FLOAT64", [1, 2, 2]),
    ...     IndicesTensor=BufferTensorDesc("INT64", [1, 2, 2]),
    ...     OutputTensor=BufferTensorDesc("FLOAT64", [1, 2, 5]),
    ... )
    >>> desc.OutputTensor.Sizes
    (1, 2, 5)
    """

    _dml_name = "max_unpooling"

    InputTensor: BufferTensorDesc
    IndicesTensor: BufferTensorDesc
    OutputTensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class PaddingGradDesc(OperatorDesc):
    """`cudml.padding_grad`, of padding with one mode for all dimensions.

    Parameters
    ----------
    InputGradientTensor : BufferTensorDesc
        The gradient of the padded tensor, of rank 1 to 8; a float type.
    OutputGradientTensor : BufferTensorDesc
        The gradient of what was padded: InputGradientTensor's type, its sizes without the pads.
    PaddingMode : PaddingMode or str
        Where padded elements came from, such as ``"REFLECTION"``.
    DimensionCount : int, optional
        The rank of the tensors, length of the sequences below.
    StartPadding : sequence of int
        Elements added before each dimension.
    EndPadding : sequence of int
        Elements added after each dimension.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing; the mode is no enumerator and
        no name.
    ValueError
        The name of the mode does not exist.

    Examples
    --------
    >>> desc = PaddingGradDesc(
    ...     InputGradientTensor=BufferTensorDesc("FLOAT32", [2, 7]),
    ...     OutputGradientTensor=BufferTensorDesc("FLOAT32", [2, 4]),
    ...     PaddingMode="EDGE", StartPadding=[0, 1], EndPadding=[0, 2],
    ... )
    >>> desc.PaddingMode
    PaddingMode.EDGE
    """

    _dml_name = "padding_grad"

    InputGradientTensor: BufferTensorDesc
    OutputGradientTensor: BufferTensorDesc
    PaddingMode: Mode | PaddingModeName
    DimensionCount: int | None = None
    StartPadding: Sequence[int]
    EndPadding: Sequence[int]
