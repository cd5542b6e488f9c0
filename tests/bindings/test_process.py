"""The library in its process: exits, interrupts, leaks, memory that runs out."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, child_says, every_operator, make
from process_support import BIG

EXITS = {
    "live objects": "",
    "in a thread": "t = threading.Thread(target=big); t.start()",
    "a daemon in a call": (
        "t = threading.Thread(target=lambda: [big() for _ in iter(int, 1)], daemon=True)\n"
        "t.start(); time.sleep(0.3)"
    ),
    "four daemons in calls": (
        "for _ in range(4):\n"
        "    threading.Thread(target=lambda: [big() for _ in iter(int, 1)], daemon=True).start()\n"
        "time.sleep(0.3)"
    ),
    "at exit": "import atexit; atexit.register(big)",
    "in a finalizer": "import weakref; weakref.finalize(kept[0].__class__, lambda: big())",
    "in a cycle": "class Box: pass\nbox = Box(); box.box, box.kept = box, [cudml, kept, x]",
    "an exception": "sys.exit(0)",
    "no cleaning up": "os._exit(0)",
    "modules removed": "import sys; del cudml; sys.modules.pop('cudml._core')",
}


@pytest.mark.bug("RUN-10")
@pytest.mark.parametrize("way", EXITS)
def test_the_interpreter_ends_quietly(way: str) -> None:
    """No crash and not a word, with the threads of the pool alive and objects in globals."""
    script = BIG + "kept = big()\nalso = cudml.directml\n" + EXITS[way]
    assert child_says(script) == ""


@pytest.mark.long
@pytest.mark.bug("RUN-10")
def test_the_interpreter_ends_while_daemons_explain() -> None:
    """Much of that is Python code, in which they are ended. Not each time, so there are many."""
    script = (
        "import sys, threading, time\n"
        "import numpy as np\n"
        "import cudml\n"
        "sys.setswitchinterval(1e-6)\n"
        "x = np.zeros((1, 1, 8, 8), 'f4')\n"
        "def explain():\n"
        "    while True:\n"
        "        cudml.explain('max_pooling', x, 2)\n"
        "for _ in range(4):\n"
        "    threading.Thread(target=explain, daemon=True).start()\n"
        "time.sleep(0.1)\n"
    )
    for _ in range(20):
        assert child_says(script) == ""


@pytest.mark.bug("RUN-10")
def test_a_daemon_that_is_ended_in_python_code_drops_nothing() -> None:
    """It has no lock then: what it let go would be destroyed beside the ending interpreter."""
    script = (
        "import builtins, sys, threading, time, weakref\n"
        "import numpy as np\n"
        "import cudml\n"
        "module, inside = cudml._explain, threading.Event()\n"
        "def slow(*facts):\n"
        "    inside.set()\n"
        "    time.sleep(0.3)\n"
        "module.Explanation = slow\n"
        "x = np.zeros((1, 1, 8, 8), 'f4')\n"
        "explain = cudml.explain\n"
        "threading.Thread(target=lambda: explain('max_pooling', x, 2), daemon=True).start()\n"
        "inside.wait()\n"
        "builtins.watched = weakref.ref(module, print)\n"
        "del sys.modules['cudml._explain'], cudml._explain, module\n"
        "class Last:\n"
        "    def __del__(self, sleep=time.sleep):\n"
        "        sleep(0.9)\n"
        "sys.modules['last'] = Last()\n"
    )
    assert child_says(script) == ""


@pytest.mark.bug("RUN-08")
@every_operator
def test_failing_calls_leak_nothing(label: str) -> None:
    """10 000 refused calls: resident memory and reference counts as before."""
    p = make(label)
    outputs = p.outputs()
    wrong = [np.zeros((1, 2, 3, 4, 5), np.float32) for _ in outputs]
    watched: list[Any] = [*p.arrays.values(), *outputs, *wrong, p.args, np.dtype("float32")]

    def fail() -> None:
        for kwargs in ({"out": wrong[0] if len(wrong) == 1 else tuple(wrong)}, {"stream": 0}):
            try:
                p(**kwargs)
            except ValueError:
                continue
            raise AssertionError("not refused")

    for _ in range(500):
        fail()
    counts = [sys.getrefcount(a) for a in watched]
    before = resident()
    for _ in range(5000):
        fail()
    assert resident() - before < 2**20
    assert counts == [sys.getrefcount(a) for a in watched]


@pytest.mark.bug("RUN-08")
@every_operator
def test_calls_leak_nothing(label: str) -> None:
    p = make(label)
    reversed_too = {k: a[::-1] for k, a in p.arrays.items()}
    for _ in range(300):
        p.run(**reversed_too)
    before = resident()
    for _ in range(5000):
        p.run(**reversed_too)
    assert resident() - before < 2**20


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


# A shell's background commands, and so their children, begin with interrupts ignored.
TAKES_INTERRUPTS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
INTERRUPTED = (
    BIG
    + TAKES_INTERRUPTS
    + """
