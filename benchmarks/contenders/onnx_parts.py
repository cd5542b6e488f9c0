"""Nodes and constants of a small ONNX model, before they are made into one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Part:
    """A node."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = ""


@dataclass
class Parts:
    """A model that makes y (and indices) of x (and scale, bias)."""

    nodes: list[Part]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = 20

    def used(self) -> set[str]:
        return {name for node in self.nodes for name in node.inputs}
