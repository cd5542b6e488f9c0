"""Sliding windows on the CPU: every way a plan is cut into strips, and outputs past the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import check, data
from pool_support import channels_last, dtype_of, same_bits

# Name: shape, window and what else is asked of it; the layout is row-major, or channels last where
# the name begins with it.
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "planes stacked": ((3, 50, 7, 7), {"window_size": 2, "strides": 2}),
    "planes stacked, padded": (
        (2, 37, 5, 6),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1},
    ),
    "rows as one line": ((2, 9, 20, 20), {"window_size": 5, "start_padding": 2, "end_padding": 2}),
    "rows as one line, dilated": (
        (2, 5, 17, 19),
        {"window_size": 3, "dilations": (1, 4), "start_padding": (1, 4), "end_padding": (1, 4)},
    ),
    "rows as one line, padding at one side": (
        (1, 3, 12, 9),
        {"window_size": (4, 3), "start_padding": (0, 2), "end_padding": (3, 0)},
    ),
    "rows as one line, three columns": (
        (2, 11, 13, 17),
        {"window_size": 3, "start_padding": 1, "end_padding": 1},
    ),
    "rows as one line, three columns of wide ones": (
        (1, 2, 5, 300),
        {"window_size": 3, "start_padding": 1, "end_padding": 1},
    ),
    "rows as one line, three columns in volumes": (
        (1, 2, 4, 6, 40),
        {"window_size": 3, "start_padding": 1, "end_padding": 1},
    ),
    "rows as one line, rows of padding alone": (
        (1, 3, 2, 9),
        {"window_size": (2, 3), "start_padding": (4, 1), "end_padding": (3, 1)},
    ),
    "rows that fit a vector, rows of padding alone": (
        (1, 3, 2, 9),
        {"window_size": (2, 4), "start_padding": (4, 2), "end_padding": (3, 1)},
    ),
    "rows that fill a vector": (
        (2, 7, 11, 28),
        {"window_size": 5, "dilations": (2, 1), "start_padding": (4, 2), "end_padding": (4, 2)},
    ),
    "pairs": ((2, 3, 9, 130), {"window_size": (3, 2), "strides": 2}),
    "pairs and one before": (
        (2, 5, 8, 66),
        {"window_size": 3, "strides": 2, "start_padding": 1},
    ),
    "pairs and one after": ((2, 5, 7, 143), {"window_size": (2, 3), "strides": 2}),
    "pairs and one after, a short row": ((2, 3, 9, 55), {"window_size": 3, "strides": 2}),
    "pairs and one after, whole vectors": ((1, 3, 7, 257), {"window_size": 3, "strides": 2}),
    "pairs in volumes": (
        (1, 2, 6, 7, 34),
        {"window_size": 2, "strides": 2, "start_padding": (1, 1, 0)},
    ),
    "rows in parts": ((1, 2, 3, 9001), {"window_size": 3, "strides": (1, 2), "start_padding": 1}),
    "stride 4": ((2, 3, 5000), {"window_size": 5, "strides": 4, "start_padding": 2}),
    "stride 4, dilated": ((1, 3, 4, 77), {"window_size": 3, "strides": 4, "dilations": (1, 3)}),
    "stride 4, side by side": ((2, 3, 9, 203), {"window_size": 4, "strides": 4}),
    "stride 3": ((1, 4, 9, 101), {"window_size": (2, 5), "strides": 3, "end_padding": 4}),
    "stride 3, two columns": ((2, 3, 700), {"window_size": 2, "strides": 3, "start_padding": 1}),
    "stride 3, three columns": ((1, 3, 8, 290), {"window_size": 3, "strides": 3}),
    "stride 3, three columns apart": (
        (2, 3, 611),
        {"window_size": 3, "strides": 3, "dilations": 2, "start_padding": 2, "end_padding": 4},
    ),
    "stride 3, many columns": (
        (1, 2, 3, 433),
        {"window_size": (1, 8), "strides": (2, 3), "dilations": (1, 5), "start_padding": (0, 7)},
    ),
    "stride 3, rows in parts": ((1, 2, 9001), {"window_size": 4, "strides": 3}),
    "empty windows": (
        (1, 3, 2, 5),
        {"window_size": 2, "strides": 2, "start_padding": 5, "end_padding": 4},
    ),
    "volumes": ((1, 3, 9, 10, 33), {"window_size": 3, "strides": 2, "start_padding": 1}),
    "channels last, 3 of them": (
        (2, 3, 16, 31),
        {"window_size": 3, "strides": 2, "start_padding": 1},
    ),
    "channels last, few taps": ((2, 70, 8, 9), {"window_size": 2, "strides": 2}),
    "channels last, few taps, padded": (
        (1, 65, 5, 7),
        {"window_size": 2, "start_padding": 1, "end_padding": 1},
    ),
    "channels last, few taps in volumes": ((1, 64, 4, 5, 6), {"window_size": 2, "strides": 2}),
    "channels last, three taps": ((1, 128, 3, 9), {"window_size": (1, 3), "end_padding": (0, 1)}),
    "channels last, few taps of wide columns": ((1, 4200, 2, 5), {"window_size": 2}),
    "channels last, rows in parts": (
        (1, 130, 5, 90),
        {"window_size": 3, "strides": (1, 2), "end_padding": 1},
    ),
    "channels last, channels in parts": (
        (1, 1300, 3, 9),
        {"window_size": 3, "start_padding": 1, "end_padding": 1},
    ),
}


def array_of(name: str, dtype: str, kind: str = "random") -> np.ndarray:
    shape, _ = CASES[name]
    x = data(shape, dtype, seed=len(name), kind=kind)
    return channels_last(x) if name.startswith("channels last") else x


def agree(op: str, x: np.ndarray, *args: Any, **kwargs: Any) -> None:
    """Right in rows, and the same bits in x's own layout; sums must be exact for that."""
    check(op, np.ascontiguousarray(x), *args, layouts=["contiguous", "sliced"], **kwargs)
    results = [getattr(cudml, op)(a, *args, **kwargs) for a in (x, np.ascontiguousarray(x))]
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True)
    for mine, plain in pairs:  # widened: NaNs of bfloat16 are not NaNs to NumPy
        np.testing.assert_array_equal(np.float64(mine), np.float64(plain))


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_maxima(name: str, dtype: str) -> None:
    x = array_of(name, dtype, "special")
    for indices in (False, True):
        agree("max_pooling", x, return_indices=indices, **CASES[name][1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "int8", "uint16", "int32", "uint64"])
