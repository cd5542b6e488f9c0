"""How code uses the children of modules: whether a norm's result can only go to its activation, and
whether a Sequential is only called as a whole, on every path, be it one that no trace has taken.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from cudml.torch._source import CONTAINERS, Code, functions, names, read

_WRAPPERS = {"enumerate", "zip", "reversed", "list", "tuple", "iter"}
_PAIRS = {"items", "named_children"}  # of a key and a child
_CHILDREN = {"values", "children", "_modules"} | _PAIRS
_TESTS = {"isinstance", "len", "hasattr", "id", "type", "repr", "print"}
_QUESTIONS = (ast.Compare, ast.If, ast.While, ast.IfExp, ast.UnaryOp, ast.Assert, ast.Expr,
              ast.FormattedValue)  # fmt: skip
_FORWARD = {"forward", "__call__", "_call_impl", "_wrapped_call_impl"}
_CALLERS = {"checkpoint"}  # which call their first argument
_TORCHS = ("torch.nn.parallel.", "torch.distributed.", "torch._dynamo.")  # which call the whole
_DYNAMIC = {"getattr", "get_submodule"} | _CHILDREN
Places = dict[torch.nn.Module, list[tuple[torch.nn.Module, str]]]


def _called(node: Any) -> str:
    """The last name of what a call calls."""
    func = node.func if isinstance(node, ast.Call) else None
    return getattr(func, "id", getattr(func, "attr", ""))


@dataclasses.dataclass
class _Reader:
    """Follows expressions that stand for a module, or for containers `level` steps above it.

    Below level 0 is what the module holds, which nobody may call. `is_open`: what cannot be
    followed is taken to call the whole.
    """

    code: Code
    is_open: bool = False
    seen: set[tuple[str, int]] = dataclasses.field(default_factory=set)

    def is_whole(self, node: ast.AST, level: int) -> bool:
        """Whether nothing but calls of the module as a whole, and questions, come of a node."""
        top = self._iterable(node)
        parent = self.code.parents[top]
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is top:
            target = _element(parent.target, top, node)
            return self._are_whole(target, level - 1)
        if isinstance(parent, ast.Call):
            if parent.func is top:
                return level >= 0
            if _called(parent) in _CALLERS:
                return level >= 0 and parent.args[:1] == [top]
            return self.is_open or getattr(parent.func, "id", "") in _TESTS
        if isinstance(parent, ast.Subscript) and parent.value is top:
            is_part = isinstance(parent.slice, ast.Slice) and level > 0
            return not _is_read(parent) or self.is_whole(parent, level if is_part else level - 1)
        if isinstance(parent, ast.Attribute):
            return self._is_harmless(parent, level)
        if isinstance(parent, (ast.Assign, ast.Tuple)):
            return all(self._are_whole(t, level) for t in self._variables(parent, top))
        if isinstance(parent, ast.BoolOp) or (
            isinstance(parent, ast.IfExp) and parent.test is not top
        ):
            return self.is_whole(parent, level)
        return self.is_open or isinstance(parent, _QUESTIONS)

    def _is_harmless(self, attribute: ast.Attribute, level: int) -> bool:
        """An attribute of the module, which may be its forward pass by another name."""
        return level >= 0 if attribute.attr in _FORWARD else attribute.attr not in _CHILDREN

    def _iterable(self, node: ast.AST) -> ast.AST:
        """The node as loops have it: in enumerate() and zip(), or by its values()."""
        parent = self.code.parents[node]
        if (
            isinstance(parent, ast.Call)
            and _called(parent) in _WRAPPERS
            and parent.func is not node
        ):
            return self._iterable(parent)
        if isinstance(parent, ast.Attribute) and parent.attr in _CHILDREN:
            above = self.code.parents[parent]
            is_called = isinstance(above, ast.Call) and above.func is parent
            return self._iterable(above if is_called else parent)
        return node

    def _variables(self, parent: ast.Assign | ast.Tuple, node: Any) -> list[Any]:
        """What a value is assigned to, alone or side by side with others; None: to no variable."""
        if isinstance(parent, ast.Assign):
            is_unpacked = any(not isinstance(t, ast.Name) for t in parent.targets)
            return [None] if is_unpacked else parent.targets
        above: Any = self.code.parents[parent]
        listed = [getattr(t, "elts", []) for t in getattr(above, "targets", [])]
        is_even = all(len(parts) == len(parent.elts) for parts in listed)
        if not listed or not is_even or any(isinstance(e, ast.Starred) for p in listed for e in p):
            return [None]
        return [parts[parent.elts.index(node)] for parts in listed]

    def _are_whole(self, target: ast.AST | None, level: int) -> bool:
        """The same of all that is done with variables."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(self._are_whole(t, level - 1) for t in target.elts)
        if not isinstance(target, ast.Name):
            return self.is_open
        if (target.id, level) in self.seen:
            return True
        self.seen.add((target.id, level))
        return all(self.is_whole(node, level) for node in self.code.loads(target.id))


