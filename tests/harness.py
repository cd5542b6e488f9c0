"""The one oracle of the suite: check() runs an operator through every layout and judges it."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds, reference

try:
    import ml_dtypes

    BFLOAT16: np.dtype | None = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BFLOAT16 = None

ARRAYS = ("x", "grad", "scale", "bias")
FLOATS = ["float16", "float32", "float64"] + (["bfloat16"] if BFLOAT16 is not None else [])
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = {
    "max_pooling": [*INTEGERS, *FLOATS],
    "max_pooling_grad": FLOATS,
    "average_pooling": FLOATS,
    "average_pooling_grad": FLOATS,
    "lp_pooling": FLOATS,
    "padding": [*INTEGERS, *FLOATS],
    "mean_variance_normalization": FLOATS,
}
POISON = 0xFF


def dtype_of(name: Any) -> np.dtype:
    """The NumPy dtype of an element type's name; bfloat16 is ml_dtypes's."""
    if name == "bfloat16":
        assert BFLOAT16 is not None
        return BFLOAT16
    return np.dtype(name)


def _same(array: Any) -> Any:
    return array


@dataclass(frozen=True)
class Backend:
    """Where an operator runs: `to` makes its arrays from NumPy's, `back` brings results home."""

    name: str
    to: Callable[[np.ndarray], Any] = _same
    back: Callable[[Any], np.ndarray] = _same

    def call(self, op: str, *args: Any, **kwargs: Any) -> Any:
        """Runs the public function `op`."""
        return getattr(cudml, op)(*args, **kwargs)


CPU = Backend("cpu")
_current = [CPU]


@contextlib.contextmanager
def using(backend: Backend) -> Iterator[Backend]:
    """Makes `backend` the one that check() runs on."""
    _current.append(backend)
    try:
        yield backend
    finally:
        _current.pop()


_recipes: dict[int, tuple[weakref.ref, str]] = {}


def data(shape: Any, dtype: Any, seed: int = 0, kind: str = "random") -> np.ndarray:
    """A reproducible array: "random", "exact" (small integers) or "special".

    Exact fill is integers of at most 8, whose sums come out the same in any order in every type.
    Special mixes NaN, infinities, both zeros, subnormals and the extremes into random values.
    """
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    kind_of = dtype_of(dtype)
    rng = np.random.default_rng([seed, 7])
    if kind_of.name in bounds.FORMATS:
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)
        if kind == "exact":
            values = rng.integers(-8, 9, shape).astype(float)
        result = np.asarray(values).astype(kind_of)
        if kind == "special" and result.size:
            _sprinkle(result, rng)
    else:
        limits = np.iinfo(kind_of)
        low, high = (limits.min, limits.max) if kind != "exact" else (max(-8, limits.min), 8)
        result = rng.integers(low, high, shape, kind_of, endpoint=True)
        if kind == "special" and result.size:
            picks = rng.integers(0, 4, shape)
            result = np.where(picks == 0, kind_of.type(limits.min), result)
            result = np.where(picks == 1, kind_of.type(limits.max), result).astype(kind_of)
    result = np.asarray(result)
    _recipes[id(result)] = (
        weakref.ref(result),
        f"data({shape}, {kind_of.name!r}, {seed}, {kind!r})",
    )
    if len(_recipes) > 4096:
        for key in [k for k, (ref, _) in _recipes.items() if ref() is None]:
            del _recipes[key]
    return result


def _sprinkle(x: np.ndarray, rng: np.random.Generator) -> None:
    """Overwrites about a third of x with special values of its type."""
    form = bounds.FORMATS[x.dtype.name]
    special = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, form.tiny, -form.tiny, 3 * form.tiny,
         form.largest, -form.largest, 1.0, -1.0]
    ).astype(x.dtype)  # fmt: skip
    chosen = rng.random(x.shape) < 1 / 3
    x[chosen] = special[rng.integers(0, len(special), x.shape)][chosen]


def recipe(x: Any) -> str:
    """How to make x again: the data() call, or its shape."""
    ref, text = _recipes.get(id(x), (lambda: None, ""))
    return text if ref() is x else f"array{x.shape} {x.dtype.name}"


def _poisoned(count: int, dtype: np.dtype, align: int = 0) -> np.ndarray:
    """`count` elements of 0xFF bytes whose address is `align` bytes past a multiple of 64."""
    raw = np.full(count * dtype.itemsize + 192, POISON, np.uint8)
    skip = -raw.ctypes.data % 64 + align
    return raw[skip : skip + count * dtype.itemsize].view(dtype)


def _ordered(x: np.ndarray, order: list[int], align: int = 0) -> np.ndarray:
    """A dense copy of x whose dimensions lie in memory in this order, outermost first."""
    flat = _poisoned(x.size, x.dtype, align)
    view = flat.reshape([x.shape[a] for a in order]).transpose(np.argsort(order))
    view[...] = x
    return view


def _contiguous(x: np.ndarray) -> np.ndarray:
    return _ordered(x, list(range(x.ndim)))


def _column_major(x: np.ndarray) -> np.ndarray:
    return _ordered(x, list(range(x.ndim))[::-1])


