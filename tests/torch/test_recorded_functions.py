"""torch's functions with a gradient, as autograd and what is built on it expect them to record."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import functional as ours  # noqa: E402

F = torch.nn.functional


def functions(f: Any) -> dict[str, Any]:
    """Normalizations of {N,C,...} with a weight and a bias, by one library or the other."""
    return {
        "group": lambda x, w, b: f.group_norm(x, 3, w, b),
        "instance": lambda x, w, b: f.instance_norm(x, None, None, w, b),
        "batch": lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True),
        "layer": lambda x, w, b: f.layer_norm(x.movedim(1, -1), (6,), w, b),
    }


def leaves(order: Any = torch.contiguous_format) -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64, generator=generator)
    weights = (torch.linspace(-1, 2, 6).double(), torch.linspace(3, 1, 6).double())
    return [t.requires_grad_() for t in (x.to(memory_format=order), *weights)]


def gradients(y: Any, tensors: list[Any]) -> list[Any]:
    (y * torch.linspace(-2, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum().backward()
    return [t.grad for t in tensors]


def assert_same(got: list[Any], want: list[Any]) -> None:
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("name", functions(ours))
def test_results_may_be_changed_in_place(name: str, statistics: bool, order: Any) -> None:
    """As by an activation in place, a residual that is added in place, or dropout."""
    found = []
    for library in (ours, F):
        tensors = leaves(order)
        y = functions(library)[name](*tensors)
        if statistics and name in ("batch", "instance"):
            running = (torch.zeros(6).double(), torch.ones(6).double())
            function = getattr(library, f"{name}_norm")
            y = function(tensors[0], *running, *tensors[1:], True)
        kept = y.stride()
        y += 0.5
        F.relu_(y)
        assert y.stride() == kept
        found.append(gradients(y, tensors))
    assert_same(*found)


@pytest.mark.parametrize("name", ["group", "layer"])  # torch's others save copies of the weight
def test_the_backward_pass_has_what_autograd_kept(name: str) -> None:
    """Hooks that exchange saved tensors, and new data of a weight, change what they change in
    torch's own: the gradients of x and of the parameters."""
    found = []
    for library in (ours, F):
        tensors = leaves()
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: t, lambda t: t * 2 if t.shape == (6,) else t
        ):
            y = functions(library)[name](*tensors)
        first = gradients(y, tensors)
        tensors = leaves()
        y = functions(library)[name](*tensors)
        tensors[1].data = torch.linspace(5, 9, 6).double()
        found.append([*first, *gradients(y, tensors)])
    assert_same(*found)


def unpacked(t: Any) -> Any:
    """Rounded values in other strides."""
    t = t.double()
    return (
        t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t.repeat(2, 1).T[:, 0]
    )


def test_saved_tensors_may_come_back_in_another_order() -> None:
    plain, tensors = leaves(), leaves()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.float(), unpacked):
        y = ours.group_norm(tensors[0], 3, *tensors[1:], activation="silu")
    found = gradients(y, tensors)
    want = gradients(F.silu(F.group_norm(plain[0], 3, *plain[1:])), plain)
    for g, w in zip(found, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)


def test_a_computed_weight_lives_where_hooks_put_it_alone() -> None:
    """A hook that packs it away frees its memory until the backward pass."""
    x, w, b = leaves()
    packed: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.clone()) or len(packed) - 1, packed.__getitem__
    ):
        weight = w * 2
        storage = weakref.ref(weight.untyped_storage())
        y = ours.group_norm(x, 3, weight, b)
    del weight
    assert storage() is None
    y.sum().backward()
    assert w.grad is not None


@pytest.mark.parametrize("name", ["batch", "instance"])
def test_training_between_evaluation_and_its_gradient(name: str) -> None:
    """The gradient is that of the statistics which evaluation had."""
    found = []
    for trains_meanwhile in (False, True):
        x, w, b = leaves()
        running = (torch.zeros(6).double(), torch.full((6,), 2.0).double())
        function = getattr(ours, f"{name}_norm")
        y = function(x, *running, w, b, False)
        if trains_meanwhile:
            function(x, *running, w, b, True)
            assert running[0].abs().sum() > 0
        found.append(gradients(y, [x, w, b]))
    assert_same(*found)


def captured(f: Any, name: str) -> tuple[Any, list[Any]]:
    """A function of x and a weight that has running statistics from outside."""
    running = [torch.zeros(6).double(), torch.ones(6).double()]
    function = getattr(f, f"{name}_norm")

    def loss(x: Any, w: Any) -> Any:
        return function(x, *running, w, None, True).pow(3).sum()

    return loss, running


@pytest.mark.parametrize("name", ["batch", "instance"])
@pytest.mark.parametrize("argument", [0, 1])
def test_running_statistics_from_outside_of_a_transformation(name: str, argument: int) -> None:
    x, w, _ = (t.detach() for t in leaves())
    found = []
    for library in (ours, F):
        loss, running = captured(library, name)
        found.append([torch.func.grad(loss, argument)(x, w), *running])
    assert found[0][1].abs().sum() > 0
    assert_same(*found)


def test_running_statistics_of_each_part_of_a_batch() -> None:
    """Those that are mapped move with their part; one for all is an error, as in torch."""
    x, w, _ = (t.detach() for t in leaves())
    xs, running = torch.stack([x, x * 3]), (torch.zeros(2, 6), torch.ones(6, 2))
    running = tuple(t.double() for t in running)

    def step(x: Any, mean: Any, variance: Any) -> Any:
        own = torch.func.grad(lambda x: ours.batch_norm(x, mean, variance, w, None, True).sum())
        return own(x)

    torch.vmap(step, (0, 0, 1))(xs, *running)
    for i, each in enumerate(xs):
        mean, variance = torch.zeros(6).double(), torch.ones(6).double()
        F.batch_norm(each, mean, variance, w, None, True)
        assert_same([running[0][i], running[1][:, i]], [mean, variance])
    for library in (ours, F):
        with pytest.raises(RuntimeError):
            torch.vmap(lambda x, f=library: f.batch_norm(x, mean, variance, training=True))(xs)
