"""Errors well inside the worst case: those of the CPU's short chains, and errors on the average."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import cudml
from cudml import bounds, reference

U = {"float32": 2.0**-24, "float64": 2.0**-53}
DTYPES = [*U]
MVN = "mean_variance_normalization"


def chain(n: int) -> int:
    """The longest chain of additions that the contract allows."""
    return min(n, 4096 + math.ceil(math.log2(n)))


def random(shape: tuple[int, ...], dtype: str, mean: float = 0.0) -> np.ndarray:
    return (np.random.default_rng(shape).standard_normal(shape) + mean).astype(dtype)


class Result(NamedTuple):
    """What came out, what should have, the size that errors are measured by, terms of a sum."""

    got: np.ndarray
    want: np.ndarray
    scale: np.ndarray
    terms: int

    def rms(self) -> float:
        error = (self.got - self.want) / np.where(self.scale == 0, 1, self.scale)
        return math.sqrt(np.mean(np.square(error)))


def judged(op: str, scale: np.ndarray, terms: int, *args: Any, **kwargs: Any) -> Result:
    """Runs `op`; its elements must keep their bounds."""
    want, got = bounds.expected(op, *args, **kwargs), getattr(cudml, op)(*args, **kwargs)
    verdict = bounds.compare(got, want)
    assert verdict.ok, verdict.message
    return Result(got.astype(np.float64), want.values[0], scale, terms)


def pooled(op: str, shape: tuple[int, ...], dtype: str, window: Any, **more: Any) -> Result:
    x = random(shape, dtype, 3)  # sums grow, and so do their errors
    scale = reference.average_pooling(np.abs(x), window)
    if op == "lp_pooling":
        scale = reference.lp_pooling(x, window, **more)
    sizes = [window] * (len(shape) - 2) if isinstance(window, int) else window
    return judged(op, scale, math.prod(sizes), x, window, **more)


def gradient(op: str, dtype: str) -> Result:
    """Every element in 25 windows; one element of the maximum's wins all of them."""
    grad, shape = random((4, 3, 36, 36), dtype), (4, 3, 40, 40)
    if op == "average_pooling_grad":
        scale = reference.average_pooling_grad(np.abs(grad), shape, 5)
        return judged(op, scale, 25, grad, shape, 5)
    x = np.zeros(shape, dtype)
    x[:, :, 4::5, 4::5] = 1
    scale = reference.max_pooling_grad(x, np.abs(grad), 5)
    return judged(op, scale, 25, x, grad, 5)


def normalized(n: int, dtype: str, axis: int, mean: float, **more: Any) -> Result:
    """|z|/2 + mean|z|: what a chain of m additions multiplies in the bound of z."""
    x = random((12, n), dtype, mean)
    x = x if axis else np.ascontiguousarray(x.T)
    z = np.abs(reference.mean_variance_normalization(x, axes=axis, **more))
    return judged(MVN, z / 2 + z.mean(axis, keepdims=True), n, x, axes=axis, **more)


