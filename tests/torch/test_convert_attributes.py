"""Modules that convert leaves for their own arguments, and for what was set on them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import convert  # noqa: E402

nn = torch.nn

NORMS = [
    nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.BatchNorm3d(4), nn.GroupNorm(2, 4), nn.RMSNorm(4),
    nn.InstanceNorm1d(4), nn.InstanceNorm2d(4), nn.InstanceNorm3d(4), nn.LayerNorm(4),
]  # fmt: skip


@pytest.mark.parametrize("norm", NORMS, ids=lambda m: type(m).__name__)
def test_every_normalization_takes_an_activation(norm: Any) -> None:
    report = convert(nn.Sequential(norm, nn.Tanh()))
    assert [(r.name, r.action, r.note) for r in report.rows] == [("0", "fused", "with 1, Tanh")]


@pytest.mark.parametrize("pads, is_left", [
    ((-2, 3), True), ((3, -2), True), ((-1, 0), False), ((2, 2), False),
    ((1, 1, -1, 2), True), ((1, 1, -1, -1), False), ((-1, 0, 2, 1), False),
    ((1, 0, 0, 1, -1, 1), True), ((1, 0, 0, 1, -1, 0), False),
])  # fmt: skip
def test_reflections_of_what_is_cropped(pads: tuple[int, ...], is_left: bool) -> None:
    """torch reflects the whole of a dimension that it crops on the other side."""
    count = len(pads) // 2
    net = nn.Sequential(getattr(nn, f"ReflectionPad{count}d")(pads))
    report, x = convert(net), torch.randn(2, *[5, 6, 7][:count])
    assert [row.action for row in report.rows] == ["left" if is_left else "taken"]
    assert ("crops first" in report.rows[0].note) == is_left
    assert torch.equal(report.model(x), net(x))


@pytest.mark.parametrize("name, value", [
    ("activation", "relu"), ("activation", nn.ReLU()), ("shared", True), ("_activated", 3),
])  # fmt: skip
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.BatchNorm1d])
def test_attributes_that_cudmls_module_has(kind: Any, name: str, value: Any) -> None:
    """They stay what they were, and nothing else comes of them."""
    norm, x = kind(4), torch.randn(3, 4)
    setattr(norm, name, value)
    report = convert(nn.Sequential(norm, nn.ReLU()))
    assert [row.action for row in report.rows] == ["left"]
    assert report.rows[0].note == f"its attribute {name} means something else to cudml's module"
    assert type(report.model[0]) is kind and hasattr(report.model[0], name)
    torch.testing.assert_close(report.model(x), torch.relu(norm(x)))


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.BatchNorm1d])
def test_parameters_of_other_types(kind: Any) -> None:
    """A normalization is left for its own, not for those of a module that was put on it."""
    norm = kind(4)
    norm.more = nn.Linear(2, 2, dtype=torch.complex64)
    report, x = convert(nn.Sequential(norm)), torch.randn(3, 4)
    assert [row.action for row in report.rows] == ["taken"]
    torch.testing.assert_close(report.model(x), norm(x))
    norm.weight = nn.Parameter(torch.ones(4, dtype=torch.complex64))
    assert [row.note for row in convert(nn.Sequential(norm)).rows] == [
        "its parameters are torch.complex64"
    ]


def test_other_attributes_stay() -> None:
    norm = nn.GroupNorm(2, 4)
    norm.label = "first"
    report = convert(nn.Sequential(norm))
    assert report.count("taken") == 1 and report.model[0].label == "first"


def test_modes_of_fused_activations_stay() -> None:
    net = nn.Sequential(nn.LayerNorm(4), nn.ReLU(), nn.BatchNorm1d(4), nn.SiLU())
    net[2].eval()
    net[3].eval()
    report = convert(net)
    assert report.count("fused") == 2
    assert [m.training for m in report.model] == [True, True, False, False]


def test_parameters_without_memory_are_taken() -> None:
    report = convert(nn.Sequential(nn.BatchNorm2d(3, device="meta"), nn.ReLU()))
    assert [r.action for r in report.rows] == ["fused"] and report.model[0].weight.is_meta


def test_hooks_of_activations_see_what_they_saw() -> None:
    seen: list[torch.Tensor] = []
    net, x = nn.Sequential(nn.LayerNorm(4), nn.SiLU()), torch.randn(3, 4)
    net[1].register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    report = convert(net, inplace=True)
    assert [row.action for row in report.rows] == ["taken"]
    assert report.rows[0].note == "not fused: a hook reads what goes from it to SiLU"
    torch.testing.assert_close(net(x), nn.functional.silu(nn.functional.layer_norm(x, (4,))))
    torch.testing.assert_close(seen[0], nn.functional.layer_norm(x, (4,)))
