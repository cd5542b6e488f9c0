"""Compiled operators, plans and devices in their process: forks, exits, drivers, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from array_support import child, child_says
from folders import IMPORTS
from tests.bindings.test_process import BIG, TAKES_INTERRUPTS

# As BIG, with one compiled operator that has memory of its own.
OPERATOR = (
    BIG
    + """
from directml_support import operator, tensor
sizes, pooled = [4, 8, 96, 96], [4, 8, 95, 95]
run = operator('MaxPoolingGrad', InputTensor=tensor(sizes), InputGradientTensor=tensor(pooled),
               OutputGradientTensor=tensor(sizes)).compile('cpu')
rng = np.random.default_rng(1)
grads = [rng.standard_normal(s, dtype=np.float32) for s in (sizes, pooled)]
assert run.workspace_bytes > 0
"""
)
SIMULATED = """
import faulthandler, os, sys, threading
import numpy as np
import backends, cudml
from cudml import _backend, _operators
faulthandler.dump_traceback_later(50, exit=True)
x = np.arange(2 * 3 * 5 * 7, dtype=np.float32).reshape(2, 3, 5, 7)
want = cudml.max_pooling(x, 2)
core = _backend.core = backends.simt()
import device_array
there = device_array.InterfaceArray.copy_of(x)
def pool():
    return _operators.max_pooling(there, 2).home()
"""


@pytest.fixture
def simulated_device(request: pytest.FixtureRequest) -> None:
    """Built before a child needs it."""
    if "simt" not in (request.config.getoption("--backend") or "simt"):
        pytest.skip("--backend leaves simt out")
    import backends

    backends.simt()


FORKS = (
    OPERATOR
    + """
import signal
mode = sys.argv[1]
want = run(*grads) if mode != 'before' else None
stop = False
def operators():
    while not stop:
        run(*grads)
def plans():
    while not stop:
        cudml.clear_cache()
        big()
work = {'during calls': operators, 'among plans': plans}.get(mode)
workers = [threading.Thread(target=work, daemon=True) for _ in range(2 if work else 0)]
for worker in workers:
    worker.start()
for _ in range(8 if work else 2):
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        got = run(*grads)
        fresh = cudml.max_pooling_grad(*grads, 2)
        cudml.clear_cache()
        good = np.array_equal(got, fresh) and (want is None or np.array_equal(got, want))
        os._exit(0 if good else 3)
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 0, status
stop = True
print('ok')
"""
)


@pytest.mark.bug("RUN-09")
@pytest.mark.parametrize("mode", ["before", "after", "during calls", "among plans"])
def test_forks_with_compiled_operators_and_plans(mode: str) -> None:
    """Neither an operator's memory nor the plans stay locked by a thread that the child lacks."""
    done = child(FORKS, mode, PYTHONWARNINGS="ignore")
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stdout + done.stderr


@pytest.mark.bug("RUN-09")
def test_forks_after_the_device_was_used(simulated_device: None) -> None:
    """The child has no device: one clear error, again and again; the CPU and the parent go on."""
    script = SIMULATED + (
        "assert np.array_equal(pool(), want)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    texts = set()\n"
        "    for _ in range(3):\n"
        "        try:\n"
        "            pool()\n"
        "        except cudml.CudaError as error:\n"
        "            texts.add(str(error))\n"
        "            assert error.name == 'cudaErrorInitializationError', error.name\n"
        "    assert len(texts) == 1 and texts.pop().startswith('max_pooling: '), texts\n"
        "    _backend.core = cudml._core\n"
        "    assert np.array_equal(cudml.max_pooling(x, 2), want)\n"
        "    os._exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
        "assert np.array_equal(pool(), want)\n"
        "print('ok')\n"
    )
    done = child(script, PYTHONWARNINGS="ignore")
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stdout + done.stderr


@pytest.mark.bug("RUN-09")
def test_forks_before_the_device_was_used(simulated_device: None) -> None:
    """Importing asks nothing of the runtime, so that the child is the first to use it."""
    script = SIMULATED + (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if np.array_equal(pool(), want) else 3)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
        "assert np.array_equal(pool(), want)\n"
        "print('ok')\n"
    )
    assert child_says(script, PYTHONWARNINGS="ignore") == "ok"


EXITS = {
    "live": "",
    "in a cycle": "class Box: pass\nbox = Box(); box.me, box.kept = box, kept",
    "in a thread": "threading.Thread(target=lambda: [run(*grads) for _ in range(30)]).start()",
    "a daemon in a call": (
        "def forever():\n"
        "    while True:\n"
        "        run(*grads)\n"
        "threading.Thread(target=forever, daemon=True).start(); time.sleep(0.2)"
    ),
    "a daemon among plans": (
        "def forever():\n"
        "    while True:\n"
        "        cudml.clear_cache(); big()\n"
        "threading.Thread(target=forever, daemon=True).start(); time.sleep(0.2)"
    ),
    "daemons inside their library": (
        "class Slow(ByType):\n"
        "    def __dlpack__(self, **keywords):\n"
        "        time.sleep(0.002)\n"
        "        return super().__dlpack__(**keywords)\n"
        "def forever():\n"
        "    while True:\n"
        "        cudml.max_pooling(Slow(x[:1, :1, :4, :4]), 2)\n"
        "for _ in range(4):\n"
        "    threading.Thread(target=forever, daemon=True).start()\n"
        "time.sleep(0.1)"
    ),
    "at exit": "import atexit; atexit.register(lambda: run(*grads)); atexit.register(big)",
    "lent to another": "lent = np.from_dlpack(received[-1]); del kept",
    "an exception that holds them": "sys.last_value = ValueError(kept, run)",
}


