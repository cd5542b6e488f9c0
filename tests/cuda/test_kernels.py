"""Every CUDA kernel, forced on every call that it can take: interpreted, and on a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import backends
import batch_support
import harness
import kernel_cases
import shares
import simt_build
from expected import expected
from kernel_case import Case, environment, needs_of
from kernel_cases import FAMILIES, marks

SEEDS = ("1", "2", "3")  # any thread next, the thread woken last, any thread in another order
ALL_CASES = [(family, case) for family in FAMILIES for case in kernel_cases.cases(family)]
each_case = pytest.mark.parametrize(
    ("family", "case"),
    [
        pytest.param(family, case, id=f"{family}-{case.name}", marks=marks(family, case))
        for family, case in ALL_CASES
    ],
)
# Under a sanitizer, which asks for the order of accesses, not for element types.
IS_SANITIZED = simt_build.VARIANT != "plain"


@dataclass
class Attempt:
    """One call with one type and layout, that any kernel may be forced on."""

    case: Case
    dtype: str
    layout: str

    def __post_init__(self) -> None:
        self.call = self.case.call(self.dtype)
        self.want = expected(self.case.op, **self.call)
        arrays = harness.arrays_of(self.call)
        self.moved = {k: harness.LAYOUTS[self.layout](v) for k, v in arrays.items()}

    def __str__(self) -> str:
        return f"{self.case.op} {self.case.name} dtype={self.dtype} layout={self.layout}"

    def refusal(self, kernel: str, order: str = "") -> str:
        """Runs the kernel and judges its results, with an `out` of this order where one is given.

        What the kernel needs and does not get, or nothing where it ran.
        """
        try:
            with environment(CUDML_KERNEL=kernel):
                harness.run(
                    backends.current(), self.case.op, self.call, self.moved, self.want, order
                )
        except ValueError as error:
            pattern = rf'{self.case.op}: CUDML_KERNEL is "{kernel}", which needs that (.*)'
            found = re.fullmatch(pattern, str(error))
            assert found, f"{self}: {error}"
            return found[1]
        except Exception as error:
            raise AssertionError(f"{self} out={order!r} kernel={kernel}: {error}") from error
        return ""

    def results(self, kernel: str, seed: str) -> list[np.ndarray]:
        """What the kernel computes under a schedule."""
        with environment(CUDML_KERNEL=kernel, CUDML_SIMT_SEED=seed):
            device = backends.current()
            sent = {k: device.to(a) for k, a in self.moved.items()}
            result = harness.called(device, self.case.op, harness.with_arrays(self.call, sent))
        results = result if isinstance(result, tuple) else (result,)
        return [device.back(y) for y in results if y is not None]

    def cpu_results(self) -> list[np.ndarray]:
        with backends.using(backends.CPU):
            result = harness.called(
                backends.CPU, self.case.op, harness.with_arrays(self.call, self.moved)
            )
        return list(result) if isinstance(result, tuple) else [result]


def attempts(case: Case) -> Iterator[Attempt]:
    few = {"asan": 2, "tsan": 1}.get(simt_build.VARIANT)
    for dtype in case.dtypes[:few]:
        for layout in case.layouts[:few]:
            yield Attempt(case, dtype, layout)


ALIKE = ("normalize",)  # families whose kernels give an element the same bits
ORDERS = {"contiguous": "A", "permuted": "L", "sliced": "S", "misaligned": "C"}  # of out


@pytest.mark.device
@pytest.mark.whole
@each_case
def test_every_kernel_is_right_or_names_what_it_needs(
    family: str, case: Case, pytestconfig: pytest.Config
) -> None:
    """Without and with `out`; copied bits equal the CPU's, and every schedule gives equal bits.

    Every share launches every kernel; `out` and the schedules are shared out.
    """
    known = needs_of(family)
    share = shares.of(pytestconfig)
    seeds = ("0", *share.part(SEEDS))
    for attempt in attempts(case):
        ran = 0
        bits = set()
        with_out = share.part(list(known))
        for kernel, needs in known.items():
            for order in ("", ORDERS[attempt.layout]) if kernel in with_out else ("",):
                need = attempt.refusal(kernel, order)
                assert not need or need in needs, f"{attempt} kernel={kernel}: unknown {need!r}"
                if need or order:
                    continue
                ran += 1
                compare_bits(attempt, kernel, seeds)
                if family in ALIKE:
                    found = attempt.results(kernel, "0")
                    bits |= {tuple(batch_support.bits(y).tobytes() for y in found)}
        assert len(bits) <= 1, f"{attempt}: the kernels' bits differ"
        assert ran >= 1, f"{attempt}: not even the last kernel ran"


def compare_bits(attempt: Attempt, kernel: str, seeds: tuple[str, ...]) -> None:
    exact = attempt.case.op in backends.EXACT
    schedules = (
        not IS_SANITIZED
        and attempt.dtype in ("float32", "int16")
        and attempt.layout == "contiguous"
    )
    if not exact and not schedules:
        return
    first = attempt.results(kernel, "0")
    if exact:
        op, home = attempt.case.op, attempt.cpu_results()
        same = backends.exact_bits(op, first) == backends.exact_bits(op, home)
        assert same, f"{attempt} kernel={kernel}: not the CPU's bits"
    for seed in seeds if schedules else ():
        again = attempt.results(kernel, seed)
        same = all(a.tobytes() == b.tobytes() for a, b in zip(again, first, strict=True))
        assert same, f"{attempt} kernel={kernel} seed={seed}: other bits than with seed 0"


def test_every_kernel_ran(kernels_problem: str) -> None:
    """Every instantiation in the library was launched in this session."""
    assert not kernels_problem, kernels_problem
