"""The worked examples of the operator specification, as one table for every implementation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from normalization_grad_examples import calls as normalization_grad_calls


@dataclass(frozen=True)
class Example:
    """One call and its result, whose arrays are float64 (indices int64).

    `digits` is None where the printed numbers are exact, else how many decimals are printed.
    float16=False marks values beyond its range. `rules` are the decisions that the example shows.
    """

    id: str
    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: tuple[np.ndarray | None, ...]
    digits: int | None = None
    float16: bool = True

    @property
    def rules(self) -> tuple[str, ...]:
        return RULES.get(self.id.split()[0], ())


RULES = {
    "M2": ("D-MAX-2",),
    "M3": ("D-MAX-1",),
    "M5": ("D-POOL-1",),
    "M7": ("D-MAX-3",),
    "M8": ("D-MAX-6",),
    "M10": ("D-MAX-4", "D-POOL-6"),
    "G2": ("D-MAX-2",),
    "A2": ("D-AVG-2",),
    "A3": ("D-POOL-2", "D-AVG-1"),
    "A4": ("D-POOL-2", "D-AVG-1"),
    "A5": ("D-POOL-1", "D-AVG-4"),
    "A6": ("D-AVG-3",),
    "L1": ("D-LP-1", "D-LP-2"),
    "L4": ("D-LP-4",),
    "L6": ("D-LP-6",),
    "L7": ("D-LP-6",),
    "P5": ("D-PAD-2",),
    "P6": ("D-PAD-1", "D-PAD-13"),
    "PG1": ("D-GRAD-10", "D-GRAD-11a"),
    "V1": ("D-MVN-1",),
    "V4": ("D-MVN-13",),
    "V8": ("D-MVN-3",),
    "V9": ("D-MVN-10",),
    "V10": ("D-MVN-5",),
    "V11": ("D-MVN-4",),
    "VG2": ("D-GRAD-14",),
    "VG4": ("D-GRAD-19",),
    "VG8": ("D-GRAD-18",),
}


def grid(rows: Any) -> np.ndarray:
    """Rows of a plane, or one row, as an array {1,1,H,W}."""
    plane = np.atleast_2d(np.array(rows, np.float64))
    return plane.reshape(1, 1, *plane.shape)


M1 = [[1, 2, 3], [2, 4, 2], [5, 6, 7]]
M5 = [[1, 9, 2, 8], [3, 0, 4, 1], [5, 2, 6, 7], [0, 4, 1, 3]]
X = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
Y = [[1, -2, 3], [-4, 5, -6], [7, -8, 9]]
PAD_1 = {"start_padding": (0, 1), "end_padding": (0, 1)}
ALL_ONES = -1


def _pool(name: str, op: str, x: Any, window: Any, expected: Any, **kwargs: Any) -> Example:
    digits = kwargs.pop("digits", None)
    small = kwargs.pop("float16", True)
    x = x if isinstance(x, np.ndarray) else grid(x)
    shaped = expected if isinstance(expected, np.ndarray) else grid(expected)
    return Example(name, op, (x, window), kwargs, (shaped,), digits, small)


def _max(name: str, x: Any, window: Any, values: Any, indices: Any, **kwargs: Any) -> Example:
    x = x if isinstance(x, np.ndarray) else grid(x)
    y = values if isinstance(values, np.ndarray) else grid(values)
    winners = np.array(indices, np.int64).reshape(y.shape)
    kwargs.update(return_indices=True, index_dtype="int64")
    return Example(name, "max_pooling", (x, window), kwargs, (y, winners))


def _max_examples() -> Iterator[Example]:
    yield _max("M1", M1, 2, [[4, 4], [6, 7]], [[4, 4], [7, 8]])
    yield _max("M2", [[3, 5, 7, 1], [9, 4, 2, 8]], (1, 3), [[7, 7], [9, 8]], [[2, 2], [4, 7]])
    planes = [[[1, 3], [2, 3]], [[0, -1], [-2, -3]], [[5, 5], [5, 5]], [[7, 8], [9, 9]]]
    batch = np.array(planes, np.float64).reshape(2, 2, 2, 2)
    peaks = np.array([3.0, 0, 5, 9]).reshape(2, 2, 1, 1)
    yield _max("M3", batch, 2, peaks, [1, 4, 8, 14])
    yield _max(
        "M4", [[-1, -2], [-3, -4]], 2, [[-1, -2], [-3, -4]], [[0, 1], [2, 3]],
        strides=2, start_padding=1, end_padding=1,
    )  # fmt: skip
    yield _max("M5", M5, 2, [[6, 9], [4, 4]], [[10, 1], [6, 13]], dilations=2)
    yield _max(
        "M6", M5, 2,
        [[0, 4, 1, 4], [9, 6, 9, 6], [4, 4, 4, 4], [2, 6, 7, 6]],
        [[5, 6, 7, 6], [1, 10, 1, 10], [13, 6, 13, 6], [9, 10, 11, 10]],
        dilations=2, start_padding=1, end_padding=1,
    )  # fmt: skip
    nan = np.nan
    yield _max("M7", [1, nan, 3, nan, 2], (1, 3), [nan, nan, nan], [1, 1, 3])
    yield _max("M8", [-0.0, 0.0, -0.0], (1, 2), [-0.0, 0.0], [0, 1])
    cube = np.arange(1.0, 9).reshape(1, 1, 2, 2, 2)
    yield _max("M9 whole", cube, 2, np.full((1, 1, 1, 1, 1), 8.0), [7])
    halves = np.array([4.0, 8]).reshape(1, 1, 2, 1, 1)
    yield _max("M9 slices", cube, (1, 2, 2), halves, [3, 7])
    yield _max("M10", [4], (1, 2), [-np.inf], [ALL_ONES], dilations=2, **PAD_1)


def _max_grad_examples() -> Iterator[Example]:
    def example(name: str, x: Any, grad: Any, window: Any, expected: Any, **kwargs: Any) -> Example:
        args = (grid(x), grid(grad), window)
        return Example(name, "max_pooling_grad", args, kwargs, (grid(expected),))

    g1 = [[0, 0, 0], [0, 3, 0], [0, 4, 5]]
    g3 = [[0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 1, 0], [0, 4, 0, 0]]
    yield example("G1", M1, [[1, 2], [4, 5]], 2, g1)
    yield example("G2", [2, 2, 2], [1, 10], (1, 2), [1, 10, 0])
    yield example("G3", M5, [[1, 2], [3, 4]], 2, g3, dilations=2)
    yield example("G4", [1, 5, 2], [1, 2, 3, 4], (1, 2), [1, 5, 4], **PAD_1)


def _average_examples() -> Iterator[Example]:
    def pair(name: str, x: Any, window: Any, real: Any, inside: Any, **kwargs: Any) -> Any:
        for include, expected in ((False, real), (True, inside)):
            full = f"{name} {'include' if include else 'exclude'}"
            kwargs["include_padding"] = include
            yield _pool(full, "average_pooling", x, window, expected, **kwargs)

    ones = {"start_padding": 1, "end_padding": 1}
    line = {"start_padding": (0, 1), "end_padding": (0, 1), "strides": (1, 2)}
    yield from pair("A1", X, 2, [[3, 4], [6, 7]], [[3, 4], [6, 7]])
    yield from pair("A2", X, 2, [[1, 2.5], [5.5, 7]], [[0.25, 1.25], [2.75, 7]], strides=2, **ones)
    ceil = [1.5, 3.5, 5]
    yield from pair("A3", [1, 2, 3, 4, 5], (1, 2), ceil, ceil, strides=(1, 2), output_sizes=(1, 3))
    yield from pair("A4 floor", [1, 2, 3, 4], (1, 3), [1.5, 3], [1, 3], **line)
    yield from pair(
        "A4 ceil", [1, 2, 3, 4], (1, 3), [1.5, 3, 4], [1, 3, 2], output_sizes=(1, 3), **line
    )
    seven = np.arange(1.0, 8)
    yield from pair("A5", grid(seven), (1, 3), [3, 4, 5], [3, 4, 5], dilations=(1, 2))
    two = {"start_padding": (0, 2), "end_padding": (0, 2)}
    yield from pair("A6", [5], (1, 2), [0, 5, 5, 0], [0, 2.5, 2.5, 0], **two)


def _average_grad_examples() -> Iterator[Example]:
    def example(name: str, grad: Any, expected: Any, **kwargs: Any) -> Example:
        args = (grid(grad), (1, 1, 3, 3), 2)
        return Example(name, "average_pooling_grad", args, kwargs, (grid(expected),))

    yield example("AG1", [[1, 2], [3, 4]], [[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]])
    four = [[4, 4], [4, 4]]
    start = {"strides": 2, "start_padding": 1}
    yield example("AG2 exclude", four, [[4, 2, 2], [2, 1, 1], [2, 1, 1]], **start)
    yield example("AG2 include", four, np.ones((3, 3)), include_padding=True, **start)


def _lp_examples() -> Iterator[Example]:
    def example(name: str, x: Any, window: Any, expected: Any, **kwargs: Any) -> Example:
        return _pool(name, "lp_pooling", x, window, expected, **kwargs)

    l2 = [[6.782330, 8.602325], [12.409674, 14.352700]]
    l3 = [[5.828477, 7.217652], [10.144567, 11.652045]]
    l4 = [[1, 3.605551], [8.062258, 14.352700]]
    yield example("L1", Y, 2, [[12, 16], [24, 28]], p=1)
    yield example("L2", Y, 2, l2, p=2, digits=6)
    yield example("L3", Y, 2, l3, p=3, digits=6)
    yield example("L4", Y, 2, l4, p=2, digits=6, strides=2, start_padding=1, end_padding=1)
    yield example("L5", Y, 2, [[11.832160]], p=2, digits=6, dilations=2)
    yield example("L6", [1e5] * 4, (1, 4), [118920.71], p=8, digits=2, float16=False)
    yield example("L7", [1e-20] * 2, (1, 2), [1.41421356e-20], p=2, digits=28, float16=False)


def padded(rows: Any, start: Any, end: Any, mode: Any, expected: Any, name: str) -> Example:
    """A padding example of a row or plane as an array of its own rank."""
    x, y = np.array(rows, np.float64), np.array(expected, np.float64)
    return Example(name, "padding", (x, start, end), {"mode": mode, "value": 9}, (y,))


def _padding_examples() -> Iterator[Example]:
    a, b = [1, 2, 3, 4], [5, 6, 7, 8]
    nine = [9] * 10
    rows = {
        "edge": ([1, 1, 1, 2, 3, 4, 4, 4, 4, 4], [5, 5, 5, 6, 7, 8, 8, 8, 8, 8], "AABABBBB"),
        "reflection": ([3, 2, 1, 2, 3, 4, 3, 2, 1, 2], [7, 6, 5, 6, 7, 8, 7, 6, 5, 6], "BABABABA"),
        "symmetric": ([2, 1, 1, 2, 3, 4, 4, 3, 2, 1], [6, 5, 5, 6, 7, 8, 8, 7, 6, 5], "AABABBAB"),
        "wrap": ([3, 4, 1, 2, 3, 4, 1, 2, 3, 4], [7, 8, 5, 6, 7, 8, 5, 6, 7, 8], "BABABABA"),
    }
    x = [[[a, b, a, b]]]
    start, end = (0, 0, 1, 2), (0, 0, 3, 4)
    middle = [[9, 9, *row, 9, 9, 9, 9] for row in (a, b, a, b)]
    constant = [[[nine, *middle, nine, nine, nine]]]
    yield padded(x, start, end, "constant", constant, "P1")
    for name, (mode, (row_a, row_b, order)) in zip(
        ("P2", "P3", "P4", "P5"), rows.items(), strict=True
    ):
        result = [[[row_a if letter == "A" else row_b for letter in order]]]
        yield padded(x, start, end, mode, result, name)
    yield from _long_pads()
    square = [[1, 2], [3, 4]]
    edge = [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    mirror = [[4, 3, 4, 3], [2, 1, 2, 1], [4, 3, 4, 3], [2, 1, 2, 1]]
    frame = [[9] * 4, [9, 1, 2, 9], [9, 3, 4, 9], [9] * 4]
    corners = {
        "edge": edge, "symmetric": edge, "reflection": mirror, "wrap": mirror, "constant": frame
    }  # fmt: skip
    for mode, result in corners.items():
        yield padded(square, 1, 1, mode, result, f"P7 {mode}")
    x = [[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]]
    result = [row * 2 for row in x]
    yield padded(x, (0, 2), (0, 0), "reflection", result, "P8")
    turned = [[3.4, 2.3, 3.4, 2.3], [5.7, 4.5, 5.7, 4.5], [1.2, 1.0, 1.2, 1.0]]
    yield padded(x, (2, 1), (1, 1), "wrap", turned * 2, "P9")


def _long_pads() -> Iterator[Example]:
    cases = [
        ([1, 2, 3, 4], 0, 8, "123444444444", "123432123432", "123443211234", "123412341234"),
        ([1, 2, 3], 5, 0, "11111123", "21232123", "23321123", "23123123"),
        ([1, 2], 3, 3, "11112222", "21212121", "22112211", "21212121"),
        ([7], 2, 2, "77777", "77777", "77777", "77777"),
    ]
    for x, start, end, *results in cases:
        for mode, result in zip(("edge", "reflection", "symmetric", "wrap"), results, strict=True):
            name = f"P6 {len(x)} elements {mode}"
            yield padded(x, start, end, mode, [int(c) for c in result], name)


Z = np.array([1, 2, 3, 4, 10, 20, 30, 40], np.float64).reshape(1, 2, 2, 2)
SCALE = np.array([2.0, 3.0]).reshape(1, 2, 1, 1)
BIAS = np.array([1.0, -1.0]).reshape(1, 2, 1, 1)


def _normal(name: str, x: Any, expected: Any, digits: int | None = 6, **kwargs: Any) -> Example:
    x = np.array(x, np.float64)
    scale, bias = kwargs.pop("scale", None), kwargs.pop("bias", None)
    result = np.array(expected, np.float64).reshape(x.shape)
    args = (x, scale, bias)
    return Example(name, "mean_variance_normalization", args, kwargs, (result,), digits)


def _padding_grad_examples() -> Iterator[Example]:
    """The sums 1, 2, 3, ... of a row, onto n elements with pads before and after; a plane's."""
    modes = ("constant", "edge", "reflection", "symmetric", "wrap")
    rows = {
        (4, 0, 8): ([1, 2, 3, 4], [1, 2, 3, 72], [8, 28, 28, 14], [18, 19, 20, 21],
                    [15, 18, 21, 24]),
        (3, 5, 0): ([6, 7, 8], [21, 7, 8], [8, 16, 12], [11, 12, 13], [9, 12, 15]),
        (2, 3, 3): ([4, 5], [10, 26], [20, 16], [22, 14], [20, 16]),
        (1, 2, 2): ([3], [15], [15], [15], [15]),
    }  # fmt: skip
    for (n, before, after), results in rows.items():
        grad = np.arange(1.0, 1 + n + before + after)
        for mode, result in zip(modes, results, strict=True):
            name, want = f"PG1 {n} {before}/{after} {mode}", np.array(result, float)
            yield Example(name, "padding_grad", (grad, [n], before, after), {"mode": mode}, (want,))
    near, far = [[14, 22], [46, 54]], [[44, 40], [28, 24]]
    plane = np.arange(1.0, 17).reshape(4, 4)
    for mode, result in zip(modes, ([[6, 7], [10, 11]], near, far, near, far), strict=True):
        name, want = f"PG5 {mode}", np.array(result, float)
        yield Example(name, "padding_grad", (plane, (2, 2), 1, 1), {"mode": mode}, (want,))
    ones = ([1, 1, 1, 9], [2, 4, 4, 2], [3, 3, 3, 3], [3, 3, 3, 3])
    for mode, result in zip(modes[1:], ones, strict=True):
        name, want = f"PG6 {mode}", np.array(result, float)
        yield Example(name, "padding_grad", (np.ones(12), [4], 0, 8), {"mode": mode}, (want,))


