"""What an array says of itself where nothing is run; its memory may be nowhere."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import numpy as np

# What numpy.dtype raises: of a text that it takes apart the errors of its parts, too.
NO_DTYPE = (TypeError, ValueError, SyntaxError)


def describe(array: Any) -> tuple[str, Any, Any, int, int] | None:
    """Type, shape, strides in elements or None, address or 0, CUDA device or -1; None if no array.

    What is no tuple of whole numbers is the caller's to refuse.
    """
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if shape is None or dtype is None or isinstance(array, type):
        return None
    name = type_name(dtype)
    device = -1
    if hasattr(array, "__dlpack_device__"):
        with contextlib.suppress(Exception):  # a description may name a device that is not there
            kind, number = array.__dlpack_device__()
            device = int(number) if int(kind) in (2, 13) else -1
    elif hasattr(array, "__cuda_array_interface__"):
        device = 0
    return name, _numbers(shape), _element_strides(array, name), _address(array), device


def type_name(dtype: Any) -> str:
    """NumPy's name of a type, whatever library it is from."""
    try:
        return str(np.dtype(dtype).name)
    except NO_DTYPE:  # bfloat16, torch.float16
        return str(dtype).rpartition(".")[2]


def is_without_memory(tensor: Any) -> bool:
    """Whether a tensor of PyTorch is a description alone; asking for its address would warn."""
    return type(tensor).__name__ == "FakeTensor" or str(getattr(tensor, "device", "")) == "meta"


def _numbers(values: Any, divisor: int = 1) -> Any:
    """A tuple, its whole numbers divided and rounded down; what has no entries as it is."""
    try:
        entries = tuple(values)
    except TypeError:
        return values
    return tuple(_divided(n, divisor) for n in entries)


def _divided(number: Any, divisor: int) -> Any:
    try:
        return operator.index(number) // divisor
    except TypeError:
        return number


def _element_strides(array: Any, dtype: str) -> Any:
    if callable(getattr(array, "stride", None)):  # torch counts elements
        return _numbers(array.stride())
    strides = getattr(array, "strides", None)
    if strides is None or callable(strides):
        return None
    return _numbers(strides, getattr(array, "itemsize", None) or _item_size(dtype))


def _item_size(dtype: str) -> int:
    """1 where there is none: such a type is refused by its name."""
    try:
        return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize or 1
    except NO_DTYPE:
        return 1


def _address(array: Any) -> int:
    if is_without_memory(array):
        return 0
    return int(array.data_ptr()) if callable(getattr(array, "data_ptr", None)) else 0
