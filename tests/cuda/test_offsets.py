"""CUDA kernels on tensors that reach beyond 2^31 elements, and on more work than a grid has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backends
import cudml
import harness
from array_support import sparse
from cudml import bounds
from device_array import InterfaceArray, Memory
from kernel_case import environment, indices, needs_of
from kernel_cases import FAMILIES

FAR = 2**30  # elements from one to the next


class Sparse(Memory):
    """Device memory of which only the pages that are touched exist; they begin as zeros."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pages = sparse(size, "uint8")
        self.address = self._pages.ctypes.data

    def __del__(self) -> None:
        pass

    def check(self) -> None:
        pass


def far_apart(shape: tuple[int, ...], dtype: Any) -> InterfaceArray:
    """Zeros whose last dimension's elements are 2^30 apart; the others lie between them."""
    kind = np.dtype(dtype)
    steps = [int(np.prod(shape[a + 1 : -1])) for a in range(len(shape) - 1)]
    strides = tuple(step * kind.itemsize for step in (*steps, FAR))
    size = ((shape[-1] - 1) * FAR + int(np.prod(shape[:-1]))) * kind.itemsize
    return InterfaceArray(Sparse(size), 0, shape, strides, kind)


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "pool": ("max_pooling", {"x": (2, 3, 5), "window_size": 2, "start_padding": 1}),
    "pool, average": ("average_pooling", {"x": (2, 3, 5), "window_size": (3,), "strides": 2}),
    "pool, norm": ("lp_pooling", {"x": (2, 3, 2, 4), "window_size": 2}),
    "max_pool_grad": ("max_pooling_grad", {"x": (2, 3, 5), "grad": (2, 3, 4), "window_size": 2}),
    "average_pool_grad": (
        "average_pooling_grad",
        {"grad": (2, 3, 4), "input_sizes": (2, 3, 5), "window_size": 2},
    ),
    "lp_pool_grad": (
        "lp_pooling_grad",
        {"x": (2, 3, 5), "y": (2, 3, 4), "grad": (2, 3, 4), "window_size": 2, "p": 3},
    ),
    "unpool": (
        "max_unpooling",
        {"x": (2, 3, 4), "indices": (2, 3, 4), "output_sizes": (2, 3, 5)},
    ),
    "pad": ("padding", {"x": (2, 3), "start_padding": (1, 2), "end_padding": 0, "mode": "edge"}),
    "pad_grad": (
        "padding_grad",
        {
            "grad": (3, 5),
            "input_sizes": (2, 3),
            "start_padding": (1, 2),
            "end_padding": 0,
            "mode": "edge",
        },
    ),
    "mvn": ("mean_variance_normalization", {"x": (6, 4), "axes": 1, "activation": "relu"}),
    "normalize": ("normalize", {"x": (6, 4), "mean": (6, 1), "variance": (6, 1)}),
}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_offsets_beyond_two_to_the_31(name: str, dtype: str) -> None:
    """Input and output; kernels that number elements in 32 bits say so, the others are right."""
    op, given = CALLS[name]
    is_array = {k: k in backends.ARRAYS for k in given}
    call = {k: harness.data(v, dtype, 3) if is_array[k] else v for k, v in given.items()}
    for key in {"y", "variance"} & call.keys():
        call[key] = np.abs(call[key])
    if "indices" in call:
        call["indices"] = indices(given["indices"], given["output_sizes"], 2)
    want = bounds.expected(op, **call)
    refusals = {}
    with backends.using(backends.SIMT):
        kernels = list(needs_of(name.partition(",")[0]))
        for kernel in kernels:
            sent = dict(call)
            for k in (k for k in call if is_array[k]):
                sent[k] = far_apart(call[k].shape, call[k].dtype)
                sent[k].view()[...] = call[k]
            out = far_apart(want.values[0].shape, want.dtypes[0])
            try:
                with environment(CUDML_KERNEL=kernel):
                    assert harness.called(backends.SIMT, op, {**sent, "out": out}) is out
            except ValueError as error:
                refusals[kernel] = str(error).partition("which needs that ")[2]
                assert refusals[kernel], error
                continue
            verdict = bounds.compare([out.view().copy()], want)
            assert verdict.ok, f"{kernel}: {verdict.message}"
    assert len(refusals) < len(kernels)
    if name not in (
        "pad",
        "pad_grad",
        "lp_pool_grad",
        "mvn",
        "mvn_grad",
        "normalize",
        "unpool",
    ):  # whose kernels hold offsets in 64 bits, or need other things
        assert any("2^31" in need for need in refusals.values()), refusals


