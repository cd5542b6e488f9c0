"""Padding with the signature of torch.nn.functional.pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

import cudml.torch as canonical
from cudml._typing import ModeName

from ._arguments import LARGEST, is_sequence, tensor, whole

MODES: dict[str, ModeName] = {
    "constant": "constant",
    "reflect": "reflection",
    "replicate": "edge",
    "circular": "wrap",
    "symmetric": "symmetric",
}


def _pairs(pad: Any, rank: int) -> tuple[list[Any], list[Any]]:
    """Start and end of every dimension, from pairs that begin with the last one."""
    if not is_sequence(pad) or len(pad) % 2 or len(pad) > 2 * rank:
        text = f"pad: pad is {pad!r}; it must have two entries for each of the last dimensions,"
        raise ValueError(f"{text} at most {2 * rank}")
    listed = [whole("pad", f"pad[{i}]", n, -LARGEST) for i, n in enumerate(pad)]
    missing = [0] * (rank - len(pad) // 2)
    return missing + listed[-2::-2], missing + listed[:0:-2]


def _cropped(x: Tensor, starts: list[Any], ends: list[Any]) -> Tensor:
    """The slice that negative pads leave."""
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        before, after = max(-start, 0), max(-end, 0)
        if before or after:
            size = x.shape[i]
            if before + after > size:
                text = f"pad: pad takes {before} and {after} elements from dimension {i}; together"
                raise ValueError(f"{text} they must be at most its size {size}")
            x = x.narrow(i, before, size - before - after)
    return x


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Pads of the last dimensions, as torch lists them: (left, right, top, bottom, ...).

    `mode` is "constant", "reflect", "replicate", "circular" or "symmetric"; each takes any rank up
    to 8, any number of dimensions and pads of any size. Negative entries crop first.
    """
    x = tensor("pad", "input", input)
    if not isinstance(mode, str) or mode not in MODES:
        text = f"pad: mode is {mode!r}; it must be {', '.join(map(repr, MODES))}"
        raise ValueError(text)
    if mode != "constant" and value not in (None, 0):
        text = f"pad: value is {value!r}; in mode {mode!r} it must be None or 0"
        raise ValueError(text)
    starts, ends = _pairs(pad, x.dim())
    x = _cropped(x, starts, ends)
    return canonical.padding(
        x,
        [max(n, 0) for n in starts],
        [max(n, 0) for n in ends],
        mode=MODES[mode],
        value=0 if value is None else value,
    )
