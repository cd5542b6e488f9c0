"""Calls for the paths of the CPU: for each path one that just meets each of its predicates, and
ones that just miss them."""

from __future__ import annotations

import types

from normalization_grad_path_cases import NORMALIZATION_GRAD
from path_calls import (
    COLUMNS,
    LAST,
    REVERSED,
    Call,
    Case,
    average_grad,
    given,
    lp_grad,
    max_grad,
    max_pool,
    mvn,
    pad,
    pad_grad,
    pool,
    same,
    statistics,
    turned,
)
from unpool_path_cases import UNPOOL
from winner_path_cases import APART, PLANES, SIDE_BY_SIDE, STRIPS, WINNERS

TAPS = "rows have several windows of at most 4 taps, or of 8, or averages of 3 x 3 that are 2 or"
USUAL = "maxima or averages of 8 or 16 bits or of float32"
WORDS_MAX = "maxima of 16 bits or of float32"
PACKED = "windows advance by one over planes without gaps, as long as their outputs"
FEW_TAPS = "windows have few taps, at most 8 apart"
SUMS = "no element has more windows than one sum may join"
NEAR = "rows have several windows, at most 64 apart"
ALONG = "statistics differ along packed rows of 16 or more elements, or that follow each other"
LARGE = "the result is packed and larger than what the caches keep"
LONG_PLANES = "planes are as long as a vector of float32, or cannot be put side by side"
LINES = "lines are packed, of 8 bytes to 64 KB"
CASES = [
    Case("pool/taps", pool((2, 16, 3, 6), (2, 2), 2, order=LAST), {
        TAPS: pool((2, 16, 3, 6), (1, 5), 2, order=LAST),
        "planes lie side by side in x and y": pool((2, 16, 3, 6), (2, 2), 2),
        USUAL: pool((2, 16, 3, 6), (2, 2), 2, order=LAST, dtype="float64"),
    }),
    Case("pool/lane_thirds", max_pool((2, 16, 7, 9), (3, 3), 2, order=LAST), {
        WORDS_MAX: pool((2, 16, 7, 9), (2, 3), 2, order=LAST),
        STRIPS: max_pool((2, 16, 7, 9), (3, 9), 2, order=LAST),
        "windows are three columns": max_pool((2, 16, 7, 9), (3, 4), 2, order=LAST),
        "windows are three columns, two apart": max_pool((2, 16, 7, 9), (3, 3), (2, 3), order=LAST),
        "windows are three columns, two apart, and at most three rows":
            max_pool((2, 16, 7, 9), (4, 3), 2, order=LAST),
        "windows are three columns, two apart, and at most three rows, over planes side by side":
            max_pool((2, 16, 7, 9), (3, 3), 2),
        "windows are three columns, two apart, and at most three rows, over planes side by side, "
        "from a vector": max_pool((2, 3, 7, 9), (3, 3), 2, order=LAST),
        "windows are three columns, two apart, and at most three rows, over planes side by side, "
        "from a vector to 4096 bytes": max_pool((1, 1025, 4, 9), (3, 3), 2, order=LAST),
    }),
    Case("pool/turned", pool((4, 8, 20, 20), (6, 7), (2, 1), dtype="float64"), {
        "32 planes or more": pool((1, 31, 20, 20), (6, 7), (2, 1), dtype="float64"),
        "32 planes or more are packed":
            pool((4, 8, 20, 20), (6, 7), (2, 1), dtype="float64", order=REVERSED),
        "32 planes or more are packed, one after the other, and so short":
            pool((4, 8, 20, 21), (6, 7), (2, 1), dtype="float64"),
        "32 planes or more are packed, one after the other, and so short that 32 of them":
            pool((4, 8, 3, 4), (3, 4)),
        "rows are at most 16 elements": pool((4, 8, 7, 17), 3, 2),
        "rows are at most 16 elements, 8 of float64": same((4, 8, 4, 9), (3, 3), dtype="float64"),
        "rows are at most 16 elements, 8 of float64 and for most pairs":
            pool((4, 8, 6, 10), 2, 2),
        "rows are at most 16 elements, 8 of float64 and for most pairs of columns and windows":
            same((4, 8, 4, 9), (3, 3), op="max_pooling"),
        "rows are at most 16 elements, 8 of float64 and for most pairs of columns and windows of "
        "three columns one apart, or less than 512 bytes":
            pool((4, 8, 2, 64), (2, 5), (1, 2), dtype="float64"),
    }),
    Case("pool/plane_thirds", same((2, 3, 4, 6), (3, 3)), {
        USUAL: same((2, 3, 4, 6), (3, 3), dtype="float64"),
        STRIPS: same((2, 3, 4, 600), (3, 601)),
        PACKED: pool((2, 3, 4, 6), 3, start_padding=1, end_padding=(1, 0)),
        "windows are three columns": same((2, 3, 4, 6), (3, 5)),
        "windows are three columns around their output":
            pool((2, 3, 4, 6), 3, start_padding=(1, 0), end_padding=(1, 2)),
        "windows are three columns around their output, and at most three rows":
            pool((2, 3, 4, 6), (4, 3), start_padding=1, end_padding=1),
        "windows are three columns around their output, and at most three rows and planes":
            pool((2, 3, 5, 4, 6), (4, 3, 3), start_padding=1, end_padding=1),
    }),
    Case("pool/short_rows", same((2, 3, 4, 12), (3, 5), op="max_pooling"), {
        WORDS_MAX: same((2, 3, 4, 12), (3, 5)),
        STRIPS: same((2, 3, 4, 600), (3, 601), op="max_pooling"),
        PACKED: pool((2, 3, 4, 12), (3, 5), start_padding=(1, 2), end_padding=1, op="max_pooling"),
        "a vector holds a row, and what windows reach beyond it":
            same((2, 3, 4, 13), (3, 5), op="max_pooling"),
    }),
    Case("pool/packed_planes", same((2, 3, 4, 6), (3, 5)), {
        STRIPS: same((2, 3, 4, 600), (3, 601)),
        PACKED: pool((2, 3, 4, 6), (3, 5), start_padding=(1, 2), end_padding=1),
    }),
    Case("pool/fourths", pool((2, 3, 8, 20), (4, 5), 4), {
        "maxima or averages of 16 bits or of float32":
            max_pool((2, 3, 8, 20), (4, 5), 4, dtype="int8"),
        STRIPS: pool((2, 3, 8, 7), (4, 5), 4),
        "windows are four or five": pool((2, 3, 8, 20), (4, 6), 4),
        "windows are four or five packed columns": pool((2, 3, 8, 20), (4, 5), 4, order=LAST),
        "windows are four or five packed columns, four apart": pool((2, 3, 8, 20), (4, 5), (4, 3)),
    }),
    Case("pool/pairs", pool((2, 3, 6, 8), (2, 2), 2), {
        "maxima or averages of 8 or 16 bits or of float32, or norms of float32":
            pool((2, 3, 6, 8), (2, 2), 2, op="lp_pooling", dtype="float16"),
        STRIPS: pool((2, 3, 6, 3), (2, 2), 2),
        "windows are two or three": pool((2, 3, 6, 9), (2, 4), 2),
        "windows are two or three packed columns": pool((2, 3, 6, 8), (2, 2), 2, order=LAST),
        "windows are two or three packed columns, two apart": pool((2, 3, 6, 8), (2, 2), (2, 3)),
        "windows are two or three packed columns, two apart, and real":
            pool((2, 3, 6, 7), (2, 2), 2, end_padding=(0, 1)),
    }),
    Case("pool/strips", pool((2, 3, 4, 6), (3, 5), 1), {
        STRIPS: pool((2, 3, 4, 6), (3, 6), 1),
        "fewer than 2 KB": pool((2, 256, 4, 6), 2, 2, order=LAST, dtype="float64"),
    }),
    Case("pool/short_planes", pool((3, 4, 4, 4), (4, 4), dtype="float16"), {
        "averages of 16 bits": pool((3, 4, 4, 4), (4, 4)),
        PLANES: pool((3, 4, 4, 4), (4, 4), dtype="float16", start_padding=(0, 1),
                     output_sizes=(1, 1)),
        "planes are 1 to 16 vectors": pool((3, 4, 16, 16), (16, 16), dtype="float16"),
    }),
    Case("pool/planes", pool((3, 4, 5, 6), (5, 6)), {
        PLANES: pool((3, 4, 5, 6), (5, 6), start_padding=(0, 1), output_sizes=(1, 1))}),
    Case("pool/side_by_side", pool((2, 8, 5, 6), (5, 6), order=LAST), {
        SIDE_BY_SIDE: pool((2, 7, 5, 6), (5, 6), order=LAST)}),
    Case("pool/plain", pool((2, 7, 5, 6), (5, 6), order=LAST)),
    *WINNERS,
    Case("pool_grad/turned", max_grad((2, 16, 28, 32), 2, 2), {
        "16 planes or more": max_grad((1, 15, 28, 32), 2, 2),
        "16 planes or more, 12 of 16-bit floats":
            max_grad((1, 11, 14, 32), 2, 2, dtype="float16"),
        "16 planes or more, 12 of 16-bit floats and 8 of float64":
            max_grad((1, 7, 14, 14), 2, 2, dtype="float64"),
        "16 planes or more, 12 of 16-bit floats and 8 of float64, are packed":
            max_grad((1, 16, 28, 32), 2, 2, order=REVERSED),
        "16 planes or more, 12 of 16-bit floats and 8 of float64, are packed, one after the other, "
        "and so short": max_grad((2, 16, 30, 32), 2, 2),
        "windows have few taps, at most 64": max_grad((2, 16, 2, 75), (1, 66), 9),
        "no pairs": max_grad((2, 16, 4, 56), 2, 2),
        "no pairs or 3 x 3 windows": max_grad((2, 16, 7, 65), 3, 2, (0, 1)),
        "no pairs or 3 x 3 windows, 2 apart, step over 448 bytes or more of rows, or pairs of "
        "float64": max_grad((2, 16, 28, 16), 2, 2, dtype="float64"),
    }),
    Case("pool_grad/max_planes", max_grad((3, 4, 5, 13), (5, 13), 1), {
        PLANES: max_grad((3, 4, 5, 13), (5, 13), 1, (0, 1))}),
    Case("pool_grad/max_rows", max_grad((2, 3, 7, 65), 3, 2, (0, 1)), {
        "windows are 3 x 3, 2 apart": max_grad((2, 3, 7, 65), 3, 2, (0, 2))}),
    Case("pool_grad/max_pairs", max_grad((2, 3, 17, 8), (8, 2), (8, 2)), {
        "windows of two columns": max_grad((2, 3, 17, 16), (4, 4), (4, 4)),
        "windows of two columns and at most 8 rows": max_grad((2, 3, 19, 8), (9, 2), (9, 2)),
        "windows of two columns and at most 8 rows cover packed rows of a usual length":
            max_grad((2, 3, 17, 7), (8, 2), (8, 2)),
        "windows of two columns and at most 8 rows cover packed rows of a usual length without "
        "pads": max_grad((2, 3, 17, 8), (8, 2), (8, 2), (1, 0)),
        "windows of two columns and at most 8 rows cover packed rows of a usual length without "
        "pads, gaps": max_grad((2, 3, 17, 8), (7, 2), (8, 2)),
    }),
    Case("pool_grad/max_lane_pairs", max_grad((2, 16, 7, 5), (4, 2), (4, 2), order=LAST), {
        "elements have at most 32 bits":
            max_grad((2, 16, 7, 5), (4, 2), (4, 2), order=LAST, dtype="float64"),
        "windows of 2 to 8 taps": max_grad((2, 16, 7, 5), (3, 3), (3, 3), order=LAST),
        "windows of 2 to 8 taps cover planes without pads":
            max_grad((2, 16, 7, 5), (4, 2), (4, 2), (1, 0), order=LAST),
        "windows of 2 to 8 taps cover planes without pads, gaps":
            max_grad((2, 16, 7, 5), (3, 2), (4, 2), order=LAST),
        "windows of 2 to 8 taps cover planes without pads, gaps or overlap":
            max_grad((2, 16, 7, 5), (4, 2), (3, 2), order=LAST),
        "windows of 2 to 8 taps cover planes without pads, gaps or overlap, a vector of which":
            max_grad((2, 7, 7, 5), (4, 2), (4, 2), order=LAST),
    }),
    Case("pool_grad/max_lane_rows", max_grad((2, 16, 7, 5), 3, 2, 1, order=LAST), {
        "elements are float32 or float16":
            max_grad((2, 16, 7, 5), 3, 2, 1, order=LAST, dtype="float64"),
        "windows are 3 x 3": max_grad((2, 16, 7, 5), (3, 2), 2, 1, order=LAST),
        "windows are 3 x 3, 2 apart": max_grad((2, 16, 7, 5), 3, (2, 1), 1, order=LAST),
        "windows are 3 x 3, 2 apart, on planes a vector of which":
            max_grad((2, 7, 7, 5), 3, 2, 1, order=LAST),
        "windows are 3 x 3, 2 apart, on planes a vector of which or more lie side by side in all "
        "tensors, beginning at most one row and column":
            max_grad((2, 16, 7, 5), 3, 2, (1, 2), order=LAST),
    }),
    Case("pool_grad/max_steps", max_grad((2, 3, 9, 17), 3, 1, (1, 2)), {
        "windows are 3 x 3": max_grad((2, 3, 9, 17), (3, 2), 1, (1, 2)),
        "windows are 3 x 3, 1 apart": max_grad((2, 3, 9, 17), 3, (1, 2), (1, 2)),
        "windows are 3 x 3, 1 apart, on packed rows or on planes side by side in all tensors":
            max_grad((2, 3, 9, 17), 3, 1, (1, 2), order=REVERSED),
        "windows are 3 x 3, 1 apart, on packed rows or on planes side by side in all tensors, a "
        "vector of them or without gaps, beginning at most two":
            max_grad((2, 3, 9, 17), 3, 1, (1, 3)),
    }),
    Case("pool_grad/max_side_by_side", max_grad((2, 16, 2, 74), (1, 65), 9, order=LAST), {
        "16 planes or more": max_grad((2, 15, 2, 74), (1, 65), 9, order=LAST),
        "16 planes or more, 12 of 16-bit floats":
            max_grad((2, 11, 2, 74), (1, 65), 9, order=LAST, dtype="float16"),
        "16 planes or more, 12 of 16-bit floats and 8 of float64":
            max_grad((2, 7, 2, 74), (1, 65), 9, order=LAST, dtype="float64"),
        "windows have few taps, at most 64": max_grad((2, 16, 2, 75), (1, 66), 9, order=LAST),
    }),
    Case("pool_grad/max_blocks", max_grad((2, 3, 9, 17), (1, 5), (2, 1)), {
        "rows are packed": max_grad((2, 3, 9, 17), (1, 5), (2, 1), order=LAST),
        "rows are packed, and windows have few taps that are near each other, at most 8 apart":
            max_grad((2, 3, 9, 19), (1, 1), (1, 9)),
        "rows are packed, and windows have few taps that are near each other, at most 8 apart: "
        "their taps times steps": max_grad((2, 3, 9, 17), (1, 5), (1, 3)),
    }),
    Case("pool_grad/max_copied", max_grad((2, 4, 8, 8), 2, 2, order=COLUMNS), {
        APART: max_grad((2, 3, 9, 19), (2, 3), (1, 2)),
        "there are at most two dimensions of planes, and 512 elements, in planes that are not "
        "expanded or of at most 4 MB":
            max_grad((1, 1, 7, 73), 2, 2, order=COLUMNS),
        "packed copies have a path": max_grad((2, 3, 9, 19), (2, 3), (1, 2), order=COLUMNS),
    }),
    Case("pool_grad/max_scatter", max_grad((2, 3, 9, 19), (2, 3), (1, 2))),
    Case("pool_grad/average_planes", average_grad((2, 1, 6, 8), (6, 1), (6, 1)), {
        "one window covers each plane": average_grad((2, 3, 5, 13), (5, 13), 1, (0, 1)),
        "one window covers each plane, which is one packed row, or 8 planes":
            average_grad((2, 1, 6, 7), (6, 1), (6, 1)),
    }),
    Case("pool_grad/average_pairs", average_grad((2, 3, 6, 64), 2, 2), {
        "windows of two columns cover packed planes": average_grad((2, 3, 7, 64), 2, 2),
        "rows are packed, and the windows": average_grad((2, 3, 6, 64), (2, 3), 2),
        "elements have at most 32 bits": average_grad((2, 3, 6, 64), 2, 2, dtype="float64"),
    }),
    Case("pool_grad/average_rows", average_grad((2, 3, 7, 64), 2, 2), {
        "rows are packed, and the windows": average_grad((2, 3, 7, 64), (2, 3), 2)}),
    Case("pool_grad/average_thirds", average_grad((2, 3, 4, 17), 3, 2, 1), {
        "elements have at most 32 bits": average_grad((2, 3, 4, 17), 3, 2, 1, dtype="float64"),
        "windows are 3 x 3": average_grad((2, 3, 4, 17), (3, 4), 2, 1),
        "windows are 3 x 3, two apart": average_grad((2, 3, 4, 17), 3, (3, 2), 1),
        "windows are 3 x 3, two apart, on packed planes":
            average_grad((2, 3, 4, 17), 3, 2, 1, order=REVERSED),
        "windows are 3 x 3, two apart, on packed planes, and begin at most one element":
            average_grad((2, 3, 4, 17), 3, 2, (2, 1)),
        "rows are longer than 16 elements": average_grad((2, 3, 4, 8), 3, 2, 1),
    }),
    Case("pool_grad/average_turned", average_grad((2, 4, 28, 32), (7, 1), (3, 2)), {
        SUMS: average_grad((1, 8, 1, 2049), (1, 2049), 1, (0, 2048)),
        "8 planes or more": average_grad((1, 7, 28, 32), (7, 1), (3, 2)),
        "8 planes or more are packed": average_grad((1, 8, 28, 32), (7, 1), (3, 2), order=REVERSED),
        "8 planes or more are packed, one after the other, and so short":
            average_grad((2, 4, 28, 33), (7, 1), (3, 2)),
    }),
    Case("pool_grad/average_side_by_side", average_grad((2, 8, 9, 28), (2, 3), 9, order=LAST), {
        SUMS: average_grad((1, 8, 1, 2049), (1, 2049), 1, (0, 2048), order=LAST),
        SIDE_BY_SIDE: average_grad((2, 7, 9, 28), (2, 3), 9, order=LAST),
    }),
    Case("pool_grad/average_blocks", average_grad((2, 3, 9, 17), (2, 3), (8, 8)), {
        FEW_TAPS: average_grad((2, 3, 9, 19), (2, 3), (8, 9))}),
    Case("pool_grad/average_gather", average_grad((2, 3, 9, 19), (2, 3), (8, 9))),
    Case("pool_grad/lp_planes", lp_grad((2, 3, 4, 5), (4, 5)), {
        "each plane is one packed row that one window covers": lp_grad((2, 3, 4, 5), (4, 4)),
        LONG_PLANES: lp_grad((4, 8, 1, 3), (1, 3)),
    }),
    Case("pool_grad/lp_side_by_side",
         lp_grad((1, 8, 1, 1), (1, 2048), 1, (0, 2047), order=LAST), {
        SUMS: lp_grad((1, 8, 1, 1), (1, 2049), 1, (0, 2048), order=LAST),
        "8 planes or more lie side by side in all tensors": lp_grad((2, 7, 4, 5), 2, order=LAST),
    }),
    Case("pool_grad/lp_turned", lp_grad((2, 4, 16, 27), (2, 9), 2), {
        SUMS: lp_grad((1, 8, 3, 4), (33, 64), 1, (32, 63)),
        "8 planes or more": lp_grad((1, 7, 16, 27), (2, 9), 2),
        "8 planes or more are packed, one after the other, of elements of the norms' type, and so":
            lp_grad((2, 4, 16, 28), (2, 9), 2),
    }),
    Case("pool_grad/lp_thirds", lp_grad((2, 3, 4, 4), 3, 2, 1), {
        "elements have at most 32 bits": lp_grad((2, 3, 4, 4), 3, 2, 1, dtype="float64"),
        "windows are 3 x 3": lp_grad((2, 3, 4, 4), (3, 2), 2, 1),
        "windows are 3 x 3, two apart": lp_grad((2, 3, 4, 4), 3, (3, 2), 1),
        "windows are 3 x 3, two apart, on packed planes":
            lp_grad((2, 3, 4, 4), 3, 2, 1, order=REVERSED),
        "windows are 3 x 3, two apart, on packed planes, and begin at most one element":
            lp_grad((2, 3, 4, 4), 3, 2, (2, 1)),
    }),
    Case("pool_grad/lp_rows", lp_grad((2, 3, 2, 4161), (1, 4097), 64), {
        SUMS: lp_grad((1, 2, 3, 4), (33, 64), 1, (32, 63)),
        NEAR: lp_grad((2, 3, 2, 67), (1, 2), 65),
        NEAR + ", and at most 64 such steps": lp_grad((2, 3, 2, 4162), (1, 4098), 64),
    }),
    Case("pool_grad/lp_gather", lp_grad((2, 3, 2, 67), (1, 2), 65)),
    Case("pad/turned", turned((16, 16)), {
        "there are no pads, and other elements are packed in x": turned((16, 16), (0, 1)),
        "there are no pads, and other elements are packed in x than in the result":
            pad((16,), 0, 0),
        "there are no pads, and other elements are packed in x than in the result, in squares":
            turned((1, 16, 3)),
    }),
    Case("pad/seams", pad((10_000_000, 16), (1, 2), (0, 3)), {
        "rows are 64 to 640 bytes": pad((10_000_000, 15), (1, 2), (0, 3)),
        LARGE: pad((3, 16), (1, 2), (0, 3)),
        LINES: pad((1_000_000_000,), 2, 3),
    }),
    Case("pad/packed", pad((3, 2), (1, 2), (0, 3)), {
        LINES: pad((3, 1), (1, 2), (0, 3)),
        "the result is packed": pad((3, 2), (1, 2), (0, 3), out=types.SimpleNamespace(
            shape=(4, 7), dtype="float32", strides=(32, 4))),
    }),
    Case("pad/short_lines", pad((16, 3), (0, 2), (0, 3), dtype="int16"), {
        "lines are at most 24 elements": pad((15, 3), (0, 2), (0, 3), dtype="int16")}),
    Case("pad/streamed_lines", pad((1_000_000_000,), 2, 3), {LARGE: pad((300,), 2, 3)}),
    Case("pad/plain", pad((100,), 2, 3)),
    Case("pad_grad/rows", pad_grad((1, 3, 1100), (15, 0, 512), (0, 15, 512), "symmetric"), {
        "elements behind the last padded axis are packed":
            pad_grad((3, 2, 4), (1, 2, 0), (0, 3, 0), out=types.SimpleNamespace(
                shape=(3, 2, 4), dtype="float32", strides=(4, 12, 24))),
        "at most 1024 elements of a line have several terms":
            pad_grad((2, 1100), (15, 512), (0, 513), "symmetric"),
        "at most 1024 elements of a line have several terms, each at most 256":
            pad_grad((3, 2), (1, 256), (2, 1)),
        "a line is the sum of at most 256": pad_grad((2, 3, 4), (15, 16, 1), (2, 1, 3)),
    }),
    Case("pad_grad/pieces", pad_grad((1,), 1000, 3096), {
        "few elements have more than 4096 terms": pad_grad((1,), 1000, 3095)}),
    Case("pad_grad/plain", pad_grad((1,), 1000, 3095)),
    Case("mvn/short_rows", mvn((9, 15), 1), {
        "groups are rows of at most 15 elements": mvn((9, 16), 1),
        "elements are floats of at most 32 bits": mvn((9, 15), 1, dtype="float64"),
    }),
    Case("mvn/tiles", mvn((6, 3, 16), (0, 2), affine=(1, 3, 1)), {
        "elements of a group stand apart": mvn((2, 17), 1),
        "elements of a group stand apart, or packed pieces of at most 256":
            mvn((86, 3, 257), (0, 2), affine=(1, 3, 1)),
        "elements of a group stand apart, or packed pieces of at most 256, or 1024 of 16 bits":
            mvn((342, 3, 1025), (0, 2), affine=(1, 3, 1), dtype="float16"),
        "elements of a group stand apart, or packed pieces of at most 256, or 1024 of 16 bits, and":
            mvn((5, 3, 16), (0, 2), affine=(1, 3, 1)),
        "elements are floats of at most 32 bits": mvn((17, 2), 0, dtype="float64"),
    }),
    Case("mvn/rows", mvn((9, 2, 16), (1, 2), affine=(1, 2, 1)), {
        "a group is packed, or in pieces that are, of 16 or more elements: near each other, few":
            mvn((9, 5, 3), (1, 2), affine=(1, 1, 3), use_mean=False, use_variance=False),
        "elements are floats of at most 32 bits": mvn((9, 17), 1, dtype="float64"),
    }),
    Case("mvn/columns", mvn((5, 8), 0, dtype="float64"), {
        "elements of a group stand 8 or more apart, or packed pieces of less than 16":
            mvn((99, 3, 16), (0, 2), affine=(1, 3, 1), dtype="float64"),
        "elements of a group stand 8 or more apart": mvn((5, 7), 0, dtype="float64"),
        "elements are float64": mvn((9, 5, 3), (1, 2), use_mean=False, use_variance=False),
    }),
    Case("mvn/plain", mvn((9, 17), 1, dtype="float64")),
    *NORMALIZATION_GRAD,
    Case("statistics/tiles", statistics((6, 3, 16), (0, 2)), {
        "elements of a group stand apart": statistics((2, 17), 1),
        "elements of a group stand apart, or packed pieces of at most 256":
            statistics((86, 3, 257), (0, 2)),
        "elements of a group stand apart, or packed pieces of at most 256, or 1024 of 16 bits":
            statistics((342, 3, 1025), (0, 2), dtype="float16"),
        "elements of a group stand apart, or packed pieces of at most 256, or 1024 of 16 bits, and":
            statistics((5, 3, 16), (0, 2)),
        "elements are floats of at most 32 bits": statistics((17, 2), 0, dtype="float64"),
    }),
    Case("statistics/columns", statistics((5, 8), 0, dtype="float64"), {
        "elements of a group stand 8 or more apart": statistics((5, 7), 0, dtype="float64"),
        "elements are float64": statistics((9, 2, 15), (1, 2)),
    }),
    Case("statistics/rows", statistics((3, 4, 17), (1, 2)), {
        "elements are floats of at most 32 bits":
            statistics((3, 4, 16), (0, 2), dtype="float64"),
        "a group is packed, or in pieces of 16": statistics((3, 17), ()),  # of one element each
    }),
    Case("statistics/plain", statistics((3, 4, 15), (0, 2), dtype="float64")),
    Case("merge/plain", Call(
        "merge_statistics", {f"{part}[{k}]": (9, 17) for part in "ab" for k in range(3)},
        {"a": (None,) * 3, "b": (None,) * 3},
    )),
    Case("normalize/rows", given((3, 16), (3, 1), (1, 1)), {
        "elements are floats of at most 32 bits": given((3, 16), (3, 1), (1, 1), dtype="float64"),
        "packed rows of 16 or more elements share their": given((3, 15), (3, 1), (1, 1)),
    }),
    Case("normalize/columns", given((9, 16), (9, 1), (1, 16)), {
        ALONG: given((9, 15), (9, 1), (1, 15))}),
    Case("normalize/plain", given((9, 15), (9, 1), (1, 15))),
    *UNPOOL,
]  # fmt: skip
