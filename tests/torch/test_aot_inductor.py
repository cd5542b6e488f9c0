"""AOTInductor: a package that holds the operators, for every kind of argument that they have."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import _inductor as inductor  # noqa: E402
from torch._inductor import config  # noqa: E402

import cudml.torch as ct  # noqa: E402
import torch_support as ts  # noqa: E402

pytestmark = [
    pytest.mark.decision("D-GRAD-41"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch itself
    pytest.mark.skipif(
        not hasattr(inductor, "aoti_compile_and_package"), reason="this torch packs nothing"
    ),
    pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++"),
]


class Network(torch.nn.Module):
    """Sizes that are symbols, lists, texts, a number of any type, a type, masks, and no tensor."""

    def forward(self, x: Any) -> tuple[Any, ...]:
        y, indices = ct.max_pooling(x, 2, 2, output_sizes="ceil", return_indices=True)
        back = ct.max_unpooling(y, indices, x.shape)
        norm = ct.lp_pooling(ct.average_pooling(back, (1, 2), start_padding=1), 2, p=3)
        wide = ct.padding(norm, 0, (0, 0, 1, 2), mode="constant", value=2.5)
        some = wide[:1, :, :1, :1]
        z = ct.mean_variance_normalization(
            wide, some, None, axes=(2, 3), activation=("elu", {"alpha": 0.5})
        )
        count, mean, m2 = ct.normalization_statistics(wide, axes=(2, 3), dtype="float32")
        stored = ct.normalize(wide, mean, m2 / count, None, some, activation="gelu")
        dx, dscale, _ = ct.mean_variance_normalization_grad(
            wide, z, some, axes=(2, 3), outputs=("x", "scale")
        )
        return torch.relu(y) + 1, indices, z, stored, dx, dscale


@pytest.mark.long
def test_a_package_gives_the_same_bits(tmp_path: Path) -> None:
    """For other batches and heights than it was made with."""
    dims = {0: torch.export.Dim("n", min=1, max=64), 2: torch.export.Dim("h", min=5, max=64)}
    x = torch.rand(3, 2, 7, 6)
    program = torch.export.export(Network(), (x,), dynamic_shapes=({**dims},))
    with config.patch({"cpp.cxx": ("g++",)}):  # not what CXX says, which may be two words
        path = inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "network.pt2")
        )
    packed = inductor.aoti_load_package(path)
    for n, h in ((1, 5), (5, 10)):
        x = torch.randn(n, 2, h, 6)
        for got, want in zip(packed(x), Network()(x), strict=True):
            assert got.dtype == want.dtype and ts.equal(got, want)
