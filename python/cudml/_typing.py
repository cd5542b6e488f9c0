"""Types of the arguments that the operators share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

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
OutputSizes: TypeAlias = Geometry | Literal["ceil"]
ModeName: TypeAlias = Literal["constant", "edge", "reflection", "symmetric", "wrap"]
Mode: TypeAlias = ModeName | list[ModeName] | tuple[ModeName, ...]
ActivationName: TypeAlias = Literal[
    "identity",
    "linear",
    "relu",
    "leaky_relu",
    "thresholded_relu",
    "elu",
    "celu",
    "scaled_elu",
    "sigmoid",
    "hard_sigmoid",
    "tanh",
    "scaled_tanh",
    "softplus",
    "parametric_softplus",
    "softsign",
    "shrink",
    "gelu",
    "swish",
    "hard_swish",
]
ActivationLike: TypeAlias = ActivationName | tuple[ActivationName, Mapping[str, Number]]


class ForeignDtype(Protocol):
    """What another library calls a dtype, as `torch.int64`."""

    @property
    def itemsize(self) -> int: ...


IndexDtype: TypeAlias = (
    Literal["uint32", "uint64", "int64"]
    | type[np.uint32]
    | type[np.uint64]
    | type[np.int64]
    | ForeignDtype
)
WideDtype: TypeAlias = (
    Literal["float32", "float64"] | type[np.float32] | type[np.float64] | ForeignDtype
)
GradientName: TypeAlias = Literal["x", "scale", "bias"]
Gradients: TypeAlias = tuple[ArrayT | None, ArrayT | None, ArrayT | None]
Stream: TypeAlias = Any
