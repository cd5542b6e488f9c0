"""What the library's own descriptions refuse: operator, field, value and what is permitted."""

from __future__ import annotations

from typing import Any

import pytest

import cudml
from cudml import descriptors
from cudml.directml import ActivationReluOperatorDesc, BufferTensorDesc, PaddingOperatorDesc
from descriptor_cases import CASES
from harness import refused

pytestmark = pytest.mark.core


def tensor(sizes: Any, dtype: str = "FLOAT32", **fields: Any) -> BufferTensorDesc:
    return BufferTensorDesc(dtype, sizes, **fields)  # type: ignore[arg-type]


def refuse(name: str, error: type[Exception], text: str, *more: str, **changes: Any) -> None:
    """The case of this name with some fields changed is refused with these texts."""
    case = CASES[name]("float32")
    case.operator()
    with refused(error, f"{name.split()[0]}: {text}", *more):
        case.operator(**changes)


@pytest.mark.parametrize("name", CASES)
def test_required_fields(name: str) -> None:
    desc = CASES[name]("float32").desc()
    given = {field: getattr(desc, field) for field in desc.__dataclass_fields__}
    axes = desc.__dataclass_fields__.get("Axes")
    assert axes is None or axes.default is axes.default_factory
    for field, parameter in desc.__dataclass_fields__.items():
        required = parameter.default is parameter.default_factory
        if not required:
            continue
        rest = {f: v for f, v in given.items() if f != field}
        with pytest.raises(TypeError, match=f"'{field}'"):
            type(desc)(**rest)
        if isinstance(given[field], BufferTensorDesc):
            with refused(ValueError, f"{name.split()[0]}: {field} is null; the operator requires"):
                cudml.Operator(type(desc)(**given | {field: None}))
    with pytest.raises(TypeError, match="'window_size'"):
        type(desc)(**given, window_size=2)


@pytest.mark.parametrize("name", CASES)
def test_every_tensor_is_checked(name: str) -> None:
    """Types, sizes and memory of each tensor in turn."""
    case = CASES[name]("float32")
    op = name.split()[0]
    for field, array in (case.inputs | case.outputs).items():
        sizes = list(array.shape)
        wrong = "OutputTensor" if (op, field) == ("max_unpooling", "InputTensor") else field
        refuse(name, TypeError, f"{wrong}.DataType is", **{field: tensor(sizes, "UINT8")})
        refuse(name, ValueError, f"{field}.Sizes[0] is 0; a zero-sized dimension",
               **{field: tensor([0, *sizes[1:]])})  # fmt: skip
        refuse(name, TypeError, f"{field} is 3 (int); it must be a BufferTensorDesc", **{field: 3})
        same = array.dtype.name.upper()
        with refused(ValueError, f"{op}: "):
            case.operator(**{field: tensor([sizes[0], sizes[1] + 6, *sizes[2:]], same)})
        with refused(ValueError, f"{op}: ", "Dimension"):
            case.operator(**{field: tensor([1] * 9, same)})
    for field, array in case.outputs.items():
        if array.size == 1:
            continue
        flat = tensor(array.shape, array.dtype.name.upper(), Strides=[0] * array.ndim)
        with refused(ValueError, f"{op}: {field}.Strides"):
            case.operator(**{field: flat})


def test_lp_pooling_grad() -> None:
    name = "lp_pooling_grad"
    refuse(name, ValueError, "P is 0; it must be", P=0)
    refuse(name, ValueError, "WindowSize[0] is 0; it must be", WindowSize=[0, 2])
    refuse(name, ValueError, "DimensionCount is 1; it must be 2", "less 2", Strides=[1],
           WindowSize=[1], StartPadding=[0], EndPadding=[0], Dilations=[1])  # fmt: skip
    refuse(name, TypeError, "OutputTensor.DataType is float64; it must be that of InputTensor",
           OutputTensor=tensor([2, 3, 3, 5], "FLOAT64"))  # fmt: skip
    refuse(name, ValueError, "InputTensor.DimensionCount is 2; it must be between 3 and 5",
           InputTensor=tensor([2, 3]))  # fmt: skip


def test_padding_grad() -> None:
    for mode in ("constant", "reflection"):
        name = f"padding_grad {mode}"
        refuse(name, ValueError, "DimensionCount is 2; it must be 3, the tensors'",
               StartPadding=[0, 1], EndPadding=[0, 2])  # fmt: skip
        refuse(name, ValueError, "OutputGradientTensor.Sizes are {4,4}; there must be 3",
               OutputGradientTensor=tensor([4, 4]))  # fmt: skip
        refuse(name, TypeError, "OutputGradientTensor.DataType is float16; it must be",
               OutputGradientTensor=tensor([2, 4, 4], "FLOAT16"))  # fmt: skip
    with refused(ValueError, "padding_grad: PaddingMode is 'MIRROR'; it must be one of CONSTANT"):
        CASES["padding_grad edge"]("float32").desc(PaddingMode="MIRROR")


