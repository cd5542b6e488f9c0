"""Runs problems one after the other and says in shared memory where it is."""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
import traceback
from pathlib import Path

CHUNK = 4096  # problems for which one process lives
ISAS = ("", "", "", "v3", "base")
STREAMS = ("", "", "0")  # the size from which outputs are streamed
PREFETCHES = ("", "runs", "", "apart")
ON_DEVICE = "CUDML_CAMPAIGN_DEVICE"  # set where the interpreted CUDA kernels run the problems
NUMBERS = struct.Struct("qqd")  # the problem being run, calls checked, the time it began


def settings(number: int) -> dict[str, str]:
    """Environment of the process that runs this problem."""
    chunk = number // CHUNK
    found = {"CUDML_CPU_ISA": ISAS[chunk % 5], "CUDML_STREAM_BYTES": STREAMS[chunk % 3]}
    found["CUDML_PREFETCH"] = PREFETCHES[chunk % 4]
    threads = {"CUDML_NUM_THREADS": "2" if chunk % 4 else "1"}
    return {**{k: v for k, v in found.items() if v}, **threads}


def fault(family: str, seed: int, number: int, bench: object = None) -> str:
    """What is wrong with a problem, or nothing."""
    import check
    import draw

    return judged(draw.case(family, seed, number), bench or check.Bench())


def judged(problem: object, bench: object) -> str:
    """What is wrong with this problem, or nothing."""
    import check
    import device

    run = device.run if os.environ.get(ON_DEVICE) else check.run
    try:
        run(bench, problem)  # type: ignore[arg-type]
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        at = "" if type(error).__name__ in ("Mismatch", "Wrong") else f" ({where.name})"
        return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}{at}"
    return ""


def main(family: str, seed: int, first: int, last: int, until: float, state: str) -> None:
    import check

    with open(state, "r+b") as file:
        shared = mmap.mmap(file.fileno(), NUMBERS.size)
    bench = check.Bench()
    for number in range(first, last):
        now = time.time()
        shared[:] = NUMBERS.pack(number, bench.calls, now)
        if now > until:
            break
        found = fault(family, seed, number, bench)
        if found:
            print(json.dumps({"number": number, "fault": found}), flush=True)
    else:
        number = last
    shared[:] = NUMBERS.pack(number, bench.calls, time.time())


if __name__ == "__main__":
    sys.path.append(
        str(Path(__file__).resolve().parent.parent / "support")
    )  # the suite's exporters
    words = sys.argv[1:]
    main(words[0], *map(int, words[1:4]), float(words[4]), words[5])  # type: ignore[call-arg]
    os._exit(0)  # as quickly as possible, with threads that wait for work
