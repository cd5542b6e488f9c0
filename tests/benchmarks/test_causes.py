"""What the benchmarks say bounds a row: plain reads and writes, and the rule of the verdict."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from folders import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
causes, copies, problems = map(importlib.import_module, ("causes", "copies", "problems"))
sys.path.remove(str(BENCHMARKS))

LINE = 8  # 64-bit words
POISON = np.uint64(0x5A5A5A5A5A5A5A5A)
COUNTS = {"rows", "is_streamed"}  # of copies.Moves; the others are sizes


@pytest.fixture(scope="module")
def library() -> Any:
    found = copies.compiled()
    if found is None:
        pytest.skip("there is no C compiler")
    return found


def aligned(words: int) -> np.ndarray:
    """Zeros from the beginning of a line on, with a line more behind them."""
    room = np.zeros(words + 2 * LINE, np.uint64)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + words + LINE]


def moved(library: Any, source: np.ndarray, target: np.ndarray, threads: int, **sizes: int) -> int:
    """What traffic() returns for the moves of so many words."""
    moves = copies.Moves(**{k: v if k in COUNTS else 8 * v for k, v in sizes.items()})
    return int(library.traffic(target.ctypes.data, source.ctypes.data, moves, threads))


@pytest.mark.parametrize("is_streamed", [0, 1])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("read", "written"),
    [(1000 * LINE, 7 * LINE), (3 * LINE, 5000 * LINE), (777 * LINE, 778 * LINE), (LINE, 0)],
)
def test_traffic_touches_every_word(
    library: Any, read: int, written: int, threads: int, is_streamed: int
) -> None:
    rng = np.random.default_rng(read + threads)
    source = rng.integers(1, 2**63, read, np.uint64)
    target = aligned(written)
    target[:] = POISON
    got = moved(
        library, source, target, threads, read=read, written=written, is_streamed=is_streamed
    )
    assert got == np.bitwise_xor.reduce(source)
    assert (target[:written] != POISON).all()
    assert (target[written:] == POISON).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("blocks", "rows", "stride", "run"),
    [
        (1, 1, 1000 * LINE, 64 * LINE),
        (1, 1, 50 * LINE, 900 * LINE),
        (3, 5, 130 * LINE, 64 * LINE),
        (2, 7, 2 * LINE, LINE),
    ],
)
def test_traffic_reads_groups_before_it_writes_them(
    library: Any, blocks: int, rows: int, stride: int, run: int, threads: int
) -> None:
    shape, size = (blocks, rows, stride), blocks * rows * stride
    source = np.random.default_rng(size).integers(1, 2**63, size, np.uint64)
    target = aligned(size)
    target[:] = POISON
    sizes = {"read": size, "written": size, "run": run, "rows": rows, "stride": stride}
    assert moved(library, source, target, threads, **sizes) == np.bitwise_xor.reduce(source)
    for first in range(0, stride, run):  # every result of a group depends on all of its numbers
        piece = source.reshape(shape)[..., first : first + run]
        wanted = np.bitwise_xor.reduce(piece, axis=(1, 2))[:, None, None]
        assert (target[:size].reshape(shape)[..., first : first + run] == wanted).all()
    assert (target[size:] == POISON).all()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((0.9, 0.2, 0.0, 0.0), "memory"),
        ((0.3, 0.86, 0.1, 0.0), "computing"),
        ((0.95, 0.99, 0.0, 0.1), "computing"),
        ((0.1, 0.1, 0.85, 0.0), "call"),
        ((0.5, 0.35, 0.0, 0.0), "all in turn"),
        ((0.4, 0.3, 0.02, 0.13), "all in turn"),
        ((0.4, 0.3, 0.1, 0.04), "none of these"),
    ],
)
def test_the_verdict(parts: tuple[float, ...], said: str) -> None:
    assert causes.verdict(dict(zip(causes.FLOORS, parts, strict=True))) == said


def test_sizes_in_the_cache() -> None:
    suite = {p.name: p for p in problems.problems(full=False)}
    pool = suite["03 max 2x2/2, 32x64x224x224, float16 C"]
    small, large = causes.cached(pool)
    assert 0 < small.bytes < large.bytes <= causes.CACHED[1]
    assert small.shape[2:] == large.shape[2:] == (224, 224)
    two_small, two_large = causes.cached(pool, 2)
    assert large.bytes < two_large.bytes <= 2 * causes.CACHED[1]
    assert 2 * causes.FEWEST_BYTES <= two_small.bytes < two_large.bytes
    one_row = suite["38 LayerNorm, decode, 1x4096, bfloat16 C"]
    small, large = causes.cached(one_row)
    assert 0 < small.bytes < large.bytes == one_row.bytes
    assert causes.cached(one_row, 2) is None


def test_every_problem_is_valid_in_the_cache() -> None:
    for problem in problems.problems(full=False):
        pair = causes.cached(problem)
        assert pair is not None, problem
        for one in (*pair, *(causes.cached(problem, 2) or ())):
            assert min(one.output) > 0 and one.bytes <= 4 * causes.CACHED[1], one


def test_reads_and_writes_make_up_the_traffic() -> None:
    suite = {p.name: p for p in problems.problems()}
    grad = suite["11 average grad 2x2/2, 64x256x56x56, float32 C"]
    assert (grad.read, grad.written) == (4 * 64 * 256 * 28 * 28, 4 * 64 * 256 * 56 * 56)
    indices = suite["02 max+int64 3x3/2, 32x64x112x112, float16 C"]
    assert indices.read == 2 * 32 * 64 * 112 * 112
    assert indices.written == (2 + 8) * 32 * 64 * 56 * 56
    moves = causes.moves_of(indices)
    assert (moves.read, moves.written, moves.run) == (indices.read, indices.written, 0)


def of_sizes(threads: int, *sizes: int) -> Any:
    """A problem in the caches at two sizes, whose calls are timed elsewhere."""
    found = object.__new__(causes.InCache)
    found.threads, found._bytes = threads, list(sizes)
    found._names = [f"{n} bytes on {threads}" for n in sizes]
    return found


@pytest.mark.parametrize(
    ("together", "computing"),
    [
        (None, 0.5),  # one thread, and 1 ns for a byte
        (0.6, 0.3),
        (0.4, 0.25),  # no more than two times as fast
        (0.98, 0.25),  # not shared at this size
    ],
)
def test_the_parts_of_a_round(together: float | None, computing: float) -> None:
    floors = object.__new__(causes.Floors)
    floors._bytes, floors._moving = 5000, {"stored": None, "streamed": None}
    floors._in_cache = [of_sizes(1, 1000, 3000)]
    seconds = {"cudml": 10e-6, "stored": 5e-6, "streamed": 4e-6, "waking": 1e-6}
    seconds |= {"1000 bytes on 1": 2e-6, "3000 bytes on 1": 4e-6}
    if together is not None:
        floors._in_cache.append(of_sizes(2, 2000, 6000))
        seconds |= {"2000 bytes on 2": 3e-6, "6000 bytes on 2": 3e-6 + together * 4e-6}
    want = {"memory": 0.3, "computing": computing, "call": 0.1}
    assert floors._parts(seconds) == pytest.approx(want)


@pytest.mark.long
def test_a_small_table(tmp_path: Path) -> None:
    run, chosen = tmp_path / "run.json", "39 *1280x8x8*float16 C"
    short = ["--only", chosen, "--visits", "1", "--rounds", "1", "--seconds", "0"]
    for script, words in (
        ("run.py", [*short, "--peers", "none", "--json", str(run)]),
        ("causes.py", [str(run)]),
    ):
        done = subprocess.run(
            [sys.executable, str(BENCHMARKS / script), *words],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["case", "thr", "ms", "share", "goal", *causes.FLOORS, "bound", "by"]
    rows = json.loads(run.read_text())["rows"]
    assert len(lines) == len(rows) == 2
    for text, row in zip(lines, rows, strict=True):
        assert text.startswith(row["name"])
        threads, ms, share, goal, *parts = text[56:].split(maxsplit=8)
        assert goal == "-"
        assert int(threads) == row["threads"]
        assert float(share) == pytest.approx(row["contenders"]["cudml"]["share"], abs=0.006)
        assert float(ms) > 0
        floors = dict(zip(causes.FLOORS, map(float, parts), strict=False))
        assert (
            min(floors.values()) >= 0
        )  # a difference of two sizes' times may well be lost in noise
        assert threads == "2" or floors["waiting"] == 0
        assert floors["waiting"] <= 1


@pytest.mark.parametrize(
    ("name", "run", "rows", "stride"),
    [
        # rows in the cache; several where they are short
        ("34 LayerNorm, 8192x1024, float32 C", 4096, 1, None),
        ("34 LayerNorm, 8192x768, float16 C", 4096, 1, None),
        # some thousand columns of each plane
        ("45 RMSNorm+SiLU, channels, 1x96x4x480x832, float32 C", 4 * 4096, 96, "plane"),
        # positions whose channels stand together
        ("45 RMSNorm+SiLU, channels, 1x96x4x480x832, float32 L", 4096, 1, None),
        # all of an image's channels
        ("42 InstanceNorm+ReLU, 8x32x256x256, float32 L", 4 * 32 * 256 * 256, 1, None),
        ("42 InstanceNorm+ReLU, 8x32x256x256, float32 C", 4 * 256 * 256, 1, None),
    ],
)
def test_what_normalization_reads_as_one(
    name: str, run: int, rows: int, stride: str | None
) -> None:
    problem = next(p for p in problems.problems(full=False) if p.name == name)
    moves = causes.moves_of(problem)
    assert (moves.run, moves.rows) == (run, rows)
    assert moves.read == moves.written == moves.rows * moves.stride
    assert moves.read == pytest.approx(problem.written, abs=64)
    assert stride is None or moves.stride == 4 * int(np.prod(problem.shape[2:]))
