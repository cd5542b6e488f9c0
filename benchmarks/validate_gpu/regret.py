"""Every kernel that takes a call, forced and timed in turns with the others: how far the chosen one
is from the fastest.

One shape of each case of the suite, as far as the time goes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import paths
import paths_report
from places import OnCuda
from problems import Problem, problems
from rows import Limits

SECONDS = 52  # problems that have not begun by then are left out
LIMITS = Limits(5, 0.1, 1)
MOST_BYTES = 512 << 20


def suite() -> list[Problem]:
    """The first problem of each case whose buffers are not made for longer than they are timed."""
    first: dict[int, Problem] = {}
    for problem in paths.single_calls(problems(full=True)):
        if problem.bytes <= MOST_BYTES:
            first.setdefault(problem.case.number, problem)
    return list(first.values())


def measured(problem: Problem, on: Any) -> dict[str, Any]:
    arrays = on.arrays(problem)
    tried = paths.first_visit(arrays, set(), on)
    paths.visit(arrays, tried, LIMITS, on)
    return paths.row(problem, 0, tried)


def main() -> int:
    end, on = time.monotonic() + SECONDS, OnCuda()
    on.begin()
    every, failures = suite(), []
    found: dict[str, Any] = {"rows": [], "failures": failures, "left": len(every)}
    for problem in every:
        if time.monotonic() > end:
            break
        try:
            found["rows"].append(measured(problem, on))
            print(paths_report.line(found["rows"][-1]), flush=True)
        except Exception as error:
            failures.append(f"{problem.name}: {type(error).__name__}: {error}".split("\n")[0])
            print(failures[-1], flush=True)
        found["left"] -= 1
        found["summary"] = paths_report.summary(found["rows"], goals=on.goals)
        Path(os.environ["CUDML_STEP_JSON"]).write_text(json.dumps(found))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
