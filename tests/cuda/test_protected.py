"""The campaign's random calls on the interpreted kernels: arrays lie against protected pages.

Every input, `scale`, `bias`, gradient and output begins or ends at a page that may not be touched,
or lies a few elements past one: empty ones, broadcast, overlapping and permuted ones, with gaps.
"""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from array_support import child, child_says
from folders import ROOT

FAMILIES = ("pooling", "gradients", "padding", "normalization")
FOLDER = str(ROOT / "tests" / "campaign")
CALLS = """
import sys
sys.path.insert(0, sys.argv[1])
import check, worker
bench = check.Bench()
for number in range(int(sys.argv[3])):
    print('--device --family', sys.argv[2], '--case', f'1:{number}', flush=True)
    fault = worker.fault(sys.argv[2], 1, number, bench)
    if fault:
        sys.exit(fault)
print('done', bench.calls)
"""
# One row more than there is before the page, on the other side of an array, or none.
BEYOND = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import cudml, device, pages, simt_build
from cudml import _backend
_backend.core = simt_build.module()
rows, at = int(sys.argv[2]), sys.argv[3]
layout = pages.Layout((1, 1, 8, 16), (128, 128, 16, 1), at)
room = pages.Room(2)
placed = room.place(layout, np.dtype('f4'))
placed.view[...] = 1
x = device.lent(placed)
x.shape = (1, 1, 8 + rows, 16)
if at == 'start':
    x.offset -= rows * 64
out = device.lent(pages.Room(2).place(pages.Layout((1, 1, 4, 8), (32, 32, 8, 1)), np.dtype('f4')))
if rows:
    out = out.copy_of(np.empty((1, 1, 5, 8), 'f4'))
cudml.max_pooling(x, 2, 2, out=out)
print('done')
"""


@pytest.mark.bug("MEM-08")
@pytest.mark.parametrize("family", FAMILIES)
def test_random_calls_beside_protected_pages(simulated: Any, family: str) -> None:
    """No load or store of a kernel touches a byte outside the span of an array's elements."""
    said = child_says(CALLS, FOLDER, family, "250", limit=300, CUDML_CAMPAIGN_DEVICE="1")
    calls = re.fullmatch(r"done (\d+)", said.splitlines()[-1])
    assert calls and int(calls[1]) == 250


@pytest.mark.parametrize(("at", "rows"), [("end", 0), ("start", 0), ("end", 2), ("start", 2)])
def test_kernels_that_read_beyond_end_the_process(simulated: Any, at: str, rows: int) -> None:
    """What the test above relies on: the pages are the simulated device's, too."""
    done = child(BEYOND, FOLDER, str(rows), at)
    assert done.returncode == (-signal.SIGSEGV if rows else 0), done.stderr
