"""What D-TEN-7 copies: after everything else of the call is accepted, each element once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, make
from directml_support import desc_of
from harness import data, refused


def peak(call: Callable[[], Any]) -> int:
    """Bytes that Python and NumPy had more than before at the most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def reversed_planes(planes: int) -> np.ndarray:
    """80 KB, seen back to front and `planes` times."""
    return np.broadcast_to(data((1, 1, 100, 200), "float32")[..., ::-1], (1, planes, 100, 200))


REFUSED: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "window": lambda x, y: cudml.max_pooling(x, 101),
    "kind of a flag": lambda x, y: cudml.average_pooling(x, 2, include_padding=2),  # type: ignore[arg-type]
    "axes": lambda x, y: cudml.mean_variance_normalization(x, axes=4),
    "scale": lambda x, y: cudml.mean_variance_normalization(x, x[:, :7], axes=3),
    "activation": lambda x, y: cudml.mean_variance_normalization(x, axes=3, activation="none"),
    "mode": lambda x, y: cudml.padding(x, 0, 1, mode="none"),  # type: ignore[arg-type]
    "gradient": lambda x, y: cudml.max_pooling_grad(x, x, 2),
    "gradient's sizes": lambda x, y: cudml.average_pooling_grad(x, (1, 2, 3), 2),
    "padded sizes": lambda x, y: cudml.padding_grad(x, x.shape, 0, 1),
    "output": lambda x, y: cudml.max_pooling(x, 2, out=y),
    "stream": lambda x, y: cudml.max_pooling(x, 2, stream=1),
    "descriptor": lambda x, y: cudml.Operator(desc_of("MaxPooling")).compile("cpu")(x),
}


@pytest.mark.decision("D-TEN-7")
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_come_before_copies(name: str) -> None:
    """These would be 1.6 GB."""
    x, y = reversed_planes(20_000), np.zeros((1, 2, 3, 4), "float32")

    def call() -> None:
        with refused((TypeError, ValueError)):
            REFUSED[name](x, y)

    assert peak(call) < 1 << 20


@pytest.mark.decision("D-TEN-7")
def test_explanations_copy_nothing() -> None:
    x = reversed_planes(20_000)
    assert peak(lambda: cudml.explain("max_pooling", x, 2)) < 1 << 20


@pytest.mark.decision("D-TEN-7")
def test_what_repeats_is_copied_once() -> None:
    """80 KB instead of 80 MB."""
    x = reversed_planes(1000)
    got: list[np.ndarray] = []
    assert peak(lambda: got.append(cudml.max_pooling(x, (100, 200)))) < 1 << 20
    assert np.array_equal(got[0], np.full((1, 1000, 1, 1), x.max()))


@pytest.mark.decision("D-TEN-7")
@pytest.mark.parametrize("label", LABELS)
def test_broadcast_and_reversed_inputs(label: str) -> None:
    """Repeated along any dimension, reversed along the others, at odd addresses too."""
    p = make(label)
    for name, a in p.arrays.items():
        for axis in range(a.ndim):
            one = a[tuple(slice(0, 1) if d == axis else slice(None) for d in range(a.ndim))]
            meant = np.broadcast_to(one, a.shape)
            back = tuple(slice(None, None, -1) for _ in range(a.ndim))
            raw = np.zeros(one.nbytes + 1, "uint8")
            odd = np.ndarray(one.shape, one.dtype, raw.data, 1)
            odd[...] = one
            for view in (
                np.broadcast_to(one[back].copy()[back], a.shape),
                np.broadcast_to(odd, a.shape),
            ):
                assert np.array_equal(view, meant)
                given = p.with_arrays(**{name: np.ascontiguousarray(meant)})
                problem = given.problem(p.run(**{name: view}))
                assert not problem, (name, axis, problem)


@pytest.mark.core
@pytest.mark.decision("D-TEN-7")
@pytest.mark.parametrize("rank", range(1, 9))
def test_every_rank_is_copied(rank: int) -> None:
    """Nothing stands behind the strides of eight dimensions."""
    x = data((2, 1, 3, 2, 1, 2, 3, 2)[:rank], "float32")
    back = x[(Ellipsis, slice(None, None, -1))]
    want = cudml.padding(np.ascontiguousarray(back), 1, 0)
    assert np.array_equal(cudml.padding(back, 1, 0), want)
