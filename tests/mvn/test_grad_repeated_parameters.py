"""Gradients of a scale and a bias whose memory holds one number for all of their elements: each
element has a sum of its own all the same, of as many terms as one of a packed parameter."""

from __future__ import annotations

import pytest

from array_support import child_says

GROWTH = """
import resource, sys
import numpy as np
import cudml

sizes, axes = eval(sys.argv[1]), int(sys.argv[2])
rows = np.random.default_rng(0).standard_normal(sizes[1:]).astype("float32")
x = np.broadcast_to(rows, sizes)
packed = np.full((1, *sizes[1:]), 2.0, "float32")
repeated = np.broadcast_to(np.float32(2), packed.shape)
path = cudml.explain("mean_variance_normalization_grad", x, x, repeated, repeated, axes=axes).kernel

def gradients(scale):
    return cudml.mean_variance_normalization_grad(
        x, x, scale, scale, axes=axes, outputs=("scale", "bias"))[1:]

want = gradients(packed)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
got = gradients(repeated)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for a, b in zip(got, want):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
print(path, (after - before) // 1024)
"""


@pytest.mark.decision("D-GRAD-17a")
@pytest.mark.parametrize(
    ("sizes", "axes", "path"),
    [((4, 500_000), 1, "plain"), ((4, 1000, 500), 2, "plain"), ((5, 50_000, 8), 2, "turned")],
    ids=str,
)
def test_sums_take_the_memory_of_their_elements(
    sizes: tuple[int, ...], axes: int, path: str
) -> None:
    """And not that of partial sums of terms that there are not: 16 bytes a share and element."""
    took, growth = child_says(GROWTH, str(sizes), str(axes), CUDML_NUM_THREADS="1").split()
    assert took == f"mvn_grad/{path}"
    assert int(growth) <= 40
