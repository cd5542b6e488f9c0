"""JAX's arrays on the CPU: every operator and element type; results are JAX's own arrays."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import (
    LABELS,
    Problem,
    bits,
    cases_of_type,
    child_says,
    every_operator,
    in_order,
    make,
)
from cudml import _operators
from directml_support import desc_of
from harness import data, refused

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy
X = data((2, 3, 5, 7), "float32")
POOLED = (2, 3, 4, 6)


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Where JAX would take a GPU that is there."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@contextlib.contextmanager
def wide(is_on: bool = True) -> Iterator[None]:
    """With types of 64 bits, which JAX does without by default."""
    if hasattr(jax, "enable_x64"):
        with jax.enable_x64(is_on):
            yield
    else:
        from jax.experimental import enable_x64

        with enable_x64(is_on):
            yield


def run(p: Problem, **changes: Any) -> list[Any]:
    """The problem's call on JAX's arrays."""
    arrays = [changes.pop(k, None) for k in p.arrays]
    arrays = [jnp.asarray(a) if t is None else t
              for a, t in zip(p.arrays.values(), arrays, strict=True)]  # fmt: skip
    result = getattr(_operators, p.op)(*arrays, *p.args, **{**p.kwargs, **changes})
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check_same(got: list[Any], want: list[np.ndarray]) -> None:
    """Arrays of JAX's on the CPU with NumPy's results: types, sizes, every bit."""
    for t, y in zip(got, want, strict=True):
        assert isinstance(t, jax.Array) and {d.platform for d in t.devices()} == {"cpu"}
        assert t.dtype == y.dtype and t.shape == y.shape
        assert bits(np.asarray(t)) == bits(y)


@pytest.mark.cell("JAX, CPU", "in", "out", "types")
@pytest.mark.parametrize(("label", "dtype"), cases_of_type())
def test_every_operator_and_type(label: str, dtype: str) -> None:
    p = make(label, dtype=dtype)
    with wide():
        before = [jnp.asarray(a) for a in p.arrays.values()]
        got = run(p, **dict(zip(p.arrays, before, strict=True)))
        check_same(got, p.run())
        pairs = zip(before, p.arrays.values(), strict=True)
        assert all(bits(np.asarray(t)) == bits(a) for t, a in pairs)


@pytest.mark.cell("JAX, CPU", "out")
@every_operator
def test_results_are_arrays_like_any_other(label: str) -> None:
    """They live on when everything else is gone, and go on through jit."""
    p = make(label)
    want = p.run()
    for _ in range(3):
        got = run(p)
        noise = [np.full(y.shape, 7, y.dtype) for y in want * 20]
        check_same(got, want)
        del noise
    doubled = jax.jit(lambda *a: [b + b for b in a])(*got)
    check_same(list(doubled), [y + y for y in want])


@pytest.mark.cell("JAX, CPU", "in")
@every_operator
def test_results_of_jit_as_inputs(label: str) -> None:
    """What XLA computed, transposed or reshaped, is taken as it lies."""
    p = make(label)
    moved = {k: jax.jit(lambda a: jnp.transpose(a) * 1)(np.ascontiguousarray(a.T))
             for k, a in p.arrays.items()}  # fmt: skip
    check_same(run(p, **moved), p.run())
    chained = {k: a + 0 for k, a in moved.items()}  # still to be computed, perhaps
    check_same(run(p, **chained), p.run())


@pytest.mark.cell("JAX, CPU", "out")
@pytest.mark.decision("D-TEN-8")
@every_operator
def test_results_are_row_major(label: str) -> None:
    """Whatever the order of the input: JAX's arrays have no other that is theirs."""
    p = make(label)
    arrays = {k: jnp.asarray(in_order(a, (0, 2, 3, 1))) for k, a in p.arrays.items()}
    got = run(p, **arrays)
    check_same(got, p.run())
    assert all(np.asarray(t).flags.c_contiguous for t in got)


@pytest.mark.cell("JAX, CPU", "out=")
@every_operator
def test_immutable_arrays_are_no_outputs(label: str) -> None:
    """Refused by operator and tensor, with the array as it was."""
    p = make(label)
    outputs = [jnp.full(s, 3, d) for s, d in zip(p.shapes, p.dtypes, strict=True)]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    with refused(ValueError, f"{p.op}: Output", "out", "read-only"):
        run(p, out=out)
    assert all((np.asarray(t) == 3).all() for t in outputs)


def test_no_mixture_with_numpy() -> None:
    y = np.full(POOLED, -1, "f4")
    for x, out in ((jnp.asarray(X), y), (X, jnp.asarray(y))):
        with refused(TypeError, "OutputTensor (out) is an array of", "numpy", "jax"):
            _operators.max_pooling(x, 2, out=out)
    assert (y == -1).all()


