"""What an initializer keeps of inputs that are OWNED_BY_DML: how much, where, and beside what."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.directml.programs import HERE, WATCHED, build

OK, INVALID = "00000000", "80070057"
NORM = "MEAN_VARIANCE_NORMALIZATION: "
GONE = "the device has been removed: "
SAID = [
    ("as much as there may be", OK, ""),
    (
        "a byte count that wraps around",
        INVALID,
        NORM + "ScaleTensor.TotalTensorSizeInBytes is 18446744073709551612; all that is OWNED_BY_",
    ),
    (
        "two of them that wrap around",
        INVALID,
        NORM + "ScaleTensor.TotalTensorSizeInBytes is 64; all that is OWNED_BY_DML must not",
    ),
    (
        "two that are kept in one place",
        INVALID,
        GONE + "IDMLOperatorInitializer: the persistent resources of operators[0] and operators[1]",
    ),
    (
        "one that is kept where the other's scale is",
        INVALID,
        GONE + NORM + "ScaleTensor overlaps the persistent resource",
    ),
    ("two that are kept side by side", OK, ""),
    ("two that are kept the other way round", OK, ""),
    ("one that is kept before the other's scale", OK, ""),
    (
        "output in what is kept",
        INVALID,
        GONE + NORM + "OutputTensor overlaps the persistent resource",
    ),
    (
        "input in what is kept",
        INVALID,
        GONE + NORM + "InputTensor overlaps the persistent resource",
    ),
]


def test_what_is_kept(tmp_path: Path) -> None:
    program = build(HERE / "owned.cpp", tmp_path, *WATCHED)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    said = [line.split("|") for line in done.stdout.splitlines()]
    assert [line[0] for line in said] == [label for label, _, _ in SAID]
    for (label, code, message), (_, want, beginning) in zip(said, SAID, strict=True):
        assert code == want and message.startswith(beginning), (label, code, message)
        assert bool(message) == bool(beginning), (label, message)
