"""The code of a model's classes: every function of one, read as a tree.

Those that a class has from its bases, and those that its decorators hold, are among them. What
cannot be read counts as what may do anything.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

import torch

CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
_FUNCTIONS: tuple[type, ...] = (types.FunctionType, types.MethodType)
_ONE = (staticmethod, classmethod)
_PARTIAL = (functools.cached_property, functools.partial, functools.partialmethod)


class Code:
    """A function's tree, the parent of each node, and its own name of the module it belongs to."""

    def __init__(self, tree: Any, arguments: list[str]) -> None:
        self.tree = tree
        self.own = arguments[0] if arguments else ""
        self.parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }

    def loads(self, name: str) -> list[ast.Name]:
        """Where a variable is read."""
        found = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id == name)
        return [n for n in found if isinstance(n.ctx, ast.Load)]

    def path(self, node: ast.AST) -> str:
        """Where an expression leads from the module: "act" of self.act; "" if from elsewhere."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        return ".".join(names) if isinstance(node, ast.Name) and node.id == self.own else ""


@functools.lru_cache(maxsize=4096)
def read(code: types.CodeType) -> Code | None:
    """A function's tree; None where its source is not at hand, or another one than it is of."""
    try:
        text = inspect.getsource(code)
        tree: Any = ast.parse(f"if True:\n{text}" if text[0].isspace() else text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    tree = tree.body[0] if isinstance(tree, ast.If) else tree
    if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)) or tree.name != code.co_name:
        return None
    arguments = [a.arg for a in (*tree.args.posonlyargs, *tree.args.args)]
    is_of_it = arguments == list(code.co_varnames[: code.co_argcount])
    return Code(tree, arguments) if is_of_it else None


@functools.lru_cache(maxsize=16384)
def names(code: types.CodeType) -> frozenset[str]:
    """What a function and those in it read or call by name, or name in a string."""
    inner = (names(c) for c in code.co_consts if isinstance(c, types.CodeType))
    own = (*code.co_names, *(c for c in code.co_consts if isinstance(c, str)))
    return frozenset(own).union(*inner)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _inner(value: Any) -> list[Any]:
    """What a method of whatever kind is made of."""
    if isinstance(value, types.FunctionType):
        cells = [c.cell_contents for c in value.__closure__ or () if _is_filled(c)]
        return [*cells, getattr(value, "__wrapped__", None)]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, (types.MethodType, *_ONE)):
        return [value.__func__]
    return [value.func] if isinstance(value, _PARTIAL) else []


def _codes(value: Any, seen: set[types.CodeType]) -> Iterator[types.CodeType]:
    if isinstance(value, types.FunctionType):
        if value.__code__ in seen:
            return
        seen.add(value.__code__)
        yield value.__code__
    for inner in _inner(value):
        yield from _codes(inner, seen)


def functions(module: torch.nn.Module) -> list[types.CodeType]:
    """Those of a module's class and its bases, and what was put in the place of one.

    A base's function that another one of its name replaces is left out, unless that is called.
    """
    seen: set[types.CodeType] = set()
    found: list[types.CodeType] = []
    replaced: set[str] = set()
    own = {k: v for k, v in vars(module).items() if isinstance(v, _FUNCTIONS)}
    for kind in type(module).__mro__:
        if kind in (torch.nn.Module, object, *CONTAINERS):
            continue
        words = {"super", kind.__name__}
        called = {n for code in found for n in names(code) if words & names(code)}
        held = {k: v for k, v in vars(kind).items() if k not in replaced or k in called}
        found += [code for value in held.values() for code in _codes(value, seen)]
        replaced.update(vars(kind))
    return found + [code for value in own.values() for code in _codes(value, seen)]
