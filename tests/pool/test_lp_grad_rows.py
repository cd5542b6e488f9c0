"""The gradient of Lp pooling along rows: windows far apart, and windows that cover them."""

from __future__ import annotations

import pytest

import cudml
from harness import FLOATS, check
from pool_support import same_bits
from tests.pool.test_lp_grad import problem

ROWS, PLANES = "pool_grad/lp_rows", "pool_grad/lp_planes"


@pytest.mark.small
@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(("window", "stride", "dilation", "start"), [
    (9, 9, 1, 0), (3, 10, 1, 2), (40, 13, 1, 7), (5, 17, 30, 40), (64, 64, 1, 63), (2, 64, 9, 0),
    (700, 64, 1, 5), (64, 1, 1, 63),
])  # fmt: skip
def test_windows_far_apart_along_rows(
    window: int, stride: int, dilation: int, start: int, p: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two tasks a row: the bits of the loop that takes every plan."""
    fields = {"window_size": (2, window), "strides": (1, stride), "start_padding": (0, start),
              "end_padding": (1, 3), "dilations": (1, dilation)}  # fmt: skip
    for dtype in FLOATS:
        x, y, grad = problem((1, 2, 3, 1500), dtype, p, **fields)
        check("lp_pooling_grad", x, y, grad, **fields, p=p, layouts=("contiguous",))
        assert cudml.explain("lp_pooling_grad", x, y, grad, **fields, p=p).kernel == ROWS
        ours = cudml.lp_pooling_grad(x, y, grad, **fields, p=p)
        with monkeypatch.context() as forced:
            forced.setenv("CUDML_KERNEL", "pool_grad/lp_gather")
            assert same_bits(ours, cudml.lp_pooling_grad(x, y, grad, **fields, p=p))


@pytest.mark.small
@pytest.mark.parametrize("p", [1, 2, 3])
def test_windows_that_cover_rows(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of a plane for itself, whole or in pieces."""
    for shape, window, around in (
        ((2, 3, 7, 33), (1, 33), 0), ((1, 2, 3, 5, 40), (1, 1, 40), 0),
        ((2, 3, 1, 70), (3, 70), (1, 0)), ((1, 1, 300, 5000), (1, 5000), 0),
    ):  # fmt: skip
        fields = {"window_size": window, "start_padding": around, "end_padding": around}
        x, y, grad = problem(shape, "float32", p, **fields)
        assert cudml.explain("lp_pooling_grad", x, y, grad, **fields, p=p).kernel == PLANES
        if x.size < 1000:
            check("lp_pooling_grad", x, y, grad, **fields, p=p)
        ours = cudml.lp_pooling_grad(x, y, grad, **fields, p=p)
        with monkeypatch.context() as forced:
            forced.setenv("CUDML_KERNEL", "pool_grad/lp_gather")
            assert same_bits(ours, cudml.lp_pooling_grad(x, y, grad, **fields, p=p))
