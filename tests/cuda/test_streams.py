"""Streams, devices and memory of calls, as the simulated device's stand-in runtime sees them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _backend, _operators
from exporters import CUDA, Exporter, Interface
from harness import data, refused
from streams_support import (
    ALLOCATING,
    CALLS,
    COMPILED,
    WAITING,
    Lent,
    Run,
    logged,
    none_loaded,
    placed,
    stream,
    with_workspace,
)

X = data((2, 3, 5, 7), "float32")
POOLED = (2, 3, 4, 6)
INVALID_VALUE, OUT_OF_MEMORY, LAUNCH_FAILURE = 1, 2, 719  # cudaError_t
every_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(autouse=True)
def core(simulated: Any) -> Iterator[Any]:
    """The module with the simulated device, whose first device is current."""
    yield _backend.core
    _backend.core.simt_log(False)
    _backend.core.simt_set_device(0)
    _backend.core.simt_set_pending(0)


def live_events(core: Any) -> int:
    """Events that something holds: operators dropped in circles keep theirs until collected."""
    gc.collect()
    return core.simt_events()


class Stream:
    """An object with the protocol of cuda.core."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


# --- what a call may ask of the runtime ---


@pytest.mark.cell("any other, CUDA", "stream")
@every_call
def test_nothing_waits(name: str) -> None:
    """No call synchronizes, with the default stream or another."""
    call = CALLS[name]()
    with stream() as own:
        for given in (None, 0, 2, own):
            with logged() as log:
                call(stream=given)
            assert log.launches and not log.of(*WAITING), log


