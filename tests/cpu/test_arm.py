"""The CPU back end for aarch64, cross-compiled and emulated: every path over short cases."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

import pytest

from folders import ROOT

TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64")
# The paths that vectors of 16 bytes take; those of wider ones have no use there.
PATHS = {
    *("mvn/tiles", "mvn/short_rows", "mvn/rows", "mvn/columns", "mvn/plain"),
    *("mvn_grad/copied", "mvn_grad/side_by_side", "mvn_grad/columns", "mvn_grad/rows"),
    "mvn_grad/turned",
    *("mvn_grad/short_planes", "mvn_grad/planes", "mvn_grad/plain"),
    *("pad/packed", "pad/plain", "winners/turned", "winners/plain_pairs", "winners/pairs"),
    *("winners/lane_taps", "winners/strips"),
    *("winners/side_by_side", "winners/plain", "pool/taps", "pool/lane_thirds"),
    *("pool/plane_thirds", "pool/packed_planes", "pool/fourths", "pool/pairs", "pool/strips"),
    *("pool/short_planes", "pool/planes", "pool/side_by_side", "pool/plain"),
    *("pool_grad/max_rows", "pool_grad/max_pairs", "pool_grad/max_side_by_side"),
    *("pool_grad/max_scatter", "pool_grad/average_gather"),
    *("pad/turned", "winners/copied", "pool_grad/max_copied"),
    *("pool_grad/lp_planes", "pool_grad/lp_side_by_side", "pool_grad/lp_rows"),
    *("pool_grad/lp_gather", "unpool/lane_cells", "unpool/side_by_side"),
    *("unpool/plane_cells", "unpool/planes", "unpool/plain"),
    *("statistics/tiles", "statistics/columns", "statistics/rows", "statistics/plain"),
    *("normalize/rows", "normalize/columns", "normalize/plain"),
}


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="compared with the x86 build"
)
@pytest.mark.skipif(not os.environ.get("CUDML_ARM"), reason="minutes: CUDML_ARM=1 asks for it")
def test_paths_for_arm() -> None:
    """As the plain path, and as the x86 build's numbers; stores beyond a result are seen."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt install g++-aarch64-linux-gnu qemu-user")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "arm_program.py")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    ran = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert ran >= PATHS, PATHS - ran