@pytest.mark.cell("JAX, CPU", "types")
def test_types_that_jax_does_without() -> None:
    """Without 64 bits JAX makes int64 an int32: asked for, that is refused and not done."""
    x = jnp.asarray(X)
    y, indices = _operators.max_pooling(x, 2, return_indices=True)
    assert indices.dtype == np.uint32 and isinstance(y, jax.Array)
    with wide(False):
        for name in ("int64", "uint64"):
            try:
                indices = _operators.max_pooling(x, 2, return_indices=True, index_dtype=name)[1]
            except TypeError as error:
                assert "max_pooling: " in str(error) and name in str(error)
                assert 'index_dtype="uint32" is the way' in str(error)
            else:
                assert indices.dtype == name
        try:
            count = _operators.normalization_statistics(x, axes=1)[0]
        except TypeError as error:
            assert "float64 here" in str(error) and 'dtype="float32" is the way' in str(error)
        else:
            assert count.dtype == "float64"
        assert _operators.normalization_statistics(x, axes=1, dtype="float32")[0].dtype == "float32"
    with wide():
        x64 = jnp.asarray(X.astype("f8"))
    with wide(False):
        try:
            y = _operators.average_pooling(x64, 2)
        except TypeError as error:
            assert "average_pooling: " in str(error) and "float64" in str(error)
        else:
            assert bits(np.asarray(y)) == bits(cudml.average_pooling(X.astype("f8"), 2))


@pytest.mark.cell("JAX, CPU", "types")
def test_types_that_are_refused() -> None:
    for dtype in (jnp.bool_, jnp.complex64, jnp.float8_e4m3fn, jnp.int4):
        with refused((TypeError, BufferError, RuntimeError), ""):
            _operators.max_pooling(jnp.zeros((1, 1, 4, 4), dtype), 2)


@pytest.mark.cell("JAX, CPU", "stream")
@every_operator
def test_a_stream_is_refused(label: str) -> None:
    p = make(label)
    for stream in (0, 1, object()):
        with refused(ValueError, f"{p.op}: stream is"):
            run(p, stream=stream)


def test_arrays_that_hold_nothing() -> None:
    """Deleted, donated and abstract ones: an exception, and the next call works."""
    x = jnp.asarray(X.copy()) + 0
    x.delete()
    with pytest.raises((RuntimeError, ValueError, BufferError, TypeError)):
        _operators.max_pooling(x, 2)
    for traced in (lambda t: _operators.max_pooling(t, 2), lambda t: cudml.padding(t, 1, 1)):
        with pytest.raises(Exception) as caught:
            jax.jit(traced)(jnp.asarray(X))
        assert "pybind11" not in str(caught.value)
    with pytest.raises(Exception) as caught:
        jax.vmap(lambda t: _operators.max_pooling(t, 2, axes=(-2, -1)))(jnp.asarray(X))
    check_same([_operators.max_pooling(jnp.asarray(X), 2)], [cudml.max_pooling(X, 2)])


SHARDED = """
import numpy as np
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import cudml
assert len(jax.devices()) == 2
mesh = Mesh(np.array(jax.devices()), ('n',))
x = np.random.default_rng(0).standard_normal((2, 3, 5, 7), dtype=np.float32)
whole = jax.device_put(x, NamedSharding(mesh, PartitionSpec('n')))
try:
    cudml.max_pooling(whole, 2)
except (BufferError, ValueError, RuntimeError, TypeError) as error:
    pass
else:
    raise SystemExit('an array on two devices was taken')
for part, device in zip((x[:1], x[1:]), jax.devices()):
    y = cudml.max_pooling(jax.device_put(part, device), 2)
    assert isinstance(y, jax.Array)
    assert np.array_equal(np.asarray(y), cudml.max_pooling(part, 2))
print('ok')
"""


def test_arrays_on_several_devices() -> None:
    """A sharded one is refused; one on the second of two CPU devices is taken."""
    flags = "--xla_force_host_platform_device_count=2"
    assert child_says(SHARDED, XLA_FLAGS=flags, JAX_PLATFORMS="cpu") == "ok"


@pytest.mark.cell("JAX, CPU", "in", "out")
@pytest.mark.parametrize(
    "name", ["MaxPooling2", "AveragePoolingGrad", "MeanVarianceNormalization2"]
)
def test_compiled_operators(name: str) -> None:
    desc = desc_of(name)
    field = "InputGradientTensor" if name.endswith("Grad") else "InputTensor"
    x = data(tuple(getattr(desc, field).Sizes), "float32")
    compiled = cudml.Operator(desc).compile("cpu")
    want = compiled(x)
    check_same([compiled(jnp.asarray(x))], [want])
    with refused(ValueError, "read-only"):
        compiled(jnp.asarray(x), out=jnp.asarray(want))


def test_nothing_is_kept() -> None:
    """Inputs and results are free as soon as the caller lets go."""
    x = jnp.asarray(X.copy()) + 0
    before = sys.getrefcount(x)
    for _ in range(50):
        y = _operators.max_pooling(x, 2)
        with pytest.raises(ValueError):
            _operators.max_pooling(x, 99)
    gc.collect()
    assert sys.getrefcount(x) == before
    alive = len(jax.live_arrays())
    del y
    gc.collect()
    assert len(jax.live_arrays()) == alive - 1


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for label in LABELS:
            run(make(label))
