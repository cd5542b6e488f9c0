"""Gradients beside finite differences, of second order, and those that there are not."""

from __future__ import annotations

from typing import Any

import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402

import cudml  # noqa: E402
import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402

FORWARD = tuple(ts.forward())
ONCE = ("lp_pooling", "lp_pooling ceil", "mean_variance_normalization", "normalize")


def distinct(*shape: int) -> Any:
    """Numbers no two of which are near each other or 0, so that no difference crosses a kink."""
    torch.manual_seed(7)
    count = torch.Size(shape).numel()
    x = (torch.randperm(count).double() + 1) / count * 4
    return (x * (torch.arange(count) % 2 * 2 - 1)).reshape(shape).requires_grad_()


def smooth(name: str) -> tuple[Any, list[Any]]:
    """A call of FLOAT64 tensors at a place without kinks."""
    case = ts.forward("float64")[name]
    tensors = case.tensors()
    tensors["x"] = distinct(*tensors["x"].shape)
    asking = [
        t.detach().requires_grad_() if k in case.differentiable else t for k, t in tensors.items()
    ]
    return (lambda *given: ts.listed(case.on(*given))[0]), asking


@pytest.mark.decision("D-GRAD-42")
@pytest.mark.parametrize("name", FORWARD)
def test_finite_differences(name: str) -> None:
    function, tensors = smooth(name)
    assert gradcheck(function, tensors, eps=1e-6, atol=1e-6, rtol=1e-6, fast_mode=True)


@pytest.mark.parametrize("rank", [3, 5])
def test_lp_gradients_of_tensors_that_ask_for_one(rank: int) -> None:
    """The function itself, of the least and the highest rank."""
    x = distinct(2, 1, *[4] * (rank - 2))
    y = ct.lp_pooling(x, 2, 2, p=3)
    got = ct.lp_pooling_grad(x, y, torch.ones_like(y), 2, 2, p=3)
    (want,) = torch.autograd.grad(y.sum(), x)
    assert got.requires_grad and torch.equal(got, want)


@pytest.mark.parametrize("name", FORWARD)
def test_many_gradients_at_once(name: str) -> None:
    """is_grads_batched, which jacobian(vectorize=True) uses, goes back as often as it takes."""
    function, tensors = smooth(name)
    y = function(*tensors)
    asking = [t for t in tensors if t.requires_grad]
    many = torch.randn(3, *y.shape, generator=torch.Generator().manual_seed(2)).double()
    more = {"retain_graph": True, "is_grads_batched": True}
    together = torch.autograd.grad(y, asking, many, **more)
    each = [torch.autograd.grad(y, asking, one, retain_graph=True) for one in many]
    for got, *want in zip(together, *each, strict=True):
        assert torch.equal(got, torch.stack(want))


@pytest.mark.parametrize("name", FORWARD)
def test_gradients_of_nothing(name: str) -> None:
    """N = 0: gradients of x's shape without elements, and sums over nothing that are +0."""
    case = ts.forward()[name]
    tensors = {k: t[:0] if t.shape[0] != 1 else t for k, t in case.tensors().items()}
    if name.startswith("padding"):
        case.args = ((0, 1, 5, 2), (0, 0, 3, 7))  # none where nothing is
    if name == "max_unpooling":
        case.args = ((0, 3, 3, 4),)
    for key in case.differentiable:
        tensors[key] = tensors[key].detach().requires_grad_()
    ts.listed(case.on(*tensors.values()))[0].sum().backward()
    for key in case.differentiable:
        gradient = tensors[key].grad
        assert gradient.shape == tensors[key].shape
        assert not gradient.abs().sum() and not gradient.signbit().any()


@pytest.mark.decision("D-GRAD-34")
@pytest.mark.parametrize("name", [n for n in FORWARD if n not in ONCE])
def test_finite_differences_of_second_order(name: str) -> None:
    function, tensors = smooth(name)
    assert gradgradcheck(function, tensors, eps=1e-6, atol=1e-6, rtol=1e-6, fast_mode=True)


