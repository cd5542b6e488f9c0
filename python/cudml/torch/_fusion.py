"""Which activations directly follow a normalization, and may be computed by it.

In nn.Sequential the order of the children says so, where code calls it as a whole. Elsewhere
`torch.fx` traces the module that owns the normalization, in training and in evaluation, with all of
its children as they are, and its code shows that other paths through it do the same.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import fx

from cudml.torch import nn
from cudml.torch._uses import Uses
from cudml.torch.nn import _shared
from cudml.torch.nn._shared import is_observed

NORMS = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.InstanceNorm1d,
    nn.InstanceNorm2d, nn.InstanceNorm3d, nn.LayerNorm, nn.RMSNorm,
)  # fmt: skip
SELU = {"alpha": 1.6732632423543772848170429916717, "gamma": 1.0507009873554804934193349852946}

# Activations that are the same in torch and in cudml: by class, the name and parameters, or None
# where a parameter has no counterpart.
ACTIVATIONS: dict[type, Callable[[Any], Any]] = {
    torch.nn.ReLU: lambda m: "relu",
    torch.nn.LeakyReLU: lambda m: ("leaky_relu", {"alpha": m.negative_slope}),
    torch.nn.Threshold: lambda m: None if m.value else ("thresholded_relu", {"alpha": m.threshold}),
    torch.nn.ELU: lambda m: ("elu", {"alpha": m.alpha}),
    torch.nn.CELU: lambda m: ("celu", {"alpha": m.alpha}),
    torch.nn.SELU: lambda m: ("scaled_elu", SELU),
    torch.nn.Sigmoid: lambda m: "sigmoid",
    torch.nn.Hardsigmoid: lambda m: ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    torch.nn.Tanh: lambda m: "tanh",
    torch.nn.Softsign: lambda m: "softsign",
    torch.nn.Softshrink: lambda m: ("shrink", {"bias": m.lambd, "threshold": m.lambd}),
    torch.nn.Hardshrink: lambda m: ("shrink", {"bias": 0.0, "threshold": m.lambd}),
    torch.nn.GELU: lambda m: "gelu" if m.approximate == "none" else None,
    torch.nn.SiLU: lambda m: "swish",
    torch.nn.Hardswish: lambda m: "hard_swish",
}
# The same as functions of torch, of torch.nn.functional and of tensors, in place or not.
FUNCTIONS = {*(kind.__name__.lower() for kind in ACTIVATIONS), "leaky_relu"} - {"leakyrelu"}

# Held during a search: torch.fx exchanges what every module is called by, and a second thread
# would put back what the first one has put there; a program compiled meanwhile would be refused.
alone = threading.RLock()
os.register_at_fork(after_in_child=alone._at_fork_reinit)  # type: ignore[attr-defined]


@dataclasses.dataclass
class Pair:
    """A normalization and the activation after it, which stands at `owner._modules[key]`.

    An activation that is shared may have other calls, which stay.
    """

    norm: Any
    norm_name: str
    activation: torch.nn.Module
    activation_name: str
    owner: torch.nn.Module
    key: str
    is_shared: bool = False

    @property
    def name(self) -> Any:
        """The activation as an argument."""
        return ACTIVATIONS[type(self.activation)](self.activation)


@dataclasses.dataclass
class _Model:
    """What the search asks of a model: where its modules stand, how code uses them, and tensors
    without memory in the place of its own, by their id."""

    places: dict[torch.nn.Module, list[tuple[torch.nn.Module, str]]]
    uses: Uses
    blanks: dict[int, Any]

    @classmethod
    def of(cls, model: torch.nn.Module) -> _Model:
        places: dict[torch.nn.Module, list[tuple[torch.nn.Module, str]]] = {}
        for owner in model.modules():
            for key, child in owner._modules.items():
                if child is not None:
                    places.setdefault(child, []).append((owner, key))
        return cls(places, Uses(places), dict(_blanks(model)))

    def count(self, module: torch.nn.Module) -> int:
        """At how many places of the model a module stands."""
        return len(self.places.get(module, ()))


def _blanks(model: torch.nn.Module) -> Iterator[tuple[int, Any]]:
    """By the id of each parameter and buffer one like it that nothing can be written to."""
    for tensor in (*model.parameters(), *model.buffers()):
        with contextlib.suppress(RuntimeError, NotImplementedError):  # of odd kinds
            if torch.nn.parameter.is_lazy(tensor):
                yield id(tensor), tensor  # it has no memory
                continue
            blank = torch.empty_like(tensor, device="meta", requires_grad=False)
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            kept = torch.nn.Parameter(blank, tensor.requires_grad) if is_parameter else blank
            yield id(tensor), kept


class _Calls(fx.Tracer):
    """A tracer to which every child is one call.

    While it traces, the calls and attributes of all modules come here: those of other threads are
    let pass. Functions of math stay what they are: torch.fx would exchange them for everybody, and
    torch.compile may read its table of them meanwhile, as torch.utils.checkpoint has it do.
    """

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())  # type: ignore[arg-type]
        self._thread = threading.get_ident()

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True

    def call_module(
        self, m: torch.nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)


def _is_norm(module: Any) -> bool:
    return type(module) in NORMS and module.activation is None


def _is_activation(module: Any) -> bool:
    return type(module).__module__ == "torch.nn.modules.activation"


def _is_sequential(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Sequential) and (
        type(module).forward is torch.nn.Sequential.forward and "forward" not in vars(module)
    )


def _refusal(norm: torch.nn.Module, activation: Any, model: _Model) -> str:
    """Why this activation, called on the norm's result, stays by itself; empty if it need not."""
    kind = type(activation).__name__
    if type(activation) not in ACTIVATIONS or "forward" in vars(activation):
        return f"{kind} has no counterpart"
    if ACTIVATIONS[type(activation)](activation) is None:
        return f"{activation} has no counterpart"
    if model.count(norm) > 1:
        return "stands at several places of the model"
    if is_observed(norm) or is_observed(activation):
        return f"a hook reads what goes from it to {kind}"
    return ""


