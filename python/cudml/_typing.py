"""Types of the arguments that the operators share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Geometry: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Number: TypeAlias = SupportsFloat | SupportsIndex
Mode: TypeAlias = str | list[str] | tuple[str, ...]
ActivationLike: TypeAlias = str | tuple[str, Mapping[str, Number]]
Stream: TypeAlias = Any
