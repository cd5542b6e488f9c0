"""The register of the CPU's paths: every path runs, on every instruction set, and is right; every
predicate has a call that just meets it and one that just misses it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child
from backends import CPU
from cudml import bounds
from folders import ROOT
from harness import refused, run, with_arrays
from path_calls import (
    LAST,
    Call,
    Case,
    average_grad,
    given,
    max_grad,
    max_pool,
    mvn,
    pad,
    pad_grad,
    pool,
    same,
    statistics,
    winners,
)
from path_cases import CASES, LARGE, LONG_PLANES
from tests.cpu.test_isa import IS_SANITIZED, LEVELS, needs, x86

pytestmark = pytest.mark.core
FAMILIES = (
    "pool", "winners", "max_pool_grad", "average_pool_grad", "lp_pool_grad", "pad", "pad_grad",
    "mvn", "mvn_grad", "statistics", "merge", "normalize", "unpool",
)  # fmt: skip
PROCESSOR = "the processor has "
CSRC = ROOT / "csrc" / "cpu"
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.path)


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """Some paths ask for so much work of each."""
    before = cudml.get_num_threads()
    cudml.set_num_threads(2)
    yield
    cudml.set_num_threads(before)


def is_kept_small() -> bool:
    """Whether calls run on the lowest instruction set of several, which has fewer paths."""
    info = cudml._core.build_info()
    return info["instruction_set"] == "base" and len(info["instruction_sets"]) > 1


def lacks_processor(e: Any, path: str) -> bool:
    return f"not {path}, which needs that {PROCESSOR}" in e.reason


def test_the_register() -> None:
    """Names are files, lists end with a path that takes every call, and every path has a case."""
    paths = [path for family in FAMILIES for path in cudml.kernels(family, device="cpu")]
    assert [path.name for path in paths] == [case.path for case in CASES]
    for path in paths:
        assert any((CSRC / f"{path.name}.{end}").exists() for end in ("h", "cpp")), path.name
    for family in FAMILIES:
        *others, last = cudml.kernels(family, device="cpu")
        assert not last.predicates and all(other.predicates for other in others)
    with refused(ValueError, "kernels: device is 'sm_90'", '"cuda" or "cpu"'):
        cudml.kernels("pad", device="sm_90")


@each_case
def test_calls_that_just_meet_what_a_path_needs(case: Case) -> None:
    e = case.meets.explained()
    assert e.kernel == case.path or lacks_processor(e, case.path), e
    assert f"instruction set {cudml._core.build_info()['instruction_set']}" in e.reason


@each_case
def test_calls_that_just_miss_what_a_path_needs(case: Case) -> None:
    for words, call in case.misses.items():
        if words == LARGE and "CUDML_STREAM_BYTES" in os.environ:
            continue  # it may make everything large
        e = call.explained()
        if words == LONG_PLANES and is_kept_small():
            assert e.kernel == case.path  # nothing puts planes side by side there
            continue
        assert e.kernel != case.path
        if not lacks_processor(e, case.path):
            assert f"not {case.path}, which needs that {words}" in e.reason, e


RUNS = """
from tests.cpu import test_paths
test_paths.run_every_path()
"""


def small(case: Case) -> Call:
    """The call with fewer elements: for what is large by CUDML_STREAM_BYTES alone."""
    few = {"pad/seams": (9, 16), "pad/streamed_lines": (300,)}
    shapes = dict(case.meets.shapes)
    if case.path in few:
        shapes["x"] = few[case.path]
    return dataclasses.replace(case.meets, shapes=shapes)


def run_every_path() -> None:
    """Forces every path and compares its results with the reference."""
    for case in CASES:
        call = small(case)
        os.environ["CUDML_KERNEL"] = case.path
        try:
            e = call.explained()
        except ValueError as error:
            assert f"{PROCESSOR}" in str(error), error
            print("lacks", case.path)
            continue
        assert e.kernel == case.path and "forced by CUDML_KERNEL" in e.reason
        arrays = call.made()
        out = arrays.pop("out", None)
        arguments = with_arrays(call.arguments, arrays)
        expected = bounds.expected(call.op, **arguments)
        if out is None:
            run(CPU, call.op, arguments, arrays, expected)
        else:  # in a memory order that results do not have by themselves
            getattr(cudml, call.op)(**arguments, out=out)
            assert bounds.compare(out, expected).ok
        print("ran", case.path)


@x86
@pytest.mark.whole
@pytest.mark.parametrize("level", LEVELS)
def test_every_path_runs_on_every_instruction_set(level: str) -> None:
    """Results of at least one byte count as large here, so that those written past the caches run;
    only what needs a newer processor may be idle."""
    needs(level)
    # Two threads: paths may ask for as many rows as keep every thread busy.
    done = child(RUNS, CUDML_CPU_ISA=level, CUDML_STREAM_BYTES="1", CUDML_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(reversed(line.split()) for line in done.stdout.splitlines())
    assert list(said) == [case.path for case in CASES]
    idle = {path for path, what in said.items() if what == "lacks"}
    newer = {"pad/seams", "pool/short_rows"}
    older = {"pool_grad/average_pairs", "pool/taps", "pool/fourths", "pool/short_planes"}
    older |= {"pool/lane_thirds", "pool/plane_thirds", "pool_grad/average_thirds"}
    older |= {"pool_grad/lp_thirds", "pool_grad/max_lane_pairs", "pool_grad/max_lane_rows"}
    older |= {"pool_grad/turned", "pool_grad/average_turned", "pool_grad/lp_turned"}
    older |= {"pool_grad/max_steps", "pool/turned"}
    loops = "v3" if IS_SANITIZED else level
    assert idle == {"v4": set(), "v3": newer, "base": newer | older}[loops]


def mvn_of(**flags: bool) -> Call:
    return Call("mean_variance_normalization", {"x": (9, 64)}, {"axes": 1, **flags})


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("pool/taps", pool((2, 64, 56, 56), 3, 2, dtype="float16", order=LAST)),
        ("pool/turned", pool((2, 512, 7, 7), 3, 2, start_padding=1, end_padding=1)),
        ("pool/turned", max_pool((8, 256, 14, 14), 3, 2, start_padding=1, end_padding=1)),
        ("pool/taps", pool((2, 64, 56, 56), 3, (1, 2), order=LAST)),
        ("pool/strips", pool((2, 64, 56, 56), 3, (2, 1), order=LAST)),
        ("pool/strips", pool((2, 64, 56, 56), (3, 4), 2, order=LAST)),
        ("pool/strips", pool((2, 64, 56, 56), (4, 3), 2, order=LAST)),
        ("pool/lane_thirds", max_pool((2, 64, 56, 56), 3, 2, order=LAST)),
        ("winners/plain_pairs", winners((2, 64, 56, 57), 3, 2)),
        ("winners/plain_pairs", winners((8, 256, 14, 14), 2, 2)),
        ("winners/turned", winners((8, 256, 14, 14), 3, 2)),
        ("winners/turned", winners((8, 256, 12, 12), 2, 2)),
        ("winners/lane_taps", winners((2, 64, 56, 56), 3, 2, order=LAST)),
        ("pool/planes", pool((2, 64, 7, 7), 7)),
        ("pool/pairs", max_pool((2, 64, 56, 57), 3, 2)),
        ("pool/plane_thirds", same((2, 64, 56, 56), (3, 3))),
        ("mvn/rows", mvn((512, 768), 1, affine=(1, 768))),  # layer normalization
        ("mvn/rows", mvn((2, 64, 28, 28), (2, 3), affine=(1, 64, 1, 1))),  # instances
        ("mvn/tiles", mvn((2, 64, 28, 28), (0, 2, 3), affine=(1, 64, 1, 1), order=LAST)),  # a batch
        ("mvn/plain", mvn_of(use_mean=False, use_variance=False)),
        ("mvn/rows", mvn_of(use_mean=False)),
        ("mvn/rows", mvn_of(use_variance=False)),
        ("statistics/rows", statistics((3, 4, 15), (1, 2))),  # rows of 60
        ("statistics/rows", statistics((2, 64, 28, 28), (0, 2, 3))),  # a batch
        ("statistics/tiles", statistics((2, 64, 28, 28), (0, 2, 3), order=LAST)),
        ("normalize/rows", given((3, 4, 8), (3, 1, 1), (3, 1, 1))),  # rows of 32
        ("pool_grad/max_pairs", max_grad((2, 64, 56, 56), 2, 2)),
        ("pool_grad/average_rows", average_grad((2, 64, 58, 58), 3, 1)),
        ("pad/packed", pad((1, 3, 224, 224), (0, 0, 3, 3), (0, 0, 3, 3), mode="reflection")),
        ("pad_grad/pieces", pad_grad((1, 3), (2000, 0), (3000, 0))),  # folded along the first axis
        (
            "pad/packed",
            pad((2, 64, 24, 24), (0, 0, 1, 1), (0, 0, 1, 1), "float16", mode="constant"),
        ),
    ],
)
def test_usual_calls(path: str, call: Call) -> None:
    """Whoever looks for a loop finds it: a usual call has the path that one would guess, and
    paths are named as their files (`test_the_register`)."""
    e = call.explained()
    assert e.kernel == path or lacks_processor(e, path), e


def test_pieces_near_each_other_are_rows() -> None:
    """Of one size, by what lies between them in memory, less than themselves or as much, and by
    how many there are."""
    few, many = 8, 9  # of 24 elements
    for n, gap, path in (
        (many, 1, "mvn/rows"),
        (many, 23, "mvn/rows"),
        (many, 24, "mvn/tiles"),
        (few, 24, "mvn/rows"),
    ):
        x = np.zeros((4, n, 24 + gap), np.float32)[..., :24]
        assert cudml.explain("mean_variance_normalization", x, axes=(1, 2)).kernel == path


def test_forced_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name where it can take the call; refused with the predicate where it cannot; the name of
    another operator's path or of a kernel is left alone, any other name refused."""
    x = np.zeros((2, 3, 9, 9), np.float32)
    monkeypatch.setenv("CUDML_KERNEL", "pool/plain")
    e = cudml.explain("max_pooling", x, 2, 2)
    assert e.kernel == "pool/plain" and "forced by CUDML_KERNEL" in e.reason
    monkeypatch.setenv("CUDML_KERNEL", "pool/planes")
    with refused(ValueError, 'max_pooling: CUDML_KERNEL is "pool/planes", which needs that'):
        cudml.max_pooling(x, 2, 2)
    for name in ("pad/plain", "pool_generic"):
        monkeypatch.setenv("CUDML_KERNEL", name)
        assert cudml.explain("max_pooling", x, 2, 2).kernel == "pool/pairs"
    for name in ("pool/fastest", "pool/", "plain", "pool/plain, pad/plain"):
        monkeypatch.setenv("CUDML_KERNEL", name)
        with refused(ValueError, f'max_pooling: CUDML_KERNEL is "{name}"', "pool/strips"):
            cudml.max_pooling(x, 2, 2)


@pytest.mark.parametrize("family", ["max_unpooling", "normalize"])
def test_the_first_path_of_a_family_is_forced_too(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, indices = np.zeros((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 2), np.uint32)
    rest = (indices, (1, 1, 1, 4)) if family == "max_unpooling" else (None, None)
    first = cudml.kernels(family, device="cpu")[0].name
    assert cudml.explain(family, x, *rest).kernel != first
    monkeypatch.setenv("CUDML_KERNEL", first)
    with refused(ValueError, f'{family}: CUDML_KERNEL is "{first}", which needs that'):
        getattr(cudml, family)(x, *rest)


@pytest.fixture(autouse=True)
def forgotten_plans() -> Iterator[None]:
    yield
    cudml.clear_cache()


def test_a_path_is_named_in_the_log() -> None:
    done = child("import numpy, cudml; cudml.padding(numpy.zeros(3), 1, 2)", CUDML_LOG="debug")
    assert re.search(r" kernel=pad/plain .* reason=\"pad/plain: it takes every plan; ", done.stderr)
