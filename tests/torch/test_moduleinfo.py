"""PyTorch's own samples of its modules, through cudml.torch.nn: results, gradients, statistics."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import nn  # noqa: E402
from tests.torch.comparing import assert_close, gradient_of  # noqa: E402
from tests.torch.torchs_samples import modules  # noqa: E402

MODULES = modules(nn)
# torch has no samples of these.
WITHOUT = {"MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"}


def is_refused(given: Any) -> bool:
    """Norms that are no whole number, and divisors, which are arguments of average pooling."""
    first = given.args[0] if given.args else None
    return isinstance(first, float) or given.kwargs.get("divisor_override") is not None


def outcome(module: Any, given: Any, state: Any) -> list[torch.Tensor]:
    """The result, the gradients of the input and of all parameters, and the buffers after it."""
    module.load_state_dict(state, strict=True)
    x, *rest = copy.deepcopy(given.args)
    x = x.detach().requires_grad_()
    y = module(x, *rest, **given.kwargs)
    first, *more = y if isinstance(y, tuple) else (y,)
    first.backward(gradient_of(first))
    return [first, *more, x.grad, *(p.grad for p in module.parameters()), *module.buffers()]


def compared(name: str, sample: Any, is_training: bool) -> None:
    given = sample.constructor_input
    own, torchs = (
        getattr(package, name)(*given.args, **given.kwargs).double().train(is_training)
        for package in (nn, torch.nn)
    )
    assert repr(own) == repr(torchs) and isinstance(own, type(torchs))
    state = {
        key: torch.rand_like(t) + 0.5 if t.is_floating_point() else t
        for key, t in torchs.state_dict().items()
    }
    found = (outcome(module, sample.forward_input, state) for module in (own, torchs))
    for got, want in zip(*found, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert_close(got, want)


@pytest.mark.parametrize("is_training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("info", MODULES, ids=lambda info: info.module_cls.__name__)
def test_samples(info: Any, is_training: bool) -> None:
    name, options = info.module_cls.__name__, {"dtype": torch.float64, "requires_grad": True}
    torch.manual_seed(1)
    for sample in info.module_inputs_func(info, device="cpu", training=is_training, **options):
        if not is_refused(sample.constructor_input):
            compared(name, sample, is_training)
            continue
        given = sample.constructor_input
        module = getattr(nn, name)(*given.args, **given.kwargs).double()
        with refused(ValueError):
            module(*sample.forward_input.args)


def test_every_module_of_torchs_names_has_samples() -> None:
    named = {info.module_cls.__name__ for info in MODULES}
    assert named | WITHOUT == {name for name in nn.__all__ if hasattr(torch.nn, name)} - {
        "functional"
    }
