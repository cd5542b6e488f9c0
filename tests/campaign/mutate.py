"""Plants one fault at a time in the C++ code and runs the tests that reach it.

python tests/campaign/mutate.py --sample 300 --seed 1 works in a copy of the tree under build/, in
which one instruction set is built with -O1. What is not caught is reported with file and line. A
run that was cut off goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mutants import Mutant, drawn

ROOT = Path(__file__).resolve().parent.parent.parent
TREE = ROOT / "build" / "mutants"
BROKEN = TREE / "broken.json"  # tests that the unchanged tree fails, built as it is here
SOUND = TREE / "sound.so"  # the module without a fault
COPIED = (
    "cmake",
    "csrc",
    "include",
    "python",
    "tests",
    "tools",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
)
CPU_SECONDS = 600  # of one step; more is an endless loop
MEMORY = 12 << 30
BUILD = """
import sys, sysconfig, shutil, pathlib
sys.path.insert(0, 'tools')
import native_build as n
n.core_ninja = lambda folder, debug: n.whole_core_ninja(folder, ['-O1', '-w'])
n.BINDINGS_UNITS = len(n.sources('bindings'))
target = pathlib.Path('python/cudml/_core' + sysconfig.get_config_var('EXT_SUFFIX'))
made = n.build('_core')
target.unlink(missing_ok=True)  # a new file: another process may have the old one mapped
shutil.copyfile(made, target)
"""
# Which tests reach a file, by the beginning of its name, or of its folder's and its name.
FAMILIES = {
    "pool": ("pool", "cpu_paths", "examples", "empty", "float_state", "threads", "isa"),
    "pad": ("pad", "cpu_paths", "examples", "empty", "border"),
    "mvn": ("mvn", "cpu_paths", "activation", "examples", "empty", "accuracy"),
}
BINDINGS = (
    "arrays_", "arguments", "errors", "signatures", "plan_cache", "compiled", "explain", "log",
    "pool_arguments", "directml_call", "process", "float_state", "pool_refusals", "pad_refusals",
    "mvn_refusals", "activation_refusals",
)  # fmt: skip
PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header"]
PYTEST += ["--tb=line", "--backend", "cpu"]
VERIFIED: set[str] = set()  # tests that have caught a fault and pass without one
OF_NAME = (
    (r"csrc/directml/", ("directml",)),
    (r"csrc/bindings/.*(directml|descriptors|compiled)", ("directml", *BINDINGS)),
    (r"csrc/bindings/", BINDINGS),
    (r"csrc/ops/pad", (*FAMILIES["pad"], "explain")),
    (r"csrc/ops/mvn|csrc/ops/activation", (*FAMILIES["mvn"], "explain", "directml_call")),
    (r"csrc/ops/pool", (*FAMILIES["pool"], "pool_grad", "explain")),
    (r"/pool_grad", ("pool_grad", "examples", "empty", "pool_threads", "pool_refusals", "threads")),
    (r"/(pool|winners|reducer)", (*FAMILIES["pool"], "pool_grad")),
    (r"/(pad|border)", FAMILIES["pad"]),
    (r"/(mvn|moments|activation|elementary)", (*FAMILIES["mvn"], "directml")),
    (r"", (*FAMILIES["pool"], *FAMILIES["pad"], *FAMILIES["mvn"], "arrays_", "process")),
)


def tests_of(file: str) -> list[str]:
    """The test files that reach a source file."""
    stems = next(stems for pattern, stems in OF_NAME if re.search(pattern, file))
    folder = TREE / "tests"
    found = {
        str(path)
        for path in folder.glob("*/test_*.py")
        for name in (path.stem.removeprefix("test_"),)
        if name.startswith(stems) or f"{path.parent.name}_{name}".startswith(stems)
    }
    return sorted(found)


def family_of(file: str) -> str:
    """The campaign's family that reaches a source file."""
    starts = (
        (r"/pool_grad.*lp_", "lp_gradients"),
        (r"/pool_grad", "gradients"),
        (r"/pad_grad", "padding_gradients"),
        (r"/(pad|border)", "padding"),
        (r"/mvn_grad", "normalization_gradients"),
        (r"/(normalize|statistics|merge)", "two_phase"),
        (r"/unpool", "unpooling"),
        (r"/(pool|winners)", "pooling"),
        (r"/(mvn|moments|activation|elementary)", "normalization"),
    )
    return next((family for start, family in starts if re.search(start, file)), "all")


