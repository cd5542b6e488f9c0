"""Every instruction set of the CPU back end: the core tests, equal bits, and no shared symbols."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cudml
from array_support import child, child_says
from folders import ROOT

LEVELS = ("base", "v3", "v4")
NEEDS = {
    "base": set(),
    "v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
x86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="one instruction set here"
)


IS_SANITIZED = "address-undefined" in str(cudml._core.__file__)  # one table, with v3's loops


@functools.lru_cache
def here() -> list[str]:
    """The levels that this processor has, and this build."""
    if IS_SANITIZED:
        return ["base"]
    text = Path("/proc/cpuinfo").read_text()
    found = re.search(r"^flags\s*:(.*)$", text, re.M)
    flags = set(found[1].split()) if found else set()
    levels = []
    for level in LEVELS:
        if not NEEDS[level] <= flags:
            break
        levels.append(level)
    return levels


def needs(level: str) -> None:
    if level not in here():
        missing = "processor or build lacks x86-64-" + level
        pytest.skip(missing)


def running() -> str:
    """The level of this process, on which every other test runs."""
    return os.environ.get("CUDML_CPU_ISA") or here()[-1]


def run_core_tests(level: str, stream_bytes: int) -> subprocess.CompletedProcess[str]:
    """The short ones of the tests marked core, in a process where this level is forced.

    Outputs of at least `stream_bytes` are written past the caches, which are small ones in tests.
    """
    tests = sorted((ROOT / "tests").glob("*/test_*.py"))
    files = [str(f) for f in tests if "mark.core" in f.read_text()]
    paths = [str(Path(cudml.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "CUDML_CPU_ISA": level, "PYTHONPATH": os.pathsep.join(paths)}
    environment["CUDML_STREAM_BYTES"] = str(stream_bytes)
    if level != running():  # one of the two is not this processor's
        environment["CUDML_PREFETCH"] = "runs" if level == "v3" else "apart"
    for name in [n for n in environment if n.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-m", "core and small", "--backend", "cpu", "-q"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


@pytest.mark.long
@x86
@pytest.mark.parametrize("level", LEVELS)
def test_core_tests_on_every_instruction_set(level: str) -> None:
    """On every level, writing past the caches: other levels some outputs, this one all.

    This process itself runs all tests on its own level.
    """
    needs(level)
    done = run_core_tests(level, 0 if level == running() else 2048)
    assert done.returncode == 0, f"{level}:\n{done.stdout[-6000:]}"
    count = re.search(r"(\d+) passed", done.stdout)
    assert count and int(count[1]) >= 40, f"{level}:\n{done.stdout[-2000:]}"
    assert f'"{running()}"' in json.dumps(cudml._core.build_info())


AHEAD = """
import hashlib
import cudml, numpy as np
rng = np.random.default_rng(7)
def say(*results):
    print(hashlib.sha256(b"".join(r.tobytes() for r in results)).hexdigest())
for dtype in ("f4", "f2"):
    for shape in ((1, 3000, 9, 14), (2, 64, 40, 57), (1, 8, 150, 300)):
        for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
            x = rng.standard_normal([shape[a] for a in order]).astype(dtype)
            x = x.transpose(np.argsort(order))
            for window in (3, shape[2:]):
                say(cudml.average_pooling(x, window), cudml.max_pooling(x, window))
            say(cudml.padding(x, (0, 0, 1, 1), (0, 0, 1, 1), mode="reflection"))
            for axes in (1, (2, 3), (0, 2, 3)):
                say(cudml.mean_variance_normalization(x, axes=axes))
                say(cudml.mean_variance_normalization_grad(x, x[..., ::-1], axes=axes)[0])
    rows = rng.standard_normal((9, 8192)).astype(dtype)
    say(cudml.mean_variance_normalization(rows, rows[:1], axes=1))
"""


def test_asking_for_memory_ahead_changes_no_bits() -> None:
    for stream_bytes in ("0", "1000000000"):
        texts = {
            child_says(AHEAD, CUDML_PREFETCH=ahead, CUDML_STREAM_BYTES=stream_bytes)
            for ahead in ("runs", "apart")
        }
        assert len(texts) == 1 and len(set(texts.pop().splitlines())) > 80


@x86
@pytest.mark.parametrize("level", LEVELS)
def test_the_level_that_was_asked_for_runs(level: str) -> None:
    needs(level)
    says = "import json, cudml; print(json.dumps(cudml._core.build_info()))"
    assert f'"{level}"' in child_says(says, CUDML_CPU_ISA=level)


@x86
def test_the_best_level_runs_unless_told_otherwise() -> None:
    says = "import json, cudml; print(json.dumps(cudml._core.build_info()))"
    assert child_says(says, CUDML_CPU_ISA=None) == child_says(says, CUDML_CPU_ISA=here()[-1])


@pytest.mark.parametrize("name", ["v5", "avx2", "V3", "base ", "x86-64-v3", "3", "auto"])
def test_an_unknown_level_is_an_import_error(name: str) -> None:
    """It names what was given and what is permitted; nothing else is printed after it."""
    done = child("import cudml", CUDML_CPU_ISA=name)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ImportError: "), done.stderr
    assert "CUDML_CPU_ISA" in last and name.strip() in last and "base" in last
    if platform.machine().lower() in ("x86_64", "amd64"):
        assert all(level in last for level in here())


@x86
def test_a_level_above_the_processor_is_an_import_error() -> None:
    above = [level for level in LEVELS if level not in here()]
    if not above:
        pytest.skip("the processor has every level")
    done = child("import cudml", CUDML_CPU_ISA=above[0])
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ImportError: "), done.stderr
    assert above[0] in last and here()[-1] in last


DIGESTS = """
import hashlib
import numpy as np
from array_support import in_order, make
from harness import DTYPES, data
import cudml

