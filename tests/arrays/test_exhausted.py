"""Calls while memory is exhausted: MemoryError and nothing else, every tensor is deleted once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from array_support import child, child_says
from folders import ROOT

# Fails the `countdown`-th allocation of C++ from now on, and all after it until it is negative.
HOOK = """
#include <cstdlib>
#include <new>

extern "C" { long countdown = -1; }

void* operator new(std::size_t size) {
  if (countdown == 0) throw std::bad_alloc();
  if (countdown > 0) --countdown;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
"""

SCRIPT = """
import ctypes, sys
import numpy as np
from cudml import _operators
from exporters import Exporter

countdown = ctypes.c_long.in_dll(ctypes.CDLL(sys.argv[1]), 'countdown')
x = np.random.default_rng(1).random((1, 2, 9, 9), 'float32')
scale = np.ones((1, 2, 1, 1), 'float32')
want = _operators.mean_variance_normalization(x, scale, axes=(2, 3))

def fails_at(n, is_versioned):
    given = [Exporter(a, is_versioned) for a in (x, scale, np.zeros_like(x))]
    failed = False
    countdown.value = n
    try:
        _operators.mean_variance_normalization(given[0], given[1], axes=(2, 3), out=given[2])
    except MemoryError:
        failed = True
    finally:
        countdown.value = -1
    deleted = [export.deleted for a in given for export in a.exports]
    assert deleted == [1] * len(deleted) and all(a.is_settled() for a in given), (n, deleted)
    assert np.array_equal(given[2].array, np.zeros_like(x) if failed else want), n
    return failed

for is_versioned in (True, False):
    n = 0
    while fails_at(n, is_versioned):
        n += 1
    assert 3 <= n < 1000, n
print('ok')
"""


@pytest.mark.bug("RUN-08")
def test_every_allocation_of_a_call_fails_in_turn(tmp_path: Path) -> None:
    source, hook = tmp_path / "hook.cpp", tmp_path / "hook.so"
    source.write_text(HOOK)
    compiler = os.environ.get("CXX", "c++").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", hook, source], check=True)
    assert child_says(SCRIPT, str(hook), LD_PRELOAD=str(hook)) == "ok"


FIRST = """
import os, sys
import _testcapi
import numpy as np
import cudml
from cudml import _operators
from cudml.directml import BufferTensorDesc, Padding1OperatorDesc

class Lender:
    def __dlpack_device__(self):
        return 1, 0
    def __dlpack__(self, **how):
        return x.__dlpack__(**how)

ints = lambda n: BufferTensorDesc('INT32', [n])
pad = cudml.Operator(Padding1OperatorDesc(
    InputTensor=ints(2), OutputTensor=ints(4), PaddingMode='EDGE', PaddingValueDataType='INT32',
    PaddingValue=0, StartPadding=[2], EndPadding=[0])).compile('cpu')
x, y, lender = np.array([1, 2], 'i4'), np.empty(4, 'i4'), Lender()
np.iscomplexobj(x), _operators.padding(x, 2, 0, mode='edge', out=y)  # what is imported late is
import cudml._libraries
call = {
    'keywords': lambda: pad(x, out=y),
    'capsules': lambda: _operators.padding(lender, 2, 0, mode='edge', out=y),
    'dtypes': lambda: _operators.max_pooling(x, 1, axes=0, index_dtype=lender),
}[sys.argv[1]]

for n in range(200):
    pid = os.fork()
    if pid:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, (n, status)
        continue
    try:
        _testcapi.set_nomemory(n, n + 4)
        try:
            call()
        finally:
            _testcapi.remove_mem_hooks()
    except BaseException:
        pass  # of other libraries, too, which have words of their own
    os._exit(0)
print('ok')
"""


@pytest.mark.bug("RUN-08")
@pytest.mark.parametrize("case", ["keywords", "capsules", "dtypes"])
def test_allocations_of_a_processs_first_call_fail_in_turn(case: str) -> None:
    """Names of attributes and keywords are made then."""
    pytest.importorskip("_testcapi")
    done = child(FIRST, case)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.bug("RUN-08")
def test_every_allocation_of_python_fails_in_turn() -> None:
    """The campaign's: of calls, of lowering, compiling and calling, and of results to import."""
    command = [sys.executable, ROOT / "tests" / "campaign" / "faults.py", "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    calls, last = re.findall(r"(\d+) calls with a fault, of problems 0 to (-?\d+)", done.stdout)[0]
    assert int(calls) > 100 and int(last) >= 0
