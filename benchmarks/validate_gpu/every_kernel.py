"""Small calls that between them reach every kernel, and how they are run on each of them."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import backends
import cudml
import harness
from cudml import reference

ALL = {op: tuple(names) for op, names in harness.DTYPES.items()}
SHORT = {op: tuple(n for n in names if n in ("float16", "uint8")) for op, names in ALL.items()}
Named = dict[str, np.ndarray]
Outputs = list[np.ndarray | None]  # None where a gradient has no parameter


@dataclass(frozen=True)
class Case:
    """One call. Array sizes are those of x; `order` moves dimension 1 innermost where "last"."""

    op: str
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    order: str = "first"
    affine: bool = False  # with scale and bias that vary along dimension 1
    given: tuple[int, ...] = ()  # axes of statistics that the call is given
    small: bool = False  # part of the sanitizers' list

    def arrays(self, dtype: str) -> Named:
        """The arrays by name, as the operator takes them, in the case's memory order."""
        x = harness.data(self.shape, dtype, 1, "special" if self.is_copy else "random")
        named = _DRAWN.get(self.op, _as_drawn)(self, x, dtype)
        if self.affine:
            vector = [n if a == 1 else 1 for a, n in enumerate(self.shape)]
            named["scale"] = harness.data(vector, dtype, 2)
            named["bias"] = harness.data(vector, dtype, 3)
        move = harness.LAYOUTS["permuted" if self.order == "last" else "contiguous"]
        return {name: move(a) for name, a in named.items()}

    @property
    def is_copy(self) -> bool:
        return self.op in ("max_pooling", "max_unpooling", "padding")

    def words(self) -> tuple[Any, ...]:
        """The arguments after the arrays."""
        takes_sizes = self.op in ("average_pooling_grad", "padding_grad")
        return (self.shape, *self.args) if takes_sizes else self.args

    def call(self, backend: Any, arrays: Named) -> Outputs:
        """The results on a back end, home again as NumPy arrays."""
        sent = [backend.to(a) for a in arrays.values()]
        with backends.using(backend):
            result = backend.call(self.op, *sent, *self.words(), **self.kwargs)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        return [y if y is None else np.asarray(backend.back(y)) for y in outputs]

    def bound(self, arrays: Named) -> dict[str, Any]:
        """The arguments by the reference's names."""
        function = inspect.signature(getattr(reference, self.op))
        return dict(function.bind(*arrays.values(), *self.words(), **self.kwargs).arguments)

    def __str__(self) -> str:
        return f"{self.op} {self.shape} {self.words()} {self.kwargs} channels {self.order}"


def _as_drawn(case: Case, x: np.ndarray, dtype: str) -> Named:
    return {"x": x}


def _like(result: np.ndarray, dtype: str) -> np.ndarray:
    """A gradient of a forward result."""
    return harness.data(result.shape, dtype, 4)


def _for_max_grad(case: Case, x: np.ndarray, dtype: str) -> Named:
    return {"x": x, "grad": _like(reference.max_pooling(x, *case.args, **case.kwargs), dtype)}


def _for_average_grad(case: Case, x: np.ndarray, dtype: str) -> Named:
    return {"grad": _like(reference.average_pooling(x, *case.args, **case.kwargs), dtype)}


def _for_lp_grad(case: Case, x: np.ndarray, dtype: str) -> Named:
    y = reference.lp_pooling(x, *case.args, **case.kwargs).astype(x.dtype)
    return {"x": x, "y": y, "grad": _like(y, dtype)}


def _for_unpooling(case: Case, x: np.ndarray, dtype: str) -> Named:
    """Some positions twice, and some out of range."""
    drawn = harness.data(case.shape, "int64", 5) % (np.prod(case.args[0]) + 9)
    return {"x": x, "indices": drawn.astype("uint32")}


def _for_padding_grad(case: Case, x: np.ndarray, dtype: str) -> Named:
    return {"grad": _like(reference.padding(x, *case.args, **case.kwargs), dtype)}


def _for_norm_grad(case: Case, x: np.ndarray, dtype: str) -> Named:
    return {"x": x, "grad": _like(x, dtype)}


def _for_normalize(case: Case, x: np.ndarray, dtype: str) -> Named:
    mean, variance, _ = reference.normalization_statistics(x, axes=case.given)
    return {"x": x, "mean": mean.astype(x.dtype), "variance": variance.astype(x.dtype)}


def _for_normalize_grad(case: Case, x: np.ndarray, dtype: str) -> Named:
    named = _for_normalize(case, x, dtype)
    return {"x": x, "grad": _like(x, dtype), **{k: named[k] for k in ("mean", "variance")}}


