"""The bytes that a call must move, as `explain` tells them: every tensor once."""

from __future__ import annotations

from typing import Any

import numpy as np

import cudml


def test_compulsory_bytes() -> None:
    """What is needed of each array, once."""
    x = np.zeros((4, 6, 8, 10), np.float16)
    for device in ("cpu", "sm_90"):
        moved = [
            (cudml.explain("max_pooling", x, 2, 2, device=device), (1920 + 480) * 2),
            (cudml.explain("max_pooling", x, 2, 2, return_indices=True, device=device),
             (1920 + 480) * 2 + 480 * 4),
            (cudml.explain("padding", x, 0, 1, device=device), (1920 + 5 * 7 * 9 * 11) * 2),
            (cudml.explain("mean_variance_normalization", x, np.zeros((1, 6, 1, 1), np.float32),
                           axes=1, device=device), 1920 * 4 + 6 * 4),
            (cudml.explain("average_pooling_grad", np.zeros((1, 1, 3, 3)), (1, 1, 6, 6), 2, 2,
                           device=device), (9 + 36) * 8),
        ]  # fmt: skip
        for e, wanted in moved:
            assert e.bytes == wanted, e


def test_compulsory_bytes_of_training() -> None:
    """Every tensor in its own type, once: what is broadcast, and dimensions of stride 0, count one
    element."""
    x, a, b = (np.zeros(n, np.float16) for n in ((4, 6, 8), (1, 6, 1), (1, 1, 8)))
    wide, grad = np.zeros((1, 6, 1), np.float32), np.zeros((4, 8, 12), np.float32)
    windows, pads = np.zeros((2, 3, 5, 7), np.float32), ((4, 6, 8), (0, 1, 2), (0, 1, 2))
    count, size = np.ones(6, np.float64), 4 * 6 * 8
    moved: list[tuple[str, tuple[Any, ...], dict[str, Any], int]] = [
        ("normalize", (x, wide, wide, a, b), {}, 2 * size * 2 + 2 * 6 * 4 + 6 * 2 + 8 * 2),
        ("normalize", (x, wide, wide, None, b), {}, 2 * size * 2 + 2 * 6 * 4 + 8 * 2),
        ("normalize", (x, a, wide, wide), {}, 2 * size * 2 + 2 * 6 * 4 + 6 * 2),
        ("mean_variance_normalization", (x, wide, b), {"axes": 0, "return_statistics": True},
         2 * size * 2 + 6 * 4 + 8 * 2 + 2 * 48 * 4),
        ("normalization_statistics", (x,), {"axes": (0, 2)}, size * 2 + 3 * 6 * 8),
        ("normalization_statistics", (np.broadcast_to(x[:1], x.shape),), {"axes": (0, 2)},
         size // 4 * 2 + 3 * 6 * 8),
        ("merge_statistics", ((count,) * 3, (count,) * 3), {}, 9 * 6 * 8),
        ("merge_statistics", ((np.broadcast_to(count[:1], 6), count, count), (count,) * 3), {},
         (8 * 6 + 1) * 8),
        ("padding_grad", (grad, *pads), {"mode": "edge"}, (4 * 8 * 12 + size) * 4),
        ("padding_grad", (np.broadcast_to(grad[:1], grad.shape), *pads), {"mode": "edge"},
         (8 * 12 + size) * 4),
        ("padding_grad", (np.zeros((0, 4), np.float32), (0, 3), 0, (0, 1)), {"mode": "edge"}, 0),
        ("max_pooling_grad", (np.zeros((2, 3, 6, 8), np.float32), windows, 2), {},
         (2 * 288 + 210) * 4),
        ("lp_pooling_grad", (np.zeros((2, 3, 6, 8), np.float32), windows, windows, 2), {},
         (2 * 288 + 2 * 210) * 4),
        ("max_unpooling", (windows, np.zeros(windows.shape, np.int64), (2, 3, 9, 9)), {},
         210 * (4 + 8) + 6 * 81 * 4),
    ]  # fmt: skip
    for op, given, how, wanted in moved:
        for device in ("cpu", "sm_90"):
            assert cudml.explain(op, *given, device=device, **how).bytes == wanted, (op, device)
