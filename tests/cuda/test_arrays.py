"""Arrays on a device, simulated where need be: both protocols, streams, compiled operators."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _backend, _operators
from cudml.directml import BufferTensorDesc, MaxPoolingGradOperatorDesc
from exporters import CUDA, CUDA_MANAGED, Exporter, Interface
from harness import data, refused

X = data((2, 3, 5, 7), "float32")
POOLED = (2, 3, 4, 6)


def pool(x: Any, out: Any = None, **kwargs: Any) -> Any:
    return _operators.max_pooling(x, 2, out=out, **kwargs)


def into(x: Any) -> np.ndarray:
    """The pooling of x, written to an array of NumPy's."""
    y = np.empty(POOLED, X.dtype)
    assert pool(x, y) is y
    return y


# --- device arrays where there is no device ---


def no_device() -> bool:
    return not cudml._core.build_info()["cuda"]["devices"]


@pytest.mark.skipif(not no_device(), reason="this machine has a GPU")
@pytest.mark.bug("RUN-14")
@pytest.mark.parametrize("kind", [CUDA, CUDA_MANAGED])
def test_device_arrays_without_a_device(kind: int) -> None:
    x = Exporter(X, device=(kind, 1))
    for _ in range(2):
        with refused(cudml.CudaError, "max_pooling: InputTensor is on cuda:1; this ") as error:
            into(x)
    assert x.asked == []  # nothing was exported for nobody
    assert error.value.call in (None, "cudaGetDeviceCount")
    with refused(cudml.CudaError, "max_pooling: InputTensor (x) is on a GPU; this "):
        into(Interface(X))
    assert np.array_equal(into(Exporter(X)), cudml.max_pooling(X, 2))


def test_arrays_on_two_devices() -> None:
    with refused(ValueError, "InputTensor (x) on cpu", "OutputTensor (out) is on cuda:1"):
        pool(X, Exporter(X, device=(CUDA, 1)))


def test_cuda_error() -> None:
    error = cudml.CudaError("f: g failed", 1, "cudaErrorInvalidValue", "g")
    again = pickle.loads(pickle.dumps(error))
    for e in (error, again):
        assert (str(e), e.code, e.name, e.call) == ("f: g failed", 1, "cudaErrorInvalidValue", "g")
    assert cudml.CudaError("x").code is None


# --- device arrays on a simulated device ---


@pytest.fixture
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with the simulated device runs the operators."""
    if "simt" not in (request.config.getoption("--backend") or "simt"):
        pytest.skip("--backend leaves simt out")
    import backends

    monkeypatch.setattr(_backend, "core", backends.simt())
    return __import__("device_array")


def test_both_protocols(device: Any) -> None:
    wanted = cudml._core.max_pooling(X, 2, 1, 0, 0, 1, True, "uint32", None, None, None, None)
    for kind in (device.InterfaceArray, device.CapsuleArray):
        y, indices = pool(kind.copy_of(X), return_indices=True)
        assert type(y) is type(indices) is kind
        assert np.array_equal(y.home(), wanted[0])
        assert np.array_equal(indices.home(), wanted[1])
        out = kind.empty(POOLED, X.dtype)
        assert pool(kind.copy_of(X), out) is out
        assert np.array_equal(out.home(), wanted[0])


@pytest.mark.decision("D-TEN-8")
def test_memory_order_on_the_device(device: Any) -> None:
    last = np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    y = pool(device.InterfaceArray.copy_of(last))
    assert (
        y.strides
        == cudml._core.max_pooling(
            last, 2, 1, 0, 0, 1, False, "uint32", None, None, None, None
        ).strides
    )


@pytest.mark.bug("RUN-13")
def test_mixed_devices(device: Any) -> None:
    x = device.InterfaceArray.copy_of(X)
    with refused(ValueError, "OutputTensor (out) is on cpu and InputTensor (x) on cuda:0"):
        pool(x, np.empty(POOLED, X.dtype))
    with refused(ValueError, "ScaleTensor (scale) is on cuda:0 and InputTensor (x) on cpu"):
        _operators.mean_variance_normalization(X, x, axes=0)
    with refused(cudml.CudaError, "so there is no cuda:7") as error:
        pool(Exporter(X, device=(CUDA, 7)))
    assert error.value.name == "cudaErrorInvalidDevice"


def test_interfaces_that_are_refused(device: Any) -> None:
    x = device.InterfaceArray.copy_of(X)
    good = x.__cuda_array_interface__

    def given(**changes: Any) -> Interface:
        return Interface(X, **{**good, **changes})

    assert np.array_equal(pool(given(), device.InterfaceArray.empty(POOLED, "f4")).home(),
                          pool(x).home())  # fmt: skip
    a = X.strides
    for kind, fragment, changes in [
        (TypeError, "mask", {"mask": x}),
        (TypeError, ">f4", {"typestr": ">f4"}),
        (TypeError, "|b1", {"typestr": "|b1"}),
        (BufferError, "negative stride", {"strides": (a[0], a[1], -28, 4)}),
        (BufferError, "no multiple", {"strides": (a[0], a[1], 29, 4)}),
        (BufferError, "3 strides and 4 sizes", {"strides": (a[0], a[1], 28)}),
        (BufferError, "version 1", {"version": 1}),
        (BufferError, 'without "shape"', {"shape": None}),
        (BufferError, "stream is 0", {"stream": 0}),
        (BufferError, "shape is no tuple", {"shape": [2, 3, 5, 7]}),
        (BufferError, "no memory", {"data": (0, False)}),
        (BufferError, "data is", {"data": 12}),
        (BufferError, "no multiple", {"data": (good["data"][0] + 2, False)}),
    ]:
        with refused(kind, "max_pooling: InputTensor", fragment):
            pool(given(**changes))
    with refused(ValueError, "max_pooling: OutputTensor (out) is read-only"):
        out = device.InterfaceArray.empty(POOLED, "f4")
        entries = {**out.__cuda_array_interface__, "data": (out.address, True)}
        pool(x, Interface(X, **entries))
    for stream in (1, 2):
        y = device.InterfaceArray.empty(POOLED, "f4")
        pool(given(stream=stream), y)
        assert np.array_equal(y.home(), pool(x).home())


class Stream:
    """An object with the protocol, as a method or as a property's value."""

    def __init__(self, pair: Any) -> None:
        self.__cuda_stream__ = pair


