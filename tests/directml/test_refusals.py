"""What `Operator` refuses, with the text it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from cudml import directml
from directml_support import NAMES, SINCE, desc_of, operator, tensor
from harness import refused

BIG = 2**32 - 1
POOLINGS = [name for name in SINCE if "Pooling" in name]
FORWARD = [name for name in POOLINGS if not name.endswith("Grad")]


class Hostile:
    """An integer that takes one look at a time."""

    def __init__(self) -> None:
        self.calls = 0

    def __index__(self) -> int:
        self.calls += 1
        return 4 if self.calls == 1 else 2**40


def first_tensor(name: str) -> str:
    return next(f for f in desc_of(name).__dataclass_fields__ if f.endswith("Tensor"))


@pytest.mark.decision("D-TEN-4")
@pytest.mark.parametrize("name", SINCE)
def test_zero_sized_dimension(name: str) -> None:
    field = first_tensor(name)
    with refused(
        ValueError,
        f"{NAMES[name]}: {field}.Sizes[2] is 0; a zero-sized dimension is not allowed",
        "between 1 and 4294967295",
    ):
        operator(name, **{field: tensor([1, 2, 0, 5])})


@pytest.mark.decision("D-TEN-6")
@pytest.mark.parametrize("name", SINCE)
def test_element_limit(name: str) -> None:
    field = first_tensor(name)
    for sizes in ([BIG] * 4, [1, 2, 1, 2**31], [2**16, 1, 2**16, 1]):
        said = "{{{},{},{},{}}}; a tensor has at most 4294967295 elements".format(*sizes)
        with refused(ValueError, f"{NAMES[name]}: {field}.Sizes is {said}"):
            operator(name, **{field: tensor(sizes)})


@pytest.mark.decision("D-TEN-6")
def test_the_largest_tensor_is_taken() -> None:
    x = tensor([1, 1, 1, BIG], "UINT8")
    fields = {"InputTensor": x, "OutputTensor": x, "StartPadding": [0] * 4, "EndPadding": [0] * 4}
    operator("Padding1", **fields, PaddingValueDataType="UINT8")


@pytest.mark.decision("D-TEN-5")
def test_size_in_bytes() -> None:
    def with_bytes(
        total: Any, dtype: str = "FLOAT16", sizes: Any = (1, 1, 3, 5), **more: Any
    ) -> Any:
        x = tensor(sizes, dtype, TotalTensorSizeInBytes=total, **more)
        y = tensor(sizes, dtype)
        return operator(
            "Padding", InputTensor=x, OutputTensor=y, StartPadding=[0] * 4, EndPadding=[0] * 4
        )

    with_bytes(32)
    with_bytes(36)
    with_bytes(76, "INT8", (1, 3, 5, 5))
    with_bytes(12, "FLOAT32", (2, 3, 4, 5), Strides=(0, 1, 0, 0))
    with_bytes(60, "FLOAT32", (1, 2, 2, 3), Strides=(16, 8, 4, 1))
    with_bytes(240, "FLOAT16", (2, 3, 4, 5), Strides=(60, 1, 15, 3))
    least = "InputTensor.TotalTensorSizeInBytes is {}; sizes and strides need at least {}"
    for total, need in ((0, 32), (30, 32), (31, 32)):
        with refused(ValueError, least.format(total, need)):
            with_bytes(total)
    with refused(ValueError, least.format(8, 12)):
        with_bytes(8, "FLOAT32", (2, 3, 4, 5), Strides=(0, 1, 0, 0))
    for d, sizes in enumerate(((2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2))):
        strides = tuple(7 * (k == d) for k in range(4))
        for more, need in (({}, 8), ({"Strides": strides}, 32)):
            with_bytes(need, "FLOAT32", sizes, **more)
            with refused(ValueError, least.format(need - 4, need)):
                with_bytes(need - 4, "FLOAT32", sizes, **more)
    with refused(ValueError, "TotalTensorSizeInBytes is 34; it must be a multiple of 4"):
        with_bytes(34)
    for total in (-4, 2**64 - 1, 2**64):
        with refused(ValueError, "InputTensor.TotalTensorSizeInBytes is"):
            with_bytes(total)
    for total in (32.0, True, "32"):
        with refused(TypeError, "InputTensor.TotalTensorSizeInBytes is"):
            with_bytes(total)


def test_alignment_and_flags() -> None:
    x = tensor([1, 2, 4, 5], GuaranteedBaseOffsetAlignment=32, Flags="OWNED_BY_DML")
    operator("MaxPooling", InputTensor=x)
    operator("MaxPooling", InputTensor=tensor([1, 2, 4, 5], GuaranteedBaseOffsetAlignment=4))
    for alignment in (1, 2, 3, 12, 2**31 + 1):
        with refused(ValueError, f"GuaranteedBaseOffsetAlignment is {alignment}; it must be 0 or"):
            operator(
                "MaxPooling",
                InputTensor=tensor([1, 2, 4, 5], GuaranteedBaseOffsetAlignment=alignment),
            )
    with refused(ValueError, "OutputTensor.Flags is 1 (OWNED_BY_DML); of an output it must be 0"):
        operator("MaxPooling", OutputTensor=tensor([1, 2, 3, 4], Flags=1))
    for flags in (2, 3, 2**31):
        with refused(ValueError, f"InputTensor.Flags is {flags}; it must be 0 (NONE) or 1"):
            operator("MaxPooling", InputTensor=tensor([1, 2, 4, 5], Flags=flags))


@pytest.mark.decision("D-TEN-1")
@pytest.mark.parametrize("strides", [(0, 20, 5, 1), (40, 20, 5, 0), (40, 20, 4, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("name", [n for n in SINCE if "Pooling" not in n and "Grad" not in n])
def test_outputs_whose_elements_share_memory(name: str, strides: Any) -> None:
    x = tensor([2, 2, 4, 5])
    more: dict[str, Any] = {"InputTensor": x}
    if "Padding" in name:
        more |= {"StartPadding": [0] * 4, "EndPadding": [0] * 4}
    if name == "MaxUnpooling":
        more["IndicesTensor"] = tensor([2, 2, 4, 5], "UINT32")
    with refused(ValueError, f"{NAMES[name]}: OutputTensor.Strides["):
        operator(name, OutputTensor=tensor([2, 2, 4, 5], Strides=strides), **more)


def test_strides_of_tensors() -> None:
    operator("MaxPooling", InputTensor=tensor([1, 2, 4, 5], Strides=[0, 0, 0, 0]))
    operator("MaxPooling", InputTensor=tensor([1, 2, 4, 5], Strides=[BIG] * 4))
    with refused(ValueError, "InputTensor.Strides has 3 entries; InputTensor.DimensionCount is 4"):
        operator("MaxPooling", InputTensor=tensor([1, 2, 4, 5], Strides=[1, 1, 1]))
    for furthest in range(4):
        sizes = [2**31 - 1 if d == furthest else 1 + (d == (furthest + 1) % 4) for d in range(4)]
        huge = tensor(sizes, "INT64", Strides=[BIG] * 4)
        text = f"InputTensor.Strides[{furthest}] is 4294967295 and Sizes[{furthest}] is 2147483647"
        with refused(ValueError, f"{text}; the last element must lie below 2^63 bytes"):
            operator("MaxPooling", InputTensor=huge)


@pytest.mark.parametrize("value", [-1, 2**32, 1.5, True, "3", None, [1], 2**64])
@pytest.mark.parametrize("place", ["InputTensor.Sizes", "InputTensor.Strides", "WindowSize"])
def test_entries_that_are_no_numbers(place: str, value: Any) -> None:
    kind = ValueError if type(value) is int else TypeError
    member = place.split(".")[-1]
    if member == "WindowSize":
        change: dict[str, Any] = {"WindowSize": [2, value]}
    else:
        fields = {"Sizes": [1, 2, 4, 5]} | {member: [1, value, 4, 5]}
        change = {"InputTensor": tensor(fields.pop("Sizes"), **fields)}
    with refused(kind, f"MAX_POOLING: {place}[1] is "):
        operator("MaxPooling", **change)


@pytest.mark.parametrize(
    "value",
    [
        *(3, "22", b"22", bytearray(b"22"), memoryview(b"22"), None, {1: 2}, {2, 3}, 2.0, True),
        range(10**30),
    ],
)
def test_what_is_no_sequence(value: Any) -> None:
    for field in ("Strides", "StartPadding"):
        with refused((TypeError, ValueError), f"MAX_POOLING: {field} is "):
            operator("MaxPooling", **{field: value})
    with refused((TypeError, ValueError), "NORMALIZATION1: Axes is "):
        operator("MeanVarianceNormalization1", Axes=value, AxisCount=2 if value is None else None)
    with refused((TypeError, ValueError), "MAX_POOLING: InputTensor.Sizes is "):
        operator("MaxPooling", InputTensor=tensor(value))


@pytest.mark.parametrize("count", [9, 64, 65, 1000])
@pytest.mark.parametrize("kind", [list, tuple])
def test_lengths_are_values(kind: Any, count: int) -> None:
    entries = kind([1] * count)
    with refused(ValueError, f"MAX_POOLING: InputTensor.DimensionCount is {count}; at feature"):
        operator("MaxPooling", InputTensor=tensor(entries))
    with refused(ValueError, f"MAX_POOLING: InputTensor.Strides has {count} entries; InputTensor"):
        operator("MaxPooling", InputTensor=tensor([1, 2, 4, 5], Strides=entries))
    with refused(ValueError, f"MAX_POOLING: WindowSize has {count} entries; DimensionCount is 2"):
        operator("MaxPooling", WindowSize=entries)
    with refused(ValueError, f"NORMALIZATION1: AxisCount is {count}; it must be between 0 and 4"):
        operator("MeanVarianceNormalization1", Axes=entries)


def test_a_length_may_be_a_lie() -> None:
    class Endless:
        read = 0

        def __len__(self) -> int:
            return 2

        def __getitem__(self, place: int) -> int:
            self.read += 1
            assert self.read < 1000
            return 1

    with refused(ValueError, "MAX_POOLING: WindowSize has ", " entries; DimensionCount is 2"):
        operator("MaxPooling", WindowSize=Endless())


@pytest.mark.parametrize("value", [[2], np.array([2])])
def test_what_is_no_number_is_shown_as_it_was_given(value: Any) -> None:
    for name, field in (
        ("LpPooling", "P"),
        ("AveragePooling", "IncludePadding"),
        ("Padding", "PaddingValue"),
        ("MeanVarianceNormalization1", "Epsilon"),
        ("MeanVarianceNormalization1", "FusedActivation"),
    ):
        said = f"{NAMES[name]}: {field} is {value!r} ({type(value).__name__}); it must be"
        with refused(TypeError, said):
            operator(name, **{field: value})


def test_sequences_are_read_once() -> None:
    size = Hostile()
    sizes: list[Any] = [1, 2, size, 5]
    x = tensor(sizes)
    sizes[0] = 0
    assert x.Sizes == (1, 2, 4, 5)
    operator("MaxPooling", InputTensor=x)
    assert size.calls == 1


@pytest.mark.decision("D-POOL-4", "D-POOL-8")
@pytest.mark.parametrize("name", POOLINGS)
def test_geometry(name: str) -> None:
    op = NAMES[name]
    for field in ("Strides", "WindowSize", "Dilations"):
        if field in desc_of(name).__dataclass_fields__:
            with refused(ValueError, f"{op}: {field}[1] is 0; it must be between 1 and 4294967295"):
                operator(name, **{field: [1, 0]})
    with refused(ValueError, f"{op}: DimensionCount is 3; it must be 2"):
        geometry = ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations")
        fields = desc_of(name).__dataclass_fields__
        operator(name, **{f: [1, 1, 1] for f in geometry if f in fields})
    with refused(ValueError, f"{op}: Strides has 2 entries; DimensionCount is 3"):
        operator(name, DimensionCount=3)
    with refused(ValueError, f"{op}: WindowSize has 3 entries; DimensionCount is"):
        operator(name, WindowSize=[1, 1, 1])


@pytest.mark.decision("D-POOL-3", "D-POOL-7")
@pytest.mark.parametrize("name", ["MaxPooling2", "AveragePooling1", "LpPooling1", "MaxPoolingGrad"])
def test_extents(name: str) -> None:
    for changes in (
        {"WindowSize": [BIG, 1]},
        {"WindowSize": [6, 2]},
        {"WindowSize": [131073, 2], "Dilations": [32768, 1]},
        {"WindowSize": [2, 2], "Dilations": [4, 1]},
    ):
        with refused(ValueError, f"{NAMES[name]}: WindowSize[0] is", "Dilations[0]"):
            operator(name, **changes)
    with refused(ValueError, f"{NAMES[name]}: ", "StartPadding[1] is 4294967295"):
        operator(name, StartPadding=[0, BIG])


@pytest.mark.decision("D-POOL-2", "D-AVG-10")
@pytest.mark.parametrize("name", POOLINGS)
def test_sizes_of_results(name: str) -> None:
    field = "InputGradientTensor" if name.endswith("Grad") else "OutputTensor"
    operator(name, **{field: tensor([1, 2, 2, 1])})
    for sizes, index in (
        ([1, 2, 4, 4], 2),
        ([1, 2, 3, 5], 3),
        ([2, 2, 3, 4], 0),
        ([1, 1, 3, 4], 1),
    ):
        with refused(
            ValueError, f"{NAMES[name]}: {field}.Sizes[{index}] is {sizes[index]}; it must"
        ):
            operator(name, **{field: tensor(sizes)})


@pytest.mark.decision("D-POOL-2")
@pytest.mark.parametrize("name", FORWARD)
def test_ceil_sizes_are_taken(name: str) -> None:
    operator(name, Strides=[2, 3], OutputTensor=tensor([1, 2, 2, 2]))
    operator(name, Strides=[2, 2], WindowSize=[3, 2], OutputTensor=tensor([1, 2, 2, 3]))


def test_indices_have_the_output_s_sizes() -> None:
    for sizes in ([1, 2, 3, 3], [1, 2, 2, 4]):
        with refused(ValueError, "MAX_POOLING2: OutputIndicesTensor.Sizes["):
            operator("MaxPooling2", OutputIndicesTensor=tensor(sizes, "UINT32"))
    with refused(ValueError, "OutputIndicesTensor.DimensionCount is 5; it must be 4"):
        operator("MaxPooling2", OutputIndicesTensor=tensor([1, 1, 2, 3, 4], "UINT32"))


@pytest.mark.decision("D-LP-3")
def test_exponent() -> None:
    operator("LpPooling", P=BIG)
    with refused(ValueError, "LP_POOLING: P is 0; it must be between 1 and 4294967295"):
        operator("LpPooling", P=0)
    for p in (-1, 2**32):
        with refused(ValueError, f"LP_POOLING1: P is {p}; it must be between 1 and 4294967295"):
            operator("LpPooling1", P=p)
    for p in (2.0, True, None):
        with refused(TypeError, "LP_POOLING: P is"):
            operator("LpPooling", P=p)


@pytest.mark.parametrize("name", SINCE)
def test_tensors_that_do_not_match(name: str) -> None:
    desc = desc_of(name)
    tensors = [
        f
        for f in desc.__dataclass_fields__
        if isinstance(getattr(desc, f), directml.BufferTensorDesc)
    ]
    first, op = tensors[0], NAMES[name]
    for field in tensors[1:]:
        sizes = getattr(desc, field).Sizes
        if field != "IndicesTensor":  # which has types of its own
            with refused(
                TypeError,
                f"{op}: {field}.DataType is FLOAT16; it must be FLOAT32 like that of {first}",
            ):
                operator(name, **{field: tensor(sizes, "FLOAT16")})
        if name not in ("MeanVarianceNormalization", "MaxUnpooling"):  # of rank 4 alone
            with refused(
                ValueError, f"{op}: {field}.DimensionCount is 5; it must be 4 like that of {first}"
            ):
                operator(name, **{field: tensor([1, *sizes])})
    for field in tensors:
        with refused(ValueError, f"{op}: {field} is null; the operator requires it"):
            operator(name, **{field: None})
        with refused(TypeError, f"{op}: {field} is 'x' (str); it must be a BufferTensorDesc"):
            operator(name, **{field: "x"})
        said = (
            f"{op}: {field} is an array of shape (3, 100) (ndarray); it must be a BufferTensorDesc"
        )
        with refused(TypeError, said):
            operator(name, **{field: np.ones((3, 100))})
        types = "UINT64" if field == "IndicesTensor" else "FLOAT32"
        with refused(ValueError, f"{op}: {field}.DataType is UNKNOWN; it must be one of {types}"):
            operator(name, **{field: tensor([1, 2, 4, 5], "UNKNOWN")})


def test_what_is_no_descriptor() -> None:
    base = directml.OperatorDesc()
    for desc in (None, "MAX_POOLING", {}, tensor([1]), directml.MaxPoolingOperatorDesc, base):
        with refused(TypeError, "Operator: desc is", "an operator descriptor of cudml.directml"):
            cudml.Operator(desc)  # type: ignore[arg-type]
    with refused(TypeError, "Operator: desc is an array of shape (3, 100) (ndarray); it must be"):
        cudml.Operator(np.ones((3, 100)))  # type: ignore[arg-type]
    with refused(ValueError, "DML_OPERATOR_DESC: Type is ACTIVATION_RELU; it must be one of MAX"):
        cudml.Operator(directml.ActivationReluOperatorDesc())


@pytest.mark.parametrize("sizes", [[2, 2, 4, 5], [1, 2, 4, 6]])
def test_inputs_of_another_size_than_their_gradient(sizes: list[int]) -> None:
    """The windows are those of OutputGradientTensor: nothing else compares InputTensor with it."""
    with refused(ValueError, "MAX_POOLING_GRAD: InputTensor.Sizes[", "as in OutputGradientTensor"):
        operator("MaxPoolingGrad", InputTensor=tensor(sizes))