class Runner:
    """Runs commands in the copy of the tree, each through `prefix`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = shlex.split(prefix)
        inner = os.environ.get("CXX", "c++")
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(TREE / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDML_CUDA": "off",
            "CI": "1",  # drawn tests draw the same every time
            "CXX": inner if "-march" in inner else f"{inner} -march=x86-64-v3",
        }

    def __call__(self, command: list[str], wall: float) -> tuple[int | None, str]:
        """The exit status, None where it took too long, and what was said."""
        process = subprocess.Popen(
            [*self.prefix, *command],
            cwd=TREE,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            preexec_fn=None if self.prefix else _limits,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=wall)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return None, ""
        return process.returncode, said


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def prepare(runner: Runner) -> None:
    """Copies the tree and builds it as it is."""
    for name in COPIED:
        source, target = ROOT / name, TREE / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.so", "__pycache__", "build")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy2(source, target)
    status, said = runner([sys.executable, "-c", BUILD], 3600)
    if status:
        raise SystemExit(f"the unchanged tree does not build:\n{said[-3000:]}")


def module() -> Path:
    """The module of the copied tree."""
    return next((TREE / "python" / "cudml").glob("_core.*.so"))


def is_broken(runner: Runner, said: str) -> bool:
    """Whether the test that failed fails without a fault, too; if so it is left out from now on."""
    found = re.search(r"^FAILED (?:\S*/)?(tests/\S+?::.+?)(?: - |$)", said, re.M)
    known = json.loads(BROKEN.read_text())
    if not found or found[1] in VERIFIED:
        return False
    target = module()
    kept = target.with_suffix(".kept")
    target.rename(kept)
    shutil.copyfile(SOUND, target)
    status, _ = runner([*PYTEST, found[1]], 420)
    kept.replace(target)
    VERIFIED.add(found[1])
    if status == 0:
        return False
    BROKEN.write_text(json.dumps([*known, found[1]]))
    print(f"left out, it fails without a fault in this build: {found[1]}", flush=True)
    return True


def steps(file: str, thorough: bool) -> list[tuple[str, list[str]]]:
    """What looks for the fault: random calls, short tests, and all tests that reach the file."""
    chosen = tests_of(file)
    pytest = [*PYTEST]
    pytest += [word for test in json.loads(BROKEN.read_text()) for word in ("--deselect", test)]
    random = [sys.executable, "tests/campaign/run.py", "--seconds", "60", "--seed", "1"]
    random += ["--jobs", "3", "--calls", "6000", "--family", family_of(file), "--stop-at-once"]
    if "csrc/directml" in file:
        return [("tests", [*pytest, *chosen])]
    found = [("random calls", random), ("tests", [*pytest, "-m", "core", *chosen])]
    if "csrc/bindings" in file:
        found = found[::-1]
    return [*found, ("all tests", [*pytest, *chosen])] if thorough else found


def verdict(runner: Runner, m: Mutant, thorough: bool) -> dict[str, Any]:
    """Plants a fault, builds, and runs the steps until one fails; mends the file."""
    path, begin = TREE / m.file, time.time()
    text = path.read_text()
    result: dict[str, Any] = {**m.__dict__, "status": "survived", "by": ""}
    path.write_text(m.applied(text))
    try:
        status, _ = runner([sys.executable, "-c", BUILD], 900)
        if status != 0:
            return {**result, "status": "no mutant", "seconds": round(time.time() - begin)}
        for name, command in steps(m.file, thorough):
            status, said = runner(command, 600)
            while status == 1 and name != "random calls" and is_broken(runner, said):
                status, said = runner(dict(steps(m.file, thorough))[name], 600)
            if status not in (0, 5):  # 5: no such test
                lines = [line for line in said.splitlines() if "FAILED" in line or "Error" in line]
                why = "stood still" if status is None else (lines or [f"status {status}"])[-1]
                result |= {"status": "caught", "by": name, "how": why[:160]}
                break
    finally:
        path.write_text(text)
    return {**result, "seconds": round(time.time() - begin)}


def judged_some(runner: Runner, faults: list[Mutant], thorough: bool) -> list[dict[str, Any]]:
    """The first of these faults, as many as two minutes hold, behind one wait for `prefix`."""
    words = ["--some", json.dumps([m.__dict__ for m in faults[:30]])]
    words += ["--thorough"] if thorough else []
    status, said = runner([sys.executable, __file__, *words], 3600)
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    for line in said.splitlines():
        if line.startswith("left out"):
            print(line)
    if status or not found:
        raise SystemExit(f"a step ended with status {status}:\n{said[-2000:]}")
    return found


def some(faults: list[Mutant], thorough: bool) -> None:
    """What judged_some() asks of another process."""
    runner, begin = Runner(""), time.time()
    for m in faults:
        print(json.dumps(verdict(runner, m, thorough)), flush=True)
        if time.time() - begin > 120:
            break


def place(r: dict[str, Any]) -> str:
    return f"{r['file']}:{r['line']}:{r['column']}"


def table(results: list[dict[str, Any]]) -> str:
    count = Counter(r["status"] for r in results)
    tried = count["caught"] + count["survived"]
    by = Counter(r["by"] for r in results if r["status"] == "caught")
    kinds = sorted({r["kind"] for r in results})
    lines = [f"{'kind':14} {'caught':>7} {'survived':>9} {'no mutant':>10}"]
    for kind in kinds:
        c = Counter(r["status"] for r in results if r["kind"] == kind)
        lines.append(f"{kind:14} {c['caught']:7} {c['survived']:9} {c['no mutant']:10}")
    share = 100 * count["caught"] / tried if tried else 0.0
    lines.append(f"{tried} mutants, {count['caught']} caught ({share:.1f} %), {dict(by)}")
    for r in results:
        if r["status"] == "survived":
            lines.append(f"survived: {place(r)} {r['kind']}: {r['old']!r} → {r['new']!r}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python tests/campaign/mutate.py")
    parser.add_argument("--sample", type=int, default=20, help="how many faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", metavar="GLOB", help="of files with such a name")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.json")
    parser.add_argument("--prefix", default="", help="a command through which every step runs")
    parser.add_argument("--thorough", action="store_true", help="all tests, not the short ones")
    parser.add_argument("--some", metavar="JSON", help="these faults, in the copy as it is")
    parser.add_argument("--show", action="store_true", help="only show the results so far")
    a = parser.parse_args()
    if a.some:
        some([Mutant(**m) for m in json.loads(a.some)], a.thorough)
        return 0
    results = json.loads(a.results.read_text()) if a.results.exists() else []
    if a.show:
        print(table(results))
        return 0
    TREE.mkdir(parents=True, exist_ok=True)
    runner = Runner(a.prefix)
    prepare(runner)
    shutil.copyfile(module(), SOUND)
    if not BROKEN.exists():
        BROKEN.write_text("[]")
    known = {(r["file"], r["line"], r["column"], r["new"]) for r in results}
    chosen = drawn(TREE, a.only, a.sample, a.seed)
    left = [m for m in chosen if (m.file, m.line, m.column, m.new) not in known]
    while left:
        for r in judged_some(runner, left, a.thorough):
            results.append(r)
            done = len(chosen) - len(left) + 1
            bar = "#" * (30 * done // len(chosen))
            print(f"[{bar:30}] {done}/{len(chosen)} {r['status']:9} {r['by']:12}", end=" ")
            print(f"{r['seconds']:4} s {place(r)} {r['old']!r} → {r['new']!r}", flush=True)
            left = left[1:]
        a.results.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    print(table(results))
    return any(r["status"] == "survived" for r in results)


if __name__ == "__main__":
    sys.exit(main())
