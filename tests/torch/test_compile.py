"""torch.compile and torch.export: no break of the graph, one program for all batch sizes."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo import config as dynamo  # noqa: E402
from torch._dynamo import reset  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402
from cudml.torch._schemas import SCHEMAS  # noqa: E402

MODES = ["constant", "edge", "constant", "wrap"]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pooling": lambda x: ct.average_pooling(
        ct.max_pooling(x, (2, 3), (2, 1), (1, 0), (0, 2), output_sizes="ceil"), 2, dilations=(1, 2)
    ),
    "indices": lambda x: ct.max_unpooling(
        *ct.max_pooling(x, 2, 2, return_indices=True), (*x.shape[:2], x.shape[2], x.shape[3])
    ),
    "lp": lambda x: ct.lp_pooling(x, 2, axes=(1, 3), p=3),
    "padding": lambda x: ct.padding(
        ct.padding(x, 1, (0, 2, 1, 3), mode="reflection"), 1, 0, mode=MODES, value=2
    ),
    "normalization": lambda x: ct.mean_variance_normalization(
        x, x[:1].detach() + 1, x[:1, :1], axes=(1, 2), activation=("elu", {"alpha": 0.5})
    ),
    "phases": lambda x: _in_two_phases(x),
    "symbols": lambda x: _by_batch_size(x),
    "gradient": lambda x: ct.mean_variance_normalization_grad(
        x.detach(), x.detach() * 2, None, x.detach()[:1], axes=3, outputs=("x", "bias")
    )[0] * x,
}  # fmt: skip
pytestmark = [
    pytest.mark.decision("D-GRAD-41"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch itself
]


def _in_two_phases(x: Any) -> Any:
    with torch.no_grad():
        parts = [ct.normalization_statistics(p, axes=(0, 2)) for p in (x[..., :2], x[..., 2:])]
        parts = [[t.sum(3, keepdim=True) for t in part] for part in parts]
        _, mean, m2 = ct.merge_statistics(*parts)
    return ct.normalize(x, mean, m2, activation="gelu")


def _by_batch_size(x: Any) -> Any:
    """Pads and sizes that are symbols in a program."""
    n = x.shape[0]
    y = ct.padding(x, (0, 0, n, 1), (0, 0, 0, n), mode="wrap")  # {N,4,6+N,6+N}
    pooled = ct.average_pooling(y, 2, output_sizes=(n + 5, n + 5))
    back = ct.average_pooling_grad(pooled, (n, 4, n + 6, n + 6), 2)
    return ct.padding_grad(back, x.shape, (0, 0, n, 1), (0, 0, 0, n), mode="wrap")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    reset()
    yield
    reset()


def both(function: Any, x: Any) -> list[Any]:
    """A result and the gradient of its sum of squares."""
    leaf = x.clone().requires_grad_()
    y = function(leaf)
    y.square().sum().backward()
    return [y.detach(), leaf.grad]


@pytest.mark.parametrize(
    ("name", "dynamic"), [(n, True) for n in FUNCTIONS] + [("pooling", False), ("phases", False)]
)
def test_one_graph_for_every_batch_size(name: str, dynamic: bool) -> None:
    """The bits of the eager call; with dynamic sizes one program, not another for each N."""
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, dynamic=dynamic, backend="aot_eager")
    sizes = (3, 4, 6) if dynamic else (3,)
    for i, n in enumerate(sizes):
        x = torch.randn(n, 4, 6, 5, generator=torch.Generator().manual_seed(n))
        with dynamo.patch(error_on_recompile=i > 0):
            got = both(compiled, x)
        want = both(FUNCTIONS[name], x)
        assert all(ts.equal(*pair) for pair in zip(got, want, strict=True))


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor(mode: str) -> None:
    """With sizes that vary; or with CUDA graphs, which tensors on the CPU go without.

    A result stays as it is while later ones are computed, by one program.
    """

    def network(x: Any) -> Any:
        y = ct.max_pooling(torch.relu(x * 2), 2, 2, return_indices=False)
        return ct.mean_variance_normalization(y, axes=3, activation="relu") + 1

    is_varied = mode == "default"
    inputs = [torch.randn(3 + is_varied * i, 4, 6, 8) for i in range(3)]
    compiled = torch.compile(network, fullgraph=True, dynamic=is_varied, mode=mode)
    found = []
    with config.patch({"cpp.cxx": ("g++",)}):  # not what CXX says, which may be two words
        for i, x in enumerate(inputs):
            with dynamo.patch(error_on_recompile=i > 0):
                found.append(both(compiled, x))
    for x, results in zip(inputs, found, strict=True):
        for got, want in zip(results, both(network, x), strict=True):
            assert torch.allclose(got, want, rtol=1e-6, atol=1e-6)


def test_graphs_of_a_device_may_hold_every_operator() -> None:
    """Where `mode="reduce-overhead"` captures: none is said to be unsafe, or to change a tensor."""
    unsafe = getattr(torch.Tag, "cudagraph_unsafe", None)
    for name in SCHEMAS:
        operator = getattr(torch.ops.cudml, name).default
        assert unsafe not in operator.tags and not operator._schema.is_mutable


class Network(torch.nn.Module):
    """What a program that is exported may hold."""

    def forward(self, x: Any) -> Any:
        y, indices = ct.max_pooling(x, 2, 2, output_sizes="ceil", return_indices=True)
        y = ct.padding(y, 0, (0, 0, 1, 2), mode="edge")
        return ct.mean_variance_normalization(y, axes=(2, 3), activation="gelu"), indices


@pytest.mark.parametrize("strict", [True, False])
def test_exported_programs(strict: bool) -> None:
    """A round trip through a file, and decompositions that leave the operators alone."""
    dims = {0: torch.export.Dim("n", min=1), 2: torch.export.Dim("h", min=4)}
    program = torch.export.export(
        Network(), (torch.rand(3, 2, 7, 6),), dynamic_shapes=({**dims},), strict=strict
    )
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for each in (program, torch.export.load(file), program.run_decompositions()):
        held = {str(node.target) for node in each.graph.nodes}
        assert {
            "cudml.max_pooling_with_indices.default",
            "cudml.padding.default",
            "cudml.mean_variance_normalization.default",
        } <= held
        for n, h in ((1, 4), (5, 9)):
            x = torch.rand(n, 2, h, 6)
            for got, want in zip(each.module()(x), Network()(x), strict=True):
                assert ts.equal(got, want)


def test_only_int64_indices_are_compiled() -> None:
    call = lambda x: ct.max_pooling(x, 2, return_indices=True, index_dtype="uint32")  # noqa: E731
    x = torch.rand(1, 2, 4)
    words = "index_dtype is uint32; in compiled code it must be int64|Observed exception"  # of 2.4
    with pytest.raises(Exception, match=words):
        torch.compile(call, fullgraph=True, backend="eager")(x)
    assert call(x)[1].dtype == torch.uint32


@pytest.mark.filterwarnings("ignore:Error detected in")  # with where the call was
def test_statistics_that_a_program_returns() -> None:
    """Constants to it: the bits of the eager call where they are detached, else an error."""

    def normalized(x: Any, *, is_detached: bool) -> Any:
        y, *stored = ct.mean_variance_normalization(x, axes=(0, 2), return_statistics=True)
        return (y, *(t.detach() for t in stored)) if is_detached else (y, *stored)

    compiled = torch.compile(normalized, fullgraph=True, backend="aot_eager")
    x = (2 + torch.randn(2, 3, 7)).requires_grad_()  # of a mean near 0 few digits are its own
    got, want = (f(x, is_detached=True) for f in (compiled, normalized))
    assert ts.equal(got[0], want[0])  # the statistics are those of a pass of their own
    assert all(torch.allclose(*pair, rtol=1e-6) for pair in zip(got[1:], want[1:], strict=True))
    assert got[0].requires_grad and not any(t.requires_grad for t in got[1:])
    gradients = [torch.autograd.grad(y[0].pow(3).sum(), x)[0] for y in (got, want)]
    assert ts.equal(*gradients)
    words = "normalization_statistics: not differentiable; .* must return their detach"
    with pytest.raises(Exception, match=words):
        compiled(x, is_detached=False)


def test_a_second_order_of_compiled_gradients() -> None:
    def penalty(x: Any) -> Any:
        (dx,) = torch.autograd.grad(ct.average_pooling(x, 2).square().sum(), x, create_graph=True)
        return dx.square().sum()

    x = torch.rand(1, 2, 5, requires_grad=True)
    penalty(x).backward()
    once = torch.func.grad(lambda v: ct.average_pooling(v, 2).square().sum())
    want = torch.func.grad(lambda v: once(v).square().sum())(x.detach())
    assert torch.allclose(x.grad, want, rtol=1e-6)


@pytest.mark.parametrize("name, given", [
    ("axis", (1, -1, 2)), ("axes", ((1, 2), (2, 3), (0, 3))), ("norm", (2.0, 3.0, 4.0)),
])  # fmt: skip
def test_arguments_that_vary(name: str, given: Any) -> None:
    """From the second call on they are symbols, which PyTorch's own operators take as well."""
    x = torch.rand(2, 3, 4, 5)

    def call(x: Any, n: Any) -> Any:
        if name == "norm":
            return ct.functional.lp_pool2d(x, n, 2)
        _, mean, _ = ct.normalization_statistics(x, axes=n)
        y = ct.mean_variance_normalization(x, axes=n)
        return ct.lp_pooling(x, 2, axes=n if name == "axes" else (1, 2)), y, mean

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for n in given:
        pairs = zip(ts.listed(compiled(x, n)), ts.listed(call(x, n)), strict=True)
        assert all(ts.equal(*pair) for pair in pairs)


def test_programs_without_dynamo_hold_symbols() -> None:
    """Of pads and sizes, which the functions get as they are."""
    x = torch.rand(3, 4, 6, 5)
    program = make_fx(_by_batch_size, tracing_mode="symbolic")(x[:2])
    assert torch.equal(program(x), _by_batch_size(x))