def _is_read(node: Any) -> bool:
    return isinstance(node.ctx, ast.Load)


def _element(target: Any, iterable: Any, node: ast.AST) -> Any:
    """The part of a loop's target that stands for the elements of a node; None: not known."""
    if iterable is node or isinstance(iterable, ast.Attribute):
        return target
    name, parts = _called(iterable), getattr(target, "elts", [])
    if name in _CHILDREN:
        return (parts[1] if len(parts) == 2 else None) if name in _PAIRS else target
    if name == "enumerate":
        return _element(parts[1], iterable.args[0], node) if len(parts) == 2 else None
    if name == "zip":
        for part, each in zip(parts, iterable.args, strict=False):
            if any(n is node for n in ast.walk(each)):
                return _element(part, each, node)
        return None
    return _element(target, iterable.args[0], node)


def _own(code: Code, key: str, level: int) -> Iterator[tuple[ast.AST, int]]:
    """Expressions that stand for the child `key` of a function's own module, and their levels."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute) and _is_read(node):
            is_private = node.attr[:2] == "__" and key.endswith(node.attr)
            if is_private or (key and code.path(node) == key):
                yield node, level
        elif _called(node) in ("getattr", "get_submodule") and isinstance(node, ast.Call):
            given = node.args[1 if _called(node) == "getattr" else 0 :][:1]
            text = given[0].value if given and isinstance(given[0], ast.Constant) else key
            holder = (
                node.args[0] if _called(node) == "getattr" else getattr(node.func, "value", None)
            )
            if text == key and isinstance(holder, ast.Name) and holder.id == code.own:
                yield node, level
    for name in code.loads(code.own):
        parent = code.parents[name]
        is_open = isinstance(parent, (ast.Subscript, ast.For, ast.comprehension)) or (
            isinstance(parent, ast.Attribute) and parent.attr in _CHILDREN
        )
        if is_open or _called(parent) in _WRAPPERS:
            yield name, level + 1


def _foreign(code: Code, key: str, module: torch.nn.Module, owner: Any) -> Iterator[ast.AST]:
    """Expressions of another module's function that may stand for the child of `owner`."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute) and node.attr == key and _is_read(node):
            path = code.path(node.value)
            found: Any = module
            for name in path.split(".") if path else ():
                held = (
                    {**vars(found), **found._modules} if isinstance(found, torch.nn.Module) else {}
                )
                found = held.get(name, owner)  # what is not there yet may be it
            is_own = isinstance(node.value, ast.Name) and node.value.id == code.own
            if not is_own and (not path or found is owner):
                yield node


@dataclasses.dataclass
class Uses:
    """The answers for a model, of which every place of each module is known."""

    places: Places

    def _above(self, module: torch.nn.Module) -> set[torch.nn.Module]:
        """All modules that hold one."""
        found: set[torch.nn.Module] = set()
        waiting = [module]
        while waiting:
            new = {owner for owner, _ in self.places.get(waiting.pop(), ())} - found
            found |= new
            waiting += new
        return found

    def _elsewhere(
        self, owner: torch.nn.Module, key: str, level: int, is_open: bool = False
    ) -> str:
        """Why code of modules that hold `owner` may use its child otherwise."""
        for module in self._above(owner):
            for code in functions(module):
                if key not in names(code):
                    continue
                tree = read(code)
                if tree is None:
                    return f"the source of {_said(module, code)} is not at hand"
                nodes = _foreign(tree, key, module, owner)
                if not all(_Reader(tree, is_open).is_whole(node, level) for node in nodes):
                    return f"{_said(module, code)} reaches for {key}"
        return ""

    def why_not_whole(self, module: torch.nn.Module, level: int = 0, is_open: bool = False) -> str:
        """Why a module may be used otherwise than by calls of the whole; empty if it is not."""
        if isinstance(module, CONTAINERS) and type(module) not in CONTAINERS:
            why = self._in_own(module, "", level - 1, is_open)
            if why:
                return why
        for owner, key in self.places.get(module, ()):
            if type(owner) in CONTAINERS:
                why = self.why_not_whole(owner, level + 1, is_open)
            elif type(owner).__module__.startswith(_TORCHS):
                why = self.why_not_whole(owner, level, is_open)
            else:
                why = self._in_own(owner, key, level, is_open)
                why = why or self._elsewhere(owner, key, level, is_open)
            if why:
                return why
        return ""

    def _in_own(self, owner: torch.nn.Module, key: str, level: int, is_open: bool) -> str:
        for code in functions(owner):
            if not (_DYNAMIC | {key}) & names(code) and not isinstance(owner, CONTAINERS):
                continue
            tree = read(code)
            if tree is None:
                return f"the source of {_said(owner, code)} is not at hand"
            if not all(_Reader(tree, is_open).is_whole(*use) for use in _own(tree, key, level)):
                return f"{_said(owner, code)} does more with {key or 'itself'} than to call it"
        return ""

    def why_not_given(self, owner: torch.nn.Module, key: str, target: str) -> str:
        """Why what the norm `key` returns may go elsewhere than to the activation `target`."""
        is_given = False
        for code in functions(owner):
            if not (_DYNAMIC | {key}) & names(code):
                continue
            tree = read(code)
            if tree is None:
                return f"the source of {_said(owner, code)} is not at hand"
            for node, level in _own(tree, key, -1):
                call = tree.parents[node]
                if level < 0 and isinstance(call, ast.Call) and call.func is node:
                    is_given = True
                    if not _goes_to(tree, call, target):
                        return f"not every path of {_said(owner, code)} gives it to {target}"
                elif not _Reader(tree).is_whole(node, level):
                    return f"{_said(owner, code)} does more with {key} than to call it"
        if not is_given:
            return f"no code of {type(owner).__name__} is seen to call it"
        return self._elsewhere(owner, key, -1) or self.why_not_whole(owner, is_open=True)

    def is_read_once(self, owner: torch.nn.Module, target: str) -> bool:
        """Whether one expression of the owner's code reads an activation, and none of others'."""
        last = target.rpartition(".")[2]
        found = 0
        for module in {owner, *self._above(owner)}:
            for code in functions(module):
                if last in names(code):
                    tree = read(code)
                    if tree is None or (module is not owner and any(_reads(tree, last))):
                        return False
                    found += sum(1 for _ in _reads(tree, last))
        return found == 1


