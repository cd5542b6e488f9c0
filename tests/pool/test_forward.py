"""Max, average and Lp pooling against the reference: geometry, element types, layouts."""

from __future__ import annotations

from typing import Any

import pytest

from harness import DTYPES, FLOATS, INTEGERS, check, data

Case = tuple[tuple[int, ...], dict[str, Any]]

CASES: dict[str, Case] = {
    "one spatial dimension": (
        (2, 3, 13),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 2, "dilations": 2},
    ),
    "everything different per axis and side": (
        (2, 3, 7, 9),
        {
            "window_size": (2, 3),
            "strides": (2, 1),
            "start_padding": (1, 0),
            "end_padding": (0, 2),
            "dilations": (1, 2),
        },
    ),
    "three dimensions, everything different": (
        (2, 2, 4, 5, 6),
        {
            "window_size": (1, 2, 3),
            "strides": (2, 1, 3),
            "start_padding": (0, 1, 2),
            "end_padding": (1, 0, 3),
            "dilations": (1, 3, 2),
        },
    ),
    "window as large as the padded input": (
        (2, 2, 3, 5),
        {"window_size": (5, 6), "start_padding": (2, 0), "end_padding": (0, 1)},
    ),
    "whole plane": ((3, 2, 5, 7), {"window_size": (5, 7)}),
    "whole volume": ((2, 3, 3, 4, 5), {"window_size": (3, 4, 5)}),
    "window of one": ((2, 3, 4, 5), {"window_size": 1}),
    "stride beyond the window": ((2, 2, 9, 11), {"window_size": (2, 1), "strides": (4, 3)}),
    "stride beyond the input": ((2, 2, 5, 6), {"window_size": (2, 3), "strides": (9, 100)}),
    "padding beyond the window": (
        (2, 2, 3, 2),
        {"window_size": (2, 3), "start_padding": (3, 4), "end_padding": (5, 1)},
    ),
    "dilated taps step over the input": (
        (2, 2, 2, 1),
        {
            "window_size": (2, 3),
            "start_padding": (3, 2),
            "end_padding": (2, 4),
            "dilations": (4, 3),
        },
    ),
    "windows that overhang": (
        (2, 2, 8, 7),
        {"window_size": (3, 2), "strides": (4, 3), "end_padding": (0, 1), "output_sizes": (3, 3)},
    ),
    "overhang with dilation and padding": (
        (1, 2, 8, 9),
        {
            "window_size": (3, 2),
            "strides": (2, 4),
            "start_padding": (1, 0),
            "end_padding": (1, 3),
            "dilations": (3, 2),
            "output_sizes": (3, 4),
        },
    ),
    "ceil": (
        (2, 2, 8, 10, 5),
        {"window_size": (3, 2, 3), "strides": (2, 3, 2), "start_padding": (0, 1, 1),
             "output_sizes": "ceil"},
    ),
    "fewer windows than fit": (
        (2, 2, 8, 7),
        {"window_size": (2, 3), "strides": (1, 2), "start_padding": 1, "output_sizes": (5, 2)},
    ),
    "two by two, step two, odd sizes": ((2, 3, 7, 19), {"window_size": 2, "strides": 2}),
    "three by three, step two, padded": (
        (2, 3, 9, 21),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1},
    ),
    "three by three, step one, padded": (
        (1, 2, 6, 18),
        {"window_size": 3, "start_padding": 1, "end_padding": 1},
    ),
    "long row": (
        (1, 1, 1, 77),
        {"window_size": (1, 5), "strides": (1, 3), "start_padding": (0, 4)},
    ),
    "one element": ((1, 1, 1, 1, 1), {"window_size": 2, "end_padding": 1}),
}  # fmt: skip
WITHOUT_NUMBERS = [d for d in INTEGERS if d not in ("int8", "uint16", "int64")]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("case", CASES)
def test_every_operator_in_short(case: str) -> None:
    shape, geometry = CASES[case]
    backward = {key: value for key, value in geometry.items() if key != "output_sizes"}
    layouts = ["contiguous", "permuted", "sliced"]
    for dtype in ("float16", "float32", "float64"):
        x = data(shape, dtype, seed=6)
        want = check("max_pooling", x, **geometry, return_indices=True, layouts=layouts)
        check("max_pooling", x, **geometry, layouts=layouts)
        check("average_pooling", x, **geometry, layouts=layouts)
        check("lp_pooling", x, **geometry, layouts=layouts)
        grad = data(want.values[0].shape, dtype, seed=7)
        check("max_pooling_grad", x, grad, **backward, layouts=layouts)
        check("average_pooling_grad", grad, shape, **backward, layouts=layouts)
    x = data(shape, "int8", seed=6)
    check("max_pooling", x, **geometry, return_indices=True, layouts=layouts)


