"""What each feature level takes, against a table written from the specification."""

from __future__ import annotations

import re
from functools import cache

import pytest

import cudml
from cudml import directml
from directml_support import LEVELS, NAMES, SINCE, desc_of, operator, reaches, tensor
from harness import refused

FLOATS = {"FLOAT32", "FLOAT16"}
BYTES = {"INT8", "UINT8"}
SMALL = BYTES | {"INT16", "INT32", "UINT16", "UINT32"}
TEN = FLOATS | SMALL | {"INT64", "UINT64"}
MVN = [name for name in SINCE if name.startswith("Mean")]
TYPES = [t.name for t in directml.TensorDataType if t.name != "UNKNOWN"]


described = cache(desc_of)


def existing(*names: str) -> list[tuple[str, str]]:
    """The operators with the levels at which they exist."""
    return [(name, level) for name in names for level in LEVELS if reaches(level, SINCE[name])]


def permitted(name: str, level: str) -> tuple[set[str], range]:
    """Data types and ranks of the operator's tensors at a level at which it exists."""
    if name in ("MaxPooling", "MaxPooling1", "MaxPooling2"):
        types = TEN if reaches(level, "5_0") else FLOATS | BYTES
        return types if reaches(level, "3_0") else FLOATS, range(4, 6)
    if name == "MaxPoolingGrad":
        return FLOATS, range(4, 6 if reaches(level, "4_0") else 5)
    if name == "MaxUnpooling":
        return TEN if reaches(level, "5_0") else FLOATS, range(4, 5)
    if name == "BatchNormalization" and not reaches(level, "3_1"):
        return FLOATS, range(4, 5)
    if name.startswith(("Average", "Lp")):
        return FLOATS, range(4, 6)
    if name == "Padding1":
        return TEN | {"FLOAT64"}, range(1, 9)
    if name == "Padding":
        types = TEN | {"FLOAT64"} if reaches(level, "5_0") else FLOATS | SMALL
        types = types if reaches(level, "2_1") else FLOATS
        return types, range(1, 9) if reaches(level, "3_1") else range(4, 6)
    if name == "MeanVarianceNormalization":
        return FLOATS, range(4, 5)
    if name == "MeanVarianceNormalization1" and not reaches(level, "3_1"):
        return FLOATS, range(4, 5)
    return FLOATS, range(1, 9)


def outcome(name: str, level: str, dtype: str, rank: int) -> str:
    try:
        cudml.Operator(described(name, dtype, rank), level)
    except TypeError as error:
        assert f"DataType is {dtype}; at feature level {level} it must be one of" in str(error)
        return "type"
    except ValueError as error:
        text = str(error)
        known = ("DimensionCount is ", "introduced at")
        assert any(part in text for part in known), text
        return "value"
    return "taken"


@pytest.mark.decision("D-FL-1", "D-VER-4")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SINCE)
def test_types_and_ranks_at_every_level(name: str, level: str) -> None:
    for dtype in TYPES:
        for rank in range(1, 9):
            want = "value"
            if reaches(level, SINCE[name]):
                types, ranks = permitted(name, level)
                want = "type" if dtype not in types else "taken" if rank in ranks else "value"
            assert outcome(name, level, dtype, rank) == want, (dtype, rank)


@pytest.mark.decision("D-MAX-9")
@pytest.mark.parametrize(("name", "level"), existing("MaxPooling1", "MaxPooling2", "MaxUnpooling"))
def test_index_types_at_every_level(name: str, level: str) -> None:
    field = "IndicesTensor" if name == "MaxUnpooling" else "OutputIndicesTensor"
    sizes = (
        desc_of(name).InputTensor if name == "MaxUnpooling" else desc_of(name).OutputTensor
    ).Sizes
    types = {"UINT32", "UINT64"} if reaches(level, "5_0") else {"UINT32"}
    for dtype in TYPES:
        changes = {field: tensor(sizes, dtype)}
        if dtype in types:
            operator(name, level, **changes)
            continue
        with refused(TypeError, NAMES[name], f"{field}.DataType is {dtype}; at"):
            operator(name, level, **changes)


