"""CUDA graphs: every operator is captured once and replayed with other inputs.

On the simulated device by the stand-in runtime, which keeps the launches of a stream that captures
and fails what CUDA fails then; on a GPU by PyTorch's graphs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import backends
import cudml
from array_support import LABELS, Problem, make
from cudml import _backend, _operators
from device_array import InterfaceArray
from directml_support import desc_of
from exporters import Interface
from harness import data, refused
from kernel_case import environment
from streams_support import CALLS, Lent, Run, logged, stream, with_workspace

every_call = pytest.mark.parametrize("name", CALLS)
REPLAYS = 3


@pytest.fixture
def core(simulated: Any) -> Iterator[Any]:
    yield _backend.core
    _backend.core.simt_log(False)
    _backend.core.simt_set_pending(0)


def capture(core: Any, on: int, call: Callable[[], Any]) -> int:
    """The graph of a call."""
    core.simt_begin_capture(on)
    try:
        call()
    finally:
        graph = core.simt_end_capture(on)
    return int(graph)


def check_replays(core: Any, call: Lent, graph: int, on: int) -> None:
    """Each replay computes from what the inputs hold then, bit for bit as the call itself does."""
    for k in range(REPLAYS):
        call.fill(k)
        call(stream=on)
        want = call.results()
        call.poison()
        core.simt_launch_graph(graph, on)
        assert call.results() == want, k


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


# --- on the simulated device ---


@pytest.mark.bug("RUN-04")
@pytest.mark.cell("any other, CUDA", "graph")
@every_call
def test_calls_are_captured_and_replayed(name: str, core: Any) -> None:
    """Nothing runs during the capture; own memory, a caller's and the stream's all serve."""
    call = CALLS[name]()
    with stream() as on:
        call.poison()
        with logged() as log:
            graph = capture(core, on, lambda: call(stream=on))
        assert call.is_poison() and log.launches
        check_replays(core, call, graph, on)
        core.simt_destroy_graph(graph)


@pytest.mark.bug("RUN-04")
@pytest.mark.cell("any other, CUDA", "graph")
@every_call
def test_the_library_s_current_stream_is_captured(name: str, core: Any, simulated: Any) -> None:
    call = CALLS[name]()
    with stream() as on:
        simulated.streams.append(on)
        try:
            graph = capture(core, on, call)
        finally:
            simulated.streams.pop()
        check_replays(core, call, graph, on)
        core.simt_destroy_graph(graph)


@pytest.mark.bug("RUN-04")
@pytest.mark.cell("any other, CUDA", "graph")
@pytest.mark.parametrize("workspace", [True, False], ids=["workspace", "own memory"])
def test_scratch_memory_in_a_capture(workspace: bool, core: Any) -> None:
    """Used before on another stream, captured, used after on a third: each is legal and right."""
    for call in with_workspace(workspace=workspace):
        with stream() as first, stream() as on, stream() as last:
            call(stream=first)
            graph = capture(core, on, lambda c=call, s=on: c(stream=s))
            call.fill(7)
            call(stream=last)
            want = call.results()
            call(stream=first)
            call.poison()
            core.simt_launch_graph(graph, on)
            assert call.results() == want
            again = capture(core, last, lambda c=call, s=last: c(stream=s))
            call.poison()
            core.simt_launch_graph(again, last)
            assert call.results() == want
            for number in (graph, again):
                core.simt_destroy_graph(number)


@pytest.mark.bug("RUN-04")
def test_several_calls_in_one_graph(core: Any) -> None:
    """One operator feeds the next; the outputs are the library's, taken before."""
    pool, norm = Lent("max_pooling"), Lent("mean_variance_normalization")
    middle = pool.outputs[0]
    out = type(middle).empty(middle.shape, "f4")

    def both(on: int) -> None:
        pool(stream=on)
        _operators.mean_variance_normalization(middle, axes=(2, 3), out=out, stream=on)

    with stream() as on:
        graph = capture(core, on, lambda: both(on))
        for k in range(REPLAYS):
            pool.fill(k)
            both(on)
            want = out.home().tobytes()
            out.memory.bytes()[:] = 0xFF
            core.simt_launch_graph(graph, on)
            assert out.home().tobytes() == want
    del norm


