"""PyTorch's own samples in the other types: within cudml's bounds of float64's results, or refused.

What is exact is PyTorch's result in float64 for the same numbers, whatever it does in their type.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from typing import Any

import pytest

from harness import FLOATS, refused

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml.torch  # noqa: E402
from cudml.torch import functional  # noqa: E402
from tests.torch.comparing import (  # noqa: E402
    Recorder,
    assert_inside,
    bounds_of,
    bounds_of_gradients,
    gradient_of,
)
from tests.torch.test_opinfo import ASKS_FOR_ALL, OPERATORS, has_duplicates, rule  # noqa: E402

MOST = 24 if ASKS_FOR_ALL else 12  # samples of an operator in one type, drawn of more
NARROW = [getattr(torch, name) for name in FLOATS if name != "float64"]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
NO_INTEGERS = "operators that compute have floating-point types, as DirectML's"
# Types that torch's operators have and cudml's do not: start of the name, types, and the rule.
LACKING: list[tuple[str, tuple[str, ...], str]] = [
    ("avg_pool", ("int64",), NO_INTEGERS),
    ("pad", ("bool", "complex64", "complex128", "float8_e4m3fn"), "DirectML has no such type"),
    ("rms_norm", ("complex64", "complex128"), "DirectML has no such type"),
]
LATER = ("float8_e4m3fn",)  # which older releases have no operators for, and cudml no name


def name_of(op: Any) -> str:
    return str(op.name.removeprefix("nn.functional."))


def short(value: Any) -> str:
    """The name of a case."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return f"{value.name}-{value.variant_test_name}"


def samples(op: Any, dtype: Any) -> Iterator[Any]:
    """Those that do not differ by a rule."""
    made = op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)
    chosen = [s for s in made if not rule(name_of(op), s)]
    drawn = random.Random(len(chosen)).sample(range(len(chosen)), min(len(chosen), MOST))
    yield from (chosen[i] for i in sorted(drawn))


def arguments(name: str, sample: Any) -> dict[str, Any]:
    """A sample's arguments by name; what is written to is a copy."""
    signature = inspect.signature(getattr(functional, name))
    given = signature.bind(sample.input, *sample.args, **sample.kwargs).arguments
    is_stored = [key.startswith("running") and given[key] is not None for key in given]
    return {
        key: value.clone() if stored else value
        for (key, value), stored in zip(given.items(), is_stored, strict=True)
    }


def widened(given: dict[str, Any]) -> dict[str, Any]:
    """The same numbers in float64, as leaves of their own."""
    wide = {}
    for key, value in given.items():
        is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
        wide[key] = value
        if is_real:
            wide[key] = value.detach().double().requires_grad_(value.requires_grad)
    return wide


def called(module: Any, name: str, given: dict[str, Any]) -> Any:
    rest = dict(given)
    return getattr(module, name)(rest.pop("input"), **rest)


def cropped(given: dict[str, Any]) -> list[int]:
    """How much less than nothing is put before and behind each dimension."""
    return [max(-n, 0) for n in given.get("pad", ())]


def assert_near(got: Any, exact: Any, bound: Any) -> None:
    """Within the bound, and what float64 rounds off numbers of a size of 1."""
    assert_inside(got, exact, bound + 1e-12)


def assert_gradients(name: str, pair: Any, both: Any, recorder: Recorder) -> None:
    """Of both results with respect to the tensors that want one."""
    wanted = [k for k, v in both[0].items() if isinstance(v, torch.Tensor) and v.requires_grad]
    grad = gradient_of(pair[0])
    found, exact = (
        torch.autograd.grad(y, [given[k] for k in wanted], grad.to(y.dtype))
        for y, given in zip(pair, both, strict=True)
    )
    if name.startswith("max_unpool") or not recorder.calls:
        assert all(torch.equal(a, b.to(a.dtype)) for a, b in zip(found, exact, strict=True))
        return
    listed = bounds_of_gradients(recorder, grad)
    rooms = dict(zip(("input", "weight", "bias"), listed, strict=False))
    for key, got, want in zip(wanted, found, exact, strict=True):
        room = rooms[key]
        if any(cropped(both[0])):
            room = torch.nn.functional.pad(torch.tensor(room), cropped(both[0])).numpy()
        assert_near(got, want, room)


