"""A plugin of pytest that wakes planted faults: mutate.py starts it.

After tests have been collected it forks: each child runs some tests and ends. CUDML_WAKE=map and a
number of minutes notes of every test which faults it comes by and how long it takes, asleep; judge
wakes each fault and runs the tests that come by it, the short ones and those that have caught
faults of the same file first, until one fails.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import random
import re
import resource
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, TextIO

import pytest

TREE = Path(os.environ["CUDML_MUTANTS"])
BYTES = 1 << 16
AWAKE = Path(os.environ["CUDML_PLANTED"])
if not AWAKE.exists():
    AWAKE.write_bytes(bytes(BYTES))
with AWAKE.open("r+b") as file:
    MEMORY = mmap.mmap(file.fileno(), BYTES)
PATIENCE = 45  # seconds that a test may take beyond 20 times its own time
FIRST_BUDGET = 4  # seconds of tests that each fault meets at first
SLOW = 60  # seconds after which a test is left out of the map
MEMORY_LIMIT = 12 << 30


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


# Which tests, by the beginning of folder and name, may come by a file; the first pattern that fits.
FAMILIES = (
    (
        r"csrc/directml/|bindings/(directml|descriptors|compiled)",
        "directml/ descriptors/ bindings/",
    ),
    (r"csrc/bindings/", "bindings/ arrays/ directml/test_call pool/test_index pool/test_arg"),
    (r"cpu/threads|cpu/isa|float_state", "cpu/ bindings/test_env bindings/test_proc pool/test_thr"),
    (
        r"mvn_grad|math/(slope|total)",
        "mvn/test_grad mvn/test_normalization_grad mvn/test_normalize_g",
    ),
    (r"normalize|given", "mvn/test_normalize directml/test_train mvn/test_normalization_grad"),
    (r"statistics|merge", "mvn/test_stat mvn/test_ret mvn/test_merge"),
    (r"mvn|activation|elementary|moments|long_sum|swish", "mvn/ directml/test_values"),
    (r"unpool", "pool/test_unpool directml/test_train"),
    (r"pool_grad|lp_slope", "pool/test_grad pool/test_lp_grad pool/test_prop pool/test_thr pool/"),
    (r"pool|winners|reducer", "pool/ directml/test_values"),
    (r"pad_grad", "pad/test_padding_grad pad/"),
    (r"pad|border", "pad/ directml/test_values"),
    (r"", "pool/ pad/ mvn/ cpu/"),
)


class Reports:
    """Remembers whether a report of the test that runs was bad."""

    def __init__(self) -> None:
        self.why = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.why:
            lines = str(report.longrepr).splitlines()
            errors = [line for line in lines if line.startswith("E ")] or lines[-1:] or [""]
            self.why = errors[0].strip()[:200]


def run_in_child(items: list[pytest.Item], stops: bool, pipe: TextIO) -> None:
    """In a child: runs the tests, and says of each when it begins, how long it took and why not."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    reports = Reports()
    items[0].config.pluginmanager.register(reports, "reports of waking")
    for number, item in enumerate(items):
        print(json.dumps({"begins": number}), file=pipe, flush=True)
        if not stops:
            MEMORY[4:] = bytes(BYTES - 4)
        reports.why = ""
        begin = time.time()
        following = items[number + 1] if number + 1 < len(items) else None
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds = round(time.time() - begin, 3)
        reached = [i - 4 for i, b in enumerate(MEMORY[4:], 4) if b] if not stops else []
        row = {"ended": number, "seconds": seconds, "why": reports.why, "reached": reached}
        print(json.dumps(row), file=pipe, flush=True)
        if stops and reports.why:
            break