def _permuted(x: np.ndarray) -> np.ndarray:
    """Channels-last: dimension 1 innermost in memory (of rank 2, the transpose)."""
    order = [a for a in range(x.ndim) if a != 1] + ([1] if x.ndim > 1 else [])
    if x.ndim == 2:
        order = [1, 0]
    return _ordered(x, order)


def _sliced(x: np.ndarray) -> np.ndarray:
    """Every second element of the last two dimensions and an inner part of the others."""
    steps = [2 if a >= x.ndim - 2 else 1 for a in range(x.ndim)]
    big = [n * s + 2 for n, s in zip(x.shape, steps, strict=True)]
    whole = _poisoned(math.prod(big), x.dtype).reshape(big)
    view = whole[tuple(slice(1, 1 + n * s, s) for n, s in zip(x.shape, steps, strict=True))]
    view[...] = x
    return view


def _misaligned(x: np.ndarray) -> np.ndarray:
    """Packed, but the base is one item past a multiple of 64 bytes."""
    return _ordered(x, list(range(x.ndim)), x.dtype.itemsize)


def _negative(x: np.ndarray) -> np.ndarray:
    back = (slice(None, None, -1),) * x.ndim
    return _contiguous(x[back])[back]


def _byte_misaligned(x: np.ndarray) -> np.ndarray:
    return _ordered(x, list(range(x.ndim)), 1)


def _broadcast(x: np.ndarray) -> np.ndarray:
    """Stride 0 along every dimension in which x does not vary."""
    small = x
    for a in range(x.ndim):
        first = small[(slice(None),) * a + (slice(0, 1),)]
        if small.shape[a] > 1 and np.broadcast_to(first, small.shape).tobytes() == small.tobytes():
            small = first
    return np.broadcast_to(_contiguous(small), x.shape)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": _contiguous,
    "column-major": _column_major,
    "permuted": _permuted,
    "sliced": _sliced,
    "misaligned": _misaligned,
    "negative": _negative,
    "byte-misaligned": _byte_misaligned,
    "broadcast": _broadcast,
}
ALL = tuple(LAYOUTS)


def memory_order(x: np.ndarray) -> tuple[int, ...]:
    """x's dimensions of more than one element, from the largest stride to the smallest."""
    axes = [a for a in range(x.ndim) if x.shape[a] > 1]
    return tuple(sorted(axes, key=lambda a: -abs(x.strides[a])))


def order_problem(y: np.ndarray, like: np.ndarray) -> str:
    """Why y is not dense and ordered like `like` (D-TEN-8), or nothing."""
    if y.size == 0:
        return ""
    expected_stride = y.itemsize
    for a in reversed(memory_order(y)):
        if y.strides[a] != expected_stride:
            return f"strides {y.strides} of shape {y.shape} are not dense"
        expected_stride *= y.shape[a]
    known = [a for a in range(like.ndim) if like.shape[a] > 1 and like.strides[a] != 0]
    stride = [abs(s) for s in like.strides]
    settled = len(known) == sum(n > 1 for n in like.shape)
    if settled and all(stride[a] >= stride[b] for a, b in itertools.pairwise(known)):
        return "" if y.flags.c_contiguous else f"strides {y.strides} are not row-major"
    if settled and all(stride[a] <= stride[b] for a, b in itertools.pairwise(known)):
        return "" if y.flags.f_contiguous else f"strides {y.strides} are not column-major"
    order = [a for a in sorted(known, key=lambda a: -stride[a]) if y.shape[a] > 1]
    got = [a for a in memory_order(y) if a in order]
    return "" if got == order else f"memory order is {got}, expected {order} as in {like.strides}"


@dataclass(frozen=True)
class Guarded:
    """A poisoned output `view` inside a bigger poisoned buffer, with gaps between its rows."""

    view: np.ndarray
    raw: np.ndarray
    gaps: np.ndarray

    def damage(self) -> str:
        """Which guard byte was written, or nothing."""
        hurt = np.flatnonzero(self.gaps & (self.raw != POISON))
        return f"guard byte {hurt[0]} of {self.raw.size} was written" if hurt.size else ""


def guarded(shape: Any, dtype: Any, order: str = "C") -> Guarded:
    """A poisoned output array of this shape; order "C", "F" or "S" (row-major, inner step 2).

    Guard bytes lie before and after it and between its rows; all start as 0xFF.
    """
    shape, kind = tuple(shape), dtype_of(dtype)
    turn = -1 if order == "F" else 1
    sizes = shape[::turn]
    steps = [2 if order == "S" and a == len(sizes) - 1 else 1 for a in range(len(sizes))]
    big = [n * s + 2 for n, s in zip(sizes, steps, strict=True)]
    count = math.prod(big)
    raw = np.full(count * kind.itemsize + 256, POISON, np.uint8)
    skip = -raw.ctypes.data % 64 + 64
    window = tuple(slice(1, 1 + n * s, s) for n, s in zip(sizes, steps, strict=True))
    whole = raw[skip : skip + count * kind.itemsize].view(kind).reshape(big)
    owned = np.zeros((*big, kind.itemsize), np.bool_)
    owned[window] = True
    gaps = np.ones(raw.size, np.bool_)
    gaps[skip : skip + count * kind.itemsize] = ~owned.reshape(-1)
    view = whole[window]
    return Guarded(view.transpose() if order == "F" else view, raw, gaps)


