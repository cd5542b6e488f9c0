"""A few of the campaign's random calls on every instruction set, and that it sees what is planted.

Every array of these calls lies against a page that may not be touched: inputs, `scale` and `bias`,
gradients, indices and outputs, which have gaps of poison.
"""

from __future__ import annotations

import pytest

from array_support import child_says
from folders import ROOT
from tests.cpu.test_isa import LEVELS, here

CALLS = """
import sys
sys.path.insert(0, sys.argv[1])
import check, draw, worker
bench = check.Bench()
for family in draw.FAMILIES:
    for number in range(int(sys.argv[2])):
        print('--family', family, '--case', f'1:{number}', flush=True)  # where a crash happened
        fault = worker.fault(family, 1, number, bench)
        if fault:
            sys.exit(fault)
print('done')
"""
PLANTED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import check, cudml, pages, worker
from problem import Problem
padding = cudml.padding

def wrong(*args, out=None, **how):
    y = padding(*args, out=out, **how)
    if y.size and sys.argv[2] == 'value' and out is None:
        y.reshape(-1)[-1] ^= 1
    if y.size and sys.argv[2] == 'gap' and out is not None:
        end = sum((n - 1) * s for n, s in zip(y.shape, y.strides)) + y.itemsize
        beyond = np.ndarray(1, np.uint8, y.base, y.ctypes.data - bench.rooms['out0'].address + end)
        beyond[0] ^= 1
    if y.size and sys.argv[2] == 'input':
        how['x'].reshape(-1)[0] = 100
    return y

cudml.padding = wrong
bench = check.Bench()
at = pages.Layout((3, 4), (4, 1), 'start')
p = Problem('padding', {'x': at}, {'x': 'int32'},
            {'start_padding': (0, 0), 'end_padding': (0, 0), 'mode': 'edge'}, (at,))
print(worker.judged(p, bench))
"""


@pytest.mark.long
@pytest.mark.bug("MEM-08")
@pytest.mark.parametrize("level", LEVELS)
def test_random_calls_beside_protected_pages(level: str) -> None:
    if level not in here():
        pytest.skip(f"this processor has no {level}")
    folder = str(ROOT / "tests" / "campaign")
    assert child_says(CALLS, folder, "150", CUDML_CPU_ISA=level).splitlines()[-1] == "done"


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("none", ""),
        ("value", "is np.int32"),
        ("gap", "outside it, was written"),
        ("input", "is np.int32(100)"),
    ],
)
def test_planted_faults_are_found(fault: str, found: str) -> None:
    said = child_says(PLANTED, str(ROOT / "tests" / "campaign"), fault)
    assert found in said if found else not said
