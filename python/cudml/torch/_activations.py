"""Fused activations between the public argument and an operator's name and list of numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, get_args

from cudml import directml
from cudml._typing import ActivationName
from cudml.torch._arguments import real


def _table() -> dict[str, dict[str, float | None]]:
    """The parameters of each activation with their defaults, in the order of its descriptor."""
    kinds = {getattr(kind, "_dml_name", ""): kind for kind in vars(directml).values()}
    found: dict[str, dict[str, float | None]] = {}
    for name in get_args(ActivationName):
        fields = dataclasses.fields(kinds[f"ACTIVATION_{name.upper()}"])
        found[name] = {
            _snake_case(f.name): None if f.default is dataclasses.MISSING else f.default
            for f in fields
            if not f.name.endswith("Tensor")
        }
    return found


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


ACTIVATIONS = _table()
_SLOPES_WITHOUT_VALUE = ("", "identity", "linear")  # which do not depend on where they are taken


def encode(op: str, activation: Any) -> tuple[str, list[float]]:
    """An `activation` as an operator has it; "" is none."""
    if activation is None:
        return "", []
    name, given = activation if _is_pair(activation) else (activation, {})
    if not isinstance(name, str) or not isinstance(given, dict):
        raise TypeError(
            f"{op}: FusedActivation is {activation!r}; it must be None, a name, "
            'or (name, {"alpha": …})'
        )
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f'{op}: FusedActivation is "{name}"; it must be one of {known}')
    defaults = ACTIVATIONS[name]
    for parameter in given:
        if parameter not in defaults:
            known = ", ".join(defaults) or "none"
            raise ValueError(
                f"{op}: FusedActivation.{parameter} does not exist; {name} has the parameters "
                f"{known}"
            )
    return name, [_number(op, name, key, given.get(key, defaults[key])) for key in defaults]


def _is_pair(activation: Any) -> bool:
    return isinstance(activation, tuple) and len(activation) == 2


def _number(op: str, name: str, key: str, value: Any) -> float:
    if value is None:
        raise ValueError(f"{op}: FusedActivation.{key} is missing; {name} has no default for it")
    return real(op, f"FusedActivation.{key}", value)


def decode(activation: str, parameters: Sequence[float]) -> Any:
    """The `activation` of a name and its list of numbers."""
    if not activation:
        return None
    names = ACTIVATIONS.get(activation, {})  # what is unknown is refused by the operator
    return activation, dict(zip(names, parameters, strict=True)) if names else {}


def needs_value(activation: str) -> bool:
    """Whether a gradient through an activation reads the value that it was applied to."""
    return activation not in _SLOPES_WITHOUT_VALUE
