"""The operators on PyTorch's tensors, with gradients, torch.compile, torch.export and torch.vmap.

The functions have the names and arguments of `cudml`'s, but for `out` and `stream`: results are
new tensors, and work goes to the current stream of the tensors' device. They are registered with
PyTorch in the namespace `cudml`. Needs PyTorch 2.4.
"""

from __future__ import annotations

import re

import torch as _torch

OLDEST = (2, 4)  # the first with torch.library.register_autograd and register_fake

if tuple(map(int, re.findall(r"\d+", _torch.__version__)[:2])) < OLDEST:
    raise ImportError(
        f"cudml.torch needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later; this one is "
        f"{_torch.__version__}"
    )

from torch import fx as _fx

from cudml.torch import (
    _autograd,
    _dispatch,
    _fake,
    _kernels,
    _recorded,
    _schemas,
    _transforms,
    _vmap,
)
from cudml.torch import functional as functional
from cudml.torch import nn as nn
from cudml.torch._convert import convert
from cudml.torch._normalization import (
    mean_variance_normalization,
    mean_variance_normalization_grad,
)
from cudml.torch._padding import max_unpooling, padding, padding_grad
from cudml.torch._pooling import (
    average_pooling,
    average_pooling_grad,
    lp_pooling,
    lp_pooling_grad,
    max_pooling,
    max_pooling_grad,
)
from cudml.torch._two_phase import (
    merge_statistics,
    normalization_statistics,
    normalize,
    normalize_grad,
    normalize_grad_sums,
)

_schemas.define()
_kernels.register()
_fake.register()
_dispatch.load()
_autograd.register()
_recorded.register()
_vmap.register()
_transforms.register()

__all__ = [
    "average_pooling",
    "average_pooling_grad",
    "convert",
    "functional",
    "lp_pooling",
    "lp_pooling_grad",
    "max_pooling",
    "max_pooling_grad",
    "max_unpooling",
    "mean_variance_normalization",
    "mean_variance_normalization_grad",
    "merge_statistics",
    "nn",
    "normalization_statistics",
    "normalize",
    "normalize_grad",
    "normalize_grad_sums",
    "padding",
    "padding_grad",
]

for _name in __all__:
    if _name not in ("convert", "functional", "nn"):
        _fx.wrap(_name)  # of which torch.fx records one call instead of what it does with a Proxy
