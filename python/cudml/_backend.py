"""Which build of the extension module runs the operators.

Every public function reaches the compiled code through `core`, at each call. Another build of the
same sources takes its place while `core` is assigned to it; classes that were made by one build,
compiled operators among them, go on with it.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from cudml import _core

if TYPE_CHECKING:
    core = _core
else:
    core: ModuleType = _core
