"""NumPy's row of the README's table: one test for each of its cells."""

from __future__ import annotations

import numpy as np
import pytest

import cudml
from array_support import bits, cases_of_type, every_operator, in_order, make
from backends import OPERATORS
from cudml._cli.cases import case
from harness import refused
from layouts import LAYOUTS


@pytest.mark.cell("NumPy", "in", "out", "types")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_every_operator_and_type(label: str, dtype: str) -> None:
    """Read-only arrays in, plain arrays out, within the bounds of the reference."""
    p = make(label, dtype=dtype)
    fixed = {}
    for k, a in p.arrays.items():
        fixed[k] = a.copy()
        fixed[k].setflags(write=False)
    results = p.run(**fixed)
    assert not p.problem(results)
    assert all(type(y) is np.ndarray and y.flags.writeable for y in results)
    assert [y.dtype for y in results] == p.dtypes


@pytest.mark.cell("NumPy", "in", "out")
@every_operator
def test_layouts(label: str) -> None:
    """Views of every kind in; the memory order of the input out."""
    p = make(label)
    for name, layout in LAYOUTS.items():
        results = p.run(**{k: layout(a) for k, a in p.arrays.items()})
        assert not p.problem(results), name
    nhwc = p.run(**{k: in_order(a, (0, 2, 3, 1)) for k, a in p.arrays.items()})
    assert all(y.transpose(0, 2, 3, 1).flags.c_contiguous for y in nhwc)


@pytest.mark.cell("NumPy", "out=")
@every_operator
def test_out(label: str) -> None:
    """Packed, with the bits of a new result, and strided, with nothing written between; the same
    object comes back."""
    p = make(label)
    want = p.run()
    for step in (1, 2):
        wholes = [np.full([n * step for n in y.shape], 77, y.dtype) for y in want]
        outputs = [w[tuple(slice(None, None, step) for _ in w.shape)] for w in wholes]
        out = outputs[0] if len(outputs) == 1 else tuple(outputs)
        assert p(out=out) is out
        assert not p.problem(outputs)
        assert step == 2 or [bits(y) for y in outputs] == [bits(y) for y in want]
        for whole, y in zip(wholes, outputs, strict=True):
            y[...] = 77
            assert (whole == 77).all()


@pytest.mark.cell("NumPy", "stream")
@pytest.mark.parametrize("op", OPERATORS)
def test_a_stream_is_refused(op: str) -> None:
    call = case(op, "float32", 0, 0)
    for stream in (0, 1, 2, object()):
        with refused(ValueError, f"{op}: stream is", "with CPU arrays it must be None"):
            getattr(cudml, op)(*call.positional, **call.kwargs, stream=stream)
