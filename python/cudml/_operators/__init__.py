"""The canonical operators, as the package exports them.

They reach the compiled code through `cudml._backend.core`, where another build of it can stand in.
"""

from cudml._operators.normalization import mean_variance_normalization
from cudml._operators.normalization_grad import (
    mean_variance_normalization_grad,
    normalize_grad,
    normalize_grad_sums,
)
from cudml._operators.normalize import normalize
from cudml._operators.padding import padding
from cudml._operators.padding_grad import padding_grad
from cudml._operators.pooling import average_pooling, lp_pooling, max_pooling
from cudml._operators.pooling_grad import (
    average_pooling_grad,
    lp_pooling_grad,
    max_pooling_grad,
)
from cudml._operators.statistics import merge_statistics, normalization_statistics
from cudml._operators.unpooling import max_unpooling

__all__ = [
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
