"""The one oracle of the suite: check() runs an operator through every layout and judges it."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import backends
import cudml
from backends import ARRAYS, TUPLES, Backend, current, left
from cudml import bounds, reference
from expected import expected
from layouts import ALL, BFLOAT16, LAYOUTS, dtype_of, guarded, order_problem
from repeat import inf, keywords, line, nan, noted, recipe, remember, unpacked  # noqa: F401

FLOATS = ["float16", "float32", "float64"] + (["bfloat16"] if BFLOAT16 is not None else [])
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = {
    "max_pooling": [*INTEGERS, *FLOATS],
    "max_pooling_grad": FLOATS,
    "average_pooling": FLOATS,
    "average_pooling_grad": FLOATS,
    "lp_pooling": FLOATS,
    "lp_pooling_grad": FLOATS,
    "max_unpooling": [*INTEGERS, *FLOATS],
    "padding": [*INTEGERS, *FLOATS],
    "padding_grad": FLOATS,
    "mean_variance_normalization": FLOATS,
    "mean_variance_normalization_grad": FLOATS,
    "normalization_statistics": FLOATS,
    "merge_statistics": ["float32", "float64"],
    "normalize": FLOATS,
    "normalize_grad_sums": FLOATS,
    "normalize_grad": FLOATS,
}


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
    text = f"data({shape}, {kind_of.name!r}, {seed}, {kind!r})"
    return remember(np.asarray(result), text, lambda: data(shape, dtype, seed, kind))


def shifted(x: np.ndarray, by: float) -> np.ndarray:
    """x + by, rounded once to x's type."""
    result = (x.astype(np.float64) + by).astype(x.dtype)
    return remember(result, f"shifted({recipe(x)}, {by!r})", lambda: shifted(x, by))


def _sprinkle(x: np.ndarray, rng: np.random.Generator) -> None:
    """Overwrites about a third of x with special values of its type."""
    form = bounds.FORMATS[x.dtype.name]
    special = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, form.tiny, -form.tiny, 3 * form.tiny,
         form.largest, -form.largest, 1.0, -1.0]
    ).astype(x.dtype)  # fmt: skip
    chosen = rng.random(x.shape) < 1 / 3
    x[chosen] = special[rng.integers(0, len(special), x.shape)][chosen]


def named(value: Any) -> str:
    """A test's name for this parameter: that of an object has no address, so all runs agree."""
    return "object()" if type(value) is object else repr(value)


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
    backend = backend or current()
    call = signature(op).bind(*args, **kwargs).arguments
    arrays = arrays_of(call)
    want = expected(op, **call)
    if not backend.takes(op, call, sum(v.size for v in want.values if v is not None)):
        left[backend.name] += 1
        return want
    for layout in layouts if backend.layouts is None else _shared(layouts, backend.layouts):
        moved = {k: LAYOUTS[layout](v) for k, v in arrays.items()}
        if layout == "broadcast":
            # A gradient has its parameter's shape, which stays.
            for k in {"scale", "bias"} & moved.keys() if not op.endswith("_grad") else ():
                moved[k] = np.broadcast_to(moved[k], arrays["x"].shape)
            if all(0 not in m.strides for m in moved.values()):
                continue
        with _context(op, call, layout, backend, seed):
            run(backend, op, call, moved, want)
            if out:
                order = {"column-major": "F", "sliced": "S", "negative": "S"}.get(layout, "C")
                run(backend, op, call, moved, want, order)
    return want


