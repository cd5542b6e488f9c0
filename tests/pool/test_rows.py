"""Pooling of long rows of channels, of channels of a few bytes, and of windows that rows share."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import data

SAME = """
import numpy as np, cudml
from cudml import reference
from harness import data
def same(op, x, *args, **kwargs):
    y, want = (getattr(of, op)(x, *args, **kwargs) for of in (cudml, reference))
    assert np.array_equal(y, want.astype(y.dtype)), (op, x.shape, x.dtype, args, kwargs)
"""

CHANNELS_LAST = """
def last(shape, dtype):
    x = data((shape[0], *shape[2:], shape[1]), dtype, kind="exact")
    return np.moveaxis(x, -1, 1)
# rows of 33 KB and more, with whole and partial vectors; windows at the ends of rows and planes
for channels, columns in ((40, 430), (64, 300), (256, 70)):
    for window, strides in (((2, 2), (2, 2)), ((2, 2), (3, 2)), ((1, 2), (1, 3))):
        x = last((2, channels, 7, columns), "float32")
        same("max_pooling", x, window, strides)
        same("max_pooling", x, window, strides, start_padding=(0, 1), end_padding=(1, 0))
        same("average_pooling", x, window, strides)
same("max_pooling", last((2, 24, 5, 6, 200), "float32"), (2, 2, 2), (2, 2, 2))
same("max_pooling", last((1, 24, 5, 6, 201), "float16"), (2, 2, 2), (2, 3, 2))
# three columns of many channels, side by side
for channels in (16, 31, 64, 250, 513):
    for dtype in ("float32", "float16"):
        x = last((2, channels, 9, 11), dtype)
        for start in ((1, 1), (0, 0), (1, 2), (0, 1)):
            same("max_pooling", x, 3, 2, start_padding=start, end_padding=(1, 0))
# channels of 1 to 9 bytes
for channels in range(1, 10):
    for rows, columns in ((4, 150), (5, 33), (2, 1300)):
        same("max_pooling", last((2, channels, rows, columns), "uint8"), 2, 2)
    x = last((2, channels, 6, 90), "int16")
    same("max_pooling", x, (3, 2), 2)
    same("max_pooling", x, 2, 2, start_padding=(0, 1))
print("done")
"""

CHANNELS_FIRST = """
# planes of few and many rows, whose windows reach over none, one or both ends
for rows, columns in ((1, 5), (2, 16), (3, 17), (5, 1), (17, 17), (35, 35), (40, 64), (20, 97)):
    x = data((3, 4, rows, columns), "float32", kind="exact")
    for include_padding in (False, True):
        same("average_pooling", x, 3, start_padding=1, end_padding=1,
             include_padding=include_padding)
    same("max_pooling", x.astype("float16"), 3, start_padding=1, end_padding=1)
    same("max_pooling", x, (2, 3), start_padding=(1, 1), end_padding=(0, 1))
x = data((2, 3, 4, 9, 18), "float32", kind="exact")
same("average_pooling", x, 3, start_padding=1, end_padding=1)
# two, three, four and five columns that advance by two and by four
for columns in (31, 64, 65, 200, 1027):
    x = data((2, 3, 9, columns), "float32", kind="exact")
    for start in (0, 1, 2):
        for window, strides in ((3, 2), ((3, 2), 2), ((2, 3), (3, 2)), ((1, 5), (1, 4)),
                                ((2, 4), (2, 4)), ((5, 5), (4, 4))):
            pads = dict(start_padding=(0, start), end_padding=(0, 1))
            same("average_pooling", x, window, strides, **pads)
            same("max_pooling", x.astype("float16"), window, strides, **pads)
            same("max_pooling", x.astype("int8"), window, strides, **pads)
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("script", [CHANNELS_LAST, CHANNELS_FIRST], ids=["last", "first"])
@pytest.mark.parametrize("limit", ["0", "1000000000000"])
def test_every_row_is_right(script: str, limit: str) -> None:
    """Whether outputs are written past the caches, and inputs fetched ahead, or not."""
    assert child_says(SAME + script, CUDML_STREAM_BYTES=limit, limit=120) == "done"


@pytest.mark.parametrize("axis", [2, 3])
def test_a_pooled_dimension_of_one_element_changes_nothing(axis: int) -> None:
    row = data((1, 9, 32_000), "float32", kind="exact")
    x, window, strides = np.expand_dims(row, axis), [5, 5], [4, 4]
    window[axis - 2] = strides[axis - 2] = 1
    plain = cudml.average_pooling(row, 5, 4)
    assert np.array_equal(cudml.average_pooling(x, window, strides), np.expand_dims(plain, axis))
