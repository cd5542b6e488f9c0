"""Offsets, sizes and steps beyond 31 and 32 bits in pooling: IDX-01 to IDX-09 on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from harness import refused
from pool_support import INDICES, dtype_of, line, sparse, strided

SHAPE = (1, 1, 3, 2**30)  # the windows of the last row begin at an offset of 2**31


@pytest.mark.bug("IDX-01")
def test_max_beyond_two_to_the_31_elements() -> None:
    x = sparse(3 * 2**30, "int8")
    x[2**31 : 2**31 + 2] = 5, 7
    x[2**31 + 1023 * 2**20] = 9
    y, index = cudml.max_pooling(x.reshape(SHAPE), (1, 2), (1, 2**20), return_indices=True)
    assert y.shape == (1, 1, 3, 1024)
    assert np.flatnonzero(y).tolist() == [2048, 3071] and y[0, 0, 2, [0, -1]].tolist() == [7, 9]
    assert index[0, 0, 2, [0, -1]].tolist() == [2**31 + 1, 2**31 + 1023 * 2**20]
    assert index[0, 0, :2].ravel().tolist() == [k * 2**20 for k in range(2048)]


@pytest.mark.bug("IDX-01")
def test_average_and_lp_beyond_two_to_the_31_elements() -> None:
    x = sparse(3 * 2**30, "float16")
    x[2**31 : 2**31 + 2] = 3, 4
    mean = cudml.average_pooling(x.reshape(SHAPE), (1, 2), (1, 2**20))
    norm = cudml.lp_pooling(x.reshape(SHAPE), (1, 2), (1, 2**20), p=2)
    assert mean.shape == norm.shape == (1, 1, 3, 1024)
    for result, value in ((mean, 3.5), (norm, 5)):
        assert np.flatnonzero(result).tolist() == [2048] and result[0, 0, 2, 0] == value


@pytest.mark.bug("IDX-01")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_dilated_taps_beyond_two_to_the_30_elements(axis: int) -> None:
    sizes, window, dilations = [1, 1, 1], [1, 1, 1], [1, 1, 1]
    sizes[axis], window[axis], dilations[axis] = 2**31 - 1, 3, 2**30 - 1
    x = sparse(2**31 - 1, "int8")
    x[[0, 2**30 - 1, 2**31 - 2]] = -1, 3, 2
    y, index = cudml.max_pooling(
        x.reshape(1, 1, *sizes), window, dilations=dilations, return_indices=True
    )
    assert (y.item(), index.item()) == (3, 2**30 - 1)


@pytest.mark.bug("IDX-02")
def test_output_offsets_beyond_two_to_the_31() -> None:
    memory = sparse(2 * 2**31 + 1, "int8")
    out = strided(memory, (1, 1, 3), (1, 1, 2**31))
    x = line([1, 2, 3, 4, 5, 6], "int8")
    assert cudml.max_pooling(x, 2, 2, out=out) is out
    assert memory[[0, 2**31, 2**32]].tolist() == [2, 4, 6]


@pytest.mark.bug("IDX-02")
def test_gradient_offsets_beyond_two_to_the_31() -> None:
    memory = sparse(2 * 2**31 + 1, "float16")
    out = strided(memory, (1, 1, 3), (1, 1, 2**31))
    x, grad = line([1, 5, 2], "float16"), line([1, 2], "float16")
    assert cudml.max_pooling_grad(x, grad, 2, out=out) is out
    assert memory[[0, 2**31, 2**32]].tolist() == [0, 3, 0]
    assert cudml.average_pooling_grad(grad, (1, 1, 3), 2, out=out) is out
    assert memory[[0, 2**31, 2**32]].tolist() == [0.5, 1.5, 1]


@pytest.mark.bug("IDX-04")
@pytest.mark.decision("D-MAX-9")
@pytest.mark.parametrize("index_dtype", INDICES)
def test_indices_beyond_two_to_the_31_stay_positive(index_dtype: str) -> None:
    x = np.broadcast_to(np.int8(1), (2, 1, 2**31 - 1))
    y, index = cudml.max_pooling(x, 2, 2**30, return_indices=True, index_dtype=index_dtype)
    assert y.shape == (2, 1, 2) and index.dtype == np.dtype(index_dtype)
    assert index.ravel().tolist() == [0, 2**30, 2**31 - 1, 2**31 - 1 + 2**30]


@pytest.mark.bug("IDX-04")
def test_index_width_follows_the_widest_array() -> None:
    far = sparse(2**31 + 1, "int8")
    far[[0, 2**31]] = 3, 4
    wide_x = strided(far, (1, 1, 2), (1, 1, 2**31))
    assert cudml.max_pooling(wide_x, 2).item() == 4
    wide_out = strided(sparse(2**31 + 1, "int8"), (1, 1, 2), (1, 1, 2**31))
    cudml.max_pooling(line([1, 2, 3, 4], "int8"), 2, 2, out=wide_out)
    assert wide_out.ravel().tolist() == [2, 4]
    wide_index = strided(sparse(2**31 + 1, "uint32"), (1, 1, 2), (1, 1, 2**31))
    y = np.empty((1, 1, 2), np.int8)
    cudml.max_pooling(line([1, 2, 3, 4], "int8"), 2, 2, return_indices=True, out=(y, wide_index))
    assert wide_index.ravel().tolist() == [1, 3]


@pytest.mark.small
@pytest.mark.bug("IDX-05")
@pytest.mark.parametrize("step", [2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_window_of_one_with_a_huge_dilation(step: int, axis: int) -> None:
    dilations = [1, 1, 1]
    dilations[axis] = step
    x = np.arange(2.0, 26.0, dtype=np.float32).reshape(1, 1, 2, 3, 4)
    y, index = cudml.max_pooling(x, 1, dilations=dilations, return_indices=True)
    np.testing.assert_array_equal(y, x)
    assert index.ravel().tolist() == list(range(24))
    np.testing.assert_array_equal(cudml.average_pooling(x, 1, dilations=dilations), x)
    np.testing.assert_array_equal(cudml.lp_pooling(x, 1, dilations=dilations, p=1), x)
    np.testing.assert_array_equal(cudml.max_pooling_grad(x, x, 1, dilations=dilations), x)
    average_grad = cudml.average_pooling_grad(x, x.shape, 1, dilations=dilations)
    np.testing.assert_array_equal(average_grad, x)


@pytest.mark.bug("IDX-06")
@pytest.mark.parametrize(
    ("window", "dilation"),
    [(131073, 32768), (2**32 - 1, 2**32 - 1), (2**31, 1), (2, 2**31 - 1), (3, 2**31)],
)
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_extents_that_wrap(name: str, window: int, dilation: int) -> None:
    with refused(ValueError, f"{name}: WindowSize[0] is {window}"):
        getattr(cudml, name)(line([1, 2, 3]), window, dilations=dilation)
    with refused(ValueError, f"{name}:"):
        getattr(cudml, name)(
            line([1, 2, 3]),
            window,
            start_padding=2**32 - 1,
            end_padding=2**32 - 1,
            dilations=dilation,
        )


@pytest.mark.bug("IDX-07")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_four_elements_with_strides_of_two_to_the_30(dtype: str) -> None:
    base = sparse(3 * 2**30 + 1, dtype)
    base[:: 2**30] = 3, -8, 4, -2
    x = strided(base, (1, 1, 2, 2), (1, 1, 2**31, 2**30))
    y, index = cudml.max_pooling(x, (2, 1), return_indices=True)
    assert y.ravel().tolist() == [4, -2] and index.ravel().tolist() == [2, 3]
    assert cudml.average_pooling(x, 2).item() == -0.75
    assert cudml.lp_pooling(x, 2, p=1).item() == 17
    grad = np.array([[[[2, 6]]]], dtype_of(dtype))
    assert cudml.max_pooling_grad(x, grad, (2, 1)).ravel().tolist() == [0, 0, 2, 6]
    wide = strided(base, (1, 1, 1, 2), (1, 1, 1, 2**30))
    assert cudml.max_pooling_grad(y, wide, (2, 1), start_padding=(1, 0)).ravel().tolist() == [3, -8]


PLANES = {
    "65535 planes": (1, 65535, 1, 2),
    "65536 planes": (65536, 1, 2, 1),
    "65537 planes": (65537, 1, 1, 2),
    "four million planes": (2, 2**21, 1, 2),
    "65537 rows": (1, 1, 65537, 2),
    "65537 slices": (1, 1, 65537, 1, 2),
    "65537 columns": (1, 2, 1, 65537),
}


@pytest.mark.bug("IDX-08")
@pytest.mark.parametrize("shape", PLANES.values(), ids=PLANES.keys())
def test_many_planes_rows_and_columns(shape: tuple[int, ...]) -> None:
    window = [1] * (len(shape) - 2)
    axis = shape.index(2, 2) if 2 in shape[2:] else len(shape) - 1
    window[axis - 2] = 2
    count = int(np.prod(shape))
    x = (np.arange(count) % 251).astype(np.float32).reshape(shape)
    head = np.take(x, range(shape[axis] - 1), axis)
    tail = np.take(x, range(1, shape[axis]), axis)
    y, index = cudml.max_pooling(x, window, return_indices=True)
    np.testing.assert_array_equal(y, np.maximum(head, tail))
    np.testing.assert_array_equal(x.ravel()[index], y)
    np.testing.assert_array_equal(cudml.average_pooling(x, window), (head + tail) / 2)
    np.testing.assert_array_equal(cudml.lp_pooling(x, window, p=1), head + tail)
    expected = np.bincount(index.ravel(), minlength=count)
    grad = np.ones(y.shape, np.float32)
    np.testing.assert_array_equal(cudml.max_pooling_grad(x, grad, window).ravel(), expected)
    spread = cudml.average_pooling_grad(grad, shape, window)
    ends = np.take(spread, [0, shape[axis] - 1], axis)
    assert np.all(ends == 0.5) and spread.sum(dtype=np.float64) == grad.size


@pytest.mark.bug("IDX-09")
@pytest.mark.decision("D-MAX-8")
def test_uint32_indices_need_fewer_than_two_to_the_32_elements() -> None:
    below = np.broadcast_to(np.int8(1), (1, 1, 3, 1431655765))  # 2**32 - 1 elements
    step = (1, 1431655764)
    y, index = cudml.max_pooling(below, 1, step, return_indices=True)
    assert y.shape == (1, 1, 3, 2) and index[0, 0, 2, 1].item() == 2**32 - 2
    above = np.broadcast_to(np.int8(1), (1, 1, 4, 2**30))
    with refused(ValueError, "max_pooling:", "uint32", "4294967296", "4294967295"):
        cudml.max_pooling(above, 1, step, return_indices=True)
    assert cudml.max_pooling(above, 1, step).shape == (1, 1, 4, 1)
    for index_dtype in ("uint64", "int64"):
        _, index = cudml.max_pooling(
            above, 1, (1, 2**30 - 1), return_indices=True, index_dtype=index_dtype
        )
        assert index[0, 0, 3, 1].item() == 2**32 - 1


@pytest.mark.small
@pytest.mark.decision("D-POOL-7")
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_padded_extent_fits_in_31_bits(name: str) -> None:
    operator, x = getattr(cudml, name), line([7, 7, 7, 7])
    y = operator(x, 1, 2**30, start_padding=2**30, end_padding=2**30 - 5)
    assert y.shape == (1, 1, 2) and y[0, 0, 1].item() == 7
    for start, end in [(2**30, 2**30 - 4), (2**31 - 4, 0), (0, 2**32 - 1), (2**32 - 2,) * 2]:
        with refused(ValueError, f"{name}:", "Padding", "2147483647"):
            operator(x, 1, 2**30, start_padding=start, end_padding=end)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-POOL-7", "D-POOL-5")
def test_window_of_31_bits_visits_real_taps_only() -> None:
    wide = 2**31 - 1
    x = line([3, -4, 12])
    geometry = {"start_padding": wide - 3}
    y, index = cudml.max_pooling(x, wide, return_indices=True, **geometry)
    assert (y.item(), index.item()) == (12, 2)
    assert cudml.average_pooling(x, wide, **geometry).item() == np.float32(11) / np.float32(3)
    assert cudml.lp_pooling(x, wide, p=2, **geometry).item() == 13
    share = np.float32(11) / np.float32(wide)
    included = cudml.average_pooling(x, wide, include_padding=True, **geometry).item()
    assert included == pytest.approx(share, rel=1e-6)
    assert cudml.max_pooling_grad(x, line([5]), wide, **geometry).ravel().tolist() == [0, 0, 5]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-POOL-7")
def test_divisor_beyond_64_bits() -> None:
    wide = 2**31 - 1
    x = np.full((1, 1, 1, 1, 1), 2.0**100, np.float32)
    y = cudml.average_pooling(x, wide, start_padding=wide - 1, include_padding=True)
    assert y.item() == pytest.approx(2.0**100 / float(wide) ** 3, rel=1e-6)
    grad = cudml.average_pooling_grad(
        x, x.shape, wide, start_padding=wide - 1, include_padding=True
    )
    assert grad.item() == pytest.approx(2.0**100 / float(wide) ** 3, rel=1e-6)