@pytest.mark.small
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["random", "special"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int64"])
def test_max(case: str, dtype: str, kind: str) -> None:
    shape, geometry = CASES[case]
    x = data(shape, dtype, seed=1, kind=kind)
    check("max_pooling", x, **geometry)
    check("max_pooling", x, **geometry, return_indices=True)


@pytest.mark.small
@pytest.mark.parametrize("case", ["everything different per axis and side", "ceil", "long row"])
@pytest.mark.parametrize("dtype", DTYPES["max_pooling"])
@pytest.mark.parametrize("index_dtype", ["uint32", "uint64", "int64"])
def test_max_of_every_type(case: str, dtype: str, index_dtype: str) -> None:
    shape, geometry = CASES[case]
    x = data(shape, dtype, seed=2, kind="exact")
    check("max_pooling", x, **geometry, return_indices=True, index_dtype=index_dtype)
    check("max_pooling", x, **geometry, index_dtype=index_dtype)


@pytest.mark.small
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("include_padding", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_average(case: str, dtype: str, include_padding: bool) -> None:
    shape, geometry = CASES[case]
    x = data(shape, dtype, seed=3)
    check("average_pooling", x, **geometry, include_padding=include_padding)


@pytest.mark.small
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("p", [1, 2, 3, 10])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_lp(case: str, dtype: str, p: int) -> None:
    shape, geometry = CASES[case]
    layouts = ["contiguous", "permuted", "sliced", "negative"] if p > 2 else None
    narrowed = {} if layouts is None else {"layouts": layouts}
    check("lp_pooling", data(shape, dtype, seed=4), **geometry, p=p, **narrowed)


@pytest.mark.small
@pytest.mark.parametrize("case", ["everything different per axis and side", "ceil", "long row"])
@pytest.mark.parametrize("name", ["average_pooling", "lp_pooling"])
def test_special_values(name: str, case: str) -> None:
    shape, geometry = CASES[case]
    for dtype in FLOATS:
        check(name, data(shape, dtype, seed=5, kind="special"), **geometry)


WIDTHS = {
    "step one": {"window_size": (1, 3), "start_padding": (0, 1), "end_padding": (0, 1)},
    "step two": {"window_size": (2, 2), "strides": 2, "end_padding": (1, 1)},
    "step three, dilated": {
        "window_size": (1, 2), "strides": (1, 3), "start_padding": (0, 2), "end_padding": (0, 3),
        "dilations": (1, 2),
    },
}  # fmt: skip


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("case", WIDTHS)
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_every_width_of_a_row(name: str, case: str) -> None:
    for width in [*range(1, 36), 63, 64, 65]:
        for dtype in ("float16", "float32"):
            x = data((1, 1, 2, width), dtype, seed=width)
            check(name, x, **WIDTHS[case], layouts=["contiguous", "misaligned", "sliced"])
            if name == "max_pooling":
                check(name, x, **WIDTHS[case], layouts=["misaligned"], return_indices=True)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_every_number_of_channels_in_channels_last(name: str) -> None:
    for channels in [*range(1, 36), 63, 64, 65]:
        for dtype in ("float16", "float32"):
            x = data((1, channels, 3, 2), dtype, seed=channels)
            check(name, x, 2, 1, (0, 1), layouts=["permuted"])


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", WITHOUT_NUMBERS)
def test_rows_of_integers(dtype: str) -> None:
    for width in (1, 7, 15, 16, 17, 31, 33, 64, 65):
        x = data((1, 2, 3, width), dtype, seed=width, kind="special")
        check("max_pooling", x, (2, 1), layouts=["contiguous", "misaligned", "permuted"])
        check("max_pooling", x, 1, 2, layouts=["contiguous"], return_indices=True)