cudml.set_num_threads(1)
y = np.concatenate([x] * 8)
print('ready', flush=True)
try:
    start = time.time()
    while time.time() - start < 20:
        cudml.lp_pooling(y, 5, 1, p=3)
    print('no interrupt')
except KeyboardInterrupt:
    print('interrupted')
print('same' if big() == big() else 'different')
"""
)


@pytest.mark.bug("RUN-16")
def test_an_interrupt_arrives_after_the_call() -> None:
    environment = {"PYTHONPATH": str(cudml.__path__[0]).rsplit("/", 1)[0]}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=40)
    assert (out.split(), err, process.returncode) == (["interrupted", "same"], "", 0)


SHORT = """
import faulthandler, resource, sys
import numpy as np
import cudml
from array_support import LABELS, make
faulthandler.dump_traceback_later(50, exit=True)
good = {label: make(label) for label in LABELS}
for p in good.values():
    assert not p.problem(p.run())
def limit(megabytes):
    with open('/proc/self/statm') as f:
        now = int(f.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (now + (megabytes << 20), -1))
"""


@pytest.mark.bug("RUN-07")
def test_memory_for_results_that_is_not_there() -> None:
    """Results of 4 GiB and more from broadcast inputs: MemoryError, and the next call works."""
    script = SHORT + (
        "one = np.ones((1, 1, 1, 1), np.float32)\n"
        "x = np.broadcast_to(one, (1, 1, 32768, 32768))\n"
        "limit(300)\n"
        "calls = {\n"
        "    'max_pooling': lambda: cudml.max_pooling(x, 1),\n"
        "    'indices': lambda: cudml.max_pooling(x, 1, return_indices=True),\n"
        "    'max_pooling_grad': lambda: cudml.max_pooling_grad(x, one, 32768),\n"
        "    'average_pooling': lambda: cudml.average_pooling(x, 1),\n"
        "    'average_pooling_grad': lambda: cudml.average_pooling_grad(one, x.shape, 32768),\n"
        "    'lp_pooling': lambda: cudml.lp_pooling(x, 1),\n"
        "    'padding': lambda: cudml.padding(x, 1, 1),\n"
        "    'normalization': lambda: cudml.mean_variance_normalization(x, axes=3),\n"
        "}\n"
        "for name, call in calls.items():\n"
        "    for _ in range(3):\n"
        "        try:\n"
        "            call()\n"
        "        except MemoryError:\n"
        "            continue\n"
        "        raise SystemExit(name + ' was not refused')\n"
        "for p in good.values():\n"
        "    assert not p.problem(p.run())\n"
        "print('ok')\n"
    )
    assert child_says(script) == "ok"


@pytest.mark.bug("RUN-07")
def test_memory_for_copies_that_is_not_there() -> None:
    """A reversed input of 128 MiB cannot be copied: MemoryError before `out` is touched."""
    script = SHORT + (
        "x = np.ones((1, 1, 4096, 8192), np.float32)[..., ::-1]\n"
        "y = np.full((1, 1, 1, 1), 7, np.float32)\n"
        "limit(60)\n"
        "for op in ('max_pooling', 'average_pooling', 'lp_pooling'):\n"
        "    try:\n"
        "        getattr(cudml, op)(x, (4096, 8192), out=y)\n"
        "    except MemoryError:\n"
        "        assert y.item() == 7\n"
        "        continue\n"
        "    raise SystemExit(op + ' was not refused')\n"
        "for p in good.values():\n"
        "    assert not p.problem(p.run())\n"
        "print('ok')\n"
    )
    assert child_says(script) == "ok"


@pytest.mark.bug("RUN-07")
def test_threads_that_cannot_be_started() -> None:
    """No room for stacks: the call runs on fewer threads and is right."""
    script = SHORT + (
        "import os\n"
        "x = np.random.default_rng(0).standard_normal((4, 8, 256, 512), dtype=np.float32)\n"
        "cudml.set_num_threads(1)\n"
        "want = cudml.padding(x, 1, 1, mode='edge')\n"
        "out = np.ones_like(want)\n"
        "cudml.set_num_threads(512)\n"
        "limit(40)\n"
        "for _ in range(3):\n"
        "    out[...] = 0\n"
        "    cudml.padding(x, 1, 1, mode='edge', out=out)\n"
        "    assert all(map(np.array_equal, out, want))\n"  # which needs little memory
        "os.write(1, b'ok')\n"
    )
    assert child_says(script, PYTHONFAULTHANDLER=None) == "ok"


@pytest.mark.bug("RUN-14")
def test_without_a_gpu() -> None:
    """Import and calls work with no visible device; what was built in is told."""
    script = (
        "import cudml, numpy as np\n"
        "assert cudml.max_pooling(np.ones((1, 1, 4, 4), np.float32), 2).shape == (1, 1, 3, 3)\n"
        "info = cudml._core.build_info()\n"
        "assert isinstance(info['cuda'], (bool, dict)), info\n"
        "assert info['version'] == cudml.__version__\n"
        "print('ok')\n"
    )
    assert child_says(script, CUDA_VISIBLE_DEVICES="") == "ok"
    assert child_says(script, CUDA_VISIBLE_DEVICES="7,9") == "ok"


@pytest.mark.bug("RUN-14")
def test_a_stream_is_refused_with_one_clear_error_every_time() -> None:
    texts = set()
    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            cudml.max_pooling(np.ones((1, 1, 4, 4), np.float32), 2, stream=1)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_every_operator_is_in_the_table() -> None:
    names = {label.partition("+")[0] for label in LABELS}
    assert names <= set(cudml.__all__) and len(names) == 10


@pytest.mark.bug("MEM-10")
def test_inputs_that_change_during_a_call_do_no_harm() -> None:
    """Undefined numbers, but no crash: bounds never come from data."""
    script = BIG + (
        "stop = False\n"
        "def scribble():\n"
        "    rng = np.random.default_rng(1)\n"
        "    while not stop:\n"
        "        x.view(np.uint32)[...] = rng.integers(0, 2**32, x.shape, np.uint32)\n"
        "t = threading.Thread(target=scribble); t.start()\n"
        "end = time.time() + 1\n"
        "g = cudml.max_pooling(x, 3, 2, 1, 1)\n"
        "while time.time() < end:\n"
        "    big()\n"
        "    cudml.max_pooling_grad(x, g, 3, 2, 1, 1)\n"
        "    y, i = cudml.max_pooling(x, 2, 2, return_indices=True)\n"
        "    assert i.max() < x.size\n"
        "stop = True; t.join(); print('ok')\n"
    )
    assert child_says(script) == "ok"


def test_first_calls_of_several_threads_do_not_wait_for_each_other() -> None:
    """What a first call imports lets other threads run, which come to the same place then."""
    script = (
        "import faulthandler, sys, threading, time\n"
        "import numpy as np\n"
        "import cudml\n"
        "from exporters import Exporter\n"
        "faulthandler.dump_traceback_later(20, exit=True)\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'cudml._libraries': time.sleep(0.5)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "assert 'cudml._libraries' not in sys.modules\n"
        "x, results = np.ones((1, 1, 4, 4), np.float32), []\n"
        "def call():\n"
        "    y = np.empty((1, 1, 3, 3), np.float32)\n"
        "    results.append(cudml.max_pooling(Exporter(x), 2, out=y) is y)\n"
        "threads = [threading.Thread(target=call) for _ in range(4)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(results)\n"
    )
    assert child_says(script) == "[True, True, True, True]"
