"""Compiled operators: checks at every call, results, outputs, workspaces, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import backends
import cudml
from cudml import directml
from directml_support import NAMES, SINCE, TRAINING, desc_of, operator, tensor
from harness import data, refused

SIZES, POOLED = (1, 2, 4, 5), (1, 2, 3, 4)


def compiled(name: str, level: str = "6_4", **changes: Any) -> Any:
    return operator(name, level, **changes).compile("cpu")


def view_at(memory: np.ndarray, sizes: Any, strides: Any) -> np.ndarray:
    """A view of memory at these strides, counted in elements."""
    steps = tuple(s * memory.itemsize for s in strides)
    return np.lib.stride_tricks.as_strided(memory, sizes, steps)


def strided(x: np.ndarray, strides: Any) -> np.ndarray:
    """The numbers of x at these strides."""
    view = view_at(np.zeros(1000, x.dtype), x.shape, strides)
    view[...] = x
    return view


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def canonical(name: str, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """What the descriptors of directml_support ask for, by the canonical operators."""
    if name.startswith("MaxPoolingGrad"):
        return cudml.max_pooling_grad(x, grad, (2, 2))
    if name == "AveragePoolingGrad":
        return cudml.average_pooling_grad(grad, SIZES, (2, 2))
    if name.startswith("MaxPooling"):
        y = cudml.max_pooling(x, (2, 2))
        assert isinstance(y, np.ndarray)
        return y
    if name.startswith("Average"):
        return cudml.average_pooling(x, (2, 2))
    if name.startswith("Lp"):
        return cudml.lp_pooling(x, (2, 2))
    if name.startswith("Padding"):
        return cudml.padding(x, (0, 0, 0, 1), (0, 0, 0, 2), value=1)
    axes = (2, 3) if name == "MeanVarianceNormalization" else 3
    return cudml.mean_variance_normalization(x, axes=axes, epsilon=float(np.float32(1e-5)))


@pytest.mark.decision("D-VER-4")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", [name for name in SINCE if name not in TRAINING])
def test_results_are_the_canonical_ones(name: str, dtype: str) -> None:
    x, grad = data(SIZES, dtype, 1), data(POOLED, dtype, 2)
    inputs = {"MaxPoolingGrad": [x, grad], "AveragePoolingGrad": [grad]}.get(name, [x])
    run = compiled(name, dtype=dtype.upper())
    want = canonical(name, x, grad)
    assert same_bits(run(*inputs), want)
    out = np.full_like(want, 7)
    assert run(*inputs, out=out) is out
    assert same_bits(out, want)
    assert repr(run).startswith(f"<cudml.CompiledOperator {NAMES[name]} on cpu: ")


def test_indices() -> None:
    x = data(SIZES, "float32", 3)
    values, indices = cudml.max_pooling(x, (2, 2), return_indices=True, index_dtype="uint64")
    run = compiled("MaxPooling2", OutputIndicesTensor=tensor(POOLED, "UINT64"))
    got = run(x)
    assert isinstance(got, tuple) and same_bits(got[0], values) and same_bits(got[1], indices)
    for kind in (tuple, list):
        out = kind([np.empty_like(values), np.empty_like(indices)])
        assert run(x, out=out) is out
        assert same_bits(out[0], values) and same_bits(out[1], indices)
    for wrong in (out[0], (out[0],), (*out, out[0]), {0: out[0], 1: out[1]}):
        with refused(TypeError, "MAX_POOLING2: out is no pair"):
            run(x, out=wrong)
    with refused(TypeError, "OutputIndicesTensor.DataType (out[1]) is uint32; it must be uint64"):
        run(x, out=(out[0], indices.astype(np.uint32)))
    with refused(ValueError, "OutputIndicesTensor", "OutputTensor"):
        shared = np.empty(48, np.uint64)
        run(x, out=(shared.view(np.float32)[:24].reshape(POOLED), shared[:24].reshape(POOLED)))


@pytest.mark.decision("D-VER-7")
def test_outputs_have_the_descriptor_s_strides() -> None:
    x = data(SIZES, "float32", 4)
    want = cudml.max_pooling(x, (2, 2))
    for strides in ([24, 1, 8, 2], [100, 40, 10, 2], [7, 12, 4, 1], [3, 12, 1, 3]):
        run = compiled("MaxPooling", OutputTensor=tensor(POOLED, Strides=strides))
        y = run(x)
        assert [s // 4 for s in y.strides] == strides
        assert y.flags.writeable and np.array_equal(y, want)
        memory, wanted = np.full(200, 99, np.float32), np.full(200, 99, np.float32)
        out = view_at(memory, POOLED, strides)
        view_at(wanted, POOLED, strides)[...] = want
        assert run(x, out=out) is out and same_bits(memory, wanted)
    y = compiled("MaxPooling")(x)
    assert y.flags.c_contiguous and y.flags.owndata


@pytest.mark.decision("D-VER-7")
def test_arrays_must_be_as_described() -> None:
    x, y = data(SIZES, "float32", 5), np.full(POOLED, 7, np.float32)
    run = compiled("MaxPooling")
    for wrong in (data(SIZES, "float64"), data(SIZES, "int32"), data(SIZES, "float16")):
        with refused(TypeError, "MAX_POOLING: InputTensor.DataType of the array is", "float32"):
            run(wrong)
    for wrong in ([[1.0]], None, 3.0, "x"):
        with refused(TypeError, "MAX_POOLING: InputTensor (inputs[0]) is"):
            run(wrong)
    with refused(ValueError, "InputTensor.Sizes[3] of the array is 6; the descriptor says 5"):
        run(data((1, 2, 4, 6), "float32"))
    with refused(ValueError, "InputTensor.Sizes of the array are {2,4,5}"):
        run(x[0])
    for wrong in (strided(x, [40, 20, 1, 4]), strided(x, [80, 40, 10, 2]), x[:, ::-1]):
        with refused(ValueError, "MAX_POOLING: InputTensor.Strides[", "the descriptor says"):
            run(wrong)
    read_only = y.copy()
    read_only.setflags(write=False)
    with refused(ValueError, "MAX_POOLING: OutputTensor (out) is read-only"):
        run(x, out=read_only)
    with refused(TypeError, "MAX_POOLING: OutputTensor.DataType (out) is float64; it must be"):
        run(x, out=y.astype(np.float64))
    with refused(ValueError, "MAX_POOLING: OutputTensor.Sizes[3] (out) is 5; it must be 4"):
        run(x, out=np.empty((1, 2, 3, 5), np.float32))
    with refused(ValueError, "OutputTensor.Strides[1] of the array is 24; the descriptor says 12"):
        run(x, out=np.zeros((1, 2, 3, 8), np.float32)[..., :4])
    assert (y == 7).all()


def test_strides_of_single_elements_do_not_count() -> None:
    x = data(SIZES, "float32", 6)
    odd = np.lib.stride_tricks.as_strided(x, x.shape, (-12, *x.strides[1:]))
    assert same_bits(compiled("MaxPooling")(odd), compiled("MaxPooling")(x))


def test_broadcast_inputs() -> None:
    row = data((5,), "float32", 7)
    x = np.broadcast_to(row, SIZES)
    run = compiled("MaxPooling", InputTensor=tensor(SIZES, Strides=[0, 0, 0, 1]))
    assert same_bits(run(x), compiled("MaxPooling")(np.ascontiguousarray(x)))
    with refused(ValueError, "InputTensor.Strides[1] of the array is 20; the descriptor says 0"):
        run(np.ascontiguousarray(x))
    z, scale = data((2, 3, 4, 5), "float32", 8), data((3,), "float32", 9)
    wide = np.broadcast_to(scale[:, None, None], z.shape)
    fields = {"InputTensor": tensor(z.shape), "OutputTensor": tensor(z.shape)}
    run = compiled(
        "MeanVarianceNormalization",
        **fields,
        BiasTensor=tensor(z.shape, Strides=[0, 1, 0, 0]),
    )
    want = cudml.mean_variance_normalization(
        z, bias=scale.reshape(1, 3, 1, 1), axes=(2, 3), epsilon=float(np.float32(1e-5))
    )
    assert same_bits(run(z, wide), want)


@pytest.mark.decision("D-TEN-7")
def test_inputs_at_odd_addresses() -> None:
    for strides in ([40, 20, 5, 1], [80, 40, 10, 2], [0, 0, 0, 1]):
        x = data(SIZES, "float32", 10)
        memory = np.zeros(4 * 100 + 1, np.uint8)
        odd = np.ndarray(SIZES, np.float32, memory.data, 1, [4 * s for s in strides])
        odd[...] = x
        run = compiled("MaxPooling", InputTensor=tensor(SIZES, Strides=strides))
        assert same_bits(run(odd), cudml.max_pooling(odd.copy(), (2, 2)))
        with refused(ValueError, "MAX_POOLING: OutputTensor"):
            out = np.ndarray(POOLED, np.float32, memory.data, 1)
            compiled("MaxPooling")(x, out=out)


@pytest.mark.decision("D-TEN-2")
def test_overlap() -> None:
    memory = np.zeros(200, np.float32)
    x, y = memory[:40].reshape(SIZES), memory[30:54].reshape(POOLED)
    run = compiled("MaxPooling")
    with refused(ValueError, "MAX_POOLING: OutputTensor", "InputTensor"):
        run(x, out=y)
    run(x, out=memory[40:64].reshape(POOLED))
    name = "MeanVarianceNormalization2"
    z = data((2, 3, 4, 5), "float32", 11)
    fields = {"InputTensor": tensor(z.shape), "OutputTensor": tensor(z.shape)}
    scale = tensor([2, 3, 4, 5])
    run = compiled(name, **fields, ScaleTensor=scale)
    want, one = run(z, np.ones_like(z)), z.copy()
    assert run(one, np.ones_like(z), out=one) is one and same_bits(one, want)
    with refused(ValueError, f"{NAMES[name]}: OutputTensor", "ScaleTensor"):
        run(z.copy(), one, out=one)
    shifted = np.zeros(121, np.float32)
    with refused(ValueError, f"{NAMES[name]}: OutputTensor", "InputTensor"):
        run(shifted[:120].reshape(z.shape), z, out=shifted[1:].reshape(z.shape))
    p = compiled("Padding", OutputTensor=tensor(SIZES), StartPadding=[0] * 4, EndPadding=[0] * 4)
    with refused(ValueError, "PADDING: OutputTensor", "InputTensor"):
        p(x, out=x)


def test_number_and_names_of_arguments() -> None:
    x, grad = data(SIZES, "float32"), data(POOLED, "float32")
    run = compiled("MaxPoolingGrad")
    for inputs in ([], [x], [x, grad, grad]):
        with refused(
            TypeError,
            f"MAX_POOLING_GRAD: {len(inputs)} inputs are given; the descriptor has 2 "
            "(InputTensor, InputGradientTensor)",
        ):
            run(*inputs)
    with refused(TypeError, "MAX_POOLING_GRAD: unexpected keyword argument 'output'; the keywords"):
        run(x, grad, output=x)
    for stream in (0, 1, object()):
        with refused(ValueError, "MAX_POOLING_GRAD: stream is"):
            run(x, grad, stream=stream)
    with pytest.raises(TypeError):
        cudml.CompiledOperator()  # type: ignore[call-arg]


def test_workspace() -> None:
    x, grad = data(SIZES, "float32", 12), data(POOLED, "float32", 13)
    run = compiled("MaxPoolingGrad")
    want, need = run(x, grad), run.workspace_bytes
    assert isinstance(need, int) and need > 0
    for workspace in (np.empty(need, np.uint8), np.empty(need // 4 + 1), bytearray(need + 1)):
        assert same_bits(run(x, grad, workspace=workspace), want)
    with refused(ValueError, f"workspace has {need - 1} bytes; it must have at least {need}"):
        run(x, grad, workspace=bytearray(need - 1))
    read_only = np.empty(need, np.uint8)
    read_only.setflags(write=False)
    for wrong in (read_only, bytes(need), np.empty((need, 2), np.uint8)[:, 0]):
        with refused(ValueError, "workspace is read-only or not contiguous"):
            run(x, grad, workspace=wrong)
    with refused(ValueError, "workspace starts at an odd address; it must be a multiple of 8"):
        run(x, grad, workspace=np.empty(need + 1, np.uint8)[1:])
    for wrong in (3, "x", [0] * need):
        with refused(TypeError, "workspace is no array"):
            run(x, grad, workspace=wrong)
    out = np.empty(SIZES, np.float32)
    with refused(ValueError, "OutputGradientTensor", "workspace"):
        run(x, grad, out=out, workspace=out)
    with refused(ValueError, "workspace", "InputTensor"):
        run(x, grad, workspace=x)
    assert compiled("MaxPooling").workspace_bytes == 0


def test_many_threads_share_one_operator() -> None:
    sizes, pooled = (2, 4, 40, 40), (2, 4, 39, 39)
    run = compiled(
        "MaxPoolingGrad",
        InputTensor=tensor(sizes),
        InputGradientTensor=tensor(pooled),
        OutputGradientTensor=tensor(sizes),
    )
    cases = [(data(sizes, "float32", i), data(pooled, "float32", 50 + i)) for i in range(8)]
    wants = [cudml.max_pooling_grad(x, grad, (2, 2)) for x, grad in cases]
    wrong: list[int] = []

    def work(i: int) -> None:
        own = bytearray(run.workspace_bytes) if i % 2 else None
        for _ in range(20):
            if not same_bits(run(*cases[i], workspace=own), wants[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_devices() -> None:
    built = operator("MaxPooling")
    assert isinstance(built.compile(), cudml.CompiledOperator)
    for device in ("gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "", "cuda:99999999"):
        with refused(ValueError, f'MAX_POOLING: device is "{device}"; it must be "cpu", "cuda"'):
            built.compile(device)
    for device in ("cpu\0", "cpu\0:0", "cp\nu"):
        with refused(ValueError, f'device is {device!r}; it must be "cpu", "cuda"'):
            built.compile(device)
    for device in (0, None, b"cpu"):
        with refused(TypeError, "MAX_POOLING: device is", "it must be a string"):
            built.compile(device)  # type: ignore[arg-type]
    for device in ("cuda", "cuda:1") if backends.why_no_cuda() else ():
        with refused(cudml.CudaError, f'MAX_POOLING: device is "{device}"; this') as error:
            built.compile(device)
        said = (error.value.code, error.value.name, error.value.call)
        assert all(what is None or what for what in said)  # what is not known is None


def test_fused_activations_run() -> None:
    x = data(SIZES, "float32", 14)
    for kind in ("Relu", "Gelu", "HardSigmoid", "ScaledElu", "Softplus", "Shrink"):
        fused = getattr(directml, f"Activation{kind}OperatorDesc")()
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind).lstrip("_")
        want = cudml.mean_variance_normalization(
            x, axes=3, epsilon=float(np.float32(1e-5)), activation=snake
        )
        run = compiled("MeanVarianceNormalization2", FusedActivation=fused)
        assert same_bits(run(x), want)


@pytest.mark.decision("D-AVG-9")
def test_average_gradient_has_no_dilations() -> None:
    assert "Dilations" not in desc_of("AveragePoolingGrad").__dataclass_fields__
    assert "dilations {1,1}" in operator("AveragePoolingGrad").describe()
