"""The oracle notices every kind of defect: each is planted in a stand-in for one operator."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cudml
import harness
import layouts
from cudml import reference
from folders import IMPORTS, ROOT, TESTS
from repeat import literal


def stand_in(x, window_size, *, out=None, **kwargs):
    """Max pooling as it should be: dense, ordered like x, into `out` where given."""
    y = reference.max_pooling(x, window_size, **kwargs)
    if out is not None:
        out[...] = y
        return out
    return layouts.ordered(y, sorted(range(x.ndim), key=lambda a: -abs(x.strides[a])))


def changed_input(x, window_size, **kwargs):
    y = stand_in(x, window_size, **kwargs)
    if x.flags.writeable:
        x.flat[0] += 1
    return y


def wide_store(x, window_size, *, out=None, **kwargs):
    """Writes one element beyond the end of each row."""
    if out is not None:
        rows = np.lib.stride_tricks.as_strided(
            out, (*out.shape[:-1], out.shape[-1] + 1), out.strides
        )
        rows[...] = 0
    return stand_in(x, window_size, out=out, **kwargs)


def another_out(x, window_size, *, out=None, **kwargs):
    y = stand_in(x, window_size, out=out, **kwargs)
    return y if out is None else y[...]


def always_row_major(x, window_size, *, out=None, **kwargs):
    y = stand_in(x, window_size, out=out, **kwargs)
    return np.ascontiguousarray(y) if out is None else y


def missed_element(x, window_size, *, out=None, **kwargs):
    before = None if out is None else out.flat[-1]
    y = stand_in(x, window_size, out=out, **kwargs)
    if out is not None:
        y.flat[out.size - 1] = before
    return y


DEFECTS = {
    "wrong value": (lambda x, w, **k: stand_in(x[..., ::-1], w, **k), "expected"),
    "wrong type": (lambda x, w, **k: stand_in(x, w, **k).astype("f8"), "dtype is float64"),
    "wrong shape": (lambda x, w, **k: stand_in(x, w, **k)[..., 1:], "shape is"),
    "not dense": (lambda x, w, **k: layouts.sliced(stand_in(x, w, **k)), "not dense"),
    "row-major": (always_row_major, "column-major"),
    "input written": (changed_input, "input x changed"),
    "guard byte written": (wide_store, "guard byte"),
    "another object": (another_out, "not the object given as out"),
    "element left out": (missed_element, "out=: output 0[1, 2, 1, 3]"),
    "exception": (lambda x, w, **k: 1 // 0, "ZeroDivisionError"),
}


def test_a_correct_operator_passes(monkeypatch):
    monkeypatch.setattr(cudml, "max_pooling", stand_in)
    harness.check("max_pooling", harness.data((2, 3, 4, 6), "float32", 1), (3, 3))


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_reported_in_one_line(monkeypatch, defect):
    operator, text = DEFECTS[defect]
    monkeypatch.setattr(cudml, "max_pooling", operator)
    with pytest.raises(AssertionError) as caught:
        harness.check("max_pooling", harness.data((2, 3, 4, 6), "float32", 1), (3, 3), seed=1)
    message = str(caught.value)
    assert text in message and "\n" not in message
    assert message.startswith("max_pooling(x=data((2, 3, 4, 6), 'float32', 1, 'random'), window_")
    assert "layout=" in message and "backend=cpu seed=1" in message


@pytest.mark.parametrize("layout", harness.ALL)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_layouts_hold_the_same_values(layout, dtype):
    x = harness.data((2, 3, 4, 5), dtype, 2, "special")
    x[:, 1] = x[:, :1, 0:1, :1].reshape(2, 1, 1)
    for case in (x, x[:, 1:2], x[0, 0, 0]):
        moved = harness.LAYOUTS[layout](case)
        assert moved.shape == case.shape and moved.tobytes() == case.tobytes()
    moved = harness.LAYOUTS[layout](x)
    address = moved.ctypes.data
    facts = {
        "contiguous": moved.flags.c_contiguous and address % 64 == 0,
        "column-major": moved.flags.f_contiguous,
        "permuted": layouts.memory_order(moved) == (0, 2, 3, 1),
        "sliced": moved.strides[-1] == 2 * moved.itemsize,
        "misaligned": address % 64 == moved.itemsize and moved.flags.aligned,
        "negative": max(moved.strides) < 0,
        "byte-misaligned": address % 64 == 1,
        "broadcast": 0 in harness.LAYOUTS[layout](x[:, 1:2]).strides,
    }
    assert facts[layout]


@pytest.mark.parametrize("order", ["C", "F", "S"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (5,), (1, 1), (0, 3)])
def test_guarded_outputs(order, shape):
    guard = harness.guarded(shape, "int16", order)
    assert guard.view.shape == shape and (guard.view.view() == -1).all()
    guard.view[...] = 0
    assert not guard.damage()
    guard.raw[np.flatnonzero(guard.gaps)[-1]] = 1
    assert "guard byte" in guard.damage()


def test_special_data_holds_every_special_value():
    for dtype in harness.FLOATS:
        x = harness.data((40, 40), dtype, 1, "special").astype(np.float64)
        assert np.isnan(x).any() and np.isposinf(x).any() and np.isneginf(x).any()
        assert np.signbit(x[x == 0]).any() and not np.signbit(x[x == 0]).all()
    x = harness.data(1000, "uint8", 1, "special")
    assert {0, 255} <= set(x.tolist())


def test_refusals_are_read():
    with harness.refused(ValueError, "one", "two"):
        raise ValueError("one and two")
    for error, text in ((TypeError("one"), "one"), (ValueError("two"), "is not in")):
        expected = pytest.raises((AssertionError, TypeError), match=text)
        with expected, harness.refused(ValueError, "one"):
            raise error
    foreign = "incompatible function arguments"
    with pytest.raises(AssertionError, match=foreign), harness.refused(TypeError):
        raise TypeError(f"f(): {foreign}")


# What a failing test prints last is a line of Python; it stands for a user's copy and paste.
PLANTED = """
import numpy as np, cudml
right = cudml.{op}
def wrong(*args, out=None, **kwargs):
    result = right(*args, out=out, **kwargs)
    if min(result.shape) > 1 and {when}: result.reshape(-1)[-1:] += 3
    return result
