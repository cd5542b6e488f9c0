"""Calls of training's operators that take a second or more, of every shape that they loop over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from long_arrays import Call, channels_last, zeros

import cudml

ROW = 200_000_000
PLANE = (1, 1, 14_000, 14_000)


def pooled(shape: tuple[int, ...], window: Any, stride: int) -> list[int]:
    sizes = np.broadcast_to(window, len(shape) - 2)
    rest = [(n - w) // stride + 1 for n, w in zip(shape[2:], sizes, strict=True)]
    return [*shape[:2], *rest]


def lp_grad(x: np.ndarray, window: Any, stride: int, **more: Any) -> Call:
    """Values of the windows in x's order and type."""
    y = np.zeros_like(x, shape=pooled(x.shape, window, stride))
    return lambda: cudml.lp_pooling_grad(x, y, y, window, stride, **more)


def padding_grad(shape: tuple[int, ...], start: Any, end: Any, mode: Any, dtype: str) -> Call:
    """`shape` is that of the gradient which comes in."""
    grad = zeros(*shape, dtype=dtype)
    inner = [n - a - b for n, a, b in zip(grad.shape, start, end, strict=True)]
    return lambda: cudml.padding_grad(grad, inner, start, end, mode=mode)


def normalization_grad(x: np.ndarray, axes: Any, scale: Any = None, **more: Any) -> Call:
    """The gradient is x itself; scale has these sizes."""
    parameters = () if scale is None else (np.ones(scale, x.dtype), np.ones(scale, x.dtype))
    return lambda: cudml.mean_variance_normalization_grad(x, x, *parameters, axes=axes, **more)


def sliding(rows: int, columns: int) -> np.ndarray:
    """Rows that begin 8 elements after one another."""
    windows = np.lib.stride_tricks.sliding_window_view(zeros(columns + 8 * rows), columns)
    return windows[: 8 * rows : 8]


def statistics(x: np.ndarray, axes: Any) -> Call:
    return lambda: cudml.normalization_statistics(x, axes=axes)


def merge(count: int) -> Call:
    a = [zeros(count, dtype="float64") for _ in range(3)]
    return lambda: cudml.merge_statistics(a, a)


def stored(x: np.ndarray, kept: int, **more: Any) -> Call:
    """Normalization with the statistics of each position of one dimension."""
    sizes = [n if d == kept else 1 for d, n in enumerate(x.shape)]
    ones = np.ones(sizes, x.dtype)
    return lambda: cudml.normalize(x, ones, ones, ones, ones, **more)


def stored_sums(x: np.ndarray, kept: int) -> Call:
    sizes = [n if d == kept else 1 for d, n in enumerate(x.shape)]
    ones, axes = np.ones(sizes, x.dtype), [d for d in range(x.ndim) if d != kept]
    return lambda: cudml.normalize_grad_sums(x, x, ones, ones, axes=axes)


def stored_grad(x: np.ndarray, kept: int) -> Call:
    sizes = [n if d == kept else 1 for d, n in enumerate(x.shape)]
    ones = np.ones(sizes, x.dtype)
    return lambda: cudml.normalize_grad(x, x, ones, ones, ones, ones)


def unpooling(x: np.ndarray, plane: tuple[int, ...]) -> Call:
    """All indices lead to the first element."""
    indices = np.zeros_like(x, "uint32")
    sizes = (*x.shape[:2], *plane)
    return lambda: cudml.max_unpooling(x, indices, sizes)


