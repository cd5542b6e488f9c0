"""Converted models whose modules were exchanged, taken apart or run in parts."""

from __future__ import annotations

import copy
import io
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.checkpoint import checkpoint_sequential  # noqa: E402

from cudml.torch import convert  # noqa: E402
from cudml.torch.nn import _shared  # noqa: E402

nn = torch.nn


def net() -> Any:
    """SiLU, so that it shows when it is applied twice."""
    torch.manual_seed(7)
    made = nn.Sequential(
        nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.SiLU(), nn.Conv1d(4, 4, 1), nn.GroupNorm(2, 4),
        nn.SiLU(),
    ).double()  # fmt: skip
    nn.init.uniform_(made[1].running_var, 0.5, 2)
    return made


def inputs() -> torch.Tensor:
    generator = torch.Generator().manual_seed(8)
    return torch.randn(3, 4, 5, dtype=torch.float64, generator=generator)


def assert_close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)


def ways() -> dict[str, Any]:
    return {"eager": lambda m: m,
            "compiled": lambda m: torch.compile(m, backend="aot_eager", fullgraph=True),
            "exported": lambda m: torch.export.export(m, (inputs(),)).module()}  # fmt: skip


@pytest.mark.parametrize("way", ways())
def test_an_activation_outlives_its_normalization(way: str) -> None:
    """Another module in the place of the normalization applies none."""
    if way != "eager" and not _shared.may_share():
        pytest.skip("programs compiled by this PyTorch keep no marks")
    torch.compiler.reset()
    other = convert(net().eval()).model
    assert torch.equal(other(inputs()), other(inputs()))
    other = nn.SyncBatchNorm.convert_sync_batchnorm(other)
    assert type(other[1]) is nn.SyncBatchNorm
    assert_close(ways()[way](other)(inputs()), net().eval()(inputs()))


@pytest.mark.parametrize("way", ways())
def test_an_activation_follows_another_one(way: str) -> None:
    """What one of them has let pass is nothing that the next one's normalization returned."""
    if way != "eager" and not _shared.may_share():
        pytest.skip("programs compiled by this PyTorch keep no marks")
    torch.compiler.reset()
    own = net().eval()
    report = convert(own)
    assert report.count("fused") == 2
    for model in (own, report.model):
        model[3] = model[4] = nn.Identity()
    assert_close(ways()[way](report.model)(inputs()), own(inputs()))


def exchanged(model: Any) -> None:
    """Every SiLU becomes a Tanh, wherever it stands."""
    for name, child in model.named_children():
        if isinstance(child, nn.SiLU):
            setattr(model, name, nn.Tanh())
        exchanged(child)


def steeper(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, nn.LeakyReLU):
            module.negative_slope = 0.4


@pytest.mark.parametrize("way", ways())
@pytest.mark.parametrize("change", [exchanged, steeper])
def test_an_activation_is_changed(change: Any, way: str) -> None:
    """Code that goes through the modules finds the one that was fused."""
    if way != "eager" and not _shared.may_share():
        pytest.skip("programs compiled by this PyTorch keep no marks")
    torch.compiler.reset()
    own = net().eval()
    own[5] = nn.LeakyReLU(0.1, inplace=True)
    report = convert(own)
    assert report.count("fused") == 2
    model = copy.deepcopy(report.model)
    assert_close(model(inputs()), own(inputs()))
    for each in (own, model):
        change(each)
    assert_close(ways()[way](model)(inputs()), own(inputs()))


def test_an_activation_is_called_on_what_it_has_let_pass() -> None:
    own = net().eval()
    other = convert(own).model
    y = other(inputs())
    assert_close(other[5](y), nn.functional.silu(own(inputs())))
    assert_close(other[2](y), nn.functional.silu(y))


def test_a_convolution_takes_its_normalization_in() -> None:
    other = convert(net().eval()).model
    first = nn.utils.fusion.fuse_conv_bn_eval(other[0], other[1])
    assert_close(nn.Sequential(first, *other[2:])(inputs()), net().eval()(inputs()))


def test_what_lies_in_between_is_refused() -> None:
    """A caller that takes a whole apart, as no code of the model says, gets an error once."""
    report = convert(net())
    other, x = report.model, inputs()
    h = other[0](x)
    with pytest.raises(RuntimeError) as caught:
        other[2:](other[1](h) * 2)
    for word in ("2: its argument is not what 1 returned", "revert()", "fuse_activation=False"):
        assert word in str(caught.value)
    assert_close(other[2](h), nn.functional.silu(h))
    assert_close(other.eval()(x), report.revert()(x))


def loaded(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_what_is_changed_in_place_is_refused() -> None:
    other, x = convert(net()).model, inputs()
    h = other[1](x)
    with torch.no_grad(), pytest.raises(RuntimeError, match="is not what 1 returned"):
        other[2](h.mul_(2))
    with torch.inference_mode():
        assert_close(other[1:3](x), net()[1:3](x))


@pytest.mark.parametrize("copied", [copy.deepcopy, loaded])
def test_copies_refuse_as_well(copied: Any) -> None:
    other, x = convert(net().eval()).model, inputs()
    other[1](x)
    again = copied(other)
    assert_close(again[2](x), nn.functional.silu(x))
    assert_close(again(x), net().eval()(x))
    with pytest.raises(RuntimeError, match="is not what 1 returned"):
        again[2](again[1](x) + 0)


def test_threads_do_not_meet() -> None:
    """A result on its way in one of them is none of another's."""
    other, x = convert(net()).model, inputs()
    h = other[1](x)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(other[2](x)))
    thread.start()
    thread.join()
    assert_close(found[0], nn.functional.silu(x))
    assert other[2](h) is h


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("segments", [2, 3])
def test_parts_that_are_computed_again(segments: int, use_reentrant: bool) -> None:
    """Three parts begin with activations: what comes to them has lost its mark."""
    found = []
    for model in (net()[1:], convert(net()[1:]).model):
        x = inputs().requires_grad_()
        y = checkpoint_sequential(model, segments, x, use_reentrant=use_reentrant)
        y.square().sum().backward()
        found.append([y, x.grad, *(p.grad for p in model.parameters())])
    assert_close(found[1], found[0])


def test_programs_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An activation that is alone passes what comes in them."""
    monkeypatch.setattr(_shared, "may_share", lambda: False)
    report = convert(net())
    assert report.count("fused") == 2

    def fail(y: Any) -> Any:
        raise AssertionError("a result was marked")

    torch.compiler.reset()
    monkeypatch.setattr(_shared, "mark", fail)
    compiled = torch.compile(report.model, backend="aot_eager", fullgraph=True)
    assert_close(compiled(inputs()), net()(inputs()))
    own = net()
    for each in (own, report.model):
        exchanged(each)
    assert_close(compiled(inputs()), own(inputs()))
    monkeypatch.undo()
    assert_close(report.model(inputs()), own(inputs()))
