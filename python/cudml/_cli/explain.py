"""``python -m cudml explain``: which kernel a call would run on, from shapes alone."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cudml
from cudml import _operators
from cudml._cli.failure import Failure
from cudml._cli.predicted import Prediction, predicted
from cudml._description import NO_DTYPE

_ARRAYS = ("x", "y", "grad", "indices", "mean", "variance", "scale", "bias", "count")
_SEVERAL = {"a": 3, "b": 3, "sums": 2}  # arguments that are tuples of arrays, all of one shape
_SIZES = {"bfloat16": 2}  # beyond NumPy's own


@dataclass(frozen=True)
class Shape:
    """An array without memory; strides are in bytes."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]


def run(
    name: str,
    shape: str,
    dtype: str,
    order: str | None,
    device: str | None,
    as_json: bool,
    words: Sequence[str],
) -> int:
    if name not in _operators.__all__:
        raise Failure(f"{name!r} is no operator; there are {', '.join(_operators.__all__)}")
    parameters = inspect.signature(getattr(_operators, name)).parameters
    first = next(iter(parameters))
    arguments: dict[str, Any] = {first: _arrays(first, shape, dtype, order)}
    for word in words:
        key, equals, text = word.partition("=")
        if equals and key == first:
            raise Failure(f"{word!r}; --shape gives the sizes of {first}")
        if equals and key in arguments:
            raise Failure(f"{key} is given twice")
        if not equals or key not in parameters or key in ("out", "stream"):
            permitted = ", ".join(p for p in parameters if p not in (first, "out", "stream"))
            raise Failure(f"{word!r} is not NAME=VALUE with NAME one of {permitted}")
        if (key in _ARRAYS or key in _SEVERAL) and text != "None":
            kind, colon, sizes = text.rpartition(":")
            arguments[key] = _arrays(key, sizes, kind if colon else dtype, order)
        else:
            arguments[key] = _value(text)
    try:
        explanation = cudml.explain(name, device=device, **arguments)
    except (TypeError, ValueError, BufferError, cudml.CudaError) as error:
        raise Failure(str(error)) from None
    model = _model(explanation, arguments)
    if as_json:
        also = {"predicted": dataclasses.asdict(model)} if model else {}
        print(json.dumps(dataclasses.asdict(explanation) | also))
    else:
        print(explanation, *([model] if model else []), sep="\n")
    return 0


def _model(said: cudml.Explanation, arguments: dict[str, Any]) -> Prediction | None:
    """The predicted time; what is not read is written."""
    several = (a if isinstance(a, tuple) else (a,) for a in arguments.values())
    arrays = [a for some in several for a in some if isinstance(a, Shape)]
    read = sum(math.prod(a.shape) * _item(a.dtype) for a in arrays)
    return predicted(said, _item(arrays[0].dtype), said.bytes - read)


def _item(dtype: str) -> int:
    return _SIZES.get(dtype) or np.dtype(dtype).itemsize


def _value(text: str) -> Any:
    """A Python literal, or the text itself where it is none: a mode, an activation."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _arrays(name: str, sizes: str, dtype: str, order: str | None) -> Shape | tuple[Shape, ...]:
    """What stands for an argument: one array, or several of one shape."""
    one = _array(name, sizes, dtype, order)
    return (one,) * _SEVERAL[name] if name in _SEVERAL else one


def _array(name: str, sizes: str, dtype: str, order: str | None) -> Shape:
    shape = _numbers(name, sizes)
    try:
        item = _item(dtype)
    except NO_DTYPE:
        known = "float16, bfloat16, float32, float64, int8 to int64, uint8 to uint64"
        raise Failure(f"{dtype!r} of {name} is no element type; there are {known}") from None
    outermost_first = tuple(range(len(shape))) if order is None else _numbers("--order", order)
    if sorted(outermost_first) != list(range(len(shape))):
        raise Failure(
            f"--order is {order}; for {name} it must list 0 to {len(shape) - 1}, each once"
        )
    strides = [0] * len(shape)
    for place, axis in enumerate(outermost_first):
        strides[axis] = item * math.prod(shape[a] for a in outermost_first[place + 1 :])
    return Shape(shape, dtype, tuple(strides))


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise Failure(f"{name} is {text!r}; it must be whole numbers with commas") from None
