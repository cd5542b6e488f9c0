"""Normalization kernels on the CPU: every way to read and write a group gives the same values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import check, data
from pool_support import FLOATS, bits, dtype_of, same_bits

OP = "mean_variance_normalization"
FLAT = ("contiguous",)
INF = float("inf")
ACTIVATIONS = (None, "relu", "swish", "gelu", ("linear", {"alpha": 2, "beta": 1}))

# Rows, columns and short rows, misaligned and with lengths that are no multiple of a vector.
STREAMED = """
import hashlib, numpy as np, cudml
from layouts import dtype_of
rng = np.random.default_rng(3)
def show(name, y):
    print(name, hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest())
def place(x, first):
    room = np.zeros(x.size + 64, x.dtype)
    at = (-room.ctypes.data % 64) // x.itemsize + first
    y = room[at : at + x.size].reshape(x.shape)
    y[...] = x
    return y
for dtype in ("float32", "float16", "bfloat16", "float64"):
    for shape, axes in (
        ((7, 1000), 1), ((5, 5000), 1), ((40, 64), 1), ((70, 600), 1), ((333, 3), 1), ((37, 16), 1),
        ((2, 20001), 1), ((300, 7), 0), ((100, 64), 0), ((2, 50, 48), 1), ((3, 4, 70), (0, 2)),
        ((2, 9, 6, 80), (1, 3)),
    ):
        try:
            kind = dtype_of(dtype)
        except TypeError:
            continue
        x = rng.standard_normal(shape).astype(kind)
        scale = rng.standard_normal([1 if i == 0 else n for i, n in enumerate(shape)]).astype(kind)
        for first in (0, 1, 9):
            out = place(x, first)
            for activation in (None, "relu", "swish", "elu"):
                y = cudml.mean_variance_normalization(
                    x, scale, scale, axes=axes, activation=activation, out=out)
                show(f"{dtype} {shape} {axes} {first} {activation}", y)
        show("in place", cudml.mean_variance_normalization(out, axes=axes, out=out))
"""


def test_writing_past_the_caches_changes_nothing() -> None:
    """CUDML_STREAM_BYTES moves the size from which outputs are written past the caches."""
    never, always = (
        child_says(STREAMED, CUDML_STREAM_BYTES=n, limit=120) for n in (str(10**15), "0")
    )
    assert len(never.splitlines()) > 300
    assert never == always


# Columns whose rows follow each other, in one stretch or several, or leave gaps; some far from 0.
PLACED = """
import numpy as np, cudml
from layouts import dtype_of
rng = np.random.default_rng(3)
def bits(y):
    return np.ascontiguousarray(y).view(np.uint8)
