"""Other interpreters than the main one, and what is said of the interpreter lock."""

from __future__ import annotations

import pytest

from array_support import child_says

SUBINTERPRETER = """
import sys
try:
    from concurrent import interpreters as module  # from 3.14 on
    create = lambda: module.create().exec
except ImportError:
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    def create(**how):
        one = module.create(**how)
        return lambda text: module.run_string(one, text)

INSIDE = '''
import warnings
warnings.simplefilter("ignore")  # NumPy's own
for _ in range(2):
    try:
        import {name}
    except ImportError as error:
        print(error, flush=True)
'''
if sys.argv[2] == 'before':
    import cudml
create()(INSIDE.format(name=sys.argv[1]))
import cudml, numpy as np
assert cudml.max_pooling(np.ones((1, 1, 2, 2), 'f4'), 2).item() == 1
print('ok')
"""


@pytest.mark.parametrize("name", ["cudml", "cudml._core"])
@pytest.mark.parametrize("order", ["before", "after"])
def test_subinterpreters_are_told_and_do_not_wait(name: str, order: str) -> None:
    """An ImportError each time, whether or not the main interpreter has the module."""
    said = child_says(SUBINTERPRETER, name, order, limit=30).splitlines()
    assert said[-1] == "ok" and len(said) == 3, said
    assert all("subinterpreter" in line.replace("-", "") for line in said[:2]), said


def test_free_threaded_interpreters_keep_the_lock() -> None:
    """The module relies on it, and importing the module turns it on where it is off."""
    script = (
        "import sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import cudml\n"
        "print(getattr(sys, '_is_gil_enabled', lambda: True)())\n"
    )
    assert child_says(script) == "True"
