"""Runs the steps of the GPU validation one after the other, each under its own time limit.

A step that fails does not stop the next one. What the steps found goes into one JSON file and one
readable summary.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import gpu  # noqa: E402
import summary  # noqa: E402

ROOT = HERE.parent.parent
TAIL = 40  # lines of a failed step's output that are kept
MOST_SECONDS = 470  # for all steps; what the others leave, the last one may use


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    command: list[str]
    limit: int  # seconds; all limits together stay below MOST_SECONDS


@dataclass
class Outcome:
    name: str
    what: str
    status: str  # "passed", "failed", "timed out"
    seconds: float
    limit: int
    found: dict[str, Any] = field(default_factory=dict)  # what the step itself wrote
    tail: list[str] = field(default_factory=list)


def suite_command() -> list[str]:
    words = ("pytest", "tests", "--backend", "cuda", "--share", "1/1", "-q", "-ra")
    command = [sys.executable, "-m", *words]
    if importlib.util.find_spec("xdist"):
        command += ["-n", str(max(1, min(14, len(os.sched_getaffinity(0)) - 2)))]
    return command


def steps() -> list[Step]:
    def own(name: str) -> list[str]:
        return [sys.executable, str(HERE / f"{name}.py")]

    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    return [
        Step("build", "the extension, for this GPU's architecture, and simt", build, 125),
        Step("parity", "cuda against simt and cpu, every kernel", own("parity"), 45),
        Step("sanitizer", "memcheck, racecheck, initcheck, synccheck", own("sanitizer"), 45),
        Step("large", "more than 2^31 elements", own("large"), 40),
        Step("speed", "against a device copy and PyTorch", own("speed"), 45),
        Step("regret", "the chosen kernel over the fastest", own("regret"), 62),
        Step("suite", "the whole test suite on back end cuda", suite_command(), 108),
    ]


def environment(work: Path, name: str) -> dict[str, str]:
    capability = gpu.facts()["compute_capability"].replace(".", "")
    paths = [ROOT / "python", HERE.parent, HERE, ROOT / "tests" / "support"]
    before = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "CUDML_CUDA": "on",
        "CUDML_CUDA_ARCHS": os.environ.get("CUDML_CUDA_ARCHS", capability),
        "CUDML_SIMT": "on" if name == "build" else "",
        "CUDML_STEP_JSON": str(work / f"{name}.json"),
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *([before] if before else [])]),
        "PYTHONUNBUFFERED": "1",
    }


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a step with everything it started."""
    for sign in (signal.SIGINT, signal.SIGKILL):  # pytest writes its report when interrupted
        try:
            os.killpg(process.pid, sign)
            process.wait(6)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def carry_out(command: list[str], limit: int, variables: dict[str, str], log: Path) -> str:
    """Runs a command in a process group of its own; its status, its output in `log`."""
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            out.write(f"{error}\n".encode())
            return "failed"
        try:
            return "passed" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            stop(process)
            return "timed out"


def run(step: Step, work: Path) -> Outcome:
    print(f"== {step.name}: {step.what} (at most {step.limit} s)", flush=True)
    log, begin = work / f"{step.name}.log", time.monotonic()
    command, extra = step.command, work / "suite.xml"
    if step.name == "suite":
        command = [*command, f"--junitxml={extra}"]
    status = carry_out(command, step.limit, environment(work, step.name), log)
    outcome = Outcome(step.name, step.what, status, time.monotonic() - begin, step.limit)
    outcome.found = read_found(work / f"{step.name}.json")
    if step.name == "suite":
        outcome.found = summary.junit(extra)
    if status != "passed":
        said = log.read_text(errors="replace").replace(f"{ROOT}/", "")
        outcome.tail = said.splitlines()[-TAIL:]
        print("\n".join(f"   {line}" for line in outcome.tail))
    print(f"== {step.name}: {status}, {outcome.seconds:.0f} s", flush=True)
    return outcome


def read_found(path: Path) -> dict[str, Any]:
    """What the step wrote so far, also where it was stopped."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(folder: Path, facts: dict[str, Any], outcomes: list[Outcome]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = summary.stem(facts)
    content = {**facts, "steps": [asdict(o) for o in outcomes]}
    (folder / f"{stem}.json").write_text(json.dumps(content, indent=1) + "\n")
    text = summary.text(content)
    (folder / f"{stem}.txt").write_text(text)
    print(f"\n{text}\nwritten to {folder / stem}.json and .txt")


def main() -> int:
    available = steps()
    names = [step.name for step in available]
    parser = argparse.ArgumentParser(prog="validate_gpu.sh", description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("step", nargs="*", metavar="STEP", help=f"of {', '.join(names)}; all")
    options = parser.parse_args()
    if unknown := [name for name in options.step if name not in names]:
        parser.error(f"there is no step {unknown[0]!r}; it must be one of {', '.join(names)}")
    facts, begin = gpu.facts(), time.monotonic()
    facts["date"] = time.strftime("%Y-%m-%d", time.gmtime())
    print(f"{facts['device']}, driver {facts['driver']}, toolkit {facts['toolkit']}")
    with tempfile.TemporaryDirectory() as work:
        outcomes = []
        for step in available:
            if options.step and step.name not in options.step:
                continue
            if step is available[-1]:
                left = MOST_SECONDS - int(time.monotonic() - begin)
                step = replace(step, limit=max(step.limit, left))
            outcomes.append(run(step, Path(work)))
    facts["seconds"] = round(time.monotonic() - begin)
    write(options.output, facts, outcomes)
    return 0 if all(o.status == "passed" for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
