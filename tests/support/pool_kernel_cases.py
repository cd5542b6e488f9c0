"""Calls that reach every kernel of pooling, its gradients and unpooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness import DTYPES, FLOATS, INTEGERS
from kernel_case import NEAR, Case
from pool_support import ceil_limit, floor_size

GEOMETRIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "2x2 s2": ((2, 3, 7, 37), {"window_size": 2, "strides": 2}),
    "2x2 s2 in whole vectors": ((1, 16, 8, 64), {"window_size": 2, "strides": 2}),
    "2x2 s2 in rows of whole vectors": ((2, 3, 7, 48), {"window_size": 2, "strides": 2}),
    "2x2 s2 and a pad after the last": (
        (2, 2, 6, 32),
        {"window_size": 2, "strides": 2, "end_padding": 1},
    ),
    "1x2x2 s2 in rows of whole vectors": (
        (1, 2, 3, 6, 32),
        {"window_size": (1, 2, 2), "strides": (1, 2, 2)},
    ),
    "2x2 s2 padded, with overhang": (
        (1, 16, 9, 33),
        {"window_size": 2, "strides": 2, "start_padding": 1, "output_sizes": "ceil"},
    ),
    "3x3 s2": ((2, 3, 9, 35), {"window_size": 3, "strides": 2}),
    "3x3 s2 padded": (
        (1, 16, 8, 64),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1},
    ),
    "3x3 s1 padded": (
        (1, 8, 5, 41),
        {"window_size": 3, "start_padding": 1, "end_padding": 1},
    ),
    "3x3 s1, one output row": ((1, 16, 3, 34), {"window_size": 3}),
    "2 s2": ((2, 3, 75), {"window_size": 2, "strides": 2}),
    "2 s2 along the rows of planes": (
        (1, 16, 3, 64),
        {"window_size": (1, 2), "strides": (1, 2)},
    ),
    "3 s2 padded": (
        (2, 4, 64),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1},
    ),
    "3 s1 padded": ((2, 4, 71), {"window_size": 3, "start_padding": 1, "end_padding": 1}),
    "2x2x2 s2": ((1, 16, 4, 6, 34), {"window_size": 2, "strides": 2}),
    "1x2x2 s2": ((1, 4, 3, 6, 33), {"window_size": (1, 2, 2), "strides": (1, 2, 2)}),
    "3x3x3 s2 padded": (
        (1, 4, 5, 6, 17),
        {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": (1, 0, 1)},
    ),
    "all different": (
        (2, 6, 7, 9),
        {
            "window_size": (2, 3),
            "strides": (2, 1),
            "start_padding": (1, 0),
            "end_padding": (0, 2),
            "dilations": (1, 2),
        },
    ),
    "three dimensions, all different": (
        (1, 16, 4, 5, 6),
        {
            "window_size": (1, 2, 3),
            "strides": (2, 1, 3),
            "start_padding": (0, 1, 2),
            "end_padding": (1, 0, 3),
            "dilations": (1, 3, 2),
        },
    ),
    "windows in the padding": (
        (2, 4, 3, 2),
        {"window_size": (2, 3), "start_padding": (3, 4), "end_padding": (5, 1)},
    ),
    "overhang, dilated": (
        (1, 4, 8, 9),
        {
            "window_size": (3, 2),
            "strides": (2, 4),
            "start_padding": (1, 0),
            "end_padding": (1, 3),
            "dilations": (3, 2),
            "output_sizes": (3, 4),
        },
    ),
    "whole planes": ((3, 16, 9, 11), {"window_size": (9, 11)}),
    "64 taps side by side": ((1, 8, 16, 24), {"window_size": 8, "strides": 8}),
    "large windows that overlap": ((1, 4, 10, 12), {"window_size": (8, 9)}),
    "more than 4096 taps": ((1, 1, 71, 61), {"window_size": (70, 60)}),
    "one window in pieces": ((1, 2, 130, 131), {"window_size": (130, 131)}),
    "one element": ((1, 1, 1, 1), {"window_size": 2, "end_padding": 1}),
    "one dimension alone": ((41,), {"window_size": 3, "strides": 2, "axes": 0}),
    "pooled dimensions among eight": (
        (2, 3, 2, 2, 3, 5, 2, 4),
        {"window_size": (2, 3, 2), "strides": (1, 2, 1), "axes": (1, 5, 7)},
    ),
    "three batch dimensions apart": (
        (2, 5, 3, 6, 4),
        {"window_size": 2, "strides": 2, "axes": (1, 3)},
    ),
    "3x3 s2 in strips, two pads before rows": (
        (2, 3, 33, 66),
        {"window_size": 3, "strides": 2, "start_padding": (2, 1), "end_padding": (0, 2)},
    ),
    "3x3 s1 in strips": (
        (1, 3, 17, 35),
        {"window_size": 3, "start_padding": (1, 2), "end_padding": (2, 0)},
    ),
    "3x3 s2 in strips of whole vectors, a pad before rows": (
        (2, 3, 19, 32),
        {"window_size": 3, "strides": 2, "start_padding": (0, 1), "end_padding": (2, 0)},
    ),
    "3x3 s2 in strips of whole vectors, a pad behind rows": (
        (1, 2, 18, 48),
        {"window_size": 3, "strides": 2, "start_padding": (2, 0), "end_padding": (0, 1)},
    ),
    "3x3 s1 in strips of whole vectors": (
        (2, 2, 19, 32),
        {"window_size": 3, "start_padding": (2, 1), "end_padding": (0, 1)},
    ),
    "5x5 s1 padded": (
        (2, 2, 13, 23),
        {"window_size": 5, "start_padding": (2, 1), "end_padding": (1, 2)},
    ),
    "4x6 in several tiles of whole vectors": (
        (1, 2, 39, 152),
        {"window_size": (4, 6), "strides": (2, 1), "start_padding": (1, 3), "dilations": (1, 2)},
    ),
    "2x3x4 that overlap, in planes beside the input": (
        (1, 3, 3, 9, 16),
        {
            "window_size": (2, 3, 4),
            "strides": (1, 1, 3),
            "start_padding": (3, 0, 1),
            "end_padding": (0, 2, 0),
            "dilations": (1, 2, 1),
        },
    ),
}
BIG = ("more than 4096 taps", "one window in pieces")


def output_shape(shape: tuple[int, ...], geometry: dict[str, Any]) -> tuple[int, ...]:
    """Sizes of the pooling's result by the floor rule, or by the rule the geometry names."""
    axes = geometry.get("axes", tuple(range(2, len(shape))))
    axes = axes if isinstance(axes, tuple) else (axes,)
    result = list(shape)
    for i, a in enumerate(axes):
        at = {k: v[i] if isinstance(v, tuple) else v for k, v in geometry.items() if k != "axes"}
        numbers = (
            shape[a], at["window_size"], at.get("strides", 1), at.get("start_padding", 0),
            at.get("end_padding", 0), at.get("dilations", 1),
        )  # fmt: skip
        given = at.get("output_sizes")
        result[a] = floor_size(*numbers) if given is None else given
        if given == "ceil":
            n, _, s, p0, _, _ = numbers
            result[a] = min(ceil_limit(*numbers), -(-(n + p0) // s))
    return tuple(result)


def pool_cases() -> Iterator[Case]:
    for k, (name, (shape, geometry)) in enumerate(GEOMETRIES.items()):
        kind = ("random", "special", "exact")[k % 3]
        layouts = NEAR[:2] if name in BIG else NEAR
        integers = tuple(INTEGERS)
        for indices in (False, True):
            more = {"return_indices": True, "index_dtype": ("uint32", "int64", "uint64")[k % 3]}
            arguments = {**geometry, **(more if indices else {})}
            which = f"{name}, max" + (" with indices" if indices else "")
            yield Case(which, "max_pooling", {"x": shape}, arguments, layouts=layouts, kind=kind)
            yield Case(
                f"{which}, integers", "max_pooling", {"x": shape}, arguments, integers,
                layouts[:2], kind,
            )  # fmt: skip
        include = {**geometry, "include_padding": k % 2 == 0}
        yield Case(f"{name}, average", "average_pooling", {"x": shape}, include, layouts=layouts)
        norm = {**geometry, "p": (2, 1, 3)[k % 3]}
        yield Case(f"{name}, norm", "lp_pooling", {"x": shape}, norm, layouts=layouts[:2])


def grad_cases(op: str) -> Iterator[Case]:
    for k, (name, (shape, geometry)) in enumerate(GEOMETRIES.items()):
        if name in BIG:  # whose gradients the reference takes seconds for
            continue
        arguments = {key: v for key, v in geometry.items() if key != "output_sizes"}
        grad = output_shape(shape, geometry)
        if op == "max_pooling_grad":
            shapes = {"x": shape, "grad": grad}
            kind = ("random", "exact")[k % 2]
        else:
            shapes, kind = {"grad": grad}, "random"
            arguments |= {"input_sizes": shape, "include_padding": k % 2 == 0}
        yield Case(name, op, shapes, arguments, kind=kind)


def lp_grad_cases() -> Iterator[Case]:
    usual = [(n, g) for n, g in GEOMETRIES.items() if n not in BIG and "axes" not in g[1]]
    for k, (name, (shape, geometry)) in enumerate(usual):
        y = output_shape(shape, geometry)
        arguments = {key: v for key, v in geometry.items() if key != "output_sizes"}
        arguments["p"] = (2, 1, 3, 6)[k % 4]
        shapes = {"x": shape, "y": y, "grad": y}
        yield Case(name, "lp_pooling_grad", shapes, arguments)
        narrow = tuple(f for f in FLOATS if f not in ("float32", "float64"))
        wide = {**arguments, "y_wide": True}
        yield Case(f"{name}, wide norms", "lp_pooling_grad", shapes, wide, narrow, NEAR[:2])


# sizes of x, of the result
UNPOOLED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "planes": ((2, 3, 4, 5), (2, 3, 8, 11)),
    "rows": ((2, 3, 40), (2, 3, 77)),
    "volumes": ((2, 2, 3, 2, 4), (2, 2, 5, 4, 3)),
    "many channels": ((2, 17, 3, 4), (2, 17, 6, 7)),
    "one plane": ((1, 1, 9, 20), (1, 1, 30, 31)),
    "one element": ((1, 1, 1), (1, 1, 1)),
    "a plane of two chunks": ((1, 1, 45, 46), (1, 1, 91, 93)),
    "a plane of long rows": ((1, 1, 2, 2100), (1, 1, 4, 2101)),
}


def unpool_cases() -> Iterator[Case]:
    for name, (shape, sizes) in UNPOOLED.items():
        yield Case(name, "max_unpooling", {"x": shape, "indices": shape}, {"output_sizes": sizes},
                   tuple(DTYPES["max_unpooling"]))  # fmt: skip
