"""What other frameworks mean by the same calls: sizes, pads, indices; PyTorch where it is there."""

from __future__ import annotations

import importlib.util
from itertools import product
from typing import Any

import numpy as np
import pytest

import cudml
from harness import data
from pool_support import line

HAS_TORCH = importlib.util.find_spec("torch") is not None
FORWARD = ("max_pooling", "average_pooling", "lp_pooling")


def same_pads(n: int, w: int, s: int, d: int, upper: bool) -> tuple[int, int]:
    """ONNX's auto_pad: the odd element goes to the end (SAME_UPPER) or the start (SAME_LOWER)."""
    total = max((-(-n // s) - 1) * s + (w - 1) * d + 1 - n, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


@pytest.mark.small
@pytest.mark.parametrize("upper", [True, False], ids=["SAME_UPPER", "SAME_LOWER"])
def test_auto_pad_covers_the_input(upper: bool) -> None:
    for n, w, s, d in product((1, 2, 5, 8), (1, 2, 3, 4), (1, 2, 3), (1, 2)):
        start, end = same_pads(n, w, s, d, upper)
        x = np.ones((1, 1, n), np.float32)
        for name in FORWARD:
            y = getattr(cudml, name)(x, w, s, start, end, d)
            assert y.shape[2] == -(-n // s), (n, w, s, d)


@pytest.mark.small
def test_auto_pad_places_the_odd_element() -> None:
    x = line([1, 2, 3, 4])
    start, end = same_pads(4, 2, 1, 1, upper=True)
    assert (start, end) == (0, 1)
    assert cudml.lp_pooling(x, 2, 1, start, end, p=1).ravel().tolist() == [3, 5, 7, 4]
    start, end = same_pads(4, 2, 1, 1, upper=False)
    assert (start, end) == (1, 0)
    assert cudml.lp_pooling(x, 2, 1, start, end, p=1).ravel().tolist() == [1, 3, 5, 7]


def torch_ceil(n: int, w: int, s: int, pad: int, d: int) -> int:
    """PyTorch's ceil mode: round up, then drop a window that would start in the end padding."""
    size = -(-(n + 2 * pad - d * (w - 1) - 1) // s) + 1
    return size - 1 if (size - 1) * s >= n + pad else size


@pytest.mark.small
@pytest.mark.decision("D-VER-6")
def test_ceil_sizes_of_pytorch_and_onnx() -> None:
    seen = {"rounded up": 0, "dropped": 0}
    for n, w, s, d in product(range(1, 12), range(1, 5), range(1, 6), (1, 2, 3)):
        for pad in range(w // 2 + 1):
            reach = (w - 1) * d + 1
            if reach > n + 2 * pad:
                continue
            y = cudml.max_pooling(
                np.zeros((1, 1, n), np.int8), w, s, pad, pad, d, output_sizes="ceil"
            )
            wanted = torch_ceil(n, w, s, pad, d)
            assert y.shape[2] == wanted, (n, w, s, pad, d)
            up = -(-(n + 2 * pad - reach) // s) + 1
            seen["dropped"] += wanted < up
            seen["rounded up"] += wanted > (n + 2 * pad - reach) // s + 1
    assert min(seen.values()) > 20, seen


@pytest.mark.small
@pytest.mark.decision("D-VER-6")
def test_ceil_windows_do_not_move() -> None:
    x = line([1, 2, 3, 4, 5, 6, 7])
    y = cudml.max_pooling(x, 3, 3, output_sizes="ceil")
    assert y.ravel().tolist() == [3, 6, 7]


@pytest.mark.small
@pytest.mark.decision("D-MAX-1")
def test_index_modulo_the_plane_is_the_place_in_the_plane() -> None:
    x = data((3, 4, 5, 6), "float32", seed=1)
    y, index = cudml.max_pooling(x, 2, 2, return_indices=True)
    planes = x.reshape(12, 30)
    local = (index.reshape(12, -1) % 30).astype(np.int64)
    np.testing.assert_array_equal(np.take_along_axis(planes, local, 1), y.reshape(12, -1))


@pytest.mark.small
def test_shared_sizes_of_webnn_layouts() -> None:
    nhwc = data((2, 6, 7, 3), "float32", seed=2)
    y = cudml.average_pooling(nhwc, (2, 3), (2, 2), axes=(1, 2))
    moved = cudml.average_pooling(np.moveaxis(nhwc, 3, 1), (2, 3), (2, 2))
    np.testing.assert_allclose(y, np.moveaxis(moved, 1, 3), rtol=1e-6, atol=1e-6)


def torch_cases() -> list[dict[str, Any]]:
    """Geometry inside PyTorch's region: pads symmetric and at most half the window."""
    rng = np.random.default_rng(20)
    cases = []
    for _ in range(60):
        w, s = rng.integers(1, 5, 2), rng.integers(1, 4, 2)
        cases.append(
            {
                "w": tuple(map(int, w)),
                "s": tuple(map(int, s)),
                "pad": tuple(int(rng.integers(0, v // 2 + 1)) for v in w),
                "d": tuple(map(int, rng.integers(1, 3, 2))),
                "ceil": bool(rng.integers(0, 2)),
            }
        )
    return cases


@pytest.mark.small
@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_max_pooling_of_pytorch(dtype: str) -> None:
    import torch
    import torch.nn.functional as functional

    x = data((2, 3, 11, 13), dtype, seed=3)
    for case in torch_cases():
        theirs, place = functional.max_pool2d(
            torch.from_numpy(x),
            case["w"], case["s"], case["pad"], case["d"],
            ceil_mode=case["ceil"], return_indices=True,
        )  # fmt: skip
        ours, index = cudml.max_pooling(
            x, case["w"], case["s"], case["pad"], case["pad"], case["d"],
            return_indices=True, output_sizes="ceil" if case["ceil"] else None,
        )  # fmt: skip
        np.testing.assert_array_equal(ours, theirs.numpy())
        np.testing.assert_array_equal(index % (11 * 13), place.numpy())


@pytest.mark.small
@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_average_and_gradients_of_pytorch() -> None:
    import torch
    import torch.nn.functional as functional

    x = data((2, 3, 11, 13), "float64", seed=4)
    for case in torch_cases():
        geometry = (case["w"], case["s"], case["pad"], case["pad"])
        size = "ceil" if case["ceil"] else None
        for include in (False, True):
            leaf = torch.from_numpy(x.copy()).requires_grad_()
            theirs = functional.avg_pool2d(
                leaf, *geometry[:3], ceil_mode=case["ceil"], count_include_pad=include
            )
            ours = cudml.average_pooling(x, *geometry, include_padding=include, output_sizes=size)
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-14)
            grad = data(ours.shape, "float64", seed=5)
            theirs.backward(torch.from_numpy(grad))
            back = cudml.average_pooling_grad(grad, x.shape, *geometry, include_padding=include)
            np.testing.assert_allclose(back, leaf.grad.numpy(), rtol=1e-12, atol=1e-13)
        leaf = torch.from_numpy(x.copy()).requires_grad_()
        theirs = functional.max_pool2d(leaf, *geometry[:3], ceil_mode=case["ceil"])
        grad = data(tuple(theirs.shape), "float64", seed=6)
        theirs.backward(torch.from_numpy(grad))
        back = cudml.max_pooling_grad(x, grad, *geometry)
        np.testing.assert_allclose(back, leaf.grad.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_the_readmes_way_to_index_with_pytorch() -> None:
    """And PyTorch still refuses unsigned indices, which is why the table names another type."""
    import torch

    x = torch.from_numpy(data((2, 3, 6, 5), "float32", 3))
    y, indices = cudml.max_pooling(x, 2, strides=2, return_indices=True, index_dtype="int64")
    assert torch.equal(x.reshape(-1)[indices], y)
    with pytest.raises(IndexError, match="must be long"):
        x.reshape(-1)[indices.to(torch.uint32)]


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.decision("D-POOL-10")
def test_arrays_of_rank_3_that_pytorch_takes_for_an_image() -> None:
    """There {C,H,W}; here {N,C,W}, and the same with the table's axes."""
    import torch

    x = torch.from_numpy(data((3, 6, 4), "float32", 4))
    want = torch.nn.functional.max_pool2d(x, 2)
    assert torch.equal(cudml.max_pooling(x, 2, 2, axes=(1, 2)), want)
    photo = x.permute(1, 2, 0).contiguous()
    assert torch.equal(cudml.max_pooling(photo, 2, 2, axes=(0, 1)), want.permute(1, 2, 0))
    assert cudml.max_pooling(x, 2, 2).shape == (3, 6, 2)
