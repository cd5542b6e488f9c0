"""What cudml.torch.functional refuses, in texts with argument, value and range; signatures."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

import cudml.torch as canonical  # noqa: E402
from cudml.torch import functional as ours  # noqa: E402

X = torch.zeros(2, 3, 5, 7)
REFUSED: list[tuple[type[Exception], tuple[str, ...], str, tuple[Any, ...], dict[str, Any]]] = [
    (TypeError, ("max_pool2d", "input", "list"), "max_pool2d", ([1.0], 2), {}),
    (ValueError, ("max_pool2d", "2 dimensions", "3 to 4"), "max_pool2d", (X[0, 0], 2), {}),
    (ValueError, ("avg_pool1d", "4 dimensions", "2 to 3"), "avg_pool1d", (X, 2), {}),
    (ValueError, ("max_pool2d", "kernel_size is 0", "1 and"), "max_pool2d", (X, 0), {}),
    (ValueError, ("max_pool2d", "kernel_size[1]", "-2"), "max_pool2d", (X, (1, -2)), {}),
    (ValueError, ("max_pool2d", "3 entries", "have 2"), "max_pool2d", (X, (1, 2, 3)), {}),
    (ValueError, ("max_pool2d", "0 entries", "have 2"), "max_pool2d", (X, ()), {}),
    (TypeError, ("max_pool2d", "2.0 (float)", "an int"), "max_pool2d", (X, 2.0), {}),
    (TypeError, ("max_pool2d", "True (bool)"), "max_pool2d", (X, True), {}),
    (ValueError, ("max_pool2d", "spans 8", "padded input's 7"), "max_pool2d", (X, (1, 8)), {}),
    (ValueError, ("max_pool2d", "kernel_size[0]", "spans 7"), "max_pool2d", (X, 3, 1, 0, 3), {}),
    (ValueError, ("max_pool2d", "kernel_size[1]", "spans 9"), "max_pool2d", (X, (1, 9), 2),
     {"ceil_mode": True}),
    (ValueError, ("avg_pool2d", "stride", "0"), "avg_pool2d", (X, 2, 0), {}),
    (ValueError, ("lp_pool2d", "dilation[1]", "0"), "lp_pool2d", (X, 2, 2), {"dilation": (1, 0)}),
    (ValueError, ("max_pool2d", "padding is -1", "0 and"), "max_pool2d", (X, 2, 1, -1), {}),
    (ValueError, ("max_pool2d", "padding[1]", "3 entries"), "max_pool2d", (X, 2, 1, (0, (1, 2, 3))),
     {}),
    (ValueError, ("avg_pool3d", "padding has 2"), "avg_pool3d", (X, 2, 1, (1, 2)), {}),
    (TypeError, ("max_pool2d", "ceil_mode", "'yes'"), "max_pool2d", (X, 2),
     {"ceil_mode": "yes"}),
    (TypeError, ("max_pool2d", "return_indices", "1"), "max_pool2d", (X, 2),
     {"return_indices": 1}),
    (ValueError, ("avg_pool2d", "divisor_override is 3", "None: multiply the average by",
      "and divide by the divisor"), "avg_pool2d", (X, 2),
     {"divisor_override": 3}),
    (ValueError, ("avg_pool2d", "divisor_override is 0"), "avg_pool2d", (X, 2),
     {"divisor_override": 0}),
    (ValueError, ("avg_pool3d", "divisor_override is 5"), "avg_pool3d", (X, 2),
     {"divisor_override": 5}),
    (ValueError, ("lp_pool2d", "norm_type", "1.5", "whole"), "lp_pool2d", (X, 1.5, 2), {}),
    (ValueError, ("lp_pool2d", "norm_type", "inf", "input.abs()"), "lp_pool2d",
     (X, float("inf"), 2), {}),
    (ValueError, ("lp_pool2d", "norm_type", "nan"), "lp_pool2d", (X, float("nan"), 2), {}),
    (ValueError, ("lp_pool1d", "norm_type", "0", "1 and"), "lp_pool1d", (X[0], 0, 2), {}),
    (ValueError, ("pad", "'edge'", "'replicate'"), "pad", (X, (1, 1), "edge"), {}),
    (ValueError, ("pad", "pad", "(1, 2, 3)", "8"), "pad", (X, (1, 2, 3)), {}),
    (ValueError, ("pad", "at most 8"), "pad", (X, (1,) * 10), {}),
    (ValueError, ("pad", "pad is 3", "two entries", "at most 8"), "pad", (X, 3), {}),
    (TypeError, ("pad", "pad[1]", "1.5"), "pad", (X, (1, 1.5)), {}),
    (ValueError, ("pad", "4 and 4", "dimension 3", "size 7"), "pad", (X, (-4, -4)), {}),
    (ValueError, ("pad", "value", "2", "'reflect'"), "pad", (X, (1, 1), "reflect", 2), {}),
    (ValueError, ("layer_norm", "normalized_shape", "(5,)"), "layer_norm", (X, 5), {}),
    (ValueError, ("layer_norm", "normalized_shape"), "layer_norm", (X, ()), {}),
    (ValueError, ("layer_norm", "normalized_shape", "(7, 5)"), "layer_norm", (X, (7, 5)), {}),
    (ValueError, ("layer_norm", "weight", "(6,)", "(7,)"), "layer_norm", (X, 7, torch.ones(6)), {}),
    (TypeError, ("rms_norm", "weight", "float"), "rms_norm", (X, 7, 1.0), {}),
    (ValueError, ("group_norm", "num_groups", "2", "3 channels"), "group_norm", (X, 2), {}),
    (ValueError, ("group_norm", "8 dimensions", "2 to 7"), "group_norm", (X[(None,) * 4], 1), {}),
    (ValueError, ("group_norm", "num_groups", "0"), "group_norm", (X, 0), {}),
    (ValueError, ("group_norm", "bias", "(2,)"), "group_norm", (X, 3), {"bias": torch.ones(2)}),
    (ValueError, ("group_norm", "more than one"), "group_norm", (X[:1, :, 0, 0], 3), {}),
    (ValueError, ("instance_norm", "2 dimensions", "3 to 8"), "instance_norm", (X[0, 0],), {}),
    (ValueError, ("instance_norm", "more than one"), "instance_norm", (X[..., :1, :1],), {}),
    (ValueError, ("instance_norm", "running_mean"), "instance_norm", (X,),
     {"use_input_stats": False}),
    (ValueError, ("batch_norm", "running_var"), "batch_norm", (X, torch.zeros(3), None), {}),
    (ValueError, ("batch_norm", "running_mean", "(2,)"), "batch_norm",
     (X, torch.zeros(2), torch.ones(3)), {"training": True}),
    (ValueError, ("batch_norm", "more than one"), "batch_norm", (X[:1, :, 0, 0], None, None),
     {"training": True}),
    (ValueError, ("max_unpool2d", "indices", "shape"), "max_unpool2d",
     (X, torch.zeros(2, 3, 5, 6, dtype=torch.int64), 2), {}),
    (TypeError, ("max_unpool2d", "indices", "float32", "int64"), "max_unpool2d", (X, X, 2), {}),
    (ValueError, ("max_unpool2d", "output_size", "(10,)", "2 or 4"), "max_unpool2d",
     (X, X.long(), 2), {"output_size": (10,)}),
    (ValueError, ("max_unpool2d", "output_size[1]", "16", "13 and 15"), "max_unpool2d",
     (X, X.long(), 2), {"output_size": (10, 16)}),
]  # fmt: skip


@pytest.mark.parametrize("error, fragments, name, args, kwargs", REFUSED,
                         ids=[f"{r[2]}-{i}" for i, r in enumerate(REFUSED)])  # fmt: skip
def test_refused(error: Any, fragments: Any, name: str, args: Any, kwargs: Any) -> None:
    with refused(error, *fragments):
        getattr(ours, name)(*args, **kwargs)


ONE_DIMENSION = [
    ("layer_norm", (4,)), ("rms_norm", (4,)), ("group_norm", (1,)), ("batch_norm", (None, None)),
    ("instance_norm", ()), ("max_pool1d", (2,)), ("avg_pool1d", (2,)), ("lp_pool1d", (2, 2)),
    ("pad", ((1, 1),)), ("max_unpool1d", (torch.zeros(2, 3, 4, dtype=torch.int64), 2)),
]  # fmt: skip


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("name, args", ONE_DIMENSION)
def test_nested_tensors(name: str, args: Any, layout: Any) -> None:
    parts = [torch.ones(3, 4), torch.ones(2, 4)]
    for asks in (False, True):
        x = torch.nested.nested_tensor(parts, layout=layout, requires_grad=asks)
        with refused(BufferError, f"{name}: input is nested", "to_padded_tensor"):
            getattr(ours, name)(x, *args)
        with refused(BufferError, "padding_grad: grad is nested"):
            canonical.padding_grad(x, (2, 3, 4), 0, 0)


def test_a_refusal_leaves_the_running_statistics() -> None:
    mean, variance = torch.full((3,), 5.0), torch.full((3,), 6.0)
    with refused(ValueError, "batch_norm", "weight"):
        ours.batch_norm(X, mean, variance, torch.ones(4), training=True)
    assert mean.tolist() == [5] * 3 and variance.tolist() == [6] * 3


def parameters_of_torch(name: str) -> list[tuple[str, Any]]:
    """Names and defaults of the function of torch, those of built-in ones by their schema."""
    if name.startswith("avg_pool"):
        schema = getattr(torch.ops.aten, name).default._schema
        names = [a.name for a in schema.arguments]
        defaults = [inspect.Parameter.empty, inspect.Parameter.empty, None, 0, False, True, None]
        return list(zip(["input", *names[1:]], defaults, strict=False))
    stands_for = {f"max_pool{n}d": f"max_pool{n}d_with_indices" for n in (1, 2, 3)}
    signature = inspect.signature(getattr(F, stands_for.get(name, name)))
    return [(p.name, p.default) for p in signature.parameters.values()]


@pytest.mark.parametrize("name", ours.__all__)
def test_signatures_are_torchs(name: str) -> None:
    """Names, order and defaults; what comes on top is by keyword alone."""
    given = list(inspect.signature(getattr(ours, name)).parameters.values())
    positional = [(p.name, p.default) for p in given if p.kind is not p.KEYWORD_ONLY]
    assert positional == parameters_of_torch(name)


def test_nn_has_them_too() -> None:
    from cudml.torch import nn

    assert all(getattr(nn.functional, name) is getattr(ours, name) for name in ours.__all__)


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize("way", ["to_sparse", "to_sparse_csr", "to_mkldnn"])
@pytest.mark.parametrize("name, args", ONE_DIMENSION)
def test_tensors_that_are_not_strided(name: str, args: Any, way: str) -> None:
    for asks in (False, True):
        x = getattr(torch.ones(2, 3, 4), way)().requires_grad_(asks)
        with refused(BufferError, f"{name}: input has the layout torch.", "pass its to_dense()"):
            getattr(ours, name)(x, *args)
        for pooling in (canonical.max_pooling, canonical.average_pooling, canonical.lp_pooling):
            with refused(BufferError, "has the layout torch.", "pass its to_dense()"):
                pooling(x, 2, axes=(0, 2))