@pytest.mark.parametrize("name", SINCE)
def test_an_operator_does_not_exist_before_its_level(name: str) -> None:
    before = [level for level in LEVELS if not reaches(level, SINCE[name])]
    for level in before:
        with refused(
            ValueError, f"{NAMES[name]}: the feature level is {level}; the operator was introduced"
        ):
            operator(name, level)


@pytest.mark.decision("D-PAD-11", "D-FL-1")
@pytest.mark.parametrize(("name", "level"), existing("Padding", "Padding1"))
def test_padding_modes_at_every_level(name: str, level: str) -> None:
    first = {"SYMMETRIC": "3_0", "WRAP": "6_4"}
    for mode in directml.PaddingMode:
        since = first.get(mode.name, "1_0")
        if reaches(level, since):
            operator(name, level, PaddingMode=mode)
            continue
        with refused(
            ValueError, f"PaddingMode is {int(mode)} ({mode.name}); it is permitted from", since
        ):
            operator(name, level, PaddingMode=mode)


@pytest.mark.decision("D-PAD-11")
def test_modes_are_enumerators_or_their_names() -> None:
    with refused(ValueError, "PADDING: PaddingMode is 'REFLECT'; it must be one of CONSTANT, EDGE"):
        desc_of("Padding", PaddingMode="REFLECT")
    for value in (2, True, None, 2.0, directml.TensorDataType.FLOAT16):
        with refused(TypeError, "PADDING: PaddingMode is", "it must be a PaddingMode or the name"):
            desc_of("Padding", PaddingMode=value)


PER_CHANNEL = tensor([1, 2, 1, 1])
CHANNEL_ONE = tensor([3, 1, 4, 5])
WIDE = tensor([3, 2, 4, 5])


@pytest.mark.parametrize(("name", "level"), existing(*MVN))
def test_scale_and_bias_at_every_level(name: str, level: str) -> None:
    base = {"InputTensor": WIDE, "OutputTensor": WIDE}
    both = {"ScaleTensor": PER_CHANNEL, "BiasTensor": WIDE}
    operator(name, level, **base, **both)
    for field, other in (("ScaleTensor", "BiasTensor"), ("BiasTensor", "ScaleTensor")):
        if reaches(level, "5_2"):
            operator(name, level, **base, **{field: PER_CHANNEL})
        else:
            with refused(ValueError, f"{NAMES[name]}: {other} is null; below feature level 5_2"):
                operator(name, level, **base, **{field: PER_CHANNEL})
        changes = both | {field: CHANNEL_ONE}
        if name == "MeanVarianceNormalization1" and not reaches(level, "4_0"):
            with refused(ValueError, f"{field}.Sizes[1] is 1; below feature level 4_0 it must be"):
                operator(name, level, **base, **changes)
        else:
            operator(name, level, **base, **changes)


@pytest.mark.parametrize(("name", "level"), existing("BatchNormalization"))
def test_statistics_of_locations_that_are_not_spatial(name: str, level: str) -> None:
    """The input's height and width below 4_0; batch and channels may be 1 always."""
    wide, flat = tensor([1, 1, 4, 5]), tensor([1, 2, 4, 1])
    given = {"MeanTensor": wide, "VarianceTensor": wide}
    operator(name, level, Spatial=False, **given)
    for field in given:
        operator(name, level, Spatial=True, **given | {field: flat})
        if reaches(level, "4_0"):
            operator(name, level, Spatial=False, **given | {field: flat})
            continue
        with refused(ValueError, f"BATCH_NORMALIZATION: {field}.Sizes[3] is 1 and Spatial is FALSE",
                     "below feature level 4_0 it must be 5"):  # fmt: skip
            operator(name, level, Spatial=False, **given | {field: flat})