@dataclasses.dataclass
class Found:
    """The pairs of a model, and why other normalizations keep their activation apart."""

    pairs: list[Pair] = dataclasses.field(default_factory=list)
    notes: dict[torch.nn.Module, str] = dataclasses.field(default_factory=dict)

    def refuse(self, norm: torch.nn.Module, why: str) -> None:
        """Notes why the activation after `norm` is not fused."""
        self.notes[norm] = f"not fused: {why}"


def _in_sequence(name: str, owner: torch.nn.Module, model: _Model, found: Found) -> None:
    """Pairs of neighbours in nn.Sequential."""
    children = [(key, child) for key, child in owner._modules.items() if child is not None]
    prefix = f"{name}." if name else ""
    for (first, norm), (key, follower) in itertools.pairwise(children):
        if not (_is_norm(norm) and _is_activation(follower)):
            continue
        why = _refusal(norm, follower, model) or model.uses.why_not_whole(owner)
        if why:
            found.refuse(norm, why)
        else:
            found.pairs.append(Pair(norm, prefix + first, follower, prefix + key, owner, key))


def _traced(owner: torch.nn.Module, mode: bool, model: _Model) -> dict[str, list[fx.Node]]:
    """The calls of each of the owner's modules in one mode; raises where it does not trace.

    What forward changes is a copy's, without the memory of parameters and buffers.
    """
    stand_in = copy.deepcopy(owner, dict(model.blanks))
    stand_in.training = mode
    calls: dict[str, list[fx.Node]] = {}
    with _same_random_numbers():
        nodes = _Calls().trace(stand_in).nodes
    for node in nodes:
        if node.op == "call_module":
            calls.setdefault(str(node.target), []).append(node)
    return calls


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Has generators go on as if nothing had asked them in between."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    own, numpys = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(own)
        np.random.set_state(numpys)