@pytest.mark.parametrize(
    "name",
    ["planes stacked", "rows as one line", "channels last, few taps",
     "stride 3, three columns", "stride 3, many columns"],
)  # fmt: skip
def test_maxima_of_other_types(name: str, dtype: str) -> None:
    x = array_of(name, dtype, "random" if dtype == "bfloat16" else "special")
    for indices in (False, True):
        agree("max_pooling", x, return_indices=indices, **CASES[name][1])


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_averages_and_norms(name: str, dtype: str) -> None:
    x = array_of(name, dtype, "exact")
    for include in (False, True):
        agree("average_pooling", x, include_padding=include, **CASES[name][1])
    agree("lp_pooling", x, p=2, **CASES[name][1])


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", ["0", "tiny", "max", "inf", "nan"])
def test_norms_of_squares_out_of_range(value: str, dtype: str) -> None:
    """A few of many windows, in every lane, at the first place and at the last one."""
    x = np.abs(data((1, 3, 21, 41), dtype, seed=7, kind="exact")) + 1
    info = np.finfo(x.dtype)
    for row, column in ((0, 0), (4, 14), (9, 20), (18, 38)):
        block = getattr(info, value) if hasattr(info, value) else float(value)
        x[..., row : row + 3, column : column + 3] = block
        check("lp_pooling", x, 3, 2, p=2)


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lanes", [9, 33, 96, 600, 2100])
def test_planes_of_neighbouring_channels(lanes: int, dtype: str) -> None:
    """One window over each plane, whose taps are rows of channels: short, long, in parts."""
    for kind in ("special", "exact"):
        x = channels_last(data((2, lanes, 5, 7), dtype, seed=lanes, kind=kind))
        agree("max_pooling", x, (5, 7))
        if kind == "exact":
            agree("average_pooling", x, (5, 7))


