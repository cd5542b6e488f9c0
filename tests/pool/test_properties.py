"""Random calls over the whole parameter space of the pooling operators, against the reference."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness import ALL, check, data
from pool_space import AIMS, Problem, missing, problems
from pool_support import EVERY

EXAMPLES = 30  # of each aim: 300 for each operator and kind of type
KINDS = {
    "half": ("float16", "bfloat16") if "bfloat16" in EVERY else ("float16",),
    "single": ("float32",),
    "double": ("float64",),
    "integers": tuple(d for d in EVERY if "int" in d),
}
FLOATING = ("half", "single", "double")
FILLS = st.sampled_from(("random", "exact", "special"))
SEEDS = st.integers(0, 2**16)
LAYOUTS = st.sampled_from(ALL)
INDEX_TYPES = st.sampled_from((None, "uint32", "uint64", "int64"))
POWERS = st.sampled_from((1, 2, 3, 4, 5, 7, 16, 1000, 2**32 - 1))
limits = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
seen: dict[str, Counter[str]] = defaultdict(Counter)


def explore(op: str, kind: str, body: Callable[..., None], *more: st.SearchStrategy[Any]) -> None:
    """Runs body(problem, dtype, fill, seed, layouts, *more) on draws that go for each aim."""
    counts = seen[f"{op} {kind}"]
    dtypes = st.sampled_from(KINDS[kind])
    for aim in AIMS:
        strategies = (problems(aim, "grad" in op), dtypes, FILLS, SEEDS, LAYOUTS, *more)

        def run(drawn: tuple[Any, ...]) -> None:
            counts.update(drawn[0].features)
            counts["examples"] += 1
            problem, dtype, fill, seed, layout, *rest = drawn
            body(problem, dtype, fill, {"layouts": [layout], "seed": seed}, *rest)

        test = given(st.tuples(*strategies))(run)
        if limits.derandomize:  # which would draw the same for every kind of type
            test = hypothesis.seed(zlib.crc32(f"{op} {kind} {aim}".encode()))(test)
        limits(test)()


@pytest.mark.small
@pytest.mark.parametrize("kind", KINDS)
def test_max_pooling(kind: str) -> None:
    counts = seen[f"max_pooling {kind}"]

    def body(
        problem: Problem, dtype: str, fill: str, how: dict[str, Any], index: str | None
    ) -> None:
        x = data(problem.shape, dtype, how["seed"], fill)
        options: dict[str, Any] = {"return_indices": True, "index_dtype": index} if index else {}
        counts["with indices" if index else "without indices"] += 1
        check("max_pooling", x, **problem.forward, **options, **how)

    explore("max_pooling", kind, body, INDEX_TYPES)


@pytest.mark.small
@pytest.mark.parametrize("kind", FLOATING)
def test_average_pooling(kind: str) -> None:
    def body(problem: Problem, dtype: str, fill: str, how: dict[str, Any], include: bool) -> None:
        x = data(problem.shape, dtype, how["seed"], fill)
        check("average_pooling", x, **problem.forward, include_padding=include, **how)

    explore("average_pooling", kind, body, st.booleans())


@pytest.mark.small
@pytest.mark.parametrize("kind", FLOATING)
def test_lp_pooling(kind: str) -> None:
    def body(problem: Problem, dtype: str, fill: str, how: dict[str, Any], p: int) -> None:
        x = data(problem.shape, dtype, how["seed"], fill)
        check("lp_pooling", x, **problem.forward, p=p, **how)

    explore("lp_pooling", kind, body, POWERS)


@pytest.mark.small
@pytest.mark.parametrize("kind", FLOATING)
def test_max_pooling_grad(kind: str) -> None:
    def body(problem: Problem, dtype: str, fill: str, how: dict[str, Any], incoming: str) -> None:
        x = data(problem.shape, dtype, how["seed"], fill)
        grad = data(problem.output_shape, dtype, how["seed"] + 1, incoming)
        check("max_pooling_grad", x, grad, **problem.arguments, **how)

    explore("max_pooling_grad", kind, body, FILLS)


@pytest.mark.small
@pytest.mark.parametrize("kind", FLOATING)
def test_average_pooling_grad(kind: str) -> None:
    def body(problem: Problem, dtype: str, fill: str, how: dict[str, Any], include: bool) -> None:
        grad = data(problem.output_shape, dtype, how["seed"], fill)
        more = {**problem.arguments, "include_padding": include}
        check("average_pooling_grad", grad, problem.shape, **more, **how)

    explore("average_pooling_grad", kind, body, st.booleans())


def test_draws_reached_every_corner() -> None:
    """Each test above that ran in this process met each feature at least ten times."""
    if not seen:
        pytest.skip("no test of this module ran before this one")
    for name, counts in seen.items():
        assert counts["examples"] >= EXAMPLES * len(AIMS), (name, counts["examples"])
        but = ("ceil",) if "grad" in name else ()
        assert not missing(counts, 10, but), (name, missing(counts, 10, but))
        if name.startswith("max_pooling "):
            assert min(counts["with indices"], counts["without indices"]) >= 10


def test_drawing_is_reproducible() -> None:
    """The seeds of NumPy and Hypothesis decide everything: two draws of an example are equal."""
    first, second = (data((3, 4), "float16", 5, "special") for _ in range(2))
    assert np.array_equal(first, second, equal_nan=True)
    shapes: list[tuple[int, ...]] = []

    @settings(limits, max_examples=20, derandomize=True)
    @given(problems("anything", False))
    def collect(problem: Problem) -> None:
        shapes.append(problem.shape)

    collect()
    collect()
    half = len(shapes) // 2
    assert half >= 20 and shapes[:half] == shapes[half:]
