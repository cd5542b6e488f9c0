"""Bugs that other libraries had in pooling: POOL-01 to POOL-20 of the table, exact numbers."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from harness import check, refused
from pool_support import ceil_limit, channels_last, dtype_of, floor_size, line, plane, same_bits

NAN, INF = float("nan"), float("inf")
EMPTY = 0xFFFFFFFF  # uint32 index of a window without a real tap


def equal(actual: np.ndarray, expected: object) -> None:
    """Same numbers (NaN equals NaN), without the leading unit dimensions."""
    wanted = np.asarray(expected, np.float64)
    np.testing.assert_array_equal(np.asarray(actual, np.float64).reshape(wanted.shape), wanted)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-01")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint64"])
def test_start_padding_keeps_the_phase_of_the_dilation(dtype: str) -> None:
    x = line([1, 9, 2, 8, 3, 7, 4, 6, 5], dtype)
    y, index = cudml.max_pooling(
        x, 2, start_padding=1, end_padding=1, dilations=2, return_indices=True
    )
    equal(y, [9, 2, 9, 3, 8, 4, 7, 5, 6])
    equal(index, [1, 2, 1, 4, 3, 6, 5, 8, 7])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-01")
def test_start_padding_beyond_one_dilation_step() -> None:
    x = line([1, 2, 3, 4, 5, 6, 7])
    y = cudml.lp_pooling(x, 3, start_padding=5, dilations=3, p=1)
    equal(y, [2, 3, 1 + 4, 2 + 5, 3 + 6, 1 + 4 + 7])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-02")
def test_average_keeps_end_padding_and_dilation() -> None:
    geometry = {
        "window_size": 3,
        "strides": 2,
        "start_padding": 2,
        "end_padding": 1,
        "dilations": 2,
    }
    x = line(range(1, 10))
    included = cudml.average_pooling(x, include_padding=True, **geometry)
    equal(included, np.array([np.float32(4) / np.float32(3), 3, 5, 7]))
    equal(cudml.average_pooling(x, include_padding=False, **geometry), [2, 3, 5, 7])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-03")
def test_average_reads_the_right_pads() -> None:
    x = plane(np.ones((2, 2)))
    included = cudml.average_pooling(x, 2, end_padding=(1, 1), include_padding=True)
    equal(included, [[1, 0.5], [0.5, 0.25]])
    equal(cudml.average_pooling(x, 2, end_padding=(1, 1)), np.ones((2, 2)))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-03")
def test_average_of_ones_with_six_different_pads() -> None:
    sizes, window, start, end = (2, 3, 4), (2, 4, 2), (0, 1, 2), (3, 4, 5)
    shares = [
        [
            sum(0 <= o - p0 + k < n for k in range(w)) / w
            for o in range(floor_size(n, w, 1, p0, p1, 1))
        ]
        for n, w, p0, p1 in zip(sizes, window, start, end, strict=True)
    ]
    expected = np.einsum("d,h,w->dhw", *map(np.array, shares))
    x = np.ones((2, 2, *sizes), np.float32)
    y = cudml.average_pooling(x, window, start_padding=start, end_padding=end, include_padding=True)
    equal(y, np.broadcast_to(expected, (2, 2, *expected.shape)))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-04")
def test_end_padding_counts_and_overhang_does_not() -> None:
    x = line([1, 2, 3, 4, 5])
    equal(cudml.average_pooling(x, 2, 2, end_padding=1), [1.5, 3.5, 5])
    equal(cudml.average_pooling(x, 2, 2, end_padding=1, include_padding=True), [1.5, 3.5, 2.5])
    equal(cudml.average_pooling(x, 2, 2, output_sizes=3, include_padding=True), [1.5, 3.5, 5])
    equal(cudml.average_pooling(x, 2, 2, output_sizes="ceil", include_padding=True), [1.5, 3.5, 5])


@pytest.mark.small
@pytest.mark.bug("POOL-05")
@pytest.mark.decision("D-POOL-1", "D-POOL-2", "D-POOL-3")
def test_output_size_of_ten_thousand_geometries() -> None:
    rng = np.random.default_rng(5)
    rejected = 0
    for _ in range(10_000):
        n, w, s, d = (int(v) for v in rng.integers(1, (30, 7, 6, 5)))
        p0, p1 = (int(v) for v in rng.integers(0, 6, 2))
        x = np.zeros((1, 1, n), np.int8)
        arguments = (w, s, p0, p1, d)
        if (w - 1) * d + 1 > n + p0 + p1:
            rejected += 1
            with pytest.raises(ValueError, match="WindowSize"):
                cudml.max_pooling(x, *arguments)
        else:
            expected = floor_size(n, *arguments)
            assert cudml.max_pooling(x, *arguments).shape[2] == expected, (n, *arguments)
    assert rejected > 500


@pytest.mark.small
@pytest.mark.bug("POOL-05")
@pytest.mark.decision("D-POOL-2")
def test_every_declared_size_up_to_the_ceiling_is_accepted() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        n, w, s, d = (int(v) for v in rng.integers(1, (30, 6, 6, 4)))
        p0, p1 = (int(v) for v in rng.integers(0, 6, 2))
        if (w - 1) * d + 1 > n + p0 + p1:
            continue
        arguments, top = (w, s, p0, p1, d), ceil_limit(n, w, s, p0, p1, d)
        x = np.zeros((1, 1, n), np.int8)
        for declared in range(1, top + 1):
            assert cudml.max_pooling(x, *arguments, output_sizes=declared).shape[2] == declared
        for declared in (0, top + 1):
            with refused(ValueError, "OutputTensor.Sizes[", f" {declared}", f"{top}"):
                cudml.max_pooling(x, *arguments, output_sizes=declared)


@pytest.mark.bug("POOL-06")
def test_output_size_beyond_the_integers_of_float32() -> None:
    x = np.broadcast_to(np.int8(0), (1, 1, 19199998))
    with refused(ValueError, "OutputTensor.Sizes[", "19199999", "19199998"):
        cudml.max_pooling(x, 1921, 1, 960, 960, output_sizes=19199999)
    x = np.arange(16777217, dtype=np.uint32).astype(np.uint8).reshape(1, 1, -1)
    y = cudml.max_pooling(x, 1)
    assert same_bits(y, x)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-07")
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_dilated_max_in_every_layout(dtype: str) -> None:
    x = (np.arange(75) * 37 % 101).reshape(1, 3, 5, 5).astype(dtype_of(dtype))
    check("max_pooling", x, 3, dilations=2, return_indices=True)


COUNTED = (np.arange(42) * 37 % 101).reshape(1, 1, 2, 3, 7)
ODD = {
    "window_size": (2, 2, 3),
    "strides": (1, 2, 2),
    "dilations": (1, 2, 2),
    "start_padding": (1, 0, 2),
    "end_padding": (0, 1, 1),
}


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-08")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_axes_are_not_interchanged_in_max(dtype: str) -> None:
    y, index = cudml.max_pooling(COUNTED.astype(dtype_of(dtype)), return_indices=True, **ODD)
    equal(y, [87, 87, 87, 87, 87, 90])
    equal(index, [16, 16, 16, 16, 16, 27])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-08")
@pytest.mark.parametrize(
    ("name", "extra", "expected"),
    [
        (
            "average_pooling",
            {"include_padding": True},
            [14.5, 281 / 12, 26.75, 35.5, 578 / 12, 557 / 12],
        ),
        ("average_pooling", {}, [43.5, 281 / 6, 53.5, 53.25, 578 / 12, 557 / 12]),
        (
            "lp_pooling",
            {"p": 3},
            [102.1508725, 111.4879635, 112.5962830, 130.7614874, 137.2267543, 134.6282043],
        ),
    ],
    ids=["average with padding", "average without", "L3"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_axes_are_not_interchanged(
    name: str, extra: dict[str, object], expected: list[float], dtype: str
) -> None:
    y = getattr(cudml, name)(COUNTED.astype(dtype), **ODD, **extra)
    assert y.shape == (1, 1, 2, 1, 3)
    np.testing.assert_allclose(y.ravel(), expected, rtol=4e-7)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-09")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, channels_last], ids=["rows", "channels"])
def test_nan_survives_in_every_vector_lane(dtype: str, layout: object) -> None:
    one = np.array([[1, NAN, 3], [4, 5, 6], [7, 8, 9]])
    for channels in range(1, 34):
        x = layout(np.tile(one, (1, channels, 1, 1)).astype(dtype_of(dtype)))
        y, index = cudml.max_pooling(x, 2, return_indices=True)
        equal(y, np.tile([[NAN, NAN], [8, 9]], (channels, 1, 1)))
        first = 9 * np.arange(channels)[:, None, None]
        equal(index, first + np.array([[1, 1], [7, 8]]))
        equal(cudml.max_pooling(x, 2), np.tile([[NAN, NAN], [8, 9]], (channels, 1, 1)))


@pytest.mark.small
@pytest.mark.bug("POOL-09")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_at_every_place_of_a_window(dtype: str) -> None:
    for place in range(3):
        x = np.array([1.0, 2.0, 3.0])
        x[place] = NAN
        y, index = cudml.max_pooling(line(x, dtype), 3, return_indices=True)
        equal(y, [NAN])
        equal(index, [place])
    equal(cudml.max_pooling(line([NAN] * 5, dtype), 2), [NAN] * 4)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-10")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_minus_infinity_is_an_element_and_the_empty_window(dtype: str) -> None:
    y, index = cudml.max_pooling(line([-INF] * 4, dtype), 2, return_indices=True)
    equal(y, [-INF] * 3)
    equal(index, [0, 1, 2])
    y, index = cudml.max_pooling(
        line([-7, -5, -6], dtype), 3, start_padding=4, end_padding=4, return_indices=True
    )
    equal(y, [-INF, -INF, -7, -5, -5, -5, -6, -INF, -INF])
    equal(index, [EMPTY, EMPTY, 0, 1, 1, 1, 2, EMPTY, EMPTY])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-11")
def test_integers_start_from_no_element() -> None:
    lowest = np.full((1, 1, 5), -128, np.int8)
    y, index = cudml.max_pooling(lowest, 2, start_padding=1, end_padding=1, return_indices=True)
    equal(y, [-128] * 6)
    equal(index, [0, 0, 1, 2, 3, 4])
    grid = np.arange(-12, 12, dtype=np.int8).reshape(1, 1, 4, 6)
    equal(cudml.max_pooling(grid, 2, 2), [[-5, -3, -1], [7, 9, 11]])
    zeros = np.zeros((1, 1, 3), np.uint8)
    y, index = cudml.max_pooling(zeros, 2, start_padding=1, end_padding=1, return_indices=True)
    equal(y, [0] * 4)
    equal(index, [0, 0, 1, 2])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-12")
def test_padding_as_large_as_the_window() -> None:
    geometry = {"window_size": 2, "strides": 2, "start_padding": 2, "end_padding": 3}
    x = line([1, 2, 3, 4, 5])
    equal(cudml.average_pooling(x, include_padding=True, **geometry), [0, 1.5, 3.5, 2.5, 0])
    equal(cudml.average_pooling(x, **geometry), [0, 1.5, 3.5, 5, 0])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-13")
def test_half_precision_powers_do_not_overflow() -> None:
    equal(cudml.lp_pooling(line([240, 161], "float16"), 2, p=2), [289])
    equal(cudml.lp_pooling(line([60000] * 4, "float16"), 4, p=2), [INF])
    equal(cudml.lp_pooling(line([30000] * 4, "float16"), 4, p=2), [60000])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-14")
def test_lp_range_and_sign() -> None:
    def pooled(values: list[float], p: int) -> float:
        return float(cudml.lp_pooling(line(values), len(values), p=p).item())

    assert pooled([1e30, 1e30], 2) == pytest.approx(1.41421356e30, rel=1e-6)
    assert pooled([1e-30, 1e-30], 2) == pytest.approx(1.41421356e-30, rel=1e-6)
    assert pooled([-2, 1], 3) == pytest.approx(2.0800838, rel=1e-6)
    assert pooled([-2, 1], 1) == 3
    assert pooled([0, 0, -0.0], 2) == 0
    assert all(np.isnan(pooled([1, NAN, INF], p)) for p in (1, 2, 3, 10))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-15")
@pytest.mark.decision("D-AVG-5", "D-AVG-6")
def test_half_precision_sums_in_single_precision() -> None:
    equal(cudml.average_pooling(line([60000] * 64, "float16"), 64), [60000])
    equal(cudml.average_pooling(line([1] * 4096, "float16"), 4096), [1])
    equal(cudml.average_pooling(line([1] * 4096, "bfloat16"), 4096), [1])
