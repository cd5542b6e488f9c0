"""Whose stream and whose memory: identities of streams, libraries' allocators, drivers."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import cudml
from array_support import make
from cudml import _backend, _operators
from cudml._cli import info
from folders import ROOT
from harness import refused
from streams_support import ALLOCATING, LAUNCH, TAKEN, Lent, Run, logged, stream, with_workspace

LONG = ("mean_variance_normalization", (1, 1, 500, 1024))  # no cluster holds it: it needs memory
INVALID_VALUE, NOT_SUPPORTED = 1, 801  # cudaError_t


@pytest.fixture(autouse=True)
def core(simulated: Any) -> Iterator[Any]:
    yield _backend.core
    _backend.core.simt_log(False)
    _backend.core.simt_set_pending(0)


def child(script: str) -> None:
    """Runs a script in a process of its own, with the simulated device."""
    begin = """
import sys
sys.path[:0] = sys.argv[1:]
from cudml import _backend
import cudml, simt_build
core = _backend.core = simt_build.module()
from streams_support import Lent, TAKEN, logged, stream
"""
    folders = [str(ROOT / "tests"), str(ROOT / "tests/support")]
    command = [sys.executable, "-c", begin + script, *folders]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- which stream a handle stands for ---


def waits_of(call: Run, on: int) -> list[int]:
    """The streams that a call makes wait, all of them before it launches anything."""
    with logged() as log:
        call(stream=on)
    waits = log.of("cudaStreamWaitEvent")
    assert not waits or log.first("cudaStreamWaitEvent") < log.first(LAUNCH)
    return [noted.stream for noted in waits]


def test_the_per_thread_stream_is_another_in_each_thread() -> None:
    """What one thread enqueued on handle 2 is waited for by another that says 2."""
    for call in with_workspace():
        call(stream=2)
        found: list[list[int]] = []
        thread = threading.Thread(target=lambda c=call, f=found: f.append(waits_of(c, 2)))
        thread.start()
        thread.join()
        assert found == [[2]]
        assert waits_of(call, 2) == [2]


def test_a_handle_that_is_used_again_is_another_stream(core: Any) -> None:
    for call in with_workspace():
        with stream() as first:
            call(stream=first)
            assert not waits_of(call, first)
        with stream() as second:
            assert second == first
            assert waits_of(call, second) == [second]
            assert not waits_of(call, second)


def test_a_stream_without_an_identity_is_waited_for(core: Any) -> None:
    for call in with_workspace():
        with stream() as on:
            call(stream=on)
            core.simt_fail("cudaStreamGetId", 0, INVALID_VALUE)
            assert waits_of(call, on) == [on]
            assert not waits_of(call, on) and core.simt_pending() == "cudaSuccess"


# --- the memory of arrays ---


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    from device_libraries import torch_like

    return torch_like(monkeypatch)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    from device_libraries import cupy_like

    return cupy_like(monkeypatch)


def test_memory_in_use_on_another_stream_is_not_handed_out(torch: Any) -> None:
    """Arrays that are dropped at once, by an allocator that hands out again at once."""
    p = make("max_pooling", (2, 3, 5, 7))
    with stream() as current, stream() as other:
        torch.stream = current
        for given in (None, current, other, 1, 2):
            x = torch.to(p.arrays["x"])
            y = _operators.max_pooling(x, *p.args, **p.kwargs, stream=given)
            blocks = {a.memory.address: a.memory.size for a in (x, y)}
            del x, y
            again = [torch.kind.memory_type(size) for size in blocks.values()]
            reused = {block.address for block in again} == set(blocks)
            assert reused == (given in (None, current)), given
    assert {stream for _, stream in torch.recorded} == {other, 0, 2}


def test_every_array_of_a_call_is_told(torch: Any) -> None:
    call = Run("MaxPoolingGrad", workspace=True)
    kind = torch.kind
    call.arrays = {k: torch.to(a.home()) for k, a in call.arrays.items()}
    call.outputs = [torch.to(y.home()) for y in call.outputs]
    call.workspace = kind.empty((call.run.workspace_bytes + 256,), "u1")
    with stream() as other:
        call(stream=other)
        assert set(torch.recorded) == {(a.address, other) for a in call.all()}
        torch.recorded.clear()
        torch.stream = other
        call(stream=other)
        assert not torch.recorded


# --- working memory ---


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_working_memory_is_the_array_s_library_s(name: str, request: pytest.FixtureRequest) -> None:
    """On the stream of the call, by the allocator that holds the GPU's free memory anyway."""
    library = request.getfixturevalue(name)
    p = make(*LONG)
    with stream() as current, stream() as other:
        library.stream = current
        for given in (None, other, 1):
            x = [library.to(a) for a in p.arrays.values()]
            out = library.to(p.outputs()[0])
            library.allocated.clear()
            library.scratch.clear()
            with logged() as log:
                _operators.mean_variance_normalization(
                    *x, *p.args, **p.kwargs, out=out, stream=given
                )
            assert not library.allocated
            assert [s or 1 for s in library.scratch] == [current if given is None else given]
            assert not log.of(*ALLOCATING)
            assert not p.problem([out.home()])


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_working_memory_of_a_graph(name: str, core: Any, request: pytest.FixtureRequest) -> None:
    """The graph's own: a library would hand its memory to others while the graph is there."""
    library = request.getfixturevalue(name)
    p = make(*LONG)
    x, out = [library.to(a) for a in p.arrays.values()], library.to(p.outputs()[0])
    with stream() as on:
        with logged() as log:
            core.simt_begin_capture(on)
            _operators.mean_variance_normalization(*x, *p.args, **p.kwargs, out=out, stream=on)
            graph = core.simt_end_capture(on)
        assert not library.scratch and log.of(TAKEN)
        core.simt_launch_graph(graph, on)
        assert not p.problem([out.home()])
        core.simt_destroy_graph(graph)


