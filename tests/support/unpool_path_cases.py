"""Calls for the paths of max unpooling, as path_cases has them for the others."""

from __future__ import annotations

from path_calls import LAST, REVERSED, Case, unpool

CELLS = "sources may have 2, 4 or 8 targets each, in at most four rows"
UNPOOL = [
    Case("unpool/lane_cells", unpool((2, 16, 2, 3), (2, 16, 4, 6), order=LAST), {
        "planes lie side by side, their elements equally far apart":
            unpool((2, 16, 2, 3), (2, 16, 4, 6)),
        CELLS: unpool((2, 16, 2, 3), (2, 16, 6, 3), order=LAST),
        "planes fill a vector, two where it is 8 targets; sources are equally far apart":
            unpool((2, 3, 2, 3), (2, 3, 4, 6), order=LAST),
    }),
    Case("unpool/side_by_side", unpool((2, 2, 2, 3), (2, 2, 4, 5), order=LAST), {
        "planes lie side by side, their elements equally far apart":
            unpool((2, 1, 2, 3), (2, 1, 4, 5), order=LAST),
    }),
    Case("unpool/plane_cells", unpool((1, 2, 2, 128), (1, 2, 4, 256)), {
        "planes of the result are packed":
            unpool((1, 2, 2, 128), (1, 2, 4, 256), order=REVERSED),
        "there are several planes": unpool((1, 1, 2, 128), (1, 1, 4, 256)),
        CELLS: unpool((1, 2, 2, 128), (1, 2, 6, 256)),
        "rows of 128 or more sources, of two columns of targets each, are packed":
            unpool((1, 2, 2, 127), (1, 2, 4, 254)),
    }),
    Case("unpool/planes", unpool((1, 2, 2, 3), (1, 2, 4, 5)), {
        "planes of the result are packed": unpool((1, 2, 2, 3), (1, 2, 4, 5), order=REVERSED),
        "there are several planes": unpool((1, 1, 2, 3), (1, 1, 4, 5)),
    }),
    Case("unpool/plain", unpool((2, 3, 2, 3), (2, 3, 4, 5), order=REVERSED)),
]  # fmt: skip
