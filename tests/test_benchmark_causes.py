"""What the benchmarks say bounds a row: plain reads and writes, and the rule of the verdict."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
causes, copies, problems = map(importlib.import_module, ("causes", "copies", "problems"))
sys.path.remove(str(BENCHMARKS))

LINE = 8  # 64-bit words


@pytest.fixture(scope="module")
def library() -> object:
    found = copies.compiled()
    if found is None:
        pytest.skip("there is no C compiler")
    return found


def aligned(words: int) -> np.ndarray:
    """Zeros from the beginning of a line on, with a line more behind them."""
    room = np.zeros(words + 2 * LINE, np.uint64)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + words + LINE]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("read", "written"),
    [(1000 * LINE, 7 * LINE), (3 * LINE, 5000 * LINE), (777 * LINE, 778 * LINE), (LINE, 0)],
)
def test_traffic_touches_every_word(library: object, read: int, written: int, threads: int) -> None:
    rng = np.random.default_rng(read + threads)
    source = rng.integers(1, 2**63, read, np.uint64)
    target = aligned(written)
    target[:] = poison = np.uint64(0x5A5A5A5A5A5A5A5A)
    got = library.stream_traffic(  # type: ignore[attr-defined]
        target.ctypes.data, 8 * written, source.ctypes.data, 8 * read, threads
    )
    assert got == np.bitwise_xor.reduce(source)
    assert (target[:written] != poison).all()
    assert (target[written:] == poison).all()


@pytest.mark.parametrize(
    ("memory", "computing", "said"),
    [
        (0.9, 0.2, "memory"),
        (0.3, 0.86, "computing"),
        (0.95, 0.99, "computing"),
        (1.2, 0.9, "memory"),
        (1.9, 0.9, "computing"),
        (0.5, 0.4, "both in turn"),
        (0.5, 0.3, "neither"),
    ],
)
def test_the_verdict(memory: float, computing: float, said: str) -> None:
    assert causes.verdict(memory, computing) == said


def test_sizes_in_the_cache() -> None:
    suite = {p.name: p for p in problems.problems(full=False)}
    small, large = causes.cached(suite["03 max 2x2/2, 32x64x224x224, float16 C"])
    assert 0 < small.bytes < large.bytes <= causes.CACHED[1]
    assert small.shape[2:] == large.shape[2:] == (224, 224)
    one_row = suite["38 LayerNorm, decode, 1x4096, bfloat16 C"]
    assert causes.cached(one_row) is None


def test_every_problem_is_valid_in_the_cache() -> None:
    for problem in problems.problems(full=False):
        for one in causes.cached(problem) or ():
            assert min(one.output) > 0 and one.bytes <= 2 * causes.CACHED[1], one


def test_reads_and_writes_make_up_the_traffic() -> None:
    suite = {p.name: p for p in problems.problems()}
    grad = suite["11 average grad 2x2/2, 64x256x56x56, float32 C"]
    assert (grad.read, grad.written) == (4 * 64 * 256 * 28 * 28, 4 * 64 * 256 * 56 * 56)
    indices = suite["02 max+int64 3x3/2, 32x64x112x112, float16 C"]
    assert indices.read == 2 * 32 * 64 * 112 * 112
    assert indices.written == (2 + 8) * 32 * 64 * 56 * 56


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
    assert header.split() == ["case", "thr", "ms", "share", "memory", "computing", "bound", "by"]
    rows = json.loads(run.read_text())["rows"]
    assert len(lines) == len(rows) == 2
    for text, row in zip(lines, rows, strict=True):
        assert text.startswith(row["name"])
        threads, ms, share, memory, computing, *_ = text[56:].split()
        assert int(threads) == row["threads"]
        assert float(share) == pytest.approx(row["contenders"]["cudml"]["share"], abs=0.006)
        assert min(map(float, (ms, memory))) > 0 and np.isfinite(float(computing))


def test_what_normalization_reads_twice() -> None:
    suite = {p.name: p for p in problems.problems(full=False)}

    def times(name: str) -> float:
        problem = suite[name]
        return causes.read_bytes(problem) / problem.read

    assert times("34 LayerNorm, 8192x1024, float32 C") == 1
    assert times("45 RMSNorm+SiLU, channels, 1x96x4x480x832, float32 C") == 1
    assert times("42 InstanceNorm+ReLU, 8x32x256x256, float32 L") == pytest.approx(2, rel=1e-3)
    assert times("37 LayerNorm, wide, 16x262144, float32 C") == pytest.approx(2, rel=0.2)
    assert times("03 max 2x2/2, 32x64x224x224, float16 C") == 1
