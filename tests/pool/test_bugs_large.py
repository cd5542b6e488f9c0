"""Bugs of other libraries that need wide windows or refusals: POOL-16 to POOL-20 and RUN-12."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from harness import refused
from pool_support import channels_last, dtype_of, line, same_bits

NAN = float("nan")


@pytest.mark.bug("POOL-16")
def test_window_of_2049_over_a_long_row() -> None:
    rng = np.random.default_rng(16)
    x = rng.integers(-4, 5, 320001)
    windows = np.lib.stride_tricks.sliding_window_view(x, 2049)[::7]
    row = x.astype(np.float32).reshape(1, 1, -1)
    peaks = cudml.max_pooling(row, 2049, 7)
    np.testing.assert_array_equal(peaks.ravel(), windows.max(1))
    mean = cudml.average_pooling(row, 2049, 7)
    np.testing.assert_array_equal(
        mean.ravel(), windows.sum(1).astype(np.float32) / np.float32(2049)
    )
    norm = cudml.lp_pooling(row, 2049, 7, p=2)
    squares = np.lib.stride_tricks.sliding_window_view(x * x, 2049)[::7].sum(1)
    np.testing.assert_allclose(norm.ravel(), np.sqrt(squares), rtol=2.5e-7)


@pytest.mark.small
@pytest.mark.bug("POOL-16")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_window_of_a_whole_large_plane(dtype: str) -> None:
    x = np.zeros((1, 1, 1024, 1024), dtype_of(dtype))
    x[0, 0, 1023, 1021:] = 3, 8, 5
    y, index = cudml.max_pooling(x, 1024, return_indices=True)
    assert (y.item(), index.item()) == (8, 1024 * 1024 - 2)
    assert cudml.lp_pooling(x, 1024, p=1).item() == 16
    x[0, 0, 0, 0] = 2**14 - 16
    assert cudml.average_pooling(x, 1024).item() == 2**-6


@pytest.mark.core
@pytest.mark.bug("POOL-17")
@pytest.mark.decision("D-POOL-3")
@pytest.mark.parametrize("name", ["max_pooling", "average_pooling", "lp_pooling"])
def test_window_beyond_the_padded_input(name: str) -> None:
    operator = getattr(cudml, name)
    with refused(ValueError, f"{name}: WindowSize[0] is 2", "1"):
        operator(line([1]), 2)
    with refused(ValueError, f"{name}: WindowSize[0] is 3", "Dilations", "2", "5", "4"):
        operator(line([1, 2, 3, 4]), 3, dilations=2)
    with refused(ValueError, f"{name}: WindowSize[1] is 4", "3"):
        operator(np.ones((1, 1, 9, 1), np.float32), (2, 4), start_padding=1, end_padding=1)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-18")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_elements_between_windows_are_not_read(dtype: str) -> None:
    x = line(range(10), dtype)
    x[0, 0, [2, 3, 6, 7]] = NAN
    assert cudml.max_pooling(x, 2, 4).ravel().tolist() == [1, 5, 9]
    assert cudml.average_pooling(x, 2, 4).ravel().tolist() == [0.5, 4.5, 8.5]
    assert cudml.lp_pooling(x, 2, 4, p=1).ravel().tolist() == [1, 9, 17]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("POOL-18")
@pytest.mark.parametrize("stride", [2**31 - 1, 2**31, 2**32 - 1])
def test_stride_beyond_the_input(stride: int) -> None:
    x = line(range(10))
    assert cudml.max_pooling(x, 2, stride).ravel().tolist() == [1]
    assert cudml.max_pooling(x, 2, stride, output_sizes="ceil").ravel().tolist() == [1]
    assert cudml.average_pooling(x, 2, stride).ravel().tolist() == [0.5]
    assert cudml.lp_pooling(x, 2, stride, p=1).ravel().tolist() == [1]


@pytest.mark.small
@pytest.mark.bug("POOL-19")
@pytest.mark.parametrize("channels", [1, 255, 256, 257, 512, 4096])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_channels_last_with_many_channels(channels: int, dtype: str) -> None:
    x = (np.arange(channels * 30) * 37 % 101).reshape(1, channels, 5, 6).astype(dtype_of(dtype))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (2, 3), (2, 3))
    windows = windows[:, :, ::2, ::1]
    nhwc = channels_last(x)
    y, index = cudml.max_pooling(nhwc, (2, 3), (2, 1), return_indices=True)
    np.testing.assert_array_equal(y.astype(np.int64), windows.max((-2, -1)))
    packed, packed_index = cudml.max_pooling(x, (2, 3), (2, 1), return_indices=True)
    assert same_bits(y, packed) and same_bits(index, packed_index)
    if dtype != "int8":
        mean = cudml.average_pooling(nhwc, (2, 3), (2, 1))
        exact = windows.sum((-2, -1)).astype(np.float32) / np.float32(6)
        np.testing.assert_array_equal(mean, exact.astype(x.dtype))


@pytest.mark.bug("POOL-20")
@pytest.mark.decision("D-POOL-4")
@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        ({"window_size": ()}, ("WindowSize",)),
        ({"window_size": (2, 0)}, ("WindowSize[1] is 0", "1", "4294967295")),
        ({"window_size": (-1, 2)}, ("WindowSize[0] is -1", "4294967295")),
        ({"strides": (0, 1)}, ("Strides[0] is 0", "4294967295")),
        ({"strides": (1, -3)}, ("Strides[1] is -3", "4294967295")),
        ({"dilations": (1, 0)}, ("Dilations[1] is 0", "4294967295")),
        ({"start_padding": (0, -1)}, ("StartPadding[1] is -1", "4294967295")),
        ({"end_padding": -1}, ("EndPadding", "-1", "4294967295")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_zero_and_negative_geometry(change: dict[str, object], fragments: tuple[str, ...]) -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    arguments = {"window_size": (2, 2)} | change
    for name in ("max_pooling", "average_pooling", "lp_pooling"):
        with refused(ValueError, f"{name}:", *fragments):
            getattr(cudml, name)(x, **arguments)
    grad = np.ones((1, 1, 3, 3), np.float32)
    with refused(ValueError, "max_pooling_grad:", *fragments):
        cudml.max_pooling_grad(x, grad, **arguments)
    with refused(ValueError, "average_pooling_grad:", *fragments):
        cudml.average_pooling_grad(grad, x.shape, **arguments)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("RUN-12")
@pytest.mark.parametrize(
    ("dtype", "tiny"),
    [("float16", 6e-8), ("bfloat16", 1e-40), ("float32", 1e-45), ("float64", 5e-324)],
)
def test_subnormal_numbers_survive(dtype: str, tiny: float) -> None:
    x = line([tiny] * 40, dtype)
    expected = x[:, :, :20]
    assert np.all(expected != 0)
    assert same_bits(cudml.average_pooling(x, 2, 2), expected)
    assert same_bits(cudml.average_pooling(x, 8, 2), expected[:, :, :17])
    assert same_bits(cudml.max_pooling(x, 2, 2), expected)
    assert same_bits(cudml.lp_pooling(x, 1, 2, p=2), expected)
    grad = cudml.average_pooling_grad(expected, x.shape, 1, 2)
    assert same_bits(grad[:, :, ::2], expected) and not np.any(grad[:, :, 1::2])


@pytest.mark.parametrize("size", [1, 2**11])
def test_more_windows_than_memory_holds_winners(size: int) -> None:
    """Their bytes would come to 0 or less in 64 bits: x and the gradient repeat one number."""
    one, windows = np.float16(1), (2**20, 2**20, 2**21)
    x, grad = (np.broadcast_to(one, (1, 1, *n)) for n in ((size,) * 3, windows))
    pads = [n - size for n in windows]
    with refused(ValueError, "max_pooling_grad: InputGradientTensor.Sizes are {1,1,1048576,"):
        cudml.explain("max_pooling_grad", x, grad, 1, 1, 0, pads)
    if size == 1:
        with refused(ValueError, "must have fewer than 2^63 bytes"):
            cudml.max_pooling_grad(x, grad, 1, 1, 0, pads)
