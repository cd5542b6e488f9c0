"""Decisions D-AVG-1 to D-AVG-8: what counts in the divisor, how the sum is formed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import FLOATS, check, data, dtype_of
from pool_support import bits, line, plane, same_bits

NAN, INF = float("nan"), float("inf")


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-1")
def test_overhang_never_counts() -> None:
    x = line([1, 2, 3, 4])
    y = cudml.average_pooling(x, 3, 2, 1, 1, include_padding=True, output_sizes=3)
    assert y.ravel().tolist() == [1, 3, 2]
    y = cudml.average_pooling(x, 4, 4, 1, 0, include_padding=True, output_sizes=2)
    assert y.ravel().tolist() == [1.5, 4]
    square = plane(np.ones((3, 3)))
    y = cudml.average_pooling(square, 2, 2, 0, (0, 1), include_padding=True, output_sizes=(2, 2))
    assert y.ravel().tolist() == [1, 0.5, 1, 0.5]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-1")
def test_overhanging_taps_of_a_dilated_window() -> None:
    # Taps of the second window: 4, 7 (end padding, 6..7) and 10 (overhang).
    x = line([0, 0, 0, 0, 8, 0])
    y = cudml.average_pooling(x, 3, 4, 0, 2, 3, include_padding=True, output_sizes=2)
    assert y.ravel().tolist() == [0, 4]
    y = cudml.average_pooling(x, 3, 4, 0, 2, 3, output_sizes=2)
    assert y.ravel().tolist() == [0, 8]


@pytest.mark.small
@pytest.mark.decision("D-AVG-2")
@pytest.mark.parametrize("dtype", FLOATS)
def test_only_real_taps_count(dtype: str) -> None:
    x = np.full((2, 3, 4, 5), 3, dtype_of(dtype))
    y = cudml.average_pooling(x, (3, 4), (1, 2), (2, 3), (1, 2))
    assert np.all(y == 3)
    check("average_pooling", data((2, 3, 4, 5), dtype, 2), (3, 4), (1, 2), (2, 3), (1, 2))


@pytest.mark.small
@pytest.mark.decision("D-AVG-3")
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_window_without_a_counted_tap_is_zero(include: bool, dtype: str) -> None:
    x = np.full((1, 2, 2, 3), INF, dtype_of(dtype))
    geometry = {"window_size": 2, "strides": 2, "start_padding": (4, 0), "end_padding": (0, 5)}
    y = cudml.average_pooling(x, include_padding=include, **geometry)
    assert y.shape == (1, 2, 3, 4)
    assert bits(y[:, :, :2]) == bytes(2 * 8 * y.itemsize)
    assert bits(y[:, :, :, 2:]) == bytes(2 * 6 * y.itemsize)
    assert np.all(y[:, :, 2, :2] == INF)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-3", "D-AVG-1")
@pytest.mark.parametrize("include", [False, True])
def test_window_with_all_taps_in_the_overhang_or_padding(include: bool) -> None:
    # The last window starts at 4 with n = 3 and one padded element: 4 is beyond the padded extent.
    x = line([5, 5, 5])
    y = cudml.average_pooling(x, 2, 4, 0, 1, 1, include_padding=include, output_sizes=2)
    assert y.ravel().tolist() == [5, 0]


@pytest.mark.small
@pytest.mark.decision("D-AVG-4")
def test_gaps_between_taps_never_count() -> None:
    x = line([1, 2, 3, 4, 5, 6, 7])
    for include in (False, True):
        y = cudml.average_pooling(x, 3, dilations=2, include_padding=include)
        assert y.ravel().tolist() == [3, 4, 5]
    y = cudml.average_pooling(x, 3, 2, 4, 2, 3, include_padding=True)
    assert y.ravel().tolist() == [1, np.float32(7) / np.float32(3), 4, 3]
    y = cudml.average_pooling(x, 3, 2, 4, 2, 3)
    assert y.ravel().tolist() == [3, 3.5, 4, 4.5]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-5")
@pytest.mark.parametrize("dtype", FLOATS)
def test_one_division_and_one_rounding(dtype: str) -> None:
    compute = np.float64 if dtype == "float64" else np.float32
    for window in (3, 5, 6, 7, 9, 10, 11, 13, 25, 49):
        x = np.zeros((1, 1, 1, 64 * window), dtype_of(dtype))
        x[..., ::window] = np.arange(1, 65)
        y = cudml.average_pooling(x, (1, window), (1, window)).ravel()
        exact = np.arange(1, 65).astype(compute) / compute(window)
        assert same_bits(y, exact.astype(x.dtype)), window


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-5")
def test_long_sums_do_not_stall() -> None:
    count = 2**20
    x = np.ones((1, 1, count), np.float32)
    x[..., 0] = 2**24
    exact = (2**24 + count - 1) / count
    error = abs(cudml.average_pooling(x, count).item() - exact)
    assert error <= (4096 + 20) * 2.0**-24 * exact
    tenths = np.full((1, 1, 1024, 1024), 0.1, np.float32)
    exact = math.fsum(tenths.ravel().tolist()) / tenths.size
    assert abs(cudml.average_pooling(tenths, 1024).item() - exact) <= 4116 * 2.0**-24 * exact
    rows = np.ones((1, 1, 2**15, 6), np.float32)  # windows that overlap
    rows[:, :, 0] = 2**24
    mean = (2**24 + 2**15 - 1) / 2**15
    result = cudml.average_pooling(rows, (2**15, 2))
    assert np.all(np.abs(result - mean) <= 4116 * 2.0**-24 * mean)
    narrow = tenths.reshape(1, 1, 2**19, 2)
    result = cudml.average_pooling(narrow, (2**19, 1))
    assert np.all(np.abs(result - exact) <= 4116 * 2.0**-24 * exact)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-5")
def test_half_precision_cancellation_is_exact() -> None:
    x = line([2048, 1, -2048, 1] * 16, "float16")
    assert cudml.average_pooling(x, 64).item() == 0.5
    assert cudml.average_pooling(x, 4, 4).ravel().tolist() == [0.5] * 16


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-AVG-6")
def test_overflow_of_the_sum() -> None:
    assert cudml.average_pooling(line([65504] * 100, "float16"), 100).item() == 65504
    assert cudml.average_pooling(line([3e38, 3e38]), 2).item() == INF
    assert cudml.average_pooling(line([-3e38, -3e38]), 2).item() == -INF
    assert cudml.average_pooling(line([1e308, 1e308], "float64"), 2).item() == INF
    assert cudml.average_pooling(line([3e38, 3e38], "float64"), 2).item() == 3e38


@pytest.mark.small
@pytest.mark.decision("D-AVG-7")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("include", [False, True])
def test_infinities_and_nan_propagate_to_their_windows_only(dtype: str, include: bool) -> None:
    x = line([INF, 1, -INF, 2, 3, NAN, 4, 5], dtype)
    y = cudml.average_pooling(x, 2, 1, 1, 1, include_padding=include).astype(np.float64)
    finite = 2.5 if include else 5
    expected = [INF, INF, -INF, -INF, 2.5, NAN, NAN, 4.5, finite]
    np.testing.assert_array_equal(y.ravel(), expected)
    both = cudml.average_pooling(line([INF, -INF], dtype), 2)
    assert np.isnan(both.astype(np.float64)).all()
    check("average_pooling", data((2, 3, 6, 7), dtype, 5, "special"), (2, 3), 1, 2, 1,
          include_padding=include)  # fmt: skip


@pytest.mark.small
@pytest.mark.decision("D-AVG-7")
def test_running_sums_do_not_carry_infinities_across_planes() -> None:
    x = np.ones((2, 3, 8, 16), np.float32)
    x[0, 1, 3, 5], x[1, 2, 0, 0] = INF, NAN
    y = cudml.average_pooling(x, (3, 3))
    touched = np.zeros(y.shape, bool)
    touched[0, 1, 1:4, 3:6], touched[1, 2, 0, 0] = True, True
    assert not np.isfinite(y[touched]).any() and np.all(y[~touched] == 1)


@pytest.mark.small
@pytest.mark.decision("D-AVG-8")
@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_of_either_sign_average_to_zero(dtype: str) -> None:
    y = cudml.average_pooling(line([-0.0] * 40, dtype), 3, 1, 1, 1)
    assert np.all(y == 0)


@pytest.mark.small
@pytest.mark.decision("D-AVG-11")
def test_padding_adds_zero_and_the_divisor_follows_the_flag() -> None:
    grad = np.full((1, 1, 2, 2), 4, np.float32)
    geometry = {"window_size": 2, "strides": 2, "start_padding": 1}
    result = cudml.average_pooling_grad(grad, (1, 1, 3, 3), **geometry)
    assert result.ravel().tolist() == [4, 2, 2, 2, 1, 1, 2, 1, 1]
    result = cudml.average_pooling_grad(grad, (1, 1, 3, 3), **geometry, include_padding=True)
    assert result.ravel().tolist() == [1] * 9


LONG = """
import resource
import numpy as np
import cudml

