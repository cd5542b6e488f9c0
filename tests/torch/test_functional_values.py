"""cudml.torch.functional beside torch.nn.functional: every function, every option, both orders."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch  # noqa: E402
from cudml.torch import functional  # noqa: E402
from tests.torch.comparing import (  # noqa: E402
    ORDERS,
    Case,
    Recorder,
    assert_close,
    assert_inside,
    bounds_of,
    bounds_of_gradients,
    call,
    gradient_of,
    gradients,
    leaves,
)

SPATIAL = {1: (11,), 2: (9, 12), 3: (6, 5, 8)}
KERNEL = {1: (3,), 2: (3, 2), 3: (2, 3, 4)}
STRIDE = {1: (2,), 2: (2, 3), 3: (1, 2, 3)}
PADDING = {1: (1,), 2: (1, 0), 3: (0, 1, 2)}
DILATION = {1: (2,), 2: (2, 3), 3: (1, 2, 2)}


def pools(n: int) -> list[Case]:
    """Max and average pooling of n dimensions."""
    shape, window, step, pads = (2, 3, *SPATIAL[n]), KERNEL[n], STRIDE[n], PADDING[n]
    maximum, average = f"max_pool{n}d", f"avg_pool{n}d"
    return [
        Case(maximum, shape, (window,)),
        Case(maximum, shape, (2, 1)),
        Case(maximum, shape[1:], (window, step, pads)),
        Case(maximum, shape, (window, step, pads, DILATION[n], True, True)),
        Case(maximum, shape, (window,), {"return_indices": True, "stride": step, "padding": 1}),
        Case(maximum, shape[1:], (3,), {"return_indices": True, "ceil_mode": True, "padding": 1}),
        Case(average, shape, (window,)),
        Case(average, shape[1:], (window, step, pads)),
        Case(average, shape, (window, step, pads, True)),
        Case(average, shape, (window, step, pads, True, False)),
        Case(average, shape, (3,), {"padding": 1, "count_include_pad": False}),
    ]


def norms_of_windows(n: int) -> list[Case]:
    """Lp pooling: odd powers of positive values, as torch does not take absolute ones."""
    shape, name = (2, 3, *SPATIAL[n]), f"lp_pool{n}d"
    window = KERNEL[n] if n > 1 else 3  # torch's takes no tuple
    return [
        Case(name, shape, (2.0, window)),
        Case(name, shape[1:], (4, window, STRIDE[n])),
        Case(name, shape, (3, 2), {"stride": STRIDE[n]}, is_positive=True),
        Case(name, shape, (1.0, window, 1), is_positive=True),
    ]


def pads() -> list[Case]:
    shape = (2, 3, 4, 6, 5)
    found = [
        Case("pad", shape, ((1, 2),)),
        Case("pad", shape, ((1, 2, 3, 0, 0, 1, 2, 1), "constant", -1.5)),
        Case("pad", shape, ((-1, 2, 3, -2),), {"value": 7}),
        Case("pad", (5,), ((2, 3), "constant", 1)),
    ]
    for mode in ("reflect", "replicate", "circular"):
        found += [
            Case("pad", (3, 4, 7), ((2, 1), mode)),
            Case("pad", (2, 3, 5, 7), ((3, 1, 2, 4), mode)),
            Case("pad", shape, ((1, 3, 2, 0, 3, 1), mode)),
            Case("pad", (2, 3, 5, 7), ((-1, 3, 2, -2), mode)),
        ]
    return found


def normalizations() -> list[Case]:
    both, shape = {"weight": (6,), "bias": (6,)}, (3, 6, 5, 4)
    stored = {"running_mean": (6,), "running_var": (6,)}
    trailing = {"weight": (5, 4), "bias": (5, 4)}
    return [
        Case("layer_norm", shape, ((5, 4),)),
        Case("layer_norm", shape, ((5, 4),), {"eps": 0.3}, trailing),
        Case("layer_norm", shape, ((4,),), {}, {"weight": (4,)}),
        Case("layer_norm", (7,), ((7,),), {"activation": "silu"}, {"weight": (7,), "bias": (7,)}),
        Case("rms_norm", shape, ((5, 4),)),
        Case("rms_norm", shape, ((4,),), {"eps": 0.2}, {"weight": (4,)}),
        Case("rms_norm", shape, ([6, 5, 4],), {"activation": "gelu"}, {"weight": (6, 5, 4)}),
        Case("group_norm", shape, (3,)),
        Case("group_norm", shape, (2,), {"eps": 0.2}, both),
        Case("group_norm", (4, 6), (2,), {}, {"weight": (6,)}),
        Case("group_norm", (2, 6, 7), (6,), {"activation": "relu"}, both),
        Case("group_norm", (2, 6, 3, 2, 4), (1,), {"activation": "silu"}, both),
        Case("instance_norm", shape, (), {"eps": 0.1}, both),
        Case("instance_norm", (2, 6, 3, 2, 4), (), {"activation": "leaky_relu"}, {"weight": (6,)}),
        Case("instance_norm", (2, 6, 5), (), {"use_input_stats": False}, {**both, **stored}),
        Case("batch_norm", shape, (None, None), {"training": True}, both),
        Case("batch_norm", (7, 6), (None, None), {"training": True, "eps": 0.4}),
        Case("batch_norm", (2, 6, 3, 2, 4), (), {"eps": 0.2}, {**stored, **both}),
        Case("batch_norm", (5, 6, 4), (), {"activation": "hardswish"}, {**stored, "bias": (6,)}),
    ]


CASES = [c for n in (1, 2, 3) for c in (*pools(n), *norms_of_windows(n))]
CASES += [*pads(), *normalizations()]
NAMES = {"hardswish": "hard_swish"}


def ours(case: Case) -> Case:
    """The case with cudml's names of activations; "silu" is known by torch's, too."""
    name = case.kwargs.get("activation")
    more = {"activation": NAMES[name]} if name in NAMES else {}
    return Case(case.name, case.shape, case.args, {**case.kwargs, **more}, case.tensors)


def keeps_order(case: Case) -> bool:
    """Whether there are channels that can be last: a batch, of no mere slice (D-GRAD-38)."""
    is_batch = len(case.shape) in (4, 5)
    if "pool" in case.name:
        is_batch = len(case.shape) == int(case.name[-2]) + 2 > 3
    return is_batch and not (case.name == "pad" and min(case.args[0]) < 0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_float64_is_torchs(case: Case, order: str) -> None:
    tensors = leaves(case, torch.float64, order)
    got, want = call(functional, ours(case), tensors), call(torch.nn.functional, case, tensors)
    first, others = (got, want) if not isinstance(got, tuple) else (got[0], want[0])
    assert first.dtype == torch.float64
    assert_close(first, others)
    if isinstance(got, tuple):
        assert got[1].dtype == torch.int64 and torch.equal(got[1], want[1])
    if order == "channels-last" and keeps_order(case):
        kind = {4: torch.channels_last, 5: torch.channels_last_3d}[first.dim()]
        assert first.is_contiguous(memory_format=kind)
    both = (gradients(found, tensors).values() for found in (got, want))
    for found, expected in zip(*both, strict=True):
        assert_close(found, expected)


def has_own_bounds(case: Case) -> bool:
    """Not a padding of a mere slice."""
    return case.name != "pad" or min(case.args[0]) >= 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_is_within_the_bound(case: Case, monkeypatch: Any) -> None:
    """Results and gradients, of the same call in float64 by torch, whose input is float32's."""
    recorder = Recorder(monkeypatch, cudml.torch)
    tensors = leaves(case, torch.float32, "row-major")
    got = call(functional, ours(case), tensors)
    if case.name == "rms_norm" and "eps" not in case.kwargs:
        case = Case(case.name, case.shape, case.args, {**case.kwargs, "eps": 2.0**-23})
    exact = {k: t.detach().double().requires_grad_(t.requires_grad) for k, t in tensors.items()}
    want = call(torch.nn.functional, case, exact)
    both = [gradients(found, given) for found, given in ((got, tensors), (want, exact))]
    if isinstance(got, tuple):
        assert torch.equal(got[1], want[1])
        got, want = got[0], want[0]
    name, args, kwargs = recorder.calls[-1]
    assert_inside(got, want, bounds_of(name, *args, **kwargs)[0])
    if has_own_bounds(case):
        found = bounds_of_gradients(recorder, gradient_of(got))
        for key, bound in zip(("input", "weight", "bias"), found, strict=False):
            if key in both[0]:
                assert_inside(both[0][key], both[1][key], bound)