@pytest.mark.parametrize("name", ["max_pooling_grad", "average_pooling_grad", "padding_grad"])
def test_gradients_are_linear_functions(name: str) -> None:
    """Also of order three: both ways alternate."""
    case = ts.backward("float64")[name]
    tensors = case.tensors(requires_grad=True)
    assert gradcheck(case.on, list(tensors.values()), atol=1e-6, fast_mode=True)
    assert gradgradcheck(case.on, list(tensors.values()), atol=1e-6, fast_mode=True)


def test_second_order_of_max_pooling_by_hand() -> None:
    """With a window without elements, whose gradient goes nowhere and gets 0."""
    x = torch.tensor([[[1.0, 3.0, 2.0]]], requires_grad=True)
    g = torch.tensor([[[5.0, 7.0, 9.0]]], requires_grad=True)
    y = ct.max_pooling(x, 2, 2, 2)
    assert y.tolist() == [[[-torch.inf, 3.0]]]
    (dx,) = torch.autograd.grad(y, x, g[..., :2], create_graph=True)
    assert dx.tolist() == [[[0.0, 7.0, 0.0]]]
    dg, dx2 = torch.autograd.grad((dx * torch.tensor([10.0, 20.0, 30.0])).sum(), (g, x))
    assert dg.tolist() == [[[0.0, 20.0, 0.0]]] and dx2.tolist() == [[[0.0, 0.0, 0.0]]]


TWICE = {
    "lp_pooling": "lp_pooling_grad",
    "mean_variance_normalization": "mean_variance_normalization_grad",
    "normalize": "normalize_grad",
}


@pytest.mark.parametrize("name", TWICE)
def test_what_is_differentiable_once_says_so(name: str) -> None:
    case = ts.forward()[name]
    tensors = case.tensors(requires_grad=True)
    (dx,) = torch.autograd.grad(case.on(*tensors.values()).sum(), tensors["x"], create_graph=True)
    with refused(RuntimeError, f"cudml::{TWICE[name]}: differentiable once only"):
        dx.sum().backward()


def test_sums_and_statistics_have_no_gradient_and_say_so() -> None:
    case = ts.backward()["normalize_grad_sums"]
    tensors = case.tensors()
    tensors["x"].requires_grad_()
    with refused(RuntimeError, "cudml::normalize_grad_sums: differentiable once only"):
        case.on(*tensors.values())[1].sum().backward()
    x = torch.rand(2, 3, requires_grad=True)
    _, mean, _ = ct.normalization_statistics(x, axes=1)
    words = "cudml::normalization_statistics: not differentiable; use mean_variance_normalization"
    with refused(RuntimeError, words):
        mean.sum().backward()


@pytest.mark.parametrize("which", ["mean", "variance"])
def test_stored_statistics_are_constants(which: str) -> None:
    stored = {"mean": torch.rand(1, 3), "variance": torch.rand(1, 3)}
    stored[which].requires_grad_()
    y = ct.normalize(torch.rand(2, 3, requires_grad=True), **stored)
    with refused(RuntimeError, f"cudml::normalize: {which} requires a gradient"):
        y.sum().backward()


@pytest.mark.parametrize("subset", [("x",), ("scale",), ("bias",), ("x", "bias")])
@pytest.mark.parametrize("name", ["mean_variance_normalization", "normalize"])
@pytest.mark.parametrize("activation", [None, "relu", ("linear", {"alpha": 2, "beta": 1})])
def test_only_what_is_asked_for_is_computed(name: str, subset: Any, activation: Any) -> None:
    """The bits are those of all gradients together, with and without an activation."""
    case = ts.forward()[name]
    case.kwargs = {**case.kwargs, "activation": activation}
    every, some = case.tensors(requires_grad=True), case.tensors()
    for key in subset:
        some[key].requires_grad_()
    case.on(*every.values()).square().sum().backward()
    case.on(*some.values()).square().sum().backward()
    for key in case.differentiable:
        got = some[key].grad
        assert (got is not None) == (key in subset), key
        assert got is None or ts.equal(got, every[key].grad), key


