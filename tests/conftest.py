"""Fixtures, markers and hooks of the whole suite: back ends, rules that ran, tests skipped."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import harness
import rules

DOCUMENT = Path(__file__).parent.parent / "docs" / "semantics.md"
OPTIONAL = ("ml_dtypes", "torch", "cupy", "jax", "numba", "onnxruntime", "PIL", "matplotlib")
MARKERS = (
    "decision(*ids): the rules of docs/semantics.md that the test holds",
    "bug(*ids): the rows of the table of peers' bugs that the test holds",
    "core: runs again on every instruction set",
    "small: small enough for the interpreter of CUDA kernels",
)
ran_rules = pytest.StashKey[set[str]]()

settings.register_profile("suite", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "suite")

BACKENDS = {"cpu": harness.CPU}


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[harness.Backend]:
    """Where the operators run; harness.check() follows it. Only "cuda" may skip."""
    with harness.using(BACKENDS[request.param]) as current:
        yield current


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.stash[ran_rules] = set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hands each test's rules to its report, and puts the comparison of the rules last."""
    for item in items:
        ids = [i for mark in item.iter_markers("decision") for i in mark.args]
        item.user_properties.extend(("decision", i) for i in ids)
    items.sort(key=lambda item: item.name == "test_every_rule_ran")


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class _Recorder:
    """Collects the rules of tests that ran; with xdist the main process sees every report."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not report.skipped:
            found = (v for k, v in report.user_properties if k == "decision")
            self.config.stash[ran_rules].update(found)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Recorder(session.config), "rules that ran")


def why_partial(config: pytest.Config) -> str:
    """Why this run cannot be expected to hold every rule, or nothing."""
    option = config.option
    if option.keyword or option.markexpr or getattr(option, "lf", False):
        return "a selection of tests (-k, -m or --lf) is run"
    if option.deselect or option.ignore or option.ignore_glob:
        return "tests are left out (--deselect or --ignore)"
    chosen = [Path(str(a).split("::")[0]).resolve() for a in config.args]
    if any("::" in str(a) for a in config.args) or Path(__file__).parent not in {
        *chosen, *(p / "tests" for p in chosen)
    }:  # fmt: skip
        return "a selection of files is run"
    if option.maxfail and option.maxfail > 0:
        return "the run stops at failures (-x or --maxfail)"
    if not DOCUMENT.exists():
        return "docs/semantics.md is not there"
    return ""


@pytest.fixture
def rules_problem(request: pytest.FixtureRequest) -> str:
    """What is wrong between docs/semantics.md and the rules that ran; skips in a partial run."""
    if _is_worker(request.config):
        pytest.skip("rules are compared in the main process, at the end of the session")
    reason = why_partial(request.config)
    if reason:
        pytest.skip(f"rules are not compared: {reason}")
    return rules.problem(DOCUMENT.read_text(), request.config.stash[ran_rules])


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With xdist, compares the rules once every worker has reported."""
    config = session.config
    parallel = getattr(config.option, "numprocesses", None) and not _is_worker(config)
    if not parallel or why_partial(config):
        return
    problem = rules.problem(DOCUMENT.read_text(), config.stash[ran_rules])
    if problem:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        if reporter:
            reporter.write_line(f"\nrules: {problem}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    texts = [r.longrepr[2] if isinstance(r.longrepr, tuple) else str(r.longrepr) for r in skipped]
    reasons = Counter(text.removeprefix("Skipped: ") for text in texts)
    write = terminalreporter.write_line
    write(f"skipped: {len(skipped)}")
    for reason, count in reasons.most_common():
        write(f"  {count} x {reason}")
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    write("not tested with, because not installed: " + (", ".join(missing) or "nothing"))
    partial = why_partial(config)
    write(
        f"rules of docs/semantics.md that ran: {len(config.stash[ran_rules])}"
        + (f" (not compared with the document: {partial})" if partial else "")
    )
