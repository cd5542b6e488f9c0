"""`explain`, `kernels` and the command line's `explain`: what would run and why, without a GPU."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import types
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, child, make
from cudml.__main__ import main
from cudml.directml import (
    AveragePoolingGradOperatorDesc,
    BufferTensorDesc,
    MaxPoolingOperatorDesc,
    PaddingOperatorDesc,
)
from harness import refused

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
FAMILIES = {
    "pool": ("max_pooling", "average_pooling", "lp_pooling"),
    "max_pool_grad": ("max_pooling_grad",),
    "average_pool_grad": ("average_pooling_grad",),
    "pad": ("padding",),
    "pad_grad": ("padding_grad",),
    "mvn": ("mean_variance_normalization",),
    "statistics": ("normalization_statistics",),
    "merge": ("merge_statistics",),
    "normalize": ("normalize",),
    "mvn_grad": ("mean_variance_normalization_grad", "normalize_grad_sums", "normalize_grad"),
}
FAMILY = {op: family for family, ops in FAMILIES.items() for op in ops}


def explain(label: str, device: str | None, **changes: Any) -> cudml.Explanation:
    p = make(label)
    arrays = [changes.pop(name, a) for name, a in p.arrays.items()]
    return cudml.explain(p.op, *arrays, *p.args, device=device, **{**p.kwargs, **changes})


def names(family: str) -> list[str]:
    return [kernel.name for kernel in cudml.kernels(family)]


# --- kernels ---


@pytest.mark.parametrize("family", FAMILIES)
def test_kernel_lists(family: str) -> None:
    """Names say their family; only the last kernel takes everything."""
    listed = cudml.kernels(family)
    assert len({k.name for k in listed}) == len(listed)
    assert not listed[-1].predicates and all(k.predicates for k in listed[:-1])
    for kernel in listed:
        assert kernel.name.startswith(family)
        assert kernel.name in str(kernel) and all(p in str(kernel) for p in kernel.predicates)
    assert all(cudml.kernels(op) == listed for op in FAMILIES[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_gains_of_paths(family: str) -> None:
    """Nothing where none is measured; else a number above 0, and a problem."""
    for path in cudml.kernels(family, device="cpu"):
        if not path.gain:
            assert "gains" not in str(path)
            continue
        times, place = path.gain.split(" in ", 1)
        assert float(times) > 0 and place and path.gain in str(path)
    assert not any(kernel.gain for kernel in cudml.kernels(family))


def test_names_are_unique_over_all_families() -> None:
    every = list(itertools.chain.from_iterable(names(family) for family in FAMILIES))
    assert len(set(every)) == len(every)


def test_families_that_are_not() -> None:
    with refused(ValueError, "kernels: family is 'pooling'", "max_pool_grad"):
        cudml.kernels("pooling")
    with refused(TypeError, "kernels: family is 3 (int)"):
        cudml.kernels(3)  # type: ignore[arg-type]


# --- explanations ---


def paths(op: str, label: str = "") -> list[str]:
    """Names of the paths of the CPU that may take an operator's calls."""
    family = "winners" if "indices" in label else op
    return [path.name for path in cudml.kernels(family, device="cpu")]


@pytest.mark.parametrize("label", LABELS)
def test_explained_for_the_cpu(label: str) -> None:
    for device in (None, "cpu"):
        e = explain(label, device)
        assert (e.operator, e.device) == (make(label).op, "cpu")
        assert e.kernel in paths(e.operator, label)
        assert cudml._core.build_info()["instruction_set"] in e.reason
        assert e.grid is e.block is e.shared_bytes is None
        assert e.bytes > 0 and str(e.bytes) in str(e) and e.kernel in str(e)
        why = e.reason.partition("; not ")[0].removeprefix(f"{e.kernel}: ")
        assert f"\n  because    {why}\n" in str(e)


@pytest.mark.parametrize("device", ARCHITECTURES)
@pytest.mark.parametrize("label", LABELS)
def test_explained_for_an_architecture(label: str, device: str) -> None:
    """The kernel is of the family's list; each earlier one is named with what it lacks."""
    e = explain(label, device)
    family = cudml.kernels(e.operator)
    place = [k.name for k in family].index(e.kernel)
    chosen = family[place]
    why, *others = e.reason.split("; not ")
    assert why == f"{e.kernel}: " + (", ".join(chosen.predicates) or "it takes every plan")
    assert len(others) == place
    for kernel, text in zip(family, others, strict=False):
        name, needs = text.split(", which needs that ")
        assert name == kernel.name and needs in kernel.predicates
    assert e.grid is not None and e.block is not None and e.shared_bytes is not None
    assert e.device == device and e.grid[0] >= 1 and e.grid[1:] == (1, 1)
    assert e.block[0] % 32 == 0 and 32 <= e.block[0] <= 1024 and e.block[1:] == (1, 1)
    assert 0 <= e.shared_bytes <= 227 << 10 and e.workspace_bytes >= 0
    shown = (f"because    {why.partition(': ')[2]}\n", *(f"not        {text}\n" for text in others))
    blocks = f"{e.grid[0]} block{'s' * (e.grid[0] > 1)} of"
    for fact in (e.kernel, device, str(e.bytes), blocks, *shown):
        assert fact in str(e)


