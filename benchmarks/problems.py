"""What the suite times: each case on one shape, element type and memory layout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

from cases import (
    CASES,
    DTYPES,
    FORWARD,
    FROM_GRADIENT,
    GRADIENTS,
    LP_GRAD,
    MVN,
    MVN_GRAD,
    NORMALIZE,
    PAD,
    PAD_GRAD,
    UNPOOL,
    Case,
    Shape,
)

LARGE_BYTES = 16_000_000  # of a problem that caches do not keep
SHORT_COLUMNS = 1024  # of a row whose numbers are read once
MOST_BYTES = 80_000_000  # of a problem on the CPU; leading dimensions shrink until it fits
ITEM = {
    **{"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8},
    **{"uint8": 1, "uint32": 4, "int64": 8},
}
FAMILIES = {
    "max_pooling": "max pooling",
    "average_pooling": "average pooling",
    "lp_pooling": "Lp pooling",
    "max_pooling_grad": "max gradient",
    "average_pooling_grad": "average gradient",
    "lp_pooling_grad": "Lp gradient",
    "max_unpooling": "unpooling",
    "padding": "padding",
    "padding_grad": "pad gradient",
    "mean_variance_normalization": "normalization",
    "mean_variance_normalization_grad": "norm gradient",
    "normalize": "stored statistics",
    "step": "forward + gradient",
}
Kept = tuple[Shape, str]  # an array's shape in the operator's order of dimensions, and its type


@dataclass(frozen=True)
class Problem:
    """One case on one shape, type and layout. `shape` is as the operator takes it (groups apart);
    `full` as the table states it; they differ in size where the first was made to fit."""

    case: Case
    full: Shape
    shape: Shape
    dtype: str
    layout: str

    @property
    def name(self) -> str:
        return f"{self.case.number:02d} {self.case.what}, {cross(self.full)}, {self.kind}"

    @property
    def kind(self) -> str:
        return f"{self.dtype} {self.layout}"

    @property
    def family(self) -> str:
        return FAMILIES["step" if self.case.step else self.case.op]

    @property
    def groups(self) -> bool:
        return self.case.norm == "group"

    @property
    def image(self) -> Shape:
        """The shape with the groups' channels as one dimension."""
        s = self.shape
        return (s[0], s[1] * s[2], *s[3:]) if self.groups else s

    @property
    def memory_axes(self) -> Shape:
        """The dimensions of `shape`, outermost in memory first."""
        rank = len(self.shape)
        if self.layout == "C" or self.case.as_is:
            return tuple(range(rank))
        channels = (1, 2) if self.groups else (1,)
        return (0, *range(1 + len(channels), rank), *channels)

    @property
    def axes(self) -> Shape:
        """Pooled or normalized dimensions."""
        rank, given = len(self.shape), self.case.args.get("axes")
        if given is not None:
            return tuple(given)
        whole = {"batch": (0, *range(2, rank)), "group": tuple(range(2, rank))}
        return whole.get(self.case.norm, tuple(range(2, rank)))

    @property
    def window(self) -> Shape:
        return self._each(self.case.args["window"] or tuple(self.shape[a] for a in self.axes))

    @property
    def strides(self) -> Shape:
        return self._each(self.case.args["strides"])

    @property
    def pad(self) -> Shape:
        return self._each(self.case.args["pad"])

    @property
    def dilations(self) -> Shape:
        return self._each(self.case.args.get("dilations", 1))

    def extent(self, axis: int) -> int:
        """Of a window along a dimension of `shape`; 1 where there is none or it spans all of it."""
        if "pooling" not in self.case.op or self.case.args["window"] is None:
            return 1
        extents = zip(self.axes, self.window, self.dilations, strict=True)
        return next(((k - 1) * d + 1 for a, k, d in extents if a == axis), 1)

    @property
    def ceil(self) -> bool:
        return bool(self.case.args.get("ceil"))

    def _each(self, value: Any) -> Shape:
        return (value,) * len(self.axes) if isinstance(value, int) else tuple(value)

    @property
    def start(self) -> Shape:
        return self._outer("start")

    @property
    def end(self) -> Shape:
        return self._outer("end")

    def _outer(self, name: str) -> Shape:
        given = self.case.args[name]
        return (*(0,) * (len(self.shape) - len(given)), *given)

    @property
    def pooled(self) -> Shape:
        """The shape after pooling."""
        sizes = list(self.shape)
        geometry = zip(self.axes, self.window, self.strides, self.pad, self.dilations, strict=True)
        for axis, k, s, p, d in geometry:
            room = self.shape[axis] + 2 * p - ((k - 1) * d + 1)
            sizes[axis] = (-(-room // s) if self.ceil else room // s) + 1
        return tuple(sizes)

    @property
    def padded(self) -> Shape:
        """The shape after padding."""
        return tuple(b + n + e for b, n, e in zip(self.start, self.shape, self.end, strict=True))

    @property
    def incoming(self) -> Shape:
        """Of a gradient: the shape of the gradient that is given."""
        if self.case.op == MVN_GRAD:
            return self.shape
        return self.padded if self.case.op == PAD_GRAD else self.pooled

    @property
    def output(self) -> Shape:
        if self.case.op == PAD:
            return self.padded
        return self.pooled if self.is_forward_pooling else self.shape

    @property
    def is_forward_pooling(self) -> bool:
        """Not unpooling, whose shape is that of its output, as a gradient's is."""
        return "pooling" in self.case.op and self.case.op not in (*GRADIENTS, UNPOOL)

    @property
    def goal(self) -> float | None:
        """Share of a copy to reach on a CPU: of padding, of large tensors' pooling with channels
        first, of LayerNorm. Other problems are only measured against peers."""
        if self.case.op == MVN and self.case.norm == "layer":
            columns = math.prod(self.shape[a] for a in self.axes)
            return 0.75 if columns <= SHORT_COLUMNS else 0.6
        is_large = self.bytes >= LARGE_BYTES and self.layout == "C"
        is_copy_bound = self.case.op == PAD or (self.is_forward_pooling and is_large)
        return 0.85 if is_copy_bound else None

    @property
    def vector(self) -> Shape:
        """Sizes of scale and bias: they vary along the channels, or along the rows' elements."""
        channels = (1, 2) if self.groups else (1,)
        kept = self.axes if self.case.norm in ("layer", "rms") else channels
        return tuple(n if a in kept else 1 for a, n in enumerate(self.shape))

    @property
    def index(self) -> str:
        """Element type of the indices, or nothing."""
        return str(self.case.args.get("index", ""))

    @property
    def calls(self) -> tuple[Problem, ...]:
        """The calls of a turn, one after the other: more than one in a step of training."""
        if not self.case.step:
            return (self,)
        gradient = replace(self.case, step=False)
        args = dict(gradient.args)
        if gradient.op == MVN_GRAD:
            args["return_statistics"] = True
        forward = replace(gradient, op=FORWARD[gradient.op], args=args)
        return tuple(replace(self, case=case) for case in (forward, gradient))

    @property
    def moments(self) -> dict[str, Kept]:
        """Statistics of the groups, as the forward call saves them."""
        shape = tuple(1 if a in self.axes else n for a, n in enumerate(self.shape))
        names = ("variance",) if self.case.norm == "rms" else ("mean", "variance")
        return dict.fromkeys(names, (shape, "float32"))

    @property
    def forward_result(self) -> str:
        """What a step calls the forward call's output; Lp pooling's gradient reads it."""
        return "norms" if self.case.op == LP_GRAD else "result"

    @property
    def inputs(self) -> dict[str, Kept]:
        """What is read and nobody writes before."""
        if self.case.step:
            both = [item for one in self.calls for item in one.inputs.items()]
            return {name: kept for name, kept in both if name not in self.outputs}
        op, found = self.case.op, {}
        if op == UNPOOL:
            return {"x": (self.pooled, self.dtype), "positions": (self.pooled, self.positions)}
        if op not in FROM_GRADIENT:
            found["x"] = (self.shape, self.dtype)
        if op == LP_GRAD:
            found["norms"] = (self.incoming, self.dtype)
        if op in GRADIENTS:
            found["grad"] = (self.incoming, self.dtype)
        found |= dict.fromkeys(self.case.scaled.split(), (self.vector, self.dtype))
        return found | self.moments if op in (MVN_GRAD, NORMALIZE) else found

    @property
    def needed(self) -> dict[str, Kept]:
        """Inputs without the bias of which a gradient needs nothing but the shape: no slope is
        computed from it."""
        is_unread = self.case.op == MVN_GRAD and "activation" not in self.case.args
        return {n: kept for n, kept in self.inputs.items() if not (is_unread and n == "bias")}

    @property
    def outputs(self) -> dict[str, Kept]:
        """What is written, y first: of a gradient, and of a step, that of x."""
        if self.case.step:
            forward, gradient = self.calls
            written = {**forward.outputs, self.forward_result: forward.outputs["y"]}
            return {**gradient.outputs, **{n: k for n, k in written.items() if n != "y"}}
        found = {"y": (self.output, self.dtype)}
        if self.index:
            found["indices"] = (self.output, self.index)
        if self.case.op == MVN_GRAD:
            found |= {f"d{name}": (self.vector, self.dtype) for name in self.case.scaled.split()}
        return found | self.moments if self.case.args.get("return_statistics") else found

    @property
    def compared(self) -> tuple[str, ...]:
        """The outputs that every library has: neither indices nor saved statistics."""
        own = ("indices", "mean", "variance")
        return tuple(name for name in self.outputs if name not in own)

    @property
    def positions(self) -> str:
        """Of unpooling: element type of the indices that it is given."""
        return str(self.case.args["positions"])

    @property
    def read(self) -> int:
        """Compulsory bytes: every input element once, in each call."""
        return sum(_bytes_of(call.needed) for call in self.calls)

    @property
    def written(self) -> int:
        """Compulsory bytes: every output element once, in each call."""
        return sum(_bytes_of(call.outputs) for call in self.calls)

    @property
    def bytes(self) -> int:
        """Compulsory traffic."""
        return self.read + self.written


def _bytes_of(arrays: dict[str, Kept]) -> int:
    return sum(math.prod(shape) * ITEM[dtype] for shape, dtype in arrays.values())


def cross(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _at_full_size(case: Case) -> Iterator[Problem]:
    for shape in case.shapes:
        groups = case.args.get("groups")
        taken = (shape[0], groups, shape[1] // groups, *shape[2:]) if groups else shape
        for letter in case.dtypes:
            for layout in case.layouts:
                yield Problem(case, shape, taken, DTYPES[letter], layout)


def fitted(problem: Problem, most: int = MOST_BYTES) -> Problem:
    """The problem with its leading dimensions in memory made smaller until it fits, but none of
    them smaller than its window."""

    def of(axis: int, n: int) -> Problem:
        shape = tuple(n if a == axis else size for a, size in enumerate(problem.shape))
        return Problem(problem.case, problem.full, shape, problem.dtype, problem.layout)

    for axis in problem.memory_axes:
        if problem.bytes <= most:
            break
        if axis in problem.case.fixed:
            continue
        least = min(problem.extent(axis), problem.shape[axis])
        n = max(least, problem.shape[axis] * most // problem.bytes + 1)
        while n > least and of(axis, n).bytes > most:
            n -= 1
        problem = of(
            axis, n - n % 8 if n > max(8, least + 7) else n
        )  # multiples of 8 keep rows aligned
    return problem


def problems(
    *, full: bool = True, only: str = "", cases: tuple[Case, ...] = CASES
) -> list[Problem]:
    """The suite, or what other `cases` say. With `full` False every problem fits MOST_BYTES, and
    what thereby becomes the same as one before is left out. `only`: numbers, ranges or parts of
    names, with commas."""
    found: dict[Any, Problem] = {}
    for case in cases:
        for whole in _at_full_size(case):
            problem = whole if full else fitted(whole)
            if is_chosen(problem, only):
                same = (case.number, case.what, problem.shape, problem.dtype, problem.layout)
                found.setdefault(same, problem)
    return list(found.values())


def is_chosen(problem: Problem, only: str) -> bool:
    parts = [part.strip() for part in only.split(",") if part.strip()]
    return not parts or any(_is_named(problem, part) for part in parts)


def _is_named(problem: Problem, part: str) -> bool:
    """By a number, by a range of them as 52-85, or by a part of its name."""
    number, (first, dash, last) = problem.case.number, part.partition("-")
    if first.isdigit() and (last.isdigit() or not dash):
        return int(first) <= number <= int(last or first)
    return fnmatch(f"{problem.name} {problem.family}", f"*{part}*")
