"""PyTorch's own collections of samples: of its operators, and of its modules."""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import torch

from cudml.torch import functional

LP_POOLS = ("LPPool1d", "LPPool2d", "LPPool3d")


@functools.cache
def _prepare() -> None:
    """What the collections want of `expecttest`, where it is not installed, is its base alone."""
    if importlib.util.find_spec("expecttest") is None:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase, stand_in.assert_expected_inline = unittest.TestCase, None
        sys.modules.setdefault("expecttest", stand_in)


def modules(package: Any) -> list[Any]:
    """Samples of torch.nn's modules that a package has one of the same name for."""
    _prepare()
    from torch.testing._internal.common_modules import module_db

    return [
        info
        for info in module_db
        if info.module_cls.__module__.startswith("torch.nn.modules.")
        and hasattr(package, info.module_cls.__name__)
    ]


class LpPool:
    """Samples of a function that only its module has any of, as an operator has them."""

    variant_test_name = "module"
    dtypes = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})

    def __init__(self, info: Any) -> None:
        self.info = info
        self.name = "nn.functional." + info.module_cls.__name__.lower().replace("pool", "_pool")

    def sample_inputs(self, device: str, dtype: Any, requires_grad: bool) -> Iterator[Any]:
        options = {"device": device, "dtype": dtype, "requires_grad": requires_grad}
        for made in self.info.module_inputs_func(self.info, training=True, **options):
            given, (x,) = made.constructor_input, made.forward_input.args
            yield types.SimpleNamespace(input=x, args=given.args, kwargs=given.kwargs)


def operators() -> list[Any]:
    """Samples of the functions that cudml has."""
    _prepare()
    from torch.testing._internal.common_methods_invocations import op_db

    found = [op for op in op_db if op.name.removeprefix("nn.functional.") in functional.__all__]
    listed = modules(torch.nn)
    return found + [LpPool(m) for m in listed if m.module_cls.__name__ in LP_POOLS]
