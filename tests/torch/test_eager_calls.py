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
    with pytest.raises(AssertionError, match="an operator"):
        case.on(*asking)
