"""DirectML's pooling, padding and mean-variance normalization operators, on NumPy arrays.

The seven operators are functions of this module. `cudml.directml` and `cudml.Operator` follow
DirectML's own path with versioned descriptors; `cudml.reference` states every operator in NumPy.
"""

from cudml import directml
from cudml._core import CudaError
from cudml._operators import (
    average_pooling,
    average_pooling_grad,
    lp_pooling,
    max_pooling,
    max_pooling_grad,
    mean_variance_normalization,
    padding,
)
from cudml._threads import get_num_threads, set_num_threads
from cudml.directml import CompiledOperator, Operator

__version__ = "0.1.0"

__all__ = [
    "CompiledOperator",
    "CudaError",
    "Operator",
    "__version__",
    "average_pooling",
    "average_pooling_grad",
    "directml",
    "get_num_threads",
    "lp_pooling",
    "max_pooling",
    "max_pooling_grad",
    "mean_variance_normalization",
    "padding",
    "set_num_threads",
]
