"""Other interpreters than the main one, and what is said of the interpreter lock."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from array_support import child_says
from folders import IMPORTS

SUBINTERPRETER = """
import sys
try:
    from concurrent import interpreters as module  # from 3.14 on
    create = lambda: module.create().exec
except ImportError:
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    def create(**how):
        one = module.create(**how)
        return lambda text: module.run_string(one, text)

INSIDE = '''
import warnings
warnings.simplefilter("ignore")  # NumPy's own
for _ in range(2):
    try:
        import {name}
    except ImportError as error:
        print(error, flush=True)
'''
if sys.argv[2] == 'before':
    import cudml
create()(INSIDE.format(name=sys.argv[1]))
import cudml, numpy as np
assert cudml.max_pooling(np.ones((1, 1, 2, 2), 'f4'), 2).item() == 1
print('ok')
"""


@pytest.mark.parametrize("name", ["cudml", "cudml._core"])
@pytest.mark.parametrize("order", ["before", "after"])
def test_subinterpreters_are_told_and_do_not_wait(name: str, order: str) -> None:
    """An ImportError each time, whether or not the main interpreter has the module."""
    said = child_says(SUBINTERPRETER, name, order, limit=30).splitlines()
    assert said[-1] == "ok" and len(said) == 3, said
    assert all("subinterpreter" in line.replace("-", "") for line in said[:2]), said


def test_free_threaded_interpreters_keep_the_lock() -> None:
    """The module relies on it, and importing the module turns it on where it is off."""
    script = (
        "import sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import cudml\n"
        "print(getattr(sys, '_is_gil_enabled', lambda: True)())\n"
    )
    assert child_says(script) == "True"


# The interpreter is another thread's than the process's first one.
EMBEDDED = """
#include <Python.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
std::atomic<bool> is_ready{false}, is_called{false};
void interpret() {
  Py_Initialize();
  if (PyRun_SimpleString(
        "import numpy, cudml\\n"
        "x, y = numpy.zeros((2, 1, 12000, 12001), 'f4'), numpy.empty((2, 1, 1, 2), 'f4')\\n"
        "cudml.set_num_threads(2)\\n"))
    std::_Exit(2);
  PyThreadState* const state = PyEval_SaveThread();
  is_ready = true;
  while (!is_called) usleep(1000);
  usleep(30000);
  PyEval_RestoreThread(state);
  Py_FinalizeEx();
  usleep(300000);
  std::puts("ended");
  std::fflush(stdout);
  std::_Exit(0);
}
int main() {
  std::thread interpreter(interpret);
  while (!is_ready) usleep(1000);
  const PyGILState_STATE state = PyGILState_Ensure();
  is_called = true;
  PyRun_SimpleString("cudml.lp_pooling(x, (12000, 12000), p=3, out=y)");
  PyGILState_Release(state);
  std::puts("the call has not lasted");
  interpreter.join();
}
"""


def test_an_interpreter_ends_while_the_first_thread_is_in_a_call(tmp_path: Path) -> None:
    """That thread wants the lock back to look for signals, and waits for the process to end."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("there is no libpython to embed")
    source, program = tmp_path / "embedded.cpp", tmp_path / "embedded"
    source.write_text(EMBEDDED)
    folder = sysconfig.get_config_var("LIBDIR")
    words = [f"-I{sysconfig.get_path('include')}", source, f"-L{folder}", f"-Wl,-rpath,{folder}"]
    words += [f"-lpython{sysconfig.get_config_var('LDVERSION')}", "-pthread", "-o", program]
    subprocess.run([*os.environ.get("CXX", "c++").split(), "-std=c++17", *words], check=True)
    path = os.pathsep.join([*IMPORTS, *sys.path])
    done = subprocess.run(
        [program],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHOME": sys.base_prefix},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
