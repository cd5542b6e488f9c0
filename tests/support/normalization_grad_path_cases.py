"""Calls for the paths of normalization's gradient, as those of path_cases are."""

from __future__ import annotations

from path_calls import LAST, Case, grad_sums, mvn_grad

SHARED = "elements share statistics, or sums are asked for"
APART = "elements of a group stand 8 or more apart"
OF_CELLS = "sums are of elements that share statistics"
PACKED = "a group's elements are packed in x but not in grad or dx"
NEITHER = {"use_mean": False, "use_variance": False}

NORMALIZATION_GRAD = (
    Case("mvn_grad/copied",
         mvn_grad((2, 8, 4, 5), (0, 2, 3), (1, 8, 1, 1), order=LAST, row_major=("grad",)), {
        SHARED: mvn_grad((2, 8, 4, 5), (0, 2, 3), **NEITHER, order=LAST, row_major=("grad",)),
        PACKED: mvn_grad((2, 8, 4, 5), (0, 2, 3), (1, 8, 1, 1), order=LAST),
        PACKED + ", or less than 8 apart in one of these and 8 or more in x":
            mvn_grad((2, 7, 4, 5), (0, 2, 3), (1, 7, 1, 1), order=LAST, row_major=("grad",)),
        PACKED + ", or less than 8 apart in one of these and 8 or more in x, where another path":
            mvn_grad((2, 8, 4, 5), 1, dtype="float64", order=LAST, row_major=("grad",))}),
    Case("mvn_grad/side_by_side", mvn_grad((1024, 8), 0, (1024, 1)), {
        "elements are floats of at most 32 bits":
            mvn_grad((5, 8), 0, (5, 1), dtype="float64"),
        SHARED: mvn_grad((5, 8), 0, (5, 1), **NEITHER),
        OF_CELLS: grad_sums((5, 3, 8), (0, 1), (1, 3, 8), (5, 1, 1)),
        "at most 1024 elements of a group": mvn_grad((1025, 8), 0, (1025, 1)),
        "at most 1024 elements of a group, with a scale or bias each": mvn_grad((24, 8), 0, (1, 8)),
        "at most 1024 elements of a group, with a scale or bias each, or at most 24 without any":
            mvn_grad((25, 8), 0),
        "at most 1024 elements of a group, with a scale or bias each, or at most 24 without any "
        "stand 8 or more apart": mvn_grad((5, 7), 0, (5, 1))}),
    Case("mvn_grad/columns", mvn_grad((5, 8), 0, (1, 8)), {
        SHARED: mvn_grad((5, 8), 0, (1, 1), **NEITHER, order=(1, 0)),
        APART: mvn_grad((5, 7), 0, (1, 7)),
        APART + "; or 2": mvn_grad((97, 3), 0, (1, 3)),
        APART + "; or 2 to 7, cut evenly into 16 or more rows that": mvn_grad((95, 3), 0, (1, 3)),
        APART + "; or 2 to 7, cut evenly into 16 or more rows that span at least 16; or packed":
            mvn_grad((7, 144), (0, 1), (1, 144)),
        APART + "; or 2 to 7, cut evenly into 16 or more rows that span at least 16; or packed "
        "pieces, which share": mvn_grad((8, 4097), (0, 1), (1, 4097)),
        "groups do not consist of at most 256 packed planes":
            mvn_grad((256, 3, 16), (0, 2), (1, 3, 1))}),
    Case("mvn_grad/rows", mvn_grad((9, 32), 1, (1, 32)), {
        "elements are floats of at most 32 bits":
            mvn_grad((9, 32), 1, (1, 32), dtype="float64"),
        SHARED: mvn_grad((9, 32), 1, (9, 32), **NEITHER),
        "a group is one packed row, with scale and bias for each position or for all of it":
            mvn_grad((2, 3, 32), (1, 2), (1, 3, 1)),
        "rows have 32 to": mvn_grad((9, 31), 1, (1, 31)),
        "rows have 32 to 16384 elements": mvn_grad((2, 16385), 1, dtype="float16"),
        "rows have 32 to 16384 elements; of float32 without": mvn_grad((2, 16384), 1),
        "rows have 32 to 16384 elements; of float32 without parameters":
            mvn_grad((2, 2049), 1, (2, 1)),
        "rows have 32 to 16384 elements; of float32 without parameters and activation":
            mvn_grad((1, 1048577), 1, (1, 1048577)),
    }),
    Case("mvn_grad/turned", mvn_grad((9, 31), 1, (1, 31)), {
        "elements are floats of at most 32 bits": mvn_grad((9, 15), 1, (1, 15), dtype="float64"),
        SHARED: mvn_grad((9, 15), 1, (9, 15), **NEITHER),
        "a group is one element, or one packed row too short to be taken as such":
            mvn_grad((2, 3, 16), (1, 2), (1, 3, 1))}),
    Case("mvn_grad/spread", mvn_grad((2, 3, 15), (1, 2), (1, 3, 1)), {
        "elements are floats of at most 32 bits":
            mvn_grad((2, 3, 15), (1, 2), (1, 3, 1), dtype="float64"),
        SHARED: mvn_grad((2, 3, 15), (1, 2), (1, 3, 1), **NEITHER),
        "a group is one packed row": mvn_grad((2, 3, 2, 15), (1, 3), (1, 3, 1, 1)),
        "a group is one packed row of pieces of at most 15 elements":
            mvn_grad((2, 3, 16), (1, 2), (1, 3, 1)),
        "a group is one packed row of pieces of at most 15 elements, each with one scale":
            mvn_grad((2, 3, 4, 15), (1, 2, 3), (1, 3, 1, 15)),
        "a group is one packed row of pieces of at most 15 elements, each with one scale and bias, "
        "and no longer": mvn_grad((1, 69906, 15), (1, 2), (1, 69906, 1)),
    }),
    Case("mvn_grad/short_planes", mvn_grad((2, 3, 16), (1, 2), (1, 3, 1)), {
        "elements are floats of at most 32 bits":
            mvn_grad((2, 3, 16), (1, 2), (1, 3, 1), dtype="float64"),
        "groups of at most 131072 elements": mvn_grad((1, 8193, 16), (1, 2), (1, 8193, 1)),
        "groups of at most 131072 elements consist of packed pieces of 16":
            mvn_grad((2, 3, 2, 15), (1, 3), (1, 3, 1, 1)),
        "groups of at most 131072 elements consist of packed pieces of 16 to 1024":
            mvn_grad((2, 3, 1025), (1, 2), (1, 3, 1)),
        "groups of at most 131072 elements consist of packed pieces of 16 to 1024, each with one":
            mvn_grad((2, 3, 144), (0, 2), (1, 3, 144)),
        "groups of at most 131072 elements consist of packed pieces of 16 to 1024, each with one "
        "scale and bias, which all share or which follow each other along one dimension":
            mvn_grad((2, 3, 5, 16), (0, 2, 3), (1, 3, 5, 1)),
        "elements have a mean": mvn_grad((2, 3, 16), (1, 2), (1, 3, 1), use_mean=False),
        "elements have a mean, a variance":
            mvn_grad((2, 3, 16), (1, 2), (1, 3, 1), use_variance=False),
        "elements have a mean, a variance, sums of their own":
            grad_sums((2, 3, 16), (1, 2), (2, 1, 1), (1, 3, 1)),
        "elements have a mean, a variance, sums of their own, and no activation, one of two "
        "straight pieces, or SiLU": mvn_grad((2, 3, 16), (1, 2), (1, 3, 1), activation="tanh"),
    }),
    Case("mvn_grad/planes", mvn_grad((2, 3, 16), (1, 2), (1, 3, 1), activation="gelu"), {
        SHARED: mvn_grad((2, 3, 16), (1, 2), (1, 3, 1), **NEITHER),
        OF_CELLS: grad_sums((2, 3, 16), (1, 2), (2, 3, 1), (1, 3, 1)),
        "groups consist of packed pieces of at least 16 elements":
            mvn_grad((2, 3, 2, 15), (1, 3), (1, 3, 1, 1)),
        "groups consist of packed pieces of at least 16 elements, each with one scale and bias":
            mvn_grad((2, 3, 144), (0, 2), (1, 3, 144))}),
    Case("mvn_grad/plain", mvn_grad((5, 7), 0, (1, 7))),
)  # fmt: skip