def test_results_are_not_computed() -> None:
    """Ten terabytes, and an output that would be refused were it written."""
    giant = types.SimpleNamespace(shape=(2**20, 2**20), dtype="int8")
    assert cudml.explain("padding", giant, 1, 1, device="sm_90").bytes > 2**41
    out = np.zeros((1, 1, 3, 3), np.float32)
    out[...] = 5
    cudml.explain("max_pooling", np.zeros((1, 1, 4, 4), np.float32), 2, out=out)
    assert (out == 5).all()


def test_things_without_memory_overlap_nothing() -> None:
    """Arrays do, among those that an explained call has."""
    x, out = (types.SimpleNamespace(shape=(1, 1, n, n), dtype="float32") for n in (4, 3))
    assert cudml.explain("max_pooling", x, 2, out=out).bytes == 4 * (16 + 9)
    room = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(ValueError, match="max_pooling: OutputTensor shares memory with"):
        cudml.explain("max_pooling", room, 2, out=room[..., :3, :3])


class Torchlike:
    """Strides in elements, as torch has them."""

    shape, dtype = (2, 8, 4, 4), "torch.bfloat16"

    def stride(self) -> tuple[int, ...]:
        return (128, 1, 32, 8)


def test_things_with_a_shape_and_a_type() -> None:
    plain = types.SimpleNamespace(shape=[2, 8, 4, 4], dtype=np.dtype("float32"))
    want = cudml.explain("max_pooling", np.zeros((2, 8, 4, 4), "f4"), 2, device="sm_90")
    assert cudml.explain("max_pooling", plain, 2, device="sm_90") == want
    assert cudml.explain("max_pooling", plain, 2).device == "cpu"
    last = np.zeros((2, 4, 4, 8), "f4").transpose(0, 3, 1, 2)
    plain.strides = last.strides
    assert cudml.explain("max_pooling", plain, 2, device="sm_90") == cudml.explain(
        "max_pooling", last, 2, device="sm_90"
    )
    assert cudml.explain("max_pooling", Torchlike(), 2, device="sm_90").bytes == (256 + 144) * 2


def test_alignment_counts() -> None:
    """An address that vectors cannot start at rules their kernel out, and the reason says so."""
    raw = np.zeros(8 * 4096 * 4 + 512, "u1")
    start = -raw.ctypes.data % 256
    found = []
    for by in (0, 4):
        x = raw[start + by :][: 8 * 4096 * 4].view("f4").reshape(8, 4096)
        found.append(cudml.explain("padding", x, (0, 4), (0, 4), device="sm_90"))
    assert found[0].kernel != found[1].kernel
    assert f"not {found[0].kernel}" in found[1].reason and "addresses" in found[1].reason


def test_what_the_call_would_refuse() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    with refused(ValueError, "max_pooling: WindowSize[0] is 9"):
        cudml.explain("max_pooling", x, 9, device="sm_90")
    with refused(TypeError, "average_pooling: InputTensor.DataType is int32"):
        cudml.explain("average_pooling", x.astype("i4"), 2)
    with refused(TypeError, "mean_variance_normalization: ", "axes"):
        cudml.explain("mean_variance_normalization", x)
    with refused(TypeError, "padding: ", "unexpected"):
        cudml.explain("padding", x, 1, 1, colour=3)
    with refused(TypeError, "max_pooling: InputTensor (x) is list", "shape and dtype"):
        cudml.explain("max_pooling", [1], 2)
    nine = types.SimpleNamespace(shape=(*[1] * 8, 2**70), dtype="float32")
    with refused(ValueError, "padding: InputTensor.DimensionCount is 9"):
        cudml.explain("padding", nine, 1, 1)
    with refused(TypeError, "max_pooling: InputTensor.DataType (x) is bool"):
        cudml.explain("max_pooling", types.SimpleNamespace(shape=(1, 1, 4), dtype=bool), 2)