x = np.ones((1, 1, 1 << 25), "float16")
out = np.ones_like(x)
cudml.average_pooling(x[..., :9], 3, 1, 1, 1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cudml.average_pooling(x, 3, 1, 1, 1, include_padding=True, out=out)
assert out[0, 0, 0] == out[0, 0, -1] == np.float16(2 / 3) and out[0, 0, 1:-1].min() == 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 15)
"""


@pytest.mark.core
def test_divisors_of_a_long_row_take_no_memory() -> None:
    """Most of its windows count alike, but for the few at its ends."""
    assert child_says(LONG) == "True"


@pytest.mark.core
@pytest.mark.decision("D-AVG-1", "D-AVG-2")
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("order", ["C", "L"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("pads", [(1, 1), (0, 2), (700, 3), (5, 9000)])
def test_divisors_along_a_long_row(
    pads: tuple[int, int], step: int, order: str, padded: bool
) -> None:
    """Ones add up to how many are real."""
    rows, n, window = 2, 21_003, 5
    x = np.ones((1, 3, rows, n) if order == "C" else (1, rows, n, 3), "float32")
    x = x if order == "C" else np.moveaxis(x, -1, 1)
    y = cudml.average_pooling(
        x,
        (1, window),
        (1, step),
        (0, pads[0]),
        (0, pads[1]),
        include_padding=padded,
        output_sizes="ceil",
    )
    at = np.arange(y.shape[-1])[:, None] * step - pads[0] + np.arange(window)
    real = ((at >= 0) & (at < n)).sum(1)
    counted = (at < n + pads[1]).sum(1) if padded else real
    expected = (real / np.maximum(counted, 1)).astype("float32")
    assert (y == expected).all()
