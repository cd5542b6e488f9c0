"""PyTorch's own samples of its operators, through cudml.torch.functional: values and gradients."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import functional  # noqa: E402
from tests.torch.comparing import assert_close  # noqa: E402
from tests.torch.torchs_samples import operators  # noqa: E402

NAMES = functional.__all__
# Of an operator: maxima have up to 1440, every window with every stride, pad and dilation.
# Continuous integration asks for all where other releases of PyTorch take their turn.
MOST = 200
ASKS_FOR_ALL = os.environ.get("CUDML_ALL_SAMPLES") == "1"


def is_emptied(x: torch.Tensor, pads: Any) -> bool:
    """Whether a padded dimension has no element, or none is left when it has been cropped."""
    sizes = list(reversed(x.shape))[: len(pads) // 2]
    left = [n + min(a, 0) + min(b, 0) for n, a, b in zip(sizes, pads[::2], pads[1::2], strict=True)]
    padded = [max(a, b) > 0 for a, b in zip(pads[::2], pads[1::2], strict=True)]
    return any(n == 0 and is_padded for n, is_padded in zip(left, padded, strict=True))


# Samples that differ on purpose: function, whether a call is one, and the rule.
NEGATIVE = "D-MVN-8: a negative epsilon is refused"
DIFFERS: list[tuple[str, Any, str]] = [
    ("avg_pool", lambda x, a, k: k.get("divisor_override") or (len(a) > 5 and a[5]),
     "there is no divisor_override"),
    ("layer_norm", lambda x, a, k: k.get("eps", 0) < 0, NEGATIVE),
    ("group_norm", lambda x, a, k: k.get("eps", 0) < 0, NEGATIVE),
    ("rms_norm", lambda x, a, k: (k.get("eps") or 0) < 0, NEGATIVE),
    ("batch_norm", lambda x, a, k: x.dim() < 2, "an input without channels is refused"),
    ("lp_pool", lambda x, a, k: a[0] != int(a[0]), "norm_type is a whole number"),
    ("pad", lambda x, a, k: is_emptied(x, a[0]), "D-TEN-4: there is nothing to pad from"),
]  # fmt: skip


def rule(name: str, sample: Any) -> str:
    """Why a sample differs; empty if it does not."""
    for start, is_one, why in DIFFERS:
        if name.startswith(start) and is_one(sample.input, sample.args, sample.kwargs):
            return why
    return ""


def samples(op: Any) -> Iterator[Any]:
    yield from op.sample_inputs("cpu", torch.float64, requires_grad=True)


def drawn(op: Any) -> Iterator[Any]:
    """All that do not differ by a rule, or as many as are enough."""
    name = op.name.removeprefix("nn.functional.")
    chosen = [sample for sample in samples(op) if not rule(name, sample)]
    most = len(chosen) if ASKS_FOR_ALL else MOST
    places = random.Random(len(chosen)).sample(range(len(chosen)), min(len(chosen), most))
    yield from (chosen[i] for i in sorted(places))


def leaves(sample: Any) -> list[torch.Tensor]:
    given = [sample.input, *sample.args, *sample.kwargs.values()]
    return [t for t in given if isinstance(t, torch.Tensor) and t.requires_grad]


def copied(value: Any) -> Any:
    """Running statistics are written to; what wants a gradient is compared and stays."""
    is_written = isinstance(value, torch.Tensor) and not value.requires_grad
    return value.clone() if is_written else value


def has_duplicates(name: str, sample: Any) -> bool:
    """D-GRAD-32a: of elements with one index the last has the gradient, in torch all of them."""
    if not name.startswith("max_unpool"):
        return False
    planes = sample.args[0].flatten(-int(name[-2]))
    ordered = planes.sort(-1).values
    return bool((ordered[..., 1:] == ordered[..., :-1]).any())


def compared(name: str, sample: Any) -> None:
    """Both results, what they write, and the gradients of all tensors that want them."""
    args, kwargs = [*map(copied, sample.args)], {k: copied(v) for k, v in sample.kwargs.items()}
    want = getattr(torch.nn.functional, name)(sample.input, *sample.args, **sample.kwargs)
    got = getattr(functional, name)(sample.input, *args, **kwargs)
    if isinstance(want, tuple):
        assert torch.equal(got[1], want[1])
        got, want = got[0], want[0]
    assert got.shape == want.shape
    assert_close(got, want)
    given = zip([*args, *kwargs.values()], [*sample.args, *sample.kwargs.values()], strict=True)
    for mine, theirs in given:
        if isinstance(theirs, torch.Tensor):
            assert_close(mine, theirs)
    wanted = leaves(sample)
    if not wanted or not want.requires_grad or has_duplicates(name, sample):
        return
    grad = torch.linspace(-1, 2, want.numel(), dtype=want.dtype).view(want.shape)
    pairs = (torch.autograd.grad(y, wanted, grad, allow_unused=True) for y in (got, want))
    for found, expected in zip(*pairs, strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            assert_close(found, expected)


OPERATORS = operators()


@pytest.mark.parametrize("op", OPERATORS, ids=lambda o: f"{o.name}-{o.variant_test_name}")
def test_samples(op: Any) -> None:
    name, seen = op.name.removeprefix("nn.functional."), 0
    for sample in drawn(op):
        compared(name, sample)
        seen += 1
    assert seen >= 2


def test_every_function_has_samples() -> None:
    named = {op.name.removeprefix("nn.functional.") for op in OPERATORS}
    assert named == set(NAMES)


def test_every_rule_has_a_sample() -> None:
    """A difference that no sample shows any more is taken out of the list."""
    found = set()
    for op in OPERATORS:
        name = op.name.removeprefix("nn.functional.")
        if not name.startswith("max_"):
            found |= {rule(name, s) for s in samples(op)}
    assert found - {""} == {why for _, _, why in DIFFERS}