def test_shorter_rows_between_capture_and_replay(core: Any) -> None:
    """Shared memory that a kernel may take is not what its latest launch has taken."""
    long, short = (InterfaceArray.copy_of(data((1, n), "float32", 7)) for n in (30_000, 15_000))
    y = InterfaceArray.empty(long.shape, np.dtype("f4"))
    with stream() as on, environment(CUDML_KERNEL="mvn_shared"):
        normalize = functools.partial(_operators.mean_variance_normalization, axes=1, stream=on)
        normalize(long, out=y)
        want = y.home().tobytes()
        graph = capture(core, on, lambda: normalize(long, out=y))
        normalize(short)
        y.memory.bytes()[:] = 0xFF
        core.simt_launch_graph(graph, on)
        core.simt_destroy_graph(graph)
    assert y.home().tobytes() == want


@pytest.mark.bug("RUN-04")
def test_results_without_out_in_a_capture(core: Any) -> None:
    """The library allocates them, as it may during a capture; they are filled by the replay."""
    call = Lent("max_pooling")
    with stream() as on:
        results: list[Any] = []
        graph = capture(core, on, lambda: results.append(call(out=None, stream=on)))
        for k in range(REPLAYS):
            call.fill(k)
            core.simt_launch_graph(graph, on)
            got = results[0].home().tobytes()
            call(stream=on)
            assert got == call.results()[0]


@pytest.mark.bug("RUN-04")
@every_call
def test_a_failed_capture_leaves_the_stream_usable(name: str, core: Any) -> None:
    call = CALLS[name]()
    with stream() as on:
        core.simt_begin_capture(on)
        core.simt_fail("cudaLaunchKernelExC", 0, 1)
        with refused(cudml.CudaError, "cudaErrorInvalidValue"):
            call(stream=on)
        core.simt_end_capture(on)
        assert core.simt_pending() == "cudaSuccess"
        graph = capture(core, on, lambda: call(stream=on))
        check_replays(core, call, graph, on)


@pytest.mark.bug("RUN-04")
def test_refused_calls_do_not_break_a_capture(core: Any) -> None:
    """What is refused by its arguments asks nothing of the runtime."""
    call = Lent("max_pooling")
    with stream() as on:
        core.simt_begin_capture(on)
        for changes in ({"out": call.arrays["x"]}, {"out": np.zeros(1)}, {"stream": "x"}):
            with pytest.raises((ValueError, TypeError)):
                call(**{"stream": on, **changes})
        call(stream=on)
        graph = core.simt_end_capture(on)
        check_replays(core, call, graph, on)


@pytest.mark.bug("RUN-04")
def test_compiling_in_a_capture(core: Any) -> None:
    """Memory that is allocated then is no part of the graph, and does not break it."""
    with stream() as on:
        calls: list[Run] = []

        def compile_and_call() -> None:
            calls.extend(with_workspace())
            for call in calls:
                call(stream=on)

        graph = capture(core, on, compile_and_call)
        for call in calls:
            check_replays(core, call, graph, on)
        core.simt_destroy_graph(graph)


@pytest.mark.bug("RUN-04")
def test_an_operator_is_dropped_during_a_capture(core: Any) -> None:
    """As the garbage collector may, in this thread or another: its memory goes, the graph stays."""
    call = Lent("max_pooling")
    with stream() as on:
        for drop in (lambda drop: drop(), in_a_thread):
            dropped = with_workspace()
            with logged() as log:
                core.simt_begin_capture(on)
                call(stream=on)
                drop(dropped.clear)
                call(stream=on)
                graph = core.simt_end_capture(on)
            assert log.of("cudaFree")
            check_replays(core, call, graph, on)
            core.simt_destroy_graph(graph)


@pytest.mark.bug("RUN-04")
def test_others_waiting_breaks_a_capture(core: Any) -> None:
    """What the library allows itself it allows nobody else, before a call and after it."""
    with stream() as on:
        for prepare in (lambda: None, with_workspace):
            core.simt_begin_capture(on)
            prepare()
            with pytest.raises(RuntimeError, match="Unsupported"):
                core.simt_synchronize()
            with pytest.raises(RuntimeError, match="Invalidated"):
                core.simt_end_capture(on)
            core.simt_set_pending(0)


@pytest.mark.bug("RUN-04")
def test_the_legacy_stream_during_a_capture(core: Any) -> None:
    """It would wait for the capturing stream: CUDA's error, by operator and name."""
    call = Lent("padding")
    with stream() as on:
        core.simt_begin_capture(on)
        with refused(cudml.CudaError, "padding: ", "cudaErrorStreamCaptureImplicit"):
            call(stream=0)
        with pytest.raises(RuntimeError, match="Invalidated"):
            core.simt_end_capture(on)
        core.simt_set_pending(0)
        call()
        graph = capture(core, on, lambda: call(stream=on))
        check_replays(core, call, graph, on)