def _normalization_examples() -> Iterator[Example]:
    affine = {"scale": SCALE, "bias": BIAS}
    v1 = [-1.341635, -0.447212, 0.447212, 1.341635, -1.341641, -0.447214, 0.447214, 1.341641]
    v2 = [-0.925744, -0.853136, -0.780529, -0.707922, -0.272278, 0.453796, 1.179870, 1.905943]
    v3 = [-1.5, -0.5, 0.5, 1.5, -15, -5, 5, 15]
    v3_all = [-12.75, -11.75, -10.75, -9.75, -3.75, 6.25, 16.25, 26.25]
    v4 = [0.365148, 0.730296, 1.095444, 1.460593, 0.365148, 0.730297, 1.095445, 1.460593]
    v6 = [-1.683271, 0.105576, 1.894424, 3.683271, -5.024922, -2.341641, 0.341641, 3.024922]
    yield _normal("V1", Z, v1, axes=(2, 3))
    yield _normal("V2", Z, v2, axes=(1, 2, 3))
    yield _normal("V3", Z, v3, None, axes=(2, 3), use_variance=False)
    yield _normal("V3 across channels", Z, v3_all, None, axes=(1, 2, 3), use_variance=False)
    yield _normal("V4", Z, v4, axes=(2, 3), use_mean=False)
    v5 = [3, 5, 7, 9, 29, 59, 89, 119]
    neither = {"use_mean": False, "use_variance": False}
    yield _normal("V5", Z, v5, None, axes=(2, 3), **neither, **affine)
    yield _normal("V6", Z, v6, axes=(2, 3), **affine)
    relu = [max(v, 0.0) for v in v6]
    yield _normal("V6 relu", Z, relu, axes=(2, 3), activation="relu", **affine)
    rows = np.array([1.0, 2, 3, 4]).reshape(2, 1, 1, 2)
    yield _normal("V7", rows, [-0.999980, 0.999980] * 2, axes=(2, 3))
    yield _normal("V7 batch", rows, v1[:4], axes=(0, 2, 3))
    quarter = [-1.341641, -0.447214, 0.447214, 1.341641]
    yield _normal("V8", [1, 2, 3, 4], quarter, axes=0, epsilon=0)
    yield _normal("V9", Z, [1, 1, 1, 1, -1, -1, -1, -1], None, axes=(), **affine)
    yield _normal("V10", [5, 5, 5], [0, 0, 0], None, axes=0)
    yield _normal("V11", [10000, 10001, 10002, 10003], v1[:4], axes=0)