def compared(name: str, sample: Any, monkeypatch: Any) -> None:
    recorder = Recorder(monkeypatch, cudml.torch)
    given = arguments(name, sample)
    if name == "rms_norm" and given.get("eps") is None:
        given["eps"] = torch.finfo(sample.input.dtype).eps
    both = (given, widened(given))
    pair = [
        called(m, name, g) for m, g in zip((functional, torch.nn.functional), both, strict=True)
    ]
    if isinstance(pair[0], tuple):
        assert torch.equal(pair[0][1], pair[1][1])
        pair = [first for first, _ in pair]
    got, want = pair
    assert got.dtype == sample.input.dtype and got.shape == want.shape
    if recorder.calls:
        canonical, args, kwargs = recorder.calls[-1]
        assert_near(got, want, bounds_of(canonical, *args, **kwargs)[0])
    else:
        assert torch.equal(got, want.to(got.dtype))  # a mere slice
    if want.requires_grad and not has_duplicates(name, sample):
        assert_gradients(name, pair, both, recorder)


@pytest.mark.parametrize("dtype", NARROW, ids=short)
@pytest.mark.parametrize("op", OPERATORS, ids=short)
def test_samples_of_other_precision(op: Any, dtype: Any, monkeypatch: Any) -> None:
    seen = 0
    for sample in samples(op, dtype):
        with monkeypatch.context() as patch:
            compared(name_of(op), sample, patch)
        seen += 1
    assert seen >= 2


def of_types(chosen: Any) -> list[Any]:
    """Pairs of an operator and a type that torch has it for."""
    return [
        pytest.param(op, dtype, id=f"{short(op)}-{short(dtype)}")
        for op in OPERATORS
        for dtype in sorted(op.dtypes, key=str)
        if chosen(name_of(op), short(dtype))
    ]


def is_lacking(name: str, dtype: str) -> bool:
    return any(name.startswith(start) and dtype in types for start, types, _ in LACKING)


@pytest.mark.parametrize(
    ("op", "dtype"), of_types(lambda name, dtype: dtype in INTEGERS and not is_lacking(name, dtype))
)
def test_samples_of_integers(op: Any, dtype: Any) -> None:
    """Maxima and padding copy them; torch's maxima are those of the same numbers in float64, as
    old releases take wrong ones of integers in channels_last."""
    name = name_of(op)
    for sample in samples(op, dtype):
        given = arguments(name, sample)
        wide = {"input": sample.input.double()} if name.startswith("max_") else {}
        got = called(functional, name, given)
        want = called(torch.nn.functional, name, {**given, **wide})
        if isinstance(got, tuple):
            assert torch.equal(got[1], want[1])
            got, want = got[0], want[0]
        assert got.dtype == dtype and torch.equal(got, want.to(dtype))


@pytest.mark.parametrize(("op", "dtype"), of_types(is_lacking))
def test_types_that_are_lacking(op: Any, dtype: Any) -> None:
    name = name_of(op)
    words = "DLPack's type code 10" if short(dtype) in LATER else short(dtype)
    for sample in samples(op, dtype):
        with refused(TypeError, words):
            called(functional, name, arguments(name, sample))


def test_every_type_of_torchs_is_tested() -> None:
    """Those of the operators are compared or listed, and none is listed that is not there."""
    known = {"float16", "bfloat16", "float32", "float64", *INTEGERS}
    there = {(name_of(op), short(dtype)) for op in OPERATORS for dtype in op.dtypes}
    assert all(dtype in known or is_lacking(name, dtype) for name, dtype in there)
    for start, types, _ in LACKING:
        old = [t for t in types if t not in LATER]
        assert all(any(n.startswith(start) and d == t for n, d in there) for t in old)