def test_layouts_of_results_may_differ() -> None:
    """Outputs in row-major order of an input with channels last, and the other way round."""
    x = data((2, 66, 9, 11), "float32", seed=3)
    want, index = cudml.max_pooling(x, 3, 2, 1, return_indices=True)
    for given in (x, channels_last(x)):
        for shaped in (np.zeros_like(want), channels_last(np.zeros_like(want))):
            places = np.zeros_like(shaped, dtype=index.dtype)
            cudml.max_pooling(given, 3, 2, 1, return_indices=True, out=(shaped, places))
            assert same_bits(shaped, want) and np.array_equal(places, index)


@pytest.mark.core
def test_indexed_values_keep_the_bits_of_nans() -> None:
    """Signalling ones too, which a conversion to float makes quiet."""
    bits = np.array([[0x3C00, 0x7D01, 0xFE03, 0x4000], [0xFC01, 0, 0x8000, 0x3C00]], np.uint16)
    for dtype in ("float16", "bfloat16"):
        x = np.tile(bits, (1, 9)).reshape(1, 2, 6, 6)
        if dtype == "bfloat16":
            x = (x | np.where(x & 0x7C00 == 0x7C00, 0x7F81, 0)).astype(np.uint16)
        x = x.view(data(1, dtype).dtype)
        for given in (x, channels_last(x)):
            y, index = cudml.max_pooling(given, 2, 2, return_indices=True)
            assert same_bits(y, x.ravel()[index])


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32"])
@pytest.mark.parametrize("lanes", range(2, 10))
def test_pairs_of_pixels(lanes: int, dtype: str) -> None:
    """Columns of a few bytes, of which several share a vector."""
    for width, start, end in ((46, 0, 0), (33, 1, 0), (700, (1, 2), (0, 1))):
        x = channels_last(data((2, lanes, 9, width), dtype, seed=lanes, kind="special"))
        geometry = {"strides": 2, "start_padding": start, "end_padding": end}
        for indices in (False, True):
            agree("max_pooling", x, 2, return_indices=indices, **geometry)


PAIRS = [(w, start, rows) for w, start in ((2, 0), (3, 0), (3, 1)) for rows in (1, 2, 3, 4)]


@pytest.mark.core
@pytest.mark.decision("D-MAX-3", "D-MAX-6")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("w", "start", "rows"), PAIRS)
def test_ties_in_pairs_of_columns(w: int, start: int, rows: int, dtype: str) -> None:
    """Few values, so that the first of equals matters in each lane, at the borders as well."""
    rng = np.random.default_rng([w, start, rows])
    lowest, zeros = [-np.inf] * 3 + [-1.0], [-0.0, 0.0, -0.0, np.nan]
    for values, width in ((lowest, 34), (zeros, 71), ([*lowest, *zeros], 130)):
        x = np.array(values)[rng.integers(0, len(values), (2, 3, 9, width))]
        geometry = {"window_size": (rows, w), "strides": 2, "start_padding": (rows // 2, start)}
        agree("max_pooling", x.astype(dtype_of(dtype)), return_indices=True, **geometry)


DIGEST = """
import hashlib
import numpy as np
import cudml
from harness import data
from tests.pool.test_strips import CASES, array_of

digest = hashlib.sha256()
for name, (_, geometry) in CASES.items():
    for dtype in ("float32", "float16", "uint8"):
        x = array_of(name, dtype)
        results = [*cudml.max_pooling(x, return_indices=True, **geometry)]
        results.append(cudml.max_pooling(x, **geometry))
        if dtype != "uint8":
            results.append(cudml.average_pooling(x, **geometry))
        for result in results:
            digest.update(np.ascontiguousarray(result).tobytes())
print(digest.hexdigest())
"""


def test_stores_past_the_caches_and_threads_change_nothing() -> None:
    runs = [
        {"CUDML_STREAM_BYTES": size, "CUDML_NUM_THREADS": threads}
        for size in ("0", "1000000000")
        for threads in ("1", "3")
    ]
    assert len({child_says(DIGEST, **run) for run in runs}) == 1
