"""Calls on more than 2^31 elements, compared with PyTorch's slices of the same arrays."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import cudml

LIMIT = 2**31
ROWS = 256  # of output that are compared at once: at both ends and around element 2^31


def random_bytes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")


def random_halves(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float16, device="cuda").normal_()


def strips(rows: int, row: int, elements: int = 1) -> list[slice]:
    """Rows at both ends and around the place where `rows` rows of `row` elements pass 2^31."""
    middle = min(rows, LIMIT // (row * elements))
    begins = {0, max(0, middle - ROWS // 2), max(0, rows - ROWS)}
    return [slice(b, min(b + ROWS, rows)) for b in sorted(begins)]


def same(got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    assert got.shape == want.shape, f"{what}: {tuple(got.shape)}, expected {tuple(want.shape)}"
    assert torch.equal(got, want), f"{what}: {int((got != want).sum())} elements differ"


def near(got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    """Within two of float16's steps: both round once, PyTorch's statistics are its own."""
    gap = (got.float() - want.float()).abs()
    allowed = want.float().abs().clamp(min=2.0**-10) * 2.0**-9
    assert bool((gap <= allowed).all()), f"{what}: off by {float(gap.max()):.3g}"


def max_of_bytes() -> None:
    """2x2, stride 2, with flat 64-bit indices beyond 2^31."""
    x = random_bytes(1, 1, 47104, 46080)
    assert x.numel() > LIMIT
    y, indices = cudml.max_pooling(x, 2, strides=2, return_indices=True, index_dtype="int64")
    for rows in strips(23552, 23040, 4):
        part = x[0, 0, 2 * rows.start : 2 * rows.stop].view(-1, 2, 23040, 2)
        taps = part.permute(0, 2, 1, 3).reshape(-1, 23040, 4)
        same(y[0, 0, rows], taps.amax(-1), f"rows {rows.start} to {rows.stop}")
        same(x.view(-1)[indices[0, 0, rows]], y[0, 0, rows], "elements at the indices")
        # The first tap that holds the maximum, in row-major order.
        first = (taps == taps.amax(-1, keepdim=True)).int().argmax(-1)
        h = 2 * torch.arange(rows.start, rows.stop, device="cuda")[:, None] + first // 2
        w = 2 * torch.arange(23040, device="cuda")[None] + first % 2
        same(indices[0, 0, rows], h * 46080 + w, "indices")


def average_of_halves() -> None:
    x = random_halves(1, 2, 32832, 32768)
    assert x.numel() > LIMIT
    y = cudml.average_pooling(x, 2, strides=2)
    for rows in strips(16416, 16384, 4):
        want = F.avg_pool2d(x[:, :, 2 * rows.start : 2 * rows.stop].float(), 2).half()
        near(y[:, :, rows], want, f"rows {rows.start} to {rows.stop}")


def average_grad_of_halves() -> None:
    grad = random_halves(1, 2, 16416, 16384)
    result = cudml.average_pooling_grad(grad, (1, 2, 32832, 32768), 2, strides=2)
    assert result.numel() > LIMIT
    for rows in strips(16416, 16384, 4):
        want = (grad[:, :, rows].float() / 4).half()
        got = result[:, :, 2 * rows.start : 2 * rows.stop]
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            same(got[:, :, i::2, j::2], want, f"rows {rows.start} to {rows.stop}")


def padded(mode: str) -> None:
    """Both dimensions of an image padded; the interior moves across 2^31."""
    x = random_bytes(46500, 46300)
    assert x.numel() > LIMIT
    y = cudml.padding(x, (3, 5), (2, 4), mode=mode, value=7)
    for rows in strips(46500, 46300):
        same(y[3 + rows.start : 3 + rows.stop, 5:46305], x[rows], f"interior of {mode}")
    if mode == "constant":
        for part in (y[:3], y[-2:], y[:, :5], y[:, -4:]):
            assert bool((part == 7).all()), "the constant is not everywhere"
    else:
        same(y[:3, 5:46305], x[1:4].flip(0), "rows before the first")
        same(y[-2:, 5:46305], x[-3:-1].flip(0), "rows after the last")
        same(y[3:-2, :5], x[:, 1:6].flip(1), "columns before the first")
        same(y[3:-2, -4:], x[:, -5:-1].flip(1), "columns after the last")


def padded_with_constant() -> None:
    padded("constant")


def padded_by_reflection() -> None:
    padded("reflection")


def norm_of_rows() -> None:
    x = random_halves(131_200, 16_384)
    assert x.numel() > LIMIT
    y = cudml.mean_variance_normalization(x, axes=1)
    for rows in strips(131_200, 16_384):
        want = F.layer_norm(x[rows].float(), (16_384,), eps=1e-5).half()
        near(y[rows], want, f"rows {rows.start} to {rows.stop}")


def norm_of_one_row() -> None:
    """A single group of more than 2^31 elements."""
    count = LIMIT + 4096
    x = random_halves(1, count)
    y = cudml.mean_variance_normalization(x, axes=1)
    chunks = x.view(-1).split(1 << 26)
    mean = sum(c.double().sum() for c in chunks) / count
    variance = sum(((c.double() - mean) ** 2).sum() for c in chunks) / count
    for part in (slice(0, 1 << 20), slice(LIMIT - 4096, LIMIT + 4096)):
        want = (x[0, part].double() - mean) / (variance + 1e-5).sqrt()
        near(y[0, part], want.half(), f"elements {part.start} to {part.stop}")


CASES: list[tuple[str, Callable[[], None], int]] = [  # GB of device memory that it takes
    ("max pooling 2x2 with indices, uint8", max_of_bytes, 9),
    ("average pooling 2x2, float16", average_of_halves, 8),
    ("average pooling gradient 2x2, float16", average_grad_of_halves, 8),
    ("padding, constant, uint8", padded_with_constant, 8),
    ("padding, reflection, uint8", padded_by_reflection, 8),
    ("normalization of 131200 rows, float16", norm_of_rows, 11),
    ("normalization of one row of 2^31 + 4096, float16", norm_of_one_row, 13),
]


def run(case: Callable[[], None], gigabytes: int) -> str:
    free = torch.cuda.mem_get_info()[0] / 1e9
    if free < gigabytes:
        return f"not run: {free:.0f} GB of device memory are free, it takes {gigabytes}"
    try:
        case()
        torch.cuda.synchronize()
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}".split("\n")[0]
    return "passed"


def main() -> int:
    found: list[dict[str, Any]] = []
    torch.manual_seed(0)
    for name, case, gigabytes in CASES:
        status = run(case, gigabytes)
        gc.collect()
        torch.cuda.empty_cache()
        found.append({"case": name, "status": status})
        print(f"{name}: {status}", flush=True)
        Path(os.environ["CUDML_STEP_JSON"]).write_text(json.dumps({"cases": found}))
    return 1 if any(case["status"].startswith("failed") for case in found) else 0


if __name__ == "__main__":
    sys.exit(main())