def rows_apart(shape: tuple[int, ...], dtype: Any) -> InterfaceArray:
    """Zeros of one plane with rows so far apart that three of them are beyond 2^31 elements."""
    kind, step = np.dtype(dtype), 760_000_000
    strides = (0, 0, step * kind.itemsize, kind.itemsize)
    return InterfaceArray(Sparse(shape[2] * step * kind.itemsize), 0, shape, strides, kind)


TWO_APART = {"strides": 2, "start_padding": 1, "end_padding": 2}
WHOLE = {"strides": 2, "start_padding": 1, "end_padding": (2, 0)}
STRIPS: list[tuple[str, str, dict[str, Any]]] = [
    ("pool_tile_3x3_s1", "average_pooling", {"x": (1, 1, 2, 8), "start_padding": 3}),
    ("pool_tile_3x3_s1", "average_pooling",
     {"x": (1, 1, 2, 8), "start_padding": (3, 1), "end_padding": (0, 1)}),
    ("max_pool_grad_strips", "max_pooling_grad",
     {"x": (1, 1, 2, 8), "grad": (1, 1, 2, 5), **TWO_APART}),
    ("max_pool_grad_vector_strips", "max_pooling_grad",
     {"x": (1, 1, 2, 8), "grad": (1, 1, 2, 4), **WHOLE}),
    ("average_pool_grad_strips", "average_pooling_grad",
     {"grad": (1, 1, 2, 5), "input_sizes": (1, 1, 2, 8), **TWO_APART}),
    ("average_pool_grad_vector_strips", "average_pooling_grad",
     {"grad": (1, 1, 2, 4), "input_sizes": (1, 1, 2, 8), **WHOLE}),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "op", "given"), STRIPS)
def test_strips_that_begin_before_far_rows(kernel: str, op: str, given: dict[str, Any]) -> None:
    """Padding above rows stands where 32 bits do not reach, though the rows themselves do not."""
    arrays = [k for k in given if k in backends.ARRAYS]
    call = {**given, **{k: harness.data(given[k], "float16", 3) for k in arrays}, "window_size": 3}
    want = bounds.expected(op, **call)
    with backends.using(backends.SIMT), environment(CUDML_KERNEL=kernel):
        sent: dict[str, Any] = dict(call)
        for k in arrays:
            sent[k] = rows_apart(call[k].shape, "float16")
            sent[k].view()[...] = call[k]
        out = rows_apart(want.values[0].shape, "float16")
        assert harness.called(backends.SIMT, op, {**sent, "out": out}) is out
    verdict = bounds.compare([out.view().copy()], want)
    assert verdict.ok, verdict.message


def planes_apart(shape: tuple[int, ...], dtype: Any) -> InterfaceArray:
    """Zeros of packed images, of which four are beyond 2^31 elements."""
    kind, step = np.dtype(dtype), 700_000_000
    inner = [int(np.prod(shape[a + 1 :])) for a in range(1, len(shape))]
    strides = tuple(s * kind.itemsize for s in (step, *inner))
    return InterfaceArray(Sparse(shape[0] * step * kind.itemsize), 0, shape, strides, kind)