@pytest.mark.bug("RUN-03", "RUN-04")
def test_a_producer_outside_the_capture(core: Any) -> None:
    """The capture cannot wait for its stream: an error that names the array, and no graph."""
    call = Lent("average_pooling")
    entries = call.arrays["x"].__cuda_array_interface__
    with stream() as on, stream() as producer:
        odd = Interface(np.zeros(1), **{**entries, "stream": producer})
        core.simt_begin_capture(on)
        with refused(cudml.CudaError, "average_pooling: ", "cudaErrorStreamCaptureIsolation"):
            call(x=odd, stream=on)
        with pytest.raises(RuntimeError, match="Invalidated"):
            core.simt_end_capture(on)
        core.simt_set_pending(0)
        same = Interface(np.zeros(1), **{**entries, "stream": on})
        graph = capture(core, on, lambda: call(x=same, stream=on))
        check_replays(core, call, graph, on)


def test_the_stand_in_fails_what_cuda_fails(core: Any, simulated: Any) -> None:
    """Its own rules, so that the tests above mean something."""
    call = Lent("mean_variance_normalization", (1, 1, 64, 1024))
    with stream() as on:
        with pytest.raises(RuntimeError, match="Unmatched"):
            core.simt_end_capture(on)
        with pytest.raises(RuntimeError, match="Unsupported"):
            core.simt_begin_capture(0)
        graph = capture(core, on, lambda: call(stream=on))
        with pytest.raises(RuntimeError, match="InvalidResourceHandle"):
            core.simt_destroy_stream(on + 1)
        core.simt_destroy_graph(graph)
        with pytest.raises(RuntimeError, match="InvalidValue"):
            core.simt_launch_graph(graph, on)


# --- on a GPU ---


def tensors_of(problem: Problem, torch: Any) -> tuple[list[Any], list[Any]]:
    """A problem's inputs and outputs on the GPU."""
    inputs = [torch.from_numpy(a.copy()).cuda() for a in problem.arrays.values()]
    pairs = zip(problem.shapes, problem.dtypes, strict=True)
    return inputs, [torch.from_numpy(np.zeros(s, d)).cuda() for s, d in pairs]


def gpu_calls(torch: Any) -> dict[str, tuple[list[Any], list[Any], Callable[[], Any]]]:
    """By name: inputs, outputs and the call of every operator, as a function and compiled."""
    found = {}
    for label in LABELS:
        p = make(label, (2, 3, 17, 33))
        inputs, outputs = tensors_of(p, torch)
        out = outputs[0] if len(outputs) == 1 else tuple(outputs)
        found[label] = (inputs, outputs, lambda p=p, i=inputs, o=out: getattr(_operators, p.op)(
            *i, *p.args, **p.kwargs, out=o))  # fmt: skip
    for name in ("MaxPooling2", "MaxPoolingGrad", "AveragePoolingGrad", "LpPooling1", "Padding1",
                 "MeanVarianceNormalization2"):  # fmt: skip
        found[name] = gpu_compiled(torch, name)
    return found


def gpu_compiled(torch: Any, name: str) -> tuple[list[Any], list[Any], Callable[[], Any]]:
    desc = desc_of(name)
    fields = ("InputTensor", "InputGradientTensor")
    sizes = [getattr(desc, f).Sizes for f in fields if getattr(desc, f, None) is not None]
    y = desc.OutputGradientTensor if name.endswith("Grad") else desc.OutputTensor
    inputs = [torch.from_numpy(data(tuple(s), "float32", i)).cuda() for i, s in enumerate(sizes)]
    outputs = [torch.zeros(tuple(y.Sizes), device="cuda")]
    run = cudml.Operator(desc).compile("cuda")
    return inputs, outputs, lambda: run(*inputs, out=outputs[0])


@pytest.mark.bug("RUN-04")
@pytest.mark.cell("PyTorch, CUDA", "graph")
@pytest.mark.device("cuda")
def test_graphs_of_torch(backend: backends.Backend) -> None:
    """Each operator captured on a side stream, replayed 3 times with changed inputs."""
    torch = pytest.importorskip("torch")
    for name, (inputs, outputs, call) in gpu_calls(torch).items():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            call()
        for k in range(REPLAYS):
            for i, x in enumerate(inputs):
                x.copy_(torch.from_numpy(data(tuple(x.shape), "float32", 50 * k + i)))
            call()
            want = [y.cpu().numpy().tobytes() for y in outputs]
            for y in outputs:
                y.zero_()
            graph.replay()
            torch.cuda.synchronize()
            assert [y.cpu().numpy().tobytes() for y in outputs] == want, (name, k)
            backends.calls[backend.name] += 1
