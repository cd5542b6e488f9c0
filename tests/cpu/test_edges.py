"""Every path of the CPU with its arrays against pages that may not be touched: no load and no store
leaves the elements, whatever is left of rows that are no whole vectors, and the results are the
reference's."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from cudml import bounds
from folders import ROOT
from harness import run, with_arrays
from path_calls import (
    LAST,
    Call,
    average_grad,
    given,
    lp_grad,
    max_grad,
    max_pool,
    mvn,
    mvn_grad,
    pad,
    pad_grad,
    pool,
    statistics,
    unpool,
    winners,
)
from path_cases import CASES
from tests.cpu.test_isa import LEVELS, needs

POISON, MOST, GAP = 0xA5, 3000, 5
LONGER = (0, 1)  # elements more in a row
GROWING = (
    *("max_pooling", "average_pooling", "lp_pooling", "padding"),
    *("mean_variance_normalization", "normalize", "normalization_statistics"),
)
IN_PLACE = ("mean_variance_normalization", "normalize")


def shifted_grad(shape: tuple[int, ...], axes: Any, bias: tuple[int, ...]) -> Call:
    """dx alone of a normalization that has a bias and no scale, which its activation reads."""
    shapes = {"x": shape, "grad": shape, "bias": bias}
    given = {"axes": axes, "activation": "tanh", "outputs": ("x",)}
    return Call("mean_variance_normalization_grad", shapes, given)


# Rows, columns, planes and lanes of more than one of whatever they are gone through in.
LONG = [
    mvn((2, 20011), 1, affine=(1, 20011)),
    mvn((9, 2600), 1, affine=(1, 2600)),
    mvn((20011, 3), 0),
    mvn((301, 3), 0, dtype="float64"),
    mvn((3, 5, 4003), (0, 2), affine=(1, 5, 1)),
    mvn((5, 4003, 2), 1, affine=(1, 4003, 1)),
    mvn_grad((2, 3, 9001), (0, 2), (1, 3, 1)),
    mvn_grad((2, 9001), 1, (1, 9001)),
    mvn_grad((9001, 3), 0, (1, 3)),
    mvn_grad((2, 3, 9001), (0, 2), (1, 3, 1), activation="tanh"),
    shifted_grad((300, 24), 0, (300, 1)),
    statistics((3, 5, 4003), (0, 2)),
    statistics((9001, 5), 0),
    given((2, 3, 17011), (1, 3, 1), (1, 3, 1), affine=(2, 1, 17011)),
    given((4, 5003), (1, 5003), (1, 5003)),
    pool((1, 2, 3, 9001), (3, 3), (1, 2)),
    pool((1, 300, 5, 9), (2, 2), 2, order=LAST),
    pool((1, 320, 5, 6), (5, 6), order=LAST),
    pool((1, 301, 5, 6), (5, 6), op="lp_pooling", p=3, order=LAST),
    max_pool((1, 2, 3, 9001), (2, 3), (1, 3)),
    max_pool((1, 300, 5, 9), (3, 3), 2, order=LAST),
    winners((1, 2, 3, 9001), (2, 3), (1, 2)),
    winners((1, 300, 5, 9), (2, 2), 2, order=LAST),
    winners((1, 600, 5, 6), (5, 6), order=LAST),
    max_grad((1, 2, 1, 20011), (1, 3), (1, 9)),
    max_grad((1, 1, 3, 9001), (2, 3), (1, 2)),
    max_grad((1, 2, 150, 151), (11, 13), (5, 7)),
    max_grad((1, 300, 5, 9), (3, 3), 2, order=LAST),
    average_grad((1, 1, 3, 9001), (2, 3), (1, 2)),
    average_grad((1, 300, 5, 9), (3, 3), 2, order=LAST),
    lp_grad((1, 1, 3, 9001), (2, 3), (1, 2)),
    pad((3, 9001), (1, 2), (0, 5)),
    pad((9001, 3), (1, 2), (0, 5), mode="reflection"),
    pad_grad((3, 9001), (1, 2), (0, 5)),
    unpool((1, 2, 30, 301), (1, 2, 61, 603)),
]
SCRIPT = """
from tests.cpu import test_edges
test_edges.run_calls()
print('done')
"""


def grown(call: Call, by: int) -> Call:
    """The call with that many more elements along the dimension that is the fastest in memory."""
    d = (call.order or (-1,))[-1]
    size = call.shapes["x"][d]

    def longer(shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = list(shape)
        sizes[d] += by if sizes[d] == size and size > 1 else 0
        return tuple(sizes)

    return dataclasses.replace(call, shapes={k: longer(v) for k, v in call.shapes.items()})


def calls() -> Iterator[Call]:
    for case in CASES:
        for call in (case.meets, *case.misses.values()):
            if "out" in call.arguments:
                continue  # a description without memory
            for by in LONGER if call.op in GROWING else (0,):
                longer = grown(call, by) if by else call
                if sum(map(np.prod, longer.shapes.values())) <= MOST:
                    yield longer

    yield from LONG


def spaced(a: np.ndarray) -> np.ndarray:
    """The same with other elements between the rows that memory holds."""
    order = np.argsort([-s for s in a.strides], kind="stable")
    rows = a.transpose(order)
    wide = np.full((*rows.shape[:-1], rows.shape[-1] + GAP), 3, a.dtype)[..., :-GAP]
    wide[...] = rows
    return wide.transpose(np.argsort(order))


def parts(result: Any) -> list[np.ndarray]:
    return [y for y in (result if isinstance(result, tuple) else (result,)) if y is not None]


class Rooms:
    """Memory between protected pages, an array of a call in each."""

    def __init__(self) -> None:
        import pages  # of tests/campaign

        self.pages, self.rooms = pages, {}

    def placed(self, name: str, like: np.ndarray, at: str) -> Any:
        if name not in self.rooms:
            self.rooms[name] = self.pages.Room(192)
        room = self.rooms[name]
        steps = tuple(s // like.itemsize for s in like.strides)
        return room.place(self.pages.Layout(like.shape, steps, at), like.dtype)

    def check(self, call: Call, arrays: dict[str, Any], at: str) -> None:
        """The call's bits are those of its arrays in common memory by one thread, and nothing else
        is written. The output is in the memory order of "out", or in that which it has by itself.
        """
        arrays, placed = dict(arrays), {}
        ordered = arrays.pop("out", None)
        for name, array in arrays.items():
            placed[name] = self.placed(name, array, at).view
            placed[name][...] = array
        cudml.set_num_threads(1)
        plain = getattr(cudml, call.op)(**with_arrays(call.arguments, arrays))
        if ordered is not None:
            ordered[...] = plain
            plain = ordered
        cudml.set_num_threads(2)
        outs = [self.placed(f"out{i}", y, at) for i, y in enumerate(parts(plain))]
        for out in outs:
            out.poison(POISON)
        views = iter([o.view for o in outs])
        is_tuple = isinstance(plain, tuple)
        out = tuple(None if y is None else next(views) for y in plain) if is_tuple else next(views)
        getattr(cudml, call.op)(**with_arrays(call.arguments, placed), out=out)
        for o, y in zip(outs, parts(plain), strict=True):
            assert o.view.tobytes() == y.tobytes()
            assert not o.damage(POISON)
        if not isinstance(plain, tuple):
            self.check_gaps(call, plain, arrays)
        if call.op in IN_PLACE:
            getattr(cudml, call.op)(**with_arrays(call.arguments, placed), out=placed["x"])
            assert placed["x"].tobytes() == plain.tobytes()

    def check_gaps(self, call: Call, plain: np.ndarray, arrays: dict[str, Any]) -> None:
        """Every second element of memory is written, which may take another path."""
        room = np.full((*plain.shape, 2), 7, plain.dtype)
        getattr(cudml, call.op)(**with_arrays(call.arguments, arrays), out=room[..., 0])
        near = 1e-5 if plain.dtype == np.float32 else 2e-3
        np.testing.assert_allclose(room[..., 0], plain, rtol=near, atol=near)
        assert (room[..., 1] == 7).all()


def run_calls() -> None:
    sys.path.insert(0, str(ROOT / "tests" / "campaign"))
    rooms = Rooms()
    for call in calls():
        print(call, flush=True)  # where a crash happened
        arrays = call.made()
        inputs = {name: a for name, a in arrays.items() if name != "out"}
        arguments = with_arrays(call.arguments, inputs)
        run(CPU, call.op, arguments, inputs, bounds.expected(call.op, **arguments))
        for at in ("end", "start"):
            rooms.check(call, arrays, at)
        rooms.check(call, {name: spaced(a) for name, a in arrays.items()}, "end")


@pytest.mark.bug("MEM-08")
@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("limit", ["1", str(10**15)])
@pytest.mark.parametrize("level", LEVELS)
def test_every_path_beside_protected_pages(level: str, limit: str) -> None:
    """Outputs of at least so many bytes are written past the caches, if they can be: all or none.
    Processes read that once."""
    needs(level)
    said = child_says(SCRIPT, limit=240, CUDML_CPU_ISA=level, CUDML_STREAM_BYTES=limit)
    assert said.splitlines()[-1] == "done"
