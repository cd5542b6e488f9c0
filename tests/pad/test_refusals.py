"""What padding refuses, by message; an array passed as `out` keeps its contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml
from harness import named, refused
from pool_support import EVERY, dtype_of, strided

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def refuse(exc: type[Exception], *fragments: str, x: Any = X, start: Any = 0, end: Any = 0,
           **kwargs: Any) -> None:  # fmt: skip
    """The call is refused with these words, and an `out` of the right size is not touched."""
    out = kwargs.pop("out", np.full((3, 4), 5, np.float32))
    before = out.tobytes() if isinstance(out, np.ndarray) else None
    with refused(exc, "padding", *fragments):
        cudml.padding(x, start, end, out=out, **kwargs)
    if before is not None:
        assert out.tobytes() == before


@pytest.mark.parametrize("pads", [(), (1,), (1, 2, 3), [0] * 8, [0] * 9], ids=str)
def test_number_of_pads(pads: Any) -> None:
    refuse(ValueError, "StartPadding", str(len(pads)), "2", start=pads)
    refuse(ValueError, "EndPadding", str(len(pads)), "2", end=pads)


@pytest.mark.parametrize(
    "pad", [1.0, np.float32(1), "1", None, 1j, True, False, np.True_, {}, object()], ids=named
)
def test_kind_of_pads(pad: Any) -> None:
    refuse(TypeError, "StartPadding", start=pad)
    refuse(TypeError, "EndPadding", end=pad)
    refuse(TypeError, "StartPadding[1]", start=(0, pad))
    refuse(TypeError, "EndPadding[0]", end=[pad, 0])


@pytest.mark.parametrize("pads", ["12", b"12", np.zeros(2), np.zeros(2, bool)], ids=repr)
def test_kind_of_sequences(pads: Any) -> None:
    refuse(TypeError, "StartPadding", start=pads)
    refuse(TypeError, "EndPadding", end=pads)


def test_pad_whose_index_raises() -> None:
    class Bad:
        def __index__(self) -> int:
            raise RuntimeError("no index today")

    with pytest.raises((RuntimeError, TypeError)):
        cudml.padding(X, Bad(), 0)


@pytest.mark.decision("D-PAD-11")
@pytest.mark.parametrize("mode", ["mirror", "", "CONSTANT", "reflect", "wrap ", "5"])
def test_unknown_mode_lists_the_names(mode: str) -> None:
    names = ("constant", "edge", "reflection", "symmetric", "wrap")
    refuse(ValueError, "PaddingMode", repr(mode)[1:-1], *names, mode=mode)
    refuse(ValueError, "PaddingMode[1]", *names, mode=["edge", mode])


@pytest.mark.parametrize("mode", [0, 4, None, True, b"edge", 1.5, {"edge": 1}], ids=repr)
def test_kind_of_mode(mode: Any) -> None:
    refuse(TypeError, "PaddingMode", mode=mode)
    refuse(TypeError, "PaddingMode[0]", mode=[mode, "edge"])


@pytest.mark.decision("D-PAD-14")
@pytest.mark.parametrize("modes", [(), ("edge",), ("edge", "wrap", "edge")], ids=str)
def test_number_of_modes(modes: Any) -> None:
    refuse(ValueError, "PaddingMode", str(len(modes)), "2", mode=modes)
    refuse(ValueError, "PaddingMode", str(len(modes)), "2", mode=list(modes))


@pytest.mark.parametrize("dtype", ["bool", "complex64", "longdouble", ">f4", "M8[s]", "U3", "O"])
def test_element_types(dtype: str) -> None:
    with refused(TypeError, "padding"):
        cudml.padding(np.zeros((2, 2), dtype), 1, 1)


@pytest.mark.parametrize("x", [None, 3, [1.0, 2.0], "abc", b"abc", object()], ids=named)
def test_kind_of_input(x: Any) -> None:
    with refused(TypeError, "padding"):
        cudml.padding(x, 1, 1)


@pytest.mark.decision("D-TEN-7")
def test_masked_arrays_are_refused() -> None:
    with refused(TypeError, "padding"):
        cudml.padding(np.ma.zeros((2, 2), dtype=np.float32), 1, 1)


@pytest.mark.parametrize("shape", [(3, 5), (4, 4), (3, 4, 1), (12,), (1, 3, 4), ()], ids=str)
def test_sizes_of_out(shape: tuple[int, ...]) -> None:
    refuse(ValueError, "OutputTensor", out=np.full(shape, 5, np.float32))


@pytest.mark.parametrize("dtype", EVERY)
def test_type_of_out(dtype: str) -> None:
    if dtype != "float32":
        refuse(TypeError, "float32", dtype, out=np.full((3, 4), 5, dtype_of(dtype)))


@pytest.mark.parametrize("out", [[1.0], "out", 3, np.ma.zeros((3, 4), dtype=np.float32)])
def test_kind_of_out(out: Any) -> None:
    refuse(TypeError, "out", out=out)


def test_read_only_out() -> None:
    out = np.full((3, 4), 5, np.float32)
    out.flags.writeable = False
    refuse(ValueError, "out", out=out)


@pytest.mark.decision("D-TEN-7")
def test_reversed_or_misaligned_out() -> None:
    refuse(ValueError, "out", out=np.full((3, 4), 5, np.float32)[::-1])
    raw = np.full(49, 5, np.uint8)
    refuse(ValueError, "out", out=raw[1:].view(np.float32).reshape(3, 4))


@pytest.mark.decision("D-TEN-1")
@pytest.mark.parametrize("strides", [(0, 1), (1, 1), (4, 0), (2, 1), (1, 2)], ids=str)
def test_out_with_shared_elements(strides: tuple[int, int]) -> None:
    refuse(ValueError, "OutputTensor", out=strided(np.full(40, 5.0, "f4"), (3, 4), strides))


@pytest.mark.decision("D-TEN-2")
@pytest.mark.parametrize("mode", ["constant", "edge", "wrap"])
def test_out_that_overlaps_the_input(mode: str) -> None:
    base = np.arange(40, dtype=np.float32)
    x = base[4:16].reshape(3, 4)
    refuse(ValueError, "overlap", x=x, out=x, mode=mode)
    refuse(ValueError, "overlap", x=x, out=base[15:27].reshape(3, 4), mode=mode)
    refuse(ValueError, "overlap", x=x, out=base[:15].reshape(3, 5), end=(0, 1), mode=mode)


@pytest.mark.small
@pytest.mark.decision("D-TEN-2")
def test_out_between_the_elements_of_the_input() -> None:
    base = np.arange(24, dtype=np.float32).reshape(2, 12)
    x, out = base[:, ::2], base[:, 1::2]
    want = x.copy()
    cudml.padding(x, 0, 0, out=out)
    assert (out == want).all()
    assert (x == want).all()


def test_keywords() -> None:
    refuse(TypeError, "dilations", dilations=1)
    with refused(TypeError, "padding"):
        cudml.padding(X, 1)
    with refused(TypeError, "padding"):
        cudml.padding(X, 1, 1, "edge")
    with refused(TypeError, "padding"):
        cudml.padding()


@pytest.mark.parametrize("stream", [0, 1, 2, object()], ids=named)
def test_a_stream_is_for_cuda_arrays(stream: Any) -> None:
    refuse(ValueError, "stream", stream=stream)


@pytest.mark.small
def test_the_library_is_usable_after_a_refusal() -> None:
    with refused(ValueError, "padding"):
        cudml.padding(X, -1, 0)
    assert cudml.padding(X, 0, 0).tolist() == X.tolist()
