"""Normalization with given statistics: values, any broadcast, any layout, in place, refusals."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import reference
from harness import check, data, refused, shifted
from mvn_support import bits
from pool_support import FLOATS, dtype_of
from tests.mvn.test_normalization import SIZES, SMALL, pattern

OP = "normalize"
TWO = ("contiguous", "permuted")
X = data((2, 3, 4), "float16", 1)
GIVEN = np.ones((2, 3, 1))
PARAMETER = np.ones((1, 3, 1), "f4")


def one(*values: float, dtype: str = "f8") -> np.ndarray:
    return np.array(values, dtype)


def statistics(shape: tuple[int, ...], dtype: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return data(shape, dtype, seed), np.abs(data(shape, dtype, seed + 1))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_examples(dtype: str) -> None:
    """NM1, NM2, NM3."""
    x = np.array([1, 2, 3, 4]).astype(dtype_of(dtype))
    want = [-1.341635, -0.447212, 0.447212, 1.341635]
    y = cudml.normalize(x, one(2.5), one(1.25))
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 1e-6)
    assert np.abs(y.astype("f8") - want).max() <= unit and y.dtype == x.dtype
    scale, bias = one(2).astype(x.dtype), one(1).astype(x.dtype)
    y = cudml.normalize(x, one(2.5), None, scale, bias, activation="relu")
    assert y.tolist() == [0, 0, 2, 4]
    y = cudml.normalize(x, None, one(3.75), epsilon=0.25)
    assert y.tolist() == [0.5, 1, 1.5, 2]
    assert cudml.normalize(x, None, None).tolist() == [1, 2, 3, 4]


@pytest.mark.core
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 40), (7, 1)])
def test_rows_apart_in_one_tensor(shape: tuple[int, ...], dtype: str) -> None:
    """Those of the input are; the result's follow each other, then they are apart as well."""
    x = data((7, 60), dtype, 3)[:, :40]
    check(OP, x, *statistics(shape, dtype, 4), layouts=("as given",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-18")
def test_the_low_part_of_a_mean() -> None:
    """NM5."""
    x = one(1e8, 1e8 + 8, 1e8 + 16, dtype="f4")
    assert cudml.normalize(x, one(100000009), one(4), epsilon=0).tolist() == [-4.5, -0.5, 3.5]
    mean = one(100000009, dtype="f4")
    assert cudml.normalize(x, mean, one(4), epsilon=0).tolist() == [-4, 0, 4]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("rank", range(1, 9))
def test_ranks(rank: int) -> None:
    shape = SIZES[:rank]
    for k in range(8):
        dtype, kind = FLOATS[k % 4], ("float32", "float64", FLOATS[k % 4])[k % 3]
        mean, variance = statistics(pattern(shape, k), kind, k)
        scale = data(pattern(shape, k + 1), dtype, k + 2)
        bias = data(pattern(shape, k + 5), dtype, k + 3)
        check(OP, data(shape, dtype, k), mean, variance, scale, bias, layouts=SMALL)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_broadcast(dtype: str) -> None:
    """Mean and variance of sizes 1 in different dimensions."""
    shape = (3, 4, 5)
    x = data(shape, dtype, 1)
    for m, v in itertools.product(range(8), range(8)):
        mean = data(pattern(shape, m), ("float64", dtype)[m % 2], 2)
        variance = np.abs(data(pattern(shape, v), ("float32", dtype, "float64")[v % 3], 3))
        check(OP, x, mean, variance, layouts=TWO, out=False)
        check(OP, x, mean, None, data(pattern(shape, v), dtype, 4), layouts=TWO, out=False)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("present", itertools.product((True, False), repeat=4), ids=str)
def test_any_tensor_may_be_absent(present: tuple[bool, ...], dtype: str) -> None:
    x = data((3, 4, 50), dtype, 1)
    mean, variance = statistics((1, 4, 1), "float64", 2)
    scale, bias = data((1, 4, 1), dtype, 4), data((1, 1, 50), dtype, 5)
    given = [a if p else None for a, p in zip((mean, variance, scale, bias), present, strict=True)]
    check(OP, x, *given, layouts=SMALL)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_activations(name: str, dtype: str) -> None:
    x = data((3, 40), dtype, 1)
    f = (name, {"alpha": 2.0, "beta": 1.0} if name == "linear" else {})
    check(OP, x, *statistics((1, 40), "float32", 2), activation=f, layouts=TWO)
    check(OP, x, *statistics((3, 1), "float64", 4), activation=f, layouts=TWO)


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rows": ((7, 3000), (7, 1)),
    "columns": ((700, 37), (1, 37)),
    "channels": ((4, 9, 6, 7), (1, 9, 1, 1)),
    "few channels last": ((900, 3), (1, 3)),
    "instances": ((4, 9, 50), (4, 9, 1)),
    "one": ((50_000,), (1,)),
    "each": ((70, 41), (70, 41)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, dtype: str) -> None:
    shape, group = SHAPES[name]
    mean, variance = statistics(group, "float64", 1)
    scale, bias = data(group, dtype, 3), data((*[1] * (len(shape) - 1), shape[-1]), dtype, 4)
    check(OP, data(shape, dtype, 5), mean, variance, scale, bias)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-18")
def test_a_mean_far_from_zero() -> None:
    for by, kind in itertools.product((1e2, -1e4, 1e5), ("float64", "float32")):
        x = shifted(data((5, 400), "float32", 1), by)
        mean = x.astype("f8").mean(1, keepdims=True).astype(kind)
        check(OP, x, mean, x.astype("f8").var(1, keepdims=True), layouts=TWO)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-28")
@pytest.mark.parametrize("dtype", FLOATS)
def test_statistics_are_data(dtype: str) -> None:
    """Negative variances, infinities and NaN give what IEEE arithmetic gives."""
    x = np.repeat(np.array([[1, 2, -3]]), 6, axis=0).astype(dtype_of(dtype))
    mean = one(0, np.inf, -np.inf, np.nan, 1, 1)[:, None]
    variance = one(-1, 1, 1, 1, np.inf, 0)[:, None]
    check(OP, x, mean, variance, epsilon=0)
    y = cudml.normalize(x, mean, variance, epsilon=0).astype("f8")
    assert np.isnan(y[[0, 3]]).all() and (y[1] == -np.inf).all() and (y[2] == np.inf).all()
    assert (y[4] == 0).all() and np.isnan(y[5, 0]) and y[5, 1] == np.inf
    special = data((40, 7), dtype, 3, "special")
    check(OP, special, None, None)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-20", "D-GRAD-24")
@pytest.mark.parametrize("dtype", FLOATS)
def test_empty_parts(dtype: str) -> None:
    for shape in ((0, 3), (2, 0), (2, 0, 3)):
        x = np.zeros(shape, dtype_of(dtype))
        ones = np.ones([1] * len(shape))
        check(OP, x, ones, np.broadcast_to(ones, shape).copy(), layouts=("contiguous",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-21", "D-TEN-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("group", [(5, 1), (1, 70), (5, 70)], ids=str)
def test_in_place(group: tuple[int, ...], dtype: str) -> None:
    mean, variance = statistics(group, "float64", 1)
    for layout in ("packed", "sliced", "permuted"):
        room = np.full((10, 140), 7).astype(dtype_of(dtype))
        x = {"packed": room[:5].reshape(10, 70)[:5], "sliced": room[::2, ::2],
             "permuted": room.reshape(140, 10).T[:5, :70]}[layout]  # fmt: skip
        x[...] = data((5, 70), dtype, 3)
        want = cudml.normalize(x.copy(), mean, variance, activation="gelu")
        rest = room.astype("f8").sum() - x.astype("f8").sum()
        y = cudml.normalize(x, mean, variance, activation="gelu", out=x)
        assert y is x and (bits(y) == bits(want)).all()
        assert room.astype("f8").sum() - x.astype("f8").sum() == pytest.approx(rest)


@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SHAPES)
def test_the_same_bits_whatever_runs_beside(name: str, dtype: str) -> None:
    shape, group = SHAPES[name]
    mean, variance = statistics(group, "float64", 1)
    x = data(shape, dtype, 5)
    want = cudml.normalize(x, mean, variance, activation="swish")
    room = np.zeros(x.size + 3, x.dtype)
    before = cudml.get_num_threads()
    try:
        for threads, offset in itertools.product((1, 2, 5), (0, 1, 3)):
            cudml.set_num_threads(threads)
            moved = room[offset : offset + x.size].reshape(shape)
            moved[...] = x
            y = cudml.normalize(moved, mean, variance, activation="swish")
            assert (bits(y) == bits(want)).all()
    finally:
        cudml.set_num_threads(before)
    for first, end in ((0, 1), (1, 3), (2, shape[0])):
        at = slice(first, end)
        some = [s[at] if s.shape[0] > 1 else s for s in (mean, variance)]
        y = cudml.normalize(x[at], *some, activation="swish")
        assert (bits(y) == bits(want[at])).all()


# Shapes of x and what statistics, scale and bias have sizes in: rows in blocks and beside each
# other, apart, in planes; each with elements of its own in front of a vector and behind one.
RUNS: dict[str, tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "channels last": ((3, 5, 7, 33), ((3,), (3,), (3,), (3,))),
    "3 channels last": ((2, 700, 3), ((2,), (2,), (2,), ())),
    "many channels last": ((5, 2100), ((1,), (), (), (1,))),
    "instances, channels last": ((3, 50, 19), ((0, 2), (0, 2), (2,), ())),
    "statistics of both": ((40, 35), ((1,), (0,), (0, 1), ())),
    "rows": ((9, 1100), ((0,), (0,), (1,), (1,))),
    "one scale": ((9, 5000), ((0,), (0,), (1,), ())),
    "planes": ((3, 4, 9, 7), ((1,), (1,), (1,), (1,))),
    "short planes": ((2, 600, 7, 7), ((1,), (1,), (1,), (1,))),
    "the shortest planes": ((2, 259, 16), ((0, 1), (1,), (), (1,))),
    "planes of one element more than vectors": ((3, 130, 65), ((1,), (), (1,), (0, 1))),
    "planes apart": ((3, 4, 9, 7), ((1,), (0, 1), (), (2, 3))),
    "one run": ((70_001,), ((), (), (), ())),
}


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", RUNS)
def test_every_path_has_the_same_bits(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the plain path: elements do not know each other, so their bits depend on values alone."""
    shape, sizes = RUNS[name]
    groups = [tuple(n if d in over else 1 for d, n in enumerate(shape)) for over in sizes]
    variance = np.abs(data(groups[1], "float64", 2))
    kinds = (("float64" if dtype == "float64" else "float32", "float32"), (dtype, "float64"))
    paths = [path.name for path in cudml.kernels("normalize", device="cpu")]
    x = data(shape, dtype, 5)
    for activation, (kind, exact) in itertools.product((None, "relu", "swish"), kinds):
        mean = data(groups[0], exact, 1)
        scale, bias = data(groups[2], kind, 3), data(groups[3], dtype, 4)
        results = []
        for path in reversed(paths):
            monkeypatch.setenv("CUDML_KERNEL", path)
            room = np.full(x.size + 9, 7, x.dtype)
            out = room[3 : 3 + x.size].reshape(shape)
            with contextlib.suppress(ValueError):  # a path that does not take the call
                cudml.normalize(x, mean, variance, scale, bias, activation=activation, out=out)
                results.append(out)
                assert (room[:3] == 7).all() and (room[3 + x.size :] == 7).all()
        assert results and all((bits(y) == bits(results[0])).all() for y in results)


def shown(value: Any) -> str:
    return value if isinstance(value, str) else ""


REFUSALS: tuple[tuple[type[Exception], str, dict[str, Any]], ...] = (
    (TypeError, "InputTensor (x) is", {"x": [1.0]}),
    (TypeError, "InputTensor.DataType is int8; it must be float32",
     {"x": X.astype("i1"), "out": None}),
    (ValueError, "DimensionCount is 0", {"x": X[0, 0, 0, ...]}),
    (TypeError, "Mean.DataType is int32; it must be InputTensor's, float16, float32 or float64",
     {"mean": GIVEN.astype("i4")}),
    (TypeError, "Mean.DataType is float16; it must be float32 or float64",
     {"x": X.astype("f4"), "mean": GIVEN.astype("f2"), "out": None}),
    (ValueError, "Variance.Sizes[1] is 2; it must be 1 or 3", {"variance": GIVEN[:, :2]}),
    (ValueError, "Mean.DimensionCount is 2; it must be InputTensor's, 3, with a size of 1 where",
     {"mean": GIVEN[0]}),
    (TypeError, "ScaleTensor.DataType is float64; it must be InputTensor's, float16, or float32",
     {"scale": PARAMETER.astype("f8")}),
    (ValueError, "BiasTensor.Sizes[1] is 2; it must be 1 or 3", {"bias": PARAMETER[:, :2]}),
    (ValueError, "Epsilon is -1; it must be finite", {"epsilon": -1}),
    (ValueError, "Epsilon is nan", {"epsilon": float("nan"), "variance": None}),
    (ValueError, "FusedActivation is \"silu\"; it must be one of identity", {"activation": "silu"}),
    (TypeError, "OutputTensor", {"out": X.astype("f4")}),
    (ValueError, "OutputTensor.Sizes[1] (out) is 2; it must be 3", {"out": X[:, :2].copy()}),
    (ValueError, "overlap", {"out": X.reshape(-1)[:24].reshape(4, 3, 2).T}),
)  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-21")
@pytest.mark.parametrize("error, text, fields", REFUSALS, ids=shown)
def test_refusals(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    out, before = np.full(X.shape, 7, X.dtype), X.tobytes()
    with refused(error, f"{OP}: ", text):
        cudml.normalize(**{"x": X, "mean": GIVEN, "variance": GIVEN, "out": out, **fields})
    assert (out == 7).all() and X.tobytes() == before


@pytest.mark.core
def test_other_tensors_are_not_written_in_place() -> None:
    x, mean = data((2, 3), "float64", 1), data((2, 3), "float64", 2)
    with refused(ValueError, f"{OP}: ", "Mean", "overlap"):
        cudml.normalize(x, mean, None, out=mean)
