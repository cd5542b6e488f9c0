"""What a type checker says of a user's program: each wrong line is refused, and nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
import site
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import cudml
from cudml import _typing, directml, reference
from cudml.directml import _types

# Lines that end in "# wrong" are refused; after "# is" stands the type of the line's value.
PROGRAM = """
import numpy as np
import numpy.typing as npt
import cudml
from cudml import directml as dml

x = np.zeros((1, 1, 4, 4), np.float32)
cudml.padding(x, 1, 1, mode="reflection")
cudml.padding(x, 1, 1, mode=["edge", "wrap", "edge", "constant"])
cudml.padding(x, 1, 1, mode=("edge", "wrap", "edge", "constant"))
cudml.padding(x, 1, 1, mode="reflect")  # wrong
cudml.padding(x, 1, 1, mode="EDGE")  # wrong
cudml.padding(x, 1, 1, mode=["edge", "wraps"])  # wrong
cudml.mean_variance_normalization(x, axes=1, activation="gelu")
cudml.mean_variance_normalization(x, axes=1, activation=("elu", {"alpha": 2}))
cudml.mean_variance_normalization(x, axes=1, activation="silu")  # wrong
cudml.mean_variance_normalization(x, axes=1, activation=("Elu", {"alpha": 2}))  # wrong
for kind in (np.uint32, np.uint64, np.int64):
    cudml.max_pooling(x, 2, return_indices=True, index_dtype=kind)
cudml.max_pooling(x, 2, index_dtype="int64")
cudml.max_pooling(x, 2, index_dtype=np.dtype("int64"))
cudml.max_pooling(x, 2, index_dtype="int32")  # wrong
cudml.max_pooling(x, 2, index_dtype="uint")  # wrong
cudml.max_pooling(x, 2, return_indices=True, index_dtype=np.int32)  # wrong
cudml.max_pooling(x, 2, output_sizes="ceil")
cudml.lp_pooling(x, 2, output_sizes="floor")  # wrong
reveal_type(cudml.lp_pooling(x, 2))  # is ndarray
tensor = dml.BufferTensorDesc("FLOAT32", [1, 4])
dml.BufferTensorDesc("float32", [1, 4])  # wrong
dml.PaddingOperatorDesc(
    InputTensor=tensor, OutputTensor=tensor, StartPadding=[0, 0], EndPadding=[0, 0],
    PaddingValue=0, PaddingMode="REFLECT",  # wrong
)
desc = dml.PaddingOperatorDesc(
    InputTensor=tensor, OutputTensor=tensor, StartPadding=[0, 0], EndPadding=[0, 0],
    PaddingValue=0, PaddingMode="REFLECTION",
)
cudml.Operator(desc, "6_5")  # wrong
pad = cudml.Operator(desc, "6_4").compile("cpu")
reveal_type(pad)  # is CompiledOperator
reveal_type(pad(x, out=x))  # is ndarray
reveal_type(pad(x))  # is ndarray
parts = pad(x, x)
if isinstance(parts, tuple):  # of as many as there are outputs
    count, mean, m2 = parts
    reveal_type(m2)  # is ndarray
reveal_type(pad.workspace_bytes)  # is int
cudml.CompiledOperator()  # wrong
"""


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of the program, by line."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    folder = tmp_path_factory.mktemp("types")
    (folder / "program.py").write_text(PROGRAM)
    package = str(Path(cudml.__file__).parent.parent)
    # An installed package is found by itself, and must not be named.
    path = {} if package in site.getsitepackages() else {"MYPYPATH": package}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder), "program.py"],
        cwd=folder,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found: dict[int, str] = {}
    for number, text in re.findall(r"^program\.py:(\d+): (?:error|note): (.*)$", done.stdout, re.M):
        found[int(number)] = f"{found.get(int(number), '')}{text}\n"
    assert found, done.stdout + done.stderr
    return found


def test_a_checker_refuses_misspelt_names_and_nothing_else(messages: dict[int, str]) -> None:
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        said = messages.get(number, "")
        if line.endswith("# wrong"):
            assert "Revealed" not in said and said, line
        elif "# is " in line:
            kind = line.split("# is ")[1]
            assert kind in said and '"Any"' not in said, f"{line}: {said}"
        else:
            assert not said, f"{line}: {said}"


def test_the_types_name_what_is_there() -> None:
    """No name is missing in the types, and none is there that is refused."""
    assert set(get_args(_typing.ActivationName)) == set(reference.ACTIVATIONS)
    for mode in get_args(_typing.ModeName):
        cudml.padding(np.zeros(2, np.float32), 1, 1, mode=mode)
    assert set(get_args(_types.PaddingModeName)) == set(directml.PaddingMode.__members__)
    assert set(get_args(_types.DataTypeName)) == set(directml.TensorDataType.__members__)
    assert set(get_args(_types.TensorFlagsName)) == set(directml.TensorFlags.__members__)
    levels = set(directml.FeatureLevel.__members__)
    assert set(get_args(_types.FeatureLevelName)) == levels | {
        n.removeprefix("FL_") for n in levels
    }