for dtype in ("float32", "float16", "bfloat16"):
    try:
        kind = dtype_of(dtype)
    except TypeError:
        continue
    for shape, axes, along in (
        ((1500, 40), 0, 1), ((2, 700, 33), 1, 2), ((40, 2600), 0, 1), ((40, 2600), 0, 0),
        ((2, 300, 4, 24), (1, 3), 2), ((3, 5, 90, 192), (0, 2), 3),
        ((2, 3, 64, 12, 20), (0, 2, 4), 3),
    ):
        x = rng.standard_normal(shape)
        x += 30 * (np.arange(shape[-1]) % 3 == 1)
        x = x.astype(kind)
        sizes = [n if i == along else 1 for i, n in enumerate(shape)]
        scale = rng.standard_normal(sizes).astype(kind)
        for activation in (None, "relu", "swish", "elu"):
            for use_mean in (True, False):
                given = dict(axes=axes, activation=activation, use_mean=use_mean)
                first = bits(cudml.mean_variance_normalization(x, scale, scale, **given))
                for offset in (0, 1, 9, 25):
                    room = np.full(x.size + 96, 7, kind)
                    at = (-room.ctypes.data % 64) // x.itemsize + offset
                    y = room[at : at + x.size].reshape(shape)
                    cudml.mean_variance_normalization(x, scale, scale, out=y, **given)
                    case = (dtype, shape, given, offset)
                    assert (bits(y) == first).all(), case
                    assert (room[:at] == 7).all() and (room[at + x.size :] == 7).all(), case
                other = x.copy()
                other[..., 0] = np.nan
                y = cudml.mean_variance_normalization(other, scale, scale, **given)
                spoilt = np.isnan(y.astype(np.float32))
                assert spoilt[..., 0].all(), case
                known = first.view(kind).reshape(shape).copy()
                known[spoilt] = y[spoilt] = 0
                assert (bits(y) == bits(known)).all(), case
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_columns_come_out_the_same_wherever_they_are_written(limit: str) -> None:
    """And whatever stands in other columns; nothing else is written."""
    assert child_says(PLACED, CUDML_STREAM_BYTES=limit, limit=120).split() == ["done"]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 96), 1), ((3, 5000), 1), ((2, 70001), 1), ((64, 24), 0), ((2, 640, 3), 1),
     ((2, 48, 4, 32), (1, 3)), ((4, 3, 100), (0, 2))],
)  # fmt: skip
def test_numbers_far_from_the_first_ones(shape: Any, axes: Any, dtype: str) -> None:
    """A group whose first numbers, or those in many places of it, are far from its mean."""
    for every, size in itertools.product((None, 8), (60.0, 3e4)):
        x = np.random.default_rng(1).standard_normal(shape)
        reduced = axes if isinstance(axes, tuple) else (axes,)
        moved = np.moveaxis(x, reduced, range(len(reduced)))
        moved[:4] = size
        if every:
            moved[::every] = size
        check(OP, x.astype(dtype_of(dtype)), axes=axes, layouts=("contiguous", "column-major"))
        check(OP, x.astype(dtype_of(dtype)), axes=axes, use_mean=False, layouts=FLAT)