@pytest.mark.parametrize("linear", [None, "identity", ("linear", {"alpha": 1, "beta": 3})])
def test_a_bias_that_no_slope_reads_is_not_kept(linear: Any) -> None:
    x, bias = torch.rand(2, 3, requires_grad=True), torch.rand(1, 3, requires_grad=True)
    y = ct.mean_variance_normalization(x, None, bias, axes=1, activation=linear)
    kept = ct.mean_variance_normalization(x, None, bias, axes=1, activation="relu")
    with torch.no_grad():
        bias += 1
    y.sum().backward()
    assert bias.grad.tolist() == [[2.0, 2.0, 2.0]]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_indices_just_out_of_range_have_no_gradient() -> None:
    """Nor where nobody has won the place that they would be taken for."""
    x = torch.tensor([[[5.0, 6.0, 7.0]]], requires_grad=True)
    for indices, want in (([4, 1, 3], [0, 20, 40]), ([1, -1, 4], [20, 0, 0])):
        y = ct.max_unpooling(x, torch.tensor([[indices]]), (1, 1, 4))
        (dx,) = torch.autograd.grad(y, x, torch.tensor([[[10.0, 20.0, 30.0, 40.0]]]))
        assert dx.tolist() == [[want]]


def test_elements_out_of_range_of_a_single_place() -> None:
    """Of three elements the second one stands there; the others have no gradient."""
    x = torch.rand(1, 1, 3, requires_grad=True)
    y = ct.max_unpooling(x, torch.tensor([[[1, 0, -1]]]), (1, 1, 1))
    (dx,) = torch.autograd.grad(y, x, torch.full((1, 1, 1), 7.0))
    assert y.item() == x[0, 0, 1] and dx.tolist() == [[[0, 7, 0]]]


def test_many_elements_win_and_lose_their_places() -> None:
    """More than 16 bits count: of two with one place, 2**16 apart, the later has the gradient."""
    x = torch.rand(1, 1, 70_000, requires_grad=True)
    indices = torch.arange(70_000).reshape(x.shape)
    indices[0, 0, 2**16 + 3] = 3
    y = ct.max_unpooling(x, indices, x.shape)
    grad = torch.rand(x.shape)
    (dx,) = torch.autograd.grad(y, x, grad)
    want = grad.clone()
    want[0, 0, 2**16 + 3], want[0, 0, 3] = grad[0, 0, 3], 0
    assert torch.equal(dx, want)


@pytest.mark.parametrize("activation", [None, "relu"])
def test_the_gradient_of_a_wide_bias_of_half_precision_is_wide(activation: Any) -> None:
    """1202 is no bfloat16: the sum is rounded to the type of the bias alone."""
    x = torch.rand(2, 601, dtype=torch.bfloat16)
    bias = torch.full((1, 1), 9.0, requires_grad=True)
    ct.mean_variance_normalization(x, None, bias, axes=1, activation=activation).sum().backward()
    assert bias.grad.dtype == torch.float32 and bias.grad.tolist() == [[1202.0]]


