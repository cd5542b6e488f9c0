"""Where the repository lies, and what a process must have in its path to import the tests."""

from __future__ import annotations

from pathlib import Path

import cudml

ROOT = Path(__file__).resolve().parents[2]
TESTS = (str(Path(__file__).resolve().parent), str(ROOT))  # what tests import, and tests themselves
IMPORTS = (*TESTS, str(Path(cudml.__file__).parent.parent))
