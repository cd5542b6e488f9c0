"""Calls that autograd alone records, beside the registered operators that all others take."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import cudml  # noqa: E402
import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402
from cudml.torch._autograd import FORMULAS  # noqa: E402

FORWARD = tuple(ts.forward())
DIRECT, REGISTERED = "cudml_", "GeneratedBackwardFor_cudml_"
# What the backward pass of an operator keeps; without an activation that reads its argument a
# bias is not among it.
SAVED = {
    "max_pooling": {"x"}, "with_indices": {"x"}, "average_pooling": set(),
    "lp_pooling": {"x", "result 0"}, "padding": set(), "max_unpooling": {"indices"},
    "mean_variance_normalization": {"x", "scale", "bias"},
    "normalize": {"x", "scale", "bias", "mean", "variance"},
}  # fmt: skip


class Watching(TorchDispatchMode):
    """A mode that looks at every operator and changes none."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def node(y: Any) -> str:
    """The name of what autograd recorded for a result of an operator."""
    return type(ts.listed(y)[0].grad_fn).__name__


def forms(case: Any) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Leaves, results and saved tensors of a call: as autograd's alone, and as a mode's too."""
    for is_watched in (False, True):
        tensors, kept = case.tensors(requires_grad=True), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, k=kept: k.append(t) or t, id):
            if is_watched:
                with Watching():
                    y = case.on(*tensors.values())
            else:
                y = case.on(*tensors.values())
        assert node(y).startswith(REGISTERED if is_watched else DIRECT)
        yield tensors, ts.listed(y), kept


@pytest.mark.decision("D-GRAD-33")
@pytest.mark.parametrize("name", FORWARD)
def test_both_save_the_same(name: str) -> None:
    """The tensors themselves where they are arguments, and of results the same one."""
    found = []
    for tensors, results, kept in forms(ts.forward()[name]):
        places = {t.data_ptr(): k for k, t in tensors.items()} | {
            t.data_ptr(): f"result {i}" for i, t in enumerate(results)
        }
        found.append([(places[t.data_ptr()], t.shape, t.stride()) for t in kept])
    assert found[0] == found[1]
    assert {place for place, *_ in found[0]} == SAVED[name.split()[0]]


@pytest.mark.parametrize("activation", [None, "identity", ("linear", {"alpha": 3, "beta": 2})])
def test_a_bias_that_no_slope_depends_on_is_not_kept(activation: Any) -> None:
    case = ts.forward()["mean_variance_normalization"]
    case.kwargs = {**case.kwargs, "activation": activation}
    for tensors, _, kept in forms(case):
        assert {t.data_ptr() for t in kept} == {tensors[k].data_ptr() for k in ("x", "scale")}


@pytest.mark.decision("D-GRAD-33")
@pytest.mark.parametrize("name", FORWARD)
def test_both_give_the_same_bits(name: str) -> None:
    """Results, which of them have a gradient, and the gradients."""
    case, found = ts.forward()[name], []
    for is_watched in (False, True):
        tensors = case.tensors(requires_grad=True)
        if is_watched:
            with Watching() as mode:
                y = ts.listed(case.on(*tensors.values()))
            assert any(s.startswith("cudml.") for s in mode.seen)
        else:
            y = ts.listed(case.on(*tensors.values()))
        grad = torch.linspace(-1, 2, y[0].numel()).view_as(y[0])
        y[0].backward(grad)
        found.append([*y, *(tensors[k].grad for k in case.differentiable)])
    for own, through in zip(*found, strict=True):
        assert ts.equal(own, through) and own.requires_grad == through.requires_grad
        assert own.stride() == through.stride()


@pytest.mark.parametrize("name", FORWARD)
def test_graphs_that_are_kept_go_back_again(name: str) -> None:
    """To each tensor by itself as well, whichever ask for a gradient."""
    case = ts.forward()[name]
    every = {*case.differentiable}
    for asking in filter(None, ({"x"}, every, every - {"x"})):
        for watched in (contextlib.nullcontext(), Watching()):
            tensors = {k: t.requires_grad_(k in asking) for k, t in case.tensors().items()}
            with watched:
                y = ts.listed(case.on(*tensors.values()))[0]
            to = [tensors[k] for k in asking]
            found = [torch.autograd.grad(y.sum(), to, retain_graph=True) for _ in range(2)]
            assert all(ts.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("order", ["max_pooling_grad", "average_pooling_grad", "padding_grad"])
def test_gradients_of_gradients_are_recorded_in_the_same_way(order: str) -> None:
    case = ts.backward()[order]
    tensors = case.tensors(requires_grad=True)
    y = case.on(*tensors.values())
    assert node(y) == f"{DIRECT}{order}Backward"
    (once,) = torch.autograd.grad(y.square().sum(), tensors["grad"], create_graph=True)
    assert node(once).startswith(DIRECT) or order == "max_pooling_grad"
    (twice,) = torch.autograd.grad(once.square().sum(), tensors["grad"])
    assert twice.shape == tensors["grad"].shape and twice.abs().sum() > 0


class Tagged(torch.Tensor):
    """A subclass without code of its own."""


def watchers() -> dict[str, Any]:
    """Ways to call a function that are more than eager mode with a gradient.

    Not torch.vmap: its rules end in ordinary calls of an operator on the whole batch.
    """
    average = lambda v: ct.average_pooling(v, 2)  # noqa: E731
    return {
        "subclass": lambda v: average(v.as_subclass(Tagged)),
        "compiled": torch.compile(average, backend="aot_eager", fullgraph=True),
        "grad": lambda v: torch.func.grad(lambda u: average(u).square().sum())(v),
    }


@pytest.mark.parametrize("way", watchers())
def test_who_else_watches_does_not_meet_it(way: str, monkeypatch: Any) -> None:
    def fail(*arguments: Any) -> Any:
        raise AssertionError("the function for autograd alone was called")

    x = torch.rand(2, 3, 7, requires_grad=True)
    want = watchers()[way](x)
    for name in FORMULAS:
        monkeypatch.setitem(ct._dispatch.recorded, name, fail)
    torch.compiler.reset()
    assert torch.equal(watchers()[way](x), want)
    with pytest.raises(AssertionError, match="autograd alone"):
        ct.average_pooling(x, 2)


@pytest.mark.decision("D-GRAD-33")
def test_parameters_are_tensors() -> None:
    """Their type is exact as well: no subclass that might mean something else."""
    scale, x = torch.nn.Parameter(torch.rand(1, 3, 1)), torch.nn.Parameter(torch.rand(2, 3, 7))
    y = ct.mean_variance_normalization(torch.rand(2, 3, 7), scale, axes=(0, 2))
    assert node(y) == f"{DIRECT}mean_variance_normalizationBackward"
    assert node(ct.average_pooling(x, 2)) == f"{DIRECT}average_poolingBackward"


def test_only_recording_calls_keep_anything() -> None:
    x = torch.rand(2, 3, 7, requires_grad=True)
    with torch.no_grad():
        assert ct.max_pooling(x, 2).grad_fn is None
    with torch.inference_mode():
        assert ct.max_pooling(x, 2).grad_fn is None
    assert ct.max_pooling(x.detach(), 2).grad_fn is None
    assert node(ct.max_pooling(x, 2)) == f"{DIRECT}max_poolingBackward"


def test_lists_may_change_before_the_gradient() -> None:
    x, window, strides = torch.rand(2, 3, 7, 6, requires_grad=True), [2, 3], [1, 2]
    y = ct.max_pooling(x, window, strides)
    window[0], strides[1] = 1, 1
    (got,) = torch.autograd.grad(y.sum(), x)
    (want,) = torch.autograd.grad(ct.max_pooling(x, (2, 3), (1, 2)).sum(), x)
    assert torch.equal(got, want)


def test_refusals_of_the_kernel_pass_through() -> None:
    """Those that only the operator itself makes, with nothing recorded."""
    x = torch.rand(2, 3, 7).requires_grad_()
    with refused(ValueError, "mean_variance_normalization: ScaleTensor"):
        ct.mean_variance_normalization(x, torch.rand(2, 3, 6), axes=1)
    with refused(ValueError, "max_pooling: OutputTensor"):
        ct.max_pooling(x, 2, output_sizes=(9,))


def test_statistics_come_with_the_result() -> None:
    """Those of the call itself, of the parts in use; the gradient is that of a call without."""
    case = ts.forward()["mean_variance_normalization"]
    arrays, options = case.arrays, {"axes": (1, 3), "activation": "gelu", "return_statistics": True}
    for flags in ({}, {"use_mean": False}, {"use_variance": False}):
        want = cudml.mean_variance_normalization(*arrays.values(), **options, **flags)
        tensors = case.tensors(requires_grad=True)
        got = ct.mean_variance_normalization(*tensors.values(), **options, **flags)
        assert node(got) == f"{DIRECT}mean_variance_normalizationBackward"
        assert [t is None for t in got] == [a is None for a in want]
        assert all(ts.equal(*pair) for pair in zip(ts.listed(got), ts.listed(want), strict=True))
        grad = torch.linspace(-1, 2, got[0].numel()).view_as(got[0])
        got[0].backward(grad)
        every = cudml.mean_variance_normalization_grad(
            arrays["x"], grad.numpy(), arrays["scale"], arrays["bias"],
            axes=(1, 3), activation="gelu", **flags,
        )  # fmt: skip
        found = [t.grad for t in tensors.values()]
        assert all(ts.equal(*pair) for pair in zip(found, every, strict=True))


@pytest.mark.parametrize("with_result", [False, True])
@pytest.mark.parametrize("which", [1, 2])
def test_statistics_that_come_along_have_no_gradient(which: int, with_result: bool) -> None:
    x = torch.rand(2, 3, 7).requires_grad_()
    results = ct.mean_variance_normalization(x, axes=(0, 2), return_statistics=True)
    words = "cudml::normalization_statistics: not differentiable; use mean_variance_normalization"
    with refused(RuntimeError, words):
        (results[which].sum() + (results[0].sum() if with_result else 0)).backward()
    assert x.grad is None


def test_gradients_lie_in_memory_as_their_tensors() -> None:
    """As fake ones do, where a size of 1 or the order of a parameter would tell cudml otherwise."""
    x = torch.empty(2, 3, 5, 1, memory_format=torch.channels_last).copy_(torch.rand(2, 3, 5, 1))
    scale, bias = torch.rand(1, 5, 3, 1).transpose(1, 2), torch.rand(1, 3, 5, 1)
    for tensors in ((x, None, bias), (x.contiguous(), scale, bias)):
        asking = [t.requires_grad_() for t in tensors if t is not None]
        y = ct.mean_variance_normalization(*tensors, axes=1, activation="relu")
        for t, gradient in zip(asking, torch.autograd.grad(y.sum(), asking), strict=True):
            assert gradient.stride() == torch.empty_like(t).stride()


def test_float32_counts_and_sums() -> None:
    """Counts to 2**24, itself among them; sums in the type that is asked for."""
    x = torch.ones(1, 1, requires_grad=True).expand(2**12, 2**12)
    count, mean, m2 = ct.normalization_statistics(x, axes=(0, 1), dtype="float32")
    assert [t.item() for t in (count, mean, m2)] == [2.0**24, 1, 0]
    x = torch.rand(2, 3, requires_grad=True)
    for dtype in (torch.float32, torch.float64):
        sums = ct.normalize_grad_sums(x, x.detach(), None, None, axes=1, dtype=dtype)
        assert [t.dtype for t in sums] == [dtype, dtype]


def of_torchs_functions() -> dict[str, tuple[Any, Any]]:
    """Functions of views, and the same by the canonical one and views that autograd records."""
    mvn = ct.mean_variance_normalization
    f = ct.functional

    def groups(x: Any, w: Any, b: Any) -> Any:
        sizes, view = (2, 3, 2, 4, 5), (1, 3, 2, 1, 1)
        y = mvn(x.view(sizes), w.view(view), b.view(view), axes=(2, 3, 4), activation="swish")
        return y.reshape(x.shape)

    def batch(x: Any, w: Any, b: Any) -> Any:
        return mvn(x, w.view(1, 6, 1, 1), b.view(1, 6, 1, 1), axes=(0, 2, 3))

    return {
        "layer": (
            lambda x, w, b: f.layer_norm(x.transpose(1, 3), (6,), w, b),
            lambda x, w, b: mvn(x.transpose(1, 3), w.view(1, 1, 1, 6), b.view(1, 1, 1, 6), axes=3),
        ),
        "group": (lambda x, w, b: f.group_norm(x, 3, w, b, activation="silu"), groups),
        "batch": (lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True), batch),
        "running": (
            lambda x, w, b: f.batch_norm(x, torch.zeros(6), torch.ones(6), w, b, training=True),
            batch,
        ),
    }


def leaves(order: Any = torch.contiguous_format) -> list[Any]:
    x = torch.randn(2, 6, 4, 5, generator=torch.Generator().manual_seed(3))
    weights = (torch.linspace(-1, 2, 6), torch.linspace(3, 1, 6))
    return [t.requires_grad_() for t in (x.to(memory_format=order), *weights)]


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("name", of_torchs_functions())
def test_views_on_the_way_change_no_bit(name: str, order: Any) -> None:
    """Of results and gradients, in the same memory; one node stands for the function."""
    found = []
    for function in of_torchs_functions()[name]:
        tensors = leaves(order)
        y = function(*tensors)
        grad = torch.linspace(-2, 1, y.numel()).view(y.shape)
        found.append((y, *torch.autograd.grad(y, tensors, grad)))
    assert all(ts.equal(own, through) for own, through in zip(*found, strict=True))
    assert [t.stride() for t in found[0]] == [t.stride() for t in found[1]]
    assert node(found[0][0]) == f"{DIRECT}mean_variance_normalizationBackward"


@pytest.mark.parametrize("name", of_torchs_functions())
def test_gradients_of_any_form_go_back_through_views(name: str) -> None:
    """Expanded ones, ones that are marked as negated, a batch of them, and of one tensor alone."""
    function, _ = of_torchs_functions()[name]
    tensors = leaves()
    y = function(*tensors)

    def back(grad: Any, to: Any = tensors, **more: Any) -> Any:
        return torch.autograd.grad(y, to, grad, retain_graph=True, **more)

    ones, g = torch.ones(y.shape), torch.randn(y.shape)
    for expanded, written in zip(back(torch.ones(()).expand(y.shape)), back(ones), strict=True):
        torch.testing.assert_close(expanded, written)
    assert all(map(ts.equal, back(torch._neg_view(-g)), back(g)))
    both = back(torch.stack((ones, g)), is_grads_batched=True)
    for i, grad in enumerate((ones, g)):
        for many, one in zip(both, back(grad), strict=True):
            torch.testing.assert_close(many[i], one)
    for i, tensor in enumerate(tensors):
        assert ts.equal(back(g, [tensor])[0], back(g)[i])


@pytest.mark.parametrize("name", of_torchs_functions())
def test_what_has_changed_or_goes_back_twice_is_refused_behind_views(name: str) -> None:
    """A saved tensor that was written to since, and a gradient of the gradient, of whichever
    tensor: PyTorch's errors, none of which may be lost on the way past it."""
    function, _ = of_torchs_functions()[name]
    for i in range(2):  # of the bias no slope depends
        tensors = leaves()
        y = function(*tensors)
        with torch.no_grad():
            tensors[i].mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    for i in range(3):
        tensors = [t if k == i else t.detach() for k, t in enumerate(leaves())]
        y = function(*tensors)
        (once,) = torch.autograd.grad(y, tensors[i], torch.ones(y.shape), create_graph=True)
        assert once.requires_grad or (i == 2 and name != "group")  # where no slope depends on it
        if once.requires_grad:
            with pytest.raises(RuntimeError, match="differentiable once only"):
                once.sum().backward()
