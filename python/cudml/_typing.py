"""Types of the arguments that the operators share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt


class Array(Protocol):
    """An array of any library that the operators take."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)
Geometry: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Number: TypeAlias = SupportsFloat | SupportsIndex
Mode: TypeAlias = str | list[str] | tuple[str, ...]
ActivationLike: TypeAlias = str | tuple[str, Mapping[str, Number]]
Stream: TypeAlias = Any