def _follower(
    owner: torch.nn.Module, calls: dict[str, list[fx.Node]], norm: str
) -> tuple[str, str]:
    """The activation that a normalization is followed by, if any, and what else there is."""
    called = calls.get(norm, [])
    users = [user for node in called for user in node.users]
    modules = [str(user.target) for user in users if user.op == "call_module"]
    target = next((t for t in modules if _is_activation(owner.get_submodule(t))), "")
    if len(called) > 1:
        return target, f"forward calls it {len(called)} times"
    if len(users) > 1:
        return target, f"{len(users)} operations read it"
    if target and (users[0].args != (called[0],) or users[0].kwargs):
        return target, f"{target} has other arguments"
    return target, ""


def _function(calls: dict[str, list[fx.Node]], norm: str) -> str:
    """The activation that forward applies to a normalization as a function, if it does so.

    That call stands in the code of forward, which convert leaves alone: a program that `torch.fx`
    has traced may stand for one path through it, and nothing would tell from when it does not.
    """
    for user in (user for node in calls.get(norm, []) for user in node.users):
        target = user.target if isinstance(user.target, str) else user.target.__name__
        if user.op in ("call_function", "call_method") and target.rstrip("_") in FUNCTIONS:
            return target
    return ""


def _in_forward(name: str, owner: torch.nn.Module, model: _Model, found: Found) -> None:
    """Pairs that the owner's forward shows in both modes."""
    norms = [key for key, child in owner._modules.items() if _is_norm(child)]
    if not norms:
        return
    try:
        both = [_traced(owner, mode, model) for mode in (True, False)]
    except Exception as error:
        for key in norms:
            text = f"forward of {type(owner).__name__} does not trace ({type(error).__name__})"
            found.refuse(owner._modules[key], text)  # type: ignore[arg-type]
        return
    for key in norms:
        norm = owner.get_submodule(key)
        pair, why = _after(key, owner, both, model, f"{name}." if name else "")
        if pair:
            found.pairs.append(pair)
        elif why:
            found.refuse(norm, why)


def _after(
    key: str,
    owner: torch.nn.Module,
    both: list[dict[str, list[fx.Node]]],
    model: _Model,
    prefix: str,
) -> tuple[Pair | None, str]:
    """A normalization with the activation after it in both modes, or why it has none."""
    norm, answers = owner.get_submodule(key), [_follower(owner, calls, key) for calls in both]
    target = answers[0][0] or answers[1][0]
    if not target:
        function = _function(both[0], key) or _function(both[1], key)
        text = f"forward calls the function {function}; a module in its place would be"
        return None, text if function else ""
    follower = owner.get_submodule(target)
    parent, _, last = target.rpartition(".")
    is_shared = any(len(calls.get(target, [])) > 1 for calls in both)
    is_shared = is_shared or bool(parent) or not model.uses.is_read_once(owner, target)
    whys = [why for _, why in answers if why]
    if answers[0][0] != answers[1][0]:
        whys.append("training and evaluation differ")
    if model.count(follower) > 1:
        whys.append(f"{target} stands at several places of the model")
    if "forward" in vars(owner):
        whys.append("forward was replaced")
    why = whys[0] if whys else _refusal(norm, follower, model)
    why = why or model.uses.why_not_given(owner, key, target)
    if not why and is_shared and not _shared.may_share():
        why = f"{target} has other calls, and programs compiled by this PyTorch lose its marks"
    if why:
        return None, why
    names = (prefix + key, follower, prefix + target)
    return Pair(norm, *names, owner.get_submodule(parent), last, is_shared), ""


def find(model: torch.nn.Module) -> Found:
    """All pairs of a model."""
    found, asked = Found(), _Model.of(model)
    for name, owner in model.named_modules():
        search = _in_sequence if _is_sequential(owner) else _in_forward
        search(name, owner, asked, found)
    return found
