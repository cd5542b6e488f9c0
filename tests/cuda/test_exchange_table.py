"""Calls on arrays that an exchange table puts on a device: PyTorch's own, on the simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _operators, reference
from directml_support import desc_of, tensor

torch = pytest.importorskip("torch")
simulated_torch = pytest.importorskip("simulated_torch")
pytestmark = pytest.mark.skipif(
    not simulated_torch.has_table(), reason="this PyTorch has no exchange table"
)
SHAPE, POOLED = (2, 3, 6, 8), (2, 3, 5, 7)


@pytest.fixture
def core() -> Iterator[Any]:
    with simulated_torch.on_device() as found:
        yield found
        found.simt_set_current_stream(0)


def compiled() -> Any:
    fields = {"InputTensor": tensor(list(SHAPE)), "OutputTensor": tensor(list(POOLED))}
    one = [1, 1]
    return cudml.Operator(
        desc_of("MaxPooling2", **fields, WindowSize=[2, 2], Strides=one, Dilations=one)
    ).compile("cuda:0")


def some() -> tuple[Any, np.ndarray]:
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    return torch.from_numpy(x), reference.max_pooling(x, 2)


@pytest.mark.parametrize("given", [None, "stream"])
def test_the_stream_of_the_table(core: Any, given: str | None) -> None:
    """Every way to call launches on the stream that is current, or on the one that is given."""
    x, want = some()
    run, stream = compiled(), core.simt_stream()
    core.simt_set_current_stream(stream)
    keywords = {"stream": stream} if given else {}
    for call in (run, lambda x, **kw: _operators.max_pooling(x, 2, **kw)):
        for out in (torch.full(POOLED, float("nan")), None):
            core.simt_log(True)
            y = call(x, out=out, **keywords)
            calls = core.simt_calls()
            core.simt_log(False)
            launches = [noted for noted in calls if noted[0] == "cudaLaunchKernelExC"]
            assert launches and {noted[1] for noted in launches} == {stream}
            assert y.numpy().tobytes() == want.tobytes() and (out is None or y is out)
    core.simt_destroy_stream(stream)


def test_written_outputs_are_told(core: Any) -> None:
    x, _ = some()
    y = torch.zeros(POOLED)
    before = y._version
    compiled()(x, out=y)
    assert y._version == before + 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x, y: (x, y[..., ::2]), "Sizes"),
        (lambda x, y: (x.double(), y), "DataType"),
        (lambda x, y: (x, x.view(-1)[: y.numel()].view(POOLED)), "overlap"),
        (lambda x, y: (x.requires_grad_(), y), "gradient"),
        (lambda x, y: (x.numpy(), y.numpy()), "compiled for cuda:0"),
    ],
)
def test_what_is_not_plain_is_refused(core: Any, change: Any, said: str) -> None:
    x, y = some()[0], torch.zeros(POOLED)
    x, y = change(x, y)
    with pytest.raises((TypeError, ValueError, BufferError), match=said):
        compiled()(x, out=y)
