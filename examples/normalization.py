"""Layer, instance, group and RMS normalization are one operator, with a fused activation."""

import numpy as np

import cudml

rng = np.random.default_rng(0)
x = rng.standard_normal((2, 8, 6, 6), dtype=np.float32) * 5 + 1000  # {N,C,H,W}
scale = np.linspace(0.5, 2, 8, dtype=np.float32)

layer = cudml.mean_variance_normalization(x, axes=(1, 2, 3))
instance = cudml.mean_variance_normalization(x, scale.reshape(1, 8, 1, 1), axes=(2, 3))
root_mean_square = cudml.mean_variance_normalization(x, axes=1, use_mean=False)

# Groups of channels are a dimension of their own; scale stays one number a channel.
groups = x.reshape(2, 4, 2, 36)
grouped = cudml.mean_variance_normalization(
    groups, scale.reshape(1, 4, 2, 1), axes=(2, 3), activation="swish"
).reshape(x.shape)

for name, y in (("layer", layer), ("instance", instance), ("RMS", root_mean_square)):
    print(f"{name:>8}: mean {y.mean():+.5f}, deviation {y.std():.4f}")
print(f"   group: swish goes down to {grouped.min():.4f}")
assert abs(layer.mean()) < 1e-5 and abs(layer.std() - 1) < 1e-4
