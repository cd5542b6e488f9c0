"""What programs call most, over the shapes that models have and all types: `run.py --usual`.

The suite (cases.py) has the calls that models are known by; these fill the room between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cases import (
    AVERAGE,
    AVERAGE_GRAD,
    LP,
    LP_GRAD,
    MAX,
    MAX_GRAD,
    MVN,
    MVN_GRAD,
    NORMALIZE,
    PAD,
    PAD_GRAD,
    UNPOOL,
    Case,
)

_TYPES = "hbfd"
_IMAGES = ((1, 3, 224, 224), (4, 32, 128, 128), (8, 64, 56, 56), (8, 256, 14, 14), (2, 512, 7, 7))
_SIGNALS = ((16, 3, 16_000), (8, 64, 4096), (8, 64, 512), (2, 512, 128))
_ROWS = ((8192, 32), (4096, 64), (512, 768), (64, 4096), (3, 100_000))
_SOURCE = "a grid of usual calls"
_GEOMETRIES = ((2, 2, 0), (3, 2, 1), (3, 1, 1))  # window, step and pad along each dimension
_WHOLE = {"include_padding": True}


def _windows(name: str, average: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Maxima, averages and their gradients; the name is filled with size and step."""
    found = []
    for size, step, pad in _GEOMETRIES:
        geometry = {"window": size, "strides": step, "pad": pad}
        said = name.format(size, step)
        found += [
            (f"max {said}", MAX, geometry),
            (f"max grad {said}", MAX_GRAD, geometry),
            (f"average {said}", AVERAGE, {**geometry, **average}),
            (f"average grad {said}", AVERAGE_GRAD, {**geometry, **_WHOLE}),
        ]
    return found


def _pooling() -> list[tuple[str, str, dict[str, Any]]]:
    halves = {"window": 2, "strides": 2, "pad": 0, "p": 2}
    plane = {"window": None, "strides": 1, "pad": 0}
    return [
        *_windows("{0}x{0}/{1}", {}),
        ("L2 2x2/2", LP, halves),
        ("L2 grad 2x2/2", LP_GRAD, halves),
        ("average global", AVERAGE, plane),
    ]


def _winners() -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for size, step, pad in _GEOMETRIES:
        geometry = {"window": size, "strides": step, "pad": pad, "index": "int64"}
        found.append((f"max+int64 {size}x{size}/{step}", MAX, geometry))
    halves = {"window": 2, "strides": 2, "pad": 0, "positions": "int64"}
    return [*found, ("unpool+int64 2x2/2", UNPOOL, halves)]


def _padding() -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for mode in ("constant", "reflection", "edge"):
        pads = {"start": (1, 1), "end": (1, 1), "mode": mode}
        found.append((f"{mode} 1", PAD, pads))
        if mode != "constant":  # whose gradient is a copy
            found.append((f"{mode} 1 grad", PAD_GRAD, pads))
    return found


def _normalization() -> list[Case]:
    layer = Case(0, "LayerNorm", MVN, _ROWS, _TYPES, "C", _SOURCE, {"axes": (1,)}, "layer",
                 "scale bias")  # fmt: skip
    images = replace(layer, shapes=_IMAGES, layouts="CL", args={})
    groups = tuple(shape for shape in _IMAGES if shape[1] % 32 == 0)
    found = [
        layer,
        replace(images, what="BatchNorm", norm="batch"),
        replace(images, what="InstanceNorm", norm="instance"),
        replace(images, what="GroupNorm", norm="group", args={"groups": 32}, shapes=groups),
    ]
    gradients = [replace(one, what=f"{one.what} grad", op=MVN_GRAD) for one in found]
    stored = replace(found[1], what="BatchNorm, stored", op=NORMALIZE)
    return [*found, *gradients, stored]


def usual() -> tuple[Case, ...]:
    """Numbered from 101 on."""
    planes = [
        Case(0, what, op, _IMAGES, _TYPES, "CL", _SOURCE, args)
        for what, op, args in (*_pooling(), *_padding())
    ]
    winners = [
        Case(0, what, op, _IMAGES, _TYPES, "CL", _SOURCE, args) for what, op, args in _winners()
    ]
    signals = [
        Case(0, what, op, _SIGNALS, _TYPES, "C", _SOURCE, args)
        for what, op, args in _windows("{0}/{1}", _WHOLE)
    ]
    calls = (*planes, *_normalization(), *winners, *signals)
    return tuple(replace(one, number=i) for i, one in enumerate(calls, 101))
