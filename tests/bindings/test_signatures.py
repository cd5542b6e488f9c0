"""The public functions: specified signatures, annotations, docstrings; what the package shows."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from pathlib import Path
from typing import Any

import pytest

import cudml
from cudml import directml

SIGNATURES = {
    "max_pooling": (
        "(x, window_size, strides=1, start_padding=0, end_padding=0, dilations=1, *, "
        'return_indices=False, index_dtype="uint32", output_sizes=None, axes=None, out=None, '
        "stream=None)"
    ),
    "max_pooling_grad": (
        "(x, grad, window_size, strides=1, start_padding=0, end_padding=0, dilations=1, *, "
        "axes=None, out=None, stream=None)"
    ),
    "average_pooling": (
        "(x, window_size, strides=1, start_padding=0, end_padding=0, dilations=1, *, "
        "include_padding=False, output_sizes=None, axes=None, out=None, stream=None)"
    ),
    "average_pooling_grad": (
        "(grad, input_sizes, window_size, strides=1, start_padding=0, end_padding=0, "
        "dilations=1, *, include_padding=False, axes=None, out=None, stream=None)"
    ),
    "lp_pooling": (
        "(x, window_size, strides=1, start_padding=0, end_padding=0, dilations=1, *, p=2, "
        "output_sizes=None, axes=None, out=None, stream=None)"
    ),
    "lp_pooling_grad": (
        "(x, y, grad, window_size, strides=1, start_padding=0, end_padding=0, dilations=1, *, "
        "p=2, out=None, stream=None)"
    ),
    "max_unpooling": "(x, indices, output_sizes, *, out=None, stream=None)",
    "padding": (
        '(x, start_padding, end_padding, *, mode="constant", value=0, out=None, stream=None)'
    ),
    "padding_grad": (
        '(grad, input_sizes, start_padding, end_padding, *, mode="constant", out=None, stream=None)'
    ),
    "mean_variance_normalization": (
        "(x, scale=None, bias=None, *, axes, use_mean=True, use_variance=True, epsilon=1e-5, "
        "activation=None, return_statistics=False, out=None, stream=None)"
    ),
    "mean_variance_normalization_grad": (
        "(x, grad, scale=None, bias=None, *, axes, use_mean=True, use_variance=True, "
        "epsilon=1e-5, activation=None, mean=None, variance=None, "
        'outputs=("x", "scale", "bias"), out=None, stream=None)'
    ),
    "normalize_grad_sums": (
        "(x, grad, mean, variance, scale=None, bias=None, *, axes, epsilon=1e-5, "
        'activation=None, dtype="float64", out=None, stream=None)'
    ),
    "normalize_grad": (
        "(x, grad, mean, variance, scale=None, bias=None, *, count=None, sums=None, "
        'epsilon=1e-5, activation=None, outputs=("x", "scale", "bias"), out=None, stream=None)'
    ),
    "normalization_statistics": (
        '(x, *, axes, use_mean=True, dtype="float64", out=None, stream=None)'
    ),
    "merge_statistics": "(a, b, *, out=None, stream=None)",
    "normalize": (
        "(x, mean, variance, scale=None, bias=None, *, epsilon=1e-5, activation=None, out=None, "
        "stream=None)"
    ),
}
EVERY = [*SIGNATURES, "get_num_threads", "set_num_threads"]
PACKAGE = Path(cudml.__file__).parent


def plain(f: Any) -> inspect.Signature:
    """The signature without annotations."""
    signature = inspect.signature(f)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return signature.replace(parameters=bare, return_annotation=signature.empty)


@pytest.mark.decision("D-VER-2", "D-VER-3")
@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def expected{SIGNATURES[name]}: ...", scope)
    assert str(plain(getattr(cudml, name))) == str(inspect.signature(scope["expected"]))


@pytest.mark.parametrize("name", EVERY)
def test_annotations(name: str) -> None:
    function = getattr(cudml, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not signature.empty
    bare = [n for n, p in signature.parameters.items() if p.annotation is p.empty]
    assert not bare
    hints = typing.get_type_hints(function)
    assert {*signature.parameters, "return"} == set(hints)


@pytest.mark.parametrize("name", EVERY)
def test_docstring(name: str) -> None:
    text = inspect.getdoc(getattr(cudml, name)) or ""
    for heading in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"{heading}\n{'-' * len(heading)}" in text, heading
    assert ">>> " in text
    missing = [p for p in inspect.signature(getattr(cudml, name)).parameters if p not in text]
    assert not missing


@pytest.mark.parametrize("name", EVERY)
def test_where_functions_say_they_live(name: str) -> None:
    function = getattr(cudml, name)
    assert inspect.isfunction(function) and function.__name__ == name
    assert function.__module__.split(".")[0] == "cudml"


def test_signatures_of_what_is_compiled() -> None:
    """As help and editors read them, of the type and of an object."""
    kind = cudml.CompiledOperator
    wanted = "(self, /, *inputs, out=None, workspace=None, stream=None)"
    assert str(inspect.signature(kind.__call__)) == wanted
    assert str(inspect.signature(kind.explain)) == "(self, /)"
    side = directml.BufferTensorDesc("FLOAT32", [3])
    desc = directml.PaddingOperatorDesc(
        InputTensor=side, OutputTensor=side, PaddingMode="EDGE", PaddingValue=0,
        StartPadding=[0], EndPadding=[0],
    )  # fmt: skip
    assert str(inspect.signature(cudml.Operator(desc).compile())) == wanted.replace("self, /, ", "")


def test_all() -> None:
    assert len(set(cudml.__all__)) == len(cudml.__all__)
    assert {*EVERY, "__version__", "Operator", "directml"} <= set(cudml.__all__)
    assert all(hasattr(cudml, name) for name in cudml.__all__)
    scope: dict[str, Any] = {}
    exec("from cudml import *", scope)
    assert set(cudml.__all__) <= set(scope)


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
    stub = (PACKAGE / "_core.pyi").read_text()
    public = [n for n in dir(cudml._core) if not n.startswith("_")]
    assert not [n for n in public if n not in stub]


def test_the_reference_takes_the_same_arguments() -> None:
    """But `out` and `stream`, which say where and not what."""
    from cudml import reference

    for name in SIGNATURES:
        ours = plain(getattr(cudml, name))
        kept = [p for n, p in ours.parameters.items() if n not in ("out", "stream")]
        theirs = plain(getattr(reference, name))
        assert str(theirs) == str(ours.replace(parameters=kept)), name


def test_the_reference_states_every_operator() -> None:
    from cudml import reference

    assert {*reference.__all__} == {"ACTIVATIONS", *SIGNATURES}


def test_cuda_error_is_a_runtime_error() -> None:
    assert issubclass(cudml.CudaError, RuntimeError)
    assert cudml.CudaError.__module__.split(".")[0] == "cudml"


def test_a_copied_error_says_the_same() -> None:
    """As processes hand it to each other."""
    error = cudml.CudaError("padding: failed", 2, "cudaErrorMemoryAllocation", "cudaMalloc")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cudml.CudaError and str(again) == "padding: failed"
        assert (again.code, again.name) == (2, "cudaErrorMemoryAllocation")
        assert again.call == "cudaMalloc"
