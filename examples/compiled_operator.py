"""A loop over frames: described and compiled once, then called without an allocation."""

import numpy as np

import cudml
from cudml.directml import AveragePooling1OperatorDesc, BufferTensorDesc

desc = AveragePooling1OperatorDesc(
    InputTensor=BufferTensorDesc("FLOAT32", [1, 3, 48, 64]),
    OutputTensor=BufferTensorDesc("FLOAT32", [1, 3, 24, 32]),
    Strides=[2, 2],
    WindowSize=[2, 2],
    StartPadding=[0, 0],
    EndPadding=[0, 0],
    Dilations=[1, 1],
    IncludePadding=False,
)
halve = cudml.Operator(desc).compile("cpu")  # "cuda" on a GPU
print(halve.explain())

frames = np.random.default_rng(0).random((10, 1, 3, 48, 64), dtype=np.float32)
half = np.empty((1, 3, 24, 32), np.float32)
brightest = max(float(halve(frame, out=half).max()) for frame in frames)
print(f"{len(frames)} frames, the brightest average of four pixels is {brightest:.3f}")
