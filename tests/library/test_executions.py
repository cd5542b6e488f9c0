"""Tensors, properties, workspaces and outputs of compiled operators in the C interface."""

from __future__ import annotations

from pathlib import Path

from library_support import built, run

OK, ARGUMENT = "0", "1"
POOL, GRAD, NORM = "MAX_POOLING1: ", "MAX_POOLING_GRAD: ", "MEAN_VARIANCE_NORMALIZATION1: "
DEVICE = 'MAX_UNPOOLING: device is "{}"; it must be "cpu", "cuda" or "cuda:<number>"'
SAID = [
    ("input", OK, ""),
    ("InputTensor type 1 bytes 504 rank 4: 2/64 2/32 4/8 6/1", OK, ""),
    ("output", OK, ""),
    ("OutputTensor type 1 bytes 96 rank 4: 2/12 2/6 2/3 3/1", OK, ""),
    ("output", OK, ""),
    ("OutputIndicesTensor type 3 bytes 96 rank 4: 2/12 2/6 2/3 3/1", OK, ""),
    ("newer properties", OK, ""),
    ("1 inputs, 2 outputs, device -1, 0 bytes, as it was", OK, ""),
    ("no memory for the first output", ARGUMENT, POOL + "OutputTensor has no memory"),
    ("no memory for the second output", ARGUMENT, POOL + "OutputIndicesTensor has no memory"),
    ("outputs that overlap", ARGUMENT, POOL + "OutputIndicesTensor shares memory with OutputT"),
    ("persistent bytes", ARGUMENT, "cudml_execute: execution.persistent is given"),
    ("a workspace that nothing needs", OK, ""),
    ("no inputs at all", ARGUMENT, POOL + "0 inputs are given; the descriptor has 1 (InputTensor)"),
    ("no outputs at all", ARGUMENT, POOL + "0 outputs are given; the descriptor has 2 (OutputTe"),
    ("the largest execution", OK, ""),
    ("a larger one", ARGUMENT, "cudml_execute: execution.size is 4097; it must be at most 4096"),
    ("enough", OK, ""),
    ("too little", ARGUMENT, GRAD + "workspace has "),
    ("at an odd address", ARGUMENT, GRAD + "workspace starts at an odd address; it must be a mult"),
    ("in the first input", ARGUMENT, GRAD + "workspace and InputTensor lie in the same range"),
    ("in the second input", ARGUMENT, GRAD + "workspace shares memory with InputGradientTensor"),
    ("in the output", ARGUMENT, GRAD + "workspace and OutputGradientTensor lie in the same range"),
    ("behind the output", OK, ""),
    ("its own", OK, ""),
    ("explained", OK, ""),
    ("with its workspace, with its dimensions", OK, ""),
    ("into its input", OK, ""),
    ("into a part of its input", ARGUMENT, NORM + "OutputTensor shares memory with InputTensor"),
    ("into its scale", ARGUMENT, NORM + "OutputTensor shares memory with ScaleTensor"),
    ("apart", OK, ""),
    ("an unpooling", OK, ""),
    *[
        ("no device", ARGUMENT, DEVICE.format(name))
        for name in ("cuda:", "cuda:1234", "cudax1", "cuda:x", "cpu:0", "")
    ],
]


def test_executions(tmp_path: Path) -> None:
    text = run([str(built(Path(__file__).parent / "executions.c", tmp_path))]).stdout
    said = [tuple(line.split("|", 2)) for line in text.splitlines()]
    assert [label for label, *_ in said] == [label for label, *_ in SAID], text
    for (label, status, message), (_, want, beginning) in zip(said, SAID, strict=True):
        assert status == want and message.startswith(beginning), (label, status, message)
        assert bool(message) == bool(beginning), (label, message)
