"""Every padding mode on one row, and a mode per dimension: pads may exceed the input."""

import numpy as np

import cudml

row = np.array([1, 2, 3, 4], np.int16)
for mode in ("constant", "edge", "reflection", "symmetric", "wrap"):
    y = cudml.padding(row, 6, 7, mode=mode, value=9)
    print(f"{mode:>10}", *y)

# A clip {frames,H,W,channels}: first and last frame repeat, images are reflected, channels stay.
clip = np.random.default_rng(0).integers(0, 255, (3, 4, 5, 3), dtype=np.uint8)
wide = cudml.padding(
    clip, (2, 1, 1, 0), (1, 1, 1, 0), mode=["edge", "reflection", "reflection", "edge"]
)
assert np.array_equal(wide[0], wide[2]) and np.array_equal(wide[2, 1:-1, 1:-1], clip[0])
print(f"a clip {clip.shape} becomes {wide.shape}")
