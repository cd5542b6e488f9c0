"""Tensors of PyTorch on the CPU: every operator and element type, in and out, without a copy."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import (
    LABELS,
    Problem,
    bits,
    cases_of_type,
    every_operator,
    in_order,
    make,
    packed_strides,
)
from cudml import _operators
from directml_support import desc_of
from harness import data, refused

torch = pytest.importorskip("torch", reason="torch is not installed")
X = data((2, 3, 5, 7), "float32")
POOLED = (2, 3, 4, 6)
NHWC = (0, 2, 3, 1)
# One of each family: the arrays by number that directml_support's descriptors take.
COMPILED = ("MaxPooling2", "MaxPoolingGrad", "AveragePooling1", "AveragePoolingGrad",
            "LpPooling1", "Padding1", "MeanVarianceNormalization2")  # fmt: skip


def tensor(a: np.ndarray) -> Any:
    """The same memory as a tensor."""
    if a.dtype.name != "bfloat16":
        return torch.from_numpy(a)
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)


def array(t: Any) -> np.ndarray:
    """The same memory as an array of NumPy's."""
    if t.dtype is not torch.bfloat16:
        return t.numpy()
    import ml_dtypes

    return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def run(p: Problem, **changes: Any) -> list[Any]:
    return list(r) if isinstance(r := call(p, **changes), (tuple, list)) else [r]


def call(p: Problem, **changes: Any) -> Any:
    """The problem's call on tensors that take the place of its arrays."""
    arrays = [changes.pop(k, None) for k in p.arrays]
    arrays = [tensor(a) if t is None else t
              for a, t in zip(p.arrays.values(), arrays, strict=True)]  # fmt: skip
    return getattr(_operators, p.op)(*arrays, *p.args, **{**p.kwargs, **changes})


