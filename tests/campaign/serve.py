"""Judges the problems that stand on its input, one a line."""

from __future__ import annotations

import json
import sys

import check
import worker
from problem import Problem

bench = check.Bench()
for line in sys.stdin:
    print(json.dumps(worker.judged(Problem.from_json(line), bench)), flush=True)