def _reads(code: Code, name: str) -> Iterator[ast.AST]:
    """Attributes of this name, of whatever object."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute) and node.attr == name and _is_read(node):
            yield node


def _said(module: torch.nn.Module, code: Any) -> str:
    return f"{type(module).__name__}.{code.co_name}"


def _is_applied(code: Code, call: Any, target: str) -> bool:
    """Whether a call is that of the activation, on one argument."""
    if not isinstance(call, ast.Call) or code.path(call.func) != target:
        return False
    return len(call.args) == 1 and not call.keywords


def _goes_to(code: Code, call: ast.AST, target: str) -> bool:
    """Whether what a call returns is the activation's argument and nothing else.

    The activation's call is around this one, or is the first one of the next statement, which is
    the last that reads the variable in between.
    """
    parent: Any = code.parents[call]
    if _is_applied(code, parent, target):
        return True
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    after: Any = _next(code, parent)
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
    if len(parent.targets) > 1 or not isinstance(after, kinds):
        return False
    variable = parent.targets[0].id
    applied = _first(code, after.value, target)
    if applied is None or getattr(applied.args[0], "id", "") != variable:
        return False
    within = {*ast.walk(after)}
    loads = code.loads(variable)
    if sum(node in within for node in loads) != 1:
        return False
    return _is_last(code, after, variable, [n for n in loads if n not in within])


def _next(code: Code, statement: ast.AST) -> ast.AST | None:
    """The statement that always comes after another one."""
    for _, block in ast.iter_fields(code.parents[statement]):
        if isinstance(block, list) and statement in block:
            return (*block, None)[block.index(statement) + 1]
    return None


def _first(code: Code, node: Any, target: str) -> Any:
    """The call of the activation, where no other call of an expression comes before it."""
    while node is not None and not _is_applied(code, node, target):
        if isinstance(node, ast.Call):
            held: Any = node.func
            while isinstance(held, ast.Attribute):
                held = held.value
            node = (*node.args, None)[0] if isinstance(held, ast.Name) else held
        elif isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, (ast.Tuple, ast.List)):
            node = (*node.elts, None)[0]
        else:
            node = node.value if isinstance(node, (ast.Attribute, ast.Subscript)) else None
    return node


def _is_last(code: Code, statement: Any, variable: str, loads: list[ast.Name]) -> bool:
    """Whether a variable's value is read by none of these after a statement."""
    above: list[ast.AST] = [statement]
    while above[-1] in code.parents:
        above.append(code.parents[above[-1]])
    if isinstance(statement, ast.Return):
        return not any(isinstance(node, ast.Try) and node.finalbody for node in above)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if [getattr(t, "id", "") for t in targets] == [variable]:
        return True
    is_repeated = any(isinstance(n, (ast.For, ast.AsyncFor, ast.While)) for n in above)
    return not loads or (not is_repeated and all(n.lineno < statement.lineno for n in loads))
