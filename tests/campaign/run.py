"""Random calls against an oracle: python tests/campaign/run.py --family pooling --seconds 600.

Processes run the problems, each for some thousands under one environment; one that dies or stands
still is a finding like any other. A finding is one line that runs the case alone, and the call made
as small as it still fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "support")]

import draw  # noqa: E402
import report  # noqa: E402
import worker  # noqa: E402
from lanes import Lane, Server, Setup  # noqa: E402
from problem import Problem  # noqa: E402
from scale import IS_LARGE  # noqa: E402
from shrink import shrunk  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="python tests/campaign/run.py")
    parser.add_argument("--family", default="all", choices=(*draw.FAMILIES, "all"))
    parser.add_argument("--seconds", type=float, default=60, help="how long, all families together")
    parser.add_argument("--calls", type=int, default=0, help="end a family after so many calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--case", metavar="SEED:NUMBER", help="this case of the family alone")
    parser.add_argument("--problem", metavar="JSON", help="this problem alone")
    parser.add_argument("--stop-at-once", action="store_true", help="end at the first finding")
    parser.add_argument("--asan", action="store_true", help="the module under AddressSanitizer")
    parser.add_argument("--large", action="store_true", help="sizes beyond the loops' own limits")
    parser.add_argument("--device", action="store_true", help="on the interpreted CUDA kernels")
    return parser.parse_args()


def one_family(a: argparse.Namespace, family: str, seconds: float, setup: Setup) -> report.Row:
    """Runs problems of a family until the time is over, or until there were enough calls."""
    begin = time.time()
    lanes = [
        Lane(setup, family, a.seed, a.first + k * worker.CHUNK, a.jobs, begin + seconds)
        for k in range(a.jobs)
    ]
    row = report.Row(family, a.seed, a.first)
    with report.Progress(family, seconds) as progress:
        while any(lane.poll() for lane in lanes):
            row.take(lanes, time.time() - begin)
            progress.show(row)
            if (a.calls and row.calls >= a.calls) or (a.stop_at_once and row.faults):
                for lane in lanes:
                    lane.stop()
            time.sleep(0.2)
    row.take(lanes, time.time() - begin)
    return row


def flags(a: argparse.Namespace) -> str:
    """Those that a case is run again with."""
    return " --asan" * a.asan + " --device" * a.device + " --large" * a.large


def explained(a: argparse.Namespace, family: str, case: str, setup: Setup) -> str:
    """Runs a case alone; what is wrong with it and the smallest call that shows it, or nothing."""
    seed, number = map(int, case.split(":"))
    problem = draw.case(family, seed, number)
    with Server(setup, worker.settings(number)) as server:
        fault = server.fault(problem)
        if not fault:
            return ""
        small = shrunk(problem, lambda p: bool(server.fault(p)))
        return "\n".join(
            (
                f"{fault}",
                f"  call      {problem}",
                f"  smallest  {small}",
                f"  which is  {server.fault(small)}",
                f"  again     python tests/campaign/run.py{flags(a)} --problem '{small.to_json()}'",
            )
        )


def main() -> int:
    a = arguments()
    setup = Setup.sanitized() if a.asan else Setup()
    if a.device:
        setup.environment[worker.ON_DEVICE] = "1"
    if a.large:
        setup.environment[IS_LARGE] = os.environ[IS_LARGE] = "1"
    if a.problem:
        with Server(setup, {}) as server:
            fault = server.fault(Problem.from_json(a.problem))
        print(fault or "nothing is wrong")
        return bool(fault)
    if a.case:
        fault = explained(a, a.family, a.case, setup)
        print(fault or "nothing is wrong")
        return bool(fault)
    families = draw.FAMILIES if a.family == "all" else (a.family,)
    rows = []
    for family in families:
        rows.append(one_family(a, family, a.seconds / len(families), setup))
        if a.stop_at_once and rows[-1].faults:
            print(rows[-1].faults[0])
            return 1
    for row in rows:
        for number, fault in row.faults[:5]:
            case = f"{row.seed}:{number}"
            print(f"\n{fault}")
            print(f"python tests/campaign/run.py --family {row.family} --case {case}{flags(a)}")
            print(explained(a, row.family, case, setup) or "  alone nothing is wrong")
    report.summary(rows)
    return any(row.faults for row in rows)


if __name__ == "__main__":
    sys.exit(main())