FUSABLE = {
    "Celu": "3_0",
    "Elu": "1_0",
    "Gelu": "5_1",
    "HardSigmoid": "1_0",
    "Identity": "1_0",
    "LeakyRelu": "1_0",
    "Linear": "1_0",
    "ParametricSoftplus": "1_0",
    "Relu": "1_0",
    "ScaledElu": "1_0",
    "ScaledTanh": "1_0",
    "Shrink": "2_0",
    "Sigmoid": "1_0",
    "Softplus": "1_0",
    "Softsign": "1_0",
    "Tanh": "1_0",
    "ThresholdedRelu": "1_0",
}


def activation(name: str) -> directml.OperatorDesc:
    required = {"Linear": {"Alpha": 2.0, "Beta": 1.0}}.get(name, {})
    desc = getattr(directml, f"Activation{name}OperatorDesc")(**required)
    assert isinstance(desc, directml.OperatorDesc)
    return desc


@pytest.mark.decision("D-ACT-1")
@pytest.mark.parametrize(("name", "level"), existing(*MVN, "BatchNormalization"))
def test_activations_at_every_level(name: str, level: str) -> None:
    for kind, since in FUSABLE.items():
        desc = desc_of(name, FusedActivation=activation(kind))
        if reaches(level, since):
            cudml.Operator(desc, level)
            continue
        with refused(ValueError, "FusedActivation is ACTIVATION_", f"from feature level {since}"):
            cudml.Operator(desc, level)


@pytest.mark.parametrize("name", MVN)
def test_steepness_below_one_needs_the_newest_level(name: str) -> None:
    desc = desc_of(name, FusedActivation=directml.ActivationSoftplusOperatorDesc(Steepness=0.5))
    cudml.Operator(desc, "6_4")
    with refused(ValueError, "Steepness is 0.5; below feature level 6_4 it must be at least 1"):
        cudml.Operator(desc, "6_3")


NOT_FUSABLE = {
    "ActivationSwish": {},
    "ActivationHardSwish": {},
    "ActivationHardmax": {},
    "ActivationHardmax1": {"Axes": [1]},
    "ActivationLogSoftmax": {},
    "ActivationLogSoftmax1": {"Axes": [1]},
    "ActivationSoftmax": {},
    "ActivationSoftmax1": {"Axes": [1]},
    "ActivationParameterizedRelu": {},
    "ElementWiseClip": {"Min": 0.0, "Max": 6.0},
}


@pytest.mark.decision("D-ACT-11", "D-ACT-12")
@pytest.mark.parametrize("name", [*MVN, "BatchNormalization"])
@pytest.mark.parametrize("kind", NOT_FUSABLE)
def test_what_is_not_fused_is_refused_by_name(name: str, kind: str) -> None:
    fused = getattr(directml, f"{kind}OperatorDesc")(**NOT_FUSABLE[kind])
    named = ", ".join(sorted(activation(kind)._dml_name for kind in FUSABLE))
    text = f"{NAMES[name]}: FusedActivation is {fused._dml_name}; it must be one of {named}"
    with pytest.raises(ValueError, match=f"{re.escape(text)}$"):
        cudml.Operator(desc_of(name, FusedActivation=fused))


def test_a_level_that_does_not_exist() -> None:
    for level in ("6_5", "7_0", "", "FL_9"):
        with refused(ValueError, "Operator: feature_level is", "it must be one of 1_0, 2_0"):
            operator("MaxPooling", level)
    for level in (0x6400, None, 6.4):
        with refused(TypeError, "Operator: feature_level is", "must be a FeatureLevel"):
            operator("MaxPooling", level)  # type: ignore[arg-type]
    for level in ("FL_5_0", directml.FeatureLevel.FL_5_0):
        assert operator("MaxPooling", level).feature_level == 0x5000