def test_streams(device: Any) -> None:
    """0 and 1 are the legacy default stream, which DLPack knows as 1."""
    x = device.InterfaceArray.copy_of(X)
    wanted = pool(x).home()
    for stream in (None, 0, 1, 2, np.int64(2), Stream((0, 1)), Stream(lambda: (0, 2))):
        assert np.array_equal(pool(x, stream=stream).home(), wanted)
    for stream in (True, 1.0, "1", object(), Stream(3), Stream((1, 2)), Stream((0, 1.5))):
        with refused(TypeError, "max_pooling: stream "):
            pool(x, stream=stream)
    for stream in (-1, 2**64):
        with refused(ValueError, f"max_pooling: stream is {stream}; "):
            pool(x, stream=stream)


def test_producers_are_told_the_stream(device: Any) -> None:
    lender = device.InterfaceArray.copy_of(X)

    class Recording(Exporter):
        pass

    x = Recording(X, device=(CUDA, 0), data=lender.address)
    out = device.InterfaceArray.empty(POOLED, "f4")
    for stream, told in [(None, 1), (0, 1), (1, 1), (2, 2)]:
        x.asked.clear()
        pool(x, out, stream=stream)
        assert x.asked == [{"stream": told, "max_version": (1, 3)}]


def gradient_desc() -> MaxPoolingGradOperatorDesc:
    return MaxPoolingGradOperatorDesc(
        InputTensor=BufferTensorDesc("FLOAT32", [1, 2, 6, 5]),
        InputGradientTensor=BufferTensorDesc("FLOAT32", [1, 2, 4, 3]),
        OutputGradientTensor=BufferTensorDesc("FLOAT32", [1, 2, 6, 5]),
        Strides=[1, 1], WindowSize=[3, 3], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_compiled_for_the_device(device: Any, name: str) -> None:
    """With and without out, with its own workspace and a caller's, on several streams."""
    x, grad = data((1, 2, 6, 5), "float32"), data((1, 2, 4, 3), "float32", 1)
    wanted = cudml._core.max_pooling_grad(x, grad, 3, 1, 0, 0, 1, None, None, None)
    run = cudml.Operator(gradient_desc()).compile(name)
    there = [device.InterfaceArray.copy_of(a) for a in (x, grad)]
    assert np.allclose(run(*there).home(), wanted)
    out = device.InterfaceArray.empty(x.shape, "f4")
    workspace = device.InterfaceArray.empty((max(run.workspace_bytes, 1),), "u1")
    for stream in (None, 2, None, 1):
        for memory in (None, workspace):
            out.memory.bytes()[:] = 0xFF
            assert run(*there, out=out, workspace=memory, stream=stream) is out
            assert np.allclose(out.home(), wanted)
    assert run.explain().device == "cuda:0" and "cuda:0" in repr(run)
    if run.workspace_bytes > 1:
        with refused(ValueError, "MAX_POOLING_GRAD: workspace has 1 bytes"):
            run(*there, workspace=device.InterfaceArray.empty((1,), "u1"))


def test_compiled_for_another_place(device: Any) -> None:
    x, grad = data((1, 2, 6, 5), "float32"), data((1, 2, 4, 3), "float32", 1)
    there = [device.InterfaceArray.copy_of(a) for a in (x, grad)]
    on_device = cudml.Operator(gradient_desc()).compile("cuda")
    with refused(
        ValueError, "InputTensor (inputs[0]) is on cpu; the operator is compiled for cuda"
    ):
        on_device(x, grad)
    with refused(ValueError, "workspace (workspace) is on cpu"):
        on_device(*there, workspace=np.zeros(1 << 16, "u1"))
    with refused(
        ValueError, "InputTensor (inputs[0]) is on cuda:0; the operator is compiled for cpu"
    ):
        cudml.Operator(gradient_desc()).compile("cpu")(*there)
    with refused(cudml.CudaError, 'MAX_POOLING_GRAD: device is "cuda:9"; this machine has'):
        cudml.Operator(gradient_desc()).compile("cuda:9")


def test_explained_where_the_arrays_are(device: Any) -> None:
    e = cudml.explain("max_pooling", device.InterfaceArray.copy_of(X), 2)
    assert e.device == "cuda:0" and e.grid
    assert cudml.explain("max_pooling", X, 2).device == "cpu"


def test_forced_kernels(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = device.InterfaceArray.copy_of(X)
    monkeypatch.setenv("CUDML_KERNEL", "pool_generic")
    assert np.array_equal(pool(x).home(), cudml.max_pooling(X, 2))
    monkeypatch.setenv("CUDML_KERNEL", "mvn_generic")  # another family's: ignored
    pool(x)
    monkeypatch.setenv("CUDML_KERNEL", "nonsense")
    with refused(ValueError, 'max_pooling: CUDML_KERNEL is "nonsense"', "pool_generic"):
        pool(x)
