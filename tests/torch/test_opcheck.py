"""PyTorch's own check of custom operators: schemas, fake results, autograd, tracing."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import cudml.torch  # noqa: E402
import torch_support as ts  # noqa: E402
from cudml.torch._schemas import SCHEMAS  # noqa: E402

QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")
# Every operator once, by a call of these names.
CALLS = (
    "max_pooling", "with_indices", "average_pooling ceil", "lp_pooling", "padding reflection",
    "mean_variance_normalization", "normalize", "max_unpooling", *ts.backward(),
)  # fmt: skip
LAYOUTS = ("contiguous", "channels_last", "strided", "empty")


class Recorder(TorchDispatchMode):
    """Notes the registered operators that are called, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "cudml":
            self.calls.append((func, args))
        return func(*args, **(kwargs or {}))


def recorded(case: Any, layout: str) -> tuple[Any, tuple[Any, ...]]:
    """The operator that a call comes down to, and its arguments in a memory format."""
    tensors = list(case.tensors().values())
    if layout == "empty":  # sizes of 0 in N; parameters have 1 there, or the same 0
        tensors = [t[:0] if t.shape[0] != 1 else t for t in tensors]
        sized = (0, *ts.SHAPE[1:])
        case.args = tuple(sized if a == ts.SHAPE else a for a in case.args)
    else:
        tensors = [ts.LAYOUTS[layout](t) for t in tensors]
    with Recorder() as recorder:
        case.on(*tensors)
    (call,) = recorder.calls
    return call


def case_of(name: str, layout: str) -> Any:
    case = {**ts.forward("float64"), **ts.backward("float64")}[name]
    if layout == "empty":
        pads = ((0, 1, 5, 2), (0, 0, 3, 7))  # none where nothing is
        shapes = {"padding reflection": pads, "padding_grad": ((0, 3, 4, 5), *pads)}
        case.args = {**shapes, "max_unpooling": ((0, 3, 3, 4),)}.get(name, case.args)
    return case


@pytest.mark.decision("D-GRAD-42")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str, layout: str) -> None:
    case = case_of(name, layout)
    operator, arguments = recorded(case, layout)
    is_once = not case.differentiable
    asking = [
        a.detach().requires_grad_(not is_once and key in case.differentiable)
        if isinstance(a, torch.Tensor)
        else a
        for a, key in zip(arguments, [*case.arrays, *[""] * len(arguments)], strict=False)
    ]
    tests = QUICK if layout != "strided" else (*QUICK, "test_aot_dispatch_dynamic")
    torch.library.opcheck(operator, tuple(asking), test_utils=tests)


def test_every_operator_is_checked() -> None:
    found = {recorded(case_of(name, "contiguous"), "contiguous")[0] for name in CALLS}
    assert {f._schema.name.removeprefix("cudml::") for f in found} == set(SCHEMAS)


def test_schemas_are_as_programs_have_stored_them() -> None:
    """As PyTorch prints them: a change would make exported programs unreadable."""
    windows = (
        "int[] window_size, int[] strides, int[] start_padding, int[] end_padding, int[] dilations"
    )
    shown = {name: str(getattr(torch.ops.cudml, name).default._schema) for name in SCHEMAS}
    assert shown["max_pooling"] == (
        f"cudml::max_pooling(Tensor x, {windows}, SymInt[] output_sizes) -> Tensor"
    )
    assert shown["lp_pooling_grad"] == (
        f"cudml::lp_pooling_grad(Tensor x, Tensor y, Tensor grad, {windows}, int p) -> Tensor"
    )
    assert shown["padding"] == (
        "cudml::padding(Tensor x, SymInt[] start_padding, SymInt[] end_padding, str mode, "
        "Scalar value) -> Tensor"
    )
    assert shown["mean_variance_normalization_grad"] == (
        "cudml::mean_variance_normalization_grad(Tensor x, Tensor grad, Tensor? scale, "
        "Tensor? bias, int[] axes, bool use_mean, bool use_variance, float epsilon, "
        "str activation, float[] parameters, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
    )
    assert shown["normalization_statistics"] == (
        "cudml::normalization_statistics(Tensor x, int[] axes, bool use_mean, ScalarType dtype)"
        " -> (Tensor, Tensor, Tensor)"
    )


def test_meta_tensors_have_shapes_alone() -> None:
    x = torch.empty(2, 3, 5, 7, device="meta")
    ones = [[1, 1]] * 2
    y, indices = torch.ops.cudml.max_pooling_with_indices(
        x, [2, 2], *ones[:1], [0, 0], [0, 0], ones[1], [4, 6]
    )
    assert y.device.type == "meta" and y.shape == indices.shape == (2, 3, 4, 6)
    assert cudml.torch._results.format_of(x) is torch.contiguous_format


def test_a_row_major_tensor_of_single_pixels_stays_row_major() -> None:
    """It is channels-last as well: of fake results and real ones the strides are the same."""
    for device in ("cpu", "meta"):
        x = torch.zeros(2, 3, 1, 1, device=device)
        y = torch.ops.cudml.padding(x, [0, 0, 1, 2], [0, 0, 3, 1], "edge", 0)
        assert y.shape == (2, 3, 5, 4) and y.is_contiguous()


def test_axes_from_the_end_by_the_operators_own_names() -> None:
    x = torch.rand(4, 3, 5).transpose(0, 2)
    for axes in ([-1], [-3, 1]):
        got = torch.ops.cudml.normalization_statistics(x, axes, True, torch.float64)
        for t, want in zip(got, cudml.torch.normalization_statistics(x, axes=axes), strict=True):
            assert torch.equal(t, want)


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize("name", ["mean_variance_normalization_grad", "normalize_grad"])
def test_gradients_that_are_masked_out_or_absent_are_empty(name: str, layout: str) -> None:
    """The registered operators return as many tensors as ever."""
    case = ts.backward()[name]
    operator, (*arguments, _) = recorded(case, layout)
    places = {key: i for i, key in enumerate(case.arrays)}
    for mask in itertools.product([True, False], repeat=3):
        for is_absent in (False, True):
            given = list(arguments)
            given[places["scale"]] = None if is_absent else given[places["scale"]]
            results = operator(*given, list(mask))
            for key, result, wanted in zip(("x", "scale", "bias"), results, mask, strict=True):
                t = given[places[key]]
                there = wanted and t is not None
                assert result.shape == (t.shape if there else (0,)) and result.dtype == (
                    t.dtype if there else torch.float32
                )


def test_what_is_not_registered_or_compiled() -> None:
    """Merging is made of PyTorch's operators, and the package of Python alone."""
    assert not hasattr(torch.ops.cudml, "merge_statistics")
    files = [f for f in Path(cudml.torch.__file__).parent.rglob("*") if f.is_file()]
    assert {f.suffix for f in files} <= {".py", ".pyc"}
