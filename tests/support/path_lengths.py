"""From which lengths on the CPU's paths take rows, where that follows from the processor."""

from __future__ import annotations

import cudml

# Elements of a gradient's rows from which on they are taken as such.
LEAST = 48 if cudml._core.build_info()["instruction_set"] == "v4" else 32