CASES: dict[str, Any] = {
    "average of 3 x 3": lambda d: pooled("average_pooling", (4, 8, 32, 40), d, 3),
    "average of 64": lambda d: pooled("average_pooling", (4, 8, 300), d, 64),
    "average of 2048": lambda d: pooled("average_pooling", (4, 8, 2100), d, 2048),
    "average of a plane": lambda d: pooled("average_pooling", (6, 5, 128, 256), d, (128, 256)),
    "L1 of 7 x 5": lambda d: pooled("lp_pooling", (2, 8, 32, 40), d, (7, 5), p=1),
    "L2 of a plane": lambda d: pooled("lp_pooling", (6, 5, 64, 128), d, (64, 128), p=2),
    "L3 of 64": lambda d: pooled("lp_pooling", (4, 8, 300), d, 64, p=3),
    "gradient of the average": lambda d: gradient("average_pooling_grad", d),
    "gradient of the maximum": lambda d: gradient("max_pooling_grad", d),
    **{
        f"normalization of {n}, axis {axis}, mean {mean}": (
            lambda d, n=n, axis=axis, mean=mean: normalized(n, d, axis, mean)
        )
        for n in (16, 256, 4096, 9001)
        for axis in (0, 1)
        for mean in (0, 30)
    },
    "mean removal": lambda d: normalized(5000, d, 1, 3, use_variance=False),
    "root mean square": lambda d: normalized(5000, d, 1, 3, use_mean=False),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_errors_on_the_average(case: str, dtype: str) -> None:
    """The root mean square of the errors is at most 4 * sqrt(m) * u, in units of the scale."""
    result = CASES[case](dtype)
    limit = 4 * math.sqrt(chain(result.terms)) * U[dtype]
    assert result.rms() <= limit, result.rms() / limit


def test_a_loss_of_digits_on_the_average_shows() -> None:
    """Errors of a third of the bound each, as of sums in a type with fewer digits."""
    x = random((4, 8, 2100), "float32")
    want = bounds.expected("average_pooling", x, 2048)
    assert want.bounds[0] is not None
    signs = np.where(random(want.values[0].shape, "float64") > 0, 1, -1)
    worse = (want.values[0] + signs * want.bounds[0] / 3).astype(np.float32)
    assert bounds.compare(worse, want).ok
    scale = reference.average_pooling(np.abs(x), 2048)
    result = Result(worse.astype(np.float64), want.values[0], scale, 2048)
    assert result.rms() > 2 * 4 * math.sqrt(2048) * U["float32"]


def merged(n: int, parts: int, dtype: str) -> int:
    """Additions that join parts; in a wider type than the parts' unless that is float64."""
    return math.ceil(n / parts) if dtype == "float64" else 1


def keeps(result: Result, error: np.ndarray, dtype: str) -> None:
    passed, _, share = bounds.judge(result.got, result.want, error, bounds.FORMATS[dtype])
    assert passed.all(), float(share.max())


def lanes(n: int, dtype: str) -> int:
    """The longest chain in 64 lanes through runs of 2048."""
    return math.ceil(min(n, 2048) / 64) + 6 + merged(n, 2048, dtype)


def test_a_sum_in_one_chain_shows() -> None:
    """It keeps the contract's bound and not the one of 64 lanes."""
    n = 2**16
    x = random((9, 1, n), "float32", 3)
    sums = np.cumsum(x, axis=2, dtype=np.float32)[:, :, -1:] / np.float32(n)
    want = bounds.expected("average_pooling", x, n)
    assert bounds.compare(sums, want).ok
    error = (lanes(n, "float32") + 1) * U["float32"] * want.values[0]
    assert not bounds.judge(sums, want.values[0], error, bounds.FORMATS["float32"])[0].all()


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [256, 2048, 2**15, 2**16])
def test_a_window_alone_is_summed_in_64_lanes(n: int, dtype: str) -> None:
    x, m = random((9, 1, n), dtype, 3), lanes(n, dtype)
    for op, more in (("average_pooling", {}), ("lp_pooling", {"p": 1})):
        scale = reference.average_pooling(np.abs(x), n) * (n if more else 1)
        result = judged(op, scale, n, x, n, **more)
        keeps(result, (m + 1) * U[dtype] * scale, dtype)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", [16, 64, 128])
def test_windows_side_by_side_are_summed_in_chains_of_2048(side: int, dtype: str) -> None:
    packed = random((2, side, side, 33), dtype, 3)
    x = np.moveaxis(packed, 3, 1)  # channels last: a window for each
    m = min(side * side, 2048) + merged(side * side, 2048, dtype)
    scale = reference.average_pooling(np.abs(x), side)
    result = judged("average_pooling", scale, side * side, x, side)
    keeps(result, (m + 1) * U[dtype] * scale, dtype)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mean", [0, 30, 1e4])
@pytest.mark.parametrize("axis", [0, 1], ids=["columns", "rows"])
@pytest.mark.parametrize("n", [64, 1000, 4096, 20001])
def test_normalization_sums_short_chains(n: int, axis: int, mean: float, dtype: str) -> None:
    """Rows in 16 lanes through chunks of 4096, columns in chunks of 32 (rows may take both)."""
    rows = math.ceil(min(n, 4096) / 16) + 2 + merged(n, 4096, dtype)
    columns = min(n, 32) + merged(n, 32, dtype)
    m, u = max(rows, columns if axis == 0 else 0), U[dtype]
    x = random((12, n), dtype, mean)
    x = x if axis else np.ascontiguousarray(x.T)
    stages, _ = reference.normalization.stages_of(x, None, None, axis, True, True, 1e-5, None)
    s, z, mean_of_x = stages.deviation.hi, stages.normal.hi, stages.mean.hi
    spread = np.abs(stages.centered.hi).mean(axis, keepdims=True) / s
    error = u * ((m / 2 + 6) * np.abs(z) + (m + 2) * spread) + (u * m) ** 2 * np.abs(mean_of_x) / s
    keeps(judged(MVN, np.abs(z), n, x, axes=axis), error, dtype)
