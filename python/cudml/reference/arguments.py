"""What every operator refuses, stated again: kinds of arguments, and ranges.

The kind of an object or of an element type is a TypeError, a value a ValueError; the text names
operator, field, value and what is permitted.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numbers import FORMATS, is_float

Array = NDArray[Any]

LARGEST = 2**32 - 1  # of a window, a stride, a dilation, a pad, p
FLOATS = tuple(FORMATS)
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
MOST_DIMENSIONS = 8


def require(is_right: bool, text: str, error: type[Exception] = ValueError) -> None:
    """Raise `error` with this text unless the condition holds."""
    if not is_right:
        raise error(text)


def shown(value: Any) -> str:
    """A value as errors print it, cut where it is long; a larger array's shape."""
    text, shape = repr(value), getattr(value, "shape", None)
    if isinstance(shape, tuple) and (len(text) > 160 or "\n" in text):
        return f"an array of shape {tuple(shape)}"
    return text if len(text) <= 160 else text[:160] + "…"


def array(op: str, field: str, x: Any, dtypes: Sequence[str]) -> None:
    """Refuse what is no plain array of rank 1 to 8 and of one of these element types."""
    is_array = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
    require(is_array, f"{op}: {field} is a {type(x).__name__}; it must be a NumPy array", TypeError)
    known = x.dtype.name in dtypes and x.dtype.isnative and x.dtype.fields is None
    text = f"{op}: {field}.DataType is {x.dtype}; it must be one of {', '.join(dtypes)}"
    require(known, text, TypeError)
    text = f"{op}: {field}.DimensionCount is {x.ndim}; it must be between 1 and {MOST_DIMENSIONS}"
    require(1 <= x.ndim <= MOST_DIMENSIONS, text)


def same_type(op: str, field: str, x: Array, like: Array, *others: str) -> None:
    """Refuse an array whose element type is neither that of `like` nor one of the others."""
    permitted = (like.dtype.name, *others)
    text = f"{op}: {field}.DataType is {x.dtype}; it must be {' or '.join(permitted)}"
    require(x.dtype.name in permitted, text, TypeError)


def same_sizes(op: str, field: str, x: Array, sizes: Sequence[int]) -> None:
    """Refuse an array of another shape."""
    text = f"{op}: {field}.Sizes are {x.shape}; they must be {tuple(sizes)}"
    require(x.shape == tuple(sizes), text)


def broadcasts(op: str, field: str, x: Array, shape: Sequence[int]) -> None:
    """Refuse an array that has another rank, or a size that is neither 1 nor that of `shape`."""
    fits = x.ndim == len(shape) and all(n in (1, m) for n, m in zip(x.shape, shape, strict=True))
    text = f"{op}: {field}.Sizes are {x.shape}; each must be 1 or that of {tuple(shape)}"
    require(fits, text)


def is_flag(value: Any) -> bool:
    """Whether a value is Python's or NumPy's bool."""
    return isinstance(value, (bool, np.bool_))


def is_sequence(value: Any) -> bool:
    """Whether a value has entries that an argument may consist of: texts and bytes do not."""
    if isinstance(value, (str, bytes, bytearray, memoryview, dict, set, frozenset)):
        return False
    if isinstance(value, (np.ndarray, np.generic)):
        return value.ndim > 0
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def whole(op: str, field: str, value: Any, least: int, most: int) -> int:
    """An int between `least` and `most`: anything with __index__ but a bool."""
    kind = f"{op}: {field} is {shown(value)} ({type(value).__name__}); it must be an int"
    require(not is_flag(value), kind, TypeError)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(kind) from None
    text = f"{op}: {field} is {shown(value)}; it must be between {least} and {most}"
    require(least <= number <= most, text)
    return number


def wholes(op: str, field: str, values: Any, count: int, least: int, most: int) -> list[int]:
    """One int for each of `count` dimensions; a single one stands for all of them (D-VER-1)."""
    if not is_sequence(values):
        return [whole(op, f"{field}[0]", values, least, most)] * count
    text = f"{op}: {field} has {len(values)} entries; it must be an int or have {count}"
    require(len(values) == count, text)
    return [whole(op, f"{field}[{i}]", v, least, most) for i, v in enumerate(values)]


def axes_of(op: str, axes: Any, rank: int) -> list[int]:
    """Axes counted from 0, in the order given; an int is one axis."""
    listed = list(axes) if is_sequence(axes) and len(axes) <= MOST_DIMENSIONS else [axes]
    text = f"{op}: Axes has {len(axes) if is_sequence(axes) else 1} entries; at most {rank} are"
    require(not is_sequence(axes) or len(axes) <= MOST_DIMENSIONS, text + " permitted")
    return [whole(op, f"Axes[{i}]", a, -rank, rank - 1) % rank for i, a in enumerate(listed)]


def flag(op: str, field: str, value: Any) -> bool:
    """True or False; nothing else counts as either."""
    text = f"{op}: {field} is {shown(value)} ({type(value).__name__}); it must be True or False"
    require(is_flag(value), text, TypeError)
    return bool(value)


def real(op: str, field: str, value: Any) -> float:
    """A real number as a float, infinite where it is too large: no bool, text or complex one."""
    text = f"{op}: {field} is {shown(value)} ({type(value).__name__}); it must be a real number"
    foreign = (str, bytes, bytearray, memoryview, complex, np.complexfloating)
    require(not (is_flag(value) or isinstance(value, foreign)), text, TypeError)
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf
    except TypeError:
        raise TypeError(text) from None


def entries(op: str, field: str, value: Any, count: int) -> list[Any]:
    """The entries of a tuple or list of so many."""
    text = f"{op}: {field} is {shown(value)}; it must be a tuple or list of {count} arrays"
    require(isinstance(value, (tuple, list)) and len(value) == count, text, TypeError)
    return list(value)


def choice(op: str, field: str, value: Any, names: Sequence[str]) -> list[str]:
    """Some of these names, each at most once, but not none (D-GRAD-16)."""
    text = f"{op}: {field} is {shown(value)}; it must name some of {', '.join(names)}, each once"
    require(is_sequence(value), text, TypeError)
    chosen = list(value)
    require(all(isinstance(name, str) for name in chosen), text, TypeError)
    require(bool(chosen) and set(chosen) <= set(names), text)
    require(len(set(chosen)) == len(chosen), text)
    return chosen


def wide_type(op: str, field: str, dtype: Any) -> np.dtype[Any]:
    """float32 or float64, given by name or as a dtype."""
    text = f"{op}: {field} is {shown(dtype)}; it must be float32 or float64"
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise TypeError(text) from None
    known = dtype is not None and kind.name in ("float32", "float64") and kind.isnative
    require(known, text, TypeError)
    return kind


def fits(op: str, field: str, sizes: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Refuse a tensor whose bytes a signed 64-bit number cannot count."""
    text = f"{op}: {field}.Sizes are {tuple(sizes)}; the tensor must have fewer than 2**63 bytes"
    require(math.prod(n for n in sizes if n) * dtype.itemsize < 2**63, text)


def floating(op: str, field: str, x: Any) -> None:
    """Refuse what is no array of float16, bfloat16, float32 or float64."""
    array(op, field, x, FLOATS)


def any_type(op: str, field: str, x: Any) -> None:
    """Refuse what is no array of one of the twelve element types."""
    array(op, field, x, (*FLOATS, *INTEGERS))


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    assert not is_float(dtype)
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
