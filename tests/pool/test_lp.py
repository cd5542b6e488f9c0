"""Decisions D-LP-1 to D-LP-10: norms of every exponent that neither overflow nor vanish."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from harness import FLOATS, check, data, dtype_of, refused
from pool_support import LIMIT, line, plane, same_bits

NAN, INF = float("nan"), float("inf")
POWERS = (1, 2, 3, 4, 5, 7, 8, 10, 31, 100, 1000)


def norm(values: Any, p: int, dtype: str = "float32") -> float:
    return float(cudml.lp_pooling(line(values, dtype), len(values), p=p).item())


@pytest.mark.small
@pytest.mark.decision("D-LP-1")
@pytest.mark.parametrize("dtype", FLOATS)
def test_absolute_values(dtype: str) -> None:
    assert norm([-3, 2, -1], 1, dtype) == 6
    for p in POWERS:
        assert norm([-3, 0, 0], p, dtype) == pytest.approx(3, rel=2e-16)
        x = data((1, 2, 5, 7), dtype, p, "exact")
        assert same_bits(cudml.lp_pooling(x, 2, p=p), cudml.lp_pooling(np.abs(x), 2, p=p))


@pytest.mark.small
@pytest.mark.decision("D-LP-2")
@pytest.mark.parametrize("dtype", FLOATS)
def test_sum_not_mean(dtype: str) -> None:
    assert norm([1, 1, 1, 1], 1, dtype) == 4
    assert norm([1, 1, 1, 1], 2, dtype) == 2
    assert norm([1] * 16, 4, dtype) == pytest.approx(2, rel=1e-6)


@pytest.mark.decision("D-LP-3")
def test_exponent_zero_is_refused() -> None:
    with refused(ValueError, "lp_pooling: P is 0", "1", "4294967295"):
        norm([1, 2], 0)
    for wrong in (-1, LIMIT + 1):
        with refused(ValueError, f"lp_pooling: P is {wrong}", "4294967295"):
            norm([1, 2], wrong)


@pytest.mark.small
@pytest.mark.decision("D-LP-4")
def test_padding_adds_nothing() -> None:
    x = plane([[1, -2, 3], [-4, 5, -6], [7, -8, 9]])
    y = cudml.lp_pooling(x, 2, 2, 1, 1, p=1)
    assert y.ravel().tolist() == [1, 5, 11, 28]
    with refused(TypeError, "include_padding"):
        cudml.lp_pooling(x, 2, include_padding=True)
    assert cudml.lp_pooling(plane([[3]]), 5, 1, 2, 2, p=7).item() == 3


@pytest.mark.small
@pytest.mark.decision("D-LP-5")
@pytest.mark.parametrize("p", POWERS)
def test_window_without_real_taps_is_zero(p: int) -> None:
    y = cudml.lp_pooling(line([INF, 4]), 2, 2, 2, 2, p=p)
    assert y.ravel().tolist() == [0, INF, 0]
    assert y.tobytes()[:4] == bytes(4)


@pytest.mark.small
@pytest.mark.decision("D-LP-6")
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        ("float32", 1e30), ("float32", 1e-30), ("float32", 2.0**-140), ("float32", 1e38),
        ("float32", 1e-20), ("float32", 1e12), ("float64", 1e300), ("float64", 1e-300),
        ("float64", 2.0**-1060), ("bfloat16", 1e30), ("bfloat16", 1e-30), ("float16", 2.0**-22),
    ],
)  # fmt: skip
def test_finite_results_come_out_finite_and_non_zero(dtype: str, scale: float, p: int) -> None:
    x = line([scale, -scale / 2, scale / 4, 0], dtype)
    shares = np.abs(x.astype(np.float64)).astype(np.longdouble) / scale
    exact = np.sum(shares**p) ** np.longdouble(1 / p)
    result = float(cudml.lp_pooling(x, 4, p=p).item()) / scale
    unit = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}
    grain = 2.0 ** {"float64": -1074, "float32": -149, "bfloat16": -133, "float16": -24}[dtype]
    # The logarithm enters because a root of an odd order may be taken as a power.
    slack = 16 + abs(np.log(scale)) / 2
    assert abs(result - float(exact)) <= slack * unit[dtype] + grain / scale


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-LP-6")
def test_intermediate_range() -> None:
    assert norm([1e5] * 4, 8) == pytest.approx(118920.71, rel=1e-6)
    assert norm([1e-20, 1e-20], 2) == pytest.approx(1.41421356e-20, rel=1e-6)
    assert norm([3e38, 1e38], 2) == pytest.approx(float(np.hypot(3e38, 1e38)), rel=1e-6)
    assert norm([3e38, 3e38], 2) == INF
    assert norm([2e38, 2e38], 1) == INF
    assert norm([60000, 60000], 1, "float16") == INF
    assert norm([60000, 1], 2, "float16") == 60000
    assert norm([1e-45], 2) == np.float32(1e-45)
    assert norm([1e-45, 1e-45], 1) == np.float32(3e-45)
    assert norm([1e-45, 1e-45, 0, 0], 3) == np.float32(1e-45)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-LP-6")
@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_huge_and_tiny_windows_beside_each_other(p: int) -> None:
    row = np.concatenate([np.full(8, v) for v in (1e30, 1.0, 1e-30, 0, 1e-42, 1e25)])
    check("lp_pooling", row.reshape(1, 1, 4, 12).astype(np.float32), 2, p=p)
    check("lp_pooling", row.reshape(1, 3, 16).astype(np.float32), 3, 1, 1, 1, p=p)


@pytest.mark.small
@pytest.mark.decision("D-LP-7")
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_beats_infinity_beats_numbers(dtype: str, p: int) -> None:
    x = line([1, NAN, INF, 2, -INF, 3, 4], dtype)
    y = cudml.lp_pooling(x, 2, p=p).astype(np.float64).ravel()
    assert np.isnan(y[:2]).all() and np.all(y[2:5] == INF) and 4 <= y[5] <= 7
    assert np.isnan(norm([INF, 1, NAN], p, dtype)) and np.isnan(norm([NAN, 1, INF], p, dtype))
    assert norm([INF, -INF], p, dtype) == INF


@pytest.mark.small
@pytest.mark.decision("D-LP-8")
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_give_positive_zero(dtype: str, p: int) -> None:
    y = cudml.lp_pooling(line([-0.0] * 20, dtype), 3, 1, 1, 1, p=p)
    assert np.all(y == 0) and not np.signbit(y.astype(np.float64)).any()
    one = cudml.lp_pooling(line([-0.0] * 20, dtype), 1, p=p)
    assert np.all(one == 0) and not np.signbit(one.astype(np.float64)).any()


@pytest.mark.small
@pytest.mark.decision("D-LP-9")
@pytest.mark.parametrize("p", [1000, 65535, 65537, 2**20, 2**31, LIMIT - 1, LIMIT])
@pytest.mark.parametrize("dtype", FLOATS)
def test_large_exponents_tend_to_the_maximum(dtype: str, p: int) -> None:
    largest = norm([-7, 5, 2, 0], p, dtype)
    assert largest == pytest.approx(7, rel=2e-6)
    equal = norm([3] * 9, p, dtype)
    assert equal == pytest.approx(3 * 9 ** (1 / p), rel=1e-2 if dtype == "bfloat16" else 1e-3)
    check("lp_pooling", data((1, 2, 5, 7), dtype, 9), (2, 3), p=p, layouts=["contiguous"])


@pytest.mark.decision("D-LP-10")
@pytest.mark.parametrize("p", [2.5, 2.0, np.float32(2), "2", None, True, (2,), 1j], ids=repr)
def test_exponent_is_an_integer(p: Any) -> None:
    with refused(TypeError, "lp_pooling: P"):
        cudml.lp_pooling(line([3, 4]), 2, p=p)


@pytest.mark.small
def test_exponent_defaults_to_two() -> None:
    assert cudml.lp_pooling(line([3, 4]), 2).item() == 5
    assert norm([3, 4, 5], np.int8(3)) == pytest.approx(6, rel=1e-6)
    assert dtype_of("float16") == cudml.lp_pooling(line([3, 4], "float16"), 2).dtype


@pytest.mark.small
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("name", ["lp_pooling", "average_pooling"])
@pytest.mark.parametrize(
    ("shape", "order"), [((3, 2, 8, 1, 5), (4, 2, 3, 1, 0)), ((2, 2, 4, 13, 1), (4, 3, 0, 1, 2))]
)
def test_bits_do_not_depend_on_where_one_element_is_written_to(
    name: str, shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    """Windows over a dimension of one element see it or nothing, wherever they stand in y."""
    x = data([shape[d] for d in order], "float32", 4).transpose(np.argsort(order))
    geometry = ([min(3, n + 1) for n in shape[2:]], 1, 1, 1)
    want = getattr(cudml, name)(x, *geometry)
    for y_order in ((0, 1, 2, 3, 4), order, (0, 2, 3, 4, 1), (0, 1, 4, 2, 3), (4, 3, 2, 1, 0)):
        sizes = [want.shape[d] for d in y_order]
        out = np.full(sizes, np.nan, np.float32).transpose(np.argsort(y_order))
        assert same_bits(getattr(cudml, name)(x, *geometry, out=out), want), y_order
