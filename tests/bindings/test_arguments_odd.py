"""Arguments that only look like numbers, sequences or names, and how refusals show them."""

from __future__ import annotations

import array
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml import directml
from directml_support import desc_of
from exporters import Exporter, Interface
from harness import data, refused

X = data((1, 2, 4, 4), "float32")
LONG = "ab" * 5_000_000


def normalize(**changes: Any) -> Any:
    return cudml.mean_variance_normalization(X, **{"axes": 3, **changes})


@pytest.mark.parametrize(
    "digits",
    [memoryview(b"22"), array.array("b", b"22"), np.frombuffer(b"22", "S2")],
    ids=["memoryview", "array", "bytes"],
)
def test_buffers_are_no_numbers(digits: Any) -> None:
    """Python's float() would read their bytes as digits."""
    with refused(TypeError, "Epsilon"):
        normalize(epsilon=digits)
    with refused(TypeError, "PaddingValue"):
        cudml.padding(X, 1, 1, value=digits)
    with refused(TypeError, "FusedActivation.alpha"):
        normalize(activation=("elu", {"alpha": digits}))
    with refused(TypeError, "Epsilon"):
        cudml.Operator(desc_of("MeanVarianceNormalization2", Epsilon=digits))


@pytest.mark.decision("D-PAD-5")
@pytest.mark.parametrize(
    "value",
    [np.array(True), np.array("2"), np.array(2j), np.array(b"2", object), np.timedelta64(2)],
    ids=repr,
)
def test_arrays_without_dimensions_are_what_their_element_is(value: Any) -> None:
    for x in (X, X.astype("int32")):
        with refused(TypeError, "PaddingValue is ", "it must be a real number"):
            cudml.padding(x, 1, 1, value=value)
    with refused(TypeError, "Epsilon is ", "it must be a real number"):
        normalize(epsilon=value)


def test_elements_of_arrays_without_dimensions() -> None:
    whole = cudml.padding(X.astype("int64"), 1, 1, value=np.array(2**53 + 1))
    assert whole[0, 0, 0, 0] == 2**53 + 1
    for two in (np.array(2.0), np.array(2), np.array(2, object), np.array(2, np.longdouble)):
        assert cudml.padding(X, 1, 1, value=two)[0, 0, 0, 0] == 2
        assert normalize(epsilon=two).tobytes() == normalize(epsilon=2.0).tobytes()


def test_ratios_that_are_none() -> None:
    class Half:
        def __float__(self) -> float:
            return 0.5

        def as_integer_ratio(self) -> Any:
            return 1j, 2

    with refused(TypeError, "real number"):
        cudml.padding(X, 1, 1, value=Half())


@pytest.mark.parametrize("entry", [np.array(1.5), np.array([1]), np.array(True)], ids=repr)
def test_entries_of_descriptors_that_are_arrays(entry: Any) -> None:
    with refused(TypeError, "MAX_POOLING2: Strides[1] is ", "it must be an int"):
        cudml.Operator(desc_of("MaxPooling2", Strides=[1, entry]))