def check(
    op: str,
    *args: Any,
    layouts: tuple[str, ...] | list[str] = ALL,
    backend: Backend | None = None,
    seed: int | None = None,
    out: bool = True,
    **kwargs: Any,
) -> bounds.Expected:
    """Runs `op` on its arguments in every layout, with and without `out`, against the reference.

    Checks element type, shape, memory order, values within their bounds, that `out` comes back as
    the same object with its guard bytes whole, and that no input changed. Returns what was
    expected. `layouts` narrows the layouts, out=False leaves the second call out.
    """
    backend = backend or _current[-1]
    call = inspect.signature(getattr(reference, op)).bind(*args, **kwargs).arguments
    arrays = {k: v for k, v in call.items() if k in ARRAYS and v is not None}
    want = bounds.expected(op, **call)
    for layout in layouts:
        moved = {k: LAYOUTS[layout](v) for k, v in arrays.items()}
        if layout == "broadcast":
            for k in {"scale", "bias"} & moved.keys():
                moved[k] = np.broadcast_to(moved[k], arrays["x"].shape)
            if all(0 not in m.strides for m in moved.values()):
                continue
        with _context(op, call, layout, backend, seed):
            _run(backend, op, {**call, **moved}, moved, want, out, layout)
    return want


def _run(
    backend: Backend,
    op: str,
    call: dict[str, Any],
    arrays: dict[str, np.ndarray],
    want: bounds.Expected,
    with_out: bool,
    layout: str,
) -> None:
    before = {k: a.tobytes() for k, a in arrays.items()}
    sent = {**call, **{k: backend.to(a) for k, a in arrays.items()}}
    positional = []
    for name in _positional(op):
        if name not in sent:
            break
        positional.append(sent.pop(name))
    result = backend.call(op, *positional, **sent)
    outputs = list(result) if isinstance(result, tuple) else [result]
    _unchanged(arrays, before)
    _judge([backend.back(o) for o in outputs], want, "")
    for y in outputs if backend is CPU else ():
        problem = order_problem(y, next(iter(arrays.values())))
        assert not problem, problem
    if with_out and backend is CPU:
        order = {"column-major": "F", "sliced": "S", "negative": "S"}.get(layout, "C")
        _run_out(op, positional, sent, want, order)
    _unchanged(arrays, before)


def _unchanged(arrays: dict[str, np.ndarray], before: dict[str, bytes]) -> None:
    for k, a in arrays.items():
        assert a.tobytes() == before[k], f"input {k} changed"


def _run_out(op: str, args: list[Any], kwargs: dict, want: bounds.Expected, order: str) -> None:
    guards = [guarded(v.shape, d, order) for v, d in zip(want.values, want.dtypes, strict=True)]
    views = [g.view for g in guards]
    out = views[0] if len(views) == 1 else tuple(views)
    back = getattr(cudml, op)(*args, **kwargs, out=out)
    if len(views) == 1:
        assert back is out, "the result is not the object given as out"
    else:
        assert len(back) == len(views), f"{len(back)} results, expected {len(views)}"
        assert all(b is v for b, v in zip(back, views, strict=True)), "results are not those of out"
    _judge(views, want, "out=: ")
    for g in guards:
        assert not g.damage(), "out=: " + g.damage()


def _judge(outputs: list[np.ndarray], want: bounds.Expected, prefix: str) -> None:
    for y in outputs:
        assert isinstance(y, np.ndarray), f"{prefix}result is a {type(y).__name__}"
    verdict = bounds.compare(outputs, want)
    assert verdict.ok, prefix + verdict.message


def _positional(op: str) -> list[str]:
    parameters = inspect.signature(getattr(reference, op)).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


@contextlib.contextmanager
def _context(
    op: str, call: dict[str, Any], layout: str, backend: Backend, seed: int | None
) -> Iterator[None]:
    """Turns any failure into one line that reproduces the case."""
    try:
        yield
    except Exception as error:
        shown = [
            f"{k}={recipe(v) if isinstance(v, np.ndarray) else repr(v)}" for k, v in call.items()
        ]
        case = f"{op}({', '.join(shown)}) layout={layout} backend={backend.name} seed={seed}"
        what = error if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        raise AssertionError(f"{case}: {str(what).splitlines()[0]}") from error


@contextlib.contextmanager
def refused(
    exception: type[BaseException] | tuple[type[BaseException], ...], *fragments: str
) -> Iterator[Any]:
    """The block raises `exception` with a message that holds every fragment and no binding text."""
    with pytest.raises(exception) as caught:
        yield caught
    text = str(caught.value)
    for fragment in fragments:
        assert fragment in text, f"{fragment!r} is not in {text!r}"
    for foreign in ("incompatible function arguments", "pybind11", "(arg0"):
        assert foreign not in text, f"{foreign!r} is in {text!r}"
