"""Normalization and its gradient for every shape of scale and bias, whichever results are wanted:
no path that looks at one parameter may forget another."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from backends import CPU
from harness import check, data
from pool_support import FLOATS

FORWARD, GRADIENT = "mean_variance_normalization", "mean_variance_normalization_grad"
ACTIVATIONS: tuple[Any, ...] = (None, "relu", "swish", None, "tanh", ("leaky_relu", {"alpha": 0.0}))
OUTPUTS = tuple(
    some for k in (3, 1, 2) for some in itertools.combinations(("x", "scale", "bias"), k)
)
# Of {N, C, L}, in the order they are stored in, fastest last, and elements between those of x.
LAYOUTS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int], int]] = {
    "elements": ((17, 2, 3), (0, 1, 2), 1),
    "short planes": ((5, 3, 20), (0, 1, 2), 1),
    "planes": ((2, 2, 1030), (0, 1, 2), 1),
    "columns": ((3, 40, 19), (0, 2, 1), 1),
    "few columns": ((3, 4, 66), (0, 2, 1), 1),
    "images last": ((20, 3, 5), (1, 2, 0), 1),
    "apart": ((19, 3, 4), (0, 1, 2), 10),
    "near each other": ((4, 3, 64), (0, 1, 2), 3),
}
AXES = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))


def stored(a: np.ndarray, order: tuple[int, int, int], step: int) -> np.ndarray:
    """The same array in another order of memory, a part of a larger one."""
    wide = np.full((*(a.shape[d] for d in order), step), 7).astype(a.dtype)
    view = wide[..., 0].transpose(np.argsort(order))
    view[...] = a
    return view


def sizes_of(shape: tuple[int, int, int]) -> list[tuple[int, ...] | None]:
    """Every shape that a parameter may have, and none."""
    return [None, *itertools.product(*((1, n) for n in shape))]


def parameters(shape: tuple[int, int, int], order: tuple[int, int, int], dtype: str) -> Any:
    """All pairs of what may be given as scale and bias."""
    for pair in itertools.product(sizes_of(shape), repeat=2):
        yield {
            name: stored(data(sizes, dtype, k), order, 1)
            for k, (name, sizes) in enumerate(zip(("scale", "bias"), pair, strict=True), 3)
            if sizes
        }


def check_and_name(op: str, call: dict[str, Any], how: dict[str, Any]) -> str:
    """The path that took the call."""
    check(op, layouts=("as given",), backend=CPU, out=False, **call, **how)
    return str(cudml.explain(op, **call, **how, device="cpu").kernel)


@pytest.mark.decision("D-GRAD-1", "D-GRAD-2", "D-GRAD-13")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: str, dtype: str) -> None:
    """Of own statistics, and now and then of given ones."""
    shape, order, step = LAYOUTS[layout]
    x, grad = stored(data(shape, dtype, 1), order, step), stored(data(shape, dtype, 2), order, 1)
    paths = set()
    for axes in AXES:
        sizes = [1 if d in axes else n for d, n in enumerate(shape)]
        mean, variance = data(sizes, "float32", 5), np.abs(data(sizes, "float64", 6))
        for i, given in enumerate(parameters(shape, order, dtype), AXES.index(axes)):
            call = {"x": x, "grad": grad, **given}
            call |= {"mean": mean, "variance": variance} if i % 4 == 0 else {}
            how = {"axes": axes, "activation": ACTIVATIONS[i % 6], "outputs": OUTPUTS[i // 3 % 7]}
            paths.add(check_and_name(GRADIENT, call, how))
    assert len(paths) > 1


@pytest.mark.decision("D-MVN-1", "D-MVN-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results(layout: str, dtype: str) -> None:
    shape, order, step = LAYOUTS[layout]
    x = stored(data(shape, dtype, 1), order, step)
    paths = set()
    for axes in AXES:
        for i, given in enumerate(parameters(shape, order, dtype), AXES.index(axes)):
            how = {"axes": axes, "activation": ACTIVATIONS[i % 6]}
            paths.add(check_and_name(FORWARD, {"x": x, **given}, how))
            if axes == (0, 1, 2) and "scale" not in given:
                how = {"axes": axes, "use_mean": i % 2 == 0, "use_variance": i % 2 == 1}
                check_and_name(FORWARD, {"x": x, **given}, how)
    assert paths
