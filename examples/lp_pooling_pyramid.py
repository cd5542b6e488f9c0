"""Local energy of a signal at several scales: Lp pooling with dilations, beside averages."""

import numpy as np

import cudml

t = np.linspace(0, 1, 480, dtype=np.float32)
x = np.sin(2 * np.pi * 40 * t * t).reshape(1, 1, -1)  # {N,C,W}: a chirp

for dilation in (1, 2, 4):
    energy = cudml.lp_pooling(x, 8, strides=8, dilations=dilation, p=2)
    mean = cudml.average_pooling(x, 8, strides=8, dilations=dilation)
    print(
        f"dilation {dilation}: {energy.shape[-1]} windows, energy {energy.min():.2f} to "
        f"{energy.max():.2f}, mean {mean.min():+.2f} to {mean.max():+.2f}"
    )

# The norm of no window overflows or vanishes where its exact value does not.
tiny = np.full((1, 1, 4), 1e-30, np.float32)
print(f"two taps of 1e-30 have the norm {cudml.lp_pooling(tiny, 2)[0, 0, 0]:.4e}")
