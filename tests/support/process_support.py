"""Scripts of child processes."""

# Three large calls on all threads, whose results are bytes.
BIG = """
import faulthandler, os, sys, threading, time
import numpy as np
import cudml
faulthandler.dump_traceback_later(50, exit=True)
x = np.random.default_rng(0).standard_normal((8, 8, 256, 256), dtype=np.float32)
def big():
    a = cudml.max_pooling(x, 3, 2, 1, 1)
    b = cudml.mean_variance_normalization(x, axes=(2, 3))
    c = cudml.padding(x, 1, 1, mode='edge')
    return [y.tobytes() for y in (a, b, c)]
"""
