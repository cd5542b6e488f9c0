"""Empty batches and kept dimensions give empty results; other empty dimensions are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from backends import current
from harness import refused
from layouts import dtype_of

# Operator, its arguments from arrays of these sizes, and the sizes of the result.
Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]


def zeros(*sizes: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(sizes, dtype_of(dtype))


def cases(n: int, c: int, dtype: str) -> list[Case]:
    x, g = zeros(n, c, 6, 7, dtype=dtype), zeros(n, c, 3, 3, dtype=dtype)
    pooled = (n, c, 3, 3)
    return [
        ("max_pooling", (x, 2, 2), {}, pooled),
        ("max_pooling", (x, (6, 7)), {}, (n, c, 1, 1)),
        ("average_pooling", (x, 2, 2), {}, pooled),
        ("lp_pooling", (x, 2, 2), {}, pooled),
        ("max_pooling_grad", (x, g, 2, 2), {}, x.shape),
        ("max_pooling_grad", (x, zeros(n, c, 4, 5, dtype=dtype), 3), {}, x.shape),
        ("average_pooling_grad", (g, x.shape, 2, 2), {}, x.shape),
        ("average_pooling_grad", (zeros(n, c, 4, 5, dtype=dtype), x.shape, 3), {}, x.shape),
        ("padding", (x, (0, 0, 1, 2), (0, 0, 3, 0)), {"mode": "edge"}, (n, c, 10, 9)),
        ("mean_variance_normalization", (x,), {"axes": (2, 3)}, x.shape),
        ("mean_variance_normalization", (x,), {"axes": (3,), "activation": "relu"}, x.shape),
    ]


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (0, 0)])
def test_empty_batches(sizes: tuple[int, int], dtype: str) -> None:
    backend = current()
    for op, args, how, shape in cases(*sizes, dtype):
        moved = [backend.to(a) if isinstance(a, np.ndarray) else a for a in args]
        y = backend.call(op, *moved, **how)
        assert tuple(y.shape) == shape, op


def elsewhere(dtype: str) -> list[Case]:
    """Empty dimensions in every place that permits them, and what comes with an output."""
    x, g = zeros(3, 6, 0, 7, dtype=dtype), zeros(3, 2, 0, 3, dtype=dtype)
    how = {"window_size": 3, "strides": 2, "axes": (1, 3)}
    one = zeros(3, 1, 1, 7, dtype=dtype)
    found: list[Case] = [
        (op, (x,), dict(how), g.shape) for op in ("max_pooling", "average_pooling", "lp_pooling")
    ]
    found += [
        ("max_pooling", (x, 1), {"axes": (0, 1, 3), "output_sizes": (3, 6, 7)}, x.shape),
        ("average_pooling", (x,), {**how, "include_padding": True, "end_padding": 2}, (3, 3, 0, 4)),
        ("max_pooling_grad", (x, g), dict(how), x.shape),
        ("average_pooling_grad", (g, x.shape), dict(how), x.shape),
        ("average_pooling_grad", (g, x.shape), {**how, "include_padding": True}, x.shape),
    ]
    for mode in ("constant", "edge", "reflection", "symmetric", "wrap"):
        found.append(("padding", (x, (1, 0, 0, 9), (0, 8, 0, 1)), {"mode": mode}, (4, 14, 0, 17)))
    for axes in ((), 0, (3,), (0, 1), (0, 1, 3)):
        more = {"scale": x, "bias": one} if axes else {"use_mean": False, "activation": "tanh"}
        found.append(("mean_variance_normalization", (x,), {"axes": axes, **more}, x.shape))
    neither = {"axes": (3,), "use_mean": False, "use_variance": False, "activation": "sigmoid"}
    found.append(("mean_variance_normalization", (x,), neither, x.shape))
    return found


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_empty_dimensions_elsewhere(dtype: str) -> None:
    backend = current()
    for op, args, how, shape in elsewhere(dtype):
        moved = [backend.to(a) if isinstance(a, np.ndarray) else a for a in args]
        named = {k: backend.to(v) if isinstance(v, np.ndarray) else v for k, v in how.items()}
        assert tuple(backend.call(op, *moved, **named).shape) == shape, (op, how)
        if backend.name == "cpu":
            out = np.zeros(shape, dtype_of(dtype))
            assert getattr(cudml, op)(*args, **how, out=out) is out, (op, how)


def of_training(n: int, dtype: str) -> list[Case]:
    x, one = zeros(n, 3, 6, 7, dtype=dtype), zeros(1, 3, 1, 1, dtype=dtype)
    y = zeros(n, 3, 5, 6, dtype=dtype)
    return [
        ("lp_pooling_grad", (x, y, y, 2), {}, x.shape),
        ("padding_grad", (zeros(n, 3, 8, 7, dtype=dtype), x.shape, (0, 0, 1, 0), (0, 0, 1, 0)),
         {"mode": "edge"}, x.shape),
        ("max_unpooling", (y, zeros(*y.shape, dtype="uint32"), x.shape), {}, x.shape),
        ("normalize", (x, one, one), {}, x.shape),
        ("normalize", (zeros(3, n, dtype=dtype), *[zeros(3, 1, dtype=dtype)] * 2), {}, (3, n)),
    ]  # fmt: skip


@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_nothing_is_written(dtype: str) -> None:
    """Of an output without elements in the middle of an array."""
    every = [*cases(0, 2, dtype), *cases(2, 0, dtype), *elsewhere(dtype), *of_training(0, dtype)]
    every.append(
        (
            "padding",
            (zeros(3, 0, dtype=dtype),),
            {"start_padding": (1, 0), "end_padding": 0},
            (4, 0),
        )
    )
    for op, args, how, shape in every:
        around = np.full(64, 7, dtype_of(dtype))
        out = np.ndarray(shape, around.dtype, around, 32 * around.itemsize)
        y = getattr(cudml, op)(*args, **how, out=out)
        assert (y is out or out in y) and (around == 7).all(), (op, how)


@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("device", ["cpu", "sm_90"])
def test_explained_as_nothing_to_compute(device: str) -> None:
    every = [*cases(0, 2, "float32"), *elsewhere("float32"), *of_training(0, "float32")]
    for op, args, how, _ in every:
        e = cudml.explain(op, *args, **how, device=device)
        assert "nothing to compute" in e.reason and e.workspace_bytes == 0, (op, how, e)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("index_dtype", ["uint32", "int64"])
def test_empty_indices(index_dtype: str) -> None:
    backend = current()
    x = backend.to(zeros(2, 0, 6, 7, dtype="int16"))
    y, indices = backend.call("max_pooling", x, 2, 2, return_indices=True, index_dtype=index_dtype)
    assert tuple(y.shape) == tuple(indices.shape) == (2, 0, 3, 3)
    assert backend.back(indices).dtype == index_dtype


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("op", ["max_pooling", "average_pooling", "lp_pooling"])
@pytest.mark.parametrize("sizes", [(2, 3, 0, 5), (2, 3, 5, 0)])
def test_empty_spatial_dimensions_are_refused(op: str, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=op):
        getattr(cudml, op)(zeros(*sizes), 1, start_padding=1)


@pytest.mark.small
@pytest.mark.decision("D-TEN-4")
def test_other_empty_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="padding"):
        cudml.padding(zeros(2, 0), (0, 1), (0, 0), mode="edge")
    with pytest.raises(ValueError, match="mean_variance_normalization"):
        cudml.mean_variance_normalization(zeros(2, 0, 3), axes=(1,))
    with pytest.raises(ValueError, match="average_pooling_grad"):
        cudml.average_pooling_grad(zeros(1, 2, 1), (1, 2, 0), 1)


@pytest.mark.decision("D-TEN-4")
def test_empty_results_of_sizes_that_none_can_have() -> None:
    """Their strides must be numbers, too."""
    for name in ("max_pooling", "average_pooling", "lp_pooling"):
        for device in (None, "sm_90"):
            with refused(ValueError, f"{name}: OutputTensor.Sizes is {{0,1,", "2^63 bytes"):
                cudml.explain(name, zeros(0, 1, 1, 1, 1), 1, 1, 2**31 - 2, device=device)
        with refused(ValueError, f"{name}: OutputTensor.Sizes is {{0,1,", "2^63 bytes"):
            getattr(cudml, name)(zeros(0, 1, 1, 1, 1), 1, 1, 2**31 - 2)
    with refused(ValueError, "average_pooling_grad: OutputGradientTensor.Sizes is {0,1,"):
        cudml.average_pooling_grad(zeros(0, 1, 1, 1, 1), (0, 1, *(2**31 - 1,) * 3), 1, 2**31 - 1)
