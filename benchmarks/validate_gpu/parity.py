"""The GPU's results against those of the simulated device and of the CPU, kernel by kernel.

Where the specification fixes every bit (indices, padding, unpooling, integers) all three must
agree in every bit; elsewhere the GPU must stay within the reference's bounds, or have an equal
number or some NaN, and how often its bits differ from the simulated device's is counted.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from every_kernel import Outputs

SECONDS = 38  # calls that have not begun by then are reported as not run


@dataclass
class Found:
    """What the calls of one case in one element type gave."""

    kernels: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def differing(a: Outputs, b: Outputs) -> int:
    """Elements whose bits differ; all of them where shapes or types do."""
    both = [pair for pair in zip(a, b, strict=True) if not (pair[0] is None and pair[1] is None)]
    for x, y in both:
        if x is None or y is None:
            return 1
        if x.shape != y.shape or x.dtype != y.dtype:
            return max(x.size, 1)
    return sum(int((bits(x) != bits(y)).sum()) for x, y in both if x is not None and y is not None)


@cache
def all_cases() -> list[Any]:
    import every_kernel

    return every_kernel.cases()


def compare(number: int, dtype: str) -> Found:
    import every_kernel

    import backends
    from cudml import bounds

    case, found, places = all_cases()[number], Found(), backends.BACKENDS
    arrays = case.arrays(dtype)
    want = bounds.expected(case.op, **case.bound(arrays))
    on_cpu = case.call(places["cpu"], arrays)
    simulated = {}
    size = sum(y.size for y in on_cpu if y is not None)
    if places["simt"].takes(case.op, case.bound(arrays), size):
        simulated = dict(every_kernel.on_each_kernel(case, places["simt"], arrays))
    for kernel, outputs in every_kernel.on_each_kernel(case, places["cuda"], arrays):
        found.kernels.append(kernel)
        found.counts["calls"] += 1
        what = f"{case} {dtype} by {kernel}"
        verdict = bounds.compare(outputs, want)
        if not verdict.ok:
            found.failures.append(f"{what}: {verdict.message}")
        apart = differing(outputs, simulated[kernel]) if kernel in simulated else None
        found.counts["simt_compared"] += apart is not None
        found.counts["simt_differs"] += bool(apart)
        found.counts["exact" if all(want.exact) else "bounded"] += 1
        if set(want.rules) == {"bits"} and (wrong := differing(outputs, on_cpu)):
            found.failures.append(f"{what}: {wrong} elements differ from the CPU's")
        if set(want.rules) == {"bits"} and apart:
            found.failures.append(f"{what}: {apart} elements differ from the simulated device's")
    return found


def start() -> int:
    """In one worker, before the others: builds the simulated device where it is missing."""
    import backends

    why = backends.why_no_cuda()
    assert not why, why
    backends.simt()
    return len(all_cases())


def exchange() -> Found:
    """Arrays of CuPy and of PyTorch on a stream of its own: taken where they lie, given back."""
    import torch

    import cudml

    found, x = Found(), np.arange(2 * 3 * 8 * 9, dtype=np.float32).reshape(2, 3, 8, 9)
    want = cudml.max_pooling(x, 3, 2, 1, 1)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = cudml.max_pooling(torch.from_numpy(x).to("cuda", non_blocking=True), 3, 2, 1, 1)
        got = y.cpu().numpy()
    if not isinstance(y, torch.Tensor) or got.tobytes() != want.tobytes():
        found.failures.append("a PyTorch tensor on a stream of its own: other results")
    try:
        import cupy
    except ImportError:
        return found
    with cupy.cuda.Stream(non_blocking=True):
        z = cudml.max_pooling(cupy.asarray(x), 3, 2, 1, 1)
        got = cupy.asnumpy(z)
    if not isinstance(z, cupy.ndarray) or got.tobytes() != want.tobytes():
        found.failures.append("a CuPy array on a stream of its own: other results")
    return found


class Parity:
    """Collects what the workers found."""

    def __init__(self) -> None:
        self.total = Found()

    def add(self, what: str, future: Future[Found]) -> None:
        try:
            found = future.result()
        except Exception as error:
            found = Found(failures=[f"{what}: {type(error).__name__}: {error}"])
        self.total.kernels = sorted({*self.total.kernels, *found.kernels})
        self.total.counts += found.counts
        self.total.failures += found.failures
        for failure in found.failures:
            print(failure, flush=True)

    def write(self, every_kernel: list[str]) -> None:
        names = ("calls", "exact", "bounded", "simt_compared", "simt_differs")
        content = {
            **{name: self.total.counts[name] for name in names},
            "kernels": self.total.kernels,
            "not_reached": sorted(set(every_kernel) - set(self.total.kernels)),
            "failures": self.total.failures,
        }
        Path(os.environ["CUDML_STEP_JSON"]).write_text(json.dumps(content))


def main() -> int:
    import every_kernel

    end, parity = time.monotonic() + SECONDS, Parity()
    workers = max(1, min(14, len(os.sched_getaffinity(0)) - 2))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        pool.submit(start).result()
        parity.add("arrays of CuPy and PyTorch", pool.submit(exchange))
        tasks = [
            (f"{case} {dtype}", pool.submit(compare, number, dtype))
            for number, case in enumerate(every_kernel.cases())
            for dtype in every_kernel.ALL[case.op]
        ]
        late = 0
        for what, future in tasks:
            if time.monotonic() > end and future.cancel():
                late += 1
                continue
            parity.add(what, future)
    if late:
        parity.total.failures.append(f"{late} of {len(tasks)} cases were not run in {SECONDS} s")
    parity.write([k for op in every_kernel.ALL for k in every_kernel.kernels(op)])
    print(f"{parity.total.counts['calls']} calls, {len(parity.total.failures)} failures")
    return 1 if parity.total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