EMPTY = [
    Case("layer_norm", (2, 0, 3), ((0, 3),), {"activation": "silu"}, {"weight": (0, 3)}),
    Case("layer_norm", (0, 4), ((0, 4),), {}, {"weight": (0, 4), "bias": (0, 4)}),
    Case("rms_norm", (3, 0), ((0,),), {"eps": 0.2}, {"weight": (0,)}),
    Case("group_norm", (2, 0, 5), (3,), {}, {"weight": (0,), "bias": (0,)}),
    Case("group_norm", (3, 4, 0, 2), (2,), {"activation": "relu"}),
]


@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_groups_without_elements(case: Case) -> None:
    """What the operator refuses and torch, before 2.14, does not: nothing is normalized."""
    tensors = leaves(case, torch.float64, "row-major")
    got = call(functional, ours(case), tensors)
    try:
        want = call(torch.nn.functional, case, tensors)
    except RuntimeError as error:
        assert "to be greater than 0, got 0" in str(error)
        x, *parameters = tensors.values()
        want = sum((p.sum() for p in parameters), start=x)  # as empty, whatever they are
    assert got.dtype == torch.float64 and torch.equal(got, want) and got.shape == want.shape
    both = (gradients(found, tensors).values() for found in (got, want))
    for found, expected in zip(*both, strict=True):
        assert torch.equal(found, expected)