def strides(y: np.ndarray) -> list[int]:
    return [s // y.itemsize for s, n in zip(y.strides, y.shape, strict=True) if n > 1]


def check_same(got: list[Any], want: list[np.ndarray]) -> None:
    """Tensors on the CPU with NumPy's results: types, sizes, order in memory, every bit."""
    for t, y in zip(got, want, strict=True):
        assert type(t) is torch.Tensor and t.device.type == "cpu" and not t.requires_grad
        assert str(t.dtype) == f"torch.{y.dtype.name}" and tuple(t.shape) == y.shape
        assert [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] == strides(y)
        assert bits(array(t)) == bits(y)


# --- in and out ---


@pytest.mark.cell("PyTorch, CPU", "in", "out", "types")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_every_operator_and_type(label: str, dtype: str) -> None:
    p = make(label, dtype=dtype)
    before = [a.copy() for a in p.arrays.values()]
    check_same(run(p), p.run())
    assert [bits(a) for a in p.arrays.values()] == [bits(a) for a in before]


@pytest.mark.cell("PyTorch, CPU", "in", "out")
@pytest.mark.decision("D-TEN-8")
@pytest.mark.bug("MEM-01")
@every_operator
@pytest.mark.parametrize("order", [NHWC, (3, 2, 1, 0), (1, 0, 2, 3)], ids=str)
def test_memory_order(label: str, order: tuple[int, ...]) -> None:
    """Channels-last in, channels-last out, and every other order likewise."""
    p = make(label, (2, 3, 6, 5))
    arrays = {k: in_order(a, order) for k, a in p.arrays.items()}
    got = run(p, **{k: tensor(a) for k, a in arrays.items()})
    check_same(got, p.run(**arrays))
    if order == NHWC:
        assert all(t.is_contiguous(memory_format=torch.channels_last) for t in got)


@pytest.mark.cell("PyTorch, CPU", "in")
@pytest.mark.bug("MEM-01")
@every_operator
def test_views_that_are_not_contiguous(label: str) -> None:
    """Every second row, a part of a larger tensor, one element for all: none is copied."""
    p = make(label)
    for change in ("step", "part", "expand", "offset"):
        arrays = {}
        for name, a in p.arrays.items():
            if change == "expand":
                arrays[name] = tensor(a)[:, :, :1].expand(a.shape)
                continue
            fill = float("nan") if a.dtype.kind == "f" else -1
            whole = torch.full([2 * n + 3 for n in a.shape], fill, dtype=tensor(a).dtype)
            at = {"step": (0, 2), "part": (2, 1), "offset": (1, 1)}[change]
            view = whole[tuple(slice(at[0], at[0] + n * at[1], at[1]) for n in a.shape)]
            arrays[name] = view.copy_(tensor(a))
        want = p.run(**{k: array(t) for k, t in arrays.items()})
        got = run(p, **arrays)
        assert [bits(array(t)) for t in got] == [bits(y) for y in want], change


@pytest.mark.cell("PyTorch, CPU", "out=")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_out_of_every_type(label: str, dtype: str) -> None:
    p = make(label, dtype=dtype)
    want = p.run()
    outputs = [tensor(y) for y in p.outputs()]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    result = call(p, out=out)
    assert result is out
    check_same(outputs, [np.ascontiguousarray(y) for y in want])


@pytest.mark.cell("PyTorch, CPU", "out=")
@pytest.mark.decision("D-TEN-3")
@every_operator
def test_out_inside_a_larger_tensor(label: str) -> None:
    """The bits of NumPy's results with the same strides; what lies between stays as it was."""
    p, every_other = make(label), slice(1, None, 2)
    wholes = [np.full([2 * n + 1 for n in y.shape], 77, y.dtype) for y in p.outputs()]
    expected = [whole.copy() for whole in wholes]
    outputs = [tensor(whole)[(every_other,) * whole.ndim] for whole in wholes]
    call(p, out=outputs[0] if len(outputs) == 1 else outputs)
    want = [whole[(every_other,) * whole.ndim] for whole in expected]
    p.into(want)
    assert p.problem(want) == ""
    for whole, other in zip(wholes, expected, strict=True):
        assert bits(whole) == bits(other)
        whole[(every_other,) * whole.ndim] = 77
        assert (whole == 77).all()


@pytest.mark.cell("PyTorch, CPU", "out=")
@pytest.mark.decision("D-TEN-1", "D-TEN-2")
def test_outputs_that_are_refused() -> None:
    x = torch.from_numpy(X.copy())
    for out, kind, text in [
        (torch.zeros(1).expand(POOLED), ValueError, "OutputTensor.Strides"),
        (x[:, :, :4, :6], ValueError, "OutputTensor shares memory with InputTensor"),
        (torch.zeros(2, 3, 4, 5), ValueError, "OutputTensor.Sizes[3]"),
        (torch.zeros(POOLED, dtype=torch.float64), TypeError, "OutputTensor.DataType"),
        (torch.zeros(POOLED, device="meta"), (BufferError, ValueError, TypeError), ""),
    ]:
        with refused(kind, text):
            _operators.max_pooling(x, 2, out=out)
    assert torch.equal(x, torch.from_numpy(X))
    scaled = _operators.mean_variance_normalization(x, axes=3, out=x)
    assert scaled is x and bits(x.numpy()) == bits(cudml.mean_variance_normalization(X, axes=3))


def test_no_mixture_with_numpy() -> None:
    """Wherever the other library's array is: one error that names both."""
    x, y = torch.from_numpy(X), np.full(POOLED, -1, "f4")
    scale = np.ones((1, 3, 1, 1), "f4")
    for call_it in (
        lambda: _operators.max_pooling(x, 2, out=y),
        lambda: _operators.max_pooling(X, 2, out=torch.from_numpy(y)),
        lambda: _operators.mean_variance_normalization(x, scale, axes=3),
        lambda: _operators.mean_variance_normalization(X, None, torch.from_numpy(scale), axes=3),
        lambda: _operators.max_pooling_grad(x, X[:, :, 1:, 1:], 2),
        lambda: _operators.max_pooling(
            x, 2, return_indices=True, out=(torch.from_numpy(y), np.zeros(POOLED, "u4"))
        ),
    ):
        with refused(TypeError, "is an array of", "numpy", "torch"):
            call_it()
    assert (y == -1).all()


# --- what a tensor may hide ---


@pytest.mark.parametrize("name", ["x", "scale", "bias", "out"])
def test_tensors_that_want_a_gradient_are_refused(name: str) -> None:
    """By whichever argument; the text says what to do. Where nothing is recorded, taken."""
    x, scale = torch.from_numpy(X.copy()), torch.ones(1, 3, 1, 1)
    arrays = {"x": x, "scale": scale, "bias": scale.clone(), "out": torch.full(X.shape, -1.0)}
    arrays[name].requires_grad_()

    def normalize() -> Any:
        return _operators.mean_variance_normalization(
            arrays["x"], arrays["scale"], arrays["bias"], axes=(2, 3), out=arrays["out"]
        )

    with refused((BufferError, ValueError), "grad"):
        normalize()
    assert (arrays["out"] == -1).all()
    want = cudml.mean_variance_normalization(X, axes=(2, 3), bias=np.ones((1, 3, 1, 1), "f4"))
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            arrays["out"].fill_(-1)
            check_same([normalize().detach()], [want])
    if name == "x":
        with refused((BufferError, ValueError), "grad"):
            _operators.max_pooling(x, 2)
        with refused((BufferError, ValueError), "grad"):
            _operators.max_pooling(x * 2, 2)
    freed = {k: t.detach() for k, t in arrays.items()}
    _operators.mean_variance_normalization(freed["x"], freed["scale"], freed["bias"], axes=3)


def test_parameters_and_inference_tensors() -> None:
    want = cudml.max_pooling(X, 2)
    parameter = torch.nn.Parameter(torch.from_numpy(X.copy()), requires_grad=False)
    check_same([_operators.max_pooling(parameter, 2)], [want])
    with torch.inference_mode():
        x = torch.from_numpy(X.copy()) * 1
        check_same([_operators.max_pooling(x, 2)], [want])
    check_same([_operators.max_pooling(x, 2)], [want])


def negative_views() -> dict[str, Any]:
    """Views whose memory holds the negative of what they mean."""
    mixed = torch.complex(torch.from_numpy(X.copy()), torch.from_numpy(X.copy() + 1))
    return {
        "imaginary part of a conjugate": mixed.conj().imag,
        "negative view": torch._neg_view(torch.from_numpy(X.copy())),
    }


@every_operator
@pytest.mark.parametrize("view", negative_views())
def test_negative_views(view: str, label: str) -> None:
    """What they mean, or refused: never their memory taken at its word."""
    p, x = make(label), negative_views()[view]
    assert x.is_neg()
    if p.arrays[p.first].shape != tuple(x.shape):
        x = x[tuple(slice(0, n) for n in p.arrays[p.first].shape)]
    meant = {p.first: x.resolve_neg().numpy().copy()}
    try:
        got = run(p, **{p.first: x})
    except (BufferError, ValueError) as error:
        assert "neg" in str(error).lower(), error
    else:
        assert [bits(array(t)) for t in got] == [bits(y) for y in p.run(**meant)]


def test_negative_views_as_outputs() -> None:
    """Either written so that it means the result, or refused and left alone."""
    memory = torch.full(POOLED, 3.0)
    try:
        _operators.max_pooling(torch.from_numpy(X), 2, out=torch._neg_view(memory))
    except (BufferError, ValueError):
        assert (memory == 3).all()
    else:
        assert torch.equal(-memory, torch.from_numpy(cudml.max_pooling(X, 2)))


def test_complex_tensors_are_refused() -> None:
    mixed = torch.zeros(2, 3, 5, 7, dtype=torch.complex64)
    for x in (mixed, mixed.conj()):
        with refused((TypeError, BufferError)):
            _operators.max_pooling(x, 2)
    check_same([_operators.max_pooling(mixed.real, 2)], [np.zeros(POOLED, "f4")])


@functools.cache
def strange_tensors() -> dict[str, Any]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(2, 3, 5, 7)
    return {
        "meta": torch.empty(2, 3, 5, 7, device="meta"),
        "fake": fake,
        "zero": torch._efficientzerotensor(2, 3, 5, 7),
        "sparse": torch.ones(2, 3, 5, 7).to_sparse(),
        "bool": torch.ones(2, 3, 5, 7, dtype=torch.bool),
        "float8": torch.ones(2, 3, 5, 7).to(torch.float8_e5m2),
        "freed": freed(),
    }


def freed() -> Any:
    x = torch.ones(2, 3, 5, 7)
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["meta", "fake", "zero", "sparse", "bool", "float8", "freed"])
def test_tensors_without_memory_or_of_other_types(name: str) -> None:
    x, y = strange_tensors()[name], torch.full(POOLED, -1.0)
    before = sys.getrefcount(x)
    for _ in range(2):
        with pytest.raises((BufferError, TypeError, ValueError, RuntimeError)):
            _operators.max_pooling(x, 2, out=y)
    assert (y == -1).all() and sys.getrefcount(x) <= before + 4  # pytest keeps two exceptions


