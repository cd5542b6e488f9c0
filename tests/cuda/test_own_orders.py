"""Results of the CUDA kernels that lie each in an order of its own, or where no vector begins."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from expected import expected
from harness import data
from kernel_case import environment
from layouts import ordered

LAST, BATCH_LAST = [0, 2, 3, 1], [1, 2, 3, 0]  # which dimension lies innermost: channels, batch
# Of the indices: the order, and how many elements they begin past a vector.
PLACES = {"as y": (LAST, 0), "batch innermost": (BATCH_LAST, 0), "between vectors": (LAST, 1)}


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("dtype", "index_dtype"), [("float32", "uint32"), ("float16", "int64")])
def test_indices_of_planes_side_by_side(dtype: str, index_dtype: str, place: str) -> None:
    """Vectors of indices are written only where they are packed and aligned like those of y."""
    x = ordered(data((3, 16, 5, 7), dtype, 1), LAST)
    how = {"window_size": (2, 3), "strides": (2, 1), "start_padding": (1, 0), "end_padding": (0, 2)}
    call = {**how, "return_indices": True, "index_dtype": index_dtype}
    y, places = expected("max_pooling", x=x, **call).values
    order, past = PLACES[place]
    out = (
        ordered(np.zeros_like(y), LAST),
        ordered(np.zeros_like(places), order, past * places.itemsize),
    )
    with environment(CUDML_KERNEL="pool_lanes"):
        cudml.max_pooling(x, **call, out=out)
    assert np.array_equal(out[0], y)
    assert np.array_equal(out[1], places)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
def test_planes_side_by_side_with_gaps() -> None:
    """Images of a result 28 bytes further apart than their vectors of planes would have them."""
    x = ordered(data((3, 16, 5, 7), "float16", 1), LAST)
    how = {"window_size": (2, 3), "strides": (2, 1), "start_padding": (1, 0), "end_padding": (0, 2)}
    (y,) = expected("max_pooling", x=x, **how).values
    room = np.full((3, y[0].size + 14), 7, y.dtype)
    out = np.moveaxis(room[:, : y[0].size].reshape(3, *y.shape[2:], 16), -1, 1)
    with environment(CUDML_KERNEL="pool_lanes"):
        cudml.max_pooling(x, **how, out=out)
    assert np.array_equal(out, y)
    assert (room[:, y[0].size :] == 7).all()


@pytest.mark.core
@pytest.mark.small
@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_slices_that_begin_at_a_vector_of_an_array_that_does_not(dtype: str) -> None:
    """Short rows of a gradient between vectors, whose slices are whole vectors of other rows."""
    n = 8 // np.dtype(dtype).itemsize
    grad = data((2, 700, 2 * n), dtype, 4)
    grad = ordered(grad, [0, 1, 2], grad.itemsize)
    pads = (0, 0, n - 1), (0, 0, 1)
    with environment(CUDML_KERNEL="pad_flat"):
        result = cudml.padding_grad(grad, (2, 700, n), *pads)
    assert np.array_equal(result, grad[..., n - 1 : -1])
