"""Descriptions of the statistics of normalization and of their merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cudml.directml import BufferTensorDesc, OperatorDesc


@dataclass(frozen=True, kw_only=True)
class NormalizationStatisticsDesc(OperatorDesc):
    """`cudml.normalization_statistics`: count, mean and m2 of every group.

    Parameters
    ----------
    InputTensor : BufferTensorDesc
        Rank 1 to 8; a float type.
    Count, Mean, M2 : BufferTensorDesc
        The results: InputTensor's sizes with 1 in Axes, all FLOAT64 or all FLOAT32.
    AxisCount : int, optional
        Length of Axes.
    Axes : sequence of int, or None
        The dimensions that statistics are taken over; none means element by element.
    UseMean : bool or int, default True
        False: the mean is 0 and M2 the sum of squares.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> x, one = BufferTensorDesc("FLOAT32", [2, 5]), BufferTensorDesc("FLOAT64", [2, 1])
    >>> desc = NormalizationStatisticsDesc(InputTensor=x, Count=one, Mean=one, M2=one, Axes=[1])
    >>> desc.AxisCount, desc.UseMean
    (1, True)
    """

    _dml_name = "normalization_statistics"

    InputTensor: BufferTensorDesc
    Count: BufferTensorDesc
    Mean: BufferTensorDesc
    M2: BufferTensorDesc
    AxisCount: int | None = None
    Axes: Sequence[int] | None
    UseMean: bool | int = True


@dataclass(frozen=True, kw_only=True)
class MergeStatisticsDesc(OperatorDesc):
    """`cudml.merge_statistics`: the statistics of two parts, A and B, become those of both.

    Parameters
    ----------
    CountA, MeanA, M2A : BufferTensorDesc
        The first part's; all tensors have these sizes and this type, FLOAT64 or FLOAT32.
    CountB, MeanB, M2B : BufferTensorDesc
        The second part's.
    Count, Mean, M2 : BufferTensorDesc
        The results.

    Raises
    ------
    TypeError
        A field does not exist, or one without a default is missing.

    Examples
    --------
    >>> one = BufferTensorDesc("FLOAT64", [2, 1])
    >>> desc = MergeStatisticsDesc(
    ...     CountA=one, MeanA=one, M2A=one, CountB=one, MeanB=one, M2B=one,
    ...     Count=one, Mean=one, M2=one,
    ... )
    >>> desc.M2B.Sizes
    (2, 1)
    """

    _dml_name = "merge_statistics"

    CountA: BufferTensorDesc
    MeanA: BufferTensorDesc
    M2A: BufferTensorDesc
    CountB: BufferTensorDesc
    MeanB: BufferTensorDesc
    M2B: BufferTensorDesc
    Count: BufferTensorDesc
    Mean: BufferTensorDesc
    M2: BufferTensorDesc