@pytest.mark.small
@pytest.mark.decision("D-MVN-16")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("place", [0, 1, 37, 95])
def test_one_infinity_anywhere(place: int, dtype: str) -> None:
    """Also among the numbers that a pivot is guessed from, along rows and columns."""
    for n, special in itertools.product((96, 6000), (INF, -INF)):
        x = np.random.default_rng(n).standard_normal((5, n)).astype(dtype)
        x[2, place] = special
        for given, axis in ((x, 1), (x.T.copy(), 0)):
            removed = cudml.mean_variance_normalization(given, axes=axis, use_variance=False)
            row = removed.take(2, 1 - axis)
            assert np.isnan(row[place])
            assert (np.delete(row, place) == -special).all()
            check(OP, given, axes=axis, layouts=FLAT)
            check(OP, given, axes=axis, use_mean=False, layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", range(2, 18))
def test_short_rows(n: int, dtype: str) -> None:
    """A row in each lane of a vector: any number of rows, any strides."""
    for rows, activation in zip((1, 5, 16, 33, 100), ACTIVATIONS, strict=True):
        x, scale, bias = (data((k, n), dtype, n + k) for k in (rows, 1, 1))
        check(OP, x, scale, bias, axes=1, activation=activation)
        check(OP, x, scale, axes=1, use_mean=False, activation=activation, layouts=FLAT)
        check(OP, x, None, bias, axes=1, use_variance=False, layouts=FLAT)
        y = cudml.mean_variance_normalization(x, axes=1)
        alone = cudml.mean_variance_normalization(x[-1:], axes=1)
        assert bits(y[-1]) == bits(alone[0])
    special = data((40, n), dtype, n, "special")
    with np.errstate(all="ignore"):
        check(OP, special, axes=1, layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("channels", [1, 3, 8, 31, 64, 600, 1500])
def test_channels_last(channels: int, dtype: str) -> None:
    """Instance and batch normalization: rows of all channels that follow each other."""
    many = (16, 33) if channels < 1000 else (16, 9)
    for pixels, activation in zip(((2, 3), (5, 7), many), ACTIVATIONS, strict=False):
        x = data((2, *pixels, channels), dtype, channels)
        scale, bias = (data((1, 1, 1, channels), dtype, k) for k in (1, 2))
        for axes in ((1, 2), (0, 1, 2)):
            check(OP, x, scale, bias, axes=axes, activation=activation, layouts=FLAT)
            check(OP, x, axes=axes, use_mean=False, layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [2, 10, 16, 80, 200, 300])
def test_groups_of_channels_last(size: int, dtype: str) -> None:
    for pixels, activation in zip((3, 35, 600), ACTIVATIONS, strict=False):
        x = data((2, pixels, 4, size), dtype, size)
        scale, bias = (data((1, 1, 4, size), dtype, k) for k in (1, 2))
        check(OP, x, scale, bias, axes=(1, 3), activation=activation, layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("pixels", [16, 100, 2500])
def test_over_channels(pixels: int, dtype: str) -> None:
    """Scale and bias that differ from row to row, and both ways."""
    x = data((2, 24, pixels), dtype, pixels)
    for shape in ((1, 24, 1), (1, 24, pixels), (2, 1, pixels)):
        scale, bias = (data(shape, dtype, k) for k in (1, 2))
        for activation in ACTIVATIONS:
            check(OP, x, scale, bias, axes=1, activation=activation, layouts=FLAT)
        check(OP, x, scale, axes=1, use_mean=False, activation="swish", layouts=FLAT)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 5, 35001), 1), ((24, 3, 1650, 2), (1, 3)), ((3, 2, 3, 30011), (1, 2))],
)
def test_wide_planes(shape: Any, axes: Any, dtype: str) -> None:
    """So many columns that a block takes thousands of them."""
    if dtype not in FLOATS:
        pytest.skip("ml_dtypes is not installed")
    x = data(shape, dtype, 5)
    one = tuple(1 if i == 0 or i in np.atleast_1d(axes) else n for i, n in enumerate(shape))
    scale, bias = (data(one, dtype, k) for k in (1, 2))
    check(OP, x, scale, bias, axes=axes, activation="relu", layouts=FLAT)
    x += data(shape, dtype, 9) * x.dtype.type(0.001) + x.dtype.type(3)  # means that are not near 0
    check(OP, x, scale, axes=axes, layouts=FLAT)
    check(OP, x, axes=axes, use_mean=False, activation="swish", layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_of_both_types(dtype: str) -> None:
    if dtype not in FLOATS:
        pytest.skip("ml_dtypes is not installed")
    for shape, axes in (((3, 100), 1), ((3, 9000), 1), ((50, 20), 0), ((2, 5, 40), 1)):
        x = data(shape, dtype, 1)
        small = (1, *shape[1:])
        for first, second in itertools.product((dtype, "float32"), repeat=2):
            scale, bias = data(small, first, 2), data(small, second, 3)
            check(OP, x, scale, bias, axes=axes, layouts=("contiguous", "sliced"))


@pytest.mark.small
@pytest.mark.decision("D-MVN-21")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", [None, "relu", "swish", "gelu"])
def test_means_near_zero_and_far_from_it(activation: str | None, dtype: str) -> None:
    """Some groups beside each other: their formulas differ, and none notices the others'."""
    means = np.array([0, 0.5, -3.9, 3.99, 4.01, -5, 60, 0] * 5)
    x = np.random.default_rng(5).standard_normal((200, 40))
    x = ((x - x.mean(0)) / x.std(0) + means).astype(dtype_of(dtype))
    x[:, 7] = 0
    scale, bias = data((1, 40), dtype, 1), data((1, 40), dtype, 2)
    scale[0, ::9] = 0
    for given, s, b, axis in ((x, scale, bias, 0), (x.T.copy(), scale.T, bias.T, 1)):
        check(OP, given, s, b, axes=axis, activation=activation, layouts=FLAT)
    parts = np.arange(40) < 20, np.arange(40) % 8 < 4
    for kept in parts:
        other = np.where(kept, x, x + x.dtype.type(9))
        first, second = (
            cudml.mean_variance_normalization(v, scale, bias, axes=0, activation=activation)
            for v in (x, other)
        )
        assert same_bits(first[:, kept], second[:, kept])


@pytest.mark.small
@pytest.mark.parametrize("use_variance", [True, False])
def test_scales_of_any_size(use_variance: bool) -> None:
    """Products of a scale and a deviation that float32 cannot hold."""
    sizes = np.array([1e-30, 1e-18, 1e-3, 1, 1e3, 1e18, 1e30, 0], np.float32)
    x = np.random.default_rng(6).standard_normal((64, 64)).astype(np.float32)
    x *= np.repeat(sizes, 8)
    scale = np.tile(np.array([1e-38, 1e-20, 1e-9, 0, 1, 1e9, 1e20, 1e37], np.float32), 8)[None]
    bias = data((1, 64), "float32", 3)
    with np.errstate(all="ignore"):
        for epsilon, b in itertools.product((1e-5, 1e-30), (bias, None)):
            flags = {"use_variance": use_variance, "epsilon": epsilon, "layouts": FLAT}
            check(OP, x, scale, b, axes=0, **flags)
            check(OP, x.T.copy(), scale.T, None if b is None else b.T, axes=1, **flags)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(9, 20001), (70, 5000), (6, 70001), (70, 17000), (40, 2047)])
