"""What an initializer keeps of inputs that are OWNED_BY_DML."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.directml.programs import HERE, WATCHED, build

OK, INVALID = "00000000", "80070057"
NORM = "MEAN_VARIANCE_NORMALIZATION: "
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
