"""Max pooling that says where its winners stand, and the gradient that goes back to them."""

import numpy as np

import cudml

rng = np.random.default_rng(0)
x = rng.standard_normal((2, 3, 8, 10), dtype=np.float32)  # {N,C,H,W}

geometry = {"window_size": (3, 2), "strides": 2, "start_padding": (1, 0)}
y, indices = cudml.max_pooling(x, **geometry, return_indices=True)

# Indices are flat over the whole input, batch and channels included.
assert np.array_equal(x.reshape(-1)[indices], y)
n, c, h, w = np.unravel_index(int(indices[1, 2, 0, 0]), x.shape)
print(f"the first window of sample 1, channel 2 is won by row {h}, column {w}: {x[n, c, h, w]:.3f}")

# Ones that come back are counted where the winners stand.
dx = cudml.max_pooling_grad(x, np.ones_like(y), **geometry)
winners = np.count_nonzero(dx)
print(f"{y.size} windows have {winners} winners; one wins {int(dx.max())} times")
assert dx.sum() == y.size
