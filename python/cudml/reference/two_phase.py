"""Normalization in two phases: statistics of parts, their merge, and normalization with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations import Fused, activate, resolve
from .arguments import (
    array,
    broadcasts,
    entries,
    flag,
    floating,
    require,
    same_sizes,
    same_type,
    wide_type,
)
from .normalization import checked_arrays, checked_epsilon, group_axes
from .stages import normalized, statistics
from .wide import Wide

Array = NDArray[Any]
F64 = NDArray[np.float64]
Triple = tuple[F64, F64, F64]


def normalization_statistics(
    x: Array, *, axes: int | Sequence[int], use_mean: bool = True, dtype: Any = "float64"
) -> Triple:
    """The number of elements, the mean and the sum of squares about it of each group, unrounded.

    ::

        count = product of x.shape[a] over axes
        mean  = use_mean ? sum(x) / count : 0
        m2    = sum((x - mean)^2)

    Zero sizes are permitted everywhere; a group without elements has (0, 0, 0) (D-GRAD-24).

    Parameters
    ----------
    x : ndarray of rank 1 to 8
        float16, bfloat16, float32 or float64.
    axes : int or ints
        The dimensions that the statistics run over; none of them means groups of one element.
    use_mean : bool
        Whether squares are taken about the mean, or about 0 (D-GRAD-23).
    dtype : str or dtype
        float64, or float32, which counts to 2**24 only: the type an operator returns.

    Returns
    -------
    tuple of three ndarrays of float64, x's shape with size 1 in `axes`
        count, mean and m2, whatever `dtype` says.

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Axes out of range or twice, or a count that float32 does not hold.

    Notes
    -----
    The first half of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC; M2 as Chan, Golub and LeVeque
    have it.
    """
    op = "normalization_statistics"
    floating(op, "InputTensor", x)
    over = group_axes(op, x.ndim, axes)
    flag(op, "UseMean", use_mean)
    kind = wide_type(op, "DataType", dtype)
    count = math.prod(x.shape[a] for a in over)
    text = f"{op}: Count is {count}; float32 holds counts to {2**24}, float64 more"
    require(kind.name == "float64" or count <= 2**24, text)
    with np.errstate(all="ignore"):
        _, mean, squares = statistics(x, over, bool(use_mean))
    return np.full(mean.hi.shape, float(count)), mean.hi, squares.hi


def merge_statistics(a: Sequence[Array], b: Sequence[Array]) -> Triple:
    """The statistics of two parts together, elementwise, unrounded.

    ::

        n    = na + nb
        d    = mb - ma
        mean = ma + d * (nb / n)
        m2   = m2a + m2b + d * d * (na * nb / n)
        nb = 0 -> a; na = 0 -> b, bit for bit

    Parameters
    ----------
    a, b : tuple or list of three ndarrays
        count, mean and m2; all six have one shape of rank 1 to 8 and one type, float32 or float64.

    Returns
    -------
    tuple of three ndarrays of float64

    Raises
    ------
    TypeError
        No triple, no arrays, or another element type than permitted.
    ValueError
        Shapes that differ.

    Notes
    -----
    The merge of Chan, Golub and LeVeque, 1983. It is neither associative nor commutative in bits:
    parts are merged in ascending order (D-GRAD-26).
    """
    checked_triples(a, b)
    (na, ma, sa), (nb, mb, sb) = (
        tuple(Wide.of(part.astype(np.float64)) for part in triple) for triple in (a, b)
    )
    with np.errstate(all="ignore"):
        n, d = na + nb, mb - ma
        both = (n, ma + d * (nb / n), sa + sb + d * d * (na * nb / n))
    only_a, only_b = nb.hi == 0, na.hi == 0
    results = (
        np.where(only_a, first.hi, np.where(only_b, second.hi, merged.hi))
        for merged, first, second in zip(both, (na, ma, sa), (nb, mb, sb), strict=True)
    )
    count, mean, squares = results
    return count, mean, squares


def checked_triples(a: Any, b: Any) -> None:
    """Refuse what are not two triples of arrays of one shape and one type."""
    op, names = "merge_statistics", ("Count", "Mean", "M2")
    triples = {"a": entries(op, "a", a, 3), "b": entries(op, "b", b, 3)}
    for which, triple in triples.items():
        for name, values in zip(names, triple, strict=True):
            field = f"{which}.{name}"
            array(op, field, values, ("float32", "float64"))
            same_type(op, field, values, triples["a"][0])
            same_sizes(op, field, values, triples["a"][0].shape)


def checked_statistics(op: str, x: Array, mean: Array | None, variance: Array | None) -> None:
    """Refuse statistics of another type than x's, float32 or float64, or that do not broadcast."""
    for field, values in (("Mean", mean), ("Variance", variance)):
        if values is not None:
            wide_or_own(op, field, values, x)


def wide_or_own(op: str, field: str, values: Any, x: Array) -> None:
    """Refuse what is neither of x's type nor float32 or float64, or does not broadcast to x."""
    floating(op, field, values)
    same_type(op, field, values, x, *(t for t in ("float32", "float64") if t != x.dtype.name))
    broadcasts(op, field, values, x.shape)


def widened(values: Array | None) -> Wide | None:
    """An array as wide numbers, where there is one."""
    return None if values is None else Wide.of(values)


def normalize(
    x: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = 1e-5,
    activation: Fused = None,
) -> F64:
    """activation(scale * ((x - mean) / sqrt(variance + epsilon)) + bias), unrounded.

    Parameters
    ----------
    x : ndarray of rank 1 to 8
        float16, bfloat16, float32 or float64; zero sizes are permitted.
    mean, variance : ndarray or None
        x's rank, each size 1 or x's; x's type, float32 or float64. None leaves its step out.
    scale, bias : ndarray or None
        x's rank, each size 1 or x's; x's type, or float32 where x has 16 bits.
    epsilon : float
        Added to the variance inside of the root; a FLOAT unless x is float64.
    activation : None, str, or (str, dict)
        As in `cudml.mean_variance_normalization`.

    Returns
    -------
    ndarray of float64, x's shape

    Raises
    ------
    TypeError
        No array, another element type than permitted, or an argument of the wrong kind.
    ValueError
        Shapes that do not broadcast, or a number out of range.

    Notes
    -----
    The second half of DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC. variance + epsilon below 0
    gives NaN; data are not checked (D-GRAD-28).
    """
    op = "normalize"
    checked_arrays(op, x, scale, bias)
    checked_statistics(op, x, mean, variance)
    number = checked_epsilon(op, epsilon, x.dtype)
    name, parameters = resolve(activation, x.dtype, op)
    with np.errstate(all="ignore"):
        stages = normalized(x, widened(mean), widened(variance), scale, bias, number)
    return activate(stages.affine.hi, name, parameters)
