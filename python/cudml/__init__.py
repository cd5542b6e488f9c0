"""DirectML's pooling, padding and mean-variance normalization operators, on the CPU and on GPUs.

The operators are functions of this module and take arrays where they lie: NumPy's, or those
of any library with DLPack or the CUDA array interface. `cudml.directml` and `cudml.Operator` follow
DirectML's own path with versioned descriptors, and `cudml.descriptors` describes the functions that
DirectML does not have; `explain` says which kernel a call would run on.

Three modules are imported by themselves, as by ``import cudml.torch``: `cudml.torch` takes
PyTorch's tensors, with gradients; `cudml.reference` states every operator in NumPy; `cudml.bounds`
judges results by it.
"""

from cudml import descriptors, directml
from cudml._cache import CacheInfo, cache_info, clear_cache
from cudml._errors import CudaError
from cudml._explain import Explanation, Kernel, explain, kernels
from cudml._operators import (
    average_pooling,
    average_pooling_grad,
    lp_pooling,
    lp_pooling_grad,
    max_pooling,
    max_pooling_grad,
    max_unpooling,
    mean_variance_normalization,
    mean_variance_normalization_grad,
    merge_statistics,
    normalization_statistics,
    normalize,
    normalize_grad,
    normalize_grad_sums,
    padding,
    padding_grad,
)
from cudml._threads import get_num_threads, set_num_threads
from cudml.directml import CompiledOperator, Operator

__version__ = "0.1.0"

__all__ = [
    "CacheInfo",
    "CompiledOperator",
    "CudaError",
    "Explanation",
    "Kernel",
    "Operator",
    "__version__",
    "average_pooling",
    "average_pooling_grad",
    "cache_info",
    "clear_cache",
    "descriptors",
    "directml",
    "explain",
    "get_num_threads",
    "kernels",
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
    "set_num_threads",
]
