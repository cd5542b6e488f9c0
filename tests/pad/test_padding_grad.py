"""The gradient of padding: examples, the transpose of padding, long sums, bits, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
import harness
from cudml import reference
from harness import FLOATS, INTEGERS, check, data, dtype_of, refused
from pool_support import bits, same_bits

MODES = ("constant", "edge", "reflection", "symmetric", "wrap")
SUMMED = MODES[1:]
pytestmark = pytest.mark.decision("D-GRAD-11")


def padded(sizes: Any, start: Any, end: Any) -> tuple[int, ...]:
    pads = [np.broadcast_to(pad, len(sizes)).tolist() for pad in (start, end)]
    return tuple(map(sum, zip(sizes, *pads, strict=True)))


def checked(
    sizes: Any, start: Any, end: Any, mode: str, dtype: str = "float32", **more: Any
) -> Any:
    """A gradient of random numbers in every layout."""
    kind = more.pop("kind", "random")
    grad = data(padded(sizes, start, end), dtype, more.pop("seed", 0), kind)
    return check("padding_grad", grad, sizes, start, end, mode=mode, **more)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_every_type_and_mode(mode: str, dtype: str) -> None:
    """Pads shorter than the size, on some dimensions, different on every side."""
    checked((2, 3, 6, 9), (0, 0, 1, 2), (0, 0, 3, 4), mode, dtype)
    checked((3, 4, 5), (1, 0, 2), (2, 0, 1), mode, dtype, kind="special")


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-GRAD-11a")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_pads_beyond_the_size(n: int, mode: str) -> None:
    """Every number of periods before and behind, also along rows and between them."""
    for before, behind in itertools.product((0, 1, n - 1, n, 2 * n + 1), (0, n, 3 * n + 2)):
        checked((n,), before, behind, mode, layouts=("contiguous", "negative"))
    checked((n, 2, 5), (2 * n, 0, 7), (n, 3, 12), mode)
    checked((5, n), (7, n), (12, 3 * n - 1), mode)


@pytest.mark.small
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_rank(rank: int, mode: str) -> None:
    sizes = [3, 2, 4, 2, 1, 2, 3, 2][:rank]
    start = [1, 0, 2, 1, 1, 0, 0, 1][:rank]
    end = [2, 3, 0, 0, 1, 0, 1, 2][:rank]
    layouts = harness.ALL if rank < 6 else ("contiguous", "permuted")
    checked(sizes, start, end, mode, layouts=layouts)


def drawn(seed: int) -> tuple[list[int], list[int], list[int]]:
    """Sizes and pads, also beyond the sizes, that differ from dimension to dimension."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 9))
    sizes, start, end = (
        rng.integers(low, high, rank).tolist()
        for low, high in ((1, 6 if rank < 5 else 3), (0, 12 // rank), (0, 13 // rank))
    )
    return sizes, start, end


@pytest.mark.small
@pytest.mark.decision("D-GRAD-10")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(30))
def test_is_the_transpose_of_padding(seed: int, mode: str, backend: Any) -> None:
    """<Pv, w> = <v, P'w>, exactly on small integers, in the memory order of any permutation."""
    sizes, start, end = drawn(seed)
    rng = np.random.default_rng([seed, 1])
    dtype = dtype_of(("float32", "float64")[seed % 2])
    v = rng.integers(-9, 10, sizes).astype(dtype)
    y = cudml.padding(v, start, end, mode=mode)
    order = rng.permutation(len(sizes))
    w = rng.integers(-9, 10, [y.shape[d] for d in order]).astype(dtype)
    w = w.transpose(np.argsort(order))
    back = cudml.padding_grad(w, sizes, start, end, mode=mode)
    assert (y.astype(float) * w).sum() == (v.astype(float) * back).sum()


@pytest.mark.small
@pytest.mark.parametrize("mode", SUMMED)
def test_the_gradient_of_ones_counts_and_sums_are_kept(mode: str) -> None:
    """PG6: how often each element was read."""
    sizes, start, end = (3, 4, 5), (1, 2, 7), (4, 0, 6)
    grad = np.ones(padded(sizes, start, end), np.float32)
    numbers = np.arange(60.0).reshape(sizes)
    places = cudml.padding(numbers, start, end, mode=mode).astype(int)
    want = np.bincount(places.reshape(-1), minlength=60).reshape(sizes)
    got = cudml.padding_grad(grad, sizes, start, end, mode=mode)
    np.testing.assert_array_equal(got, want)
    assert got.sum() == grad.sum()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
def test_constant_mode_reads_the_inside_alone(dtype: str) -> None:
    """PG7: NaN on the border does not reach the result, NaN inside does; a slice to the bit."""
    sizes, start, end = (2, 3, 17), (1, 0, 2), (2, 4, 1)
    grad = np.full(padded(sizes, start, end), np.nan, dtype_of(dtype))
    inside = tuple(slice(a, a + n) for a, n in zip(start, sizes, strict=True))
    grad[inside] = data(sizes, dtype, 3)
    grad[1, 0, 2] = np.nan
    got = cudml.padding_grad(grad, sizes, start, end)
    assert np.isnan(got[0, 0, 0].astype(float)) and np.isnan(got.astype(float)).sum() == 1
    assert same_bits(got, np.ascontiguousarray(grad[inside]))


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", SUMMED)
def test_single_terms_are_copied(mode: str, dtype: str) -> None:
    grad = data((3, 2, 21), dtype, 4, "special")
    assert same_bits(cudml.padding_grad(grad, grad.shape, 0, 0, mode=mode), grad)
    got = cudml.padding_grad(grad, (3, 2, 15), (0, 0, 2), (0, 0, 4), mode=mode)
    assert same_bits(got[..., 5:9], grad[..., 7:11])


@pytest.mark.decision("D-GRAD-2")
@pytest.mark.parametrize("columns", [511, 512, 513])  # chains of 256 terms: two, less or more one
def test_long_sums_along_two_axes(columns: int) -> None:
    grad = np.random.default_rng(1).integers(-3, 4, (602, columns + 1)).astype("f4")
    want = np.add.reduceat(np.add.reduceat(grad, [0, 601], 0), [0, columns], 1)
    got = cudml.padding_grad(grad, (2, 2), (600, columns - 1), 0, mode="edge")
    assert np.array_equal(got, want)


@pytest.mark.decision("D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", SUMMED)
def test_a_million_pads_onto_few_elements(mode: str, dtype: str) -> None:
    """No chain of additions is long: 0.1 a million times, and random numbers. Sizes take turns:
    each meets every mode and every type."""
    n = 1 + (SUMMED.index(mode) + FLOATS.index(dtype)) % 3
    grad = np.full(n + 10**6, 0.1).astype(dtype_of(dtype))
    check("padding_grad", grad, (n,), 3, 10**6 - 3, mode=mode, layouts=("contiguous", "negative"))
    checked((2, n), (0, 40_000), (0, 10_001), mode, dtype, layouts=("contiguous", "column-major"))


@pytest.mark.parametrize("mode", SUMMED)
@pytest.mark.parametrize("count", [255, 256, 257, 4095, 4096, 4097, 65536, 66000])
def test_lengths_around_what_sums_are_cut_at(count: int, mode: str) -> None:
    """One element of so many terms: in one row, in rows, and in columns beside each other."""
    checked((1,), count // 3, count - 1 - count // 3, mode, layouts=("contiguous",))
    checked((1, 3), (count // 2, 1), (count - 1 - count // 2, 2), mode, layouts=("contiguous",))
    if count < 5000:
        checked((2, 1, 5), (0, count - 1, 0), 0, mode, layouts=("contiguous", "sliced"))


@pytest.mark.parametrize("mode", SUMMED)
def test_broadcast_gradients_of_billions_of_places(mode: str) -> None:
    """Positions beyond 32 bits of elements, in memory of a few."""
    grad = np.broadcast_to(np.float32([[1], [2], [4]]), (3, 2**21 + 1))
    got = cudml.padding_grad(grad, (1, 1), (0, 2**20), (2, 2**20), mode=mode)
    assert got.tolist() == [[7 * (2**21 + 1)]]


@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("mode", SUMMED)
@pytest.mark.parametrize(
    "sizes, start, end",
    [
        ((2, 3, 40, 90), (0, 0, 3, 5), (0, 0, 7, 2)),
        ((1, 3), (40_000, 2), (1000, 1)),
        ((2, 1), (0, 70_000), (0, 70_000)),
        ((3, 5), (2, 9), (4, 12)),
    ],
    ids=str,
)
def test_bits_repeat_whatever_the_threads(sizes: Any, start: Any, end: Any, mode: str) -> None:
    grad = data(padded(sizes, start, end), "float32", 5)
    before, seen = cudml.get_num_threads(), set()
    try:
        for threads in (1, 2, 5):
            cudml.set_num_threads(threads)
            for _ in range(3):
                seen.add(bits(cudml.padding_grad(grad, sizes, start, end, mode=mode)))
    finally:
        cudml.set_num_threads(before)
    assert len(seen) == 1


@pytest.mark.small
@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", SUMMED)
def test_slices_of_the_batch_have_the_bits_of_the_whole(mode: str, dtype: str) -> None:
    sizes, start, end = (3, 5, 6, 7), (0, 0, 2, 9), (0, 0, 4, 8)
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
        grad = data(padded(sizes, start, end), dtype, 6)
        grad = np.ascontiguousarray(grad.transpose(order)).transpose(np.argsort(order))
        whole = cudml.padding_grad(grad, sizes, start, end, mode=mode)
        for part in ((slice(1, 2), slice(0, 5)), (slice(0, 3), slice(2, 4)), (slice(2, 3),) * 2):
            some = (*whole[part].shape[:2], 6, 7)
            got = cudml.padding_grad(grad[part], some, start, end, mode=mode)
            assert bits(got) == bits(whole[part]), (order, part)


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("channels", [15, 16, 17, 48, 1100])
@pytest.mark.parametrize("mode", SUMMED)
def test_pads_of_pixels_with_many_channels(mode: str, channels: int, dtype: str) -> None:
    """Last in memory, channels join a wrapped axis: pads are then thousands of elements."""
    sizes = (2, channels, 3, 4)
    for start, end in (((0, 0, 0, 0), (0, 0, 0, 2)), ((0, 0, 0, 3), (0, 0, 2, 0)),
                       ((0, 0, 2, 0), (0, 0, 1, 0)), ((0, 0, 0, 7), (0, 0, 0, 9))):  # fmt: skip
        grad = data((2, *padded(sizes[2:], start[2:], end[2:]), channels), dtype, 8)
        last = np.moveaxis(grad, -1, 1)
        check("padding_grad", last, sizes, start, end, mode=mode, layouts=("as given",))
        got = cudml.padding_grad(last, sizes, start, end, mode=mode)
        want = cudml.padding_grad(np.ascontiguousarray(last), sizes, start, end, mode=mode)
        assert same_bits(got, want)
        path = cudml.explain("padding_grad", last, sizes, start, end, mode=mode, device="cpu")
        assert path.kernel == "pad_grad/rows"


@pytest.mark.small
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", SUMMED)
def test_lines_whose_positions_lie_apart(mode: str, dtype: str) -> None:
    """Some of the channels of pixels, and single elements: in the gradient given, in the result or
    in both. What lies between stays, and bits are those of packed ones."""
    kind = dtype_of(dtype)
    for channels, start, end in itertools.product((1, 5, 16, 33), (0, 3, 9), (2, 4)):
        sizes, pads = (2, 6, 5, channels), ((0, start, 1, 0), (0, 0, end, 0))
        grad = data(padded(sizes, *pads), dtype, channels)
        want = cudml.padding_grad(grad, sizes, *pads, mode=mode)
        wide = np.zeros((*grad.shape[:-1], channels + 3), kind)
        wide[..., 2:-1] = grad
        for given in (grad, wide[..., 2:-1]):
            room = np.full((*sizes[:-1], channels + 2), 7, kind)
            cudml.padding_grad(given, sizes, *pads, mode=mode, out=room[..., 1:-1])
            assert same_bits(np.ascontiguousarray(room[..., 1:-1]), want)
            assert (room[..., 0] == 7).all() and (room[..., -1] == 7).all()
            assert same_bits(cudml.padding_grad(given, sizes, *pads, mode=mode), want)


@pytest.mark.small
def test_scaling_by_four_scales_every_bit() -> None:
    grad = data((3, 30, 41), "float32", 7)
    for mode in MODES:
        one, four = (
            cudml.padding_grad(g, (3, 20, 33), (0, 3, 6), (0, 7, 2), mode=mode)
            for g in (grad, 4 * grad)
        )
        assert same_bits(4 * one, four)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-20")
@pytest.mark.parametrize("mode", MODES)
def test_zero_sizes(mode: str) -> None:
    for sizes, start, end in (((0, 3), (0, 1), (0, 2)), ((2, 0), (3, 0), (1, 0)), ((0,), 0, 0)):
        grad = np.zeros(padded(sizes, start, end), np.float32)
        assert cudml.padding_grad(grad, sizes, start, end, mode=mode).shape == sizes
        out = np.zeros(sizes, np.float32)
        assert cudml.padding_grad(grad, sizes, start, end, mode=mode, out=out) is out


def test_out_shares_no_memory() -> None:
    room = np.zeros(64, np.float32)
    with refused(ValueError, "padding_grad", "OutputGradientTensor shares memory with"):
        cudml.padding_grad(room[:12].reshape(3, 4), (3, 3), 0, (0, 1), out=room[9:18].reshape(3, 3))


GRAD = data((5, 7), "float32", 1)
REFUSED = [
    (ValueError, ("PaddingMode is 'reflect'", "constant, edge, reflection, symmetric or wrap"),
     {"mode": "reflect"}),
    (TypeError, ("PaddingMode is 3",), {"mode": 3}),
    (TypeError, ("PaddingMode is ['edge', 'edge']",), {"mode": ["edge", "edge"]}),
    (TypeError, ("grad",), {"grad": 1.0}),
    (ValueError, ("InputGradientTensor.DimensionCount is 9", "between 1 and 8"),
     {"grad": GRAD.reshape(5, 7, *[1] * 7)}),
    (ValueError, ("InputGradientTensor.DimensionCount is 0", "between 1 and 8"),
     {"grad": np.zeros((), np.float32), "input_sizes": (), "start_padding": (),
      "end_padding": ()}),
    (ValueError, ("InputGradientTensor.Sizes[1] is 7; it must be 2 + 3 + 1 = 6",),
     {"end_padding": (2, 1)}),
    (TypeError, ("OutputGradientTensor.Sizes (input_sizes) is 3",), {"input_sizes": 3}),
    (ValueError, ("OutputGradientTensor.Sizes (input_sizes) has 1 entries", "2"),
     {"input_sizes": (2,)}),
    (TypeError, ("OutputGradientTensor.Sizes[1] is 3.0",), {"input_sizes": (2, 3.0)}),
    (ValueError, ("OutputGradientTensor.Sizes[0] is -1",), {"input_sizes": (-1, 3)}),
    (ValueError, ("OutputGradientTensor.Sizes[0] is 0; a dimension with padding", "not be empty"),
     {"input_sizes": (0, 3)}),
    (ValueError, ("OutputGradientTensor.Sizes[1] is 9223372036854775807",),
     {"input_sizes": (2, 2**63 - 1)}),
    (ValueError, ("StartPadding[0] is -1", "between 0 and 4294967295"),
     {"start_padding": (-1, 2)}),
    (ValueError, ("StartPadding", "3"), {"start_padding": (1, 2, 3)}),
    (TypeError, ("EndPadding[1] is '2'",), {"end_padding": (2, "2")}),
    (TypeError, ("StartPadding is True",), {"start_padding": True}),
    (ValueError, ("EndPadding", "4294967296", "4294967295"), {"end_padding": 2**32}),
    (ValueError, ("InputGradientTensor.Sizes[1] is 4294967300; it must be at most 4294967295",),
     {"grad": np.broadcast_to(np.float32(1), (5, 2**32 + 4)), "start_padding": (1, 2**32 - 1),
      "end_padding": (2, 2)}),
    (TypeError, ("OutputGradientTensor.DataType (out) is float64", "float32"),
     {"out": np.full((2, 3), 5.0)}),
    (ValueError, ("OutputGradientTensor.Sizes",), {"out": np.full((3, 3), 5, np.float32)}),
    (ValueError, ("stream",), {"stream": 1}),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["constant", "edge"])
@pytest.mark.parametrize(
    "error, text, fields", REFUSED, ids=lambda v: v[0] if type(v) is tuple else ""
)
def test_refusal(
    error: type[Exception], text: tuple[str, ...], fields: dict[str, Any], mode: str
) -> None:
    """By message; an array passed as `out` keeps its contents."""
    out = np.full((2, 3), 5, np.float32)
    call = {
        "grad": GRAD, "input_sizes": (2, 3), "start_padding": (1, 2), "end_padding": 2,
        "mode": mode, "out": out, **fields,
    }  # fmt: skip
    before = call["out"].tobytes()
    with refused(error, "padding_grad", *text):
        cudml.padding_grad(**call)
    assert call["out"].tobytes() == before
    with refused(ValueError, "InputGradientTensor.Sizes[1] is 8; it must be 2 + 3 + 4 = 9"):
        cudml.padding_grad(np.zeros((5, 8)), (2, 3), (1, 2), (2, 4), mode=mode)


@pytest.mark.decision("D-GRAD-10")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_have_no_gradient(dtype: str) -> None:
    out = np.full((2, 3), 5, dtype)
    for mode in MODES:
        with refused(
            TypeError, f"padding_grad: InputGradientTensor.DataType is {dtype}", "float16"
        ):
            cudml.padding_grad(GRAD.astype(dtype), (2, 3), (1, 2), 2, mode=mode, out=out)
    assert (out == 5).all()


@pytest.mark.core
@pytest.mark.parametrize("mode", SUMMED)
def test_what_is_repeated_behind_the_padded_dimension(mode: str) -> None:
    """Gradients with strides of 0, and a result whose dimensions lie the other way round, between
    guards, so that they stay three."""
    line, start, end = data((9,), "float32", 2, "exact"), (1, 0, 0), (2, 0, 0)
    grad = np.broadcast_to(line[:, None, None], (9, 3, 4))
    room = np.full((4, 5, 6), 77, np.float32)
    out = room[:, :3].transpose(2, 1, 0)
    cudml.padding_grad(grad, out.shape, start, end, mode=mode, out=out)
    assert np.array_equal(out, reference.padding_grad(grad, out.shape, start, end, mode=mode))
    assert (room[:, 3:] == 77).all()


@pytest.mark.core
@pytest.mark.decision("D-PAD-10")
@pytest.mark.parametrize("mode", MODES)
def test_the_largest_size(mode: str) -> None:
    most = 2**32 - 1
    assert cudml.padding_grad(np.empty((0, most)), (0, most), 0, 0, mode=mode).shape == (0, most)
    with refused(ValueError, "padding_grad: ", str(most + 1), str(most)):
        cudml.padding_grad(np.empty((0, most + 1)), (0, most + 1), 0, 0, mode=mode)
