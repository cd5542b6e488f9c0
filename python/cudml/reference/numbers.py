"""The element types: which are floating, how they round, and exact conversion of a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format: `precision` bits, exponents `lowest` to `highest`."""

    precision: int
    lowest: int
    highest: int

    @property
    def roundoff(self) -> float:
        """The unit roundoff u: half the spacing just above 1."""
        return 2.0**-self.precision

    @property
    def tiny(self) -> float:
        """The smallest subnormal, which is also the spacing of all subnormals."""
        return math.ldexp(1.0, self.lowest - self.precision + 1)

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return math.ldexp(2.0 - 2.0 ** (1 - self.precision), self.highest)


FORMATS = {
    "float16": FloatFormat(11, -14, 15),
    "bfloat16": FloatFormat(8, -126, 127),
    "float32": FloatFormat(24, -126, 127),
    "float64": FloatFormat(53, -1022, 1023),
}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the type is one of the four floating types (bfloat16 comes from ml_dtypes)."""
    return dtype.name in FORMATS


def compute_format(dtype: np.dtype[Any]) -> FloatFormat:
    """FLOAT64 is computed in FLOAT64, every other floating type in FLOAT32."""
    return FORMATS["float64" if dtype.name == "float64" else "float32"]


def parameter(value: float, dtype: np.dtype[Any]) -> float:
    """An epsilon or activation parameter as the operator sees it: a FLOAT unless x is FLOAT64."""
    if dtype.name == "float64":
        return float(value)
    return float(rounded(value, np.dtype(np.float32)))


def rounded(value: Any, dtype: np.dtype[Any]) -> Any:
    """The element of floating type `dtype` nearest to the number `value`, ties to even.

    Rounds once, from the exact value: 2**70 + 1 or a Fraction lose nothing on the way.
    """
    if isinstance(value, (float, np.floating, Decimal)) and not math.isfinite(value):
        return np.float64(value).astype(dtype)
    form = FORMATS[dtype.name]
    if isinstance(value, (int, np.integer)):
        exact = Fraction(int(value))
    else:
        ratio = value if hasattr(value, "as_integer_ratio") else float(value)
        exact = Fraction(*ratio.as_integer_ratio())
    if exact == 0:
        return np.float64(value).astype(dtype)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    spacing = Fraction(2) ** (max(exponent, form.lowest) - form.precision + 1)
    nearest = round(size / spacing) * spacing
    result = math.inf if nearest > Fraction(form.largest) else float(nearest)
    return np.float64(-result if exact < 0 else result).astype(dtype)


def padding_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """The padding constant as an element of `dtype` (D-PAD-3, D-PAD-4, D-PAD-5).

    Floating types round once to nearest even. For integer types an integer must fit exactly, and a
    float is truncated toward zero and then saturated: 10.6 -> 10, -10.6 -> 0 and 300 -> 255 for
    uint8; infinities saturate and NaN is refused.
    """
    if is_float(dtype):
        return rounded(value, dtype)
    limits = np.iinfo(dtype)
    if isinstance(value, (float, np.floating)) or not hasattr(value, "__index__"):
        if math.isnan(value):
            raise ValueError(f"padding: PaddingValue is NaN; it has no meaning for {dtype.name}")
        if math.isinf(value):
            return dtype.type(limits.max if value > 0 else limits.min)
        return dtype.type(min(max(int(value), limits.min), limits.max))
    if not limits.min <= int(value) <= limits.max:
        raise ValueError(
            f"padding: PaddingValue is {value}; it must be between {limits.min} and {limits.max}"
        )
    return dtype.type(int(value))


def spacing(values: NDArray[np.float64], form: FloatFormat) -> NDArray[np.float64]:
    """ulp(v): the distance between neighbours of the format at |v|.

    It is never below the smallest subnormal; beyond the largest finite value the spacing of the
    highest binade goes on.
    """
    size = np.minimum(np.abs(values), form.largest)
    _, exponent = np.frexp(np.where(np.isfinite(size), size, form.largest))
    exponent = np.clip(exponent - 1, form.lowest, form.highest)
    exponent = np.where(size == 0, form.lowest, exponent)
    return np.asarray(np.ldexp(1.0, exponent - form.precision + 1), np.float64)
