"""Fixtures, markers and hooks of the whole suite: back ends, rules that ran, tests skipped."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import inspect
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import backends
import cells
import rules
import shares
from cudml import _backend

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "semantics.md"
MOST_WORKERS = 8  # each holds arrays of some hundreds of megabytes at times
OPTIONAL = ("ml_dtypes", "onnxruntime", "PIL", "matplotlib")
ARRAY_LIBRARIES = ("torch", "jax", "cupy", "numba")
MARKERS = (
    "decision(*ids): the rules of docs/semantics.md that the test holds",
    "bug(*ids): the rows of the table of peers' bugs that the test holds",
    "cell(row, *columns): the cells of the README's table of libraries that the test backs",
    "core: runs again on every instruction set and in every build of the CUDA kernels' interpreter",
    "device(*names): runs on the back ends that have CUDA kernels, simt and cuda, or on these",
    "long: takes many seconds; one share of the suite has it",
    "small: runs on every back end; what is too large for the kernels' interpreter stays behind",
    "whole: every share of the suite has all its variants",
)
ran_rules = pytest.StashKey[set[str]]()
ran_kernels = pytest.StashKey[set[str]]()
ran_cells = pytest.StashKey[set[cells.Cell]]()
# What takes ten seconds and more begins first, so that no worker is left alone with it at the end.
FIRST = (
    *("tests/cpu/test_isa.py", "tests/library/test_hostile.py", "tests/meta/test_campaign.py"),
    *("tests/torch/test_aot_inductor.py", "tests/torch/test_compile.py", "tests/cuda/test_simt.py"),
    *("tests/torch/test_opinfo.py", "tests/meta/test_cli.py", "tests/batch/test_bits.py"),
)
LAST = ("test_every_rule_ran", "test_every_kernel_ran", "test_every_cell_ran")

# Workers share a GPU, of whose memory JAX would take three quarters in each.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

settings.register_profile("suite", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        default="",
        help="back ends, comma-separated: cpu, simt (CUDA's kernels, interpreted), cuda; "
        "the first two and, on a machine with a GPU, the third where not given",
    )
    parser.addoption(
        "--share",
        default="",
        metavar="K/N",
        help="the K-th of N parts of every test's variants: 1/1 is all. A run of everything takes "
        f"{shares.USUAL} where not given, a selection of tests or files all of its own",
    )


def chosen_share(config: pytest.Config) -> shares.Share:
    given = config.getoption("--share")
    if given:
        return shares.parsed(given)
    return shares.ALL if why_selection(config) else shares.USUAL


def chosen_backends(config: pytest.Config) -> list[str]:
    given = config.getoption("--backend")
    if not given:
        return ["cpu", "simt", *([] if backends.why_no_cuda() else ["cuda"])]
    names = given.split(",")
    for name in names:
        if name not in backends.BACKENDS:
            raise pytest.UsageError(f"--backend: {name!r} is none of cpu, simt, cuda")
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked small, and those that take a back end, run on each of the chosen ones."""
    chosen = chosen_backends(metafunc.config)
    device = metafunc.definition.get_closest_marker("device")
    if device:
        chosen = list(device.args) or [name for name in chosen if name != "cpu"]
    elif "backend" not in inspect.signature(metafunc.function).parameters:
        chosen = chosen if metafunc.definition.get_closest_marker("small") else []
        if not chosen:
            return
    metafunc.parametrize("backend", chosen, indirect=True)


