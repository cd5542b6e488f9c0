"""Padding drawn at random over its whole parameter space, and properties that need no reference."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudml
from harness import ALL, check, data
from pool_support import same_bits

MODES = ("constant", "edge", "reflection", "symmetric", "wrap")
BY_SIZE = {
    1: ("int8", "uint8"),
    2: ("int16", "uint16", "float16", "bfloat16"),
    4: ("int32", "uint32", "float32"),
    8: ("int64", "uint64", "float64"),
}
COMMON = settings(max_examples=300)


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Sizes, pads, modes and layout of one call whose result has at most 4096 elements."""
    rank = min(draw(st.integers(1, 10)), 8)
    room, shape, start, end = 4096, [], [], []
    for _ in range(rank):
        n = draw(st.integers(1, min(5, room)))
        limit = min(room // n, 13)
        before = draw(st.integers(0, max(limit - 1, 0)))
        after = draw(st.integers(0, max(limit - 1 - before, 0)))
        room //= n + before + after
        for sizes, value in ((shape, n), (start, before), (end, after)):
            sizes.append(value)
    order = draw(st.permutations(range(rank)))
    one = draw(st.booleans())
    names = st.sampled_from(MODES)
    mode = draw(names) if one else draw(st.lists(names, min_size=rank, max_size=rank))
    problem = {
        "shape": tuple(shape[d] for d in order),
        "start": tuple(start[d] for d in order),
        "end": tuple(end[d] for d in order),
        "mode": mode,
        "kind": draw(st.sampled_from(["random", "special"])),
        "seed": draw(st.integers(0, 2**32 - 1)),
        "value": draw(st.integers(0, 127)),
    }
    # The layout follows from the rest, so that each occurs about equally often.
    problem["layout"] = ALL[zlib.crc32(repr(problem).encode()) % len(ALL)]
    return problem


def features(problem: dict[str, Any]) -> Iterator[str]:
    """The corners of the parameter space that a problem visits."""
    modes = [problem["mode"]] if isinstance(problem["mode"], str) else problem["mode"]
    yield from set(modes)
    yield f"rank {len(problem['shape'])}"
    yield problem["layout"]
    if len(set(modes)) > 1:
        yield "mixed modes"
    rows = list(zip(problem["shape"], problem["start"], problem["end"], strict=True))
    if any(max(s, e) >= n for n, s, e in rows):
        yield "padding >= size"
    if any(n == 1 and s + e for n, s, e in rows):
        yield "padded size of 1"
    if any(s + e == 0 for _, s, e in rows):
        yield "a dimension without pads"


@pytest.mark.small
@pytest.mark.decision("D-PAD-13", "D-PAD-14")
@pytest.mark.parametrize("size", BY_SIZE)
def test_random_problems(size: int) -> None:
    """At least 300 draws for each item size; each corner occurs ten times."""
    seen: Counter[str] = Counter()

    @COMMON
    @given(problems(), st.sampled_from(BY_SIZE[size]))
    def run(problem: dict[str, Any], dtype: str) -> None:
        seen.update(features(problem))
        x = data(problem["shape"], dtype, problem["seed"], kind=problem["kind"])
        pads = problem["start"], problem["end"]
        one = (problem["layout"],)
        check("padding", x, *pads, mode=problem["mode"], value=problem["value"], layouts=one)

    run()
    corners = (
        *MODES, "mixed modes", "rank 1", "rank 8", "padding >= size", "padded size of 1",
        "a dimension without pads", *ALL,
    )  # fmt: skip
    assert {c: seen[c] for c in corners if seen[c] < 10} == {}


SHAPE, START, END = (3, 4, 5), (2, 0, 7), (1, 6, 9)


@pytest.mark.small
@pytest.mark.parametrize("mode", MODES)
def test_slicing_the_result_gives_the_input(mode: str) -> None:
    x = data(SHAPE, "float32", 3, kind="special")
    y = cudml.padding(x, START, END, mode=mode)
    inside = tuple(slice(s, s + n) for s, n in zip(START, SHAPE, strict=True))
    assert same_bits(y[inside], x)


@pytest.mark.small
@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_padding_twice_is_padding_by_the_sum(mode: str) -> None:
    x = data(SHAPE, "float16", 4)
    twice = cudml.padding(x, START, (0, 1, 2), mode=mode, value=3)
    twice = cudml.padding(twice, (1, 4, 2), END, mode=mode, value=3)
    once = cudml.padding(x, (3, 4, 9), (1, 7, 11), mode=mode, value=3)
    assert same_bits(twice, once)


@pytest.mark.small
@pytest.mark.parametrize("mode", ["reflection", "symmetric", "wrap"])
def test_padding_one_dimension_after_another(mode: str) -> None:
    """Dimensions are independent: one call equals one call for each, in any order."""
    x = data(SHAPE, "int32", 5)
    y = x
    for d in (1, 2, 0):
        only = [[p if k == d else 0 for k, p in enumerate(pads)] for pads in (START, END)]
        y = cudml.padding(y, *only, mode=mode)
    assert same_bits(np.ascontiguousarray(y), cudml.padding(x, START, END, mode=mode))


@pytest.mark.small
@pytest.mark.parametrize("mode", MODES)
def test_reversed_input_with_swapped_pads(mode: str) -> None:
    x = data(SHAPE, "int16", 6)
    y = cudml.padding(x, START, END, mode=mode)
    for d in range(3):
        start, end = list(START), list(END)
        start[d], end[d] = end[d], start[d]
        assert same_bits(cudml.padding(np.flip(x, d), start, end, mode=mode), np.flip(y, d))


@pytest.mark.small
@pytest.mark.parametrize("mode", MODES)
def test_batch_independence(mode: str) -> None:
    """A plane alone gives the bits it gives among 64, wherever it stands."""
    x = data((64, 3, 5), "float32", 7, kind="special")
    y = cudml.padding(x, (0, 2, 4), (0, 5, 1), mode=mode)
    for k in (0, 31, 63):
        alone = cudml.padding(x[k : k + 1], (0, 2, 4), (0, 5, 1), mode=mode)
        assert same_bits(alone, y[k : k + 1])


@pytest.mark.small
@pytest.mark.parametrize("mode", MODES)
def test_equal_bytes_of_any_type_are_padded_alike(mode: str) -> None:
    """A copy knows the size of an element, not its type."""
    raw = data((3, 8), "uint64", 8)
    for names in BY_SIZE.values():
        results = set()
        for name in names:
            x = raw.view(np.uint8) if name == "uint8" else raw.view(data(1, name).dtype)
            results.add(cudml.padding(x, (1, 2), (3, 1), mode=mode).tobytes())
        assert len(results) == 1, names


LARGE: dict[str, tuple[tuple[int, ...], Any, Any]] = {
    "one row of 2**22": ((2**22,), (1000,), (3,)),
    "one row with long pads": ((5,), (2**21,), (2**21 + 7,)),
    "65537 short rows": ((65537, 33), (1, 2), (3, 1)),
    "few long rows": ((3, 700001), (1, 5), (0, 9)),
    "outer pads only": ((2, 2**19, 2), (1, 0, 0), (1, 0, 0)),
    "images": ((2, 3, 600, 601), (0, 0, 9, 8), (0, 0, 7, 3)),
}


@pytest.fixture
def restored_threads() -> Iterator[None]:
    before = cudml.get_num_threads()
    yield
    cudml.set_num_threads(before)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", LARGE)
def test_thread_count_changes_nothing(case: str, mode: str) -> None:
    shape, start, end = LARGE[case]
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    results = []
    for threads in (1, 2, 3):
        cudml.set_num_threads(threads)
        results.append(cudml.padding(x, start, end, mode=mode, value=-1))
    assert same_bits(results[0], results[1])
    assert same_bits(results[0], results[2])
    inside = tuple(slice(s, s + n) for s, n in zip(start, shape, strict=True))
    assert (results[0][inside] == x).all()
    corner = {"constant": -1.0, "edge": x.flat[0]}
    if mode in corner:
        assert results[0].flat[0] == corner[mode]