def test_max_unpooling() -> None:
    name = "max_unpooling"
    refuse(name, ValueError, "OutputTensor.Sizes[1] is 4; it must be 3, as in InputTensor",
           OutputTensor=tensor([2, 4, 7]))  # fmt: skip
    refuse(name, TypeError, "IndicesTensor.DataType is float32; it must be uint32, uint64, int32",
           IndicesTensor=tensor([2, 3, 4]))  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CASES if "normaliz" in n and "statistics" not in n])
def test_epsilon_and_activation(name: str) -> None:
    for value in (-1e-5, float("nan"), float("inf")):
        refuse(name, ValueError, "Epsilon is", "it must be finite", Epsilon=value)
    refuse(name, TypeError, "Epsilon is '1' (str)", Epsilon="1")
    refuse(name, ValueError, "FusedActivation is", "no_such", FusedActivation="no_such")
    refuse(name, TypeError, "FusedActivation is", "it must be None, a name, or",
           FusedActivation=ActivationReluOperatorDesc())  # fmt: skip
    refuse(name, TypeError, "FusedActivation is ['celu', {'alpha': 2}]; it must be None, a name",
           FusedActivation=["celu", {"alpha": 2}])  # fmt: skip
    refuse(name, ValueError, "FusedActivation.Alpha is 0; it must not be 0",
           FusedActivation=("celu", {"alpha": 0}))  # fmt: skip


@pytest.mark.parametrize("name", ["mean_variance_normalization_grad", "normalize_grad"])
def test_gradients_that_are_wanted(name: str) -> None:
    gone = dict.fromkeys(
        ("OutputGradientTensor", "ScaleGradientTensor", "BiasGradientTensor"), None
    )
    refuse(name, ValueError, "OutputGradientTensor is null", "one of the three", **gone)
    for kind in ("Scale", "Bias"):
        refuse(name, ValueError, f"{kind}GradientTensor is given and {kind}Tensor is null",
               **{f"{kind}Tensor": None})  # fmt: skip


def test_given_statistics() -> None:
    name = "mean_variance_normalization_grad"
    one = tensor([2, 3, 1])
    refuse(name, ValueError, "Variance is absent and UseVariance is True", Mean=one)
    refuse(name, ValueError, "Axes[0] is 3; it must be between 0 and 2", Axes=[3])
    for field in ("GradientSum", "ProductSum"):
        refuse("normalize_grad", ValueError, f"{field} is null; both sums must be given",
               **{field: None})  # fmt: skip
    refuse("normalize_grad", ValueError, "Count is absent and sums are given", Count=None)


def test_types_of_statistics() -> None:
    half = tensor([1, 3, 1], "FLOAT16")
    refuse("normalization_statistics", TypeError,
           "Count.DataType is float16; it must be float32 or float64", Count=half)  # fmt: skip
    refuse("normalization_statistics", TypeError, "M2.DataType is float64; it must be float32",
           M2=tensor([1, 3, 1], "FLOAT64"))  # fmt: skip
    refuse("normalize_grad_sums", TypeError, "ProductSum.DataType is float32; it must be float64",
           ProductSum=tensor([2, 1, 1]))  # fmt: skip
    refuse("merge_statistics", TypeError, "M2B.DataType is float64; it must be CountA's, float32",
           M2B=tensor([1, 3, 2], "FLOAT64"))  # fmt: skip
    refuse("merge_statistics", ValueError, "MeanB.Sizes[1] is 2; it must be 3",
           MeanB=tensor([1, 2, 2]))  # fmt: skip


def test_directml_has_none_of_them() -> None:
    """An own description is fused into nothing, and bfloat16 is for these alone."""
    x = tensor([2, 3], "BFLOAT16")
    desc = PaddingOperatorDesc(
        InputTensor=x, OutputTensor=x, PaddingMode="EDGE", PaddingValue=0,
        StartPadding=[0, 0], EndPadding=[0, 0],
    )  # fmt: skip
    with refused(TypeError, "PADDING: InputTensor.DataType is BFLOAT16; at feature level 6_4"):
        cudml.Operator(desc)
    with refused(TypeError, "it must be an operator descriptor of cudml.directml or cudml.desc"):
        cudml.Operator(descriptors.PaddingGradDesc)  # type: ignore[arg-type]