@pytest.fixture(autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[backends.Backend]:
    """Where the operators run; harness.check() and cudml's functions follow it.

    "cuda" may skip, and what --backend leaves out. A test that asks nothing of its back end must
    not be marked small.
    """
    chosen = backends.BACKENDS[getattr(request, "param", "cpu")]
    if chosen is backends.CUDA and backends.why_no_cuda():
        pytest.skip(backends.why_no_cuda())
    if chosen is not backends.CPU and chosen.name not in chosen_backends(request.config):
        pytest.skip(f"--backend leaves {chosen.name} out")
    before = backends.calls[chosen.name] + backends.left[chosen.name]
    with backends.using(chosen):
        yield chosen
    asked = backends.calls[chosen.name] + backends.left[chosen.name] > before
    failed = getattr(request.node, "failed", False)
    assert asked or failed or chosen is backends.CPU, f"nothing was asked of {chosen.name}"


@pytest.fixture
def simulated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module device_array, while the build with the simulated device runs the operators."""
    if "simt" not in (request.config.getoption("--backend") or "simt"):
        pytest.skip("--backend leaves simt out")
    monkeypatch.setattr(_backend, "core", backends.simt())
    return importlib.import_module("device_array")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Notes failures, for the fixture above, and the kernels that a test was first to launch."""
    if call.when == "call":
        item.failed = call.excinfo is not None  # type: ignore[attr-defined]
    simulated = sys.modules.get("cudml._simt")
    if call.when == "teardown" and simulated:
        new = set(simulated.launched_kernels()) - item.config.stash[ran_kernels]
        item.config.stash[ran_kernels] |= new
        item.user_properties.extend(("kernel", name) for name in new)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.stash[ran_rules] = set()
    config.stash[ran_kernels] = set()
    config.stash[ran_cells] = set()
    chosen_backends(config)
    config.option.share = str(chosen_share(config))  # workers find the same in the same words


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the share's tests, hands each one's rules to its report, and puts what looks back on
    the others last."""
    taken = shares.chosen(items, shares.of(config))
    if len(taken) < len(items):
        kept = set(taken)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = taken
    for item in items:
        ids = [i for mark in item.iter_markers("decision") for i in mark.args]
        item.user_properties.extend(("decision", i) for i in ids)
        for row, *columns in (mark.args for mark in item.iter_markers("cell")):
            item.user_properties.extend(("cell", f"{row}|{column}") for column in columns)
    first: dict[tuple[str, str], int] = {}
    for place, item in enumerate(items):
        first.setdefault(shares.without_backend(item), place)

    def order(item: pytest.Item) -> tuple[bool, bool, int]:
        is_short = item.nodeid.partition("::")[0] not in FIRST
        return item.name in LAST, is_short, first[shares.without_backend(item)]

    items.sort(key=order)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What has been imported and collected stays: tests that collect garbage need not look at it.

    Without this each gc.collect() of a test walks some millions of objects, for a second or more.
    """
    gc.collect()
    gc.freeze()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process for each processor where everything runs; none but this one for a selection."""
    return 0 if why_partial(config) else min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class _Recorder:
    """Collects rules and kernels that ran; with xdist the main process sees every report."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not report.skipped:
            found = (v for k, v in report.user_properties if k == "decision")
            self.config.stash[ran_rules].update(found)
            backed = (v.split("|") for k, v in report.user_properties if k == "cell")
            self.config.stash[ran_cells].update((row, column) for row, column in backed)
        if report.when == "teardown":
            found = (v for k, v in report.user_properties if k == "kernel")
            self.config.stash[ran_kernels].update(found)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Builds what all processes of a whole run import, before any of them waits for it."""
    config = session.config
    config.pluginmanager.register(_Recorder(config), "rules that ran")
    if _is_worker(config) or why_partial(config) or why_no_kernels(config):
        return
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter:
        reporter.write_line("building cudml._simt, the CUDA kernels for the host: at most minutes")
    importlib.import_module("simt_build").built("plain")


def why_selection(config: pytest.Config) -> str:
    """Which tests were asked for, where not all were, or nothing."""
    option = config.option
    if option.keyword or option.markexpr or getattr(option, "lf", False):
        return "a selection of tests (-k, -m or --lf) is run"
    chosen = [Path(str(a).split("::")[0]).resolve() for a in config.args]
    if any("::" in str(a) for a in config.args) or Path(__file__).parent not in {
        *chosen, *(p / "tests" for p in chosen)
    }:  # fmt: skip
        return "a selection of files is run"
    return ""


def why_partial(config: pytest.Config) -> str:
    """Why this run cannot be expected to hold every rule, or nothing."""
    option = config.option
    if option.deselect or option.ignore or option.ignore_glob:
        return "tests are left out (--deselect or --ignore)"
    if option.maxfail and option.maxfail > 0:
        return "the run stops at failures (-x or --maxfail)"
    if not DOCUMENT.exists():
        return "docs/semantics.md is not there"
    return why_selection(config)


@pytest.fixture
def rules_problem(request: pytest.FixtureRequest) -> str:
    """What is wrong between docs/semantics.md and the rules that ran; skips in a partial run."""
    if _is_worker(request.config):
        pytest.skip("rules are compared in the main process, at the end of the session")
    reason = why_partial(request.config)
    if reason:
        pytest.skip(f"rules are not compared: {reason}")
    return rules.problem(DOCUMENT.read_text(), request.config.stash[ran_rules])


def idle_kernels(config: pytest.Config) -> str:
    """The kernels of the library that no test launched, or nothing."""
    idle = sorted(set(backends.simt().all_kernels()) - config.stash[ran_kernels])
    return f"{len(idle)} kernels never ran: {'; '.join(idle)}" if idle else ""


@pytest.fixture
def kernels_problem(request: pytest.FixtureRequest) -> str:
    """Which kernels did not run in this session; skips in a partial run."""
    config = request.config
    if _is_worker(config):
        pytest.skip("kernels are counted in the main process, at the end of the session")
    reason = why_partial(config) or why_no_kernels(config)
    if reason:
        pytest.skip(f"kernels are not counted: {reason}")
    return idle_kernels(config)


def table_problem(config: pytest.Config) -> str:
    readme, validation = (ROOT / name for name in ("README.md", "VALIDATION.md"))
    has_simulation = "simt" in chosen_backends(config)
    said = validation.read_text() if validation.exists() else ""
    return cells.problem(readme.read_text(), said, config.stash[ran_cells], has_simulation)


@pytest.fixture
def cells_problem(request: pytest.FixtureRequest) -> str:
    """What is wrong between the README's table of libraries and the tests that ran."""
    config = request.config
    if _is_worker(config):
        pytest.skip("cells are compared in the main process, at the end of the session")
    reason = why_partial(config)
    if reason:
        pytest.skip(f"cells are not compared: {reason}")
    return table_problem(config)


def why_no_kernels(config: pytest.Config) -> str:
    return "" if "simt" in chosen_backends(config) else "--backend leaves simt out"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With xdist, looks back once every worker has reported."""
    config = session.config
    parallel = getattr(config.option, "numprocesses", None) and not _is_worker(config)
    if not parallel or why_partial(config):
        return
    problem = rules.problem(DOCUMENT.read_text(), config.stash[ran_rules])
    found = [f"rules: {problem}"] if problem else []
    wrong = table_problem(config)
    found += [f"README.md: {wrong}"] if wrong else []
    idle = "" if why_no_kernels(config) else idle_kernels(config)
    found += [idle] if idle else []
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    for line in found:
        if reporter:
            reporter.write_line(f"\n{line}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    texts = [r.longrepr[2] if isinstance(r.longrepr, tuple) else str(r.longrepr) for r in skipped]
    reasons = Counter(text.removeprefix("Skipped: ") for text in texts)
    write = terminalreporter.write_line
    write(f"skipped: {len(skipped)}")
    for reason, count in reasons.most_common():
        write(f"  {count} x {reason}")
    share = shares.of(config)
    if not share.is_all:
        write(f"share {share} of the variants of each test ran; --share 1/1 runs all")
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    write("not tested with, because not installed: " + (", ".join(missing) or "nothing"))
    chosen = chosen_backends(config)
    idle = "" if "cuda" in chosen else backends.why_no_cuda() or "--backend leaves it out"
    write(f"back ends: {', '.join(chosen)}" + (f" (cuda did not run: {idle})" if idle else ""))
    partial = why_partial(config)
    write(
        f"rules of docs/semantics.md that ran: {len(config.stash[ran_rules])}"
        + (f" (not compared with the document: {partial})" if partial else "")
    )
    for name in ARRAY_LIBRARIES:
        if importlib.util.find_spec(name) is None:
            write(f"not tested: {name} is not installed")
