"""Plants faults in the C++ code, wakes one at a time, and runs the tests that come by it.

python tests/campaign/mutate.py --sample 700 --seed 1 works in a copy of the tree under build/, in
which one instruction set is built with -O1, once, with all faults in it asleep (planted.h).
--device does the same to the CUDA kernels and the host's part of them, which the interpreter runs.
waking.py first notes which tests come by which faults, then wakes each in turn. What is not caught
is reported with file and line. A run that was cut off goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mutants import CPU_TURNS, DEVICE_TURNS, Mutant, drawn, named, numbered, planted

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
COPIED = ("cmake", "csrc", "include", "python", "tests", "tools", "docs", "benchmarks", "examples")
COPIED_FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CMakeLists.txt", "setup.py")
# The compiler's errors name the faults that make no C++; so many times are they left out.
ATTEMPTS = 8
BUILD = """
import sys, sysconfig, shutil, pathlib
sys.path.insert(0, 'tools')
import native_build as n
n.core_ninja = lambda folder, debug: n.whole_core_ninja(folder, ['-O1', '-w', '-fmax-errors=0'])
n.BINDINGS_UNITS = 6
target = pathlib.Path('python/cudml/_core' + sysconfig.get_config_var('EXT_SUFFIX'))
made = n.build('_core', targets=['-k', '0'])
target.unlink(missing_ok=True)  # a new file: another process may have the old one mapped
shutil.copyfile(made, target)
"""
# Faults stand in the kernels alone: the CPU's loops and cudml._core are those of the tree itself.
DEVICE_BUILD = f"""
import sys, shutil, pathlib
sys.path.insert(0, 'tools')
import native_build as n
build, folder_of = n.build, n.folder_of
product = pathlib.Path('{ROOT}', 'build', folder_of('_core').name)
n.folder_of = lambda name, *kind: product if name == '_core' else folder_of(name, *kind)
n.build = lambda name, *more, **how: name == '_core' or build(name, *more, **how)
shutil.copyfile(n.build('_simt', targets=['-k', '0']), 'simt.so')
"""
# Folders and files of tests that wait, measure time, build, or run on other back ends.
TESTS = ("cpu", "mvn", "pad", "pool", "bindings", "directml", "descriptors", "arrays", "batch")
LEFT_OUT = (
    "cpu/test_arm", "cpu/test_compilers", "cpu/test_threads_mixed",
    "cpu/test_forks", "arrays/test_jax", "directml/test_program", "directml/test_porting",
    "directml/test_pages", "directml/test_readme", "bindings/test_interpreters",
    "cuda/test_gates", "cuda/test_machine_code", "cuda/test_ptx_scopes", "cuda/test_simt",
)  # fmt: skip


@dataclass(frozen=True)
class Way:
    """Where faults are planted, how the copy is built, and which tests meet them."""

    tree: Path
    turns: tuple[str, ...]
    build: str
    flags: str
    options: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def faults(self) -> Path:
        return self.tree / "faults.json"


BUILT = ROOT / "build"
CPU = Way(BUILT / "mutants", CPU_TURNS, BUILD, "-march=x86-64-v3", ("--backend", "cpu"), TESTS)
DEVICE = Way(
    BUILT / "mutants_device", DEVICE_TURNS, DEVICE_BUILD, "-w -fmax-errors=0",
    ("--backend", "simt", "-k", "simt or cuda"), ("cuda", "mvn", "pad", "pool", "arrays", "batch"),
)  # fmt: skip


def environment(way: Way) -> dict[str, str]:
    inner = os.environ.get("CXX", "c++")
    return {
        **os.environ,
        "PYTHONPATH": f"{way.tree / 'python'}:{HERE}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDML_CUDA": "off",
        "CI": "1",  # drawn tests draw the same every time
        "CXX": inner if "-march" in inner else f"{inner} {way.flags}",
        "CUDML_MUTANTS": str(way.tree),
    }


def copy(way: Way, tests_only: bool) -> None:
    """Copies the tree, or its tests alone."""
    made = () if way is DEVICE else ("*.so", "*.so.*")
    ignored = shutil.ignore_patterns(*made, "__pycache__", "build", "campaign/results")
    for name in ("tests",) if tests_only else COPIED:
        shutil.rmtree(way.tree / name, ignore_errors=True)
        shutil.copytree(ROOT / name, way.tree / name, ignore=ignored)
    for name in COPIED_FILES:
        shutil.copy2(ROOT / name, way.tree / name)


def plant(way: Way, faults: list[Mutant]) -> None:
    """Writes the source with these faults asleep; a file that stays the same stays as old."""
    of: dict[str, list[Mutant]] = {
        path.relative_to(ROOT).as_posix(): []
        for room in {turn.split("/")[0] for turn in way.turns}
        for path in (ROOT / "csrc" / room).rglob("*")
        if path.is_file()
    }
    for m in faults:
        of[m.file].append(m)
    shutil.copy2(HERE / "planted.h", way.tree / "csrc" / "planted.h")
    for file, found in of.items():
        text = planted((ROOT / file).read_text(), found)
        text = f'#include "planted.h"  {text}' if found else text
        if (way.tree / file).read_text() != text:
            (way.tree / file).write_text(text)


def build(way: Way, prefix: list[str], faults: list[Mutant]) -> list[Mutant]:
    """Builds the tree; returns the faults that are in it."""
    for _ in range(ATTEMPTS):
        plant(way, faults)
        command = [*prefix, sys.executable, "-c", way.build]
        done = subprocess.run(
            command, cwd=way.tree, env=environment(way), capture_output=True, text=True
        )
        if done.returncode == 0:
            return faults
        said = done.stdout + done.stderr
        (way.tree / "build.log").write_text(said)
        named = set(re.findall(r"(csrc/[\w/]+\.(?:h|cpp|cuh?)):(\d+)", said))
        places = {(file, int(line)) for file, line in named if re.search("error", said)}
        # An expression of several lines errs on one of them; the error says the fault's number.
        errors = " ".join(line for line in said.splitlines() if "error: " in line)
        numbers = {int(n) for n in re.findall(r"planted::\w+<(\d+)>", errors)}
        bad = [m for m in faults if (m.file, m.line) in places or m.number in numbers]
        print("no C++:", *(f"{m.place} {m.old}" for m in bad), sep="\n  ", flush=True)
        if not bad:
            break
        faults = [m for m in faults if m not in bad]
    raise SystemExit(f"the tree does not build: {way.tree / 'build.log'}")


def wake(way: Way, prefix: list[str], words: list[str]) -> None:
    """Runs pytest with waking.py, which takes over once all tests are collected."""
    found = sorted(
        path
        for folder in way.tests
        for path in (way.tree / "tests" / folder).glob("test_*.py")
        if f"{folder}/{path.stem}" not in LEFT_OUT
    )
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "waking", "-n", "0"]
    command = [*prefix, sys.executable, "-m", "pytest", *options, *way.options, *map(str, found)]
    env = environment(way) | {"CUDML_WAKE": " ".join(words)}
    env["CUDML_PLANTED"] = str(way.tree / f"awake_{words[0]}")
    subprocess.run(command, cwd=way.tree, env=env, check=False)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(results: list[dict[str, Any]]) -> str:
    """What became of each kind of fault, and what survived."""
    count = Counter(r["status"] for r in results)
    tried = count["caught"] + count["survived"]
    lines = [f"{'kind':14} {'caught':>7} {'survived':>9} {'not reached':>12}"]
    for kind in sorted({r["kind"] for r in results}):
        c = Counter(r["status"] for r in results if r["kind"] == kind)
        lines.append(f"{kind:14} {c['caught']:7} {c['survived']:9} {c['not reached']:12}")
    share = 100 * count["caught"] / tried if tried else 0.0
    lines.append(f"{tried} mutants, {count['caught']} caught ({share:.1f} %)")
    for r in results:
        if r["status"] != "caught":
            lines.append(f"{r['status']}: {r['number']} {r['place']} {r['kind']}: {r['old']!r}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python tests/campaign/mutate.py")
    parser.add_argument("--sample", type=int, default=700, help="how many faults are planted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", metavar="GLOB", help="of files with such a name")
    parser.add_argument(
        "--rooms", nargs="+", metavar="GLOB", help="folders of csrc that take turns"
    )
    parser.add_argument(
        "--places", type=Path, metavar="FILE", help="these faults, too: file:line:column"
    )
    parser.add_argument("--prefix", default="", help="a command through which every step runs")
    parser.add_argument(
        "--step", choices=("plant", "map", "judge", "again", "show"), help="this step only"
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="of the step that runs tests")
    parser.add_argument("--again", action="store_true", help="of the copy renew the tests alone")
    parser.add_argument("--words", nargs="*", default=[], help="for waking.py, see there")
    parser.add_argument("--device", action="store_true", help="in csrc/cuda, on the interpreter")
    a = parser.parse_args()
    way = DEVICE if a.device else CPU
    way = replace(way, turns=tuple(a.rooms or way.turns))
    prefix = shlex.split(a.prefix)
    if a.step in (None, "plant"):
        way.tree.mkdir(parents=True, exist_ok=True)
        copy(way, a.again)
        given = named(ROOT, a.places.read_text().split()) if a.places else []
        own = {m.place for m in given}
        others = [m for m in drawn(ROOT, way.turns, a.only, a.sample, a.seed) if m.place not in own]
        faults = build(way, prefix, numbered(given + others))
        way.faults.write_text(
            json.dumps([m.__dict__ | {"place": m.place} for m in faults], indent=1)
        )
    for step in ("map", "judge", "again"):
        if a.step in (None, step):
            wake(way, prefix, [step, str(a.minutes), *a.words])
    rows = {
        r["number"]: r for name in ("results", "again") for r in read(way.tree / f"{name}.jsonl")
    }
    print(table(list(rows.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
