"""What follows from sizes, numbers, flags and names alone, found once for each set of them.

An eager call on small tensors would take longer to check such arguments than to compute.
"""

from __future__ import annotations

import functools
import marshal
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
_MOST = 4096  # answers of a function
_PLAIN = frozenset((int, bool, float, str, type(None)))
_ABSENT: Any = object()
_FORMAT = 2  # of marshal: the last one whose bytes depend on types and values alone
_is_traced: Callable[[], bool] = torch.compiler.is_dynamo_compiling


def _is_plain(value: Any) -> bool:
    """Whether a value is of Python's own types. marshal, which tells them apart (True is not 1),
    takes NumPy's as well, and tells an integer from a float of the same bytes no more."""
    if type(value) in (tuple, list):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def kept(find: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """`find`, whose answers stay where arguments are plain: nobody may change one.

    Symbolic sizes are not, nor is a torch.Size; its tuple is.
    """
    answers: dict[bytes, _Answer] = {}
    ask: Any = find

    def answer(arguments: Any) -> Any:
        try:
            key = marshal.dumps(arguments, _FORMAT)
        except ValueError:
            return ask(*arguments)
        found: Any = answers.get(key, _ABSENT)
        if found is _ABSENT:
            found = ask(*arguments)
            if _is_plain(arguments):
                if len(answers) >= _MOST:
                    answers.clear()
                answers[key] = found
        return found

    # Compiled programs depend on all that a function holds: this one does not hold the answers.
    @functools.wraps(find)
    def look(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        if named or _is_traced():
            return find(*arguments, **named)
        found: _Answer = answer(arguments)
        return found

    return look