def test_defaults_of_torch_do_not_matter() -> None:
    """Results follow the input, not torch's default type or device."""
    x, want = torch.from_numpy(X), cudml.max_pooling(X, 2)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            check_same([_operators.max_pooling(x, 2)], [want])
    finally:
        torch.set_default_dtype(before)


@pytest.mark.cell("PyTorch, CPU", "stream")
@every_operator
def test_a_stream_is_refused(label: str) -> None:
    p = make(label)
    for stream in (0, 1, 2, object()):
        with refused(ValueError, f"{p.op}: stream is"):
            call(p, stream=stream)


# --- compiled operators ---


def described(name: str, dtype: str) -> tuple[Any, list[np.ndarray]]:
    desc = desc_of(name, dtype.upper())
    fields = ("InputTensor", "InputGradientTensor")
    shapes = [getattr(desc, f).Sizes for f in fields if getattr(desc, f, None) is not None]
    return desc, [data(tuple(s), dtype, i) for i, s in enumerate(shapes)]


@pytest.mark.cell("PyTorch, CPU", "in", "out", "out=")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_operators(name: str, dtype: str) -> None:
    desc, arrays = described(name, dtype)
    compiled = cudml.Operator(desc).compile("cpu")
    want = compiled(*arrays)
    tensors = [tensor(a) for a in arrays]
    check_same([compiled(*tensors)], [want])
    out = torch.full(want.shape, -1, dtype=tensors[0].dtype)
    for _ in range(3):
        assert compiled(*tensors, out=out) is out
        check_same([out], [want])
    memory = torch.zeros(compiled.workspace_bytes + 8, dtype=torch.uint8)
    assert bits(array(compiled(*tensors, out=out, workspace=memory))) == bits(want)


