"""Whether PyTorch normalized by QuACK, which it carries and may run in place of its own kernels."""

from __future__ import annotations

import importlib.util
import sys

RAN, COULD, CANNOT, WITHOUT = (
    "ran in PyTorch",
    "is in PyTorch and did not run",
    "is in PyTorch and cannot run here",
    "is not in this PyTorch",
)
# PyTorch imports these when it first runs a kernel of QuACK, and not before.
_MODULES = ("torch._vendor.quack", "quack")


def said() -> str:
    """To be asked after the calls that it is about."""
    if any(name in sys.modules for name in _MODULES):
        return RAN
    try:
        found = importlib.util.find_spec(_MODULES[0])
        runtime = importlib.import_module("torch._native.cutedsl_utils").runtime_available
    except (ImportError, AttributeError):
        return WITHOUT
    if found is None:
        return WITHOUT
    return COULD if runtime() else CANNOT
