"""The NumPy reference against the worked examples and against loops written out in plain Python."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import harness
from cudml import reference
from cudml.reference import activations, geometry, numbers
from cudml.reference.padding import source_indices
from cudml.reference.wide import Wide
from examples import (
    ACTIVATION_INPUTS,
    ACTIVATION_LIMITS,
    ACTIVATION_VALUES,
    EXAMPLES,
    OUTPUT_SIZES,
    Example,
)


def close_to_print(got: np.ndarray, example: Example, i: int = 0) -> None:
    """`got` is what the specification prints: exactly, or to the decimals printed."""
    want = example.expected[i]
    if want is None:
        assert got is None
        return
    if example.digits is None:
        np.testing.assert_array_equal(got, want)
        assert (np.signbit(got) == np.signbit(want))[(want == 0) & (i == 0)].all()
    else:
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= 0.5000001 * 10.0**-example.digits


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
def test_example(example):
    result = getattr(reference, example.op)(*example.args, **example.kwargs)
    results = result if isinstance(result, tuple) else (result,)
    assert len(results) == len(example.expected)
    for i, got in enumerate(results):
        close_to_print(got, example, i)


@pytest.mark.parametrize("row", OUTPUT_SIZES, ids=str)
def test_output_size(row):
    *fields, floor, ceil = row
    assert geometry.output_size(*fields) == floor
    size, w, s, p0, p1, d = fields
    assert -(-(size + p0 + p1 - 1 - (w - 1) * d) // s) + 1 == ceil
    windows = geometry.Windows((1, 1, size), *([f] for f in (w, s, p0, p1, d)), axes=None)
    assert windows.output_shape == (1, 1, floor)


@pytest.mark.parametrize("name, parameters, values", ACTIVATION_VALUES, ids=str)
def test_activation_value(name, parameters, values):
    resolved = activations.resolve((name, parameters), np.dtype(np.float64))
    got = activations.activate(np.array(ACTIVATION_INPUTS, np.float64), *resolved)
    assert np.abs(got - values).max() <= 0.5000001e-6


@pytest.mark.parametrize("name, parameters, low, high", ACTIVATION_LIMITS, ids=str)
def test_activation_at_infinity_and_nan(name, parameters, low, high):
    resolved = activations.resolve((name, parameters), np.dtype(np.float64))
    got = activations.activate(np.array([-np.inf, np.inf, np.nan]), *resolved)
    np.testing.assert_array_equal(got, [low, high, np.nan])


def test_every_activation_is_in_both_tables():
    assert {name for name, *_ in ACTIVATION_VALUES} == set(reference.ACTIVATIONS)
    assert {name for name, *_ in ACTIVATION_LIMITS} == set(reference.ACTIVATIONS)


def random_geometry(rng):
    """Window, strides, pads, dilations and shape of a case whose fields all differ by axis."""
    m = int(rng.integers(1, 4))
    while True:
        size = rng.integers(1, 7, m).tolist()
        w, s, d = (rng.integers(1, 4, m).tolist() for _ in range(3))
        p0, p1 = (rng.integers(0, 4, m).tolist() for _ in range(2))
        if all(1 + (w[i] - 1) * d[i] <= size[i] + p0[i] + p1[i] for i in range(m)):
            return (2, *size), (w, s, p0, p1, d)


def loop_windows(shape, fields, out):
    """Every window's output coordinate, its real taps and its inside count, by loops."""
    w, s, p0, p1, d = fields
    for o in itertools.product(*(range(n) for n in out)):
        real, inside = [], 0
        for k in itertools.product(*(range(n) for n in w)):
            x = [o[i] * s[i] - p0[i] + k[i] * d[i] for i in range(len(w))]
            inside += all(-p0[i] <= x[i] < shape[i] + p1[i] for i in range(len(w)))
            if all(0 <= x[i] < shape[i] for i in range(len(w))):
                real.append(tuple(x))
        yield o, real, inside


def loop_winner(plane, taps):
    best = None
    for tap in taps:
        wins = best is None or plane[tap] > plane[best] or math.isnan(plane[tap])
        if wins and not (best is not None and math.isnan(plane[best])):
            best = tap
    return best