cudml.{op} = wrong
"""
RANDOM = """
import sys
sys.path[:0] = {tests!r}
from hypothesis import Phase, settings
settings.register_profile("planted", deadline=None, database=None, phases=[Phase.generate])
settings.load_profile("planted")
{planted}
import tests.{module} as module
def test_it():
    module.{test}({argument!r})
"""
CASES = {
    "pad.test_properties": ("padding", "test_random_problems", 4),
    "pool.test_properties": ("average_pooling", "test_average_pooling", "single"),
    "mvn.test_properties": ("mean_variance_normalization", "test_random_problems", "float32"),
}


def run_python(text: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": IMPORTS[-1]}
    return subprocess.run(
        [sys.executable, *words], input=text, capture_output=True, text=True, cwd=folder,
        env=environment, timeout=170,
    )  # fmt: skip


@pytest.mark.parametrize("module", CASES)
def test_a_random_failure_prints_a_line_that_repeats_it(module: str, tmp_path: Path) -> None:
    """Pasted into a Python of its own it finds the planted fault, and nothing without the fault."""
    op, test, argument = CASES[module]
    planted = PLANTED.format(op=op, when="result.dtype.name != 'float64'")
    file = tmp_path / "test_planted.py"
    file.write_text(
        RANDOM.format(
            tests=list(TESTS), planted=planted, module=module, test=test, argument=argument
        )
    )
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(file)]
    done = run_python("", *words, folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = re.findall(r"^E +(import .*)$", done.stdout, re.M)
    assert len(set(lines)) == 1, done.stdout[-3000:]
    pasted = run_python(f"{planted}\n{lines[0]}\n", folder=ROOT)
    assert pasted.returncode == 1 and f"AssertionError: {op}(" in pasted.stderr, pasted.stderr
    if op == "padding":
        fine = run_python(f"{lines[0]}\n", folder=ROOT)
        assert fine.returncode == 0, fine.stderr


def test_recipes_of_arrays_that_were_made_otherwise() -> None:
    """Their bytes; also of those that were changed after they were made."""
    names = {"np": np, "data": harness.data, "unpacked": harness.unpacked}
    changed, made = harness.data((3, 4), "int16", 1), harness.data((3, 4), "int16", 1)
    changed[1, 2] += 1
    for x in (changed, made, np.arange(6.0).reshape(2, 3), made.astype("float16")[:, ::2]):
        again = eval(harness.recipe(x), names)
        assert again.tobytes() == x.tobytes() and (again.dtype, again.shape) == (x.dtype, x.shape)
    assert harness.recipe(made).startswith("data(") and "unpacked" in harness.recipe(changed)


def test_literals_mean_what_they_stand_for() -> None:
    values = [1, (2,), [3, None], np.float32(1.5), np.dtype("uint64"), math.inf, {"alpha": -0.0}]
    names = {"np": np, "inf": math.inf, "nan": math.nan}
    assert eval(literal(values), names) == [*values[:4], "uint64", *values[5:]]
