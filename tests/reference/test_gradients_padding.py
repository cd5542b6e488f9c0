"""The gradient of padding: examples, the transpose of padding, plain loops, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import harness
from cudml import bounds, reference
from cudml.reference.padding import MODES

NAMES = {"edge": "edge", "reflection": "reflect", "symmetric": "symmetric", "wrap": "wrap"}

TABLE = [
    (4, 0, 8, "constant", [1, 2, 3, 4]), (4, 0, 8, "edge", [1, 2, 3, 72]),
    (4, 0, 8, "reflection", [8, 28, 28, 14]), (4, 0, 8, "symmetric", [18, 19, 20, 21]),
    (4, 0, 8, "wrap", [15, 18, 21, 24]),
    (3, 5, 0, "constant", [6, 7, 8]), (3, 5, 0, "edge", [21, 7, 8]),
    (3, 5, 0, "reflection", [8, 16, 12]), (3, 5, 0, "symmetric", [11, 12, 13]),
    (3, 5, 0, "wrap", [9, 12, 15]),
    (2, 3, 3, "constant", [4, 5]), (2, 3, 3, "edge", [10, 26]), (2, 3, 3, "reflection", [20, 16]),
    (2, 3, 3, "symmetric", [22, 14]), (2, 3, 3, "wrap", [20, 16]),
    (1, 2, 2, "constant", [3]), (1, 2, 2, "edge", [15]), (1, 2, 2, "reflection", [15]),
    (1, 2, 2, "symmetric", [15]), (1, 2, 2, "wrap", [15]),
]  # fmt: skip
CORNERS = {
    "constant": [[6, 7], [10, 11]],
    "edge": [[14, 22], [46, 54]],
    "symmetric": [[14, 22], [46, 54]],
    "reflection": [[44, 40], [28, 24]],
    "wrap": [[44, 40], [28, 24]],
}
READ = {
    "edge": [1, 1, 1, 9],
    "reflection": [2, 4, 4, 2],
    "symmetric": [3, 3, 3, 3],
    "wrap": [3, 3, 3, 3],
}


@pytest.mark.parametrize("n, before, after, mode, want", TABLE)
def test_table(n: int, before: int, after: int, mode: str, want: list[int]) -> None:
    grad = np.arange(1.0, 1 + n + before + after)
    got = reference.padding_grad(grad, [n], before, after, mode=mode)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", MODES)
def test_corners_and_sums(mode: str) -> None:
    """PG5 and PG6."""
    grad = np.arange(1.0, 17).reshape(4, 4)
    got = reference.padding_grad(grad, (2, 2), 1, 1, mode=mode)
    np.testing.assert_array_equal(got, CORNERS[mode])
    assert (got.sum() == grad.sum()) == (mode != "constant")
    if mode in READ:
        ones = reference.padding_grad(np.ones(12), [4], 0, 8, mode=mode)
        np.testing.assert_array_equal(ones, READ[mode])


def test_nan_on_the_border_disappears_in_constant_mode() -> None:
    """PG7."""
    grad = np.full((5, 6), np.nan)
    grad[1:3, 2:5] = 7
    got = reference.padding_grad(grad, (2, 3), (1, 2), (2, 1))
    np.testing.assert_array_equal(got, np.full((2, 3), 7))
    assert np.isnan(reference.padding_grad(grad, (2, 3), (1, 2), (2, 1), mode="edge")).any()


def drawn(seed: int, most: int = 8) -> tuple[list[int], list[int], list[int]]:
    """Sizes and pads, also beyond the sizes, that differ from dimension to dimension."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, most + 1))
    sizes, start, end = (
        rng.integers(low, high, rank).tolist()
        for low, high in ((1, 6 if rank < 5 else 3), (0, 12 // rank), (0, 13 // rank))
    )
    return sizes, start, end


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(25))
def test_is_the_transpose_of_padding(seed: int, mode: str) -> None:
    """<Pv, w> = <v, P'w>, exactly on small integers; and the oracle of the specification."""
    sizes, start, end = drawn(seed)
    rng = np.random.default_rng([seed, 1])
    v = rng.integers(-9, 10, sizes).astype(float)
    padded = reference.padding(v, start, end, mode=mode)
    w = rng.integers(-9, 10, padded.shape).astype(float)
    back = reference.padding_grad(w, sizes, start, end, mode=mode)
    assert (padded * w).sum() == (v * back).sum()
    want = np.zeros(sizes)
    if mode == "constant":
        want += w[tuple(slice(a, a + n) for a, n in zip(start, sizes, strict=True))]
    else:
        sources = [
            np.pad(np.arange(n), (a, b), mode=NAMES[mode])
            for n, a, b in zip(sizes, start, end, strict=True)
        ]
        np.add.at(want, np.ix_(*sources), w)
    np.testing.assert_array_equal(back, want)


def preimages(mode: str, i: int, n: int, a: int, b: int) -> set[int]:
    """The table 16.2."""
    length = a + n + b
    if mode == "constant":
        return {a + i}
    if mode == "edge":
        low = set(range(a)) if i == 0 else set()
        return {a + i} | low | (set(range(a + n, length)) if i == n - 1 else set())
    if mode == "reflection" and n == 1:
        return set(range(length))
    period = {"reflection": 2 * (n - 1), "symmetric": 2 * n, "wrap": n}[mode]
    every = {a + i + k * period for k in range(-length, length)}
    if mode != "wrap":
        mirror = a - i if mode == "reflection" else a - 1 - i
        every |= {mirror + k * period for k in range(-length, length)}
    return {q for q in every if 0 <= q < length}


@pytest.mark.parametrize("mode", MODES)
def test_preimages(mode: str) -> None:
    for n, a, b in itertools.product(range(1, 5), range(7), range(7)):
        grad = 2.0 ** np.arange(a + n + b)
        got = reference.padding_grad(grad, [n], a, b, mode=mode)
        for i in range(n):
            assert got[i] == sum(2.0**q for q in preimages(mode, i, n, a, b))


@pytest.mark.parametrize("mode", MODES)
def test_agrees_with_torch_on_composed_operations(mode: str) -> None:
    torch = pytest.importorskip("torch")
    x, start, end = torch.randn((3, 4, 2), dtype=torch.float64, requires_grad=True), (2, 0, 3), 4
    index = np.arange(24).reshape(3, 4, 2)
    places = reference.padding(index, start, end, mode=mode, value=24)
    y = torch.cat([x.reshape(-1), torch.zeros(1, dtype=torch.float64)])[torch.tensor(places)]
    grad = torch.randn(y.shape, dtype=torch.float64)
    y.backward(grad)
    got = reference.padding_grad(grad.numpy(), x.shape, start, end, mode=mode)
    np.testing.assert_allclose(got, x.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_a_single_term_is_copied_and_four_times_gives_four_times() -> None:
    grad = np.array([1.0, np.nan, -np.inf, 5e-324])
    np.testing.assert_array_equal(reference.padding_grad(grad, [4], 0, 0, mode="wrap"), grad)
    grad = harness.data((9, 8), "float64", 5)
    one = reference.padding_grad(grad, (3, 2), (2, 5), (4, 1), mode="symmetric")
    four = reference.padding_grad(4 * grad, (3, 2), (2, 5), (4, 1), mode="symmetric")
    assert (4 * one).tobytes() == four.tobytes()


def test_a_million_terms_of_one_element() -> None:
    got = reference.padding_grad(np.full(10**6 + 3, 0.1), [3], 1, 10**6 - 1, mode="edge")
    exact = 0.1000000000000000055511151231257827  # the float64 nearest to 0.1, to 30 digits
    np.testing.assert_array_equal(got, [2 * 0.1, 0.1, exact * 10**6])


def test_zero_sizes() -> None:
    grad = np.zeros((0, 5))
    for mode in MODES:
        assert reference.padding_grad(grad, (0, 3), (0, 1), (0, 1), mode=mode).shape == (0, 3)


GRAD = harness.data((5, 7), "float32", 1)
REFUSED = [
    (ValueError, "PaddingMode is 'reflect'; it must be one of constant", {"mode": "reflect"}),
    (TypeError, "PaddingMode is 3", {"mode": 3}),
    (TypeError, "PaddingMode is ['edge', 'edge']", {"mode": ["edge", "edge"]}),
    (TypeError, "InputGradientTensor is a list", {"grad": [1.0]}),
    (TypeError, "InputGradientTensor.DataType is int32", {"grad": GRAD.astype("i4")}),
    (ValueError, "InputGradientTensor.DimensionCount is 9", {"grad": GRAD.reshape(5, 7, *[1] * 7)}),
    (ValueError, "InputGradientTensor.Sizes[1] is 7; it must be 2 + 3 + 1 = 6",
     {"end_padding": (2, 1)}),
    (TypeError, "OutputGradientTensor.Sizes (input_sizes) is 3", {"input_sizes": 3}),
    (ValueError, "OutputGradientTensor.Sizes (input_sizes) is (2,)", {"input_sizes": (2,)}),
    (TypeError, "OutputGradientTensor.Sizes[1] is 3.0", {"input_sizes": (2, 3.0)}),
    (ValueError, "OutputGradientTensor.Sizes[0] is -1", {"input_sizes": (-1, 3)}),
    (ValueError, "OutputGradientTensor.Sizes[0] is 0; a dimension with padding",
     {"input_sizes": (0, 3)}),
    (ValueError, "StartPadding[0] is -1", {"start_padding": (-1, 2)}),
    (ValueError, "StartPadding has 3 entries", {"start_padding": (1, 2, 3)}),
    (TypeError, "EndPadding[1] is '2'", {"end_padding": (2, "2")}),
    (ValueError, "EndPadding[0] is 4294967296", {"end_padding": 2**32}),
    (ValueError, "it must be at most 4294967295",
     {"grad": np.broadcast_to(np.float32(1), (5, 2**32 + 4)), "start_padding": (1, 2**32 - 1),
      "end_padding": (2, 2)}),
]  # fmt: skip


@pytest.mark.parametrize("error, text, fields", REFUSED, ids=lambda v: v if type(v) is str else "")
def test_refusal(error: type[Exception], text: str, fields: dict[str, Any]) -> None:
    call = {
        "grad": GRAD, "input_sizes": (2, 3), "start_padding": (1, 2), "end_padding": 2,
        "mode": "edge", **fields,
    }  # fmt: skip
    with harness.refused(error, "padding_grad: ", text):
        reference.padding_grad(**call)
    with harness.refused(error, "padding_grad: ", text):
        bounds.expected("padding_grad", **call)
