"""What PyTorch records or transforms: told of what is written, refused where it would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _operators
from directml_support import desc_of
from harness import data, refused

torch = pytest.importorskip("torch", reason="torch is not installed")
X = data((1, 2, 4, 4), "float32")
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of torch.func
POOLED = (1, 2, 2, 2)
PLAIN = torch.zeros(POOLED)  # made outside of every transformation


def x() -> Any:
    return torch.from_numpy(X.copy())


def described(name: str) -> tuple[Any, list[Any], list[Any]]:
    """A compiled operator with inputs and outputs of its descriptor's sizes."""
    desc = desc_of(name)
    tensors = {k: getattr(desc, k, None) for k in ("InputTensor", "InputGradientTensor",
               "OutputTensor", "OutputIndicesTensor", "OutputGradientTensor")}  # fmt: skip
    given = {k: torch.rand(tuple(t.Sizes)) for k, t in tensors.items() if t is not None}
    if "OutputIndicesTensor" in given:
        given["OutputIndicesTensor"] = given["OutputIndicesTensor"].to(torch.uint32)
    operator = cudml.Operator(desc).compile("cpu")
    return operator, *([v for k, v in given.items() if k.startswith(side)] for side in ("I", "O"))


def test_backward_through_an_output_that_was_written_since() -> None:
    """PyTorch's own words, for the convenience function and the compiled operator."""
    run, inputs, outputs = described("MaxPooling")
    calls: list[tuple[Any, Callable[[Any], Any]]] = [
        (torch.empty(POOLED), lambda o: _operators.max_pooling(x(), 2, 2, out=o)),
        (outputs[0], lambda o: run(*inputs, out=o)),
        (torch.empty(POOLED), lambda o: torch.add(o, 1, out=o)),  # as PyTorch itself
    ]
    for o, write in calls:
        a = torch.ones(o.shape, requires_grad=True)
        loss = (a * o).sum()
        write(o)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


EVERY = ["MaxPooling2", "MaxPooling1", "MaxPoolingGrad", "AveragePooling1", "AveragePoolingGrad",
         "LpPooling1", "Padding1", "MeanVarianceNormalization2"]  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("way", ["plain", "workspace", "parameter"])
def test_compiled_operators_tell_of_every_output(name: str, way: str) -> None:
    run, inputs, outputs = described(name)
    before = [t._version for t in (*inputs, *outputs)]
    if way == "parameter":
        outputs[0] = torch.nn.Parameter(outputs[0], requires_grad=False)
    keywords = {}
    if way == "workspace":
        keywords["workspace"] = torch.zeros(run.workspace_bytes + 64, dtype=torch.uint8)
    run(*inputs, out=outputs[0] if len(outputs) == 1 else tuple(outputs), **keywords)
    after = [t._version for t in (*inputs, *outputs)]
    assert after == before[: len(inputs)] + [v + 1 for v in before[len(inputs) :]]
    run(*inputs)
    assert [t._version for t in (*inputs, *outputs)] == after


def test_compiled_operators_tell_of_accepted_calls_alone() -> None:
    run, inputs, outputs = described("MaxPooling")
    with pytest.raises(ValueError, match="Sizes"):
        run(inputs[0][:, :1], out=outputs[0])
    with pytest.raises(ValueError, match="shares memory"):
        run(inputs[0], out=inputs[0].flatten()[: outputs[0].numel()].reshape(outputs[0].shape))
    with pytest.raises(ValueError, match="Sizes"):
        run(inputs[0], out=outputs[0][:, :1])
    assert [t._version for t in (*inputs, *outputs)] == [0, 0]


def test_functions_tell_of_every_output() -> None:
    t, y, i = x(), torch.empty(POOLED), torch.empty(POOLED, dtype=torch.int64)
    for count in range(1, 3):
        _operators.max_pooling(t, 2, 2, return_indices=True, index_dtype="int64", out=(y, i))
        assert (t._version, y._version, i._version) == (0, count, count)
    _operators.mean_variance_normalization(t, axes=3, out=t)
    assert t._version == 1
    view = torch.empty(2, *POOLED)
    _operators.max_pooling(t, 2, 2, out=view[1])
    assert view._version == 1
    with pytest.raises(ValueError, match="Sizes"):
        _operators.max_pooling(t, 2, out=y)
    assert y._version == 2


TAPES: dict[str, Callable[[], Any]] = {
    "leaf": lambda: x().requires_grad_(),
    "result": lambda: x().requires_grad_() * 2,
    "parameter": lambda: torch.nn.Parameter(x()),
}


