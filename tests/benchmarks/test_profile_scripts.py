"""The scripts that need a GPU or a profiler, run without one, and what they do with numbers."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cudml
from folders import ROOT
from harness import dtype_of

BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = ("nsys", "ncu")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


profile_cases = loaded("profile_cases")
CASES = profile_cases.CASES


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH that holds what the scripts call, and no profiler."""
    for name in ("bash", "dirname", "mktemp", "rm"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def script(name: str, programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The script where no GPU is visible."""
    return subprocess.run(
        ["bash", str(BENCHMARKS / name), *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            "PATH": str(programs),
            "PYTHON": sys.executable,
            "CUDA_VISIBLE_DEVICES": "-1",
            "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
        },
    )


def refuses(done: subprocess.CompletedProcess[str], *fragments: str) -> None:
    """Status 2 and one line on standard error."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for fragment in fragments:
        assert fragment in done.stderr


@pytest.mark.parametrize("profiler", SCRIPTS)
def test_without_a_profiler(profiler: str, programs: Path) -> None:
    done = script(f"profile_{profiler}.sh", programs, "layer-norm")
    refuses(done, f"profile_{profiler}: {profiler} (Nsight", "is not on PATH")


@pytest.mark.parametrize("profiler", SCRIPTS)
def test_without_a_gpu(profiler: str, programs: Path) -> None:
    fake = programs / profiler
    fake.write_text("#!/bin/sh\nexit 9\n")
    fake.chmod(0o755)
    done = script(f"profile_{profiler}.sh", programs, "layer-norm")
    refuses(done, f"profile_{profiler}: no NVIDIA GPU: the driver")


@pytest.mark.parametrize("profiler", SCRIPTS)
def test_without_a_case(profiler: str, programs: Path) -> None:
    done = script(f"profile_{profiler}.sh", programs, "no-such-case")
    refuses(done, "there is no case 'no-such-case'", *CASES)


@pytest.mark.parametrize("name", ["profile_nsys.sh", "profile_ncu.sh", "validate_gpu.sh"])
def test_without_python(name: str, programs: Path) -> None:
    done = subprocess.run(
        ["bash", str(BENCHMARKS / name), "layer-norm"],
        capture_output=True,
        text=True,
        env={"PATH": str(programs), "PYTHON": "no-python"},
    )
    refuses(done, "no-python is not on PATH")


def test_validation_without_a_gpu(programs: Path) -> None:
    refuses(script("validate_gpu.sh", programs), "validate_gpu: no NVIDIA GPU: the driver")


def test_cases_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "profile_cases.py"), "list"],
        capture_output=True,
        text=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(CASES)


def test_every_operator_has_a_case() -> None:
    assert {case.op for case in CASES.values()} == {
        "average_pooling",
        "average_pooling_grad",
        "lp_pooling",
        "max_pooling",
        "max_pooling_grad",
        "mean_variance_normalization",
        "padding",
    }


def described(case: Any) -> dict[str, np.ndarray]:
    """The case's arrays without their memory; channels-last ones are not described as such."""

    def of(shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(np.zeros((), dtype_of(case.dtype)), shape)

    arrays = {} if case.op == "average_pooling_grad" else {"x": of(case.shape)}
    arrays |= {name: of(case.vectors) for name in ("scale", "bias") if case.vectors}
    return arrays | ({"grad": of(case.grad)} if case.grad else {})


@pytest.mark.parametrize("name", CASES)
def test_cases_can_be_explained(name: str) -> None:
    case = CASES[name]
    if case.dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")
    kwargs = dict(case.kwargs)
    if case.op == "average_pooling_grad":
        kwargs["input_sizes"] = case.shape
    said = cudml.explain(case.op, **described(case), **kwargs, device="sm_90")
    assert said.bytes > 0 and said.kernel


RAW_PAGE = """==PROF== Connected to process 4242
==PROF== Disconnected from process 4242
"ID","Process ID","Kernel Name","Block Size","dram__bytes_read.sum","dram__bytes_write.sum"
"","","","","byte","byte"
"0","4242","void cudml::cuda::partial_kernel<float>(Plan)","(256, 1, 1)","1,000","50"
"1","4242","void cudml::cuda::apply_kernel<float>(Plan)","(256, 1, 1)","1,000","900"
"2","4242","void cudml::cuda::partial_kernel<float>(Plan)","(256, 1, 1)","1000","150"
"3","4242","void cudml::cuda::apply_kernel<float>(Plan)","(256, 1, 1)","1000","900"
"""


def test_ratio_of_measured_to_compulsory_bytes() -> None:
    facts = {"case": "some", "kernel": "mvn_split", "calls": 2, "bytes": 2000}
    head, first, second, both = profile_cases.ratios(RAW_PAGE.splitlines(), facts)
    assert head == "some: mvn_split, 2000 compulsory bytes of a call"
    assert first.split() == ["1100", "bytes", "0.550", "void", "cudml::cuda::partial_kernel<float>"]
    assert second.split()[:3] == ["1900", "bytes", "0.950"]
    assert both.split()[:3] == ["3000", "bytes", "1.500"]


def test_ratio_without_a_kernel() -> None:
    facts = {"case": "some", "kernel": "pad_rows", "calls": 2, "bytes": 2000}
    assert profile_cases.ratios([], facts) == ["some: the profiler recorded no kernel"]


VALIDATION = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import run

facts = {"device": "A GPU (1)", "compute_capability": "9.0", "multiprocessors": 2, "l2_bytes": 1,
         "memory_bytes": 2**33, "driver": "580.1", "toolkit": "13.0.88", "commit": "0123456789ab"}
run.gpu.facts = lambda: dict(facts)
python = [sys.executable, "-c"]
found = {"cases": [{"case": "c", "status": "passed"}]}
write = "import json, os; open(os.environ['CUDML_STEP_JSON'], 'w').write(json.dumps({}))".format
run.steps = lambda: [
    run.Step("build", "fails", [*python, "print('a reason'); raise SystemExit(3)"], 20),
    run.Step("large", "passes", [*python, write(found)], 20),
    run.Step("sanitizer", "hangs", [*python, "import time; time.sleep(60)"], 1),
    run.Step("parity", "is not there", ["/nowhere/program"], 20),
]
sys.argv = ["run", "--output", sys.argv[2]]
sys.exit(run.main())
"""


@pytest.mark.long
def test_validation_continues_past_failed_steps(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VALIDATION, str(BENCHMARKS / "validate_gpu"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    stem = "validate_gpu-a-gpu-1-0123456789"
    said = json.loads((tmp_path / f"{stem}.json").read_text())
    status = {step["name"]: step["status"] for step in said["steps"]}
    assert status == {
        "build": "failed",
        "large": "passed",
        "sanitizer": "timed out",
        "parity": "failed",
    }
    text = (tmp_path / f"{stem}.txt").read_text()
    for fragment in ("A GPU (1)", "580.1", "13.0.88", "0123456789ab", "! a reason", "c     "):
        assert fragment in text


def test_validation_stays_below_eight_minutes() -> None:
    says = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import run; print(sum(step.limit for step in run.steps()), run.MOST_SECONDS)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", says, str(BENCHMARKS / "validate_gpu")],
        capture_output=True,
        text=True,
        check=True,
    )
    limits, most = map(int, done.stdout.split())
    assert limits <= most <= 480 - 8  # and the time to stop the last one
