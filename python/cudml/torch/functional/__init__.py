"""cudml's operators under the names, argument orders and defaults of torch.nn.functional.

What an argument means here and not in torch, the functions' own texts say; everything takes
tensors on the CPU and on a GPU, is differentiable and works inside torch.compile.
"""

from torch import fx as _fx

from ._normalization import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from ._padding import pad
from ._pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from ._unpooling import max_unpool1d, max_unpool2d, max_unpool3d

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "pad",
    "rms_norm",
]

for _name in __all__:
    _fx.wrap(_name)  # of which torch.fx records one call instead of what it does with a Proxy