def test_long_rows_that_share_scale_and_bias(shape: Any, dtype: str) -> None:
    """Several rows at once, in parts: each as if it were alone."""
    x = data(shape, dtype, 1)
    wide = "float64" if dtype == "float64" else "float32"
    for first, second in itertools.product({dtype, wide}, repeat=2):
        scale, bias = data((1, shape[1]), first, 2), data((1, shape[1]), second, 3)
        y = cudml.mean_variance_normalization(x, scale, bias, axes=1)
        for i in (0, 3, shape[0] - 1):
            row = x[i : i + 1]
            assert bits(y[i]) == bits(
                cudml.mean_variance_normalization(row, scale, bias, axes=1)[0]
            )
            check(OP, row, scale, bias, axes=1, layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("name", ["swish", "relu"])
def test_activations_at_their_ends(name: str) -> None:
    """Infinities, NaN, and arguments whose exponential is subnormal, for either sign of a scale."""
    x = np.array([[0, -0.0, 1e-40, 20, -20, 87, -87, -90, -100, -104, -110, 1e4, -1e4, INF, -INF,
                   float("nan"), 3e38, -3e38] * 3], np.float32)  # fmt: skip
    kinds = (name, (name, {"sigmoid_input_scale": -2})) if name == "swish" else (name,)
    with np.errstate(all="ignore"):
        for kind in kinds:
            wide = np.repeat(x, 2, 0)
            check(OP, np.zeros_like(wide), None, wide, axes=1, activation=kind, layouts=FLAT)
            check(OP, np.zeros_like(wide.T), None, wide.T, axes=0, activation=kind, layouts=FLAT)
    zero = np.zeros((2, 3), np.float32)
    assert same_bits(cudml.mean_variance_normalization(zero, axes=1, activation=name), zero)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("a", [1, 1.702, -0.3, 0])
def test_swish_of_an_element_alone(a: float, dtype: str) -> None:
    """Vectors of large and of small arguments, and of both: neighbours change nothing."""
    sizes = np.geomspace(1e-3, 130, 1000) / (a or 1)
    bias = np.concatenate([sizes, -sizes, [INF, -INF]]).astype(dtype_of(dtype))[None]
    x, order = np.zeros((2, bias.size), bias.dtype), np.random.default_rng(1).permutation(bias.size)
    fused = ("swish", {"sigmoid_input_scale": a})
    with np.errstate(all="ignore"):
        check(OP, x, None, bias, axes=1, activation=fused, layouts=FLAT)
    y = cudml.mean_variance_normalization(x, None, bias, axes=1, activation=fused)
    mixed = np.ascontiguousarray(bias[:, order])
    z = cudml.mean_variance_normalization(x, None, mixed, axes=1, activation=fused)
    assert same_bits(np.ascontiguousarray(y[:, order]), z)


@pytest.mark.small
@pytest.mark.parametrize("size", [1e-18, 1e18])
def test_swish_where_scale_and_deviation_are_extreme(size: float) -> None:
    """Their quotient overflows or is subnormal where the result is neither."""
    x = data((5, 100), "float32", 1) * np.float32(size)
    scale = np.array([[1e25], [1e-25], [0], [1], [-1]], np.float32)
    bias = np.array([[0], [1], [2], [3e38], [-4]], np.float32)
    for kind in ("swish", "relu"):
        check(OP, x, scale, bias, axes=1, epsilon=1e-38, activation=kind, layouts=FLAT)
        check(OP, x, scale, axes=1, epsilon=1e-38, activation=kind, layouts=FLAT)


@pytest.mark.small
@pytest.mark.parametrize("kind", [None, "swish", "gelu"])
def test_every_nan_of_a_bias_stays_nan(kind: str | None) -> None:
    """Those whose bits are all ones would round to -0 in bfloat16."""
    if "bfloat16" not in FLOATS:
        pytest.skip("ml_dtypes is not installed")
    bias = np.full((1, 70), 0x7FFFFFFF, np.uint32).view(np.float32)
    bias[0, ::3] = 1
    x = data((4, 70), "bfloat16")
    for given, axes in ((x, 1), (np.repeat(x[:, None], 40, 1), (0, 1))):
        y = cudml.mean_variance_normalization(
            given, None, bias if given is x else bias[None], axes=axes, activation=kind
        )
        found = np.isnan(y.astype(np.float32)).reshape(-1, 70)
        assert (found == np.isnan(bias)).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("pattern", [0x7FFFFFFF, 0xFFFFFFFF, 0x7FC08001, 0x7F800001])
def test_nan_stays_nan_when_its_lower_bits_round_up(pattern: int) -> None:
    """In bfloat16, from a float32 scale, among whole vectors and at the end of a row."""
    kind = pytest.importorskip("ml_dtypes").bfloat16
    x = np.random.default_rng(5).standard_normal((3, 100)).astype(kind)
    scale = np.ones((1, 100), np.float32)
    scale[:, ::7] = np.array(pattern, np.uint32).view(np.float32)
    for use_mean, columns in itertools.product((True, False), (False, True)):
        for activation in (None, "relu", "swish"):
            given, axis = (x.T.copy(), 0) if columns else (x, 1)
            y = cudml.mean_variance_normalization(
                given, scale.T.copy() if columns else scale, axes=axis, use_mean=use_mean,
                activation=activation)  # fmt: skip
            y = (y.T if columns else y).astype(np.float32)
            assert np.isnan(y[:, ::7]).all()
            assert np.isfinite(np.delete(y, np.s_[::7], axis=1)).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [40, 100, 5000])
def test_rows_with_a_scale_and_no_bias(n: int, dtype: str) -> None:
    """Some of them far from zero, others not, done together."""
    x = np.random.default_rng(n).standard_normal((19, n))
    x[::3] += 100
    scale = np.linspace(-2, 2, n)[None].astype(dtype_of(dtype))
    for use_mean, activation in itertools.product((True, False), (None, "relu", "swish", "elu")):
        check(OP, x.astype(dtype_of(dtype)), scale, axes=1, use_mean=use_mean,
              activation=activation, layouts=FLAT)  # fmt: skip
