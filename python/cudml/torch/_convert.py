"""`convert`: puts cudml's modules into a model of torch.nn's, and takes them out again."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from cudml.torch import _fusion, nn
from cudml.torch.nn import _shared
from cudml.torch.nn._shared import SharedActivation

MODULES: dict[type, type] = {
    getattr(torch.nn, name): kind
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and hasattr(torch.nn, name)
}
NO_OPERATOR = "cudml has no operator for it"
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OTHERS = tuple(
    getattr(torch.nn, f"{name}{n}")
    for name, dimensions in (
        ("AdaptiveAvgPool", ("1d", "2d", "3d")),
        ("AdaptiveMaxPool", ("1d", "2d", "3d")),
        ("FractionalMaxPool", ("2d", "3d")),
        ("LocalResponseNorm", ("",)),
        ("SyncBatchNorm", ("",)),
    )
    for n in dimensions
)


@dataclasses.dataclass
class Row:
    """What became of one module: `action` is "taken", "fused" (taken with the activation after it)
    or "left", and `note` says with what, or why."""

    name: str
    kind: str
    action: str
    note: str = ""


class Report:
    """What `convert` did: `model`, a table by `print`, and `revert` to undo it.

    `rows` is the table's list: of each module its `name`, its `kind` in torch.nn, its `action`,
    "taken", "fused" or "left", and a `note`.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.rows: list[Row] = []
        self._undo: list[Callable[[], None]] = []

    def count(self, action: str) -> int:
        """How many modules were "taken", "fused" or "left"."""
        return sum(row.action == action for row in self.rows)

    def revert(self) -> torch.nn.Module:
        """Makes `model` what it was before: the same parameters, hooks and modules; gives it."""
        while self._undo:
            self._undo.pop()()
        return self.model

    def __str__(self) -> str:
        head = ("module", "torch.nn", "", "note")
        lines = [head, *((r.name, r.kind, r.action, r.note) for r in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        text = ["  ".join([*map(str.ljust, line, widths), line[3]]).rstrip() for line in lines]
        return "\n".join([*text, self._counts()])

    def __repr__(self) -> str:
        return f"<Report: {self._counts()}>"

    def _counts(self) -> str:
        return ", ".join(f"{self.count(a)} {a}" for a in ("taken", "fused", "left"))

    def _replace(self, module: torch.nn.Module, kind: type) -> None:
        """Changes the module's class, so that everything it holds stays as it is."""
        before = type(module)
        module.__class__ = kind
        self._undo.append(lambda: setattr(module, "__class__", before))

    def _fuse(self, pair: _fusion.Pair) -> None:
        """Gives the activation to the normalization.

        A module for the other calls that it has keeps its place and name.
        """
        before = pair.owner._modules[pair.key]
        after = before
        if not isinstance(before, SharedActivation):
            is_marked = _shared.may_share()
            after = SharedActivation(
                pair.activation, pair.activation_name, not pair.is_shared, is_marked
            )
        pair.norm.activation = pair.name
        pair.norm.shared = (after, pair.norm_name)
        pair.owner._modules[pair.key] = after

        def undo() -> None:
            del pair.norm.activation
            vars(pair.norm).pop("shared", None)
            pair.owner._modules[pair.key] = before

        self._undo.append(undo)


def _lp_reason(module: torch.nn.Module) -> str:
    """Why an Lp pooling stays torch's."""
    p = float(module.norm_type)  # type: ignore[arg-type]
    if math.isinf(p) or not p.is_integer() or p < 1:
        return f"norm_type is {module.norm_type}; cudml takes whole numbers from 1"
    if p % 2:
        return "torch sums signed powers where norm_type is odd, cudml powers of absolute values"
    if module.ceil_mode:
        return "torch scales windows up that ceil_mode lets reach beyond the input"
    return ""


def _own_reason(module: torch.nn.Module) -> str:
    """Why a module of a kind that is taken stays torch's, by its own arguments and attributes."""
    if isinstance(module, torch.nn.modules.padding._ReflectionPadNd):
        pads: Any = module.padding
        if any(min(pair) < 0 < max(pair) for pair in zip(pads[::2], pads[1::2], strict=True)):
            return "torch reflects what a negative pad crops, cudml crops first"
    kind = type(module)
    added = {*dir(MODULES[kind])}.difference(dir(kind))
    own = (*vars(module), *module._modules, *module._buffers, *module._parameters)
    for name in sorted(added.intersection(own)):
        return f"its attribute {name} means something else to cudml's module"
    return ""


def _reason(module: torch.nn.Module) -> str:
    """Why a module that cudml may have an operator for stays torch's; empty if it does not."""
    if isinstance(module, OTHERS):
        return NO_OPERATOR
    if isinstance(module, LazyModuleMixin):
        return "it is made by its first call: convert the model after that"
    if type(module) not in MODULES:
        return "a class of its own, whose code may do something else"
    if "forward" in vars(module):
        return "its forward was replaced"
    if getattr(module, "divisor_override", None) is not None:
        return "cudml has no divisor_override"
    if isinstance(module, (torch.nn.LPPool1d, torch.nn.LPPool2d, torch.nn.LPPool3d)):
        return _lp_reason(module)
    for tensor in module.parameters(recurse=False):
        if tensor.dtype not in FLOATS:
            return f"its parameters are {tensor.dtype}"
        if tensor.device.type not in ("cpu", "cuda", "meta"):
            return f"its parameters are on {tensor.device}"
    return _own_reason(module)


def _candidates(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Modules that cudml has an operator for, or might be thought to have one for."""
    kinds = (*MODULES, *OTHERS)
    taken = tuple(MODULES.values())
    for name, module in model.named_modules():
        becomes = getattr(module, "cls_to_become", None)
        if (isinstance(module, kinds) or becomes in MODULES) and type(module) not in taken:
            yield name or "(model)", module


def _fuse_all(report: Report, rows: dict[torch.nn.Module, Row]) -> None:
    """Gives every activation that may be fused to its normalization, and says so in the rows."""
    found = _fusion.find(report.model)
    for pair in found.pairs:
        report._fuse(pair)
        row = rows.setdefault(pair.norm, Row(pair.norm_name, type(pair.norm).__name__, ""))
        row.action = "fused"
        row.note = f"with {pair.activation_name}, {type(pair.activation).__name__}"
    for norm, note in found.notes.items():
        if norm in rows:
            rows[norm].note = note


def convert(model: torch.nn.Module, fuse_activation: bool = True, inplace: bool = False) -> Report:
    """Replaces torch.nn's poolings, paddings and normalizations in a model by cudml's.

    Parameters, buffers, hooks, sharing, modes and the keys of `state_dict` stay. What cudml would
    compute differently is left, and the report says why.

    Parameters
    ----------
    model : torch.nn.Module
    fuse_activation : bool
        Give an activation that directly follows a normalization to it: inside of an nn.Sequential
        that is only called as a whole, and wherever `torch.fx` and the code of the classes, which
        is read for it, show that nothing else reads the normalization on any path. Backward then
        keeps one activation-sized tensor instead of two. In the activation's place stands a module
        that passes what the normalization has applied it to, applies it to anything else, and in
        eager mode raises a RuntimeError where a result was changed on the way. What code outside
        of the model does with its parts nothing can show: it gets normalizations that are fused.
        Whoever takes such an activation out, or puts another module in its place, calls
        `report.revert()` before.
    inplace : bool
        Change `model` itself instead of a copy.

    Returns
    -------
    Report
        `report.model` is the model; `print(report)` shows a table; `report.revert()` undoes it.

    Examples
    --------
    >>> import torch, cudml.torch
    >>> net = torch.nn.Sequential(torch.nn.GroupNorm(2, 8), torch.nn.SiLU(), torch.nn.MaxPool2d(2))
    >>> print(cudml.torch.convert(net))
    module  torch.nn          note
    0       GroupNorm  fused  with 1, SiLU
    2       MaxPool2d  taken
    1 taken, 1 fused, 0 left
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"convert: model is a {type(model).__name__}; it must be a torch.nn.Module")
    report = Report(model if inplace else copy.deepcopy(model))
    rows: dict[torch.nn.Module, Row] = {}
    for name, module in _candidates(report.model):
        why, kind = _reason(module), type(module).__name__
        rows[module] = Row(name, kind, "left" if why else "taken", why)
        if not why:
            report._replace(module, MODULES[type(module)])
    if fuse_activation:
        with _fusion.alone:
            _fuse_all(report, rows)
    report.rows = list(rows.values())
    return report
