"""How calls for the paths of the CPU are written down: a call by its shapes, and its arguments by
operator."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cudml
from array_support import in_order
from harness import data, with_arrays


@dataclass(frozen=True)
class Call:
    """A call by shapes; `order` is the memory order of x, outermost first. Arrays of a tuple are
    named "a[0]" and so on, and `arguments` has a tuple as long."""

    op: str
    shapes: dict[str, tuple[int, ...]]
    arguments: dict[str, Any]
    dtype: str = "float32"
    order: tuple[int, ...] | None = None
    dtypes: dict[str, str] = field(default_factory=dict)  # of arrays that are of another type
    row_major: tuple[str, ...] = ()  # arrays that `order` is not of

    def described(self) -> dict[str, Any]:
        """The arguments with arrays that have no memory."""
        return {name: self._description(name, shape) for name, shape in self.shapes.items()}

    def _description(self, name: str, shape: tuple[int, ...]) -> Any:
        dtype = self.dtypes.get(name, self.dtype)
        steps, size = [0] * len(shape), np.dtype(dtype).itemsize
        for d in reversed(self._order_of(name) or tuple(range(len(shape)))):
            steps[d], size = size, size * shape[d]
        return types.SimpleNamespace(shape=shape, dtype=dtype, strides=tuple(steps))

    def _order_of(self, name: str) -> tuple[int, ...] | None:
        return None if name in self.row_major else self.order

    def made(self) -> dict[str, Any]:
        """The arguments with arrays of numbers."""
        arrays = {}
        for i, (name, shape) in enumerate(self.shapes.items()):
            x = data(shape, self.dtypes.get(name, self.dtype), i)
            if name == "y" or self.op == "merge_statistics":
                x = np.abs(x)  # norms; counts and sums of squares
            if name == "indices":
                x = within_planes(shape, self.arguments["output_sizes"])
            order = self._order_of(name)
            arrays[name] = in_order(x, order) if order else x
        return arrays

    def explained(self) -> Any:
        return cudml.explain(self.op, **with_arrays(self.arguments, self.described()), device="cpu")


@dataclass(frozen=True)
class Case:
    """A call that just meets a path's predicates; calls that just miss one, each with its words."""

    path: str
    meets: Call
    misses: dict[str, Call] = field(default_factory=dict)


LAST = (0, 2, 3, 1)  # channels last
COLUMNS = (0, 1, 3, 2)  # the elements of a column packed
REVERSED = (3, 2, 1, 0)


