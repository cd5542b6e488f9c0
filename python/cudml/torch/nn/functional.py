"""`cudml.torch.functional`, where programs that use torch.nn look for it."""

from torch import fx as _fx

from cudml.torch.functional import *  # noqa: F403
from cudml.torch.functional import __all__ as __all__

for _name in __all__:
    _fx.wrap(_name)
