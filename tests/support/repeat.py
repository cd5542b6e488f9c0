"""How a failure is repeated: every array's recipe, and the line of Python that makes the call."""

from __future__ import annotations

import base64
import os
import re
import weakref
import zlib
from collections.abc import Callable, Mapping
from math import inf, nan  # noqa: F401, which lines may say
from typing import Any

import numpy as np

from layouts import dtype_of

_recipes: dict[int, tuple[weakref.ref, str, Callable[[], np.ndarray]]] = {}


def remember(x: np.ndarray, text: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Notes the expression that makes x again, and what it says."""
    _recipes[id(x)] = weakref.ref(x), text, make
    if len(_recipes) > 4096:
        for key in [k for k, (ref, *_) in _recipes.items() if ref() is None]:
            del _recipes[key]
    return x


def recipe(x: np.ndarray) -> str:
    """An expression that makes x again: as it was made, or of its bytes if it has changed since."""
    ref, text, make = _recipes.get(id(x), (lambda: None, "", np.ndarray))
    if ref() is x and make().tobytes() == x.tobytes():
        return text
    packed = base64.b85encode(zlib.compress(x.tobytes(), 9)).decode()
    return f"unpacked({packed!r}, {x.shape}, {x.dtype.name!r})"


def unpacked(text: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The array of these bytes."""
    raw = bytearray(zlib.decompress(base64.b85decode(text)))
    return np.frombuffer(raw, dtype_of(dtype)).reshape(shape)


def literal(value: Any) -> str:
    """An expression for an argument of a call."""
    if isinstance(value, np.ndarray):
        return recipe(value)
    if isinstance(value, np.dtype):
        return repr(value.name)
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({value.item()!r})"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(literal, value)) + ("," if len(value) == 1 else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def line(module: str, call: str, more: str = "") -> str:
    """One line for a Python started in the repository's root, with the variables set here."""
    names = sorted(k for k in os.environ if re.fullmatch("CUDML_(?!CUDA).*", k))  # not of builds
    variables = {k: os.environ[k] for k in names}
    start = f"import os; os.environ.update({variables}); " if variables else ""
    start += 'import sys; sys.path[:0] = ["tests/support", "."]; '
    return f"{start}{more}from {module} import *; {call}"


def noted(error: AssertionError, text: str) -> AssertionError:
    """The error with the line under its message, where pytest shows it."""
    notes = ["To repeat it, paste this line into a Python started in the repository:", text]
    error.__notes__ = [*getattr(error, "__notes__", []), *notes]  # add_note is younger than 3.10
    return error


def keywords(arguments: Mapping[str, Any]) -> str:
    """Arguments by name, as a call has them."""
    return "".join(f", {name}={literal(value)}" for name, value in arguments.items())
