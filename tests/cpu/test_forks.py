"""Forks: before, between and during calls, without memory, and beside another thread runtime."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from array_support import child, child_says
from process_support import BIG

FORKS = (
    BIG
    + """
mode = sys.argv[1]
cudml.set_num_threads(2)
stop = False
def forever():
    while not stop:
        big()
want = None if mode == 'before' else big()
if mode == 'during':
    worker = threading.Thread(target=forever)
    worker.start()
for k in range(10 if mode == 'during' else 2):
    pid = os.fork()
    if pid == 0:
        got = big()
        if k == 0 and mode == 'again':
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if big() == want else 3)
            if os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]):
                os._exit(4)
        os._exit(0 if want is None or got == want else 3)
    deadline = time.time() + 30
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        assert time.time() < deadline, 'the child hangs'
        time.sleep(0.002)
    assert os.waitstatus_to_exitcode(status) == 0, status
    if mode != 'during':
        assert want is None or big() == want
stop = True
print('ok')
"""
)


@pytest.mark.bug("RUN-09")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["before", "after", "again", "during"])
def test_forks(mode: str) -> None:
    """Before the first call, after it, twice over, and while another thread is inside a call."""
    done = child(FORKS, mode, PYTHONWARNINGS="ignore")
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stdout + done.stderr


@pytest.mark.bug("RUN-09")
def test_workers_that_are_forked() -> None:
    script = BIG + (
        "import multiprocessing as mp, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "def work(n):\n"
        "    return float(cudml.average_pooling(x[n:n + 1], 2, 2).sum())\n"
        "if __name__ == '__main__':\n"
        "    want = [work(n) for n in range(8)]\n"
        "    with mp.get_context('fork').Pool(3) as pool:\n"
        "        assert pool.map(work, range(8)) == want\n"
        "    print('ok')\n"
    )
    assert child_says(script) == "ok"


@pytest.mark.bug("RUN-09")
def test_a_fork_where_no_memory_is_left() -> None:
    """The child starts over with threads of its own, and needs no memory for that."""
    script = BIG + (
        "import resource\n"
        "cudml.set_num_threads(2)\n"
        "want = big()\n"
        "with open('/proc/self/statm') as f:\n"
        "    now = int(f.read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + 2**22, -1))\n"
        "held = [None] * 100000\n"
        "size, n = 2**16, 0\n"
        "spare = bytearray(2**12)\n"  # the interpreter itself needs a little to fork
        "while size > 2**14:\n"
        "    try:\n"
        "        held[n] = bytearray(size)\n"
        "        n += 1\n"
        "    except MemoryError:\n"
        "        size //= 2\n"
        "del spare\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    del held\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n"
        "    os._exit(0 if big() == want else 3)\n"
        "status = os.waitpid(pid, 0)[1]\n"
        "del held\n"
        "print(os.waitstatus_to_exitcode(status))\n"
    )
    # The reserves of other threads' arenas would do.
    assert child_says(script, MALLOC_ARENA_MAX="1") == "0"


OPENMP = (
    BIG
    + """
import torch
torch.set_num_threads(2)
cudml.set_num_threads(1)
want = big()
cudml.set_num_threads(2)
one = torch.ones(600, 600)
def both():
    for _ in range(3):
        assert float((one + one).sum()) == 720000
        assert big() == want
both()
worker = threading.Thread(target=both)
worker.start()
both()
worker.join()
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        both()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    both()
print('ok')
"""
)


@pytest.mark.long
@pytest.mark.bug("RUN-09")
@pytest.mark.parametrize("threads", ["auto", "own"])
def test_beside_an_openmp_runtime(threads: str) -> None:
    """The same results whosever threads compute them; children of a fork do not wait for a team
    that they have not."""
    pytest.importorskip("torch")
    if threads == "own":
        # Without the library's help another library's team is lost in the child.
        script = OPENMP.replace(
            "    if pid == 0:\n        both()", "    if pid == 0:\n        big()"
        )
    else:
        script = OPENMP
    done = child(script, CUDML_THREADS=threads, PYTHONWARNINGS="ignore")
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stdout + done.stderr


HANDLER = (
    BIG
    + """
import signal
if sys.argv[1] == 'team':
    import torch
    torch.set_num_threads(2)
    one = torch.ones(600, 600)
    more = lambda: float((one + one).sum()) == 720000
else:
    more = lambda: True
cudml.set_num_threads(2)
y = np.concatenate([x] * 4)
def run():
    return cudml.lp_pooling(y, 5, 1, p=3).tobytes()
want, child = run(), None
def fork(number, frame):
    global child
    child = os.fork()
    if child == 0:
        signal.alarm(30)
signal.signal(signal.SIGVTALRM, fork)
for k in range(4):
    assert more()
    child = None
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.04 * (k + 1))
    while child is None:
        got = run()
        assert got == want
    if child == 0:
        os._exit(0 if more() and run() == want else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, k
print('ok')
"""
)


@pytest.mark.bug("RUN-09")
@pytest.mark.parametrize("threads", ["own", "team"])
def test_a_handler_of_a_signal_forks_inside_of_a_call(threads: str) -> None:
    """Both processes go on with the call, the child without the other threads."""
    if threads == "team":
        pytest.importorskip("torch")
    done = child(HANDLER, threads, PYTHONWARNINGS="ignore")
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stdout + done.stderr


# Where a library arranges for forks: what a thread does there waits until it is told to go on.
HOOK = """
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

int has_begun = 0;
int goes_on = 0;

typedef void (*handler)(void);
int __register_atfork(handler before, handler after, handler in_child, void* library) {
  int (*next)(handler, handler, handler, void*) = dlsym(RTLD_NEXT, "__register_atfork");
  if (getpid() != syscall(SYS_gettid)) {
    __atomic_store_n(&has_begun, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&goes_on, __ATOMIC_SEQ_CST)) usleep(1000);
  }
  return next(before, after, in_child, library);
}
"""

FIRST = (
    BIG
    + """
import ctypes, signal
hook = ctypes.CDLL(sys.argv[1])
has_begun, goes_on = (ctypes.c_int.in_dll(hook, name) for name in ('has_begun', 'goes_on'))
cudml.set_num_threads(2)
first = threading.Thread(target=big)
first.start()
while first.is_alive() and not has_begun.value:
    time.sleep(0.001)
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    os._exit(0 if len(big()) == 3 else 3)
status = os.waitpid(pid, 0)[1]
goes_on.value = 1
first.join()
print(os.waitstatus_to_exitcode(status))
"""
)


@pytest.mark.bug("RUN-09")
def test_a_fork_while_another_thread_makes_the_first_call(tmp_path: Path) -> None:
    """The child waits for nothing that the thread it lacks has begun."""
    source, hook = tmp_path / "hook.c", tmp_path / "hook.so"
    source.write_text(HOOK)
    compiler = os.environ.get("CC", "cc").split()
    command = [*compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", hook, source, "-ldl"]
    subprocess.run(command, check=True)
    done = child(FIRST, str(hook), LD_PRELOAD=str(hook), PYTHONWARNINGS="ignore")
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stdout + done.stderr
