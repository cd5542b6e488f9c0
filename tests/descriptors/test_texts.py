"""What describe() says of every kind of operator: all its fields, and those of no other kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cudml import directml
from descriptor_cases import CASES
from directml_support import operator, tensor

WINDOW = (
    "window_size {2,2}, strides {1,1}, start_padding {0,0}, end_padding {0,0}, dilations {1,1}, "
    "output_sizes {3,4}"
)
PADS = ": start_padding {0,1,3}, end_padding {0,2,2}"
ENDING = "epsilon 9.99999975e-06, activation identity(0, 0)"
WHOLE = "gradient of mean-variance normalization over axes "
BOTH = "use_mean true, use_variance true, "
OWN = {
    "lp_pooling_grad": "gradient for input_sizes {2,3,7,6} of lp pooling over axes {2,3}: "
    "window_size {3,2}, strides {2,1}, start_padding {1,0}, end_padding {0,1}, dilations {1,2}, "
    "output_sizes {3,5}, p 3",
    "max_unpooling": "max unpooling: output_sizes {2,3,7}",
    **{
        f"padding_grad {mode}": f"gradient for input_sizes {{2,4,4}} of padding {mode}{PADS}"
        for mode in ("constant", "edge", "reflection", "symmetric", "wrap")
    },
    "mean_variance_normalization_grad": f"{WHOLE}{{2}}: {BOTH}epsilon 0.1, "
    "activation leaky_relu(0.1, 0)",
    "mean_variance_normalization_grad given": f"{WHOLE}{{2}}: use_mean false, use_variance true, "
    "epsilon 1e-05, activation identity(0, 0)",
    "normalization_statistics": "statistics of normalization over axes {2,0}: use_mean false, "
    "dtype float32",
    "merge_statistics": "merge of statistics",
    "normalize": "normalization with given statistics: epsilon 0.1, activation swish(1, 0)",
    "normalize_grad_sums": "sums of the gradient of normalization over axes {1,2}: "
    "epsilon 1e-05, activation leaky_relu(0.1, 0)",
    "normalize_grad": "gradient of normalization with given statistics: epsilon 1e-05, "
    "activation gelu(0, 0)",
    "normalize_grad constants": "gradient of normalization with given statistics: epsilon 1e-05, "
    "activation identity(0, 0)",
}
DIRECTML: dict[str, tuple[str, dict[str, Any]]] = {
    "MaxPooling2": (f"max pooling over axes {{2,3}}: {WINDOW}", {}),
    "AveragePooling1": (
        f"average pooling over axes {{2,3}}: {WINDOW}, include_padding true",
        {"IncludePadding": True},
    ),
    "LpPooling1": (f"lp pooling over axes {{2,3}}: {WINDOW}, p 3", {"P": 3}),
    "MaxPoolingGrad": (
        f"gradient for input_sizes {{1,2,4,5}} of max pooling over axes {{2,3}}: {WINDOW}",
        {},
    ),
    "Padding": (
        "padding edge: start_padding {0,0,0,1}, end_padding {0,0,0,2}, value bytes "
        "00 00 00 00 00 00 00 00",
        {"PaddingMode": "EDGE"},
    ),
    "Padding1": (
        "padding constant: start_padding {0,0,0,1}, end_padding {0,0,0,2}, value bytes "
        "00 00 80 3f 00 00 00 00",
        {},
    ),
    "MeanVarianceNormalization1": (
        f"mean-variance normalization over axes {{3}}: use_mean true, use_variance false, {ENDING}",
        {"NormalizeVariance": False},
    ),
    "MeanVarianceNormalization": (
        f"mean-variance normalization over axes {{2,3}}: {BOTH}epsilon 9.99999975e-06, "
        "activation leaky_relu(0.5, 0)",
        {"FusedActivation": directml.ActivationLeakyReluOperatorDesc(Alpha=0.5)},
    ),
    "MaxUnpooling": ("max unpooling: output_sizes {1,2,4,8}", {}),
    "BatchNormalization": (f"normalization with given statistics: {ENDING}", {}),
    "BatchNormalizationGrad": (f"gradient of normalization with given statistics: {ENDING}", {}),
    "BatchNormalizationTrainingGrad": (f"{WHOLE}{{0,2,3}}: {BOTH}{ENDING}", {}),
}


def last_line(described: Any) -> str:
    return str(described.describe()).splitlines()[-1]


def test_every_case_has_its_text() -> None:
    assert set(OWN) == set(CASES)


@pytest.mark.parametrize("name", OWN)
def test_the_text_of_an_own_description(name: str) -> None:
    assert last_line(CASES[name]("float32").operator()) == f"  {OWN[name]}"


@pytest.mark.parametrize("name", DIRECTML)
def test_the_text_of_a_descriptor(name: str) -> None:
    want, fields = DIRECTML[name]
    assert last_line(operator(name, **fields)) == f"  {want}"


def test_the_text_of_one_dimension() -> None:
    fields = {"InputTensor": tensor([3]), "OutputTensor": tensor([6]), "PaddingMode": "EDGE"}
    fields |= {"PaddingValue": 0, "StartPadding": [1], "EndPadding": [2]}
    want = "padding edge: start_padding {1}, end_padding {2}, value bytes 00 00 00 00 00 00 00 00"
    assert last_line(operator("Padding1", **fields)) == f"  {want}"


def test_the_text_of_tensors() -> None:
    """Field, type, sizes and strides of each, in the description's order; absent ones, too."""
    case = CASES["normalize_grad constants"]("float32")
    lines = case.operator().describe().splitlines()
    assert lines[0] == "normalize_grad"
    named = dict(line.strip().split(": ", 1) for line in lines[1:-1])
    assert list(named)[:2] == ["InputTensor", "InputGradientTensor"]
    for field, array in (case.inputs | case.outputs).items():
        strides = [s // array.itemsize for s in array.strides]
        sizes, steps = (",".join(map(str, numbers)) for numbers in (array.shape, strides))
        assert named.pop(field) == f"{np.dtype(array.dtype).name} {{{sizes}}} strides {{{steps}}}"
    assert named and set(named.values()) == {"absent"}


@pytest.mark.parametrize("name", CASES)
def test_tensors_stand_in_the_order_of_the_compiled_operator(name: str) -> None:
    operator = CASES[name]("float32").operator()
    tensors = [line.split(":")[0].strip() for line in operator.describe().split("\n")[1:-1]]
    assert list(operator.desc.__dataclass_fields__)[: len(tensors)] == tensors