@pytest.mark.cell("any other, CUDA", "graph")
@pytest.mark.parametrize("workspace", [True, False], ids=["workspace", "own memory"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_calls_allocate_nothing(name: str, workspace: bool) -> None:
    """No memory and no event: all of it was done by compile()."""
    call = Run(name, workspace=workspace)
    with stream() as own, stream() as other:
        for given in (None, own, own, other, 2):
            with logged() as log:
                assert call(stream=given) is call.outputs[0]
            assert not log.of(*ALLOCATING, "cudaEventCreateWithFlags"), log
            if workspace:
                assert not log.of("cudaEventRecord", "cudaStreamWaitEvent"), log


def test_compile_loads_the_kernels(core: Any) -> None:
    """With the driver's lazy loading, that would else happen in a call, perhaps in a capture."""
    late = []
    for name in COMPILED:
        with none_loaded():
            call = Run(name)
            with logged() as log:
                call()
        late += [name] if log.of("load") else []
    assert not late


def test_functions_take_their_scratch_memory_from_the_stream() -> None:
    """Allocated and freed in the stream's order, never by calls that wait for the device."""
    whole = Lent("mean_variance_normalization", (1, 1, 64, 1024))
    with stream() as own, logged() as log:
        for name in CALLS:
            if not name.startswith("compiled"):
                CALLS[name]()(stream=own)
        whole(stream=own)
    assert not log.of("cudaMalloc", "cudaFree"), log.of("cudaMalloc", "cudaFree")
    taken, freed = log.of("cudaMallocFromPoolAsync"), log.of("cudaFreeAsync")
    assert {noted.stream for noted in taken + freed} <= {own}
    assert len(taken) == len(freed)


# --- the stream ---


@pytest.mark.cell("any other, CUDA", "stream")
@every_call
def test_every_launch_goes_to_the_stream(name: str, simulated: Any) -> None:
    """None is the library's current one; 0 and 1 the legacy one; 2 the per-thread one."""
    call = CALLS[name]()
    with stream() as own, stream() as current:
        simulated.streams.append(current)
        try:
            cases = [(None, {current}), (0, {0, 1}), (1, {0, 1}), (2, {2}), (own, {own}),
                     (np.uint64(own), {own}), (Stream(own), {own}), (Stream(1), {0, 1}),
                     (Stream(2), {2})]  # fmt: skip
            for given, wanted in cases:
                call.poison()
                with logged() as log:
                    call(stream=given)
                assert {n.stream for n in log.launches} <= wanted and log.launches, given
                assert not call.is_poison()
        finally:
            simulated.streams.pop()


def test_streams_that_are_not_there(core: Any) -> None:
    """The runtime's refusal, by operator; nothing is written, the next call works."""
    call = Lent("max_pooling")
    for _ in range(2):
        with refused(cudml.CudaError, "max_pooling: ", "cudaErrorInvalidResourceHandle") as caught:
            call(stream=0x1234560)
        assert caught.value.code == 400 and call.is_poison()
        assert core.simt_pending() == "cudaSuccess"
    call()
    assert not call.is_poison()


# --- the device ---


@pytest.mark.bug("RUN-15")
@every_call
def test_the_device_is_the_arrays_and_the_former_one_comes_back(name: str, core: Any) -> None:
    """Arrays on the second device while the first is current, and the other way round."""
    for there in (1, 0):
        core.simt_set_device(there if name.startswith("compiled") else 0)
        call = Run(name.split()[1].strip(","), f"cuda:{there}") if " " in name else CALLS[name]()
        for current in (0, 1):
            core.simt_set_device(current)
            with placed(call.all(), there), logged() as log:
                call()
                assert core.simt_device() == current
            assert {n.device for n in log.launches} == {there}
            with placed(call.all(), there):
                core.simt_fail("cudaLaunchKernelExC", 0, INVALID_VALUE)
                with refused(cudml.CudaError, "cudaErrorInvalidValue"):
                    call()
            assert core.simt_device() == current and core.simt_pending() == "cudaSuccess"


@pytest.mark.bug("RUN-15")
def test_operators_are_compiled_for_their_device(core: Any) -> None:
    """Their memory is there; "cuda" is the device that is current."""
    for there in (0, 1):
        with logged() as log:
            runs = with_workspace(device=f"cuda:{there}")
        assert {n.device for n in log.of("cudaMalloc")} == {there} and core.simt_device() == 0
        assert f"cuda:{there}" in repr(runs[0].run)
    core.simt_set_device(1)
    assert "cuda:1" in repr(Run("MaxPooling2", "cuda").run)


@pytest.mark.bug("RUN-13")
def test_arrays_on_two_devices() -> None:
    call = Lent("mean_variance_normalization")
    for name, a in [*list(call.arrays.items())[1:], ("out", call.outputs[0])]:
        with placed([a], 1), refused(ValueError, f"({name})", "cuda:1", "cuda:0"):
            call()
        assert call.is_poison()


# --- order after producers ---


@pytest.mark.bug("RUN-03")
@pytest.mark.cell("any other, CUDA", "stream")
@pytest.mark.parametrize("role", ["x", "scale", "out"])
def test_interfaces_with_a_stream_are_waited_for(role: str, core: Any) -> None:
    """On the device, by an event of the producer's stream, before the launch; none is kept."""
    call = Lent("mean_variance_normalization")
    a = call.outputs[0] if role == "out" else call.arrays[role]
    before = live_events(core)
    with stream() as producer, stream() as consumer:
        cases = [(producer, consumer, producer), (producer, None, producer), (1, consumer, 0),
                 (2, consumer, 2), (consumer, consumer, None), (None, consumer, None),
                 (1, None, None), (1, 0, None)]  # fmt: skip
        for said, given, waited in cases:
            odd = Interface(X, **{**a.__cuda_array_interface__, "stream": said})
            with logged() as log:
                call(**{role: odd}, stream=given)
            records, waits = log.of("cudaEventRecord"), log.of("cudaStreamWaitEvent")
            if waited is None:
                assert not records and not waits, (said, given)
                continue
            assert [n.stream or 0 for n in records] == [waited], (said, given)
            assert [n.stream or 0 for n in waits] == [given or 0]
            assert records[0].object == waits[0].object
            order = [n.call for n in log]
            launch = order.index("cudaLaunchKernelExC")
            assert log.first("cudaEventRecord") < log.first("cudaStreamWaitEvent") < launch
            assert not log.of(*WAITING)
    assert live_events(core) == before


@pytest.mark.bug("RUN-03")
@pytest.mark.cell("any other, CUDA", "stream")
def test_capsules_are_asked_for_with_the_stream(simulated: Any) -> None:
    """By DLPack's numbers: 1 legacy, 2 per-thread, a handle; each array of the call alike."""
    lender, out = simulated.InterfaceArray.copy_of(X), simulated.InterfaceArray.empty(X.shape, "f4")
    with stream() as own:
        for given, told in [(None, 1), (0, 1), (1, 1), (2, 2), (own, own), (Stream(own), own)]:
            lent = [Exporter(X, device=(CUDA, 0), data=lender.address) for _ in range(2)]
            lent.append(Exporter(X, device=(CUDA, 0), data=out.address))
            with logged() as log:
                _operators.mean_variance_normalization(*lent[:2], axes=3, out=lent[2], stream=given)
            assert [x.asked for x in lent] == [[{"stream": told, "max_version": (1, 3)}]] * 3
            assert all(x.is_settled() for x in lent) and not log.of(*WAITING)


@pytest.mark.bug("RUN-03")
def test_a_library_is_asked_by_its_current_stream(simulated: Any) -> None:
    """Producer and call are on one stream then, so that no event is needed."""
    asked = []

    class Asked(simulated.CapsuleArray):
        def __dlpack__(self, **keywords: Any) -> Any:
            asked.append(keywords.get("stream"))
            return super().__dlpack__(**keywords)

    x = Asked.copy_of(X)
    Asked.__module__ = "device_array"
    with stream() as current:
        simulated.streams.append(current)
        try:
            with logged() as log:
                y = _operators.max_pooling(x, 2)
        finally:
            simulated.streams.pop()
        assert set(asked) == {current} and {n.stream for n in log.launches} == {current}
        assert not log.of("cudaEventRecord", "cudaStreamWaitEvent") and type(y) is Asked


# --- memory that belongs to a compiled operator ---


@pytest.mark.cell("any other, CUDA", "stream")
def test_own_memory_is_handed_from_stream_to_stream() -> None:
    """A stream waits for the last one that used the memory; the same stream need not."""
    for call in with_workspace():
        call()
        want = call.results()
        with stream() as a, stream() as b:
            call(stream=a)
            for given, former in [(a, None), (b, a), (b, None), (a, b), (0, a)]:
                call.poison()
                with logged() as log:
                    call(stream=given)
                waits = log.of("cudaStreamWaitEvent")
                assert [n.stream for n in waits] == ([given] if former is not None else [])
                if waits:
                    assert log.first("cudaStreamWaitEvent") < log.first("cudaLaunchKernelExC")
                records = [i for i, n in enumerate(log) if n.call == "cudaEventRecord"]
                launches = [i for i, n in enumerate(log) if n.call == "cudaLaunchKernelExC"]
                assert records and records[-1] > launches[-1], (
                    "the next stream has nothing to wait on"
                )
                assert not log.of(*WAITING) and call.results() == want


def test_failed_calls_leave_the_memory_usable(core: Any) -> None:
    for call in with_workspace():
        with stream() as a, stream() as b:
            call(stream=a)
            want = call.results()
            for what in ("cudaLaunchKernelExC", "cudaStreamWaitEvent", "cudaEventRecord"):
                core.simt_fail(what, 0, INVALID_VALUE)
                with refused(cudml.CudaError, "cudaErrorInvalidValue"):
                    call(stream=b)
                call.poison()
                call(stream=a)
                assert call.results() == want and core.simt_pending() == "cudaSuccess"


def test_threads_share_an_operator_on_streams_of_their_own() -> None:
    """Own memory is locked while a call is enqueued; a caller's is the caller's affair."""
    shared = with_workspace()[0]
    calls = [with_workspace(workspace=bool(i % 2))[0] for i in range(4)]
    wrong: list[Any] = []
    for i, call in enumerate(calls):
        call.run = shared.run
        call.fill(i)

    def work(call: Run) -> None:
        with stream() as own:
            call(stream=own)
            want = call.results()
            for _ in range(10):
                call.poison()
                call(stream=own)
                if call.results() != want:
                    wrong.append(call)

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# --- errors of the runtime ---


@pytest.mark.bug("RUN-05")
@every_call
def test_foreign_errors_are_left_alone(name: str, core: Any) -> None:
    """An error that others left pending neither fails a call nor is taken away by it."""
    call = CALLS[name]()
    core.simt_set_pending(INVALID_VALUE)
    call()
    assert not call.is_poison() and core.simt_pending() == "cudaErrorInvalidValue"


@pytest.mark.bug("RUN-05", "RUN-07")
def test_memory_that_runs_out(core: Any) -> None:
    """At the first, second … allocation: refused, nothing pending or lost, the next call works."""
    whole = Lent("mean_variance_normalization", (1, 1, 64, 1024))
    for call in (whole, Lent("max_pooling_grad"), Lent("max_pooling")):
        for k in range(4):
            call.poison()
            core.simt_fail("cudaMallocFromPoolAsync", k, OUT_OF_MEMORY)
            with logged() as log:
                try:
                    call()
                except (cudml.CudaError, MemoryError) as error:
                    assert call.problem.op in str(error) and call.is_poison()
            core.simt_fail("cudaMallocFromPoolAsync", 10**6, 0)
            freed = len(log.of("cudaFreeAsync"))
            assert len(log.of("cudaMallocFromPoolAsync")) - freed in (0, 1)  # the one that failed
            assert core.simt_pending() == "cudaSuccess"
            call()
            assert not call.is_poison()
    for k in range(2):
        core.simt_fail("cudaMalloc", k, OUT_OF_MEMORY)
        before = live_events(core)
        with refused((cudml.CudaError, MemoryError), "cudaErrorMemoryAllocation"):
            for _ in range(k + 1):
                with_workspace()
        assert live_events(core) <= before and core.simt_pending() == "cudaSuccess"
    with_workspace()


@pytest.mark.bug("RUN-06")
@pytest.mark.parametrize("name", ["padding", "compiled Padding1"])
def test_faults_of_kernels(name: str, core: Any) -> None:
    """By operator, code and name; the text says that a fault may come from earlier work."""
    call = CALLS[name]()
    core.simt_fail("cudaLaunchKernelExC", 0, LAUNCH_FAILURE)
    with refused(cudml.CudaError, "cudaErrorLaunchFailure", "earlier") as caught:
        call()
    assert (caught.value.code, caught.value.name) == (LAUNCH_FAILURE, "cudaErrorLaunchFailure")
    call()
    assert not call.is_poison()
