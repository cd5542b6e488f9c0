"""`cudml.torch.functional`, where programs that use torch.nn look for it."""

from cudml.torch.functional import *  # noqa: F403
from cudml.torch.functional import __all__ as __all__
