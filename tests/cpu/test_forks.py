"""Forks: before, between and during calls, without memory, and beside another thread runtime."""

from __future__ import annotations

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
