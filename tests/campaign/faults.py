"""Lets every allocation of a call fail in turn: python tests/campaign/faults.py --seconds 60.

For drawn calls of every operator, of compiled ones and of results that another library imports the
first allocation fails, then the second, and so on until the call succeeds; once alone, once with
all that follow. Each time there must be a MemoryError and nothing else, `out` that is whole or
right, and the next call must be right.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
sys.path[:0] = [str(HERE), str(SUPPORT)]
FAMILIES = ("pooling", "gradients", "padding", "normalization", "compiled", "exported")
STATE = struct.Struct("qqqqq")  # family, number, allocation, whether all that follow fail, calls
FOREVER = 1 << 60
# With this status the C library ends a process in which a thread, a worker of the pool perhaps,
# throws its first exception and there is no memory for the thread's data of the C++ library.
NO_THREAD_DATA = 127


def library() -> Path:
    """The interposer, compiled where it is not up to date."""
    source, made = HERE / "faults.c", HERE.parent.parent / "build" / "faults.so"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-fno-builtin", str(source), "-o", str(made)],
            check=True,
        )
    return made


def extent_of(name: str) -> tuple[int, int]:
    """The addresses of a loaded library: NumPy calls a null pointer where its own memory fails."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    bounds = [line.split()[0].split("-") for line in maps if name in line]
    return int(bounds[0][0], 16), int(bounds[-1][1], 16)


class Caller:
    """Calls with faults: `run` gives the result or raises what the call raised."""

    def __init__(self) -> None:
        lib = ctypes.PyDLL(str(library()))
        self._call = lib.faulty_call
        self._call.restype = ctypes.py_object
        self._call.argtypes = [ctypes.py_object] * 3 + [ctypes.c_long] * 2
        lib.faulty_spare.argtypes = [ctypes.c_void_p] * 2
        lib.faulty_spare(*extent_of("_multiarray_umath"))
        self._seen = lib.faulty_seen
        self._seen.restype = ctypes.c_long

    def run(self, f: Callable[..., Any], named: dict[str, Any], first: int, last: int) -> Any:
        return self._call(f, (), named, first, last)

    def seen(self) -> int:
        return int(self._seen())


def compiled(seed: int, number: int) -> tuple[Callable[..., Any], dict[str, Any], Any]:
    """A lowered descriptor compiled and called."""
    import random

    import numpy as np

    import cudml
    from cudml import directml

    r = random.Random(f"compiled:{seed}:{number}")
    n, w = r.randint(2, 40), r.randint(1, 2)
    out = n // w
    tensor = lambda s: directml.BufferTensorDesc(DataType="FLOAT32", Sizes=s)  # noqa: E731
    desc = directml.MaxPooling2OperatorDesc(
        InputTensor=tensor((1, 2, n, n)),
        OutputTensor=tensor((1, 2, out, out)),
        Strides=(w, w),
        WindowSize=(w, w),
        StartPadding=(0, 0),
        EndPadding=(0, 0),
        Dilations=(1, 1),
    )
    x = np.arange(2 * n * n, dtype="f4").reshape(1, 2, n, n)

    def call(out: Any = None) -> Any:
        return cudml.Operator(desc).compile("cpu")(x, out=out)

    want = x[:, :, : out * w, : out * w].reshape(1, 2, out, w, out, w).max((3, 5))
    return call, {}, want


def exported(seed: int, number: int) -> tuple[Callable[..., Any], dict[str, Any], Any]:
    """A call with arrays of a library that allocates nothing and imports results."""
    import random

    import numpy as np

    import cudml

    class Foreign:
        from_dlpack = staticmethod(np.from_dlpack)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **how: Any) -> Any:
            return x.__dlpack__(**how)

    r = random.Random(f"exported:{seed}:{number}")
    n, w = r.randint(2, 40), r.randint(1, 2)
    x = np.arange(2 * n * n, dtype="f4").reshape(1, 2, n, n)
    lender = Foreign()

    def call(out: Any = None) -> Any:
        return cudml.max_pooling(lender, w, out=out)

    return call, {}, cudml.max_pooling(x, w)