def test_working_memory_without_a_library(core: Any) -> None:
    """From a pool of our own, which keeps some of it from one synchronization to the next."""
    call = Lent(*LONG)
    with logged() as log:
        call()
    assert log.of(TAKEN) and not log.of("cudaMallocAsync", "cudaMalloc")
    assert dict(core.simt_pools())[0] > 0


def test_devices_without_pools() -> None:
    """Memory that is allocated and freed at once; a graph, which cannot hold it, is refused."""
    child(f"""
core.simt_support_pools(False)
call = Lent(*{LONG!r})
with logged() as log:
    call()
assert len(log.of("cudaMalloc")) == len(log.of("cudaFree")) == 1 and not log.of(TAKEN)
assert not call.is_poison() and core.simt_pending() == "cudaSuccess"
with stream() as on:
    core.simt_begin_capture(on)
    try:
        call(stream=on)
    except cudml.CudaError as error:
        assert "memory pools" in str(error) and error.code == {NOT_SUPPORTED}, error
    else:
        raise SystemExit("not refused")
    core.simt_end_capture(on)
""")


@pytest.mark.parametrize("release", ["cudaFreeAsync", "cudaFree"])
def test_errors_of_releases_stay_here(release: str) -> None:
    """Nobody is told that memory was lost: no later call of another library finds the error."""
    child(f"""
core.simt_support_pools({release == "cudaFreeAsync"})
call = Lent(*{LONG!r})
core.simt_fail({release!r}, 0, {INVALID_VALUE})
with logged() as log:
    call()
assert log.of({release!r}) and not call.is_poison()
assert core.simt_pending() == "cudaSuccess", core.simt_pending()
""")


# --- the driver ---


@pytest.mark.parametrize(
    ("version", "found"), [(12080, "serves CUDA 12.8 at most"), (0, "no NVIDIA driver is found")]
)
def test_a_driver_that_is_too_old(
    version: int, found: str, core: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found and what is needed, in the error and in `python -m cudml info`."""
    needed = re.compile(
        r"needs one for CUDA (13, that is driver 580|12, that is driver 525) or later"
    )
    call = Lent("max_pooling")
    core.simt_set_driver(version)
    try:
        with refused(cudml.CudaError, "cudaErrorInsufficientDriver", found) as caught:
            call()
        assert needed.search(str(caught.value))
        monkeypatch.setattr(info, "_core", core)
        page = "\n".join(info._page(info.collect()))
        assert found in page and needed.search(page)
    finally:
        core.simt_set_driver(1_000_000)
    call()
    assert not call.is_poison()
