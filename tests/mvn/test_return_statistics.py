"""Mean and variance beside the normalized array, which has the bits it has without them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import cudml
from harness import check, data, refused, shifted
from mvn_support import bits, rows_of_every_kind
from path_cases import CASES
from pool_support import FLOATS, dtype_of
from tests.mvn.test_normalization import FLAGS, SIZES, SMALL, subsets

OP = "mean_variance_normalization"
inf, nan = math.inf, math.nan


def both(x: np.ndarray, *given: Any, **how: Any) -> tuple[Any, Any, Any]:
    """The three results, after y has been compared with that of a call without statistics."""
    y, mean, variance = cudml.mean_variance_normalization(x, *given, return_statistics=True, **how)
    want = cudml.mean_variance_normalization(x, *given, **how)
    assert (bits(y) == bits(want)).all(), "y has other bits"
    return y, mean, variance


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("dtype", FLOATS)
def test_values_types_and_what_is_absent(dtype: str) -> None:
    x = np.array([[1, 2, 3, 4], [0, 0, 0, 8]]).astype(dtype_of(dtype))
    kind = "float64" if dtype == "float64" else "float32"
    for use_mean, use_variance in FLAGS:
        how = {"axes": 1, "use_mean": use_mean, "use_variance": use_variance}
        _, mean, variance = both(x, epsilon=0.25, **how)
        assert (mean is not None, variance is not None) == (use_mean, use_variance)
        if use_mean:
            assert mean.tolist() == [[2.5], [2]] and mean.dtype == kind
        if use_variance:
            want = [[1.25], [12]] if use_mean else [[7.5], [16]]
            assert variance.tolist() == want and variance.dtype == kind
        check(OP, x, return_statistics=True, **how)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_subset_of_axes(rank: int) -> None:
    for k, axes in enumerate(subsets(rank)):
        dtype = FLOATS[k % 4]
        use_mean, use_variance = FLAGS[k % 3]
        x, scale = data(SIZES[:rank], dtype, k), data(SIZES[:rank], dtype, k + 1)
        how = {"axes": axes, "use_mean": use_mean, "use_variance": use_variance}
        both(x, scale, **how)
        check(OP, x, scale, return_statistics=True, layouts=SMALL, **how)


# What the paths are for: rows in many lengths, columns near and far, groups of channels, few
# groups that threads share.
SHAPES: dict[str, tuple[tuple[int, ...], Any]] = {
    "16 elements": ((300, 16), 1),
    "7 columns": ((7, 300), 0),
    "short rows": ((129, 60), 1),
    "rows": ((65, 1024), 1),
    "long rows": ((20, 6144), 1),
    "few long rows": ((2, 70_000), 1),
    "everything": ((3, 5000, 5), (0, 1, 2)),
    "columns": ((700, 37), 0),
    "wide columns": ((40, 1500), 0),
    "few columns": ((9000, 3), 0),
    "channels": ((4, 9, 6, 7), (0, 2, 3)),
    "groups of channels": ((3, 70, 2, 5), (1, 3)),
    "large groups of channels": ((2, 900, 4, 16), (1, 3)),
    "pieces": ((3, 4, 5, 33), (1, 3)),
    "every other axis": ((3, 4, 5, 6, 4), (0, 2, 4)),
}


@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, dtype: str) -> None:
    shape, axes = SHAPES[name]
    x = data(shape, dtype, 3)
    over = axes if isinstance(axes, tuple) else (axes,)
    inside = tuple(n if d in over else 1 for d, n in enumerate(shape))
    scale, bias = data(inside, dtype, 4), data(inside, dtype, 5)
    before = cudml.get_num_threads()
    try:
        for threads in (1, 5):
            cudml.set_num_threads(threads)
            for given in ((), (scale,), (scale, bias)):
                both(x, *given, axes=axes)
            both(x, axes=axes, use_mean=False, activation="gelu")
    finally:
        cudml.set_num_threads(before)
    check(OP, x, scale, bias, axes=axes, return_statistics=True)
    check(OP, x, axes=axes, use_mean=False, return_statistics=True, out=False)


@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [9, 16, 17, 100, 768, 1000, 4096, 4100])
def test_rows_of_every_kind(length: int, dtype: str) -> None:
    """Means near and far, constants, tiny numbers: all the formulas that a path chooses among."""
    x = rows_of_every_kind(40, length, dtype)
    scale, bias = np.random.default_rng(7).standard_normal((2, 1, length)).astype(x.dtype)
    for given in ((), (scale, bias)):
        both(x, *given, axes=1)
        both(x.T.copy(), *(p.T.copy() for p in given), axes=0)
    check(OP, x, axes=1, return_statistics=True, layouts=("contiguous", "permuted"))
    _, mean, variance = both(x, scale, bias, axes=1)
    for i in range(40):
        alone = both(x[i : i + 1], scale, bias, axes=1)
        assert (bits(alone[1]) == bits(mean[i : i + 1])).all()
        assert (bits(alone[2]) == bits(variance[i : i + 1])).all()
    room = np.zeros((5, 9, length), x.dtype)
    room[:, :8] = x.reshape(5, 8, length)
    apart = both(room[:, :8], scale[None], bias[None], axes=2)
    assert (bits(apart[1]).ravel() == bits(mean).ravel()).all()
    assert (bits(apart[2]).ravel() == bits(variance).ravel()).all()


@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("path", [c.path for c in CASES if c.path.startswith("mvn/")])
def test_every_path(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forced wherever it can run."""
    monkeypatch.setenv("CUDML_KERNEL", path)
    for (shape, axes), dtype in itertools.product(SHAPES.values(), FLOATS):
        x = data(shape, dtype, 1)
        try:
            want = cudml.mean_variance_normalization(x, axes=axes)
        except ValueError:
            continue
        try:
            y, mean, variance = cudml.mean_variance_normalization(
                x, axes=axes, return_statistics=True
            )
        except ValueError as error:
            assert "no statistics are asked for" in str(error)
            continue
        assert (bits(y) == bits(want)).all()
        _, center, m2 = cudml.normalization_statistics(x, axes=axes)
        near = {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(mean, center, **near)
        np.testing.assert_allclose(variance, m2 / (x.size / m2.size), **near)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_and_nan(dtype: str) -> None:
    x = np.array([[1, inf, 2], [inf, -inf, 1], [1, nan, 2], [1, 2, 3]]).astype(dtype_of(dtype))
    for count in (1, 9, 700):
        rows = np.repeat(x, count, axis=1)
        for turned in (False, True):
            _, mean, variance = both(rows.T.copy() if turned else rows, axes=0 if turned else 1)
            np.testing.assert_array_equal(mean.ravel(), [inf, nan, nan, 2])
            np.testing.assert_array_equal(np.isnan(variance.ravel()), [True, True, True, False])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, axes", [((5, 9000), 1), ((9000, 5), 0), ((3, 5, 3000), (0, 2))])
def test_an_infinity_in_any_part(shape: tuple[int, ...], axes: Any, dtype: str) -> None:
    """Wherever it stands among sums that are taken in parts, it is the mean of its group; and of
    two, of either sign, there is none."""
    normal = data(shape, dtype)
    for share in (0, 0.01, 0.3, 0.5, 0.77, 1):
        for at_end in (inf, -inf):
            x = normal.copy()
            group = np.moveaxis(x, 1 if axes == (0, 2) else (0 if axes == 1 else 1), 0)[2]
            last = tuple(n - 1 for n in group.shape)
            place = tuple(int(share * n) for n in last)
            group[place] = inf
            _, center, _ = cudml.normalization_statistics(x, axes=axes)
            _, mean, _ = both(x, axes=axes)
            for found in (center.ravel(), mean.ravel()):
                assert found[2] == inf and np.isfinite(np.delete(found, 2)).all()
            if place != last:
                group[last] = at_end
                np.testing.assert_equal(both(x, axes=axes)[1].ravel()[2], max(at_end, 0) or nan)


@pytest.mark.decision("D-GRAD-48")
@pytest.mark.parametrize("shape, axes", [((6, 3000), 1), ((3000, 6), 0)], ids=str)
def test_a_mean_far_from_zero(shape: tuple[int, ...], axes: int) -> None:
    for dtype, by in itertools.product(("float32", "float64"), (1e2, -1e4, 1e5)):
        x = shifted(np.random.default_rng(1).standard_normal(shape).astype(dtype), by)
        both(x, axes=axes)
        check(OP, x, axes=axes, return_statistics=True, layouts=("contiguous",))


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-48", "D-TEN-2")
@pytest.mark.parametrize("dtype", FLOATS)
def test_in_place_and_out_in_part(dtype: str) -> None:
    x = data((5, 70), dtype, 1)
    kind = "float64" if dtype == "float64" else "float32"
    want = both(x, axes=1)
    y, room = x.copy(), np.zeros((5, 3), kind)
    mean = room[:, 1:2]
    out = (y, mean, None)
    results = cudml.mean_variance_normalization(y, axes=1, return_statistics=True, out=out)
    assert results[0] is y and results[1] is mean and not room[:, ::2].any()
    assert all((bits(r) == bits(w)).all() for r, w in zip(results, want, strict=True))
    places = [y, None, np.zeros((5, 1), kind)]
    how: dict[str, Any] = {"axes": 1, "use_mean": False, "return_statistics": True}
    results = cudml.mean_variance_normalization(x, out=places, **how)
    assert results[0] is y and results[1] is None and results[2] is places[2]


X = data((2, 3, 4), "float16", 1)
M = np.zeros((2, 3, 1), "f4")


def shown(value: Any) -> str:
    return value if isinstance(value, str) else ""


REFUSALS: tuple[tuple[type[Exception], str, dict[str, Any]], ...] = (
    (TypeError, "return_statistics is 1 (int)", {"return_statistics": 1}),
    (TypeError, "it must be a tuple or list of 3, y, mean and variance", {"out": X.copy()}),
    (TypeError, "it must be a tuple or list of 3", {"out": (X.copy(), M.copy())}),
    (TypeError, "Mean.DataType (out[1]) is float64; it must be float32",
     {"out": (None, M.astype("f8"), None)}),
    (ValueError, "Variance.Sizes[2] (out[2]) is 4; it must be 1",
     {"out": (None, None, X.astype("f4"))}),
    (ValueError, "Mean (out[1]) is given; it must be None, as UseMean is False",
     {"use_mean": False}),
    (ValueError, "Variance (out[2]) is given; it must be None, as UseVariance is False",
     {"use_variance": False}),
    (ValueError, "overlap", {"out": (None, M, M)}),
    (ValueError, "Mean", {"out": (None, np.broadcast_to(M[:1], M.shape), None)}),
    (TypeError, "out", {"return_statistics": False}),
)  # fmt: skip


@pytest.mark.core
@pytest.mark.decision("D-GRAD-48", "D-GRAD-21")
@pytest.mark.parametrize("error, text, fields", REFUSALS, ids=shown)
def test_refusals(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    out = (np.full(X.shape, 7, "f2"), np.full((2, 3, 1), 7, "f4"), np.full((2, 3, 1), 7, "f4"))
    call = {"x": X, "axes": 2, "return_statistics": True, "out": out, **fields}
    with refused(error, f"{OP}: ", text):
        cudml.mean_variance_normalization(**call)
    assert all((o == 7).all() for o in out) and not M.any()