@pytest.mark.parametrize("kind", TAPES)
def test_what_autograd_records_is_refused_while_it_records(kind: str) -> None:
    t, want = TAPES[kind](), cudml.max_pooling(X, 2, 2)
    run, _, _ = described("MaxPooling")
    words = "pass its detach(), or call under torch.no_grad()"
    way = "requires a gradient; use cudml.torch.max_pooling, "
    with refused(BufferError, f"max_pooling: InputTensor (x) {way}{words}"):
        _operators.max_pooling(t, 2, 2)
    wide = torch.nn.Parameter(torch.rand(tuple(desc_of("MaxPooling").InputTensor.Sizes)))
    with refused(BufferError, f"MAX_POOLING: InputTensor (inputs[0]) requires a gradient; {words}"):
        run(wide)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            y = _operators.max_pooling(t, 2, 2)
            meant = t.detach().numpy()
            assert np.array_equal(y.numpy(), cudml.max_pooling(meant, 2, 2))
            assert type(y) is torch.Tensor and not y.requires_grad
            assert torch.equal(run(wide), run(wide.detach()))
    assert np.array_equal(_operators.max_pooling(t.detach() * 0 + x(), 2, 2).numpy(), want)


def test_outputs_that_autograd_records() -> None:
    """As PyTorch's own `out=`: refused while it records, written and told of otherwise."""
    out = torch.nn.Parameter(torch.zeros(POOLED))
    with refused(BufferError, "max_pooling: OutputTensor (out) requires a gradient"):
        _operators.max_pooling(x(), 2, 2, out=out)
    assert (out == 0).all() and out._version == 0
    with torch.no_grad():
        assert _operators.max_pooling(x(), 2, 2, out=out) is out
    assert np.array_equal(out.detach().numpy(), cudml.max_pooling(X, 2, 2)) and out._version == 1


def test_a_model_s_parameters_under_no_grad() -> None:
    scale, bias = (torch.nn.Parameter(torch.rand(1, 2, 1, 1)) for _ in range(2))
    want = cudml.mean_variance_normalization(
        X, scale.detach().numpy(), bias.detach().numpy(), axes=(2, 3)
    )
    with torch.no_grad():
        y = _operators.mean_variance_normalization(x(), scale, bias, axes=(2, 3))
    assert np.array_equal(y.numpy(), want)
    with refused(BufferError, "ScaleTensor (scale) requires a gradient"):
        _operators.mean_variance_normalization(x(), scale, bias, axes=(2, 3))


def check_refused(t: Any, *fragments: str) -> Any:
    with refused(BufferError, "max_pooling: InputTensor (x) ", *fragments):
        _operators.max_pooling(t, 2, axes=(-2, -1))
    with refused(BufferError, "mean_variance_normalization: BiasTensor (bias) ", *fragments):
        _operators.mean_variance_normalization(PLAIN, None, t, axes=(2, 3))
    return t


@pytest.mark.parametrize("name", ["vmap", "grad", "jvp", "functionalize"])
def test_tensors_inside_of_transformations(name: str) -> None:
    """They stand for others; the next call is as good as ever."""
    func = torch.func
    inside = lambda t: check_refused(t, "torch.func", "call outside of it").sum()  # noqa: E731
    if name == "jvp":
        func.jvp(inside, (x(),), (x(),))
    else:
        getattr(func, name)(inside)(x())
    assert np.array_equal(_operators.max_pooling(x(), 2).numpy(), cudml.max_pooling(X, 2))


def test_tangents_of_forward_mode() -> None:
    import torch.autograd.forward_ad as forward

    with forward.dual_level():
        check_refused(forward.make_dual(x(), x()), "tangent", "unpack_dual")
        y = _operators.max_pooling(x(), 2)  # without a tangent it is a plain tensor
    assert np.array_equal(y.numpy(), cudml.max_pooling(X, 2))


def test_tensors_without_memory() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(X.shape)
    for t in (fake, torch.empty(X.shape, device="meta")):
        check_refused(t, "has no memory", "cudml.explain")
        assert cudml.explain("max_pooling", t, 2).kernel == "pool/strips"
    check_refused(x().to_sparse(), "torch.sparse_coo", "to_dense()")


@pytest.mark.filterwarnings("ignore")  # torch's own of prototypes, and of what is to go
def test_tensors_of_other_kinds() -> None:
    check_refused(torch.nested.nested_tensor([x(), x()]), "is nested", "to_padded_tensor")
    quantized = torch.quantize_per_tensor(x().detach(), 1.0, 0, torch.qint8)
    check_refused(quantized, "torch.qint8", "dequantize()")


def test_a_workspace_of_no_byte_too_many() -> None:
    """A tensor of exactly the bytes is taken, one of a byte less refused."""
    run, inputs, _ = described("MaxPoolingGrad")
    need = run.workspace_bytes
    exact = torch.zeros(need, dtype=torch.uint8)
    assert need > 0 and torch.equal(run(*inputs, workspace=exact), run(*inputs))
    with refused(ValueError, f"workspace has {need - 1} bytes; it must have at least {need}"):
        run(*inputs, workspace=torch.zeros(need - 1, dtype=torch.uint8))
