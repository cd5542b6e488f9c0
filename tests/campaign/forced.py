"""A call by a path or a kernel that it might not choose by itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from problem import Problem

import cudml

KERNEL = "CUDML_KERNEL"


def by_drawn(p: Problem, device: str, number: int, call: Callable[[], Any]) -> Any:
    """What the call gives by the `number`-th of the operator's paths, or by the next that takes it:
    the last takes everything."""
    listed = "winners" if p.how.get("return_indices") else p.op
    names = [kernel.name for kernel in cudml.kernels(listed, device=device)]
    for i in range(len(names)):
        os.environ[KERNEL] = names[(number + i) % len(names)]
        try:
            return call()
        except ValueError as error:
            if KERNEL not in str(error):
                raise
        finally:
            del os.environ[KERNEL]
    raise AssertionError(f"no path of {p.op} takes {p}")
