"""An eager call of which no gradient is wanted is `cudml`'s own, and no operator of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch_support as ts  # noqa: E402
from cudml.torch import _normalization, _padding, _pooling, _two_phase  # noqa: E402

CASES = {**ts.forward(), **ts.backward()}
CALLED = ts.called_layouts(CASES)
pytestmark = pytest.mark.decision("D-GRAD-33")


@pytest.mark.parametrize(("name", "layout"), CALLED)
def test_it_goes_straight_to_the_extension(name: str, layout: str, monkeypatch: Any) -> None:
    """No operator is looked up; tensors that ask for a gradient make no difference in no_grad."""

    def fail(*arguments: Any) -> Any:
        raise AssertionError("an operator was called")

    for module in (_normalization, _padding, _pooling, _two_phase):
        monkeypatch.setattr(module, "call", fail)
    case = CASES[name]
    plain = list(map(ts.LAYOUTS[layout], case.tensors().values()))
    case.on(*plain)
    asking = [t.clone().requires_grad_(t.is_floating_point()) for t in plain]
    with torch.no_grad():
        case.on(*asking)
    with torch.inference_mode():
        case.on(*plain)
        with torch.enable_grad():  # where nothing is recorded either
            case.on(*asking)
    with pytest.raises(AssertionError, match="an operator"):
        case.on(*asking)


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_recorded_in_inference_mode(name: str, layout: str) -> None:
    """Tensors made in it cannot be kept for a way back, and the model's own ask for a gradient."""
    case = CASES[name]
    first, *others = map(ts.LAYOUTS[layout], case.tensors().values())
    asking = [t.clone().requires_grad_(t.is_floating_point()) for t in (first, *others)]
    with torch.inference_mode():
        made = first.clone()
        want = ts.listed(case.on(made, *others))
        with torch.enable_grad():
            results = [case.on(x, *asking[1:]) for x in (made, asking[0])]
    for got in map(ts.listed, results):
        assert not any(t.requires_grad for t in got)
        assert all(ts.equal(t, expected) for t, expected in zip(got, want, strict=True))
