"""The operators on tensors without memory: what tracing and the meta device ask for."""

from __future__ import annotations

import torch

from cudml.torch._results import RESULTS
from cudml.torch._schemas import library


def register() -> None:
    """Give each operator its results without their values."""
    for name, results in RESULTS.items():
        torch.library.register_fake(f"cudml::{name}", results, lib=library)
