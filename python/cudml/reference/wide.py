"""Numbers of about 106 bits, each the unevaluated sum of two float64: the reference's sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Exponents = NDArray[np.int32]
Number = Union["Wide", F64, float]


@dataclass(frozen=True)
class Wide:
    """An array of values hi + lo with |lo| at most half an ulp of hi.

    Where hi is infinite or NaN it is what plain IEEE arithmetic gives, and lo is 0.
    """

    hi: F64
    lo: F64

    @staticmethod
    def of(value: Number | NDArray[Any]) -> Wide:
        """Widens an array whose elements float64 represents exactly."""
        if isinstance(value, Wide):
            return value
        hi = np.asarray(value, np.float64)
        return Wide(hi, np.zeros_like(hi))

    def __add__(self, other: Number) -> Wide:
        other = Wide.of(other)
        total, rest = _two_sum(self.hi, other.hi)
        small, smaller = _two_sum(self.lo, other.lo)
        once = _packed(total, rest + small)
        return _packed(once.hi, once.lo + smaller)

    def __neg__(self) -> Wide:
        return Wide(-self.hi, -self.lo)

    def __sub__(self, other: Number) -> Wide:
        return self + -Wide.of(other)

    def __mul__(self, other: Number) -> Wide:
        other = Wide.of(other)
        product, rest = _two_product(self.hi, other.hi)
        return _packed(product, rest + (self.hi * other.lo + self.lo * other.hi))

    def __truediv__(self, other: Number) -> Wide:
        (dividend, e), (divisor, f) = self._parts(), Wide.of(other)._parts()
        first = dividend.hi / divisor.hi
        left = dividend - divisor * first
        second = left.hi / divisor.hi
        third = (left - divisor * second).hi / divisor.hi
        return _packed(first, second + third)._scaled(e - f)

    def sqrt(self) -> Wide:
        """The square root."""
        part, e = self._parts()
        odd = e % 2
        part = part._scaled(odd)
        root = np.sqrt(part.hi)
        wide = _packed(root, (part - Wide.of(root) * root).hi / (2 * root))
        return wide._scaled((e - odd) // 2)

    def _parts(self) -> tuple[Wide, Exponents]:
        """A value in [0.5, 1) and its exponent: where numbers are subnormal, rests are lost."""
        exponent = np.frexp(self.hi)[1]
        return self._scaled(-exponent), exponent

    def _scaled(self, exponent: Exponents) -> Wide:
        """The value times 2**exponent."""
        return _packed(np.ldexp(self.hi, exponent), np.ldexp(self.lo, exponent))

    def power(self, exponent: int) -> Wide:
        """The value to a positive integer power, by repeated squaring."""
        result, square = Wide.of(np.ones_like(self.hi)), self
        while exponent:
            if exponent & 1:
                result = result * square
            square, exponent = square * square, exponent >> 1
        return result

    def root(self, degree: int) -> Wide:
        """The degree-th root of a value in [1, inf): a float64 guess and one Newton step."""
        if degree <= 2:
            return self if degree == 1 else self.sqrt()
        guess = np.exp(np.log(self.hi) / degree)
        step = (self / Wide.of(guess).power(degree) - 1.0).hi * guess / degree
        return _packed(guess, step)

    def sum(self, axis: int) -> Wide:
        """The sum along one axis, neighbours first; 0 for an axis of size 0."""
        hi, lo = np.moveaxis(self.hi, axis, 0), np.moveaxis(self.lo, axis, 0)
        if len(hi) == 0:
            return Wide.of(np.zeros(hi.shape[1:]))
        while len(hi) > 1:
            even = len(hi) // 2 * 2
            pairs = Wide(hi[0:even:2], lo[0:even:2]) + Wide(hi[1:even:2], lo[1:even:2])
            hi = np.concatenate([pairs.hi, hi[even:]])
            lo = np.concatenate([pairs.lo, lo[even:]])
        return Wide(hi[0], lo[0])

    def reshape(self, *shape: int) -> Wide:
        """The same values in another shape."""
        return Wide(self.hi.reshape(shape), self.lo.reshape(shape))


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """a + b rounded, and its exact rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _split(a: F64) -> tuple[F64, F64]:
    """a as the sum of two numbers of at most 26 bits (Veltkamp)."""
    big = a * 134217729.0
    high = big - (big - a)
    return high, a - high


def _two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """a * b rounded, and its exact rounding error (Dekker)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, rest


def _packed(total: F64, rest: F64) -> Wide:
    """total + rest with the rest at most half an ulp; an infinite or NaN total stands alone."""
    hi = total + rest
    if np.isfinite(hi).all():  # the usual case, in few passes
        return Wide(hi, rest - (hi - total))
    rest = np.where(np.isfinite(total) & np.isfinite(rest), rest, 0.0)
    hi = total + rest
    lo = np.where(np.isfinite(hi), rest - (hi - total), 0.0)
    return Wide(hi, lo)