EXAMPLES = [
    *_max_examples(),
    *_max_grad_examples(),
    *_average_examples(),
    *_average_grad_examples(),
    *_lp_examples(),
    *_padding_examples(),
    *_padding_grad_examples(),
    *_normalization_examples(),
    *(Example(*call) for call in normalization_grad_calls()),
]

# In, W, S, P0, P1, D, and the output sizes of the floor rule and of D-POOL-2's upper limit.
OUTPUT_SIZES = [
    (5, 2, 2, 0, 0, 1, 2, 3),
    (5, 3, 2, 1, 1, 1, 3, 3),
    (4, 3, 2, 1, 1, 1, 2, 3),
    (7, 3, 1, 0, 0, 2, 3, 3),
    (7, 3, 2, 0, 0, 2, 2, 2),
    (8, 3, 2, 1, 1, 3, 2, 3),
    (1, 2, 1, 1, 1, 2, 1, 1),
    (7, 3, 3, 0, 0, 1, 2, 3),
]

ACTIVATION_INPUTS = (-2, -0.5, 0, 0.5, 1.5)
ACTIVATION_VALUES: list[tuple[str, dict[str, float], tuple[float, ...]]] = [
    ("identity", {}, (-2, -0.5, 0, 0.5, 1.5)),
    ("linear", {"alpha": 2, "beta": 1}, (-3, 0, 1, 2, 4)),
    ("relu", {}, (0, 0, 0, 0.5, 1.5)),
    ("leaky_relu", {}, (-0.02, -0.005, 0, 0.5, 1.5)),
    ("thresholded_relu", {}, (0, 0, 0, 0, 1.5)),
    ("thresholded_relu", {"alpha": 0.5}, (0, 0, 0, 0, 1.5)),
    ("thresholded_relu", {"alpha": -0.5}, (0, 0, 0, 0.5, 1.5)),
    ("elu", {}, (-0.864665, -0.393469, 0, 0.5, 1.5)),
    ("celu", {"alpha": 2}, (-1.264241, -0.442398, 0, 0.5, 1.5)),
    ("scaled_elu", {}, (-1.520166, -0.691758, 0, 0.525351, 1.576052)),
    ("sigmoid", {}, (0.119203, 0.377541, 0.5, 0.622459, 0.817574)),
    ("hard_sigmoid", {}, (0.1, 0.4, 0.5, 0.6, 0.8)),
    ("tanh", {}, (-0.964028, -0.462117, 0, 0.462117, 0.905148)),
    ("scaled_tanh", {}, (-0.761594, -0.244919, 0, 0.244919, 0.635149)),
    ("softplus", {}, (0.126928, 0.474077, 0.693147, 0.974077, 1.701413)),
    ("softplus", {"steepness": 2}, (0.009075, 0.156631, 0.346574, 0.656631, 1.524294)),
    ("parametric_softplus", {"alpha": 2, "beta": 0.5},
     (0.626523, 1.151879, 1.386294, 1.651879, 2.273742)),
    ("softsign", {}, (-0.666667, -0.333333, 0, 0.333333, 0.6)),
    ("shrink", {}, (-2, 0, 0, 0, 1.5)),
    ("shrink", {"bias": 0.25}, (-1.75, 0, 0, 0, 1.25)),
    ("gelu", {}, (-0.045500, -0.154269, 0, 0.345731, 1.399789)),
    ("swish", {}, (-0.238406, -0.188770, 0, 0.311230, 1.226362)),
    ("hard_swish", {}, (-0.333333, -0.208333, 0, 0.291667, 1.125)),
]  # fmt: skip

