"""cudml.torch.nn beside torch.nn: constructors, checkpoints, texts, values, training statistics."""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar

import numpy as np
import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import functional  # noqa: E402
from cudml.torch import nn as ours  # noqa: E402
from tests.torch.comparing import assert_close  # noqa: E402

nn = torch.nn
SHARED = [name for name in ours.__all__ if hasattr(nn, name) and name != "functional"]
NORMS = [name for name in SHARED if name.endswith("Norm") or "Norm1d" in name or "Norm2d" in name
         or "Norm3d" in name]  # fmt: skip


def values(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def test_the_names() -> None:
    assert len(SHARED) == 36 and len(NORMS) == 9
    assert set(ours.__all__) - set(SHARED) == {
        "AveragePooling", "LpPooling", "MaxPooling", "MaxUnpooling", "MeanVarianceNormalization",
        "Padding", "SymmetricPad1d", "SymmetricPad2d", "SymmetricPad3d", "functional",
    }  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_constructors_are_torchs(name: str) -> None:
    """Parameters in order, with their defaults; normalizations have `activation` in addition."""
    got, want = (list(inspect.signature(getattr(m, name)).parameters.values()) for m in (ours, nn))
    extra = [p for p in got if p.name == "activation"]
    assert [(p.name, p.default, p.kind) for p in got[: len(want)]] == [
        (p.name, p.default, p.kind) for p in want
    ]
    assert len(got) == len(want) + len(extra) and bool(extra) == (name in NORMS)
    assert issubclass(getattr(ours, name), getattr(nn, name))


class Fewer(ours.GroupNorm):
    """A class of a user, with arguments of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__(2, channels)


class Same(ours.GroupNorm):
    """Another, with those of its base."""


def test_classes_of_users_show_their_own_arguments() -> None:
    assert list(inspect.signature(Fewer).parameters) == ["channels"]
    assert inspect.signature(Same) == inspect.signature(ours.GroupNorm)


class Registered:
    """A mixin that is told of classes, with a keyword."""

    labels: ClassVar[list[str]] = []

    def __init_subclass__(cls, label: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.labels.append(label)


def test_other_bases_are_told_of_a_class() -> None:
    class Mixed(ours.GroupNorm, Registered, label="mixed"):
        pass

    assert Registered.labels == ["mixed"] and isinstance(Mixed(2, 4), Registered)
    with pytest.raises(TypeError):

        class Wrong(ours.GroupNorm, label="wrong"):
            pass


class Doubled(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * 2


@pytest.mark.parametrize("kind", [ours.LayerNorm, ours.RMSNorm, ours.BatchNorm1d])
def test_parametrizations(kind: Any) -> None:
    """PyTorch makes a class of its own of the module's."""
    x, plain, own = values(5, 4), kind(4).double(), kind(4).double()
    nn.utils.parametrize.register_parametrization(own, "weight", Doubled())
    assert_close(own(x), 2 * plain(x))
    nn.utils.parametrize.remove_parametrizations(own, "weight")
    assert type(own) is kind


BOTH: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("MaxPool1d", (3, 2, 1), {"dilation": 2, "ceil_mode": True}, (2, 3, 12)),
    ("MaxPool2d", ((3, 2),), {"stride": (2, 1), "padding": (1, 0)}, (3, 9, 8)),
    ("MaxPool3d", (2,), {"return_indices": True}, (2, 3, 5, 6, 7)),
    ("AvgPool1d", (3, 2, 1), {}, (2, 3, 10)),
    ("AvgPool2d", (3, 2, 1, True, False), {}, (2, 3, 10, 9)),
    ("AvgPool3d", ((1, 2, 3),), {"ceil_mode": True}, (3, 5, 6, 7)),
    ("LPPool1d", (2, 3), {"stride": 2}, (2, 3, 11)),
    ("LPPool2d", (4, (3, 2)), {}, (2, 3, 9, 8)),
    ("LPPool3d", (2.0, 2), {}, (2, 3, 5, 6, 7)),
    ("LayerNorm", ((4, 5),), {"eps": 0.1}, (2, 3, 4, 5)),
    ("LayerNorm", (5,), {"elementwise_affine": False}, (2, 5)),
    ("LayerNorm", (5,), {"bias": False}, (2, 5)),
    ("RMSNorm", (5,), {}, (2, 3, 5)),
    ("RMSNorm", ((3, 5), 0.1, False), {}, (2, 3, 5)),
    ("GroupNorm", (2, 6), {"eps": 0.2}, (2, 6, 4, 5)),
    ("GroupNorm", (3, 6), {"affine": False}, (2, 6, 4)),
    ("InstanceNorm1d", (4,), {"affine": True}, (2, 4, 9)),
    ("InstanceNorm2d", (4,), {"track_running_stats": True, "affine": True}, (4, 5, 6)),
    ("InstanceNorm3d", (4,), {"eps": 0.3}, (2, 4, 3, 2, 5)),
    ("InstanceNorm2d", (4,), {"track_running_stats": True, "momentum": None}, (3, 4, 5, 6)),
    ("BatchNorm1d", (4,), {}, (7, 4)),
    ("BatchNorm1d", (4,), {"affine": False, "momentum": 0.4}, (3, 4, 5)),
    ("BatchNorm2d", (4, 0.2), {"momentum": None}, (2, 4, 5, 6)),
    ("BatchNorm3d", (4,), {"track_running_stats": False}, (2, 4, 3, 2, 5)),
    ("ConstantPad1d", ((1, 2), -3.0), {}, (2, 3, 5)),
    ("ConstantPad2d", (2, 1.5), {}, (3, 4, 5)),
    ("ConstantPad3d", ((1, 2, 0, 3, 2, 1), 0.5), {}, (2, 3, 4, 5, 6)),
    ("ZeroPad1d", (2,), {}, (2, 3, 5)),
    ("ZeroPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 5)),
    ("ZeroPad3d", (1,), {}, (2, 3, 4, 5, 6)),
    ("ReflectionPad1d", ((2, 1),), {}, (3, 5)),
    ("ReflectionPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 5)),
    ("ReflectionPad3d", (2,), {}, (2, 3, 4, 5, 6)),
    ("ReplicationPad1d", (2,), {}, (2, 3, 5)),
    ("ReplicationPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 5)),
    ("ReplicationPad3d", ((1, 2, 0, 3, 2, 1),), {}, (2, 3, 4, 5, 6)),
    ("CircularPad1d", ((2, 1),), {}, (2, 3, 5)),
    ("CircularPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 5)),
    ("CircularPad3d", (2,), {}, (2, 3, 4, 5, 6)),
]


@pytest.mark.parametrize("name, args, kwargs, shape", BOTH, ids=str)
def test_a_module_is_torchs(name: str, args: Any, kwargs: Any, shape: tuple[int, ...]) -> None:
    """Attributes, text, checkpoint, and three steps: two of training, one of evaluation."""
    theirs = getattr(nn, name)(*args, **kwargs).double()
    mine = getattr(ours, name)(*args, **kwargs).double()
    assert repr(mine) == repr(theirs) and mine.state_dict().keys() == theirs.state_dict().keys()
    for value in theirs.parameters():
        value.data.copy_(values(*value.shape))
    mine.load_state_dict(theirs.state_dict(), strict=True)
    for step in range(3):
        for module in (mine, theirs):
            module.train(step < 2)
        x = values(*shape) * (step + 1) + step
        got, want = mine(x), theirs(x)
        pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
        for a, b in pairs:
            assert_close(a, b)
        for key, value in mine.state_dict().items():
            assert_close(value.double(), theirs.state_dict()[key].double())
    ignored = {"_parameters", "_buffers"}
    assert {k: v for k, v in vars(mine).items() if k not in ignored} == {
        k: v for k, v in vars(theirs).items() if k not in ignored
    }


@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_running_statistics_that_are_no_longer_tracked(name: str) -> None:
    """Batches neither count nor move those of batch normalization; evaluation takes what is."""
    found = []
    for module in (getattr(m, name)(4, track_running_stats=True).double() for m in (ours, nn)):
        module(values(3, 4, 5) + 2)
        module.track_running_stats = False
        results = [module(values(3, 4, 6)), module.eval()(values(3, 4, 7))]
        found.append([*results, *module.state_dict().values()])
    for got, want in zip(*found, strict=True):
        assert_close(got.double(), want.double())


@pytest.mark.parametrize("momentum", [None, 0.3])
def test_batches_that_nothing_counts(momentum: float | None) -> None:
    found = []
    for module in (m.BatchNorm1d(4, momentum=momentum).double() for m in (ours, nn)):
        module.num_batches_tracked = None
        found.append([module(values(3, 4, 5) + 2), module.running_mean, module.running_var])
    for got, want in zip(*found, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_modules(n: int) -> None:
    x = values(2, 3, *(6, 8, 4)[:n])
    pool = getattr(ours, f"MaxPool{n}d")(2, return_indices=True)
    y, indices = pool(x)
    mine, theirs = (getattr(m, f"MaxUnpool{n}d")(2) for m in (ours, nn))
    assert repr(mine) == repr(theirs)
    assert torch.equal(mine(y, indices), theirs(y, indices))
    sizes = [2, 3, *(7, 9, 5)[:n]]
    assert torch.equal(mine(y, indices, sizes), theirs(y, indices, sizes))


@pytest.mark.parametrize("name", NORMS)
def test_activations_of_modules(name: str) -> None:
    args = {"GroupNorm": (2, 4), "LayerNorm": (5,), "RMSNorm": (5,)}.get(name, (4,))
    n = int(name[-2]) if name[-1] == "d" else 1
    x = values(3, 4, *(5, 2, 3)[:n]) if "Norm" in name else values(3, 4, 5)
    if name in ("GroupNorm", "LayerNorm", "RMSNorm"):
        x = values(3, 4, 5)
    mine = getattr(ours, name)(*args, activation="silu").double()
    plain = getattr(nn, name)(*args).double()
    assert_close(mine(x), nn.functional.silu(plain(x)))
    assert repr(mine) == repr(plain)[:-1] + ", activation='silu')"
    assert mine.state_dict().keys() == plain.state_dict().keys()
    assert (
        copy.deepcopy(mine).activation == "silu" and getattr(ours, name)(*args).activation is None
    )


def test_wrong_ranks_are_torchs_errors() -> None:
    for name, x in (("BatchNorm2d", values(2, 4, 5)), ("InstanceNorm1d", values(4))):
        for module in (ours, nn):
            for mode in (True, False):
                with pytest.raises(ValueError, match="expected"):
                    getattr(module, name)(4).train(mode)(x)
    with pytest.raises(ValueError, match="divisible"):
        ours.GroupNorm(4, 6)


def test_divisors_of_ones_own_are_refused() -> None:
    for kind, x in ((ours.AvgPool2d, values(2, 3, 4, 5)), (ours.AvgPool3d, values(2, 3, 4, 5))):
        with refused(ValueError, "divisor_override is 3"):
            kind(2, divisor_override=3)(x)


def test_symmetric_pads() -> None:
    x = values(2, 3, 4, 5, 2)
    for n, pads in ((1, (2, 1)), (2, (1, 2, 0, 3)), (3, (1, 2, 0, 3, 6, 1))):
        pairs = [(0, 0)] * (5 - n) + [(pads[i], pads[i + 1]) for i in range(2 * n - 2, -1, -2)]
        module = getattr(ours, f"SymmetricPad{n}d")(pads)
        assert np.array_equal(module(x), np.pad(x.numpy(), pairs, mode="symmetric"))
        assert repr(module) == f"SymmetricPad{n}d({pads})"
        assert getattr(ours, f"SymmetricPad{n}d")(2).padding == (2,) * (2 * n)
    with refused(ValueError, "SymmetricPad2d", "(1, 2, 3)", "4 entries"):
        ours.SymmetricPad2d((1, 2, 3))


def test_modules_with_cudmls_arguments() -> None:
    """The same as torch's signatures with the arguments written out."""
    x = values(2, 3, 9, 8)
    geometry = ((3, 2), (2, 1), (1, 0), (0, 1))
    pads = ((1, 0), (0, 1))
    got = ours.MaxPooling(*geometry)(x)
    assert torch.equal(got, functional.max_pool2d(x, (3, 2), (2, 1), pads))
    y, indices = ours.MaxPooling(*geometry, return_indices=True)(x)
    assert torch.equal(y, got) and torch.equal(x.flatten()[indices], y)
    got = ours.AveragePooling(*geometry, include_padding=True)(x)
    assert_close(got, functional.avg_pool2d(x, (3, 2), (2, 1), pads))
    assert not torch.equal(got, ours.AveragePooling(*geometry)(x))
    got = ours.LpPooling(2, 2, p=3, output_sizes="ceil")(x)
    assert_close(got, functional.lp_pool2d(x, 3, 2, ceil_mode=True))
    got = ours.LpPooling(2, axes=(1, 2))(x)
    assert got.shape == (2, 2, 8, 8)
    got = ours.Padding((0, 1, 2, 0), (1, 0, 3, 4), mode="wrap")(x)
    assert torch.equal(got, functional.pad(x, (0, 4, 2, 3, 1, 0, 0, 1), "circular"))
    back = ours.MaxUnpooling((2, 3, 9, 8))(y, indices)
    for module in (ours.MaxUnpooling(), ours.MaxUnpooling((2, 3, 10, 9))):
        assert torch.equal(back, module(y, indices, (2, 3, 9, 8)))
    assert torch.equal(back.flatten()[indices], y) and back.shape == x.shape
    with refused(ValueError, "MaxUnpooling", "output_sizes is None"):
        ours.MaxUnpooling()(y, indices)


def test_normalization_with_parameters_of_given_shapes() -> None:
    x = values(2, 6, 4, 5)
    module = ours.MeanVarianceNormalization(
        axes=(1, 2, 3), scale_shape=(1, 6, 1, 1), bias_shape=(1, 6, 4, 1), epsilon=0.1,
        activation="swish", dtype=torch.float64,
    )  # fmt: skip
    assert {k: tuple(v.shape) for k, v in module.state_dict().items()} == {
        "scale": (1, 6, 1, 1), "bias": (1, 6, 4, 1),
    }  # fmt: skip
    assert_close(module(x), functional.layer_norm(x, (6, 4, 5), eps=0.1, activation="silu"))
    with torch.no_grad():
        module.scale.copy_(values(1, 6, 1, 1))
        module.bias.copy_(values(1, 6, 4, 1))
    plain = nn.functional.layer_norm(x, (6, 4, 5), eps=0.1)
    assert_close(module(x), nn.functional.silu(plain * module.scale + module.bias))
    bare = ours.MeanVarianceNormalization(axes=1, use_mean=False, use_variance=False)
    assert bare.scale is None and list(bare.parameters()) == [] and torch.equal(bare(x), x)


def test_what_the_texts_of_modules_say() -> None:
    assert repr(ours.MaxPooling(3, 2)) == (
        "MaxPooling(window_size=3, strides=2, start_padding=0, end_padding=0, dilations=1, "
        "return_indices=False, index_dtype='int64', output_sizes=None, axes=None)"
    )
    assert repr(ours.Padding(1, 2)) == (
        "Padding(start_padding=1, end_padding=2, mode='constant', value=0)"
    )
    assert repr(ours.MeanVarianceNormalization(axes=1)) == (
        "MeanVarianceNormalization(axes=1, use_mean=True, use_variance=True, epsilon=1e-05, "
        "activation=None)"
    )


@pytest.mark.parametrize(
    ("error", "activation", "text"),
    [(ValueError, "swoosh", "one of identity"), (ValueError, ("elu", {"beta": 1}), "beta does not"),
     (TypeError, ("elu", 1, 2), "or (name,"), (TypeError, ("elu", {"alpha": "1"}), "real number")],
)  # fmt: skip
def test_activations_are_refused_when_a_module_is_made(
    error: type[Exception], activation: Any, text: str
) -> None:
    modules = (
        lambda a: ours.GroupNorm(2, 4, activation=a),
        lambda a: ours.LayerNorm(4, activation=a),
        lambda a: ours.RMSNorm(4, activation=a),
        lambda a: ours.BatchNorm2d(4, activation=a),
        lambda a: ours.InstanceNorm3d(4, activation=a),
        lambda a: ours.MeanVarianceNormalization(axes=1, activation=a),
    )
    for make in modules:
        with refused(error, "Norm", "FusedActivation", text):
            make(activation)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("is_batch", [False, True])
def test_instance_normalization_counts_channels_as_torchs(dimensions: int, is_batch: bool) -> None:
    """An error where weights would not fit, a warning where there are none."""
    name = f"InstanceNorm{dimensions}d"
    x = values(*([2] if is_batch else []), 3, *range(4, 4 + dimensions))
    texts = []
    for module in (getattr(ours, name), getattr(nn, name)):
        with pytest.raises(ValueError, match="num_features") as error:
            module(5, affine=True).double()(x)
        with pytest.warns(UserWarning, match="num_features") as told:
            result = module(5)(x)
        texts.append((str(error.value), str(told[0].message).split(". ")[0]))
        assert_close(result, getattr(nn, name)(3)(x))
    assert texts[0][0] == texts[1][0]
    assert texts[0][1].startswith(texts[1][1])
