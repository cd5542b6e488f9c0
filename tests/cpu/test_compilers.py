"""The CPU's loops have the same bits, whichever compiler made them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from folders import ROOT


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="compared on x86-64-v3"
)
@pytest.mark.skipif(
    not os.environ.get("CUDML_SECOND_COMPILER"),
    reason="minutes: CUDML_SECOND_COMPILER=clang++-16 asks for it",
)
def test_bits_of_two_compilers() -> None:
    """Every path over short cases, through the caches and past them."""
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tools" / "second_compiler.py"),
            os.environ["CUDML_SECOND_COMPILER"],
        ],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.count("results have the same bits") == 2
    ran = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert {"mvn/rows", "pad/packed", "pool/strips", "winners/strips", "pool_grad/max_rows"} <= ran