def problem(bench: Any, family: str, seed: int, number: int) -> tuple[Any, dict[str, Any], Any]:
    """A call, its arrays, and what is to come of it where nothing fails."""
    import check
    import draw
    import numpy as np

    if family in ("compiled", "exported"):
        return (compiled if family == "compiled" else exported)(seed, number)
    p = draw.case(family, seed, number)
    views = {k: v.view for k, v in bench.placed(p).items()}
    call = check.function(p)
    want = check.listed(call(**views))
    check.judged(
        want, check.expected(p, {k: np.ascontiguousarray(v) for k, v in views.items()}), ""
    )
    return call, views, want[0] if len(want) == 1 else tuple(want)


def tried(
    caller: Caller, call: Any, views: dict[str, Any], want: Any, has_out: bool, mark: Any
) -> str:
    """Runs one call with every fault; what is wrong, or nothing."""
    import check
    import numpy as np

    import cudml

    wants = check.listed(want)
    for follows in (False, True):
        n = 0
        while True:
            n += 1
            mark(n, follows)
            outs = [np.empty_like(w) for w in wants]  # in the order of the plain call's
            given = {"out": outs[0] if len(outs) == 1 else tuple(outs)} if has_out else {}
            cudml.clear_cache()
            try:
                result = caller.run(call, {**views, **given}, n, FOREVER if follows else n)
            except MemoryError:
                result = None
            except BaseException as error:
                return f"{type(error).__name__}: {error}"
            after = call(**views, **given)
            if not _same(after, wants):
                return "the next call is wrong"
            if result is not None and not _same(result, wants):
                return "a call that succeeds is wrong"
            if caller.seen() < n:
                break
    return ""


def _same(result: Any, wants: list[Any]) -> bool:
    import check

    pairs = zip(check.listed(result), wants, strict=True)
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


def inside(seed: int, first: int, until: float, state: str) -> None:
    """Runs in the process that has the interposer."""
    import contextlib

    import check

    import cudml

    with open(state, "r+b") as file:
        shared = mmap.mmap(file.fileno(), STATE.size)
    bench, caller, calls = check.Bench(), Caller(), 0
    with contextlib.suppress(TypeError):
        # The C library ends a process that has no memory for a thread's data of the C++ library,
        # which come with the thread's first exception: this is it.
        cudml.padding("no array", 1, 1)

    def mark(family: int, number: int, n: int, follows: bool) -> None:
        nonlocal calls
        calls += 1
        shared[:] = STATE.pack(family, number, n, follows, calls)

    number = first
    while time.time() < until:
        for f, family in enumerate(FAMILIES):
            made = problem(bench, family, seed, number)
            for has_out in (False, True):
                found = tried(caller, *made, has_out, functools.partial(mark, f, number))
                if found:
                    at = STATE.unpack(shared[:])
                    print(where(*at[:4], seed), f"out={has_out}: {found}", flush=True)
        number += 1


def where(family: int, number: int, allocation: int, follows: bool, seed: int) -> str:
    """A case, in words."""
    which = "and all after it" if follows else "alone"
    return f"{FAMILIES[family]} {seed}:{number} allocation {allocation} {which}:"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python tests/campaign/faults.py")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    a = parser.parse_args()
    until, first, found, calls = time.time() + a.seconds, a.first, 0, 0
    path = os.pathsep.join([str(HERE), str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "LD_PRELOAD": str(library()), "PYTHONMALLOC": "malloc",
                   "PYTHONPATH": path}  # fmt: skip
    with tempfile.NamedTemporaryFile() as state:
        while time.time() < until:
            state.truncate(0)
            state.truncate(STATE.size)
            words = [str(w) for w in ("--inside", a.seed, first, until, state.name)]
            done = subprocess.run(
                [sys.executable, "-W", "ignore", __file__, *words],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            print(done.stdout, end="")
            found += len(done.stdout.splitlines())
            family, number, n, follows, made = STATE.unpack(Path(state.name).read_bytes())
            calls, first = calls + made, number + 1
            if done.returncode == NO_THREAD_DATA:
                print("the C library had no memory for a thread's data and ended the process")
            elif done.returncode:
                found += 1
                at = where(family, number, n, follows, a.seed)
                print(at, f"the process ended with status {done.returncode}")
    print(f"{calls} calls with a fault, of problems {a.first} to {first - 1} of seed {a.seed}; "
          f"{found} findings")  # fmt: skip
    return found > 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
    else:
        sys.exit(main())
