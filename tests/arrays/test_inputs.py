"""Which arrays are taken and how: D-TEN-7, element types, subclasses, read-only memory, MEM-09."""

from __future__ import annotations

import mmap
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import LABELS, cases_of_type, every_operator, in_order, make, same
from harness import DTYPES, data, dtype_of, refused
from layouts import memory_order

FOREIGN = [
    ">f4", ">f8", ">f2", ">i4", ">u8", "bool", "complex64", "complex128", "object", "longdouble",
    "S4", "U2", "V8", "datetime64[s]", "timedelta64[ms]", [("a", "f4")], [("a", "f4"), ("b", "i4")],
]  # fmt: skip


class Picture(np.ndarray):
    """A subclass that brings nothing of its own."""


def reversals(rank: int) -> list[tuple[slice, ...]]:
    chosen = [set(c) for n in range(1, rank + 1) for c in combinations(range(rank), n)]
    return [tuple(slice(None, None, -1 if a in c else 1) for a in range(rank)) for c in chosen]


def off_by_a_byte(a: np.ndarray, by: int = 1) -> np.ndarray:
    """A packed copy whose address is `by` bytes past a multiple of 64."""
    raw = np.zeros(a.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + by
    view = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def odd_strides(a: np.ndarray) -> np.ndarray:
    """Elements inside records one byte larger, so the strides are no multiple of the item size."""
    record = {"names": ["pad", "v"], "formats": ["u1", a.dtype], "offsets": [0, 1]}
    view = np.zeros(a.shape, np.dtype({**record, "itemsize": a.itemsize + 1}))["v"]
    view[...] = a
    assert a.itemsize == 1 or view.strides[-1] % a.itemsize
    return view


@pytest.mark.core
@pytest.mark.decision("D-TEN-7")
@pytest.mark.bug("MEM-01", "MEM-02")
@every_operator
def test_negative_strides_of_inputs(label: str) -> None:
    """Reversed along every set of axes, in row-major and channels-last memory."""
    p = make(label)
    for name, a in p.arrays.items():
        for back in reversals(4):
            for order in [(0, 1, 2, 3), (0, 2, 3, 1)]:
                view = in_order(a[back], order)[back]
                y = p.run(**{name: view})
                assert not p.problem(y), (name, back, p.problem(y))


@pytest.mark.decision("D-TEN-7", "D-TEN-8")
@every_operator
def test_memory_order_of_reversed_inputs(label: str) -> None:
    """Magnitudes of the strides decide, as without the reversal."""
    p = make(label)
    a = p.arrays[p.first]
    back = (slice(None, None, -1),) * 4
    for order in [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (2, 0, 3, 1)]:
        for y in p.run(**{p.first: in_order(a[back], order)[back]}):
            assert memory_order(y) == order


@pytest.mark.core
@pytest.mark.decision("D-TEN-7")
@pytest.mark.bug("MEM-06")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_odd_bases_and_odd_strides_of_inputs(label: str, dtype: str) -> None:
    p = make(label, (1, 2, 3, 5), dtype)
    for name, a in p.arrays.items():
        for moved in (off_by_a_byte(a), off_by_a_byte(a, 7), odd_strides(a)):
            y = p.run(**{name: moved})
            assert not p.problem(y), (name, p.problem(y))


@pytest.mark.decision("D-TEN-7")
@every_operator
def test_negative_or_odd_out_is_refused(label: str) -> None:
    p = make(label)
    for place in range(len(p.shapes)):
        good = p.outputs()[place]
        bads = [good[back] for back in reversals(4)] + [off_by_a_byte(good), odd_strides(good)]
        for bad in bads:
            outputs = p.outputs()
            outputs[place] = bad
            before = bad.tobytes()
            with refused(ValueError, p.op + ": "):
                p.into(outputs)
            assert bad.tobytes() == before


@pytest.mark.decision("D-TEN-7")
@every_operator
def test_masked_arrays_are_refused(label: str) -> None:
    """Also without a mask: the result would claim to know what is missing."""
    p = make(label)
    for name, a in p.arrays.items():
        for masked in (np.ma.masked_array(a), np.ma.masked_array(a, np.ones(a.shape, bool))):
            with refused(TypeError, p.op + ": ", "MaskedArray"):
                p.run(**{name: masked})
    for place in range(len(p.shapes)):
        outputs = p.outputs()
        outputs[place] = np.ma.masked_array(outputs[place])
        with refused(TypeError, p.op + ": ", "MaskedArray"):
            p.into(outputs)


@pytest.mark.bug("MEM-09")
@every_operator
@pytest.mark.parametrize("dtype", FOREIGN, ids=str)
def test_foreign_element_types_are_named(label: str, dtype: Any) -> None:
    p = make(label)
    for name, a in p.arrays.items():
        bad = np.zeros(a.shape, dtype)
        named = "" if bad.dtype.kind == "V" else str(bad.dtype)
        with refused(TypeError, p.op + ": ", named):
            p.run(**{name: bad})


@pytest.mark.bug("MEM-09")
@pytest.mark.parametrize("label", [o for o in LABELS if "int32" not in DTYPES[o.split("+")[0]]])
def test_integers_where_only_floats_are_taken(label: str) -> None:
    p = make(label)
    for name, a in p.arrays.items():
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
            with refused(TypeError, p.op + ": ", dtype):
                p.run(**{name: np.zeros(a.shape, dtype)})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_that_do_not_match_x(dtype: str) -> None:
    """A gradient must have x's type; scale and bias may be float32 beside 16-bit data."""
    for label in ("max_pooling_grad", "mean_variance_normalization"):
        p = make(label, dtype=dtype)
        for name, a in list(p.arrays.items())[1:]:
            for other in ("float16", "float32", "float64", "int32"):
                moved = a.astype(other)
                mixed = p.op.startswith("mean") and (dtype, other) == ("float16", "float32")
                if other == dtype or mixed:
                    assert p.run(**{name: moved})[0].dtype == dtype
                    continue
                with refused(TypeError, p.op + ": ", dtype, other):
                    p.run(**{name: moved})


def test_bfloat16_beside_other_types() -> None:
    kind = dtype_of("bfloat16") if "bfloat16" in DTYPES["padding"] else None
    if kind is None:
        pytest.skip("ml_dtypes is not installed")
    p = make("mean_variance_normalization", dtype="bfloat16")
    scale = p.arrays["scale"].astype("float32")
    assert p.run(scale=scale)[0].dtype == kind
    with refused(TypeError, p.op + ": ", "bfloat16", "float16"):
        p.run(scale=p.arrays["scale"].astype("float16"))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for foreign in ("float8_e4m3fn", "int4", "uint4"):
        with refused(TypeError, "padding: ", foreign):
            cudml.padding(np.zeros((2, 2), getattr(ml_dtypes, foreign)), 1, 1)


@every_operator
def test_what_is_no_array_is_refused(label: str) -> None:
    p = make(label)
    objects: list[Any] = [
        [1.0, 2.0],
        [[[[1.0]]]],
        (1.0,),
        1,
        1.5,
        "x",
        b"x",
        {},
        object(),
        iter([]),
    ]
    objects += [np.float32(1), np.float32, np.dtype("f4"), slice(1), Ellipsis, type, NotImplemented]
    for name in p.arrays:
        for odd in [*objects, None] if name in ("x", "grad") else objects:
            with refused(TypeError, p.op + ": "):
                p.run(**{name: odd})


@every_operator
def test_ranks_that_no_operator_takes(label: str) -> None:
    p = make(label)
    for shape in [(), (1,) * 9, (1,) * 32]:
        for name in p.arrays:
            with refused(ValueError, p.op + ": "):
                p.run(**{name: np.zeros(shape, np.float32)})


@pytest.mark.core
@every_operator
def test_subclasses_are_taken_as_arrays(label: str, tmp_path: Path) -> None:
    p = make(label)
    want = p.run()
    for name, a in p.arrays.items():
        a.tofile(tmp_path / name)
        mapped = np.memmap(tmp_path / name, a.dtype, "r", shape=a.shape)
        for moved in (a.view(Picture), mapped):
            got = p.run(**{name: moved})
            assert all(isinstance(y, np.ndarray) for y in got)
            assert same([np.asarray(y) for y in got], want)
    outputs = [y.view(Picture) for y in p.outputs()]
    p.into(outputs)
    assert not p.problem([np.asarray(y) for y in outputs])


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_is_two_dimensional() -> None:
    x = np.asmatrix(data((5, 7), "float32"))
    plain = np.asarray(x)
    assert np.array_equal(cudml.padding(x, 1, 2), cudml.padding(plain, 1, 2))
    got = cudml.max_pooling(x, 2, axes=(0, 1))
    assert np.array_equal(got, cudml.max_pooling(plain, 2, axes=(0, 1)))
    got = cudml.mean_variance_normalization(x, axes=1)
    assert np.array_equal(got, cudml.mean_variance_normalization(plain, axes=1))


def test_a_writable_memmap_is_filled(tmp_path: Path) -> None:
    p = make("padding")
    path = tmp_path / "out"
    out = np.memmap(path, p.dtypes[0], "w+", shape=p.shapes[0])
    assert p(out=out) is out
    out.flush()
    assert not p.problem([np.fromfile(path, p.dtypes[0]).reshape(p.shapes[0])])


@pytest.mark.core
@pytest.mark.bug("MEM-07")
@every_operator
def test_read_only_inputs(label: str) -> None:
    p = make(label)
    frozen = {k: a.copy() for k, a in p.arrays.items()}
    for a in frozen.values():
        a.flags.writeable = False
    assert same(p.run(**frozen), p.run())


@pytest.mark.bug("MEM-07")
@every_operator
def test_memory_that_the_system_protects(label: str, tmp_path: Path) -> None:
    """Pages mapped read-only: as inputs read, as `out` refused before a byte is touched."""
    p = make(label)
    want = p.run()
    mapped = {k: protected(tmp_path / k, a) for k, a in p.arrays.items()}
    assert same(p.run(**mapped), want)
    for place, y in enumerate(want):
        outputs = p.outputs()
        outputs[place] = protected(tmp_path / f"out{place}", y)
        with refused(ValueError, p.op + ": ", "read-only"):
            p.into(outputs)
        assert same([outputs[place]], [y])


def protected(path: Path, a: np.ndarray) -> np.ndarray:
    path.write_bytes(a.tobytes())
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(memory, a.dtype).reshape(a.shape)