_DRAWN: dict[str, Callable[[Case, np.ndarray, str], Named]] = {
    "max_pooling_grad": _for_max_grad,
    "average_pooling_grad": _for_average_grad,
    "lp_pooling_grad": _for_lp_grad,
    "max_unpooling": _for_unpooling,
    "padding_grad": _for_padding_grad,
    "mean_variance_normalization_grad": _for_norm_grad,
    "normalize": _for_normalize,
    "normalize_grad": _for_normalize_grad,
    "normalize_grad_sums": _for_normalize_grad,
}


def _pool(op: str, **more: Any) -> list[Case]:
    """The geometries that kernels of pooling and of its gradients are made for."""
    return [
        Case(op, (2, 5, 32, 40), (2, 2), more, small=True),
        Case(op, (2, 5, 31, 37), (3, 2, 1, 1), more, small=True),
        Case(op, (2, 16, 16, 24), (3, 2, 1, 1), more, "last", small=True),
        Case(op, (2, 16, 16, 24), (2, 2), more, "last"),
        Case(op, (2, 4, 24, 32), (3, 1, 1, 1), more),
        Case(op, (1, 3, 12, 16, 16), (2, 2), more),
        Case(op, (1, 3, 9, 17, 18), (3, 2, 1, 1), more),
        Case(op, (2, 3, 6, 16, 16), ((1, 2, 2), (1, 2, 2)), more),
        Case(op, (2, 6, 500), (5, 4, 2, 2), more),
        Case(op, (2, 6, 500), (2, 2), more),
        Case(op, (2, 6, 499), (3, 2, 1, 1), more),
        Case(op, (2, 6, 300), (3, 1, 1, 1), more),
        Case(op, (3, 7, 14, 14), (14,), more, small=True),
        Case(op, (1, 2, 128, 96), ((128, 96),), more),
        Case(op, (2, 3, 20, 21), ((3, 2), (2, 1), (1, 0), (2, 1), (2, 3)), more),
    ]


def _pads() -> list[Case]:
    some = [Case("padding", (2, 3, 33, 40), ((0, 0, 2, 3), (0, 1, 1, 5)), {"mode": m}, small=True)
            for m in ("constant", "edge", "reflection", "symmetric", "wrap")]  # fmt: skip
    return [
        *some,
        Case("padding", (2, 8, 12, 16), ((0, 0, 1, 1), (0, 0, 1, 1)), {"mode": "edge"}, "last"),
        Case("padding", (3, 64), ((0, 150), (0, 200)), {"mode": "reflection"}),
        Case("padding", (2, 2, 3, 4, 3, 5), ((1,) * 6, (0, 1, 2, 0, 1, 2)), {"value": 3}),
        Case("padding", (4, 1024), ((0, 16), (0, 16)), {"mode": "symmetric"}),
    ]


def _unpools() -> list[Case]:
    op = "max_unpooling"
    return [
        Case(op, (2, 5, 16, 20), ((2, 5, 32, 40),), small=True),
        Case(op, (2, 16, 8, 12), ((2, 16, 16, 24),), order="last", small=True),
        Case(op, (2, 6, 250), ((2, 6, 499),)),
        Case(op, (1, 3, 6, 8, 8), ((1, 3, 12, 17, 16),)),
    ]


def _norms() -> list[Case]:
    op = "mean_variance_normalization"

    def case(shape: tuple[int, ...], axes: Any, *words: str, **more: Any) -> Case:
        order = "last" if "last" in words else "first"
        kwargs = {"axes": axes, **more}
        return Case(op, shape, (), kwargs, order, "affine" in words, "small" in words)

    return [
        case((40, 96), 1, "affine", "small"),
        case((300, 24), 1, "affine"),
        case((5, 1024), 1, "affine", "small"),
        case((3, 3001), 1),
        case((2, 9000), 1, "small", activation="relu"),
        case((2, 70000), 1),
        case((2, 8, 12, 16), (2, 3), "affine", activation=("leaky_relu", {"alpha": 0.1})),
        case((2, 4, 6, 40, 40), (2, 3, 4), "affine", activation="swish"),
        case((4, 16, 20, 12), (0, 2, 3), "affine"),
        case((4, 16, 20, 12), (0, 2, 3), "affine", "last", "small"),
        case((2, 32, 9, 10), 1, "affine", "last", activation="swish", use_mean=False),
        case((2, 32, 9, 10), 1, "affine", "small", use_mean=False),
        case((3, 4, 10, 6, 5), (0, 2, 4), "small"),
        case((512, 48), 0),
    ]