RAW = memoryview(bytes([1, 2]))
MEMORY: dict[str, tuple[str, Callable[[], Any]]] = {
    "window_size": ("WindowSize", lambda: cudml.max_pooling(X, RAW)),
    "strides": ("Strides", lambda: cudml.max_pooling(X, 2, RAW)),
    "output_sizes": ("OutputTensor.Sizes", lambda: cudml.max_pooling(X, 2, output_sizes=RAW)),
    "axes": ("Axes", lambda: normalize(axes=RAW)),
    "padding": ("StartPadding", lambda: cudml.padding(X, memoryview(bytes(4)), 0)),
    "input_sizes": (
        "OutputGradientTensor.Sizes",
        lambda: cudml.average_pooling_grad(X, memoryview(bytes([1, 2, 4, 4])), 1),
    ),
    "descriptor": (
        "WindowSize",
        lambda: cudml.Operator(desc_of("MaxPooling2", WindowSize=memoryview(bytes([2, 2])))),
    ),
    "tensor": (
        "Sizes",
        lambda: cudml.Operator(
            desc_of("Padding1", InputTensor=directml.BufferTensorDesc("FLOAT32", RAW))
        ),
    ),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_no_sequence_of_numbers(name: str) -> None:
    field, call = MEMORY[name]
    with refused(TypeError, field, "memory"):
        call()


HUGE = range(10**30)
COUNTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "window_size": ("WindowSize", lambda v: cudml.max_pooling(X, v)),
    "axes": ("Axes", lambda v: normalize(axes=v)),
    "padding": ("StartPadding", lambda v: cudml.padding(X, v, 0)),
    "input_sizes": ("Sizes", lambda v: cudml.average_pooling_grad(X, v, 1)),
    "descriptor": ("WindowSize", lambda v: cudml.Operator(desc_of("MaxPooling2", WindowSize=v))),
    "tensor": (
        "Sizes",
        lambda v: cudml.Operator(
            desc_of("Padding1", InputTensor=directml.BufferTensorDesc("FLOAT32", v))
        ),
    ),
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("entries", [range(10**30), range(10**10)], ids=repr)
def test_more_entries_than_there_is_memory(name: str, entries: range) -> None:
    field, call = COUNTED[name]
    with refused((TypeError, ValueError), field) as caught:
        call(entries)
    assert not isinstance(caught.value, OverflowError)


def test_arrays_without_entries_are_sequences() -> None:
    assert (normalize(axes=np.array([], int)) == normalize(axes=())).all()
    with refused(ValueError, "max_pooling: WindowSize"):
        cudml.max_pooling(X, np.array([], int))


class Named:
    """An object that is written like a type."""

    def __repr__(self) -> str:
        return "torch.int64"


def test_types_of_indices_are_not_told_by_their_text() -> None:
    for fake in (Named(), type("int64", (), {}), type("dtype", (), {"name": "int64"})()):
        with refused(TypeError, "index_dtype is", "uint32, uint64 or int64"):
            cudml.max_pooling(X, 2, return_indices=True, index_dtype=fake)
    for kind in ("int64", np.int64, np.dtype("int64"), np.dtype("int64").str):
        _, indices = cudml.max_pooling(X, 2, return_indices=True, index_dtype=kind)
        assert indices.dtype == np.int64


def test_types_of_indices_may_be_torch_s() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    _, indices = cudml.max_pooling(X, 2, return_indices=True, index_dtype=torch.int64)
    assert indices.dtype == np.int64
    with refused(TypeError, "index_dtype is torch.int32"):
        cudml.max_pooling(X, 2, return_indices=True, index_dtype=torch.int32)


class Typed:
    """What `explain` takes for an array."""

    shape = (1, 2, 4, 4)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


def compiled() -> Any:
    return cudml.Operator(desc_of("MaxPooling2")).compile("cpu")


# Wherever a refusal shows a text that the caller has chosen.
TEXTS: dict[str, Callable[[str], Any]] = {
    "mode": lambda s: cudml.padding(X, 0, 0, mode=s),  # type: ignore[arg-type]
    "activation": lambda s: normalize(activation=s),
    "parameter": lambda s: normalize(activation=("elu", {s: 1})),
    "parameter's value": lambda s: normalize(activation=("elu", {s: "text"})),
    "output_sizes": lambda s: cudml.max_pooling(X, 2, output_sizes=s),
    "index_dtype": lambda s: cudml.max_pooling(X, 2, index_dtype=s),
    "flag": lambda s: cudml.average_pooling(X, 2, include_padding=s),  # type: ignore[arg-type]
    "element type": lambda s: cudml.max_pooling(np.zeros((1, 1, 4, 4), [(s, "f4")]), 2),
    "interface": lambda s: cudml.max_pooling(Interface(X, typestr=s), 2),
    "operator": lambda s: cudml.explain(s, X, 2),
    "family": lambda s: cudml.kernels(s),
    "explained device": lambda s: cudml.explain("max_pooling", X, 2, device=s),
    "explained type": lambda s: cudml.explain("max_pooling", Typed(s), 2),
    "device": lambda s: cudml.Operator(desc_of("MaxPooling2")).compile(s),
    "keyword": lambda s: compiled()(X, **{s: 1}),
    "threads": lambda s: cudml.set_num_threads(s),  # type: ignore[arg-type]
    "descriptor": lambda s: cudml.Operator(s),  # type: ignore[arg-type]
    "WindowSize": lambda s: cudml.Operator(desc_of("MaxPooling2", WindowSize=s)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_refusals_stay_short(name: str) -> None:
    with refused((TypeError, ValueError)) as caught:
        TEXTS[name](LONG)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", TEXTS)
def test_refusals_go_on_after_a_nul(name: str) -> None:
    with refused((TypeError, ValueError)) as caught:
        TEXTS[name]("od\0d")
    assert re.search(r"od\\x00d.*\w{3}", str(caught.value)), str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_refusals_hold_no_control_characters(name: str) -> None:
    """Not those beyond ASCII either, which some terminals obey."""
    for code in (0x1B, 0x7F, 0x80, 0x9B, 0x9F):
        with refused((TypeError, ValueError)) as caught:
            TEXTS[name](f"od{chr(code)}[31md")
        assert not re.search("[\x00-\x1f\x7f-\x9f]", str(caught.value)), str(caught.value)


def test_names_of_types_stay_short() -> None:
    thing = type(LONG, (), {})()
    for call in (
        lambda: cudml.max_pooling(thing, 2),
        lambda: cudml.max_pooling(X, thing),
        lambda: cudml.Operator(thing),
        lambda: cudml.explain("max_pooling", thing, 2),
    ):
        with refused(TypeError) as caught:
            call()
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("says", "wanted"),
    [
        ({"code": 3, "bits": 64}, "is of DLPack's type code 3 with 64 bits;"),
        ({"code": 10, "bits": 8}, "is of DLPack's type code 10 with 8 bits, float8_e4m3fn;"),
        ({"code": 18, "bits": 8}, "is of DLPack's type code 18 with 8 bits;"),
        ({"code": 6, "bits": 8}, "is bool;"),
        ({"code": 5, "bits": 64}, "is complex64;"),
        ({"code": 4, "bits": 32}, "is bfloat32;"),
        ({"code": 2, "bits": 8, "lanes": 2}, "is float8 in 2 lanes;"),
    ],
)
def test_element_types_of_capsules(says: dict[str, int], wanted: str) -> None:
    with refused(TypeError, f"max_pooling: InputTensor.DataType (x) {wanted}"):
        cudml.max_pooling(Exporter(X, **says), 2)


INTERRUPTED = """
import numpy as np
import cudml
from directml_support import desc_of
from exporters import Exporter, Interface

X = np.ones((1, 2, 4, 4), 'f4')

def stop(*_, **__):
    raise KeyboardInterrupt

class Number:
    __index__ = stop

class Text:
    __repr__ = stop

class Long(list):
    __len__ = stop

class Typed:
    dtype = property(stop)

class Truth:
    __bool__ = stop

class Exported(Exporter):
    def __dlpack_device__(self):
        return Number(), 0

calls = {
    'text': lambda: cudml.max_pooling(X, Text()),
    'length': lambda: cudml.max_pooling(X, Long([2, 2])),
    'index type': lambda: cudml.max_pooling(X, 2, index_dtype=Typed()),
    'size': lambda: cudml.max_pooling(Interface(X, shape=(1, 2, 4, Number())), 2),
    'read-only': lambda: cudml.max_pooling(Interface(X, data=(X.ctypes.data, Truth())), 2),
    'device': lambda: cudml.max_pooling(Exported(X), 2),
}
for name, call in calls.items():
    try:
        call()
        print(name, 'swallowed')
    except KeyboardInterrupt:
        pass
    except BaseException as error:
        print(name, repr(error))
    cudml.max_pooling(X, 2)
print('ok')
"""


def test_interrupts_are_not_swallowed() -> None:
    assert child_says(INTERRUPTED) == "ok"


def test_a_text_that_is_cut_says_so() -> None:
    """And one that is shown whole has no mark behind it."""
    lengths = {True: 0, False: 0}
    for n in range(300):
        given = "x" * n
        with pytest.raises(TypeError) as caught:
            cudml.padding(np.zeros(3), given, 1)  # type: ignore[arg-type]
        is_whole = repr(given) in str(caught.value)
        assert ("…" in str(caught.value)) != is_whole, n
        lengths[is_whole] += 1
    assert min(lengths.values()) > 50
