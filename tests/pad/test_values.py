"""The padding value: exact integers, floats cut and limited, numbers rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import cudml
from harness import refused
from pool_support import EVERY, FLOATS, INTEGERS, bits, dtype_of

# Significand bits, smallest and largest exponent of a normal number.
FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}


def filled(dtype: str, value: Any) -> np.ndarray:
    """The element that `value` becomes in an array of `dtype`."""
    x = np.zeros((1, 2), dtype_of(dtype))
    y = cudml.padding(x, (0, 2), (1, 0), value=value)
    assert y.dtype == x.dtype
    assert bits(y[0, 2:]) == bits(x[0])
    first = y[0, :1]
    assert all(bits(y[r, c : c + 1]) == bits(first) for r, c in ((0, 1), (1, 0), (1, 3)))
    return first


def rounded(value: Any, dtype: str) -> Fraction | float:
    """`value` rounded once, to nearest even, by exact rational arithmetic."""
    digits, low, high = FORMATS[dtype]
    exact = Fraction(value)
    if exact == 0:
        return exact
    size, exponent = abs(exact), 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, low) - digits + 1)
    result = round(size / step) * step
    sign = 1 if exact > 0 else -1
    return sign * (float("inf") if result >= Fraction(2) ** (high + 1) else result)


# Numbers near the middle of two neighbours of some type: a second rounding goes the other way.
NUMBERS = {
    "an int": 3,
    "a negative int": -77,
    "a float": 10.6,
    "the middle of float64": 2**53 + 1,
    "the other middle of float64": -(2**53 + 3),
    "above the middle of float32, below float64": 2**53 + 2**29 + 1,
    "the middle of float32": 2**53 + 2**29,
    "the middle of float16": 2049,
    "above the middle of float16": 2049 + 2.0**-20,
    "just above 1 + 2**-11": 1 + 2**-11 + 2**-40,
    "just below 1 + 3 * 2**-11": 1 + 3 * 2**-11 - 2**-40,
    "the middle 1 + 2**-11": 1 + 2**-11,
    "above the middle of bfloat16": 2**60 + 2**52 + 1,
    "just above 1 + 2**-8": 1 + 2**-8 + 2**-40,
    "just above 1 + 2**-24": 1 + 2**-24 + 2**-52,
    "the largest float16": 65504,
    "rounds down to the largest float16": 65519.999999,
    "overflows float16": 65520,
    "the largest float32": (2**24 - 1) * 2**104,
    "rounds down to the largest float32": 2**128 - 2**103 - 1,
    "overflows float32": 2**128 - 2**103,
    "the largest float64": (2**53 - 1) * 2**971,
    "rounds down to the largest float64": 2**1024 - 2**970 - 1,
    "overflows float64": 2**1024 - 2**970,
    "a huge int": 10**400,
    "a huge negative int": -(10**400),
    "half the smallest float16": 2.0**-25,
    "above half the smallest float16": 2.0**-25 * (1 + 2**-50),
    "a subnormal float16": 6e-8,
    "half the smallest float32": 2.0**-150,
    "above half the smallest float32": 2.0**-150 * (1 + 2**-50),
    "a subnormal float32": 1e-45,
    "a subnormal float64": 5e-324,
}


@pytest.mark.small
@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", NUMBERS)
def test_number_for_a_floating_array_is_rounded_once(case: str, dtype: str) -> None:
    value = NUMBERS[case]
    assert float(filled(dtype, value)[0]) == rounded(value, dtype)


@pytest.mark.small
@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "value",
    [
        np.float16(0.1),
        np.float32(0.1),
        np.float64(0.1),
        np.float64(1 + 2**-11 + 2**-40),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.int64(-(2**53) - 1),
        np.int64(2**62 + 2**38 + 1),
    ],
    ids=repr,
)
def test_numpy_scalar_for_a_floating_array(value: Any, dtype: str) -> None:
    exact = int(value) if isinstance(value, np.integer) else float(value)
    assert float(filled(dtype, value)[0]) == rounded(exact, dtype)


@pytest.mark.small
@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize("dtype", FLOATS)
def test_long_double_is_rounded_once(dtype: str) -> None:
    value = np.longdouble(1) + np.longdouble(2) ** -11 + np.longdouble(2) ** -60
    if value == np.longdouble(1) + np.longdouble(2) ** -11:
        pytest.skip("long double is no wider than float64 on this machine")
    exact = 1 + Fraction(1, 2**11) + Fraction(1, 2**60)
    assert float(filled(dtype, value)[0]) == rounded(exact, dtype)


@pytest.mark.small
@pytest.mark.decision("D-PAD-3", "D-PAD-5")
@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        ("int64", Fraction(2**63 - 3), 2**63 - 3),
        ("int64", Fraction(2**64 - 5, 2), 2**63 - 3),
        ("int64", Fraction(2**63), 2**63 - 1),
        ("int64", Fraction(1 - 2**64, 2), 1 - 2**63),
        ("int64", -Fraction(10**30), -(2**63)),
        ("uint64", Fraction(2**63 + 1), 2**63 + 1),
        ("uint64", Fraction(2**63 - 1), 2**63 - 1),
        ("uint64", Fraction(2**65 - 3, 2), 2**64 - 2),
        ("uint64", Fraction(2**64), 2**64 - 1),
        ("uint64", Fraction(-3, 2), 0),
        ("int32", Fraction(2**62 + 1), 2**31 - 1),
        ("uint8", Fraction(511, 2), 255),
        ("int8", Fraction(-257, 2), -128),
    ],
)
def test_longer_floats_for_integers_are_truncated_then_saturated(
    dtype: str, value: Fraction, want: int
) -> None:
    """Exactly: the double beside 2**63 - 3 is 2**63."""
    assert int(filled(dtype, value)[0]) == want
    if np.longdouble(2) ** 63 - 3 != np.longdouble(2) ** 63 and value.denominator == 1:
        high, low = divmod(int(value), 2**40)
        long = np.longdouble(high) * np.longdouble(2**40) + np.longdouble(low)
        assert int(filled(dtype, long)[0]) == want


@pytest.mark.small
@pytest.mark.decision("D-PAD-4")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_a_value_just_beside_a_tie_is_rounded_once(dtype: str, digits: int, sign: int) -> None:
    """The nearest float32 of these is one off the tie, on either side, and its last bit is odd."""
    if dtype not in FLOATS:
        pytest.skip(f"NumPy has no {dtype} here")
    step = Fraction(2) ** (1 - digits)
    for lower in (1, 1 + step):
        for off in (-Fraction(3, 2**25), Fraction(3, 2**25), -Fraction(1, 2**40)):
            value = sign * (lower + step / 2 + off)
            exact = sign * (lower if off < 0 else lower + step)
            assert Fraction(float(filled(dtype, float(value))[0])) == exact


@pytest.mark.small
@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_beyond_every_float_become_infinities_of_their_sign(dtype: str) -> None:
    for sign in (1, -1):
        for value in (Fraction(sign * 10**400), sign * 10**400):
            assert float(filled(dtype, value)[0]) == sign * float("inf")


@pytest.mark.small
@pytest.mark.decision("D-PAD-4")
def test_a_float32_value_widens_exactly_and_narrows_once() -> None:
    assert float(filled("float64", np.float32(10.6))[0]) == 10.6000003814697265625
    assert float(filled("float16", np.float32(10.6))[0]) == 10.6015625
    assert float(filled("float16", np.float32(7e4))[0]) == float("inf")


@pytest.mark.small
@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_of_a_floating_array(dtype: str) -> None:
    assert np.isnan(float(filled(dtype, float("nan"))[0]))
    assert float(filled(dtype, float("-inf"))[0]) == float("-inf")
    assert np.signbit(float(filled(dtype, -0.0)[0]))
    assert not np.signbit(float(filled(dtype, 0)[0]))


@pytest.mark.small
@pytest.mark.decision("D-PAD-5")
@pytest.mark.bug("PAD-06")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_is_exact_and_must_fit(dtype: str) -> None:
    info = np.iinfo(dtype)
    near = (info.min, info.min + 1, 0, 1, info.max // 2 + 1, info.max - 1, info.max)
    for value in near:
        assert int(filled(dtype, value)[0]) == value
        assert int(filled(dtype, np.array(value, dtype)[()])[0]) == value
    x = np.zeros(2, dtype)
    for value in (info.min - 1, info.max + 1, 2**64, -(2**80), 10**400):
        with refused(ValueError, "padding", "PaddingValue", str(info.max)):
            cudml.padding(x, 1, 1, value=value)


@pytest.mark.small
@pytest.mark.bug("PAD-06")
@pytest.mark.parametrize("value", [2**64 - 1, 2**64 - 1024, 2**63 + 1, 2**53 + 1])
def test_uint64_constant_does_not_travel_through_float(value: int) -> None:
    x = np.array([value, value - 1], np.uint64)
    for mode in ("constant", "edge", "wrap"):
        y = cudml.padding(x, 1, 0, mode=mode, value=value)
        assert int(y[0]) == (value - 1 if mode == "wrap" else value)
        assert y[1:].tolist() == x.tolist()


@pytest.mark.small
@pytest.mark.bug("PAD-06")
@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, -(2**63), 2**63 - 1])
def test_int64_constant_does_not_travel_through_float(value: int) -> None:
    assert int(filled("int64", value)[0]) == value
    assert int(filled("int64", np.int64(value))[0]) == value


def limited(value: float, dtype: str) -> int:
    """Cut toward zero, then limited to the type."""
    info = np.iinfo(dtype)
    if np.isinf(value):
        return info.max if value > 0 else info.min
    return min(max(int(value), info.min), info.max)


FLOATS_FOR_INTEGERS = (
    3.9, -3.9, 0.999, -0.999, 10.6, -10.6, 127.5, -128.9, 255.9, 300.0, -300.0, 32767.9, 65535.5,
    2.0**31, 2.0**31 - 0.5, -(2.0**31) - 1, 2.0**32, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e20,
    -1e20, float("inf"), float("-inf"), -0.0, 5e-324,
)  # fmt: skip


@pytest.mark.small
@pytest.mark.decision("D-PAD-3", "D-PAD-5")
@pytest.mark.bug("PAD-07")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_float_for_an_integer_array_is_cut_and_limited(dtype: str) -> None:
    for value in FLOATS_FOR_INTEGERS:
        assert int(filled(dtype, value)[0]) == limited(value, dtype), value
        assert int(filled(dtype, np.float64(value))[0]) == limited(value, dtype), value
    assert int(filled(dtype, np.float32(10.6))[0]) == 10
    assert int(filled(dtype, np.float16(-10.6))[0]) == limited(-10.0, dtype)


@pytest.mark.decision("D-PAD-3")
@pytest.mark.bug("PAD-07")
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64])
def test_nan_for_an_integer_array_is_refused(dtype: str, kind: Any) -> None:
    x, out = np.zeros(2, dtype), np.full(4, 5, dtype)
    with refused(ValueError, "padding", "PaddingValue", "NaN"):
        cudml.padding(x, 1, 1, value=kind("nan"), out=out)
    assert out.tolist() == [5] * 4


@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("value", [True, False, np.True_, "1", None, 1j, [1], np.complex64(1)])
def test_other_kinds_of_value_are_refused(dtype: str, value: Any) -> None:
    x = np.zeros(2, dtype_of(dtype))
    with refused(TypeError, "padding", "PaddingValue"):
        cudml.padding(x, 1, 1, value=value)


@pytest.mark.small
@pytest.mark.decision("D-PAD-7")
@pytest.mark.parametrize("mode", ["edge", "reflection", "symmetric", "wrap"])
@pytest.mark.parametrize("value", [float("nan"), 10**400, -1, 3.5])
def test_value_is_ignored_in_other_modes(mode: str, value: Any) -> None:
    x = np.array([1, 2], np.uint8)
    want = cudml.padding(x, 1, 2, mode=mode)
    assert cudml.padding(x, 1, 2, mode=mode, value=value).tolist() == want.tolist()
    assert cudml.padding(x, 1, 2, mode=[mode], value=value).tolist() == want.tolist()


@pytest.mark.decision("D-PAD-14")
def test_value_is_checked_as_soon_as_one_mode_is_constant() -> None:
    x = np.zeros((2, 2), np.int8)
    for mode in ("constant", ["constant", "edge"], ("wrap", "constant")):
        with refused(ValueError, "padding", "PaddingValue", "127"):
            cudml.padding(x, 0, 0, mode=mode, value=300)
        with refused(ValueError, "padding", "PaddingValue"):
            cudml.padding(x, (0, 0), (0, 0), mode=mode, value=float("nan"))


@pytest.mark.small
@pytest.mark.parametrize("dtype", EVERY)
def test_only_the_bytes_of_the_element_are_written(dtype: str) -> None:
    """A value that fills the element leaves its neighbours alone at every offset."""
    out = np.full(9, 1, dtype_of(dtype))
    x = np.full(3, 2, dtype_of(dtype))
    cudml.padding(x, 1, 1, value=3, out=out[2:7])
    assert out.astype("float64").tolist() == [1, 1, 3, 2, 2, 2, 3, 1, 1]