class Child:
    """A process that runs these tests; `rows` yields what it says of each until it ends."""

    def __init__(self, items: list[pytest.Item], stops: bool) -> None:
        self.items = items
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_end)
            os.setsid()
            try:
                run_in_child(items, stops, os.fdopen(write_end, "w"))
            finally:
                os._exit(0)
        os.close(write_end)
        self.pipe = os.fdopen(read_end, "rb", buffering=0)
        self.text = b""

    def line(self, wait: float) -> dict[str, Any] | None:
        """The next row; {} after the end, None where nothing came in time."""
        end = time.time() + wait
        while b"\n" not in self.text:
            ready, _, _ = select.select([self.pipe], [], [], max(end - time.time(), 0))
            if not ready:
                return None
            more = self.pipe.read(1 << 16)
            if not more:
                return {}
            self.text += more
        line, _, self.text = self.text.partition(b"\n")
        return dict(json.loads(line))

    def end(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pipe.close()


def mapped(items: list[pytest.Item], until: float) -> None:
    """Appends what each test comes by, the files in turn, until it is late."""
    path = TREE / "map.jsonl"
    known = {row["test"] for row in read(path)}
    of_file: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        of_file[item.path].append(item)
    r = random.Random(1)
    ranked = []
    for found in of_file.values():
        r.shuffle(found)
        ranked += [(n / len(found) + 0.02 * n, i) for n, i in enumerate(found)]
    left = [i for _, i in sorted(ranked, key=lambda p: p[0]) if i.nodeid not in known]
    MEMORY[:4] = bytes(4)
    while left and time.time() < until:
        some = sorted(left[:200], key=lambda i: i.nodeid)
        child, at = Child(some, False), -1
        while (row := child.line(SLOW)) and time.time() < until:
            at = row.get("begins", at)
            if "ended" in row:
                append(path, {"test": some[at].nodeid, **row})
        if row is None or (row == {} and at + 1 < len(some)):
            append(path, {"test": some[at].nodeid, "seconds": SLOW, "why": "slow", "reached": []})
        child.end()
        known = {row["test"] for row in read(path)}
        left = [i for i in left if i.nodeid not in known]
        print(f"mapped {len(known)} of {len(items)} tests", file=sys.__stderr__, flush=True)


class Judge:
    """Which tests come by a fault, in which order, and what became of it."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self.items = {i.nodeid: i for i in items}
        self.reached: dict[int, list[str]] = defaultdict(list)
        self.seconds: dict[str, float] = {}
        self.kills: dict[str, Counter[str]] = defaultdict(Counter)
        self.broken = {row["test"] for row in read(TREE / "map.jsonl") if row["why"]}
        self.mean: dict[str, float] = {}  # seconds of a file's tests
        for file in {t.split("::")[0] for t in self.items}:
            took = [s for t, s in self.seconds.items() if t.startswith(f"{file}::")]
            self.mean[file] = sum(took) / len(took) if took else 0.1
        self.shuffled = sorted(self.items)
        random.Random(2).shuffle(self.shuffled)
        for row in read(TREE / "map.jsonl"):
            if row["why"] or row["test"] not in self.items:
                continue
            self.seconds[row["test"]] = row["seconds"]
            for number in row["reached"]:
                self.reached[number].append(row["test"])

    def order(self, fault: dict[str, Any], budget: float) -> list[str]:
        """Short tests first, of the test files in turn; and so long as they fit the budget."""
        kills = self.kills[fault["file"]]
        seen: Counter[str] = Counter()
        ranked = []
        for test in sorted(self.reached[fault["number"]], key=lambda t: self.seconds[t]):
            file = test.split("::")[0]
            seen[file] += 1
            cost = (self.seconds[test] + 0.01) * (1 + 0.2 * seen[file])
            ranked.append((cost / (1 + 5 * kills[test] + 2 * kills[file]), test))
        chosen: list[str] = []
        total = 0.0
        for _, test in sorted(ranked):
            total += self.seconds[test]
            if total > budget and chosen:
                break
            chosen.append(test)
        return chosen

    def of_family(self, fault: dict[str, Any], budget: float) -> list[str]:
        """All tests that may come by a fault: those known to, then its family's, files mixed."""
        starts = next(s for pattern, s in FAMILIES if re.search(pattern, fault["file"])).split()
        files = {t.split("::")[0] for t in self.reached[fault["number"]]}
        ranked = []
        seen: Counter[str] = Counter()
        for test in self.shuffled:
            file = test.split("::")[0]
            rank = next((i for i, s in enumerate(starts) if f"/{s}" in f"/{file}"), len(starts))
            if test in self.broken or (rank == len(starts) and file not in files):
                continue
            seen[file] += 1
            is_near = test in self.reached[fault["number"]]
            ranked.append((0 if is_near else seen[file] + 20 * rank, test))
        chosen, total = [], 0.0
        for _, test in sorted(ranked):
            total += self.seconds.get(test, self.mean[test.split("::")[0]])
            if total < budget:
                chosen.append(test)
        return chosen

    def thorough(self, fault: dict[str, Any], budget: float) -> dict[str, Any]:
        """A verdict of many tests; a test that fails without the fault, too, is left out."""
        chosen, took = self.of_family(fault, budget), 0.0
        while True:
            row = self.verdict(fault, budget, chosen)
            took += row["took"]
            if row["status"] != "caught" or self.passes(row["by"]):
                return row | {"took": round(took, 1)}
            self.broken.add(row["by"])
            chosen = [t for t in chosen[chosen.index(row["by"]) :] if t not in self.broken]

    def passes(self, test: str) -> bool:
        """Whether a test passes without a fault, in this build and at this time."""
        child, row = Child([self.items[test]], True), {}
        while more := child.line(PATIENCE + SLOW):
            row = more
        child.end()
        return "ended" in row and not row["why"]

    def verdict(
        self, fault: dict[str, Any], budget: float, given: list[str] | None = None
    ) -> dict[str, Any]:
        begin, chosen = time.time(), self.order(fault, budget) if given is None else given
        result = {**fault, "tests": len(chosen), "of": len(self.reached[fault["number"]])}
        if not chosen:
            status = "survived" if result["of"] else "not reached"
            return {**result, "status": status, "by": "", "how": "", "took": 0}
        MEMORY[4:] = bytes(BYTES - 4)
        MEMORY[:4] = fault["number"].to_bytes(4, "little")
        child, at, why = Child([self.items[t] for t in chosen], True), 0, ""
        wait, ended = PATIENCE, -1
        while not why:
            row = child.line(wait)
            if row is None:
                why = "stood still"
            elif not row:
                why = "" if ended == len(chosen) - 1 else "the process died"
                break
            elif "begins" in row:
                at = row["begins"]
                wait = PATIENCE + 20 * self.seconds.get(chosen[at], 1)
            else:
                ended, why = row["ended"], row["why"]
        child.end()
        is_reached = bool(MEMORY[4 + fault["number"]]) or result["of"] > 0
        MEMORY[:4] = bytes(4)
        if why:
            self.kills[fault["file"]][chosen[at]] += 1
            self.kills[fault["file"]][chosen[at].split("::")[0]] += 1
        return {
            **result,
            "status": "caught" if why else "survived" if is_reached else "not reached",
            "by": chosen[at] if why else "",
            "how": why,
            "took": round(time.time() - begin, 1),
        }


def judged(items: list[pytest.Item], until: float, budget: float, is_again: bool) -> None:
    """Appends what becomes of each fault; again: of those that few tests have not caught."""
    judge, faults = Judge(items), json.loads((TREE / "faults.json").read_text())
    path = TREE / ("again.jsonl" if is_again else "results.jsonl")
    known = {row["number"] for row in read(path)}
    done = Counter(row["status"] for row in read(path))
    while time.time() < until:
        first = {r["number"]: r["status"] for r in read(TREE / "results.jsonl")}
        left = [
            f
            for f in faults
            if f["number"] not in known
            and (not is_again or first.get(f["number"], "caught") != "caught")
        ]
        if not left:
            break
        row = judge.thorough(left[0], budget) if is_again else judge.verdict(left[0], budget)
        known.add(row["number"])
        done[row["status"]] += 1
        append(path, row)
        said = f"{row['status']:11} {row['took']:5} s {row['number']} {row['place']} {row['old']!r}"
        print(said, row["by"][-60:], dict(done), file=sys.__stderr__, flush=True)


def pytest_configure() -> None:
    """Imports the interpreted kernels that mutate.py has built, once for all children."""
    if (TREE / "simt.so").exists():
        simt_build = importlib.import_module("simt_build")
        simt_build.built = lambda _: TREE / "simt.so"
        simt_build.module()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """CUDML_WAKE: the step, its minutes, and how many seconds of tests a fault meets."""
    step, minutes, *more = os.environ["CUDML_WAKE"].split()
    until = time.time() + 60 * float(minutes)
    capture = session.config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.suspend_global_capture(in_=True)
    if step == "map":
        mapped(session.items, until)
    else:
        budget = float(more[0]) if more else 120 if step == "again" else FIRST_BUDGET
        judged(session.items, until, budget, step == "again")
    return True