def show(name, *arrays):
    digest = hashlib.sha256()
    for a in arrays:
        digest.update(np.ascontiguousarray(a).tobytes())
    print(name, digest.hexdigest()[:16])

for dtype in DTYPES['max_pooling']:
    for shape in [(2, 3, 37, 41), (1, 2, 9, 130), (2, 20, 11, 3), (1, 2, 5, 6, 33)]:
        for kind in ('random', 'special'):
            x = data(shape, dtype, 3, kind)
            m = len(shape) - 2
            for order in [tuple(range(m + 2)), (0, *range(2, m + 2), 1)]:
                v = in_order(x, order)
                for w, s, d in [(2, 2, 1), (3, 2, 1), (3, 1, 1), (2, 1, 2), (5, 3, 1)]:
                    name = f'{dtype} {shape} {kind} {order} {w} {s} {d}'
                    try:
                        y, i = cudml.max_pooling(v, w, s, 1, 1, d, return_indices=True)
                    except ValueError:
                        continue
                    show('indices ' + name, y, i)
                    if kind == 'random' and x.dtype.kind != 'f' and dtype != 'bfloat16':
                        show('max ' + name, cudml.max_pooling(v, w, s, 1, 1, d))
                    if kind == 'random':
                        y = cudml.max_pooling(v, w, s, 1, 1, d)
                        show('max ' + name, y + 0 * y)
                for mode in ('constant', 'edge', 'reflection', 'symmetric', 'wrap'):
                    pads = list(range(m + 2)), list(range(m + 2))[::-1]
                    show(f'{mode} {dtype} {shape} {kind} {order}',
                         cudml.padding(v, *pads, mode=mode, value=1))
"""


@x86
def test_copied_and_compared_values_have_the_same_bits_on_every_level() -> None:
    """Max pooling, its indices, padding, and every integer path."""
    texts = {level: child_says(DIGESTS, CUDML_CPU_ISA=level, limit=120) for level in here()}
    want = texts[here()[0]].splitlines()
    assert len(want) > 500
    for level, text in texts.items():
        differ = [a for a, b in zip(want, text.splitlines(), strict=True) if a != b]
        assert not differ, (level, differ[:5])


def objects(level: str) -> list[Path]:
    folders = ROOT.glob(f"build/_core-*/cpu_{level}")
    return [path for folder in folders for path in sorted(folder.glob("*.o"))]


def weak_functions(level: str) -> set[str]:
    """Mangled names of the weak functions of the library in this level's objects."""
    names = set()
    for path in objects(level):
        text = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            kind, name = line.split()[-2:]
            if kind in "Ww" and "5cudml" in name and " U " not in line:
                names.add(name)
    return names


@pytest.mark.long
@x86
def test_levels_share_no_weak_function() -> None:
    """A function that two levels both emit would run one's instructions in the other's place."""
    if not objects("base") or shutil.which("nm") is None:
        pytest.skip("no objects in build/, or no nm to list them")
    assert all(objects(level) for level in LEVELS)
    found = {level: weak_functions(level) for level in LEVELS}
    for level, names in found.items():
        others = set().union(*(found[other] for other in LEVELS if other != level))
        shared = sorted(names & others)
        shown = subprocess.run(["c++filt"], input="\n".join(shared[:20]), capture_output=True,
                               text=True).stdout  # fmt: skip
        assert not shared, f"{level}: {len(shared)} shared\n{shown}"


def test_the_extension_exports_its_entry_point_alone() -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm to list symbols")
    command = ["nm", "-D", "--defined-only", cudml._core.__file__]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in text.splitlines()] == ["PyInit__core"]


@pytest.mark.parametrize(
    ("level", "flags"),
    [
        ("base", ("-march=x86-64",)),
        ("v3", ("-march=x86-64-v3",)),
        ("v4", ("-march=x86-64-v4", "-mprefer-vector-width=512")),
    ],
)
def test_no_signed_number_overflows_in_swish(
    level: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """The vector loop over its whole range, in a build that ends where one does."""
    needs(level)
    program = str(tmp_path / "swish")
    command = [
        *os.environ.get("CXX", "c++").split(), "-std=c++20", "-O1", f"-I{ROOT}/csrc",
        f"-DCUDML_ISA={level}", "-ffp-contract=off", *flags,
        "-fsanitize=signed-integer-overflow,shift", "-fno-sanitize-recover=all",
        str(ROOT / "tests" / "mvn" / "swish_program.cpp"), "-o", program,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
