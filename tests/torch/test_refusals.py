"""Calls that are refused: the message names operator, argument, value and what is permitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml  # noqa: E402
import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402


def x(*shape: int, asks: bool = True) -> Any:
    """A tensor that asks for a gradient, so that the call takes the operator that records."""
    return torch.rand(shape or (2, 3, 5, 7)).requires_grad_(asks)


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "rank": (lambda: ct.max_pooling(x(2, 3), 2), "max_pooling: InputTensor.DimensionCount is 2"),
    "rank without axes": (
        lambda: ct.lp_pooling_grad(x(2, 3), x(2, 3), x(2, 3), 2),
        "lp_pooling_grad: InputTensor.DimensionCount is 2; it must be 3, 4 or 5",
    ),
    "rank of a result": (
        lambda: ct.lp_pooling_grad(x(), x(2, 3, 5), x(), 1),
        "lp_pooling_grad: y has 3 dimensions; it must have 4",
    ),
    "rank of a gradient": (
        lambda: ct.max_pooling_grad(x(2, 3, 5), x(), 1),
        "max_pooling_grad: grad has 4 dimensions; it must have 3",
    ),
    "window": (lambda: ct.lp_pooling(x(), 0), "lp_pooling: WindowSize[0] is 0; it must be between"),
    "entries": (lambda: ct.max_pooling(x(), (1, 2, 3)), "max_pooling: WindowSize has 3 entries"),
    "extent": (lambda: ct.average_pooling(x(), 6), "average_pooling: WindowSize[0] is 6 with"),
    "empty": (
        lambda: ct.average_pooling(x(2, 3, 0), 1, 1, 1),
        "average_pooling: WindowSize[0] is 1 with Dilations[0] 1, an extent of 1; it must not "
        "exceed the padded size 1 of at least 1 element",
    ),
    "indices": (
        lambda: ct.max_pooling(
            x(1, 1, 1).expand(2, 2, 2**30), 1, 2**30, return_indices=True, index_dtype="uint32"
        ),
        "max_pooling: index_dtype is uint32; 4294967296 elements need uint64 or int64",
    ),
    "sizes": (
        lambda: ct.average_pooling(x(), 2, output_sizes=(1, 2, 3)),
        "average_pooling: OutputTensor.Sizes has 3 entries",
    ),
    "sizes of no tensor": (
        lambda: ct.average_pooling(x(), 2, output_sizes=(2**63, 2)),
        "average_pooling: OutputTensor.Sizes[0] is 9223372036854775808; it must be between 1 and "
        "9223372036854775807",
    ),
    "rule": (lambda: ct.max_pooling(x(), 2, output_sizes="floor"), "output_sizes is 'floor'"),
    "size": (lambda: ct.max_pooling(x(), 2, output_sizes=(4, 9)), "max_pooling: OutputTensor"),
    "p": (lambda: ct.lp_pooling(x(), 2, p=0), "lp_pooling: P is 0; it must be between 1 and"),
    "axes": (lambda: ct.max_pooling(x(), 2, axes=(3, 2)), "max_pooling: Axes is (3, 2)"),
    "axis": (lambda: ct.max_pooling(x(), 2, axes=4), "Axes[0] is 4; it must be between -4 and 3"),
    "axis twice": (
        lambda: ct.mean_variance_normalization(x(), axes=(1, -3)),
        "mean_variance_normalization: Axes names dimension 1 twice",
    ),
    "mode": (lambda: ct.padding(x(), 1, 1, mode="reflect"), 'PaddingMode is "reflect"; it must be'),
    "modes": (lambda: ct.padding(x(), 1, 1, mode=["edge"]), "padding: mode has 1 entries"),
    "pad": (lambda: ct.padding(x(), -1, 1), "padding: StartPadding[0] is -1; it must be between 0"),
    "value": (
        lambda: ct.padding(torch.zeros(2, dtype=torch.uint64), 1, 1, value=2**63),
        "padding: PaddingValue is 9223372036854775808; as an int it must be between",
    ),
    "activation": (
        lambda: ct.mean_variance_normalization(x(), axes=1, activation="silly"),
        'FusedActivation is "silly"; it must be one of identity',
    ),
    "parameter": (
        lambda: ct.mean_variance_normalization(x(), axes=1, activation=("elu", {"beta": 1})),
        "FusedActivation.beta does not exist; elu has the parameters alpha",
    ),
    "no parameters": (
        lambda: ct.mean_variance_normalization(x(), axes=1, activation=("relu", {"alpha": 1})),
        "FusedActivation.alpha does not exist; relu has the parameters none",
    ),
    "no default": (
        lambda: ct.mean_variance_normalization(x(), axes=1, activation=("linear", {"alpha": 1})),
        "FusedActivation.beta is missing",
    ),
    "epsilon": (
        lambda: ct.mean_variance_normalization(x(), axes=1, epsilon=-1),
        "mean_variance_normalization: Epsilon is -1",
    ),
    "scale": (
        lambda: ct.mean_variance_normalization(x(), x(2, 3, 5, 6), axes=1),
        "mean_variance_normalization: ScaleTensor",
    ),
    "outputs": (
        lambda: ct.mean_variance_normalization_grad(x(), x(), axes=1, outputs=("x", "x")),
        "mean_variance_normalization_grad: outputs is ('x', 'x'); it must name some of",
    ),
    "statistic": (
        lambda: ct.mean_variance_normalization_grad(x(), x(), axes=1, mean=x(2, 1, 5, 7)),
        "Variance is absent",
    ),
    "count": (
        lambda: ct.normalize_grad(x(), x(), None, None, count=x(1, 1, 1, 1)),
        "normalize_grad: count is given without sums",
    ),
    "unpooled": (lambda: ct.max_unpooling(x(), x().long(), (2, 3)), "max_unpooling: OutputTensor"),
    "merge": (
        lambda: ct.merge_statistics([x(2)] * 3, [x(2), x(3), x(2)]),
        "merge_statistics: b.Mean.Sizes are (3,); they must be (2,)",
    ),
}
TYPES: dict[str, tuple[Callable[[], Any], str]] = {
    "array": (
        lambda: ct.max_pooling(np.zeros((1, 1, 3), np.float32), 2),
        "max_pooling: x is a ndarray; it must be a torch.Tensor",
    ),
    "no scale": (
        lambda: ct.mean_variance_normalization(x(), 1.5, axes=1),
        "mean_variance_normalization: scale is a float; it must be a torch.Tensor",
    ),
    "geometry": (lambda: ct.max_pooling(x(), 2.5), "WindowSize[0] is 2.5 (float); it must be an"),
    "bool": (lambda: ct.max_pooling(x(), True), "WindowSize[0] is True (bool); it must be an int"),
    "axis": (
        lambda: ct.max_pooling(x(), 2, axes=True),
        "Axes[0] is True (bool); it must be an int",
    ),
    "flag": (lambda: ct.average_pooling(x(), 2, include_padding=1), "IncludePadding is 1"),
    "index": (
        lambda: ct.max_pooling(x(), 2, return_indices=True, index_dtype="int32"),
        "max_pooling: index_dtype is 'int32'; it must be uint32, uint64 or int64",
    ),
    "activation": (
        lambda: ct.mean_variance_normalization(x(), axes=1, activation=3),
        'FusedActivation is 3; it must be None, a name, or (name, {"alpha": …})',
    ),
    "mode": (lambda: ct.padding(x(), 1, 1, mode=3), "padding: PaddingMode is 3; it must be a"),
    "value": (lambda: ct.padding(x(), 1, 1, value="0"), "padding: PaddingValue is '0'"),
    "dtype": (
        lambda: ct.normalization_statistics(x(), axes=1, dtype="float16"),
        "normalization_statistics: DataType is 'float16'; it must be",
    ),
    "outputs": (
        lambda: ct.normalize_grad(x(), x(), None, None, outputs="x"),
        "normalize_grad: outputs is 'x'; it must be a sequence of names",
    ),
    "triple": (
        lambda: ct.merge_statistics(x(2), [x(2)] * 3),
        "merge_statistics: a is a Tensor; it",
    ),
    "pair": (lambda: ct.merge_statistics([x(2)] * 3, [x(2)] * 2), "b has 2 entries; it must be a"),
    "rows": (lambda: ct.merge_statistics(x(3, 2), [x(2)] * 3), "merge_statistics: a is a Tensor"),
    "halves": (
        lambda: ct.merge_statistics([x(2).half()] * 3, [x(2)] * 3),
        "merge_statistics: a.Count.DataType is torch.float16",
    ),
    "both types": (
        lambda: ct.merge_statistics([x(2)] * 3, [x(2), x(2).double(), x(2)]),
        "merge_statistics: b.Mean.DataType is torch.float64",
    ),
    "sums": (
        lambda: ct.normalize_grad(x(), x(), None, None, count=x(1), sums=x(2)),
        "normalize_grad: sums is a Tensor; it must be a tuple of two",
    ),
    "epsilon": (
        lambda: ct.mean_variance_normalization(x(), axes=1, epsilon="1e-5"),
        "mean_variance_normalization: Epsilon is '1e-5'; it must be a real number",
    ),
    "epsilons": (
        lambda: ct.normalize(x(), None, None, epsilon=[1]),
        "normalize: Epsilon is a list; it must be a real number",
    ),
    "shape": (
        lambda: ct.average_pooling_grad(x(), 5, 2),
        "average_pooling_grad: OutputGradientTensor.Sizes is 5 (int); it must be a sequence",
    ),
    "unpooled": (lambda: ct.max_unpooling(x(), x().long(), 5), "max_unpooling: OutputTensor.Sizes"),
    "parameter": (
        lambda: ct.mean_variance_normalization(x(), axes=1, activation=("elu", {"alpha": "1"})),
        "FusedActivation.alpha is '1'; it must be a real number",
    ),
    "pad value": (lambda: ct.padding(x(), 1, 1, value=True), "padding: PaddingValue is True"),
    "complex": (lambda: ct.average_pooling(x().to(torch.complex64), 2), "average_pooling: "),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    call, words = VALUES[name]
    with refused(ValueError, words):
        call()


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    call, words = TYPES[name]
    with refused(TypeError, words):
        call()


@pytest.mark.parametrize("name", [*ts.forward(), *ts.backward()])
def test_other_devices_are_refused(name: str) -> None:
    case = {**ts.forward(), **ts.backward()}[name]
    given = case.tensors()
    for key in given:
        tensors = {**given, key: given[key].to("meta")}
        with refused(ValueError, f"{case.op}: ", "the device meta; it must be on cpu"):
            case.on(*tensors.values())
        with refused(ValueError, "the device meta"):
            case.on(*(t.to("meta") for t in given.values()))


@pytest.mark.parametrize("counted", [False, True])
def test_half_of_the_sums(counted: bool) -> None:
    """Only the registered operator can be given one of them; it must not go without."""
    one = torch.ones(1, 1, 1, 1)
    for sums in ((one, None), (None, one)):
        given = (None, None, None, None, one if counted else None, *sums)
        with pytest.raises((TypeError, ValueError), match="normalize_grad: "):
            torch.ops.cudml.normalize_grad(
                x(asks=False), x(asks=False), *given, 1e-5, "", [], [True, False, False]
            )


def test_refusals_of_the_short_way_are_those_of_cudml() -> None:
    with refused(ValueError, "max_pooling: WindowSize[0] is 0"):
        ct.max_pooling(x(asks=False), 0)
    with refused(TypeError, "mean_variance_normalization: ScaleTensor"):
        ct.mean_variance_normalization(x(asks=False), x().double().detach(), axes=1)


def test_subclasses_take_the_registered_operator() -> None:
    """One that overrides what operators do sees the call."""
    seen = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    given = torch.rand(1, 2, 4)
    y = ct.max_pooling(given.as_subclass(Watching), 2)
    assert isinstance(y, Watching) and any("cudml" in name for name in seen)
    assert torch.equal(y.as_subclass(torch.Tensor), ct.max_pooling(given, 2))
    assert type(ct.max_pooling(torch.nn.Parameter(given, requires_grad=False), 2)) is torch.Tensor


def test_views_that_are_negated_in_passing() -> None:
    given = torch.rand(1, 2, 4, dtype=torch.complex64).conj().imag
    assert given.is_neg()
    want = cudml.max_pooling(given.resolve_neg().numpy(), 2)
    assert ts.equal(ct.max_pooling(given, 2), want)


@pytest.mark.parametrize("name", [*ts.forward(), *ts.backward()])
def test_negated_views_that_lie_as_others(name: str) -> None:
    """`cudml` refuses each, and the operators take them."""
    case = {**ts.forward(), **ts.backward()}[name]
    given = case.tensors()
    results = ts.listed(case.on(*given.values()))
    for key in given:
        if given[key].is_floating_point():
            tensors = {**given, key: torch._neg_view(given[key].neg())}
            for got, want in zip(ts.listed(case.on(*tensors.values())), results, strict=True):
                assert ts.equal(got, want)


@pytest.mark.parametrize("name", [*ts.forward(), *ts.backward()])
def test_zeros_without_memory(name: str) -> None:
    """`cudml` refuses them, and the operators take them."""
    case = {**ts.forward(), **ts.backward()}[name]
    given = case.tensors()
    for key in given:
        if given[key].is_floating_point():
            zeros = torch.zeros_like(given[key])
            want = ts.listed(case.on(*{**given, key: zeros}.values()))
            without = torch._efficientzerotensor(zeros.shape, dtype=zeros.dtype)
            for kind in (without, without.detach().requires_grad_()):
                found = ts.listed(case.on(*{**given, key: kind}.values()))
                torch.testing.assert_close(found, want, equal_nan=True)


@pytest.mark.parametrize("name", ts.forward())
def test_gradients_without_memory(name: str) -> None:
    """As `torch.sgn` gives them."""
    case = ts.forward()[name]
    first, *rest = case.tensors().values()
    first.requires_grad_()
    y = ts.listed(case.on(first, *rest))[0]
    y.sgn().sum().backward()
    assert torch.equal(first.grad, torch.zeros_like(first))


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize("way", ["to_sparse", "to_sparse_csr", "to_mkldnn"])
@pytest.mark.parametrize("name", [*ts.forward(), *ts.backward()])
def test_what_is_not_strided(name: str, way: str) -> None:
    """The layout is named, whatever PyTorch cannot tell of such a tensor."""
    case = {**ts.forward(), **ts.backward()}[name]
    given = case.tensors()
    for key, t in given.items():
        if t.is_floating_point():
            for asks in (False, True):
                other = getattr(t, way)().detach().requires_grad_(asks)
                with refused(BufferError, "layout torch.", "pass its to_dense()"):
                    case.on(*{**given, key: other}.values())


def test_nothing_in_the_place_of_a_tensor() -> None:
    for call in (ct.max_pooling, ct.average_pooling, ct.lp_pooling):
        with refused(TypeError, "x is a NoneType; it must be a torch.Tensor"):
            call(None, 2)
    with refused(TypeError, "x is a NoneType; it must be a torch.Tensor"):
        ct.normalize(None, None, None)
    with refused(TypeError, "(grad) is NoneType; it must be an array"):
        ct.max_pooling_grad(x(asks=False), None, 2)