def test_names_and_devices_that_are_not() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    with refused(ValueError, "explain: name is 'pool'", "max_pooling_grad"):
        cudml.explain("pool", x, 2)
    with refused(TypeError, "explain: name is 3 (int)"):
        cudml.explain(3)  # type: ignore[arg-type]
    for device in ("sm_91", "gpu", "", "cuda:", "cuda:x", "CPU"):
        with refused(ValueError, f'max_pooling: device is "{device}"; it must be "cpu"', "sm_90"):
            cudml.explain("max_pooling", x, 2, device=device)
    with refused(TypeError, "max_pooling: device is 0; it must be a string"):
        cudml.explain("max_pooling", x, 2, device=0)  # type: ignore[arg-type]
    if not cudml._core.build_info()["cuda"]["devices"]:
        for device in ("cuda", "cuda:0", "cuda:17"):
            with refused(cudml.CudaError, f'max_pooling: device is "{device}"; this'):
                cudml.explain("max_pooling", x, 2, device=device)


def test_forced_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name where it can take the call; refused with the predicate where it cannot."""
    x = np.zeros((1, 3, 16, 16), np.float32)
    outcomes = set()
    for kernel in cudml.kernels("pool"):
        monkeypatch.setenv("CUDML_KERNEL", kernel.name)
        try:
            e = cudml.explain("max_pooling", x, 2, 2, device="sm_90")
        except ValueError as error:
            needs = re.fullmatch(
                rf'max_pooling: CUDML_KERNEL is "{kernel.name}", which needs that (.*)', str(error)
            )
            assert needs and needs[1] in kernel.predicates
            outcomes.add("refused")
        else:
            assert e.kernel == kernel.name and "forced by CUDML_KERNEL" in e.reason
            outcomes.add("taken")
    assert outcomes == {"refused", "taken"}
    monkeypatch.setenv("CUDML_KERNEL", "pad_generic")  # another family's
    assert cudml.explain("max_pooling", x, 2, 2, device="sm_90").kernel in names("pool")
    monkeypatch.setenv("CUDML_KERNEL", "pool_fastest")
    with refused(
        ValueError, 'max_pooling: CUDML_KERNEL is "pool_fastest"', "pool_generic", "pool/plain"
    ):
        cudml.explain("max_pooling", x, 2, 2, device="sm_90")


def test_compiled_operators_explain() -> None:
    desc = PaddingOperatorDesc(
        InputTensor=BufferTensorDesc("FLOAT32", [3]),
        OutputTensor=BufferTensorDesc("FLOAT32", [6]),
        PaddingMode="WRAP", PaddingValue=0, StartPadding=[1], EndPadding=[2],
    )  # fmt: skip
    e = cudml.Operator(desc).compile("cpu").explain()
    assert (e.operator, e.device, e.kernel, e.bytes) == ("PADDING", "cpu", "pad/plain", 36)


@pytest.mark.decision("D-POOL-10")
@pytest.mark.parametrize("device", ["cpu", "sm_90"])
def test_the_pooled_dimensions_are_named(device: str) -> None:
    """So that {C,H,W} taken for {N,C,W} is seen."""
    x = np.zeros((3, 8, 8), np.float32)
    photo = cudml.explain("max_pooling", x, 2, 2, device=device)
    assert photo.pooled_axes == (2,) and "\n  pools      dimension 2\n" in str(photo)
    image = cudml.explain("average_pooling", x, 2, axes=(-2, 2), device=device)
    assert image.pooled_axes == (1, 2) and "\n  pools      dimensions 1, 2\n" in str(image)
    for label in ("max_pooling_grad", "average_pooling_grad", "lp_pooling"):
        assert explain(label, device).pooled_axes == (2, 3)
    for label in ("padding", "padding_grad", "mean_variance_normalization"):
        assert explain(label, device).pooled_axes is None
        assert "pools" not in str(explain(label, device))


def test_compiled_operators_name_them_too() -> None:
    x, y = (BufferTensorDesc("FLOAT32", [1, 1, n, n]) for n in (4, 2))
    window = {"Strides": [2, 2], "WindowSize": [2, 2], "StartPadding": [0, 0], "EndPadding": [0, 0]}
    forward = MaxPoolingOperatorDesc(InputTensor=x, OutputTensor=y, **window)
    grad = AveragePoolingGradOperatorDesc(
        InputGradientTensor=y, OutputGradientTensor=x, **window, IncludePadding=False
    )
    for desc in (forward, grad):
        assert cudml.Operator(desc).compile("cpu").explain().pooled_axes == (2, 3)


def test_explanations_need_no_library_but_numpy() -> None:
    done = child(
        "import sys, numpy, cudml\n"
        "cudml.explain('padding', numpy.zeros(3), 1, 1, device='sm_120')\n"
        "assert not {'torch', 'cupy', 'numba'} & set(sys.modules)\n"
    )
    assert done.returncode == 0, done.stderr


# --- the command line ---


def command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


def test_the_command_of_the_specification(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "max_pooling --shape 32,64,112,112 --dtype float16 --device sm_90 window_size=3 strides=2"
    )
    said = command(capsys, *words.split())
    x = types.SimpleNamespace(shape=(32, 64, 112, 112), dtype="float16")
    e = cudml.explain("max_pooling", x, 3, 2, device="sm_90")
    assert said.startswith(f"{e}\n  predicted  ")  # see test_predicted.py
    as_json = json.loads(command(capsys, *words.split(), "--json"))
    assert as_json.pop("predicted")["seconds"] > 0
    assert as_json == json.loads(json.dumps(dataclasses.asdict(e)))


@pytest.mark.parametrize(
    "words",
    [
        "max_pooling_grad --shape 1,2,8,8 grad=1,2,4,4 window_size=2 strides=2",
        "average_pooling_grad --shape 1,2,4,4 input_sizes=1,2,8,8 window_size=2 strides=2",
        "padding --shape 5 --dtype int64 start_padding=1 end_padding=2 mode=edge",
        "padding --shape 5,6 start_padding=0,1 end_padding=2 mode='edge','wrap'",
        "mean_variance_normalization --shape 4,8,6 --dtype bfloat16 axes=1,2 scale=float32:1,8,1 "
        "activation=relu bias=1,8,1 use_mean=False",
        "normalize --shape 4,8,6 --dtype float16 mean=float64:1,8,1 variance=1,8,1 scale=1,8,1",
        "normalize --shape 4,8,6 mean=None variance=float32:1,8,1 activation=relu",
        "lp_pooling window_size=2,3 p=3 --shape 1,1,8,8 --order 0,2,3,1",
        "lp_pooling_grad --shape 1,2,8,8 y=1,2,4,4 grad=1,2,4,4 window_size=2 strides=2",
        "max_unpooling --shape 1,2,4,4 indices=uint32:1,2,4,4 output_sizes=1,2,8,8",
        "normalize_grad --shape 4,8 grad=4,8 mean=4,1 variance=4,1",
        "normalize_grad --shape 4,8 grad=4,8 mean=4,1 variance=4,1 count=4,1 sums=float64:4,1",
        "merge_statistics --shape 4,1 --dtype float64 b=4,1",
    ],
)
def test_arguments_of_the_command(capsys: pytest.CaptureFixture[str], words: str) -> None:
    op = words.split()[0]
    said = command(capsys, *words.split())
    assert said.split("\n")[0].removeprefix(f"{op} on cpu: ") in paths(op)
    assert f"{op} on sm_80: " in command(capsys, *words.split(), "--device", "sm_80")


def test_order_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["max_pooling", "--shape", "8,64,32,32", "--device", "sm_90", "--json"]
    words += ["window_size=3", "strides=2"]
    last = np.zeros((8, 32, 32, 64), "f4").transpose(0, 3, 1, 2)
    wanted = cudml.explain("max_pooling", last, 3, 2, device="sm_90").kernel
    assert json.loads(command(capsys, *words, "--order", "0,2,3,1"))["kernel"] == wanted


def test_what_the_command_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    good = ["max_pooling", "--shape", "1,1,4,4", "window_size=2"]
    assert "no operator" in refusal(capsys, "pool", *good[1:])
    assert "WindowSize[0] is 9" in refusal(capsys, *good[:3], "window_size=9")
    assert "window_size" in refusal(capsys, *good[:3])
    assert "'3' is not NAME=VALUE" in refusal(capsys, *good, "3")
    assert "'colour=3'" in refusal(capsys, *good, "colour=3")
    assert "'out=3'" in refusal(capsys, *good, "out=3")
    assert "whole numbers" in refusal(capsys, "max_pooling", "--shape", "1,x", "window_size=2")
    assert "WindowSize is '{[]: 1}'" in refusal(capsys, *good[:3], "window_size={[]: 1}")
    assert "WindowSize is '-----" in refusal(capsys, *good[:3], f"window_size={'-' * 5000}1")
    assert "DataType (x) is void64" in refusal(capsys, *good, "--dtype", "f4,i4")
    for odd in ("float7", "i4,,f", "f4,(", "(9999999999,)f4"):
        known = f"{odd!r} of x is no element type; there are float16, bfloat16,"
        assert known in refusal(capsys, *good, "--dtype", odd)
    assert "DataType (x) is bytes" in refusal(capsys, *good, "--dtype", "S")
    assert "must list 0 to 3" in refusal(capsys, *good, "--order", "0,1,2,2")
    assert 'device is "sm_1"' in refusal(capsys, *good, "--device", "sm_1")
    with pytest.raises(SystemExit):
        main(["explain", *good, "--colour"])
    with pytest.raises(SystemExit):
        main(["info", "more"])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_sizes_beyond_every_array() -> None:
    """What is wrong is said of the description, for there is no array."""
    x = types.SimpleNamespace(shape=(1, 1, 4, 10**20), dtype="float32")
    words = "max_pooling: InputTensor (x) has a description whose shape is 100000000000000000000"
    with refused(BufferError, words):
        cudml.explain("max_pooling", x, 2)
