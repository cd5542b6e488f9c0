"""Normalization drawn at random over its parameter space, and properties without a reference."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudml
from harness import ALL, check, data, shifted
from pool_support import dtype_of, same_bits

OP = "mean_variance_normalization"
TYPES = {"short": ("float16", "bfloat16"), "float32": ("float32",), "float64": ("float64",)}
NUMBER = st.sampled_from([-2.0, -0.5, 0.0, 0.1, 1.0, 1.5])
NONZERO = st.sampled_from([0.25, 1.0, 3.0])
# Every activation with its parameters: "a" and "b" take any number, "c" one above 0.
FUSED: dict[str | None, dict[str, str]] = {
    None: {},
    "identity": {},
    "linear": {"alpha": "a", "beta": "b"},
    "relu": {},
    "leaky_relu": {"alpha": "a"},
    "thresholded_relu": {"alpha": "a"},
    "elu": {"alpha": "a"},
    "celu": {"alpha": "c"},
    "scaled_elu": {"alpha": "a", "gamma": "b"},
    "sigmoid": {},
    "hard_sigmoid": {"alpha": "a", "beta": "b"},
    "tanh": {},
    "scaled_tanh": {"alpha": "a", "beta": "b"},
    "softplus": {"steepness": "c"},
    "parametric_softplus": {"alpha": "a", "beta": "b"},
    "softsign": {},
    "shrink": {"bias": "a", "threshold": "c"},
    "gelu": {},
    "swish": {"sigmoid_input_scale": "a"},
    "hard_swish": {"alpha": "a", "beta": "b"},
}
NAMES = list(FUSED)


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Everything but the element type of one call on at most 2048 elements."""
    rank = min(draw(st.integers(1, 10)), 8)
    room, shape = 2048, []
    for _ in range(rank):
        n = draw(st.integers(1, min(room, 9)))
        room //= n
        shape.append(n)
    axes = draw(st.one_of(st.just([]), st.lists(st.integers(0, rank - 1), unique=True)))
    axes = [a - rank if draw(st.booleans()) else a for a in axes]
    sizes = [[n if draw(st.booleans()) else 1 for n in shape] for _ in range(2)]
    problem = {
        "shape": tuple(shape), "axes": axes,
        "scale": sizes[0] if draw(st.booleans()) else None,
        "bias": sizes[1] if draw(st.booleans()) else None,
        "use_mean": draw(st.booleans()), "use_variance": draw(st.booleans()),
        "epsilon": draw(st.sampled_from([1e-5, 0.0, 1e-12, 1.0, 1e-3])),
        "kind": draw(st.sampled_from(["random", "random", "exact", "special"])),
        "mean": draw(st.sampled_from([0, 0, 10, -1000])),
        "wide": draw(st.booleans()), "seed": draw(st.integers(0, 2**32 - 1)),
    }  # fmt: skip
    numbers = {"a": draw(NUMBER), "b": draw(NUMBER), "c": draw(NONZERO)}
    with_defaults = draw(st.booleans())
    # Layout and activations follow from the rest, so that each occurs about equally often.
    lot = zlib.crc32(repr((problem, numbers)).encode())
    problem["layout"] = ALL[lot % len(ALL)]
    problem["fused"] = []
    for k in (0, len(NAMES) // 2):
        name = NAMES[(lot // len(ALL) + k) % len(NAMES)]
        given = {p: numbers[n] for p, n in FUSED[name].items()}
        plain = not given or (with_defaults and name != "linear")
        problem["fused"].append(name if plain else (name, given))
    return problem


def features(problem: dict[str, Any]) -> Iterator[str]:
    """The corners of the parameter space that a problem visits."""
    yield f"rank {len(problem['shape'])}"
    yield problem["layout"]
    yield "empty axes" if not problem["axes"] else "axes"
    yield f"use_mean {problem['use_mean']}, use_variance {problem['use_variance']}"
    given = [name for name in ("scale", "bias") if problem[name]]
    yield "parameters: " + (" and ".join(given) or "none")
    for fused in problem["fused"]:
        yield f"activation {fused if isinstance(fused, str | None) else fused[0]}"


def run_problem(problem: dict[str, Any], dtype: str) -> None:
    x = data(problem["shape"], dtype, problem["seed"], kind=problem["kind"])
    if problem["mean"] and problem["kind"] != "special":
        x = shifted(x, problem["mean"])
    kind = "float32" if problem["wide"] and dtype in TYPES["short"] else dtype
    scale, bias = (
        None if problem[name] is None else data(problem[name], kind, problem["seed"] + k)
        for k, name in enumerate(("scale", "bias"), 1)
    )
    same = {k: problem[k] for k in ("axes", "use_mean", "use_variance", "epsilon")}
    for fused in problem["fused"]:
        one = (problem["layout"],)
        check(OP, x, scale, bias, activation=fused, layouts=one, **same)


CORNERS = (
    "rank 1", "rank 8", *ALL, "empty axes",
    *(f"use_mean {a}, use_variance {b}" for a in (True, False) for b in (True, False)),
    *(f"parameters: {p}" for p in ("none", "scale", "bias", "scale and bias")),
    *(f"activation {name}" for name in NAMES),
)  # fmt: skip


@pytest.mark.small
@pytest.mark.decision("D-MVN-10", "D-MVN-15")
@pytest.mark.parametrize("types", TYPES)
def test_random_problems(types: str) -> None:
    """At least 300 draws for each kind of type; each corner occurs ten times."""
    seen: Counter[str] = Counter()

    @settings(max_examples=350)
    @given(problems(), st.sampled_from(TYPES[types]))
    def run(problem: dict[str, Any], dtype: str) -> None:
        seen.update(features(problem))
        run_problem(problem, dtype)

    run()
    assert {c: seen[c] for c in CORNERS if seen[c] < 10} == {}


def normalize(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    return cudml.mean_variance_normalization(x, *args, **kwargs)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scaling_by_a_power_of_two(axis: int, dtype: str) -> None:
    """x -> 2**k x with epsilon -> 4**k epsilon leaves every bit."""
    x = data((50, 60), dtype, 1)
    want = normalize(x, axes=axis, epsilon=2.0**-10)
    for k in (-8, -1, 3, 10):
        scaled = normalize(x * dtype_of(dtype).type(2.0**k), axes=axis, epsilon=2.0 ** (2 * k - 10))
        assert same_bits(scaled, want), k


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mean_and_variance_of_the_result(dtype: str) -> None:
    y = normalize(data((40, 500), dtype, 2), axes=1, epsilon=0).astype("float64")
    assert np.abs(y.mean(1)).max() < 1e-6
    assert np.abs(y.var(1) - 1).max() < 1e-5


@pytest.mark.small
@pytest.mark.parametrize("axes", [(2,), (1, 2), (1,)], ids=str)
def test_permuting_the_batch_permutes_the_result(axes: Any) -> None:
    x = data((17, 6, 5), "float32", 3)
    order = np.random.default_rng(1).permutation(17)
    assert same_bits(normalize(x[order], axes=axes), normalize(x, axes=axes)[order])


@pytest.mark.small
def test_negated_input_gives_the_negated_result() -> None:
    x = data((20, 333), "float32", 4)
    assert (normalize(-x, axes=1) == -normalize(x, axes=1)).all()
    assert (normalize(-x, axes=0) == -normalize(x, axes=0)).all()


@pytest.mark.core
@pytest.mark.small
def test_grouping_by_reshaping() -> None:
    """Two trailing axes of packed data are one axis of their product."""
    x = data((7, 6, 50), "float32", 5)
    want = normalize(x.reshape(7, 300), axes=1).reshape(x.shape)
    assert same_bits(normalize(x, axes=(1, 2)), want)
    assert same_bits(normalize(x, axes=(2, 1)), want)


LARGE: dict[str, tuple[tuple[int, ...], Any]] = {
    "one group of 2**22": ((2**22,), 0),
    "65537 groups": ((65537, 33), 1),
    "columns": ((70001, 31), 0),
    "planes": ((2, 3, 600, 601), (2, 3)),
    "batch": ((4, 3, 420, 421), (0, 2, 3)),
    "few long columns": ((1000003, 2), 0),
    "the middle axis": ((5, 4001, 110), 1),
    "wide planes": ((72, 66001), 0),
    "no axes": ((1500, 1501), ()),
}


@pytest.fixture
def restored_threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", LARGE)
def test_thread_count_and_repetition_change_nothing(case: str, dtype: str) -> None:
    shape, axes = LARGE[case]
    x = np.random.default_rng(7).standard_normal(shape, dtype) + dtype_of(dtype).type(10)
    flags = {"use_mean": dtype == "float32"} if len(shape) % 2 else {}
    cudml.set_num_threads(1)
    first = normalize(x, axes=axes, **flags)
    for threads in (1, 2, 3):
        cudml.set_num_threads(threads)
        assert same_bits(normalize(x, axes=axes, **flags), first), threads
    cudml.set_num_threads(3)
    assert same_bits(normalize(x, axes=axes, out=x, **flags), first)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("axis", [0, 1])
def test_threads_change_nothing_beside_a_strange_group(axis: int) -> None:
    """Large groups, of which one begins with numbers far from its mean."""
    x = np.random.default_rng(9).standard_normal((3, 70001), np.float32)
    x[1, ::8750] = 3e4
    given = x if axis == 1 else np.ascontiguousarray(np.repeat(x, 4, 0).T)
    cudml.set_num_threads(1)
    first = normalize(given, axes=axis)
    for threads in (2, 3):
        cudml.set_num_threads(threads)
        assert same_bits(normalize(given, axes=axis), first), threads


@pytest.mark.usefixtures("restored_threads")
def test_threads_change_nothing_in_blocks_beside_a_strange_group() -> None:
    """Groups are columns, a thousand to a block; those of the first block are summed twice."""
    x = np.random.default_rng(10).standard_normal((300, 1100), np.float32)
    x[::9, 3] = 3e4
    cudml.set_num_threads(1)
    first = normalize(x, axes=0)
    cudml.set_num_threads(3)
    assert same_bits(normalize(x, axes=0), first)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("case", [c for c in LARGE if c != "no axes"])
def test_large_groups_are_accurate(case: str) -> None:
    shape, axes = LARGE[case]
    x = np.random.default_rng(8).standard_normal(shape, np.float32) + np.float32(100)
    cudml.set_num_threads(2)
    y = normalize(x, axes=axes, epsilon=0)
    centered = x - x.mean(axes, np.float64, keepdims=True)
    want = centered / np.sqrt(np.square(centered).mean(axes, keepdims=True))
    assert np.abs(y - want).max() < 1e-5
