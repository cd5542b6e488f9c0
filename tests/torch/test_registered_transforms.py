"""torch.func around the registered operators, as compiled and exported programs call them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo import reset  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402
from cudml.torch import _dispatch, _transforms  # noqa: E402
from cudml.torch._autograd import FORMULAS  # noqa: E402
from cudml.torch._autograd_kernels import IS_OWN  # noqa: E402
from harness import refused  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch itself
    pytest.mark.skipif(
        not (IS_OWN and hasattr(torch.library, "register_vmap")),
        reason="this release takes no kernel of autograd or no rule for vmap from Python",
    ),
]
WINDOWS = ([2, 2], [2, 1], [0, 1], [1, 0], [1, 1])
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "max_pooling": lambda x: torch.ops.cudml.max_pooling(x, *WINDOWS, [2, 6]),
    "average_pooling": lambda x: torch.ops.cudml.average_pooling(x, *WINDOWS, True, [2, 6]),
    "padding": lambda x: torch.ops.cudml.padding(x, [0, 0, 1, 0], [0, 1, 2, 3], "wrap", 0),
}
NO_TANGENTS = "forward-mode differentiation is not supported"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    reset()
    yield
    reset()


def compiled(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def curved(function: Any) -> Any:
    """A number that has a second derivative by a result."""
    return lambda x: function(x).pow(3).sum()


def twice(function: Any) -> Any:
    """The gradient of a sum of squares of a gradient."""
    once = torch.func.grad(curved(function))
    return torch.func.grad(lambda x: once(x).square().sum())


def sample() -> Any:
    return torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.decision("D-GRAD-41")
@pytest.mark.parametrize("name", ts.forward())
def test_compiled_gradients(name: str) -> None:
    """With respect to every tensor, and of each part of a batch."""
    case = ts.forward()[name]
    given = case.tensors()
    for key in case.differentiable:

        def loss(t: Any, key: str = key) -> Any:
            return ts.listed(case.on(*{**given, key: t}.values()))[0].square().sum()

        gradient = torch.func.grad(loss)
        assert ts.equal(compiled(gradient)(given[key]), gradient(given[key]))
        parts = torch.stack([given[key], given[key] + 1])
        of_parts = torch.vmap(gradient)
        torch.testing.assert_close(compiled(of_parts)(parts), of_parts(parts))


@pytest.mark.decision("D-GRAD-34")
@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_of_gradients(name: str) -> None:
    """Each transformation records what the one within it computes."""
    function, x = OPERATORS[name], sample()
    leaf = x.clone().requires_grad_()
    (once,) = torch.autograd.grad(curved(function)(leaf), leaf, create_graph=True)
    (want,) = torch.autograd.grad(once.square().sum(), leaf)
    assert want.abs().sum() > 0
    for found in (twice(function)(x), compiled(twice(function))(x)):
        torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)


def test_exported_programs_are_differentiated() -> None:
    class Network(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = ct.mean_variance_normalization(x, axes=(1, 2, 3), activation="gelu")
            return ct.lp_pooling(ct.padding(y, 0, (0, 0, 1, 1), mode="edge"), 2)

    dims = ({0: torch.export.Dim("n", min=1)},)
    program = torch.export.export(Network(), (sample(),), dynamic_shapes=dims).module()
    got, want = (torch.func.grad(curved(f))(sample()) for f in (program, Network()))
    assert ts.equal(got, want)
    each = torch.vmap(torch.func.grad(lambda x: curved(program)(x[None])))(sample())
    torch.testing.assert_close(each, got, rtol=1e-12, atol=1e-12)


@pytest.mark.decision("D-GRAD-35")
@pytest.mark.parametrize("name", [*ts.forward(), *ts.backward()])
def test_tangents_in_compiled_programs_are_refused(name: str) -> None:
    """They would be 0 without a word."""
    case = {**ts.forward(), **ts.backward()}[name]
    given = case.tensors()
    for key, t in given.items():
        if t.is_floating_point():

            def tangent(t: Any, key: str = key) -> Any:
                function = lambda v: case.on(*{**given, key: v}.values())  # noqa: E731
                return torch.func.jvp(function, (t,), (t,))[1]

            with pytest.raises(Exception, match=NO_TANGENTS):
                compiled(tangent)(t)


@pytest.mark.decision("D-GRAD-35")
@pytest.mark.parametrize("name", OPERATORS)
def test_tangents_of_compiled_gradients_are_refused(name: str) -> None:
    """Which the function within sees no more."""
    gradient = torch.func.grad(curved(OPERATORS[name]))
    tangent = lambda x: torch.func.jvp(gradient, (x,), (x,))[1]  # noqa: E731
    for call in (tangent, compiled(tangent)):
        with pytest.raises(Exception, match=NO_TANGENTS):
            call(sample())


@pytest.mark.parametrize("name", ts.forward())
def test_programs_without_changes_in_place(name: str) -> None:
    """What torch.func.functionalize makes."""
    case = ts.forward()[name]
    x, *others = case.tensors().values()

    def results(x: Any) -> list[Any]:
        return ts.listed(case.on(x.clone().mul_(2), *others))

    pairs = [(torch.func.functionalize(results)(x), results(x))]
    gradient = torch.func.grad(lambda x: results(x)[0].square().sum())
    pairs.append(([torch.func.functionalize(gradient)(x)], [gradient(x)]))
    assert all(ts.equal(*pair) for both in pairs for pair in zip(*both, strict=True))


@pytest.mark.parametrize("name", ts.forward())
def test_functions_of_older_releases(name: str, monkeypatch: Any) -> None:
    """Where PyTorch takes no kernel and no rule, they give the same gradients and batches."""
    case = ts.forward()[name]
    x, *others = case.tensors().values()
    gradient = torch.func.grad(lambda x: ts.listed(case.on(x, *others))[0].square().sum())
    of_parts, parts = torch.vmap(gradient), torch.stack([x, 2 * x])
    want = gradient(x), of_parts(parts)
    for operator in FORMULAS:
        function = _transforms._function(operator).apply
        monkeypatch.setitem(_dispatch.transformed, operator, function)
    assert ts.equal(gradient(x), want[0]) and ts.equal(of_parts(parts), want[1])


@pytest.mark.decision("D-GRAD-35")
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_refuse_tangents(name: str) -> None:
    x = sample()
    with forward_ad.dual_level():
        assert torch.equal(OPERATORS[name](x), OPERATORS[name](x.clone()))
        for t in (x, x.clone().requires_grad_()):
            with refused(RuntimeError, f"cudml::{name}", NO_TANGENTS):
                OPERATORS[name](forward_ad.make_dual(t, x))