@pytest.mark.parametrize("given", [("mean", "variance"), ("mean",), ("variance",)])
@pytest.mark.parametrize("asks", [False, True])
def test_a_gradient_with_given_statistics(given: tuple[str, ...], asks: bool) -> None:
    """VG8, and through registered operators; those have no argument for statistics."""
    x, grad = torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 2, 3, 4])
    scale, bias = torch.tensor([2.0]), torch.tensor([1.0])
    stored = {"mean": torch.tensor([1.0]), "variance": torch.tensor([4.0])}
    options = {"use_mean": "mean" in given, "use_variance": "variance" in given, "epsilon": 0}
    got = ct.mean_variance_normalization_grad(
        x.requires_grad_(asks), grad, scale, bias, axes=0, **options,
        **{k: stored[k] for k in given},
    )  # fmt: skip
    d = x.detach() - (1 if "mean" in given else 0)
    r = 0.5 if "variance" in given else 1.0
    z, w = d * r, grad * 2
    dx = w - (w.mean() if "mean" in given else 0)
    dx = r * (dx - (z * (w * z).mean() if "variance" in given else 0))
    assert torch.allclose(got[0], dx, rtol=1e-6)
    assert torch.allclose(got[1], (grad * z).sum()) and got[2].tolist() == [10.0]
    if given == ("mean", "variance"):
        assert got[0].tolist() == [-1.5, -1.75, -2.0, -2.25] and got[1].tolist() == [10.0]


@pytest.mark.decision("D-GRAD-35")
@pytest.mark.parametrize("name", [*FORWARD, *ts.backward()])
def test_forward_mode_is_refused(name: str) -> None:
    """By dual tensors and by torch.func, under torch.no_grad and not."""
    case = {**ts.forward(), **ts.backward()}[name]
    words = "forward-mode differentiation is not supported"
    for key, t in case.tensors().items():
        if not t.is_floating_point():
            continue
        others = case.tensors()
        with forward_ad.dual_level(), refused(RuntimeError, words):
            case.on(*{**others, key: forward_ad.make_dual(t, t)}.values())
        with refused(RuntimeError, words):
            torch.func.jvp(lambda v, k=key, o=others: case.on(*{**o, k: v}.values()), (t,), (t,))


@pytest.mark.decision("D-GRAD-35")
@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_of_a_gradient_is_refused(name: str) -> None:
    """torch.func.hessian's way: the tensors that the function sees have no tangent themselves."""
    function, (x, *others) = smooth(name)
    gradient = torch.func.grad(lambda v: function(v, *others).square().sum())
    words = "forward-mode differentiation is not supported"
    with refused(RuntimeError, "cudml::", words):
        torch.func.jvp(gradient, (x.detach(),), (x.detach(),))


def test_a_level_without_tangents_is_no_forward_mode() -> None:
    with forward_ad.dual_level():
        x = torch.rand(1, 2, 4)
        assert torch.equal(ct.average_pooling(x, 2), torch.nn.functional.avg_pool1d(x, 2, 1))


def test_batch_of_gradients() -> None:
    """torch.func: gradients of samples, Jacobians, and the Hessian of what is linear inside."""
    x = torch.rand(3, 2, 3, 5)
    pooled = lambda v: ct.max_pooling(v.unsqueeze(0), 2, 1, 1).square().sum()  # noqa: E731
    one_by_one = torch.stack([torch.func.grad(pooled)(v) for v in x])
    assert torch.equal(torch.func.vmap(torch.func.grad(pooled))(x), one_by_one)
    leaf = x.clone().requires_grad_()
    sum(pooled(v) for v in leaf).backward()
    assert torch.equal(one_by_one, leaf.grad)
    v = torch.rand(1, 1, 4, dtype=torch.float64)
    average = lambda v: ct.average_pooling(v, 2)  # noqa: E731
    jacobian = torch.func.jacrev(average)(v).reshape(3, 4)
    assert jacobian.tolist() == [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]]
    square = lambda v: average(v).square().sum()  # noqa: E731
    hessian = torch.func.jacrev(torch.func.grad(square))(v).reshape(4, 4)
    assert torch.equal(hessian, 2 * jacobian.T @ jacobian)


def test_every_canonical_function_is_there() -> None:
    """Of `cudml`'s operators, each by its own name."""
    for name in cudml._operators.__all__:
        assert name in ct.__all__ and callable(getattr(ct, name))
