"""Refusals that operators share: wrong numbers, hostile objects, and what they must leave alone."""

from __future__ import annotations

import decimal
import fractions
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import Problem, every_operator, make, same
from harness import data, refused

POOLS = (
    "max_pooling", "max_pooling_grad", "average_pooling", "average_pooling_grad", "lp_pooling",
    "lp_pooling_grad",
)  # fmt: skip
GEOMETRY = {
    "window_size": "WindowSize",
    "strides": "Strides",
    "start_padding": "StartPadding",
    "end_padding": "EndPadding",
    "dilations": "Dilations",
}
EVERY_FIELD = [(op, name) for op in POOLS for name in GEOMETRY] + [
    ("padding", "start_padding"),
    ("padding", "end_padding"),
]
NO_INTEGER: list[Any] = [
    1.0, 2.5, "2", b"2", 1 + 0j, True, False, np.True_, np.float32(2), np.float64(1),
    fractions.Fraction(2), decimal.Decimal(2), object(), int, {}, np.datetime64(2, "s"),
]  # fmt: skip


class Index:
    """An object whose __index__ does what it is told."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act
        self.calls = 0

    def __index__(self) -> Any:
        self.calls += 1
        return self.act()


def keyword_call(op: str) -> tuple[Problem, dict[str, Any]]:
    """A good call of `op` with its geometry by keyword."""
    p = make(op, (1, 2, 5, 7))
    names = ["start_padding", "end_padding"] if op == "padding" else list(GEOMETRY)[:4]
    given = dict(zip(names, p.args[-len(names) :], strict=True))
    if op != "padding":
        given["dilations"] = 1
    return Problem(op, p.arrays, p.args[: len(p.args) - len(names)], {**p.kwargs, **given}), given


def refuse(op: str, kind: Any, *fragments: str, **changes: Any) -> None:
    """Refused with these fragments; `out` keeps every byte; the next call works."""
    p, _ = keyword_call(op)
    outputs = make(op, (1, 2, 5, 7)).outputs()
    with refused(kind, op + ": ", *fragments):
        p(out=outputs[0], **changes)
    assert all((y.view(np.uint8) == 255).all() for y in outputs)
    assert not make(op, (1, 2, 5, 7)).problem(p.run())


def test_the_helper_calls_what_make_calls() -> None:
    for op in (*POOLS, "padding"):
        assert same(keyword_call(op)[0].run(), make(op, (1, 2, 5, 7)).run())


@pytest.mark.core
@pytest.mark.parametrize(("op", "name"), EVERY_FIELD)
def test_numbers_out_of_range(op: str, name: str) -> None:
    """The value, its field and its place are named; a scalar stands for every dimension."""
    length = 4 if op == "padding" else 2
    lowest = 0 if "padding" in name else 1
    for value in {-1, lowest - 1, -(2**31), -(2**64), 2**32, 2**63, 2**64, 10**30}:
        refuse(op, ValueError, GEOMETRY[name], str(value), "4294967295", **{name: value})
        for place in range(length):
            numbers = [1] * length
            numbers[place] = value
            where = f"{GEOMETRY[name]}[{place}] is {value}"
            refuse(op, ValueError, where, "4294967295", **{name: numbers})


@pytest.mark.bug("PAD-09")
@pytest.mark.decision("D-PAD-9")
def test_negative_pads_name_slicing() -> None:
    refuse("padding", ValueError, "StartPadding[1] is -2", "slic", start_padding=[0, -2, 0, 0])
    refuse("padding", ValueError, "EndPadding[3] is -1", "slic", end_padding=[0, 0, 0, -1])


@pytest.mark.core
@pytest.mark.parametrize(("op", "name"), EVERY_FIELD)
def test_what_is_no_integer(op: str, name: str) -> None:
    length = 4 if op == "padding" else 2
    for odd in NO_INTEGER:
        refuse(op, TypeError, GEOMETRY[name], **{name: odd})
        refuse(op, TypeError, f"{GEOMETRY[name]}[1]", **{name: [1, odd, *[1] * (length - 2)]})
    refuse(op, TypeError, GEOMETRY[name], **{name: None})


@pytest.mark.parametrize(("op", "name"), EVERY_FIELD)
def test_anything_with_an_index_is_an_integer(op: str, name: str) -> None:
    p, given = keyword_call(op)
    length = 4 if op == "padding" else 2
    numbers = [given[name]] * length if isinstance(given[name], int) else list(given[name])
    kinds: list[Callable[[int], Any]] = [np.int8, np.uint8, np.int64, np.uint64, np.array]
    kinds.append(lambda n: Index(lambda: n))
    want = p.run()
    for kind in kinds:
        for sequence in (list, tuple):
            assert same(p.run(**{name: sequence(kind(n) for n in numbers)}), want)
    assert same(p.run(**{name: np.array(numbers)}), want)
    if isinstance(given[name], int):
        assert same(p.run(**{name: Index(lambda: given[name])}), want)


@pytest.mark.parametrize(("op", "name"), EVERY_FIELD)
def test_sequences_of_the_wrong_length_or_kind(op: str, name: str) -> None:
    length = 4 if op == "padding" else 2
    for count in {0, 1, length - 1, length + 1, 9, 100}:
        refuse(op, ValueError, GEOMETRY[name], **{name: [1] * count})
    start = time.perf_counter()
    refuse(op, ValueError, GEOMETRY[name], **{name: range(10**9)})
    assert time.perf_counter() - start < 1
    odd: list[Any] = ["1" * length, b"1" * length, {1: 1}, {1}, iter([1] * length), [[1]] * length]
    for sequence in odd:
        refuse(op, TypeError, GEOMETRY[name], **{name: sequence})


class Sequence:
    """A sequence that says it has `length` items and gives what `item` returns."""

    def __init__(self, length: Any, item: Callable[[int], Any]) -> None:
        self.length, self.item = length, item

    def __len__(self) -> Any:
        return self.length

    def __getitem__(self, place: int) -> Any:
        return self.item(place)


def fail() -> Any:
    raise ZeroDivisionError("from the object")


@pytest.mark.parametrize(("op", "name"), EVERY_FIELD)
def test_hostile_objects(op: str, name: str) -> None:
    """Errors of the object come through; lies about lengths and types end in an error."""
    length = 4 if op == "padding" else 2
    p, _ = keyword_call(op)
    for odd in (
        Index(fail),
        [1] * (length - 1) + [Index(fail)],
        Sequence(length, lambda i: fail()),
    ):
        with pytest.raises(ZeroDivisionError, match="from the object"):
            p.run(**{name: odd})
    for value in (1.5, "1", None):
        with pytest.raises(TypeError):
            p.run(**{name: Index(lambda value=value: value)})
    lies: list[Any] = [Sequence(-1, lambda i: 1), Sequence(2**70, lambda i: 1)]
    lies += [Sequence("2", lambda i: 1), Sequence(2**40, lambda i: 1)]
    for odd in lies:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            p.run(**{name: odd})
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises((TypeError, ValueError, RecursionError)):
        p.run(**{name: deep * length})
    assert not make(op, (1, 2, 5, 7)).problem(p.run())


@pytest.mark.parametrize("op", POOLS)
def test_lists_that_change_while_they_are_read(op: str) -> None:
    """An __index__ that empties the list it stands in, or the array it is called for."""
    p, _ = keyword_call(op)
    for name in GEOMETRY:
        numbers: list[Any] = []
        numbers += [Index(lambda held=numbers: held.clear() or 1), Index(lambda: 1)]
        try:
            p.run(**{name: numbers})
        except (ValueError, TypeError, IndexError, RuntimeError) as error:
            assert "pybind11" not in str(error)
    assert not make(op, (1, 2, 5, 7)).problem(p.run())


def test_an_array_that_changes_shape_while_arguments_are_read() -> None:
    """The array is looked at once: what an argument does to it then changes nothing worse."""
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    evil = Index(lambda: setattr(x, "shape", (1, 1, 1, 36)) or 2)
    y = cudml.max_pooling(x, [2, evil])
    assert y.shape == (1, 1, 5, 5) and y[0, 0, 0, 0] == 7


@every_operator
def test_keywords(label: str) -> None:
    p = make(label)
    with refused(TypeError, "bogus"):
        p(bogus=1)
    arrays = list(p.arrays.values())
    operator = getattr(cudml, p.op)
    with refused(TypeError):
        operator()
    with refused(TypeError):
        operator(*arrays, *p.args, *[1] * 12)
    with refused(TypeError, p.first):
        operator(*arrays, *p.args, **{p.first: arrays[0]})


@pytest.mark.parametrize("op", [op for op in POOLS if not op.endswith("_grad")])
def test_output_sizes(op: str) -> None:
    p, _ = keyword_call(op)
    for odd in (1.5, True, "floor", [1, 1.5], ["ceil", "ceil"], [None, None], {}):
        kind = ValueError if odd == "floor" else TypeError
        with refused(kind, op + ": "):
            p.run(output_sizes=odd)
    for sizes in ([0, 1], [1, 0], [-1, 1], [1], [1, 1, 1], [100, 1], [1, 2**32], [2**64, 1]):
        with refused(ValueError, op + ": "):
            p.run(output_sizes=sizes)


@pytest.mark.parametrize("op", [*POOLS[:5], "mean_variance_normalization"])
def test_axes(op: str) -> None:
    p = make(op)
    kwargs = {k: v for k, v in p.kwargs.items() if k != "axes"}
    q = Problem(op, p.arrays, p.args, kwargs)
    for odd in (1.5, "2", True, [2, 2.5], [2, "3"], {2: 3}, b"23", [True, False]):
        with refused(TypeError, op + ": "):
            q.run(axes=odd)
    for axes in ([2, 4], [-5, 3], [3, 3], [2, -2], [2**32, 3], [-(2**70)], [10**30], range(10**9)):
        with refused(ValueError, op + ": "):
            q.run(axes=axes)
    with pytest.raises(ZeroDivisionError, match="from the object"):
        q.run(axes=[2, Index(fail)])


@pytest.mark.parametrize("op", ["average_pooling_grad"])
def test_input_sizes(op: str) -> None:
    p = make(op)
    for odd in (1.5, "2357", None, [2, 3, 5, 7.0], [2, 3, 5, True], {}, object()):
        with refused(TypeError, op + ": "):
            p_args = (odd, *p.args[1:])
            Problem(op, p.arrays, p_args, {}).run()
    wrong = [[2, 3, 5], [2, 3, 5, 7, 1], [2, 3, 5, 0], [2, 3, -5, 7], [2, 4, 5, 7], []]
    wrong += [[2**32, 3, 5, 7], [2, 3, 2**64, 7], [2, 3, 5, 10**30], [2, 3, 3, 7]]
    for sizes in wrong:
        with refused(ValueError, op + ": "):
            Problem(op, p.arrays, (sizes, *p.args[1:]), {}).run()


@pytest.mark.bug("RUN-13", "GRAD-06")
def test_sizes_of_a_second_array() -> None:
    """A gradient must fit the forward output (D-POOL-2); scale and bias have x's sizes or 1."""
    p = make("max_pooling_grad")
    shape = p.arrays["grad"].shape
    for axis in range(4):
        for delta in (-1, 2) if axis < 2 else (2,):
            wrong = [n + delta * (a == axis) for a, n in enumerate(shape)]
            with refused(ValueError, "max_pooling_grad: ", str(wrong[axis])):
                p.run(grad=np.zeros(wrong, np.float32))
    p = make("mean_variance_normalization")
    for name, field in (("scale", "ScaleTensor"), ("bias", "BiasTensor")):
        for wrong in [(2, 3, 5, 6), (1, 2, 1, 1), (0, 1, 1, 1), (2, 3, 10, 7)]:
            with refused(ValueError, p.op + ": ", field):
                p.run(**{name: np.ones(wrong, np.float32)})
        for wrong in [(3,), (3, 5, 7), (1, 1, 3, 1, 1)]:
            with refused(ValueError, p.op + ": ", field):
                p.run(**{name: np.ones(wrong, np.float32)})