TRAINING: dict[str, Callable[[], Call]] = {
    "norm gradient of few windows": lambda: lp_grad(zeros(*PLANE), 7000, 7000),
    "norm gradient of a plane": lambda: lp_grad(zeros(*PLANE), PLANE[2:], 1),
    "norm gradient of long windows": lambda: lp_grad(zeros(1, 1, 1, 10**6), (1, 10**5), 1),
    "norm gradient of one row": lambda: lp_grad(zeros(1, 1, 1, ROW), (1, 2), 2),
    "norm gradient of 3x3": lambda: lp_grad(zeros(*PLANE), 3, 2),
    "norm gradient of 9x9": lambda: lp_grad(zeros(1, 1, 5000, 5000, dtype="float64"), 9, 1, p=3),
    "norm gradient of channels": lambda: lp_grad(channels_last(1, 64, 2000, 2000), 3, 2),
    "norm gradient of short planes": lambda: lp_grad(zeros(64, 40_000, 7, 7), 7, 1),
    "gradient of a long edge": lambda: padding_grad(
        (2, 2 * ROW), (0, 1), (0, 2 * ROW - 9), "edge", "float16"),
    "gradient of a long border": lambda: padding_grad(
        (1, 8 * ROW), (0, 1), (0, 9), "constant", "float16"),
    "gradient of a folded row": lambda: padding_grad(
        (1, 2 * ROW), (0, 9), (0, 2 * ROW - 16), "reflection", "float32"),
    "gradient of a mirrored row": lambda: padding_grad(
        (2, 2 * ROW), (0, 9), (0, ROW - 10), "symmetric", "float32"),
    "gradient of padded lines": lambda: padding_grad(
        (ROW // 32, 64), (0, 1), (0, 1), "edge", "float32"),
    "gradient of padded planes": lambda: padding_grad(
        (2, 2, 9000, 9000), (0, 0, 1, 1), (0, 0, 2, 2), "reflection", "float64"),
    "gradient of many edges": lambda: padding_grad(
        (ROW // 512, 512), (ROW // 512 - 3, 0), (0, 0), "edge", "float32"),
    "gradient of a row": lambda: normalization_grad(zeros(ROW), 0),
    "gradient of a row of halves": lambda: normalization_grad(zeros(ROW, dtype="float16"), 0),
    "gradient of a row of doubles": lambda: normalization_grad(zeros(ROW, dtype="float64"), 0),
    "gradient of an activated row": lambda: normalization_grad(
        zeros(ROW), 0, activation="tanh"),
    "gradient of a row with parameters": lambda: normalization_grad(zeros(ROW), 0, ROW),
    "gradient of a column": lambda: normalization_grad(zeros(ROW // 8, 8)[:, ::2], 0),
    "gradient of columns": lambda: normalization_grad(zeros(ROW // 8, 8), 0, (1, 8)),
    "gradient of wide columns": lambda: normalization_grad(zeros(ROW // 4096, 4096), 0, (1, 4096)),
    "gradient of columns of doubles": lambda: normalization_grad(
        zeros(ROW // 32, 32, dtype="float64"), 0, (1, 32)),
    "gradient of long rows": lambda: normalization_grad(zeros(8, ROW // 8), 1, (1, ROW // 8)),
    "gradient of rows": lambda: normalization_grad(zeros(ROW // 768, 768), 1, (1, 768)),
    "gradient of short rows": lambda: normalization_grad(zeros(ROW // 8, 8), 1, (1, 8)),
    "gradient of rows' own": lambda: normalization_grad(zeros(ROW // 64, 64), 1, (ROW // 64, 1)),
    "gradient of planes": lambda: normalization_grad(
        zeros(16, 64, 440, 440), (0, 2, 3), (1, 64, 1, 1), activation="swish"),
    "gradient of short planes' statistics": lambda: normalization_grad(
        zeros(4000, 1000, 7, 7), (0, 2, 3), (1, 1000, 1, 1)),
    "gradient of channels": lambda: normalization_grad(
        channels_last(16, 64, 440, 440), (0, 2, 3), (1, 64, 1, 1), activation="gelu"),
    "gradient of many columns": lambda: normalization_grad(
        zeros(32, ROW // 16), 0, (1, ROW // 16), outputs=("scale",)),
    "gradient of many sliding columns": lambda: normalization_grad(
        sliding(32, ROW // 16), 0, (1, ROW // 16), outputs=("scale",)),
    "gradient of many positions": lambda: normalization_grad(
        zeros(4, ROW // 8), 1, (1, ROW // 8), outputs=("scale", "bias")),
    "gradient of many planes' scales": lambda: normalization_grad(
        zeros(1, ROW // 8, 16), (1, 2), (1, ROW // 8, 1), outputs=("scale",)),
    "gradient of many pieces' scales": lambda: normalization_grad(
        zeros(ROW // 32768, 4096, 7), (1, 2), (ROW // 32768, 4096, 1), outputs=("scale",)),
    "gradient of groups": lambda: normalization_grad(
        zeros(16, 8, 8, 440, 440), (2, 3, 4), (1, 8, 8, 1, 1)),
    "gradient of middle axes": lambda: normalization_grad(zeros(300, 7, 300, 300), 1),
    "statistics of a row": lambda: statistics(zeros(4 * ROW), 0),
    "statistics of columns": lambda: statistics(zeros(ROW // 2, 8), 0),
    "statistics of a column": lambda: statistics(zeros(ROW // 2, 8)[:, ::2], 0),
    "statistics of rows": lambda: statistics(zeros(ROW // 8, 8), 1),
    "statistics of each": lambda: statistics(zeros(ROW, 1), 1),
    "merged statistics": lambda: merge(ROW // 2),
    "a stored row": lambda: stored(zeros(1, 4 * ROW), 0),
    "stored columns": lambda: stored(zeros(ROW // 4, 16), 1),
    "stored rows": lambda: stored(zeros(ROW // 8, 8), 0),
    "stored doubles": lambda: stored(zeros(ROW // 16, 8, dtype="float64"), 1, activation="tanh"),
    "sums of a row": lambda: stored_sums(zeros(1, ROW), 0),
    "sums of columns": lambda: stored_sums(zeros(ROW // 8, 8), 1),
    "sums of many columns": lambda: stored_sums(zeros(32, ROW // 16), 1),
    "sums of planes": lambda: stored_sums(zeros(16, 64, 440, 440), 1),
    "stored gradient of a row": lambda: stored_grad(zeros(1, ROW), 0),
    "stored gradient of columns": lambda: stored_grad(zeros(ROW // 8, 8), 1),
    "stored gradient of many columns": lambda: stored_grad(zeros(32, ROW // 32), 1),
    "stored gradient of planes": lambda: stored_grad(zeros(16, 64, 440, 440), 1),
    "unpooled into large planes": lambda: unpooling(zeros(2, 1, 1, 1), (20_000, 20_000)),
    "unpooled into one plane": lambda: unpooling(zeros(1, 1, 1, 1), (1, 2 * ROW)),
    "unpooled from a row": lambda: unpooling(zeros(1, 2, 1, ROW), (1, ROW)),
    "unpooled channels": lambda: unpooling(channels_last(1, 64, 1000, 1000), (2000, 2000)),
}  # fmt: skip
