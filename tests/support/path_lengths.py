"""From which lengths on the CPU's paths take rows, where that follows from the processor."""

from __future__ import annotations

import pathlib
import re

import cudml


def is_zen5() -> bool:
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    return bool(re.search(r"AuthenticAMD\ncpu family\s*: 26\n", text))


# Elements of a gradient's rows from which on they are taken as such.
LEAST = 48 if cudml._core.build_info()["instruction_set"] == "v4" else 32
# And of 16-bit rows from which on two take turns.
PAIRED = 65536 if is_zen5() else 3072