IMAGES, OUTPUTS = (5, 2, 6, 7), (5, 2, 4, 5)  # five images are taken as three and three
BATCHES: dict[str, dict[str, Any]] = {
    "max_pooling": {"x": IMAGES},
    "average_pooling": {"x": IMAGES},
    "lp_pooling": {"x": IMAGES},
    "max_pooling_grad": {"x": IMAGES, "grad": OUTPUTS},
    "average_pooling_grad": {"grad": OUTPUTS, "input_sizes": IMAGES},
    "lp_pooling_grad": {"x": IMAGES, "y": OUTPUTS, "grad": OUTPUTS, "p": 3},
}


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("op", BATCHES)
def test_batches_beyond_two_to_the_31(op: str) -> None:
    """Slices of them get the kernel that the batch gets where it is small, and its bits."""
    given = BATCHES[op]
    arrays = [k for k in given if k in backends.ARRAYS]
    call = {**given, **{k: harness.data(given[k], "float32", 3) for k in arrays}, "window_size": 3}
    with backends.using(backends.SIMT):
        near = {**call, **{k: backends.SIMT.to(call[k]) for k in arrays}}
        want = harness.called(backends.SIMT, op, near)
        far = {**call, **{k: planes_apart(call[k].shape, "float32") for k in arrays}}
        for k in arrays:
            far[k].view()[...] = call[k]
        far["out"] = planes_apart(want.shape, "float32")
        assert harness.explained(op, far).kernel == harness.explained(op, near).kernel
        assert harness.called(backends.SIMT, op, far) is far["out"]
    assert far["out"].view().tobytes() == backends.SIMT.back(want).tobytes()


@pytest.mark.parametrize("kernel", ["pool_window", "pool_generic"])
def test_more_outputs_than_threads(kernel: str) -> None:
    """Threads take several turns where the grid is cut short."""
    x = harness.data((1, 1, 600, 601), "int8", 4)
    want = cudml.max_pooling(x, 2)
    with backends.using(backends.SIMT), environment(CUDML_KERNEL=kernel):
        y = backends.SIMT.back(cudml.max_pooling(backends.SIMT.to(x), 2))
    assert y.tobytes() == want.tobytes()


NORMALIZATION = ("mvn", "mvn_grad", "statistics", "normalize")


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in NORMALIZATION])
@pytest.mark.bug("IDX-08", "PAD-05")
def test_more_planes_than_a_grid_has_in_y(family: str) -> None:
    """65537 planes of two elements."""
    x = harness.data((65537, 1, 2), "float16", 5)
    grad = harness.data((65537, 1, 1), "float16", 6)
    op, call = {
        "pool": ("max_pooling", {"x": x, "window_size": 2}),
        "max_pool_grad": ("max_pooling_grad", {"x": x, "grad": grad, "window_size": 2}),
        "average_pool_grad": (
            "average_pooling_grad",
            {"grad": grad, "input_sizes": x.shape, "window_size": 2},
        ),
        "lp_pool_grad": (
            "lp_pooling_grad",
            {"x": x, "y": np.abs(grad), "grad": grad, "window_size": 2},
        ),
        "unpool": (
            "max_unpooling",
            {"x": x, "indices": indices(x.shape, (65537, 1, 3), 1), "output_sizes": (65537, 1, 3)},
        ),
        "pad": ("padding", {"x": x, "start_padding": (0, 0, 1), "end_padding": 0}),
        "pad_grad": (
            "padding_grad",
            {
                "grad": x,
                "input_sizes": grad.shape,
                "start_padding": 0,
                "end_padding": (0, 0, 1),
                "mode": "edge",
            },
        ),
    }[family]
    want = harness.called(backends.CPU, op, call)
    with backends.using(backends.SIMT):
        sent = {k: backends.SIMT.to(v) if k in backends.ARRAYS else v for k, v in call.items()}
        y = backends.SIMT.back(harness.called(backends.SIMT, op, sent))
    assert y.tobytes() == want.tobytes()
