"""Calls of cudml.torch.functional beside torch's: values, gradients, types and memory order."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import torch

import harness
from cudml import bounds, reference
from cudml.torch import functional

ORDERS = ("row-major", "channels-last")


@dataclasses.dataclass
class Case:
    """A function of both libraries, the shape of its input, further tensors by name, arguments."""

    name: str
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    tensors: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    is_positive: bool = False  # the values

    def __str__(self) -> str:
        given = [*map(str, self.args), *(f"{k}={v}" for k, v in self.kwargs.items())]
        return f"{self.name}{self.shape}({', '.join([*given, *self.tensors])})".replace(" ", "")


def ordered(x: torch.Tensor, order: str) -> torch.Tensor:
    """The same values with the channels innermost in memory, if asked for."""
    if order == "row-major" or x.dim() < 3:
        return x.contiguous()
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def leaves(case: Case, dtype: torch.dtype, order: str) -> dict[str, torch.Tensor]:
    """The tensors of a call, which want gradients; float32 numbers in every type."""
    generator = torch.Generator().manual_seed(sum(case.shape) + len(case.args))
    made = {}
    for name, shape in {"input": case.shape, **case.tensors}.items():
        values = torch.randn(shape, generator=generator)
        values = values.abs() + 0.1 if case.is_positive or name == "running_var" else values
        values = ordered(values.to(dtype), order)
        made[name] = values.requires_grad_(not name.startswith("running"))
    return made


def call(module: Any, case: Case, tensors: dict[str, torch.Tensor]) -> Any:
    """The call with these tensors.

    torch's own takes no "activation", which follows it, and not every memory order; some of its
    releases write to running statistics that they only read.
    """
    given, kwargs = dict(tensors), dict(case.kwargs)
    x, act = given.pop("input"), None
    if module is not functional:
        given = {k: t.clone() if k.startswith("running") else t for k, t in given.items()}
        x, act = x.contiguous(), kwargs.pop("activation", None)
    result = getattr(module, case.name)(x, *case.args, **given, **kwargs)
    return result if act is None else getattr(torch.nn.functional, act)(result)


def gradient_of(y: torch.Tensor) -> torch.Tensor:
    """A gradient that differs from element to element, of float32 numbers."""
    generator = torch.Generator().manual_seed(y.numel())
    return torch.randn(y.shape, generator=generator, dtype=torch.float32).to(y.dtype)


def gradients(result: Any, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of all leaves, for one gradient of the first result."""
    y = result[0] if isinstance(result, tuple) else result
    grad = gradient_of(y)
    wanted = {name: t for name, t in tensors.items() if t.requires_grad}
    found = torch.autograd.grad(y, list(wanted.values()), grad)
    return dict(zip(wanted, found, strict=True))


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    """Within 1e-12 of the largest value, or of 1: the gradients given are of that size."""
    room = 1e-12 * max(1.0, float(want.detach().abs().max())) if want.numel() else 0.0
    torch.testing.assert_close(got.detach(), want.detach(), rtol=1e-12, atol=room)


class Recorder:
    """The canonical calls that a function of torch's signature makes, and their results."""

    NAMES = ("max_pooling", "average_pooling", "lp_pooling", "padding", "normalize",
             "mean_variance_normalization", "max_unpooling")  # fmt: skip

    def __init__(self, monkeypatch: Any, canonical: Any) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.results: list[Any] = []
        for name in self.NAMES:
            monkeypatch.setattr(canonical, name, self._kept(name, getattr(canonical, name)))
        own = sys.modules["cudml.torch.functional._normalization"]
        viewed = self._of_views(own.normalization_of_views)
        monkeypatch.setattr(own, "normalization_of_views", viewed)

    def _kept(self, name: str, function: Any) -> Any:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            self.results.append(function(*args, **kwargs))
            return self.results[-1]

        return recorded

    def _of_views(self, function: Any) -> Any:
        """What normalizes views of its arguments: kept as the call on the views."""

        def recorded(x: Any, scale: Any, bias: Any, views: Any, **kwargs: Any) -> Any:
            sizes, of_parameters = views.x or x.shape, views.parameters
            given = [t if t is None else t.view(of_parameters) for t in (scale, bias)]
            own = {k: v for k, v in kwargs.items() if k != "statistics"}
            self.calls.append(("mean_variance_normalization", (x.view(sizes), *given), own))
            y = function(x, scale, bias, views, **kwargs)
            self.results.append(y.reshape(sizes))
            return y

        return recorded


def numpy_of(value: Any) -> Any:
    """A tensor as an array, bfloat16 as well; else the value."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bfloat16:
        return value.detach().view(torch.int16).numpy().view(harness.BFLOAT16)
    return value.detach().numpy()


def bounds_of(name: str, *args: Any, **kwargs: Any) -> Any:
    """How far the results of a canonical call may be from the exact ones."""
    given = {k: numpy_of(v) for k, v in kwargs.items()}
    return bounds.expected(name, *map(numpy_of, args), **given).bounds


def bounds_of_gradients(recorder: Recorder, grad: torch.Tensor) -> Any:
    """Of the last call: those of x, scale and bias, or of x alone."""
    (name, args, kwargs), y = recorder.calls[-1], recorder.results[-1]
    g = grad.reshape((y[0] if isinstance(y, tuple) else y).shape)
    x, *rest = args
    if name == "lp_pooling":
        return [_bound_of_lp_gradient(x, y, g, rest, kwargs["p"])]
    if name == "average_pooling":
        own = {"include_padding": kwargs["include_padding"]}
        return bounds_of("average_pooling_grad", g, tuple(x.shape), *rest, **own)
    if name == "padding":
        start, end, mode = args[1], args[2], kwargs["mode"]
        return bounds_of("padding_grad", g, tuple(x.shape), start, end, mode=mode)
    own = {k: v for k, v in kwargs.items() if k != "return_statistics"}
    own = {} if name == "max_pooling" else own
    return bounds_of(f"{name}_grad", x, g, *rest, **own)


def _bound_of_lp_gradient(x: Any, y: Any, g: Any, windows: Any, p: int) -> Any:
    """What is left of the exact gradient where y has its own error, too: a relative one of y
    changes a term p - 1 times as much."""
    (own,) = bounds_of("lp_pooling_grad", x, y, g, *windows, p=p)
    sizes = [t.detach().double().abs().numpy() for t in (x, y, g)]
    terms = reference.lp_pooling_grad(*sizes, *windows, p=p)
    (of_y,) = bounds_of("lp_pooling", x, *windows, p=p)
    rounded = of_y + torch.finfo(y.dtype).eps * sizes[1]
    relative = float((rounded[sizes[1] > 0] / sizes[1][sizes[1] > 0]).max(initial=0.0))
    return own + 1.01 * (p - 1) * relative * terms


def assert_inside(got: torch.Tensor, exact: torch.Tensor, bound: Any) -> None:
    """A result is within the bound, in whatever shape that is, of float64's exact one."""
    assert bound is not None and bound.size == got.numel()
    value, exact_value = got.detach().double().numpy(), exact.detach().numpy()
    room = bound.reshape(value.shape)
    kind = str(got.dtype).removeprefix("torch.")
    passed, _, share = bounds.judge(value, exact_value, room, bounds.FORMATS[kind])
    assert passed.all(), f"{share.max()} of the bound"