@pytest.mark.bug("RUN-10")
@pytest.mark.parametrize("way", EXITS)
def test_the_interpreter_ends_quietly_with_operators_and_plans(way: str) -> None:
    script = OPERATOR + (
        "from tests.arrays.test_unknown import ByType, received\n"
        "kept = [run, run(*grads), big(), cudml.cache_info()]\n"
        "kept.append(cudml.max_pooling(ByType(x[:1]), 2))\n"
    )
    assert child_says(script + EXITS[way]) == ""


@pytest.mark.bug("RUN-10")
def test_the_interpreter_ends_quietly_with_a_device(simulated_device: None) -> None:
    """Operators that own memory there, arrays, and a thread in the middle of a call."""
    script = SIMULATED + (
        "from streams_support import Run, with_workspace\n"
        "kept = [with_workspace(), Run('MaxPooling2'), pool(), there]\n"
        "box = [kept]; box.append(box)\n"
        "threading.Thread(target=lambda: [pool() for _ in iter(int, 1)], daemon=True).start()\n"
    )
    assert child_says(script) == ""


@pytest.mark.bug("RUN-10")
def test_a_call_after_everything_else_has_ended(simulated_device: None) -> None:
    """As a thread makes it that goes on while the process ends: here the last handler of exit."""
    script = (
        SIMULATED
        + """
import ctypes
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def last(_):
    os.write(1, b'ok' if np.array_equal(pool(), want) else b'different')
    os._exit(0)
ctypes.CDLL(None).__cxa_atexit(last, None, None)
pool()
ctypes.PyDLL(None).exit(0)
"""
    )
    assert child_says(script) == "ok"


WITHOUT = """
import numpy as np
import cudml
from cudml.directml import BufferTensorDesc, PaddingOperatorDesc
from exporters import CUDA, Exporter, Interface
x = np.ones((1, 1, 4, 4), np.float32)
desc = PaddingOperatorDesc(
    InputTensor=BufferTensorDesc('FLOAT32', [2, 3]),
    OutputTensor=BufferTensorDesc('FLOAT32', [2, 3]),
    PaddingMode='EDGE', PaddingValue=0, StartPadding=[0, 0], EndPadding=[0, 0])
requests = {
    'DLPack': lambda: cudml.max_pooling(Exporter(x, device=(CUDA, 0)), 2),
    'interface': lambda: cudml.max_pooling(Interface(x), 2),
    'out': lambda: cudml.max_pooling(x, 2, out=Exporter(x, device=(CUDA, 0))),
    'compile': lambda: cudml.Operator(desc).compile('cuda'),
    'compile 1': lambda: cudml.Operator(desc).compile('cuda:1'),
    'explain': lambda: cudml.explain('max_pooling', x, 2, device='cuda:0'),
}
for name, request in requests.items():
    texts = set()
    for _ in range(3):
        try:
            request()
        except (cudml.CudaError, ValueError) as error:
            assert name == 'out' or isinstance(error, cudml.CudaError), (name, error)
            texts.add(str(error))
        else:
            raise SystemExit(name + ' was not refused')
    assert len(texts) == 1 and ': ' in min(texts), texts
    assert cudml.max_pooling(x, 2).shape == (1, 1, 3, 3)
assert 'pool' in cudml.explain('max_pooling', x, 2, device='sm_90').kernel
assert not cudml._core.build_info()['cuda']['devices']
cudml.Operator(desc).compile('cpu')(np.ones((2, 3), np.float32))
print('ok')
"""


@pytest.mark.bug("RUN-14")
@pytest.mark.parametrize("visible", ["", "-1", "99"])
def test_no_device_is_visible(visible: str) -> None:
    """One clear error per request, the same every time; everything else works."""
    assert child_says(WITHOUT, CUDA_VISIBLE_DEVICES=visible) == "ok"


@pytest.mark.bug("RUN-14")
@pytest.mark.parametrize(("code", "name"), [(35, "InsufficientDriver"), (100, "NoDevice")])
def test_a_driver_that_comes_later(code: int, name: str, simulated_device: None) -> None:
    """The failure is not kept: the same request works once the driver is there."""
    script = SIMULATED + (
        "for _ in range(2):\n"
        f"    core.simt_fail('cudaGetDeviceCount', 0, {code})\n"
        "    try:\n"
        "        pool()\n"
        "    except cudml.CudaError as error:\n"
        f"        assert error.name == 'cudaError{name}' and error.code == {code}, error\n"
        "        assert str(error).startswith('max_pooling: '), error\n"
        "    else:\n"
        "        raise SystemExit('not refused')\n"
        "    assert core.simt_pending() == 'cudaSuccess'\n"
        "assert np.array_equal(pool(), want)\n"
        "print('ok')\n"
    )
    assert child_says(script) == "ok"


INTERRUPTED = (
    OPERATOR
    + TAKES_INTERRUPTS
    + """
want = run(*grads)
print('ready', flush=True)
try:
    start = time.time()
    while time.time() - start < 20:
        run(*grads)
    print('no interrupt')
except KeyboardInterrupt:
    print('interrupted')
print('same' if np.array_equal(run(*grads), want) else 'different')
with_other = threading.Thread(target=lambda: print('free', run(*grads).shape))
with_other.start(); with_other.join(10)
"""
)


@pytest.mark.bug("RUN-16")
def test_an_interrupt_leaves_a_compiled_operator_free() -> None:
    """KeyboardInterrupt after the call; its memory is not locked, by this thread or another."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(IMPORTS)},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=40)
    wanted = ["interrupted", "same", "free", "(4,", "8,", "96,", "96)"]
    assert (out.split(), err, process.returncode) == (wanted, "", 0)
