"""Draws the calls of ``python -m cudml selfcheck``: small, odd in every argument, reproducible."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from cudml import reference

from .call import Call

Array = npt.NDArray[Any]
Rng = np.random.Generator

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_MODES = ("constant", "edge", "reflection", "symmetric", "wrap")
_LARGEST_SIZE = 7
_LONG, _LONG_EVERY = 4000, 500  # now and then a batch that is worth several threads


def left_out() -> dict[str, str]:
    """Element types that cannot be checked here, and why."""
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        return {"bfloat16": "ml_dtypes is not installed"}
    return {}


def families() -> dict[str, list[str]]:
    """The operators and the element types each is checked with; bfloat16 if ml_dtypes is here."""
    every = ("float16", "bfloat16", "float32", "float64")
    floats = [name for name in every if name not in left_out()]
    return {
        "max_pooling": [*floats, *_INTEGERS],
        "max_pooling_grad": floats,
        "average_pooling": floats,
        "average_pooling_grad": floats,
        "lp_pooling": floats,
        "lp_pooling_grad": floats,
        "max_unpooling": [*floats, *_INTEGERS],
        "padding": [*floats, *_INTEGERS],
        "padding_grad": floats,
        "mean_variance_normalization": floats,
        "normalization_statistics": floats,
        "merge_statistics": ["float32", "float64"],
        "normalize": floats,
        "mean_variance_normalization_grad": floats,
        "normalize_grad_sums": floats,
        "normalize_grad": floats,
    }


def case(family: str, dtype: str, number: int, seed: int) -> Call:
    """The call with this number; the same on every machine for the same seed."""
    rng = np.random.default_rng([seed, number, *map(zlib.crc32, (family.encode(), dtype.encode()))])
    is_long = number % _LONG_EVERY == _LONG_EVERY - 1
    if family in ("padding", "padding_grad"):
        return _padding(rng, family, dtype, is_long)
    if family == "mean_variance_normalization":
        return _normalization(rng, dtype, is_long)
    if family == "lp_pooling_grad":
        return _lp_gradient(rng, dtype, is_long)
    if family == "max_unpooling":
        return _unpooling(rng, dtype, is_long)
    if family in ("normalization_statistics", "merge_statistics", "normalize"):
        return _two_phases(rng, family, dtype, is_long)
    if family.startswith("mean_variance_normalization") or family.startswith("normalize_grad"):
        return _normalization_grad(rng, family, dtype, is_long)
    return _pooling(rng, family, dtype, is_long)


def _pooling(rng: Rng, family: str, dtype: str, is_long: bool) -> Call:
    spatial = int(rng.integers(1, 4))
    shape, axes = _batched(rng, [int(n) for n in rng.integers(1, _LARGEST_SIZE + 1, spatial)])
    batch = [a for a in range(len(shape)) if a not in axes]
    if is_long and batch:
        shape[batch[0]] = _LONG
    geometry, floor, ceil = _geometry(rng, [shape[a] for a in axes], family)
    kwargs: dict[str, Any] = dict(geometry)
    if axes != list(range(2, len(shape))) or rng.random() < 0.5:
        kwargs["axes"] = tuple(axes)
    if family.startswith("average"):
        kwargs["include_padding"] = bool(rng.random() < 0.5)
    elif family == "lp_pooling":
        kwargs["p"] = int(rng.choice([1, 2, 2, 3, 7]))
    elif family == "max_pooling" and rng.random() < 0.7:
        kwargs["return_indices"] = True
        kwargs["index_dtype"] = str(rng.choice(["uint32", "uint64", "int64"]))
    given = [int(rng.integers(1, high + 1)) for high in ceil]
    if not family.endswith("_grad"):
        kwargs["output_sizes"] = [None, "ceil", tuple(given)][int(rng.integers(0, 3))]
        return Call(family, {"x": _values(rng, shape, dtype)}, (), kwargs)
    out = list(shape)
    for axis, size in zip(axes, given if rng.random() < 0.3 else floor, strict=True):
        out[axis] = size
    grad = _values(rng, out, dtype)
    if family == "max_pooling_grad":
        return Call(family, {"x": _values(rng, shape, dtype), "grad": grad}, (), kwargs)
    return Call(family, {"grad": grad}, (), {"input_sizes": tuple(shape), **kwargs})


def _lp_gradient(rng: Rng, dtype: str, is_long: bool) -> Call:
    shape = _images(rng, is_long)
    geometry, floor, ceil = _geometry(rng, shape[2:], "lp_pooling")
    out = shape[:2] + (ceil if rng.random() < 0.3 else floor)
    x, p = _values(rng, shape, dtype), int(rng.choice([1, 2, 2, 3, 7]))
    with np.errstate(all="ignore"):
        norms = reference.lp_pooling(x, **geometry, p=p, output_sizes=tuple(out[2:]))
        is_wide = x.dtype.itemsize == 2 and rng.random() < 0.4
        y = _laid_out(rng, norms.astype("float32" if is_wide else x.dtype))
    arrays = {"x": x, "y": y, "grad": _values(rng, out, dtype)}
    return Call("lp_pooling_grad", arrays, (), {**geometry, "p": p})


def _unpooling(rng: Rng, dtype: str, is_long: bool) -> Call:
    """Indices of the whole result and beyond, some of them twice."""
    shape = _images(rng, is_long)
    sizes = (*shape[:2], *map(int, rng.integers(1, 2 * _LARGEST_SIZE, len(shape) - 2)))
    kind = str(rng.choice(["uint32", "uint64", "int32", "int64"]))
    drawn = rng.integers(-3 if kind.startswith("i") else 0, np.prod(sizes) + 3, shape)
    arrays = {"x": _values(rng, shape, dtype), "indices": _laid_out(rng, drawn.astype(kind))}
    return Call("max_unpooling", arrays, (sizes,))


def _images(rng: Rng, is_long: bool) -> list[int]:
    """{N,C,…} of rank 3 to 5."""
    spatial = rng.integers(1, _LARGEST_SIZE + 1, int(rng.integers(1, 4)))
    batch = [_LONG if is_long else int(rng.integers(1, 4)), int(rng.integers(1, 4))]
    return [*batch, *map(int, spatial)]


def _batched(rng: Rng, spatial: list[int]) -> tuple[list[int], list[int]]:
    """A shape that holds these pooled sizes, and where: {N,C,…} or any ascending axes."""
    if rng.random() < 0.5:
        return [*map(int, rng.integers(1, 4, 2)), *spatial], list(range(2, 2 + len(spatial)))
    rank = len(spatial) + int(rng.integers(0, 3))
    axes = sorted(int(a) for a in rng.choice(rank, len(spatial), replace=False))
    shape = [int(n) for n in rng.integers(1, 4, rank)]
    for axis, size in zip(axes, spatial, strict=True):
        shape[axis] = size
    return shape, axes


def _geometry(
    rng: Rng, sizes: list[int], family: str
) -> tuple[dict[str, tuple[int, ...]], list[int], list[int]]:
    """Windows that fit, with the floor rule's and the largest permitted output sizes."""
    rows, floor, ceil = [], [], []
    for size in sizes:
        start, end = (int(n) for n in rng.integers(0, 4, 2))
        stride, dilation = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        widest = (size + start + end - 1) // dilation + 1
        window = int(rng.integers(1, min(widest, 5) + 1))
        room = size + start + end - 1 - (window - 1) * dilation
        rows.append((window, stride, start, end, dilation))
        floor.append(room // stride + 1)
        ceil.append(-(-room // stride) + 1)
    names = ("window_size", "strides", "start_padding", "end_padding", "dilations")
    return dict(zip(names, zip(*rows, strict=True), strict=True)), floor, ceil


def _padding(rng: Rng, family: str, dtype: str, is_long: bool) -> Call:
    rank = int(rng.integers(1, 6)) if rng.random() < 0.9 else 8
    shape = [int(n) for n in rng.integers(1, 6 if rank < 5 else 3, rank)]
    if is_long:
        shape[0] *= _LONG
    most = 9 if rank < 4 else 3
    start, end = (tuple(int(n) for n in rng.integers(0, most, rank)) for _ in range(2))
    if rank == 8:  # all of them would be 7^8 elements
        start, end = (0,) * 5 + start[5:], end[:2] + (0,) * 6
    mode: Any = str(rng.choice(_MODES))
    if family == "padding_grad":
        padded = [b + n + e for b, n, e in zip(start, shape, end, strict=True)]
        grad = {"grad": _values(rng, padded, dtype)}
        return Call(family, grad, (tuple(shape), start, end), {"mode": mode})
    if rng.random() < 0.4:
        mode = tuple(str(m) for m in rng.choice(_MODES, rank))
    x = _values(rng, shape, dtype)
    value = x.dtype.type(x.reshape(-1)[0])
    fill = int(value) if x.dtype.kind in "iu" else float(value)
    return Call("padding", {"x": x}, (start, end), {"mode": mode, "value": fill})


def _normalization(rng: Rng, dtype: str, is_long: bool) -> Call:
    rank = int(rng.integers(1, 6))
    shape = [int(n) for n in rng.integers(1, 6, rank)]
    if rng.random() < 0.25:  # a longer group now and then
        shape[int(rng.integers(0, rank))] = int(rng.integers(30, 300))
    if is_long:
        shape = [_LONG, *(min(n, 6) for n in shape[:2])]
        rank = len(shape)
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-2, 4) + rng.integers(-9, 9)).astype(
        _dtype(dtype)
    )
    arrays = {"x": _laid_out(rng, x)}
    wide = "float32" if dtype in ("float16", "bfloat16") and rng.random() < 0.5 else dtype
    kwargs: dict[str, Any] = {}
    for name in ("scale", "bias"):
        if rng.random() < 0.5:
            sizes = [n if rng.random() < 0.5 else 1 for n in shape]
            kwargs[name] = rng.standard_normal(sizes).astype(_dtype(wide))
    kwargs["axes"] = tuple(int(a) for a in np.flatnonzero(rng.random(rank) < 0.6))
    kwargs["use_mean"] = bool(rng.random() < 0.75)
    kwargs["use_variance"] = bool(rng.random() < 0.75)
    kwargs["epsilon"] = float(rng.choice([1e-5, 1e-3, 0.5]))
    kwargs["activation"] = _activation(rng)
    return Call("mean_variance_normalization", arrays, (), kwargs)


def _two_phases(rng: Rng, family: str, dtype: str, is_long: bool) -> Call:
    """Statistics of a normalization's groups, two parts of them, or normalization with them."""
    forward = _normalization(rng, dtype, is_long)
    kwargs = dict(forward.kwargs)
    over, use_mean, use_variance = (
        kwargs.pop(name) for name in ("axes", "use_mean", "use_variance")
    )
    if family == "normalization_statistics":
        wide = str(rng.choice(["float64", "float32"]))
        return Call(family, forward.arrays, (), {"axes": over, "use_mean": use_mean, "dtype": wide})
    group = [1 if a in over else n for a, n in enumerate(forward.arrays["x"].shape)]
    if family == "merge_statistics":
        a, b = (
            (
                rng.integers(0, 4, group).astype(dtype),
                rng.standard_normal(group).astype(dtype),
                rng.random(group).astype(dtype),
            )
            for _ in range(2)
        )
        return Call(family, {}, (), {"a": a, "b": b})
    kwargs["mean"] = rng.standard_normal(group) if use_mean else None
    kwargs["variance"] = rng.random(group) + 0.5 if use_variance else None
    return Call(family, forward.arrays, (), kwargs)


def _normalization_grad(rng: Rng, family: str, dtype: str, is_long: bool) -> Call:
    """The gradient of a normalization; in two phases with statistics of the groups."""
    forward = _normalization(rng, dtype, is_long)
    x, kwargs = forward.arrays["x"], dict(forward.kwargs)
    arrays = {**forward.arrays, "grad": _values(rng, list(x.shape), dtype)}
    if family == "mean_variance_normalization_grad":
        return Call(family, arrays, (), kwargs)
    over, use_mean, use_variance = (
        kwargs.pop(name) for name in ("axes", "use_mean", "use_variance")
    )
    group = [1 if a in over else n for a, n in enumerate(x.shape)]
    kwargs["mean"] = rng.standard_normal(group) if use_mean else None
    kwargs["variance"] = rng.random(group) + 0.5 if use_variance else None
    if family == "normalize_grad_sums":
        return Call(family, arrays, (), {**kwargs, "axes": over})
    if rng.random() < 0.5:
        kwargs["count"] = np.full(group, 100.0)
        kwargs["sums"] = (rng.standard_normal(group), rng.standard_normal(group))
    return Call(family, arrays, (), kwargs)


def _activation(rng: Rng) -> Any:
    name = str(rng.choice([*reference.ACTIVATIONS]))
    if rng.random() < 0.3:
        return None
    required = [k for k, v in reference.ACTIVATIONS[name].defaults.items() if v is None]
    return (name, {k: float(rng.integers(1, 4)) / 2 for k in required}) if required else name


def _dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def _values(rng: Rng, shape: list[int], dtype: str) -> Array:
    """Integers over the whole range of their type; floats with NaN, infinities, zeros at times."""
    if dtype in _INTEGERS:
        limits = np.iinfo(dtype)
        return _laid_out(rng, rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)
    if rng.random() < 0.2:
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
        values = np.where(rng.random(shape) < 0.2, odd, values)
    return _laid_out(rng, values.astype(_dtype(dtype)))


def _laid_out(rng: Rng, x: Array) -> Array:
    """The same values packed, in another memory order, or spread over a larger array."""
    way = int(rng.integers(0, 3))
    if way == 1:
        order = rng.permutation(x.ndim)
        return np.asarray(np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order)))
    if way == 2:
        wide = np.zeros([2 * n for n in x.shape], x.dtype)
        view: Array = wide[(slice(None, None, 2),) * x.ndim]
        view[...] = x
        return view
    return np.ascontiguousarray(x)