def arrays_of(call: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a call by name, those in a tuple or list as "sums[0]" and so on."""
    arrays = {k: v for k, v in call.items() if k in ARRAYS and v is not None}
    for k in TUPLES:
        arrays.update({f"{k}[{i}]": v for i, v in enumerate(call.get(k) or ())})
    return arrays


def with_arrays(call: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The call with other arrays, named as `arrays_of` does."""
    sent = {**call, **{k: v for k, v in arrays.items() if not k.endswith("]")}}
    for k in TUPLES:
        if call.get(k):
            sent[k] = tuple(arrays[f"{k}[{i}]"] for i in range(len(call[k])))
    return sent


def _shared(layouts: Iterable[str], those: tuple[str, ...]) -> list[str]:
    """Those of a back end's layouts that a test asks for; the first one where it is none."""
    return [layout for layout in layouts if layout in those] or [those[0]]


def _arguments(op: str, call: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The call's arguments by position, as far as the operator takes them so, and by name."""
    rest = dict(call)
    positional = []
    for name in _positional(op):
        if name not in rest:
            break
        positional.append(rest.pop(name))
    return positional, rest


def called(backend: Backend, op: str, call: dict[str, Any]) -> Any:
    """What the operator returns for arguments by name."""
    positional, rest = _arguments(op, call)
    return backend.call(op, *positional, **rest)


def explained(op: str, call: dict[str, Any], **more: Any) -> Any:
    """What cudml.explain says of arguments by name."""
    positional, rest = _arguments(op, call)
    return cudml.explain(op, *positional, **rest, **more)


def run(
    backend: Backend,
    op: str,
    call: dict[str, Any],
    arrays: dict[str, np.ndarray],
    want: bounds.Expected,
    order: str = "",
) -> None:
    """Runs and judges a call with `arrays` in place of its own; `order` is that of an `out`."""
    before = {k: a.tobytes() for k, a in arrays.items()}
    moved = {k: backend.to(a) for k, a in arrays.items()}
    sent = with_arrays(call, moved)
    if order:
        _run_out(backend, op, sent, want, order)
    else:
        result = called(backend, op, sent)
        outputs = list(result) if isinstance(result, tuple) else [result]
        kind = type(next(iter(moved.values())))
        given = [y for y in outputs if y is not None]
        foreign = backend.name != "cpu" and any(type(y) is not kind for y in given)
        assert not foreign, "results are another library's arrays"
        home = [y if y is None else backend.back(y) for y in outputs]
        _judge(home, want, "")
        for y in (y for y in home if y is not None):
            problem = order_problem(y, next(iter(arrays.values())))
            assert not problem, problem
    _unchanged(backend, moved, before)


def _unchanged(backend: Backend, arrays: dict[str, Any], before: dict[str, bytes]) -> None:
    for k, a in arrays.items():
        assert backend.back(a).tobytes() == before[k], f"input {k} changed"


def _run_out(
    backend: Backend, op: str, call: dict[str, Any], want: bounds.Expected, order: str
) -> None:
    places = [
        None if v is None else guarded(v.shape, d, order)
        for v, d in zip(want.values, want.dtypes, strict=True)
    ]
    guards = [g for g in places if g is not None]
    received = iter([backend.receive(g.view, g.raw) for g in guards])
    pairs = [(None, None) if g is None else next(received) for g in places]
    views, fetches = zip(*pairs, strict=True)
    out = views[0] if len(views) == 1 else tuple(views)
    back = called(backend, op, {**call, "out": out})
    if len(views) == 1:
        assert back is out, "the result is not the object given as out"
    else:
        assert len(back) == len(views), f"{len(back)} results, expected {len(views)}"
        assert all(b is v for b, v in zip(back, views, strict=True)), "results are not those of out"
    for fetch in fetches:
        if fetch is not None:
            fetch()
    _judge([g if g is None else g.view for g in places], want, "out=: ")
    for g in guards:
        assert not g.damage(), "out=: " + g.damage()


def _judge(outputs: list[np.ndarray | None], want: bounds.Expected, prefix: str) -> None:
    for y in outputs:
        kind = type(y).__name__
        assert y is None or isinstance(y, np.ndarray), f"{prefix}result is a {kind}"
    verdict = bounds.compare(outputs, want)
    assert verdict.ok, prefix + verdict.message


@functools.cache
def signature(op: str) -> inspect.Signature:
    """The operator's, as the reference has it."""
    return inspect.signature(getattr(reference, op))


@functools.cache
def _positional(op: str) -> list[str]:
    parameters = signature(op).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


@contextlib.contextmanager
def _context(
    op: str, call: dict[str, Any], layout: str, backend: Backend, seed: int | None
) -> Iterator[None]:
    """Turns any failure into one line that reproduces the case."""
    try:
        yield
    except Exception as error:
        shown = keywords(call)
        case = f"{op}({shown[2:]}) layout={layout} backend={backend.name} seed={seed}"
        what = error if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        failure = AssertionError(f"{case}: {str(what).splitlines()[0]}")
        again = f"again({op!r}, {layout!r}, {backend.name!r}{shown})"
        raise noted(failure, line("harness", again)) from error


def again(op: str, layout: str, backend: str, **call: Any) -> None:
    """The check that failed, by itself."""
    chosen = backends.BACKENDS[backend]
    with backends.using(chosen):
        check(op, layouts=(layout,), backend=chosen, **call)


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
