"""Modules with cudml's own arguments: each one reaches the function, by the function's defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch as ct  # noqa: E402
from cudml.torch import nn as ours  # noqa: E402

GEOMETRY = {
    "window_size": (3, 2), "strides": (2, 1), "start_padding": (1, 0), "end_padding": (0, 1),
    "dilations": (1, 2), "output_sizes": "ceil", "axes": (1, 3),
}  # fmt: skip
WINDOW = {"window_size": 2}
# The module, its function, what a call needs, and a value of each argument that is no default.
MODULES: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("MaxPooling", ct.max_pooling, WINDOW, GEOMETRY | {
        "return_indices": True, "index_dtype": "uint32",
    }),
    ("AveragePooling", ct.average_pooling, WINDOW, GEOMETRY | {"include_padding": True}),
    ("LpPooling", ct.lp_pooling, WINDOW, GEOMETRY | {"p": 3}),
    ("Padding", ct.padding, {"start_padding": 1, "end_padding": 1}, {
        "start_padding": (0, 1, 2, 0), "end_padding": (1, 0, 0, 3), "mode": "wrap", "value": 4,
    }),
    ("MeanVarianceNormalization", ct.mean_variance_normalization, {"axes": 3}, {
        "axes": (1, 2), "use_mean": False, "use_variance": False, "epsilon": 0.5,
        "activation": "relu",
    }),
]  # fmt: skip
EACH = [(*module, name) for module in MODULES for name in module[3]]


def listed(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize(
    "name, function, needed, given, argument", EACH, ids=[f"{e[0]}-{e[4]}" for e in EACH]
)
def test_an_argument_reaches_the_function(
    name: str, function: Any, needed: Any, given: dict[str, Any], argument: str
) -> None:
    """Beside those without which there is no call, and with all the others."""
    x = values(2, 9, 6, 8)
    for chosen in (needed | {argument: given[argument]}, given):
        if argument == "index_dtype":
            chosen = chosen | {"return_indices": True}
        module = getattr(ours, name)(**chosen)
        for got, want in zip(listed(module(x)), listed(function(x, **chosen)), strict=True):
            assert got.dtype == want.dtype and torch.equal(got, want)
        assert f"{argument}={given[argument]!r}" in repr(module)


@pytest.mark.parametrize("name, function, given", [(m[0], m[1], m[3]) for m in MODULES])
def test_arguments_are_the_functions(name: str, function: Any, given: dict[str, Any]) -> None:
    """In their order, by their defaults. What a module takes beyond them are the shapes of its own
    parameters, their type and their place."""
    own = inspect.signature(getattr(ours, name)).parameters
    wanted = {k: v for k, v in inspect.signature(function).parameters.items() if k in given}
    extra = [argument for argument in own if argument not in given]
    shared = [v for k, v in own.items() if k in given]
    assert [(p.name, p.kind, p.default) for p in shared] == [
        (p.name, p.kind, p.default) for p in wanted.values()
    ]
    is_normalization = function is ct.mean_variance_normalization
    assert extra == (["scale_shape", "bias_shape", "device", "dtype"] if is_normalization else [])
    assert all(own[argument].default is None for argument in extra)


@pytest.mark.parametrize("absent", ["scale", "bias"])
def test_one_parameter_of_a_normalization(absent: str) -> None:
    """The other one has the type that is asked for; ones and zeros are where both begin."""
    there = "bias" if absent == "scale" else "scale"
    shape = (1, 3, 1)
    options = {f"{there}_shape": shape, "dtype": torch.float64}
    module = ours.MeanVarianceNormalization(axes=2, **options)
    assert getattr(module, absent) is None
    parameter = getattr(module, there)
    assert parameter.dtype == torch.float64 and parameter.requires_grad
    start = torch.ones(shape) if there == "scale" else torch.zeros(shape)
    assert torch.equal(parameter.detach(), start.double())
    with torch.no_grad():
        parameter.copy_(values(*shape))
    x = values(2, 3, 5)
    assert torch.equal(
        module(x), ct.mean_variance_normalization(x, axes=2, **{there: parameter.detach()})
    )
    module.reset_parameters()
    assert torch.equal(parameter.detach(), start.double())


def test_parameters_lie_on_the_device_that_is_asked_for() -> None:
    shapes = {"scale_shape": (1, 3), "bias_shape": (1, 3)}
    module = ours.MeanVarianceNormalization(axes=1, **shapes, device="meta")
    assert module.scale.is_meta and module.bias.is_meta