def _pad_grads() -> list[Case]:
    op, pads = "padding_grad", ((0, 0, 2, 3), (0, 1, 1, 5))
    return [
        Case(op, (2, 3, 33, 40), pads, {"mode": "constant"}),
        Case(op, (2, 3, 33, 40), pads, {"mode": "edge"}, small=True),
        Case(op, (2, 3, 33, 40), pads, {"mode": "reflection"}),
        Case(op, (2, 3, 33, 40), pads, {"mode": "symmetric"}),
        Case(op, (2, 3, 33, 40), pads, {"mode": "wrap"}),
        Case(op, (2, 8, 12, 16), ((0, 0, 1, 1), (0, 0, 1, 1)), {"mode": "edge"}, "last"),
        Case(op, (3, 64), ((0, 150), (0, 200)), {"mode": "reflection"}, small=True),
        Case(op, (4, 1024), ((0, 16), (0, 16)), {"mode": "symmetric"}),
        Case(op, (2, 3), ((1, 4097), (0, 5000)), {"mode": "wrap"}),
    ]


# shape, axes, memory order, whether the sanitizers run it
_GROUPS: list[tuple[tuple[int, ...], tuple[int, ...], str, bool]] = [
    ((40, 96), (1,), "first", True),
    ((300, 24), (1,), "first", False),
    ((5, 1024), (1,), "first", True),
    ((3, 3001), (1,), "first", False),
    ((2, 70000), (1,), "first", False),
    ((2, 8, 12, 16), (2, 3), "first", True),
    ((2, 4, 6, 40, 40), (2, 3, 4), "first", False),
    ((4, 16, 20, 12), (0, 2, 3), "first", True),
    ((4, 16, 20, 12), (0, 2, 3), "last", True),
    ((2, 32, 9, 10), (1,), "last", False),
    ((9, 5, 7, 7), (0, 2, 3), "first", False),
    ((3, 4, 10, 6, 5), (0, 2, 4), "first", True),
    ((512, 48), (0,), "first", False),
]


def _two_phases() -> list[Case]:
    """Gradients of normalization, its statistics, and what is made of given ones."""
    found = []
    for k, (shape, axes, order, small) in enumerate(_GROUPS):
        fused = {"activation": (None, "swish", "gelu")[k % 3]}
        over = {"axes": axes}
        found += [
            Case(
                "mean_variance_normalization_grad",
                shape,
                (),
                over | fused,
                order,
                k % 4 != 3,
                (),
                small,
            ),
            Case("normalization_statistics", shape, (), over, order, small=small),
            Case("normalize", shape, (), fused, order, k % 4 != 2, axes, small),
            Case("normalize_grad", shape, (), fused, order, True, axes, small),
            Case("normalize_grad_sums", shape, (), over | fused, order, True, axes, small),
        ]
    return found


def cases() -> list[Case]:
    return [
        *_pool("max_pooling"),
        *_pool("max_pooling", return_indices=True, index_dtype="uint32"),
        *_pool("max_pooling", return_indices=True, index_dtype="int64")[:4],
        *_pool("average_pooling"),
        *_pool("average_pooling", include_padding=True)[1:3],
        *_pool("lp_pooling", p=2),
        *_pool("lp_pooling", p=3)[1:3],
        *_pool("max_pooling_grad"),
        *_pool("average_pooling_grad"),
        *_pool("lp_pooling_grad", p=2),
        *_pool("lp_pooling_grad", p=5)[1:3],
        *_unpools(),
        *_pads(),
        *_pad_grads(),
        *_norms(),
        *_two_phases(),
    ]


def kernels(op: str) -> list[str]:
    """The names of the family's kernels, first choice first."""
    return [kernel.name for kernel in cudml.kernels(op)]


@contextlib.contextmanager
def forced(kernel: str | None) -> Iterator[None]:
    """Within it the named kernel runs, or the library's own choice."""
    before = os.environ.pop("CUDML_KERNEL", None)
    if kernel:
        os.environ["CUDML_KERNEL"] = kernel
    try:
        yield
    finally:
        os.environ.pop("CUDML_KERNEL", None)
        if before is not None:
            os.environ["CUDML_KERNEL"] = before


def on_each_kernel(case: Case, backend: Any, arrays: Named) -> Iterator[tuple[str, Outputs]]:
    """The results of every kernel of the family that can take the call."""
    for kernel in kernels(case.op):
        with forced(kernel):
            try:
                outputs = case.call(backend, arrays)
            except ValueError as refusal:
                if "CUDML_KERNEL" not in str(refusal):
                    raise
                continue
        yield kernel, outputs
