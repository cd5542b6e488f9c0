"""Max unpooling: examples, what max pooling takes comes back, what is out of range, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import harness
from cudml import bounds, reference


def unpooled(x: Any, indices: Any, sizes: Any, dtype: str = "f4", kind: str = "u4") -> list:
    """Of one row."""
    values, places = (np.array(v).reshape(1, 1, -1) for v in (x, indices))
    return reference.max_unpooling(values.astype(dtype), places.astype(kind), sizes)[0, 0].tolist()


def test_examples() -> None:
    """UP1 to UP4."""
    x, places = np.array([[[[4, 4], [6, 7]]]], "f4"), np.array([[[[4, 4], [7, 8]]]], "u4")
    got = reference.max_unpooling(x, places, (1, 1, 3, 3))
    np.testing.assert_array_equal(got, [[[[0, 0, 0], [0, 4, 0], [0, 6, 7]]]])
    assert unpooled([5, 6, 7], [0, 9, 2**32 - 1], (1, 1, 4)) == [5, 0, 0, 0]
    assert unpooled([5, 6, 7], [-1, -4, 3], (1, 1, 4), kind="i8") == [0, 0, 0, 7]
    assert unpooled([5, 6, 7], [1, 1, 1], (1, 1, 2)) == [0, 7]
    x = np.array([[[2**63 + 1], [2**63 + 2]]], "u8")
    got = reference.max_unpooling(x, np.array([[[3], [0]]], "u4"), (1, 2, 2))
    assert got.tolist() == [[[2**63 + 2, 0], [0, 2**63 + 1]]]


@pytest.mark.parametrize("kind", ["uint32", "uint64", "int32", "int64"])
@pytest.mark.parametrize("dtype", harness.DTYPES["max_pooling"])
def test_agrees_with_a_plain_loop(dtype: str, kind: str) -> None:
    x = harness.data((2, 3, 4, 5), dtype, 3, "special")
    rng = np.random.default_rng(4)
    indices = rng.integers(-9, 90, x.shape).astype(kind)
    indices[0, 0, 0, :3] = np.array([-1]).astype(kind)[0]
    want = np.zeros(2 * 3 * 3 * 4, x.dtype)
    for k, i in enumerate(indices.ravel().tolist()):
        if 0 <= i < want.size:
            want[i] = x.ravel()[k]
    got = reference.max_unpooling(x, indices, (2, 3, 3, 4))
    assert got.dtype == x.dtype and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", ["uint32", "uint64", "int64"])
def test_what_pooling_took_comes_back(kind: str) -> None:
    x = harness.data((2, 3, 4, 6, 5), "float16", 8)
    y, places = reference.max_pooling(x, 2, 2, 1, 1, return_indices=True, index_dtype=kind)
    back = reference.max_unpooling(y, places, x.shape)
    taken = back != 0
    assert taken.sum() == np.unique(places).size and (back[taken] == x[taken]).all()
    np.testing.assert_array_equal(
        reference.max_pooling(back, 2, 2, 1, 1) > 0, np.where(y > 0, True, False)
    )


def test_bits_are_copied() -> None:
    bits = np.array([[[0x7F800001, 0xFFC12345, 0x80000000]]], np.uint32)
    places = np.array([[[4, 0, 2]]], np.int64)
    want = bounds.expected("max_unpooling", bits.view("f4"), places, (1, 1, 5))
    (got,) = want.values
    assert want.rules == ["bits"]
    assert got.view("u4").ravel().tolist() == [0xFFC12345, 0, 0x80000000, 0, 0x7F800001]
    other = got.copy()
    other[0, 0, 2] = 0.0
    assert bounds.compare(got, want).ok and not bounds.compare(other, want).ok


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4, 5)])
def test_zero_sizes(shape: tuple[int, ...]) -> None:
    sizes = (*shape[:2], *[7] * (len(shape) - 2))
    got = reference.max_unpooling(np.zeros(shape, "f4"), np.zeros(shape, "u4"), sizes)
    assert got.shape == sizes


X, PLACES = harness.data((2, 3, 4, 5), "int16", 1), np.zeros((2, 3, 4, 5), "u4")
REFUSED = [
    (TypeError, "InputTensor is a list", {"x": [1]}),
    (TypeError, "InputTensor.DataType is bool", {"x": X > 0}),
    (ValueError, "InputTensor.DimensionCount is 2; it must be 3, 4 or 5",
     {"x": X[0, 0], "indices": PLACES[0, 0]}),
    (ValueError, "InputTensor.DimensionCount is 6", {"x": X[None, None]}),
    (ValueError, "InputTensor.Sizes[2] is 0; it must be at least 1",
     {"x": X[:, :, :0], "indices": PLACES[:, :, :0]}),
    (TypeError, "IndicesTensor.DataType is uint16", {"indices": PLACES.astype("u2")}),
    (TypeError, "IndicesTensor.DataType is float32", {"indices": PLACES.astype("f4")}),
    (ValueError, "IndicesTensor.Sizes are (1, 3, 4, 5); they must be (2, 3, 4, 5)",
     {"indices": PLACES[:1]}),
    (TypeError, "OutputTensor.Sizes (output_sizes) is 4", {"output_sizes": 4}),
    (ValueError, "OutputTensor.Sizes (output_sizes) is (2, 3, 4)", {"output_sizes": (2, 3, 4)}),
    (ValueError, "OutputTensor.Sizes[0] is 1; it must be 2", {"output_sizes": (1, 3, 8, 8)}),
    (ValueError, "OutputTensor.Sizes[1] is 4; it must be 3", {"output_sizes": (2, 4, 8, 8)}),
    (ValueError, "OutputTensor.Sizes[3] is 0; it must be at least 1",
     {"output_sizes": (2, 3, 8, 0)}),
    (TypeError, "OutputTensor.Sizes[2] is 8.0", {"output_sizes": (2, 3, 8.0, 8)}),
]  # fmt: skip


@pytest.mark.parametrize("error, text, fields", REFUSED, ids=lambda v: v if type(v) is str else "")
def test_refusal(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    call = {"x": X, "indices": PLACES, "output_sizes": (2, 3, 8, 8), **fields}
    with harness.refused(error, "max_unpooling: ", text):
        reference.max_unpooling(**call)
    with harness.refused(error, "max_unpooling: ", text):
        bounds.expected("max_unpooling", **call)
