"""Checks of arguments that are made once: what counts as the same arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cudml.torch import nn  # noqa: E402
from cudml.torch._kept import _MOST, kept  # noqa: E402

F = nn.functional


def counted() -> tuple[list[Any], Any]:
    calls: list[Any] = []

    @kept
    def find(*arguments: Any) -> Any:
        calls.append(arguments)
        if arguments[0] == "refused":
            raise ValueError("refused")
        return list(arguments)

    return calls, find


def test_equal_arguments_are_asked_for_once() -> None:
    calls, find = counted()
    for plain in ((1, "a", None), (2.5, (1, 2)), ([3, 4],), (((1, 2), 3),)):
        assert find(*plain) is find(*plain)
    assert len(calls) == 4
    grown = [5]
    find(grown)
    grown.append(6)
    assert find(grown) == [[5, 6]] and len(calls) == 6


def test_types_count() -> None:
    """As do values that are equal, or have the same bytes."""
    _, find = counted()
    same = np.array(2)
    values: list[Any] = [
        1, True, 1.0, "1", (1,), [1], np.int64(1), np.float64(1), np.bool_(True), -0.0, 0.0, 0,
        None, False, "", (), [], b"", same[()], same.view("float64")[()], 2,
    ]  # fmt: skip
    for _ in range(2):
        for value in values:
            (found,) = find(value)
            assert type(found) is type(value) and repr(found) == repr(value)


def test_what_may_change_is_asked_for_each_time() -> None:
    calls, find = counted()
    values = (np.array([1]), torch.tensor(1), torch.Size((1,)), {}, bytearray(1), (1, np.int64(2)))
    for value in values:
        find(value)
        find(value)
    assert len(calls) == 2 * len(values)


def test_refusals_are_repeated() -> None:
    calls, find = counted()
    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            find("refused")
    assert len(calls) == 3


def test_answers_do_not_pile_up() -> None:
    calls, find = counted()
    for n in range(_MOST + 1):
        find(n)
    find(0)  # has gone
    find(_MOST)  # is there
    assert len(calls) == _MOST + 2


@pytest.mark.parametrize(
    "wrong", [True, (2, True), 2.0, (2.0, 2), "2", None, np.array(2).view("f8")[()]]
)
def test_functions_tell_arguments_apart(wrong: Any) -> None:
    x = torch.arange(2.0 * 3 * 4 * 6).reshape(2, 3, 4, 6)
    for right in (2, (2, 2), [2, 2], np.int64(2), (np.int64(2), 2)):
        assert F.avg_pool2d(x, right).shape == (2, 3, 2, 3)
    with pytest.raises(TypeError, match="kernel_size"):
        F.avg_pool2d(x, wrong)


def test_sizes_tell_calls_apart() -> None:
    """Of x and of what is normalized, whatever call came before."""
    for rows, columns in ((4, 6), (6, 4), (2, 12)):
        x = torch.randn(2, 4, rows, columns, dtype=torch.float64)
        for groups in (1, 2, 4):
            found, want = F.group_norm(x, groups), torch.nn.functional.group_norm(x, groups)
            torch.testing.assert_close(found, want)
        for shape in ((columns,), (rows, columns)):
            found = F.layer_norm(x, shape, torch.full(shape, 2.0, dtype=torch.float64))
            want = 2 * torch.nn.functional.layer_norm(x, shape)
            torch.testing.assert_close(found, want)
        for ceil in (True, False):
            found = F.avg_pool2d(x, (2, 3), (2, 4), ceil_mode=ceil)
            want = torch.nn.functional.avg_pool2d(x, (2, 3), (2, 4), ceil_mode=ceil)
            torch.testing.assert_close(found, want)