@pytest.mark.parametrize("op", POOLS[:1] + POOLS[2:3] + POOLS[4:5])
def test_vast_windows_over_one_element_are_quick(op: str) -> None:
    """2^30 taps of which one is real, and a window no one can hold: both answered at once."""
    x = np.full((1, 1, 1, 1), 3, np.float32)
    start = time.perf_counter()
    y = getattr(cudml, op)(x, 2**30 + 1, 1, 2**30, 0)
    assert y.shape == (1, 1, 1, 1) and y.item() == 3
    y = getattr(cudml, op)(x, 2**29, 2**29, 2**29, 2**29, output_sizes=(2, 2))
    assert y.shape == (1, 1, 2, 2)
    with refused(ValueError, op + ": "):
        getattr(cudml, op)(x, 2**32 - 1, 1, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    assert time.perf_counter() - start < 2


def test_results_too_large_for_any_memory() -> None:
    """Sizes known before anything is allocated: an error at once, whatever the product."""
    x = np.zeros((1,) * 8, np.float64)
    start = time.perf_counter()
    for pad in (2**32 - 2, 2**31, 2**20):
        with pytest.raises((ValueError, MemoryError)) as caught:
            cudml.padding(x, 0, pad)
        assert "pybind11" not in str(caught.value)
    with refused(ValueError, "padding: "):
        cudml.padding(x, 2**32 - 1, 2**32 - 1)
    assert time.perf_counter() - start < 2


def test_numbers_of_normalization_and_padding() -> None:
    x = data((2, 3), "float32")
    for odd in ("1e-5", None, [1e-5], 1j, object(), b"", True):
        with refused(TypeError, "mean_variance_normalization: ", "Epsilon"):
            cudml.mean_variance_normalization(x, axes=1, epsilon=odd)
        if odd is True or odd is None or isinstance(odd, (str, bytes, list, complex)):
            with refused(TypeError, "padding: ", "PaddingValue"):
                cudml.padding(x, 1, 1, value=odd)
    for odd in (-1.0, float("nan"), float("inf"), -float("inf"), 10**400):
        with refused(ValueError, "mean_variance_normalization: ", "Epsilon"):
            cudml.mean_variance_normalization(x, axes=1, epsilon=odd)
    for odd in ("bogus", "CONSTANT ", "", ["edge"], ["edge"] * 3, []):
        with refused(ValueError, "padding: ", "PaddingMode"):
            cudml.padding(x, 1, 1, mode=odd)
    for odd in (1, None, b"edge", [1, 2], {"edge": 1}, object()):
        with refused(TypeError, "padding: ", "PaddingMode"):
            cudml.padding(x, 1, 1, mode=odd)


class Shaped:
    """Its text has several lines; `shape` is what it is told."""

    def __init__(self, shape: Any, text: str = "a\nb") -> None:
        self._shape, self._text = shape, text

    def __repr__(self) -> str:
        return self._text

    @property
    def shape(self) -> Any:
        if isinstance(self._shape, BaseException):
            raise self._shape
        return self._shape


def test_arrays_are_told_by_their_shape() -> None:
    """Where their numbers take several lines, or many characters."""
    x, row = np.ones((3, 50), "f4"), np.ones((1, 50), "f4")

    def refusal(out: Any) -> str:
        with pytest.raises(TypeError) as info:
            cudml.mean_variance_normalization_grad(x, x, row, axes=1, out=out)
        before, _, said = str(info.value).partition(": out is ")
        assert before == "mean_variance_normalization_grad", before
        return said.partition("; it must be a tuple or list of 3")[0]

    assert refusal(x) == "an array of shape (3, 50) (ndarray)"
    assert refusal(np.ones((2, 100))[0]) == "an array of shape (100,) (ndarray)"
    assert refusal(np.array([1, 2])) == "array([1, 2]) (ndarray)"
    for text in ("a\nb", "\nb", "a\n"):
        assert refusal(Shaped((2, 3), text)) == "an array of shape (2, 3) (Shaped)"
    for odd in ([2, 3], "(2, 3)", None, ValueError("odd")):
        assert refusal(Shaped(odd)) == r"a\x0ab (Shaped)"
    with pytest.raises(KeyboardInterrupt):
        refusal(Shaped(KeyboardInterrupt()))
