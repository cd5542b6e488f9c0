"""Calls that reach every kernel of csrc/cuda in every element type, by family."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from harness import DTYPES, FLOATS
from kernel_case import NEAR, Case
from pool_kernel_cases import grad_cases, lp_grad_cases, pool_cases, unpool_cases

FAMILIES = (
    "pool", "max_pool_grad", "average_pool_grad", "lp_pool_grad", "unpool", "pad", "pad_grad",
    "mvn", "mvn_grad", "statistics", "normalize",
)  # fmt: skip

MODES = ("constant", "edge", "reflection", "symmetric", "wrap")
SIZES = ("uint8", "int16", "bfloat16", "float32", "int64")  # one or two types of each size
PADS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "long rows": ((3, 2, 301), (0, 1, 3), (0, 0, 5)),
    "long rows, whole vectors": ((2, 3, 320), (0, 1, 16), (0, 1, 32)),
    "long rows, far pads": ((2, 300), (1, 700), (0, 650)),
    "short rows": ((5, 4, 9), (1, 0, 2), (0, 1, 3)),
    "short rows, whole vectors": ((5, 4, 16), (1, 0, 16), (0, 2, 16)),
    "pads around planes of whole vectors": ((2, 5, 6, 16), (0, 1, 2, 0), (0, 2, 1, 0)),
    "rows without pads": ((2, 3, 65), (0, 2, 0), (0, 1, 0)),
    "one element": ((1,), (3,), (2,)),
    "one row": ((700,), (5,), (300,)),
    "sizes of one": ((1, 3, 1, 1), (2, 0, 3, 40), (1, 1, 0, 90)),
    "no pads": ((4, 5, 6), (0, 0, 0), (0, 0, 0)),
    "eight dimensions": (
        (2, 1, 2, 3, 1, 2, 2, 3), (1, 0, 0, 0, 1, 0, 1, 2), (0, 1, 1, 0, 0, 1, 0, 1),
    ),
    "only pads": ((2, 3, 17), (9, 0, 300), (0, 11, 40)),
}  # fmt: skip


def pad_cases() -> Iterator[Case]:
    for name, (shape, start, end) in PADS.items():
        pads = {"start_padding": start, "end_padding": end}
        mixed = tuple(MODES[(i + len(shape)) % 5] for i in range(len(shape)))
        for mode in (*MODES, mixed):
            label = mode if isinstance(mode, str) else "mixed"
            arguments = {**pads, "mode": mode, "value": 3}
            yield Case(
                f"{name}, {label}", "padding", {"x": shape}, arguments, SIZES, kind="special"
            )
    rest = tuple(d for d in DTYPES["padding"] if d not in SIZES)
    shape, start, end = PADS["short rows"]
    pads = {"start_padding": start, "end_padding": end, "mode": "edge"}
    yield Case("other types", "padding", {"x": shape}, pads, rest)


LONG_PADS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "one long sum": ((1,), (3000,), (2200,)),
    "long sums beside each other": ((2, 1, 3), (0, 4000, 0), (0, 300, 0)),
    "a long sum at either end": ((3, 4, 2), (1, 4097, 0), (0, 5000, 1)),
    "a few hundred terms": ((2, 3), (150, 1), (120, 2)),
}


def pad_grad_cases() -> Iterator[Case]:
    for k, (name, (shape, start, end)) in enumerate([*PADS.items(), *LONG_PADS.items()]):
        grad = tuple(map(sum, zip(shape, start, end, strict=True)))
        layouts = NEAR[:2] if name in LONG_PADS else NEAR
        for mode in MODES[1:]:
            arguments = {
                "input_sizes": shape, "start_padding": start, "end_padding": end, "mode": mode,
            }  # fmt: skip
            kind = ("random", "exact")[k % 2]
            yield Case(f"{name}, {mode}", "padding_grad", {"grad": grad}, arguments,
                       layouts=layouts, kind=kind)  # fmt: skip


# shape, axes, sizes of scale, sizes of bias
GROUPS: dict[str, tuple[tuple[int, ...], Any, Any, Any]] = {
    "short rows": ((37, 33), 1, (1, 33), (1, 33)),
    "short rows in whole vectors": ((70, 128), 1, (1, 128), None),
    "tiny rows": ((70, 3), 1, None, (1, 3)),
    "rows of 512": ((9, 512), 1, (9, 1), (9, 1)),
    "rows of 513": ((5, 513), 1, (1, 513), (5, 1)),
    "rows of a warp": ((6, 1000), 1, (1, 1000), (1, 1000)),
    "rows of a block": ((3, 2503), 1, (1, 2503), (1, 2503)),
    "long rows of a block": ((2, 9000), 1, None, None),
    "instances": ((2, 3, 5, 70), (2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "groups of channels": ((2, 4, 3, 10, 13), (2, 3, 4), (1, 4, 3, 1, 1), (1, 4, 3, 1, 1)),
    "batches": ((4, 3, 5, 70), (0, 2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "columns": ((61, 40), 0, (1, 40), (1, 40)),
    "columns with a tail": ((200, 9), 0, (1, 9), None),
    "channels last": ((2, 70, 24), 1, (1, 1, 24), (1, 1, 24)),
    "columns with scales of rows": ((30, 17), 0, (30, 1), (30, 17)),
    "groups of channels, last": ((2, 15, 4, 6), (1, 3), (1, 1, 4, 6), (1, 1, 4, 6)),
    "many rows of few columns": ((3000, 8), 0, None, None),
    "one group": ((3, 40, 41), (0, 1, 2), (1, 1, 1), (3, 40, 41)),
    "one group in parts": ((40001,), 0, (40001,), None),
    "two groups in parts": ((2, 5, 2000), (1, 2), (1, 5, 1), (1, 5, 1)),
    "every other axis": ((2, 3, 4, 5, 2), (0, 2, 4), (1, 3, 1, 5, 1), (1, 1, 4, 1, 1)),
    "no axes": ((3, 9), (), (1, 9), (3, 1)),
    "one element": ((1,), 0, (1,), (1,)),
    "eight dimensions": ((2, 1, 3, 2, 1, 2, 2, 9), (7, 2, 4), (1, 1, 3, 1, 1, 2, 1, 9), (1,) * 8),
}
ACTIVATIONS = (None, ("leaky_relu", {"alpha": 0.125}), "gelu", "sigmoid")


def mvn_cases() -> Iterator[Case]:
    for k, (name, (shape, axes, scale, bias)) in enumerate(GROUPS.items()):
        every = {"scale": scale, "bias": bias}
        given = {key: sizes for key, sizes in every.items() if sizes is not None}
        op, few = "mean_variance_normalization", NEAR[:1] + NEAR[3:]
        for i, activation in enumerate(ACTIVATIONS):
            arguments = {"axes": axes, "activation": activation}
            shapes = {"x": shape, **(given if i < 3 else {})}
            layouts = NEAR if i == 0 and name != "one group in parts" else few
            yield Case(f"{name}, {activation}", op, shapes, arguments, layouts=layouts)
        flags = ({"use_mean": False}, {"use_variance": False},
                 {"use_mean": False, "use_variance": False})[k % 3]  # fmt: skip
        yield Case(f"{name}, {flags}", op, {"x": shape, **given}, {"axes": axes, **flags},
                   layouts=few)  # fmt: skip
        both = {"axes": axes, "return_statistics": True}
        yield Case(f"{name}, statistics", op, {"x": shape}, both,
                   ("float16", "float32", "float64"), few)  # fmt: skip
        wide = {"axes": axes, "epsilon": 0.5, "scale_wide": True, "bias_wide": True}
        yield Case(f"{name}, wide scale", op, {"x": shape, **given}, wide,
                   ("float16", *(f for f in FLOATS if f == "bfloat16")), few)  # fmt: skip


def statistics_cases() -> Iterator[Case]:
    """Statistics of the groups above, and of groups that hold nothing."""
    op, few = "normalization_statistics", NEAR[:1] + NEAR[3:]
    for k, (name, (shape, axes, _, _)) in enumerate(GROUPS.items()):
        wide, narrow = {"axes": axes}, {"axes": axes, "dtype": "float32"}
        yield Case(name, op, {"x": shape}, (wide, narrow)[k % 2],
                   layouts=few if name == "one group in parts" else NEAR)  # fmt: skip
        yield Case(f"{name}, squares", op, {"x": shape}, {**wide, "use_mean": False}, layouts=few)
        if name in ("short rows", "columns", "batches"):
            yield Case(f"{name}, special", op, {"x": shape}, wide, layouts=few, kind="special")
    yield Case("long columns", op, {"x": (9000, 3)}, {"axes": 0}, layouts=few)
    yield Case("no elements", op, {"x": (3, 0, 2)}, {"axes": (1, 2)}, layouts=few)


# beside the groups above
GIVEN_GROUPS: dict[str, tuple[tuple[int, ...], Any, Any, Any]] = {
    "planes": ((3, 5, 15, 16), (0, 2, 3), (1, 5, 1, 1), (1, 5, 1, 1)),
    "odd planes": ((5, 9, 7, 7), (0, 2, 3), (1, 9, 1, 1), None),
    "large planes": ((1, 3, 50, 61), (0, 2, 3), (1, 3, 1, 1), (1, 3, 1, 1)),
    "planes of groups": ((2, 6, 5, 9), (2, 3), (1, 6, 1, 1), (2, 1, 1, 1)),
    "tiny planes": ((7, 5, 4, 4), (0, 2, 3), (1, 5, 1, 1), (1, 5, 1, 1)),
    "all alike": ((70, 300), (0, 1), (1, 1), (1, 1)),
    "each its own": ((40, 41), (), None, (1, 41)),
}


def normalize_cases() -> Iterator[Case]:
    """Given statistics of the groups above, of them or of other types, and without one."""
    for k, (name, (shape, axes, scale, bias)) in enumerate(
        [*GROUPS.items(), *GIVEN_GROUPS.items()]
    ):
        over = axes if isinstance(axes, tuple) else (axes,)
        group = tuple(1 if a in over else n for a, n in enumerate(shape))
        parameters = {"scale": scale, "bias": bias}
        given = {key: sizes for key, sizes in parameters.items() if sizes is not None}
        both = {"x": shape, "mean": group, "variance": group}
        few = NEAR[:1] + NEAR[3:]
        for i, activation in enumerate(ACTIVATIONS[:3]):
            wide = {"mean_wide": True} if i else {"variance_wide": True}
            layouts = NEAR if i == 0 and name != "one group in parts" else few
            yield Case(f"{name}, {activation}", "normalize", {**both, **given},
                       {"activation": activation, **wide}, layouts=layouts)  # fmt: skip
        if name in ("odd planes", "channels last"):
            # the largest bfloat16s leave the type on the way
            yield Case(f"{name}, special", "normalize", {**both, **given}, {},
                       ("float16", "float32", "float64"), few, "special")  # fmt: skip
        wide = {"scale_wide": True, "bias_wide": k % 2 == 0}
        yield Case(f"{name}, wide scale", "normalize", {**both, **given}, wide,
                   ("float16", *(f for f in FLOATS if f == "bfloat16")), few)  # fmt: skip
        absent = ("mean", "variance")[k % 2]
        some = {key: sizes for key, sizes in both.items() if key != absent}
        yield Case(f"{name}, without {absent}", "normalize", some, {absent: None}, layouts=few)


def mvn_grad_cases() -> Iterator[Case]:
    """The gradient at once over the groups above, and in two phases."""
    for k, (name, (shape, axes, scale, bias)) in enumerate(GROUPS.items()):
        every = {"x": shape, "grad": shape, "scale": scale, "bias": bias}
        shapes = {key: sizes for key, sizes in every.items() if sizes is not None}
        activation = ACTIVATIONS[k % 4]
        arguments = {"axes": axes, "activation": activation}
        yield Case(f"{name}, {activation}", "mean_variance_normalization_grad", shapes, arguments,
                   layouts=NEAR[:3])  # fmt: skip
        if name not in ("batches", "channels last", "no axes"):
            continue
        over = axes if isinstance(axes, tuple) else (axes,)
        group = tuple(1 if a in over else n for a, n in enumerate(shape))
        shapes = {**shapes, "mean": group}
        arguments = {"variance": None, "activation": activation}
        sums = (np.ones(group), np.full(group, 3.0))
        yield Case(f"{name}, a part", "normalize_grad", {**shapes, "count": group},
                   {**arguments, "sums": sums}, layouts=NEAR[:2])  # fmt: skip
        yield Case(f"{name}, sums", "normalize_grad_sums", shapes, {**arguments, "axes": axes},
                   layouts=NEAR[:2])  # fmt: skip


CORE = {
    "pool": (
        "2x2 s2,", "2x2 s2 in whole vectors", "3x3 s2 padded", "3x3 s1 padded", "2 s2,",
        "3 s2 padded", "3 s1 padded", "all different", "three dimensions, all different",
        "whole planes", "64 taps side by side", "three batch dimensions apart", "5x5 s1",
    ),
    "max_pool_grad": ("2x2 s2 in whole", "3x3 s2 padded", "3x3 s1 padded", "all different",
                      "3x3 s2 in strips of"),
    "average_pool_grad": ("2x2 s2 in whole", "3x3 s2 padded", "3x3 s1 padded", "all different",
                          "3x3 s2 in strips of"),
    "lp_pool_grad": ("2x2 s2 in whole", "3x3 s2 padded", "3x3 s1 padded", "all different"),
    "unpool": ("planes", "many channels"),
    "pad": ("long rows, mixed", "long rows, whole vectors, constant", "long rows, reflection",
            "short rows, symmetric", "short rows, whole vectors, edge",
            "pads around planes of whole vectors, wrap"),
    "pad_grad": ("long rows, reflection", "short rows, symmetric", "one long sum, edge",
                 "a long sum at either end, wrap", "a few hundred terms, edge"),
    "mvn": ("short rows", "rows of a warp", "rows of a block", "instances", "columns,",
            "channels last", "groups of channels, last", "two groups in parts",
            "every other axis"),
    "mvn_grad": ("short rows,", "batches", "columns,", "every other axis", "one group,"),
    "statistics": ("short rows", "rows of a warp", "batches", "columns", "every other axis"),
    "normalize": ("channels last", "odd planes", "large planes", "one group", "each its own"),
}  # fmt: skip


def marks(family: str, case: Case) -> list[pytest.MarkDecorator]:
    """Those of a few cases that make every kernel run; they run again in every build."""
    few = any(case.name.startswith(name) for name in CORE[family])
    if family == "mvn":
        few &= case.name.endswith(("None", "gelu"))
    if family == "normalize":
        few &= case.name.endswith(("None", "gelu")) and "parts" not in case.name
    return [pytest.mark.core, pytest.mark.small] if few else []


def cases(family: str) -> list[Case]:
    """All of a family's calls."""
    return list({
        "pool": pool_cases,
        "max_pool_grad": lambda: grad_cases("max_pooling_grad"),
        "average_pool_grad": lambda: grad_cases("average_pooling_grad"),
        "lp_pool_grad": lp_grad_cases,
        "unpool": unpool_cases,
        "pad": pad_cases,
        "pad_grad": pad_grad_cases,
        "mvn": mvn_cases,
        "mvn_grad": mvn_grad_cases,
        "statistics": statistics_cases,
        "normalize": normalize_cases,
    }[family]())  # fmt: skip