# The values at -inf and +inf.
ACTIVATION_LIMITS: list[tuple[str, dict[str, float], float, float]] = [
    ("identity", {}, -math.inf, math.inf),
    ("linear", {"alpha": 0, "beta": 3}, 3, 3),
    ("relu", {}, 0, math.inf),
    ("leaky_relu", {"alpha": 0}, 0, math.inf),
    ("thresholded_relu", {}, 0, math.inf),
    ("elu", {"alpha": 2}, -2, math.inf),
    ("celu", {"alpha": 2}, -2, math.inf),
    ("celu", {"alpha": -1}, -math.inf, math.inf),
    ("scaled_elu", {"alpha": 2, "gamma": 3}, -6, math.inf),
    ("scaled_elu", {"gamma": 0}, 0, 0),
    ("sigmoid", {}, 0, 1),
    ("hard_sigmoid", {}, 0, 1),
    ("hard_sigmoid", {"alpha": 0}, 0.5, 0.5),
    ("hard_sigmoid", {"alpha": -1}, 1, 0),
    ("tanh", {}, -1, 1),
    ("scaled_tanh", {"alpha": 3}, -3, 3),
    ("scaled_tanh", {"beta": 0}, 0, 0),
    ("softplus", {}, 0, math.inf),
    ("parametric_softplus", {"alpha": 0}, 0, 0),
    ("parametric_softplus", {"alpha": 2, "beta": 0}, 2 * math.log(2), 2 * math.log(2)),
    ("softsign", {}, -1, 1),
    ("shrink", {}, -math.inf, math.inf),
    ("gelu", {}, 0, math.inf),
    ("swish", {}, 0, math.inf),
    ("swish", {"sigmoid_input_scale": -1}, -math.inf, 0),
    ("swish", {"sigmoid_input_scale": 0}, -math.inf, math.inf),
    ("hard_swish", {}, 0, math.inf),
    ("hard_swish", {"alpha": 0, "beta": 0}, 0, 0),
]