@pytest.mark.parametrize("seed", range(40))
def test_poolings_agree_with_plain_loops(seed):
    rng = np.random.default_rng(seed)
    shape, fields = random_geometry(rng)
    axes = tuple(range(1, len(shape)))
    room = [
        (n + p0 + p1 - 1 - (w - 1) * d, s)
        for n, w, s, p0, p1, d in zip(shape[1:], *fields, strict=True)
    ]
    sizes = [-(-r // s) + 1 if rng.random() < 0.5 else r // s + 1 for r, s in room]
    x = rng.integers(-3, 4, shape).astype(float)
    x[rng.random(shape) < 0.1] = np.nan
    finite = np.nan_to_num(x)
    more = {"axes": axes, "output_sizes": sizes}
    y, index = reference.max_pooling(x, *fields, **more, return_indices=True, index_dtype="int64")
    grad = rng.integers(-4, 5, y.shape).astype(float)
    dx, da = np.zeros(shape), np.zeros(shape)
    a0 = reference.average_pooling(finite, *fields, **more)
    a1 = reference.average_pooling(finite, *fields, **more, include_padding=True)
    norm = reference.lp_pooling(finite, *fields, **more, p=3)
    for b in range(shape[0]):
        for o, taps, inside in loop_windows(shape[1:], fields, sizes):
            at, best = (b, *o), loop_winner(x[b], taps)
            values = [Fraction(finite[(b, *t)]) for t in taps]
            flat = -1 if best is None else int(np.ravel_multi_index((b, *best), shape))
            assert index[at] == flat
            np.testing.assert_array_equal(y[at], -np.inf if best is None else x[(b, *best)])
            assert a0[at] == (float(sum(values) / len(taps)) if taps else 0)
            assert a1[at] == (float(sum(values) / inside) if inside else 0)
            assert norm[at] == pytest.approx(float(sum(abs(v) ** 3 for v in values)) ** (1 / 3))
            for t in taps:
                da[(b, *t)] += grad[at] / len(taps)
            if best is not None:
                dx[(b, *best)] += grad[at]
    more = {"axes": axes}
    np.testing.assert_array_equal(reference.max_pooling_grad(x, grad, *fields, **more), dx)
    got = reference.average_pooling_grad(grad, shape, *fields, **more)
    np.testing.assert_allclose(got, da, rtol=1e-14, atol=1e-14)


def test_axes_of_an_image_are_those_of_the_rearranged_array():
    x = harness.data((6, 7, 3), "float32", 1)
    moved = x.transpose(2, 0, 1)[None]
    y, index = reference.max_pooling(x, (2, 3), 2, axes=(0, 1), return_indices=True)
    want = reference.max_pooling(moved, (2, 3), 2)[0].transpose(1, 2, 0)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(x.reshape(-1)[index], y)
    np.testing.assert_array_equal(
        reference.average_pooling(x, 2, axes=(-3, 1)),
        reference.average_pooling(moved, 2)[0].transpose(1, 2, 0),
    )


@pytest.mark.parametrize("dtype", harness.DTYPES["max_pooling"])
def test_max_pooling_keeps_the_type_and_the_extremes(dtype):
    x = harness.data((2, 3, 5, 6), dtype, 4, "special")
    y, index = reference.max_pooling(x, 2, 1, 3, 3, return_indices=True, index_dtype="uint64")
    assert y.dtype == x.dtype and index.dtype == np.uint64
    empty = index == np.iinfo(np.uint64).max
    floating = dtype in harness.FLOATS
    lowest = np.array(-np.inf if floating else np.iinfo(dtype).min).astype(x.dtype)
    assert empty.any() and (y[empty] == lowest).all()
    assert y[~empty].tobytes() == x.reshape(-1)[index[~empty]].tobytes()


def test_ceil_output_sizes():
    x = np.arange(1.0, 6).reshape(1, 1, 5)
    np.testing.assert_array_equal(
        reference.average_pooling(x, 2, 2, output_sizes="ceil"), [[[1.5, 3.5, 5]]]
    )
    skipped = reference.average_pooling(x, 2, 3, 0, 1, output_sizes="ceil")
    assert skipped.shape == (1, 1, 2)


def test_a_window_far_beyond_the_input_costs_nothing():
    x = np.full((1, 1, 1), 7.0, np.float32)
    y = reference.max_pooling(x, 2**29, 2**28, 2**29, 2**29)
    np.testing.assert_array_equal(y, [[[-np.inf, 7, 7]]])


@pytest.mark.parametrize("block", [1, 7, 50])
def test_blocks_of_taps_make_no_difference(monkeypatch, block):
    """Be there more windows than one holds, or a part of their taps in each."""
    x, call = harness.data((2, 3, 5, 6), "float32", 1), ((3, 2), (1, 2), (1, 0), 1, (2, 1))
    run = (reference.max_pooling, reference.average_pooling, reference.lp_pooling)
    want = [pool(x, *call) for pool in run]
    monkeypatch.setattr(geometry, "BLOCK", block)
    for pool, values in zip(run, want, strict=True):
        np.testing.assert_allclose(pool(x, *call), values, rtol=1e-15)


PADDING_VALUES = [
    (10.6, "uint8", 10), (-10.6, "uint8", 0), (300, "int16", 300), (300.0, "uint8", 255),
    (-10.6, "int8", -10), (300.0, "int8", 127), (math.inf, "int32", 2**31 - 1),
    (-math.inf, "uint16", 0), (1e20, "int64", 2**63 - 1), (2**64 - 1, "uint64", 2**64 - 1),
    (2**53 + 1, "int64", 2**53 + 1), (10.6, "float16", 10.6015625), (1e6, "float16", math.inf),
    (16777217, "float32", 16777216), (2**70 + 2**46 + 1, "float32", 2.0**70 + 2.0**47),
    (-(10**400), "float64", -math.inf), (1e-50, "float32", 0.0), (65519.9, "float16", 65504.0),
    (2.0**-150 * (1 + 2.0**-52), "float32", 2.0**-149), (2.0**-150, "float32", 0.0),
]  # fmt: skip


@pytest.mark.parametrize("value, dtype, want", PADDING_VALUES, ids=str)
def test_padding_value(value, dtype, want):
    got = numbers.padding_value(value, np.dtype(dtype))
    assert got.dtype == dtype and got == want
    y = reference.padding(np.ones((2, 1), dtype), (0, 1), (1, 0), value=value)
    assert y.dtype == dtype and (y == [[want, 1], [want, 1], [want, want]]).all()


def test_padding_value_out_of_range_or_nan_is_refused():
    for value in (256, -1, math.nan):
        with pytest.raises(ValueError):
            numbers.padding_value(value, np.dtype(np.uint8))


@pytest.mark.parametrize("mode", ["edge", "reflection", "symmetric", "wrap"])
@pytest.mark.parametrize("n", range(1, 6))
def test_padding_sources_follow_the_table_of_the_specification(mode, n):
    got, _ = source_indices(mode, n, 13, 13)
    period = {"reflection": 2 * (n - 1), "symmetric": 2 * n, "wrap": n}.get(mode, 0)
    for position, source in enumerate(got):
        i = position - 13
        if mode == "edge":
            want = min(max(i, 0), n - 1)
        else:
            r = i % period if period else 0
            last = 2 * (n - 1) - r if mode == "reflection" else 2 * n - 1 - r
            want = r if r < n else last
        assert source == want


def test_padding_copies_bits_and_mixes_modes():
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32)
    y = reference.padding(bits.view(np.float32), 2, 3, mode="symmetric")
    assert y.view(np.uint32).tolist() == [bits[i] for i in (1, 0, 0, 1, 2, 3, 3, 2, 1)]
    x = np.array([[1, 2], [3, 4]])
    y = reference.padding(x, 1, 1, mode=("constant", "wrap"), value=9)
    assert y.tolist() == [[9] * 4, [2, 1, 2, 1], [4, 3, 4, 3], [9] * 4]


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_padding_rank(rank):
    x = np.arange(2**rank).reshape((2,) * rank)
    start, end = list(range(rank)), [1] * rank
    y = reference.padding(x, start, end, mode="edge")
    inner = tuple(slice(b, b + 2) for b in start)
    assert y.shape == tuple(b + 3 for b in start)
    np.testing.assert_array_equal(y[inner], x)


def exact(wide: Wide) -> list[Fraction]:
    pairs = zip(wide.hi.ravel(), wide.lo.ravel(), strict=True)
    return [Fraction(hi) + Fraction(lo) for hi, lo in pairs]


@pytest.mark.parametrize("operation", ["+", "-", "*", "/"])
def test_wide_arithmetic_has_a_hundred_bits(operation):
    rng = np.random.default_rng(3)
    draws = [rng.standard_normal(200) * 2.0 ** rng.integers(-30, 30, 200) for _ in range(4)]
    a, b = Wide.of(draws[0]) + draws[1] * 1e-17, Wide.of(draws[2]) + draws[3] * 1e-17
    act = {
        "+": lambda p, q: p + q, "-": lambda p, q: p - q,
        "*": lambda p, q: p * q, "/": lambda p, q: p / q,
    }[operation]  # fmt: skip
    for got, p, q in zip(exact(act(a, b)), exact(a), exact(b), strict=True):
        assert abs(got - act(p, q)) <= abs(act(p, q)) / 2**98


@pytest.mark.parametrize("degree", [2, 3, 7, 1000])
def test_wide_root_inverts_power(degree):
    x = Wide.of(np.linspace(1, 1.4, 50) ** (60 / degree))
    back = x.power(degree).root(degree)
    for got, want in zip(exact(back), exact(x), strict=True):
        assert abs(got - want) <= abs(want) / 2**85


@pytest.mark.parametrize("scale", [-1040, -1022, 1000])
def test_wide_quotients_and_roots_of_extremes(scale):
    """Rests of products of subnormal numbers and of the largest ones do not get lost."""
    draws = np.random.default_rng(8).uniform(0.5, 1, (2, 40))
    a, b = np.ldexp(draws, scale)
    quotient, root = Wide.of(a) / b, Wide.of(a).sqrt()
    for got, p, q in zip(exact(quotient), exact(Wide.of(a)), exact(Wide.of(b)), strict=True):
        assert abs(got - p / q) <= p / q / 2**98
    for got, p in zip(exact(root), exact(Wide.of(a)), strict=True):
        assert abs(got * got - p) <= p / 2**98
    with np.errstate(all="ignore"):
        half = Wide.of(np.float64(0.5)) / np.array([4.0, 0.0, np.inf, np.nan])
    np.testing.assert_array_equal(half.hi, [0.125, np.inf, 0, np.nan])


def test_wide_sum_is_that_of_fsum():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((7, 1001)) * 2.0 ** rng.integers(-40, 40, (7, 1001))
    total = Wide.of(x).sum(axis=1)
    assert total.hi.tolist() == [math.fsum(row) for row in x]


def test_infinities_and_nan_follow_ieee_arithmetic():
    x = np.array([[1.0, np.inf], [np.inf, -np.inf], [np.nan, 1.0], [1e308, 1e308]])
    with np.errstate(all="ignore"):
        total = Wide.of(x).sum(axis=1)
    np.testing.assert_array_equal(total.hi, [np.inf, np.nan, np.nan, np.inf])


def test_normalization_of_special_groups():
    run = reference.mean_variance_normalization
    x = np.array([[1, 2, np.inf], [1, 2, 3]])
    nan, inf = np.nan, np.inf
    np.testing.assert_array_equal(run(x, axes=1)[0], [nan] * 3)
    np.testing.assert_array_equal(run(x, axes=1, use_variance=False)[0], [-inf, -inf, nan])
    np.testing.assert_array_equal(run(x, axes=1, use_mean=False)[0], [0, 0, nan])
    np.testing.assert_array_equal(run(x, axes=1)[1], run(x[1:], axes=1)[0])
    constant = np.full((1, 7), 0.1)
    np.testing.assert_array_equal(run(constant, axes=1), np.zeros((1, 7)))
    np.testing.assert_array_equal(run(constant, axes=1, epsilon=0), np.full((1, 7), nan))


def test_normalization_takes_epsilon_in_the_type_of_the_data():
    x = np.array([0.0, 2.0**-60])
    tiny = 1e-60
    as_float = reference.mean_variance_normalization(x.astype("f4"), axes=0, epsilon=tiny)
    as_double = reference.mean_variance_normalization(x, axes=0, epsilon=2.0**-120)
    np.testing.assert_array_equal(as_float, [-1, 1])
    assert abs(as_double[1]) < 0.5


def test_normalization_in_float64_is_exact_to_the_last_bits():
    x = 1e12 + np.arange(8.0) / 1024
    mean = sum(map(Fraction, x)) / 8
    variance = sum((Fraction(v) - mean) ** 2 for v in x) / 8
    got = reference.mean_variance_normalization(x, axes=0, epsilon=0)
    want = [float(Fraction(v) - mean) / math.sqrt(variance) for v in x]
    np.testing.assert_allclose(got, want, rtol=4e-16)


def test_empty_batches_give_empty_results():
    x = np.zeros((0, 3, 4, 4))
    assert reference.max_pooling(x, 2).shape == (0, 3, 3, 3)
    assert reference.average_pooling(x, 2).shape == (0, 3, 3, 3)
    assert reference.lp_pooling(x, 2).shape == (0, 3, 3, 3)
    assert reference.max_pooling_grad(x, np.zeros((0, 3, 3, 3)), 2).shape == x.shape
    assert reference.average_pooling_grad(np.zeros((0, 3, 3, 3)), x.shape, 2).shape == x.shape
    assert reference.padding(x, (0, 0, 1, 1), 0, mode="edge").shape == (0, 3, 5, 5)
    assert reference.mean_variance_normalization(x, axes=(1, 2)).shape == x.shape


@pytest.mark.parametrize("p, norm", [(2, 5.0), (1, 7.0), (3, 91 ** (1 / 3))])
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_norms_of_any_size(size: float, p: int, norm: float) -> None:
    """Powers and their sums are in range whatever the elements are."""
    found = reference.lp_pooling(np.array([[[3.0, -4.0, 0.0]]]) * size, 2, p=p)
    np.testing.assert_allclose(found[0, 0], [norm * size, 4 * size], rtol=1e-15)
