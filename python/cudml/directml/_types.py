"""Enumerations and the tensor descriptor, as DirectML has them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar

from cudml._errors import kind_of, shown

_Enumeration = TypeVar("_Enumeration", bound=IntEnum)
_MOST_ENTRIES = 64  # of a sequence whose length may be a lie; far more than any field has
_ARRAYS = ("Sequence", "tuple")  # what the types of such fields begin with


class _Enum(IntEnum):
    """An IntEnum whose members print as Python writes them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class TensorDataType(_Enum):
    """Element types, `DML_TENSOR_DATA_TYPE`, and BFLOAT16 for `cudml.descriptors`.

    Examples
    --------
    >>> TensorDataType.FLOAT16, int(TensorDataType.FLOAT16)
    (TensorDataType.FLOAT16, 2)
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13
    BFLOAT16 = (
        31  # none of DirectML's: its descriptors refuse it, those of cudml.descriptors do not
    )


class PaddingMode(_Enum):
    """Where padded elements come from, `DML_PADDING_MODE`.

    Examples
    --------
    >>> list(PaddingMode)[:2]
    [PaddingMode.CONSTANT, PaddingMode.EDGE]
    """

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class FeatureLevel(_Enum):
    """What a DirectML of some age can do, `DML_FEATURE_LEVEL`; each level includes those before.

    Examples
    --------
    >>> FeatureLevel.FL_6_4 > FeatureLevel.FL_5_0
    True
    """

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400


# The names that stand for members, and nothing else: a misspelt one is an error of the types.
DataTypeName: TypeAlias = Literal[
    "FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8", "FLOAT64",
    "UINT64", "INT64", "UINT4", "INT4", "BFLOAT16", "UNKNOWN",
]  # fmt: skip
PaddingModeName: TypeAlias = Literal["CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP"]
FeatureLevelName: TypeAlias = Literal[
    "1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2",
    "6_3", "6_4", "FL_1_0", "FL_2_0", "FL_2_1", "FL_3_0", "FL_3_1", "FL_4_0", "FL_4_1", "FL_5_0",
    "FL_5_1", "FL_5_2", "FL_6_0", "FL_6_1", "FL_6_2", "FL_6_3", "FL_6_4",
]  # fmt: skip
TensorFlagsName: TypeAlias = Literal["NONE", "OWNED_BY_DML"]


class TensorFlags(IntFlag):
    """Facts about a tensor, `DML_TENSOR_FLAGS`; OWNED_BY_DML is for inputs only.

    Examples
    --------
    >>> TensorFlags.OWNED_BY_DML
    TensorFlags.OWNED_BY_DML
    """

    NONE = 0
    OWNED_BY_DML = 1

    def __repr__(self) -> str:
        return f"TensorFlags.{self.name}" if self.name else f"TensorFlags({int(self)})"


def enumerator(kind: type[_Enumeration], value: object, where: str, prefix: str = "") -> Any:
    """A member of `kind`, given itself or by name; a plain int is refused."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        raise TypeError(
            f"{where} is {shown(value)} ({kind_of(value)}); "
            f"it must be a {kind.__name__} or the name of one"
        )
    names = kind.__members__
    name = value if value in names else prefix + value
    if name not in names:
        permitted = ", ".join(known.removeprefix(prefix) for known in names)
        raise ValueError(f"{where} is {shown(value)}; it must be one of {permitted}")
    return names[name]


def _plain(item: object) -> object:
    if isinstance(item, bool) or not isinstance(item, SupportsIndex):
        return item
    try:
        return operator.index(item)
    except TypeError:  # arrays have the method whatever is in them
        return item


def frozen(values: object) -> Any:
    """A sequence as a tuple of its own; anything else as it is, to be refused by `Operator`."""
    kind = type(values)
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
        return values
    if not hasattr(kind, "__len__") or not hasattr(kind, "__getitem__"):
        return values
    try:
        if len(values) > _MOST_ENTRIES:  # type: ignore[arg-type]
            return tuple(values) if type(values) is list else values  # their number is wrong
    except (OverflowError, TypeError):  # a very long range, an array of rank 0
        return values
    entries = itertools.islice(values, _MOST_ENTRIES)  # type: ignore[call-overload]
    return tuple(_plain(item) for item in entries)


@dataclass(frozen=True)
class BufferTensorDesc:
    """A tensor in memory, `DML_BUFFER_TENSOR_DESC`.

    Nothing is checked here but the names; `Operator` does it for all tensors together.

    Parameters
    ----------
    DataType : TensorDataType or str
        Element type, such as ``"FLOAT32"``.
    Sizes : sequence of int
        Extent of each dimension, outermost first: {N,C,H,W} or {N,C,D,H,W}.
    Strides : sequence of int, optional
        Elements between neighbours along each dimension; 0 repeats. None means packed row-major.
    TotalTensorSizeInBytes : int, optional
        Bytes the tensor may occupy, a multiple of 4. None means the least that is possible.
    GuaranteedBaseOffsetAlignment : int
        0, or a power of two not below the element size.
    Flags : TensorFlags, str or int
        `TensorFlags.OWNED_BY_DML` is permitted for inputs and changes nothing.

    Raises
    ------
    TypeError
        DataType is no TensorDataType and no name.
    ValueError
        DataType or Flags is a name that does not exist.

    Examples
    --------
    >>> BufferTensorDesc("FLOAT32", [1, 1, 4, 4]).DataType
    TensorDataType.FLOAT32
    """

    DataType: TensorDataType | DataTypeName
    Sizes: Sequence[int]
    Strides: Sequence[int] | None = None
    TotalTensorSizeInBytes: int | None = None
    GuaranteedBaseOffsetAlignment: int = 0
    Flags: TensorFlags | TensorFlagsName | int = 0

    def __post_init__(self) -> None:
        where = "BufferTensorDesc: DataType"
        changes: dict[str, object] = {
            "DataType": enumerator(TensorDataType, self.DataType, where),
            "Sizes": frozen(self.Sizes),
            "Strides": frozen(self.Strides),
        }
        if isinstance(self.Flags, str):
            if self.Flags not in TensorFlags.__members__:
                names = ", ".join(TensorFlags.__members__)
                raise ValueError(
                    f"BufferTensorDesc: Flags is {self.Flags!r}; it must be one of {names}"
                )
            changes["Flags"] = TensorFlags[self.Flags]
        for name, value in changes.items():
            object.__setattr__(self, name, value)


class OperatorDesc:
    """Base of the operator descriptors: what `Operator` and `FusedActivation` take.

    Examples
    --------
    >>> from cudml import directml
    >>> issubclass(directml.MaxPooling2OperatorDesc, OperatorDesc)
    True
    """

    _dml_name = ""

    def __post_init__(self) -> None:
        for name, field in getattr(self, "__dataclass_fields__", {}).items():
            value = getattr(self, name)
            if str(field.type).startswith(_ARRAYS):  # elsewhere a sequence is refused as it is
                value = frozen(value)
            where = f"{self._dml_name}: {name}"
            if name == "PaddingMode":
                value = enumerator(PaddingMode, value, where)
            elif name == "PaddingValueDataType":
                value = enumerator(TensorDataType, value, where)
            object.__setattr__(self, name, value)
        for count, array in (("DimensionCount", "StartPadding"), ("AxisCount", "Axes")):
            values = getattr(self, array, None)
            if getattr(self, count, 0) is None and isinstance(values, tuple):
                object.__setattr__(self, count, len(values))
