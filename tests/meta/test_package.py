"""What importing the package does and does not do, and that it says the same version everywhere."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest

import cudml
from array_support import child, child_says
from folders import ROOT

PEERS = ("torch", "cupy", "jax", "numba", "scipy", "matplotlib", "ml_dtypes", "PIL", "setuptools")


def test_versions_agree() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+([a-z0-9.+]*)", cudml.__version__)
    assert cudml._core.build_info()["version"] == cudml.__version__
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', text, re.M)[1] == cudml.__version__  # type: ignore[index]


def test_the_installed_version_agrees() -> None:
    try:
        installed = importlib.metadata.version("cudml")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is imported from a folder, not installed")
    assert installed == cudml.__version__


@pytest.mark.core
def test_import_brings_numpy_and_nothing_else() -> None:
    """Beyond the standard library, NumPy and what NumPy itself imports."""
    says = (
        "import sys, numpy\n"
        "before = set(sys.modules)\n"
        "import cudml\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names) - {'cudml', 'numpy'}))\n"
        f"print(*[name for name in {PEERS} if name in sys.modules])\n"
    )
    assert child_says(says) == ""


def test_import_starts_no_thread_and_prints_nothing() -> None:
    says = (
        "import os, numpy\n"
        "count = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = count()\n"
        "import cudml\n"
        "cudml.get_num_threads()\n"
        "cudml.max_pooling(numpy.zeros((1, 1, 4, 4), 'f4'), 2)\n"
        "assert count() == before, 'a small call started threads'\n"
    )
    assert child_says(says) == ""


def test_import_warns_of_nothing() -> None:
    assert child_says("import cudml", PYTHONWARNINGS="error") == ""
    assert child_says("import cudml, importlib; importlib.reload(cudml)") == ""


def test_import_from_any_folder_without_a_home(tmp_path: Path) -> None:
    says = f"import os; os.chdir({str(tmp_path)!r}); import cudml; print(os.listdir('.'))"
    assert child_says(says, HOME="/nowhere", PYTHONDONTWRITEBYTECODE="1") == "[]"


def test_without_ml_dtypes() -> None:
    """bfloat16 is optional; a type of that name from elsewhere is named in the refusal."""
    says = (
        "import sys\n"
        "sys.modules['ml_dtypes'] = None\n"
        "import cudml, numpy as np\n"
        "x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)\n"
        "assert cudml.max_pooling(x, 2).shape == (1, 1, 3, 3)\n"
        "try:\n"
        "    cudml.padding(x.astype([('bfloat16', 'u2')]), 1, 1)\n"
        "except TypeError as error:\n"
        "    print('refused')\n"
    )
    assert child_says(says) == "refused"


def test_ml_dtypes_after_the_import() -> None:
    """Whether it was there at the import makes no difference."""
    if importlib.util.find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")
    says = (
        "import cudml, numpy as np\n"
        "cudml.padding(np.zeros(3, 'f4'), 1, 1)\n"
        "import ml_dtypes\n"
        "y = cudml.padding(np.ones(3, ml_dtypes.bfloat16), 1, 1)\n"
        "assert y.dtype == ml_dtypes.bfloat16\n"
        "print(y.astype('f4').tolist())\n"
    )
    assert child_says(says) == "[0.0, 1.0, 1.0, 1.0, 0.0]"


def test_threads_import_at_once() -> None:
    says = (
        "import threading, importlib\n"
        "seen = []\n"
        "work = lambda: seen.append(importlib.import_module('cudml').__version__)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(seen), len(set(seen)))\n"
    )
    assert child_says(says) == "8 1"


def test_optimised_python_keeps_every_check() -> None:
    """Under -OO there are no asserts and no docstrings."""
    says = (
        "import cudml, numpy as np\n"
        "x = np.ones((1, 1, 4, 4), np.float32)\n"
        "try:\n"
        "    cudml.max_pooling(x, 0)\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    done = child(says, PYTHONOPTIMIZE="2")
    assert done.returncode == 0 and "max_pooling: WindowSize" in done.stdout, done.stderr
