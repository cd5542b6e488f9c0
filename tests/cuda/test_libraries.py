"""PyTorch, CuPy, Numba and JAX on a GPU, by stand-ins that follow their protocols to the letter.

What only their own hardware shows is in the tests that run with --backend cuda.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from array_support import LABELS, Problem, bits, cases_of_type, in_order, make
from cudml import _backend, _operators
from harness import refused

pytestmark = pytest.mark.usefixtures("simulated")
NAMES = ("PyTorch, CUDA", "CuPy", "Numba", "any other, CUDA", "JAX, CUDA")
WITH_OUT = NAMES[:4]  # JAX's arrays are immutable
WITH_STREAM = NAMES[:2]  # the others have no current stream to ask for


@pytest.fixture
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from device_libraries import LIBRARIES

    yield LIBRARIES[request.param](monkeypatch)


def of(names: tuple[str, ...], *columns: str) -> Any:
    """The test for each library, which backs these columns of its row."""
    params = [pytest.param(n, marks=pytest.mark.cell(n, *columns), id=n) for n in names]
    return pytest.mark.parametrize("library", params, indirect=True)


def run(p: Problem, library: Any, **changes: Any) -> list[Any]:
    arrays = [library.to(changes.pop(k, a)) for k, a in p.arrays.items()]
    result = getattr(_operators, p.op)(*arrays, *p.args, **{**p.kwargs, **changes})
    return list(result) if isinstance(result, (tuple, list)) else [result]


def wanted(p: Problem, **arrays: np.ndarray) -> list[np.ndarray]:
    """The kernels' results by the plainest way there: this test is about arrays."""
    from device_array import CapsuleArray

    given = [CapsuleArray.copy_of(arrays.get(k, a)) for k, a in p.arrays.items()]
    outputs = [CapsuleArray.copy_of(y) for y in p.run(**arrays)]  # in the order they must have
    out = outputs[0] if len(outputs) == 1 else outputs
    getattr(_operators, p.op)(*given, *p.args, **p.kwargs, out=out)
    return [y.home() for y in outputs]


@of(NAMES, "in", "out", "types")
def test_every_operator_and_type(library: Any) -> None:
    """The library's own arrays come out, of its allocator, with the kernels' bits."""
    for label, dtype in cases_of_type():
        if dtype == "bfloat16" and library.name == "Numba":
            continue  # which has no such type
        p = make(label, (1, 2, 4, 5), dtype)
        got, want = run(p, library), wanted(p)
        assert all(type(y) is library.kind for y in got), (label, dtype)
        assert [bits(library.home(y)) for y in got] == [bits(y) for y in want], (label, dtype)
        assert [y.dtype for y in got] == [y.dtype for y in want]
    assert library.allocated


@of(NAMES, "in", "out")
def test_memory_order(library: Any) -> None:
    """Channels-last in, channels-last out, where the library can express it."""
    for label in LABELS:
        p = make(label, (2, 3, 4, 5))
        nhwc = {k: in_order(a, (0, 2, 3, 1)) for k, a in p.arrays.items()}
        got = run(p, library, **nhwc)
        assert not p.problem([library.home(y) for y in got]), label
        if library.name == "JAX, CUDA":
            assert all(y.home().flags.c_contiguous for y in got)
        elif library.name != "any other, CUDA":  # it may express what it likes
            assert [y.strides for y in got] == [y.strides for y in wanted(p, **nhwc)], label


@of(WITH_OUT, "out=")
def test_out(library: Any) -> None:
    for label in LABELS:
        p = make(label, (2, 3, 4, 5))
        outputs = [library.to(y) for y in p.outputs()]
        library.allocated.clear()
        library.written.clear()
        out = outputs[0] if len(outputs) == 1 else tuple(outputs)
        arrays = [library.to(a) for a in p.arrays.values()]
        result = getattr(_operators, p.op)(*arrays, *p.args, **p.kwargs, out=out)
        assert result is out and not library.allocated
        assert library.written == (outputs if library.name == "PyTorch, CUDA" else [])
        assert [bits(library.home(y)) for y in outputs] == [bits(y) for y in wanted(p)]


@of(("JAX, CUDA",), "out=")
def test_immutable_arrays_are_no_outputs(library: Any) -> None:
    p = make("max_pooling", (2, 3, 4, 5))
    out = library.to(p.outputs()[0])
    with refused(ValueError, "max_pooling: OutputTensor (out) is read-only"):
        run(p, library, out=out)
    assert (out.memory.bytes() == 0xFF).all()


@of(WITH_STREAM, "stream")
def test_the_library_s_current_stream(library: Any) -> None:
    """Allocation and launch follow it; an explicit stream comes before it."""
    from streams_support import logged, stream

    p = make("max_pooling", (2, 3, 4, 5))
    with stream() as current, stream() as other:
        for given, launched in ((None, current), (other, other), (1, 0)):
            library.stream = current
            library.allocated.clear()
            with logged() as log:
                got = run(p, library, stream=given)
            assert {n.stream for n in log.launches} <= {launched, given} and log.launches
            assert library.allocated == [current]
            assert bits(library.home(got[0])) == bits(wanted(p)[0])
        library.stream = 0


@of(("Numba", "any other, CUDA", "JAX, CUDA"), "stream")
def test_a_stream_that_is_given(library: Any) -> None:
    """Without a current stream of its own the library is on the legacy one."""
    from streams_support import logged, stream

    p = make("padding", (2, 3, 4, 5))
    with stream() as own:
        for given, launched in ((None, {0, 1}), (own, {own}), (2, {2})):
            with logged() as log:
                run(p, library, stream=given)
            assert {n.stream for n in log.launches} <= launched and log.launches


@of(WITH_OUT, "graph")
def test_a_graph(library: Any) -> None:
    """Captured with the library's arrays, replayed with other numbers in them."""
    from streams_support import stream

    core = _backend.core
    for label in LABELS:
        p = make(label, (2, 3, 4, 5))
        arrays = [library.to(a) for a in p.arrays.values()]
        outputs = [library.to(y) for y in p.outputs()]
        out = outputs[0] if len(outputs) == 1 else outputs
        with stream() as on:
            core.simt_begin_capture(on)
            try:
                getattr(_operators, p.op)(*arrays, *p.args, **p.kwargs, out=out, stream=on)
            finally:
                graph = core.simt_end_capture(on)
            for k in range(3):
                for a in arrays:
                    a.view()[...] = (k + np.arange(a.view().size) % 7).reshape(a.shape)
                for y in outputs:
                    y.memory.bytes()[:] = 0xFF
                core.simt_launch_graph(graph, on)
                given = {k: a.home() for k, a in zip(p.arrays, arrays, strict=True)}
                assert [bits(y.home()) for y in outputs] == [bits(y) for y in wanted(p, **given)]
            core.simt_destroy_graph(graph)


@of(WITH_STREAM, "in")
def test_arrays_are_exported_on_their_device(library: Any) -> None:
    """PyTorch and CuPy export arrays of the current device alone."""
    library.device = 1
    library.entered.clear()
    run(make("max_pooling", (1, 1, 3, 3)), library)
    assert 0 in library.entered and library.device == 1
