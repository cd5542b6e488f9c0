"""Calls for the paths of max pooling with indices, as those of path_cases are."""

from __future__ import annotations

from path_calls import COLUMNS, LAST, REVERSED, Case, winners

STRIPS = "rows have several windows whose columns lie together"
PAIRS = "windows are two or three packed columns"
SIDE_BY_SIDE = "8 planes or more lie side by side"
APART = "elements of x or of the result lie apart, or in another order than their positions"
PLANES = "each plane is one packed row that one window covers"

WINNERS = (
    Case("winners/turned", winners((4, 8, 29, 24), (4, 8), 1, dtype="float16"), {
        "32 planes or more": winners((1, 31, 29, 24), (4, 8), 1, dtype="float16"),
        "32 planes or more are packed":
            winners((4, 8, 29, 24), (4, 8), 1, dtype="float16", order=REVERSED),
        "32 planes or more are packed, one after the other, and so short":
            winners((4, 8, 30, 24), (4, 8), 1, dtype="float16"),
        "32 planes or more are packed, one after the other, and so short that 32 of them":
            winners((4, 8, 4, 8), (4, 8), 1, dtype="float16"),
        "positions in these planes are near each other":
            winners((8, 8, 2048), (3, 3), 1, axes=(0, 1), order=(2, 0, 1), dtype="float16"),
        "windows have at most 12 taps": winners((4, 8, 4, 15), (1, 13), 1),
        "windows have at most 12 taps, or 32 of 16-bit floats":
            winners((4, 8, 4, 15), (3, 11), 1, dtype="float16"),
        "rows are at most 12 elements": winners((4, 8, 6, 13), (2, 2), 2),
        "rows are at most 12 elements, or 16 where windows have three columns":
            winners((4, 8, 6, 17), (3, 3), 2),
    }),
    Case("winners/plain_pairs", winners((2, 3, 6, 8), (3, 2), 2), {
        "elements are floats of at most 32 bits": winners((2, 3, 6, 8), (3, 2), 2, dtype="float64"),
        STRIPS: winners((2, 3, 6, 3), (3, 2), 2),
        PAIRS: winners((2, 3, 6, 8), (3, 2), (2, 3)),
        "windows have at most three rows": winners((2, 3, 6, 8), (4, 2), 2),
        "windows have at most three rows, of one plane": winners((2, 3, 6, 6, 8), (2, 2, 2), 2),
        "windows have at most three rows, of one plane, and positions in them fit":
            winners((1, 1, 50, 1000), (2, 2), 2, dilations=(20, 1), dtype="float16"),
    }),
    Case("winners/pairs", winners((2, 3, 8, 8), (4, 2), 2), {
        "elements are floats of at most 32 bits": winners((2, 3, 8, 8), (4, 2), 2, dtype="int16"),
        STRIPS: winners((2, 3, 8, 3), (4, 2), 2),
        PAIRS: winners((2, 3, 8, 8), (4, 2), (2, 1)),
        PAIRS + ", two apart, that are real": winners((2, 3, 8, 7), (4, 2), 2, end_padding=(0, 1)),
        PAIRS + ", two apart, that are real but for one before the first, of at most 16 rows":
            winners((2, 3, 19, 8), (17, 2), 2),
    }),
    Case("winners/lane_taps", winners((2, 32, 6, 14), (4, 8), 1, order=LAST, dtype="float16"), {
        "windows have at most 64 taps":
            winners((2, 32, 5, 13), (5, 13), order=LAST, dtype="float16"),
        "windows have at most 64 taps, whose positions are near each other":
            winners((1, 32, 2, 32767), (2, 2), 1, order=LAST, dtype="float16"),
        "windows have at most 64 taps, whose positions are near each other, in planes of which "
        "whole vectors lie side by side":
            winners((2, 7, 6, 14), (4, 8), 1, order=LAST, dtype="float16"),
        "windows have at most 12 taps": winners((2, 16, 6, 14), (1, 13), 1, order=LAST),
        "windows have at most 12 taps, or 32 of 16-bit floats":
            winners((2, 32, 6, 14), (3, 11), 1, order=LAST, dtype="float16"),
    }),
    Case("winners/strips", winners((2, 3, 4, 6), (3, 5), 1), {
        STRIPS: winners((2, 3, 4, 6), (3, 6), 1)}),
    Case("winners/planes", winners((3, 4, 5, 13), (5, 13)), {
        PLANES: winners((3, 4, 5, 13), (5, 13), start_padding=(0, 1), output_sizes=(1, 1))}),
    Case("winners/side_by_side", winners((2, 8, 5, 13), (5, 13), order=LAST), {
        SIDE_BY_SIDE: winners((2, 7, 5, 13), (5, 13), order=LAST)}),
    Case("winners/copied", winners((2, 4, 8, 8), 2, 2, order=COLUMNS), {
        APART: winners((2, 3, 15, 6), (3, 6), 1),
        "there are at most two dimensions of planes":
            winners((2, 2, 2, 8, 8), 2, 2, axes=(3, 4), order=(2, 1, 0, 4, 3)),
        "there are at most two dimensions of planes, and 512 elements, in planes that are not "
        "expanded or of at most 4 MB":
            winners((1, 1, 7, 73), 2, 2, order=COLUMNS),
        "packed copies have a path": winners((2, 4, 8, 8), (3, 8), 1, order=COLUMNS),
    }),
    Case("winners/plain", winners((2, 7, 4, 9), (4, 9), order=LAST)),
)  # fmt: skip