def within_planes(shape: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    """Indices as pooling gives them, some of them twice: each in the plane of its element.

    Where sizes are multiples, as windows side by side leave them: the last element of each box."""
    if all(n > 1 and size % n == 0 for n, size in zip(shape[2:], sizes[2:], strict=True)):
        ends = [np.arange(1, n + 1) * (size // n) - 1 for n, size in zip(shape, sizes, strict=True)]
        return np.ravel_multi_index(np.ix_(*ends), sizes).astype("uint32")
    plane, size = np.prod(shape[2:], dtype=int), np.prod(sizes[2:], dtype=int)
    places = 3 * np.arange(plane)[::-1] % (size - 1)
    firsts = size * np.arange(shape[0] * shape[1])
    return (firsts[:, None] + places).reshape(shape).astype("uint32")


def pool(shape: tuple[int, ...], window: Any, strides: Any = 1, **more: Any) -> Call:
    call = {k: more.pop(k) for k in ("dtype", "order") if k in more}
    op = more.pop("op", "average_pooling")
    return Call(op, {"x": shape}, {"window_size": window, "strides": strides, **more}, **call)


def max_pool(*args: Any, **more: Any) -> Call:
    return pool(*args, op="max_pooling", **more)


def same(shape: tuple[int, ...], window: tuple[int, ...], **more: Any) -> Call:
    """As many outputs as elements, of windows around them."""
    around = tuple((w - 1) // 2 for w in window)
    return pool(shape, window, start_padding=around, end_padding=around, **more)


def winners(*args: Any, **more: Any) -> Call:
    return pool(*args, op="max_pooling", return_indices=True, **more)


def out_of(shape: tuple[int, ...], window: Any, strides: Any, start: Any) -> tuple[int, ...]:
    x = types.SimpleNamespace(shape=shape, dtype="float32")
    said = [np.broadcast_to(v, 2) for v in (window, strides, start)]
    spatial = [(n + p - w) // s + 1 for n, w, s, p in zip(x.shape[2:], *said, strict=True)]
    return (*shape[:2], *spatial)


def max_grad(shape: Any, window: Any, strides: Any, start: Any = 0, **more: Any) -> Call:
    shapes = {"x": shape, "grad": out_of(shape, window, strides, start)}
    given = {"window_size": window, "strides": strides, "start_padding": start}
    return Call("max_pooling_grad", shapes, given, **more)


def average_grad(shape: Any, window: Any, strides: Any, start: Any = 0, **more: Any) -> Call:
    shapes = {"grad": out_of(shape, window, strides, start)}
    given = {"window_size": window, "strides": strides, "start_padding": start}
    return Call("average_pooling_grad", shapes, {"input_sizes": shape, **given}, **more)


def lp_grad(shape: Any, window: Any, strides: Any = 1, around: Any = 0, **more: Any) -> Call:
    ends = [2 * p for p in np.broadcast_to(around, 2).tolist()]
    y = out_of(shape, window, strides, ends)
    given = {"window_size": window, "strides": strides, "start_padding": around}
    return Call("lp_pooling_grad", {"x": shape, "y": y, "grad": y},
                {**given, "end_padding": around, "p": 3}, **more)  # fmt: skip


def unpool(shape: Any, sizes: Any, **more: Any) -> Call:
    shapes = {"x": shape, "indices": shape}
    return Call("max_unpooling", shapes, {"output_sizes": sizes}, dtypes={"indices": "uint32"},
                **more)  # fmt: skip


def pad(shape: Any, start: Any, end: Any, dtype: str = "float32", **more: Any) -> Call:
    given = {"start_padding": start, "end_padding": end, "mode": "edge", **more}
    return Call("padding", {"x": shape}, given, dtype)


def turned(shape: tuple[int, ...], end: Any = 0) -> Call:
    """Padding whose x has its first dimension fastest, and whose result the last."""
    ends = np.broadcast_to(end, len(shape)).tolist()
    given = {"start_padding": 0, "end_padding": ends}
    return Call("padding", {"x": shape, "out": tuple(map(sum, zip(shape, ends, strict=True)))},
                given, order=tuple(reversed(range(len(shape)))), row_major=("out",))  # fmt: skip


def pad_grad(shape: Any, start: Any, end: Any, mode: str = "edge", **more: Any) -> Call:
    pads = [np.broadcast_to(pad, len(shape)).tolist() for pad in (start, end)]
    padded = tuple(map(sum, zip(shape, *pads, strict=True)))
    given = {"input_sizes": shape, "start_padding": start, "end_padding": end, "mode": mode}
    return Call("padding_grad", {"grad": padded}, {**given, **more})


def mvn_grad(
    shape: tuple[int, ...], axes: Any, scale: tuple[int, ...] | None = None, **more: Any
) -> Call:
    call = {k: more.pop(k) for k in ("dtype", "order", "row_major") if k in more}
    shapes = {"x": shape, "grad": shape} | ({"scale": scale} if scale else {})
    return Call("mean_variance_normalization_grad", shapes, {"axes": axes, **more}, **call)


def grad_sums(
    shape: tuple[int, ...], axes: Any, mean: tuple[int, ...], scale: tuple[int, ...], **more: Any
) -> Call:
    """By a mean that is given."""
    shapes = {"x": shape, "grad": shape, "mean": mean, "scale": scale}
    return Call("normalize_grad_sums", shapes, {"axes": axes, "variance": None}, **more)


def mvn(shape: Any, axes: Any, *, affine: Any = None, **more: Any) -> Call:
    call = {k: more.pop(k) for k in ("dtype", "order") if k in more}
    shapes = {"x": shape, **({"scale": affine, "bias": affine} if affine else {})}
    return Call("mean_variance_normalization", shapes, {"axes": axes, **more}, **call)


def statistics(shape: tuple[int, ...], axes: Any, **more: Any) -> Call:
    return Call("normalization_statistics", {"x": shape}, {"axes": axes}, **more)


def given(shape: Any, mean: Any, variance: Any, *, affine: Any = None, **more: Any) -> Call:
    shapes = {"x": shape, "mean": mean, "variance": variance}
    shapes |= {"scale": affine, "bias": affine} if affine else {}
    return Call("normalize", shapes, {}, **more)
