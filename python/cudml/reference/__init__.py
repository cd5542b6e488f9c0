"""The operators in NumPy: the specification stated as code, brute force, in float64.

Each function takes the arguments of the operator of the same name except `out` and `stream`.
Max pooling, max unpooling and padding return x's own type with its bits; the other operators
return the exact value rounded once to float64, whatever x's type, so that a result in any type can
be judged by it. `ACTIVATIONS` has the activations' formulas and defaults by their names.
"""

from __future__ import annotations

from .activations import ACTIVATIONS
from .gradients import average_pooling_grad, lp_pooling_grad, max_pooling_grad
from .normalization import mean_variance_normalization
from .normalization_grad import (
    mean_variance_normalization_grad,
    normalize_grad,
    normalize_grad_sums,
)
from .padding import padding, padding_grad
from .pooling import average_pooling, lp_pooling, max_pooling
from .two_phase import merge_statistics, normalization_statistics, normalize
from .unpooling import max_unpooling

__all__ = [
    "ACTIVATIONS",
    "average_pooling",
    "average_pooling_grad",
    "lp_pooling",
    "lp_pooling_grad",
    "max_pooling",
    "max_pooling_grad",
    "max_unpooling",
    "mean_variance_normalization",
    "mean_variance_normalization_grad",
    "merge_statistics",
    "normalization_statistics",
    "normalize",
    "normalize_grad",
    "normalize_grad_sums",
    "padding",
    "padding_grad",
]
