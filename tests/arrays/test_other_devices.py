"""What libraries with arrays on a GPU are asked for where theirs is not the first one.

Stand-ins note it: the simulated device is one alone, and a machine may have several.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cudml import _libraries

CURRENT = {1: 101, 2: 0}  # the current streams of the devices that are used


class Said(list[Any]):
    """What was entered, made and told, in order."""

    def entered(self, *what: Any) -> contextlib.AbstractContextManager[Any]:
        @contextlib.contextmanager
        def context() -> Iterator[None]:
            self.append(("enter", *what))
            yield
            self.append(("leave", *what))

        return context()

    def made(self, *what: Any) -> Any:
        self.append(("make", *what))
        return SimpleNamespace(data_ptr=lambda: 64, ptr=np.int64(64))

    def taken(self) -> list[Any]:
        found = self.copy()
        self.clear()
        return found


def array_of(said: Said, module: str, is_old: bool = False) -> Any:
    """An array of this library; an old one knows no versions."""

    def export(self: Any, **keywords: Any) -> str:
        if is_old and "max_version" in keywords:
            raise TypeError("unexpected keyword argument 'max_version'")
        said.append(("export", keywords))
        return "capsule"

    def record(self: Any, stream: Any) -> None:
        said.append(("record", stream))

    names = {"__module__": module, "device": "cuda:1", "__dlpack__": export}
    return type("Array", (), {**names, "record_stream": record})()


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def torch(said: Said, monkeypatch: pytest.MonkeyPatch) -> Any:
    cuda = SimpleNamespace(
        current_stream=lambda device: SimpleNamespace(cuda_stream=np.int64(CURRENT[device])),
        current_device=lambda: 1,
        device=lambda device: said.entered("device", device),
        default_stream=lambda device: ("default", device),
        ExternalStream=lambda stream, device: ("external", stream, device),
        stream=lambda stream: said.entered(*stream),
    )

    def empty(size: int, dtype: str, device: str) -> Any:
        return said.made(size, dtype, device)

    module = SimpleNamespace(cuda=cuda, empty=empty, uint8="uint8")
    monkeypatch.setitem(sys.modules, "torch", module)
    return array_of(said, "torch")


@pytest.fixture
def cupy(said: Said, monkeypatch: pytest.MonkeyPatch) -> Any:
    cuda = SimpleNamespace(
        Device=lambda device: said.entered("device", device),
        ExternalStream=lambda stream, device: said.entered("external", stream, device),
        get_current_stream=lambda device: SimpleNamespace(ptr=np.int64(CURRENT[device])),
        alloc=said.made,
    )

    def ndarray(shape: Any, dtype: Any, memptr: Any, strides: Any) -> Any:
        return shape, dtype.name, strides

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, ndarray=ndarray))
    return array_of(said, "cupy")


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_the_current_stream_is_the_device_s(library: str, request: pytest.FixtureRequest) -> None:
    array = request.getfixturevalue(library)
    for device, stream in CURRENT.items():
        found = _libraries.current_stream(array, device)
        assert found == stream and type(found) is int
    assert _libraries.current_stream(object(), 1) == 0


VERSIONED = {"max_version": _libraries.MAX_VERSION}


@pytest.mark.parametrize("stream", [None, 0, 1, 7])
def test_exports(stream: int | None, torch: Any, cupy: Any, said: Said) -> None:
    """On the array's device, made current where it is not; with the stream that will use it."""
    keywords = VERSIONED if stream is None else {"stream": stream, **VERSIONED}
    for array, device, around in ((torch, 1, []), (torch, 2, [2]), (cupy, 1, [1]), (cupy, 2, [2])):
        assert _libraries.export(array, device, stream) == "capsule"
        inner = [("export", keywords)]
        before, after = ([(word, "device", n) for n in around] for word in ("enter", "leave"))
        assert said.taken() == before + inner + after
    _libraries.export(array_of(said, "elsewhere"), 1, stream)
    _libraries.export(torch, None, stream)
    assert said.taken() == [("export", keywords)] * 2
    old = {k: v for k, v in keywords.items() if k == "stream"}
    _libraries.export(array_of(said, "elsewhere", is_old=True), 1, stream)
    assert said.taken() == [("export", old)]


@pytest.mark.parametrize(
    ("device", "stream", "told"),
    [
        (1, 7, ("external", 7, 1)),
        (1, 0, ("default", 1)),
        (1, 1, ("default", 1)),
        (1, 2, ("external", 2, 1)),
        (2, 7, ("external", 7, 2)),
        (1, 101, None),
        (2, 0, None),
        (2, 1, None),
    ],
)
def test_streams_that_are_not_current(
    device: int, stream: int, told: Any, torch: Any, said: Said
) -> None:
    """Told to the arrays that can be told, and memory is taken on them; 0 and 1 are one."""
    _libraries.used_on([object(), torch], device, stream)
    assert said.taken() == ([("record", told)] if told else [])
    found = _libraries.scratch(torch, 10, device, stream)
    assert found is not None and found[1] == 64 and type(found[1]) is int
    made = [("make", 10, "uint8", "cuda:1")]
    assert said == ([("enter", *told), *made, ("leave", *told)] if told else made)


@pytest.mark.parametrize(
    ("device", "stream", "is_other"),
    [(1, 7, True), (1, 1, True), (2, 7, True), (1, 101, False), (2, 0, False), (2, 1, False)],
)
def test_memory_of_cupy_s(device: int, stream: int, is_other: bool, cupy: Any, said: Said) -> None:
    found = _libraries.scratch(cupy, 10, device, stream)
    assert found is not None and found[1] == 64 and type(found[1]) is int
    inner: list[Any] = [("make", 10)]
    if is_other:
        on = ("external", stream, device)
        inner = [("enter", *on), *inner, ("leave", *on)]
    assert said == [("enter", "device", device), *inner, ("leave", "device", device)]


@pytest.mark.parametrize(
    ("shape", "strides", "size"),
    [((2, 3), (3, 1), 24), ((2, 3), (8, 1), 44), ((4,), (0,), 4), ((3, 0), (1, 1), 0)],
)
def test_arrays_of_cupy_s_and_numba_s(
    shape: Any, strides: Any, size: int, cupy: Any, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On their device, with strides in bytes, over as many bytes as they reach."""
    steps = tuple(4 * step for step in strides)
    made = _libraries.allocate("op", cupy, shape, strides, "float32", 1)
    assert made == (shape, "float32", steps)
    around = [("enter", "device", 1), ("leave", "device", 1)]
    assert said.taken() == [around[0], ("make", size), around[1]]

    class Gpus:
        def __getitem__(self, device: int) -> Any:
            return said.entered("device", device)

    def device_array(shape: Any, dtype: Any, strides: Any) -> Any:
        return shape, dtype.name, strides

    cuda = SimpleNamespace(gpus=Gpus(), device_array=device_array)
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(cuda=cuda))
    numba = array_of(said, "numba.cuda.devicearray")
    made = _libraries.allocate("op", numba, shape, strides, "float32", 1)
    assert made == (shape, "float32", steps) and said == around