# --- lifetimes ---


def test_nothing_is_kept() -> None:
    """Tensors are free as soon as the caller lets go: counts, storages, results."""
    x, y = torch.from_numpy(X.copy()), torch.empty(POOLED)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(50):
        _operators.max_pooling(x, 2, out=y)
        _operators.max_pooling(x, 2)
        with pytest.raises(TypeError):
            _operators.max_pooling(x, 2, out=x.double())
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before
    gone, result = weakref.ref(x), _operators.max_pooling(x, 2)
    del x
    gc.collect()
    assert gone() is None and torch.equal(result, torch.from_numpy(cudml.max_pooling(X, 2)))


@pytest.mark.parametrize("label", LABELS)
def test_zero_sized_batches(label: str) -> None:
    if label.startswith("average_pooling_grad"):
        x = torch.zeros(0, 3, 4, 6)
        assert _operators.average_pooling_grad(x, (0, 3, 5, 7), 2).shape == (0, 3, 5, 7)
        return
    x = torch.zeros(0, 3, 5, 7)
    y = {
        "max_pooling_grad": lambda: _operators.max_pooling_grad(x, x[:, :, 1:, 1:], 2),
        "lp_pooling_grad": lambda: _operators.lp_pooling_grad(x, *[x[:, :, 1:, 1:]] * 2, 2),
        "max_unpooling": lambda: _operators.max_unpooling(x, x.long(), (0, 3, 6, 9)),
        "padding": lambda: _operators.padding(x, 0, (0, 0, 1, 1)),
        "padding_grad": lambda: _operators.padding_grad(x, (0, 3, 4, 7), 0, (0, 0, 1, 0)),
        "mean_variance_normalization": lambda: _operators.mean_variance_normalization(x, axes=3),
    }.get(label, lambda: getattr(_operators, label.partition("+")[0])(x, 2))()
    assert type(y) is torch.Tensor and y.shape[0] == 0 and packed_strides(y.shape)[-1] == 1
